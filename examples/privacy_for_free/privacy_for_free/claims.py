"""Claims of the paper on powers and access, measured on a study."""

from functools import partial

from pwfl.report.claims import POSITIVE, PROJECT, Band, Claim, Quantity, Reported, measure, once, only, scheme

GAP = Quantity("optimality_gap", "final normalized optimality gap", POSITIVE)
BOUND = "optimality_gap_bound"  # the column with the paper's bound on the gap

SUPERPOSED = scheme("superposed_adaptive", "receiver", "superposed adaptive")
SUPERPOSED_STATIC = scheme("superposed_static", "receiver", "superposed static")
SUPERPOSED_FULL = scheme("superposed_full", "receiver", "superposed without budget")
ORTHOGONAL = scheme("orthogonal_adaptive", "receiver", "orthogonal adaptive")
ORTHOGONAL_STATIC = scheme("orthogonal_static", "receiver", "orthogonal static")
ORTHOGONAL_FULL = scheme("orthogonal_full", "receiver", "orthogonal without budget")

# The authors' script of Fig. 3 marks privacy as free if the budget raises the bound by less than 5e-4. Computed here,
# this holds from epsilon 43 (superposed) or 97 (orthogonal) on. Claims that privacy is free are judged only there.
SETTING = {"network.devices": (10,), "radio.blocks": (30,), "radio.snr_db": (30.0,), "privacy.delta": (0.01,)}


# The setting of the authors' script of Fig. 3, which plots the bound, with the constants L and mu of its records.
OF_FIGURE = SETTING | {"privacy.epsilon": (20.0,)}
OF_FIGURE |= {"training.smoothness": (1.048,), "training.strong_convexity": (0.95,)}
BOUNDS = Quantity(BOUND, "bound on the final normalized optimality gap", POSITIVE)
NEEDED = Quantity("epsilon_paper", "ε that the power limit alone leaves", POSITIVE)
PLOTTED = {
    SUPERPOSED: Reported(0.0577, 0.05765, 0.05775),
    SUPERPOSED_STATIC: Reported(0.850, 0.8495, 0.8505),
    SUPERPOSED_FULL: Reported(0.0381, 0.03805, 0.03815),
    ORTHOGONAL: Reported(0.706, 0.7055, 0.7065),
    ORTHOGONAL_FULL: Reported(0.373, 0.3725, 0.3735),
}
FREE_FROM = {5.0: Reported(4.0, 3.95, 4.05), 15.0: Reported(17.7, 17.65, 17.75), 30.0: Reported(297, 296.5, 297.5)}


def _free(ratio):
    """Return a ratio of gaps, and the same ratio of the paper's bounds on the gaps."""
    return ratio, ratio[BOUND]


CLAIMS = (
    Claim(
        id="A-1",
        statement="With superposed access and an ample budget, privacy is free.",
        source="Abstract, Fig. 3",
        reported='"without affecting the learning performance"',
        quantity=GAP,
        compare=_free(SUPERPOSED / SUPERPOSED_FULL),
        required=Band(most=1.1),
        range_source=PROJECT,
        setting=SETTING | {"privacy.epsilon": (50.0, 100.0)},
    ),
    Claim(
        id="A-2",
        statement="With orthogonal access and an ample budget, privacy is free.",
        source="Abstract, Fig. 3",
        reported='"without affecting the learning performance"',
        quantity=GAP,
        compare=_free(ORTHOGONAL / ORTHOGONAL_FULL),
        required=Band(most=1.1),
        range_source=PROJECT,
        setting=SETTING | {"privacy.epsilon": (100.0,)},
    ),
    Claim(
        id="F3-1",
        statement="Adaptive power leaves a smaller gap than static power.",
        source="Fig. 3",
        quantity=GAP,
        compare=(SUPERPOSED / SUPERPOSED_STATIC, ORTHOGONAL / ORTHOGONAL_STATIC),
        required=Band(below=1),
        setting=SETTING,
    ),
    Claim(
        id="F3-2",
        statement="Superposed access leaves a smaller gap than orthogonal access.",
        source="Fig. 3",
        quantity=GAP,
        compare=(SUPERPOSED / ORTHOGONAL, SUPERPOSED_STATIC / ORTHOGONAL_STATIC),
        required=Band(below=1),
        setting=SETTING,
    ),
    *(
        Claim(
            id=f"F3-{number}",
            statement=f"At ε = 20 and 30 dB, the bound of {each.words} power is {reported.value:g}.",
            source="Fig. 3, by the authors' script",
            reported=f"{reported.value:g}",
            quantity=BOUNDS,
            compare=each,
            required=reported,
            setting=OF_FIGURE,
            among=only(lambda scenario: scenario.privacy.epsilon == 20.0),
        )
        for number, (each, reported) in enumerate(PLOTTED.items(), start=3)
    ),
    *(
        Claim(
            id=f"F4-{number}",
            statement=f"At {snr:g} dB, superposed access is as private as ε = {reported.value:g} by its power limit.",
            source="Fig. 4, by the authors' script",
            reported=f"{reported.value:g}",
            quantity=NEEDED,
            compare=SUPERPOSED_FULL,
            required=reported,
            setting=SETTING | {"radio.snr_db": (snr,)},
            among=once(*("privacy.epsilon", "training", "schemes"), where=lambda one, snr=snr: one.radio.snr_db == snr),
        )
        for number, (snr, reported) in enumerate(FREE_FROM.items(), start=1)
    ),
)
claims = partial(measure, CLAIMS)
