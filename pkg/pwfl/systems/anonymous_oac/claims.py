"""Claims of Hasırcıoğlu and Gündüz, in the paper's order, and claims of this project, measured on a study."""

from collections.abc import Hashable
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from pwfl.privacy import sampled
from pwfl.report.claims import (
    MORE,
    POSITIVE,
    PROJECT,
    SHARE,
    Band,
    Claim,
    Interpretation,
    Quantity,
    Term,
    by_scheme,
    combine_means,
    measure,
    once,
    only,
    scheme,
    statistic,
    value,
)
from pwfl.report.measures import Measure, fixed
from pwfl.systems.anonymous_oac import schemes

CLOSE = 1e-6  # relative difference up to which numbers are treated as equal
MULTIPLIER, MANIPULATED = "noise_multiplier", "estimate_scale_of_one_device"
ACCOUNTANTS = {"renyi": "Rényi DP", "tight": "exact accounting", "advanced_composition": "advanced composition"}

NOISE = Quantity(MULTIPLIER, "noise multiplier at equal ε", POSITIVE)
ACCURACY = Quantity("accuracy", "final test accuracy at equal ε", SHARE)
EPSILON = Quantity("epsilon", "record-level ε after all rounds", POSITIVE)

ANONYMOUS = scheme("over_the_air", "anonymous", "Anonymous OAC")
KNOWN = scheme("over_the_air", "identified", "OAC, participation known")
ORTHOGONAL = scheme("orthogonal", "local", "Orthogonal")
FIXED_NOISE = (
    (scheme("over_the_air", "anonymous_fixed", "Anonymous OAC, fixed noise"), ANONYMOUS),
    (scheme("over_the_air", "identified_fixed", "OAC, participation known, fixed noise"), KNOWN),
    (scheme("orthogonal", "local_fixed", "Orthogonal, fixed noise"), ORTHOGONAL),
)
# Epsilon of the scenario's p and q by exact accounting, for each interpretation of what the server can infer.
SEES_SUM = value("anonymous", "only the sum is seen")
READS_SIZE = value("anonymous_read", "the batch's size is read off the noise")
SEES_WHO = value("identified", "participation is known")
SEES_BOTH = value("identified_read", "participation is known, the batch's size is read")

SETTING = {"privacy.target_epsilon": (None,)}  # the paper's setting, with the configured noise
EVERYWHERE = {}  # for claims on noise and accuracy: the paper trains nothing, so any training is in its setting
RATES = ("network.participation", "data.sampling", "schemes", "realizations", "training_realizations")
OF_ANY_RATES = once(*RATES)  # for claims in which Fig. 1 fixes p q
AS_LONG = once(*RATES, where=lambda scenario: scenario.training.rounds >= 1000)
OF_EACH_RATE = once(*RATES, same=lambda scenario: round(scenario.network.participation * scenario.data.sampling, 12))
AT_SMALL_RATE = only(lambda scenario: scenario.network.participation * scenario.data.sampling <= 0.01 * (1 + CLOSE))


def _divide(one: float, other: float) -> Measure:
    """Return the ratio of two epsilons, which may both be zero or infinite."""
    return fixed(1.0 if one == other else one / other if other else np.inf)


def _divide_first(ones: np.ndarray, others: np.ndarray) -> Measure:
    """Return the ratio of two multipliers, which are the same in all realizations."""
    return _divide(ones[0], others[0])


def _divide_in_average(means: np.ndarray) -> np.ndarray:
    """Divide a multiplier by that of separate devices times sqrt(a_t), the factor of their noise in the average."""
    return means[0] / (means[1] * np.sqrt(means[2]))


def _divide_extremes(epsilon: np.ndarray) -> Measure | None:
    return _divide(epsilon.max(), epsilon.min()) if len(epsilon) else None


def _divide_failing(failing: tuple[float, str], sound: tuple[float, str]) -> Measure:
    return _divide(failing[0], sound[0])._replace(detail=failing[1])


def _not_random(term: Term) -> Term:
    """Return a term for a value without randomness."""
    return statistic(term.words, fixed, term)


def _total(accountant: str, rate: float) -> Term:
    """Return the term for epsilon after all rounds of Fig. 1, with participation hidden, at a sampling rate p q."""
    return _not_random(value((accountant, "anonymous", 1.0, rate), f"{ACCOUNTANTS[accountant]} at p q = {rate:g}"))


def _if_fail(devices: str) -> Term:
    """Return the term for the factor by which epsilon grows if some devices fail to transmit."""
    words = f"{devices} fail"
    return statistic(f"{words} / none fails", _divide_failing, value(words), value("none fails"))


def _check_theorem_1(_epsilon: float) -> Measure:
    """Compute the smallest ratio of Theorem 1's divergence to the numerical one, on a grid; no scenario is used.

    Sec. V has a multiplier of 1, to which the theorem does not apply.
    """
    ratios = [
        (closed := sampled.renyi_closed_form(rate, multiplier))[known := np.isfinite(closed)]
        / sampled.renyi(rate, multiplier)[known]
        for rate, multiplier in product((1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2), (4.0, 5.0, 7.0, 10.0, 15.0, 20.0))
    ]
    all_ratios = np.concatenate(ratios)
    return fixed(all_ratios.min())._replace(detail=f"{len(all_ratios)} cases")


INTERPRETATIONS = (
    Interpretation(
        "I1",
        "Which p and q make p q “on the order of 0.01”.",
        "Those of each scenario; config/anonymous_oac.yaml has p = q = 0.1, p = 0.02 and p = 0.5.",
    ),
    Interpretation(
        "I2",
        "What the server can infer: who takes part, and how many records.",
        "Nothing but the sum, as Lemma 3 assumes.",
    ),
    Interpretation(
        "I3",
        "How many devices fail to transmit, and how much is “gracefully”.",
        "A tenth of the participants, or one device; ε grows by at most half.",
    ),
    Interpretation("I4", "Which ε is in “an acceptable range”.", "10 or less."),
    Interpretation(
        "I5",
        "“α values from 1 to 64”: which.",
        "Integers from 2 to 64, at which bounds for replaced records are proved; no verdict depends on it.",
    ),
    Interpretation(
        "I6",
        "Whether ε is what the paper's accountant bounds it by, or what it is by exact accounting.",
        "The paper's bound where the paper calls ε high (F1-1, F1-2), exact accounting where it calls ε acceptable.",
    ),
)

PAPER_CLAIMS = (
    Claim(
        id="A-3",
        statement="Over the air, devices use the spectrum more efficiently than with orthogonal transmission.",
        source="Abstract",
        reported="a much more efficient use of the available spectrum",
        setting=EVERYWHERE,
        why="Follows from the set-up: over the air, a round takes one symbol per parameter, however many devices send.",
    ),
    Claim(
        id="A-1",
        statement="Hiding who transmits reduces the noise that must be injected.",
        source="Abstract",
        reported="improves the performance of private wireless FL by reducing the amount of noise",
        quantity=NOISE,
        compare=statistic(
            "Anonymous OAC / (OAC, participation known)", _divide_first, ANONYMOUS, KNOWN, bounds=POSITIVE
        ),
        required=Band(below=1),
        setting=EVERYWHERE,
    ),
    Claim(
        id="A-2",
        statement="Hiding who transmits improves the accuracy of private learning.",
        source="Abstract",
        reported="improves the performance of private wireless FL by reducing the amount of noise",
        quantity=ACCURACY,
        compare=ANONYMOUS - KNOWN,
        required=MORE,
        setting=EVERYWHERE,
    ),
    Claim(
        id="S1-1",
        statement="The same protection requires less noise over the air than with orthogonal transmission.",
        source="Sec. I",
        reported="the same amount of protection with less perturbation, improving also the final accuracy",
        quantity=NOISE,
        compare=combine_means(
            "(OAC, participation known) / Orthogonal, in the averaged update",
            _divide_in_average,
            *(KNOWN, ORTHOGONAL, ORTHOGONAL["participants"]),
            bounds=POSITIVE,
        ),
        required=Band(below=1),
        setting=EVERYWHERE,
    ),
    Claim(
        id="S1-2",
        statement="At the same protection, learning over the air is more accurate than with orthogonal transmission.",
        source="Sec. I",
        reported="the same amount of protection with less perturbation, improving also the final accuracy",
        quantity=ACCURACY,
        compare=KNOWN - ORTHOGONAL,
        required=MORE,
        setting=EVERYWHERE,
    ),
    Claim(
        id="L3-1",
        statement="The server cannot infer how many devices transmit.",
        source="Lemma 3",
        setting=EVERYWHERE,
        why="Assumed here: the received power does not tell it. Noise whose strength follows the batch tells the "
        "batch's size; F1-3 has the ε of a server that reads it (I2).",
    ),
    Claim(
        id="L3-2",
        statement="Sampling devices with p and their records with q is as private as sampling all records with p q.",
        source="Sec. IV-A",
        reported="equivalent to subsampling in the centralized setting with probability p q",
        setting=EVERYWHERE,
        why="Assumed here of a server that sees the sum alone. F1-3 has the ε of servers that infer more (I2).",
    ),
    Claim(
        id="L4-2",
        statement="If k of a_t devices fail to transmit, √((a_t - k) / a_t) of the noise's standard deviation is left.",
        source="Lemma 4",
        setting=EVERYWHERE,
        why="Follows from adding up independent noise. L4-1 measures what it does to ε.",
    ),
    Claim(
        id="L4-1",
        statement="If devices fail to transmit, privacy degrades gracefully.",
        source="Lemma 4",
        reported="gracefully",
        quantity=EPSILON,
        compare=_if_fail("a few"),
        otherwise={"I3: half of the participants fail": _if_fail("half")},
        required=Band(most=1.5),
        range_source=PROJECT,
        setting=SETTING,
        among=OF_EACH_RATE,
    ),
    Claim(
        id="S4C-1",
        statement="The guarantee holds if the server manipulates the channel estimates.",
        source="Sec. IV-C",
        reported="robust against pilot attacks",
        setting=EVERYWHERE,
        why="Follows from (1) if all estimates are scaled alike, as with a common pilot: the channel's noise is not "
        "counted. The figure channel_estimate shows how ε rises if one device's estimate alone is scaled.",
    ),
    Claim(
        id="T1-1",
        statement="For p q ≤ 1/5 and σ̃ ≥ 4, a round is (α, 2 p² q² α / σ̃²)-RDP if α satisfies (3) and (4).",
        source="Theorem 1",
        quantity=Quantity(None, "Theorem 1 / Rényi divergence of a round, where its conditions hold", POSITIVE),
        compare=statistic("least over p q, σ̃ and α", _check_theorem_1, SEES_SUM),
        required=Band(least=1),
        setting=EVERYWHERE,
        among=OF_ANY_RATES,
    ),
    Claim(
        id="S5-1",
        statement="At p q = 1, Rényi accounting states a smaller ε than advanced composition.",
        source="Sec. V",
        reported="performs much better",
        quantity=EPSILON,
        compare=statistic(
            "advanced composition / Rényi DP",
            _divide,
            *(_total("advanced_composition", 1.0), _total("renyi", 1.0)),
        ),
        required=Band(above=1),
        setting=SETTING,
        among=OF_ANY_RATES,
    ),
    Claim(
        id="F1-1",
        statement="At p q = 1, ε is more than 100.",
        source="Sec. V, Fig. 1",
        reported="more than 100",
        quantity=EPSILON,
        compare=_total("renyi", 1.0),
        otherwise={"I6: exact accounting": _total("tight", 1.0)},
        required=Band(above=100),
        setting=SETTING,
        among=AS_LONG,
    ),
    Claim(
        id="F1-2",
        statement="At p q = 0.5, ε is more than 100.",
        source="Sec. V, Fig. 1",
        reported="more than 100",
        quantity=EPSILON,
        compare=_total("renyi", 0.5),
        otherwise={"I6: exact accounting": _total("tight", 0.5)},
        required=Band(above=100),
        setting=SETTING,
        among=AS_LONG,
    ),
    Claim(
        id="F1-3",
        statement="At p q of 0.01 or less, ε is acceptable.",
        source="Sec. V",
        reported="an acceptable range at p q of 0.01",
        quantity=EPSILON,
        compare=_not_random(SEES_SUM),
        otherwise={f"I2: {sees.words}": _not_random(sees) for sees in (READS_SIZE, SEES_WHO, SEES_BOTH)},
        required=Band(most=10),
        range_source=PROJECT,
        setting=SETTING,
        among=AT_SMALL_RATE,
    ),
)

DOCS = "docs/explanation/anonymous_oac.md"
OWN_CLAIMS = (
    Claim(
        id="X-1",
        statement="Sampling devices and records hides as much as Lemma 3 says even if the server infers more.",
        source=DOCS,
        quantity=EPSILON,
        compare=tuple(
            statistic(f"{sees.words} / {SEES_SUM.words}", _divide, sees, SEES_SUM) for sees in (READS_SIZE, SEES_WHO)
        ),
        required=Band(most=1 + CLOSE),
        among=only(lambda scenario: scenario.network.participation < 1),
    ),
    Claim(
        id="X-2",
        statement="ε does not depend on the server's channel estimate of one device.",
        source=DOCS,
        quantity=EPSILON,
        # If all estimates are scaled alike, epsilon stays the same by an identity.
        compare=statistic("largest / smallest over the estimate's scale", _divide_extremes, value(MANIPULATED)),
        required=Band(most=1 + CLOSE),
    ),
    Claim(
        id="X-3",
        statement="Noise of fixed strength costs no accuracy, compared with noise that follows the batch.",
        source=DOCS,
        quantity=ACCURACY,
        compare=tuple(constant - batch for constant, batch in FIXED_NOISE),
        required=Band(least=0),
    ),
)


def claims(contents: dict[str, dict]) -> pl.DataFrame:
    """Measure the claims as far as the scenarios and their schemes allow.

    `contents` has, by scenario, `scenario`, `realizations` and `curves`. Guarantees are not random. Accuracies are
    compared realization by realization; a training run that diverged has the accuracy of guessing.
    """
    return measure(PAPER_CLAIMS + OWN_CLAIMS, contents, _series, INTERPRETATIONS)


def _series(content: dict) -> dict:
    return _outcomes(content) | _epsilons(content) | _failures(content)


def _outcomes(content: dict) -> dict:
    """Return final accuracies, participants, epsilons and (if there is a guarantee) noise multipliers by scheme."""
    columns = ("accuracy", "participants", MULTIPLIER, "epsilon")
    series = by_scheme(content["scenario"], content["realizations"], columns)
    private = {pair for pair, column in series if np.isfinite(series[pair, "epsilon"]).all()}
    return {name: values for name, values in series.items() if name[1] != MULTIPLIER or name[0] in private}


def _epsilons(content: dict) -> dict:
    """Return epsilon after all rounds by accountant, reading, participation and rate, and the scenario's by reading."""
    p, q = content["scenario"].network.participation, content["scenario"].data.sampling
    last = first_curves(content, "rounds").filter(x=content["scenario"].training.rounds)
    columns = last.select("method", "reading", "participation", "sampling_rate", "epsilon")
    epsilon: dict[Hashable, Any] = {tuple(key): value for *key, value in reversed(columns.rows())}
    for reading in ("anonymous", "anonymous_read", "identified", "identified_read"):
        rates = (p, q) if schemes.READINGS[reading].participation else (1.0, p * q)
        epsilon[reading] = epsilon.get(("tight", reading, *rates))
    return epsilon | {MANIPULATED: first_curves(content, MANIPULATED)["epsilon"].to_numpy()}  # Sec. IV-C


def _failures(content: dict) -> dict:
    """Return epsilon if no device fails, if a few do, and if half of the participants do, with these numbers."""
    network, failed = content["scenario"].network, first_curves(content, "failed_devices").sort("x")
    participants = max(1, round(network.devices * network.participation))
    failures = [
        (epsilon, f"{count:g} of {participants} participants")
        for count, epsilon in failed.select("x", "epsilon").iter_rows()
    ]
    if len(failures) < 2:
        return {}
    few = {"a few fail": failures[1]} if len(failures) > 2 else {}
    return few | {"none fails": failures[0], "half fail": failures[-1]}


def first_curves(tables: dict[str, pl.DataFrame], *quantities: str) -> pl.DataFrame:
    """Select the first scheme's rows of some quantities: curves that schemes share are repeated for each scheme."""
    return tables["curves"].filter(
        pl.col("scheme") == pl.col("scheme").first(), pl.col("quantity").cast(pl.String).is_in(quantities)
    )
