"""The paper of the system `anonymous_oac` for the study report: figure, errata, and functions of equations."""

from dataclasses import replace

import polars as pl

from pwfl.report.curves import empty, exact
from pwfl.report.paper import Mark, Panel, Paper
from pwfl.systems.anonymous_oac.claims import INTERPRETATIONS, PAPER_CLAIMS

ADVANCED = "act"  # the paper's name of advanced composition, at p q = 1
ACCOUNTANTS = {"renyi": "p q = {:g}", "tight": "p q = {:g}, exact"}  # the paper's accountant, and this project's


def _total_privacy(contents: dict[str, dict]) -> pl.DataFrame:
    """Return epsilon over the rounds by accountant and sampling rate, with participation hidden, for one scenario.

    The first scenario with `curves` serves: epsilon depends on no realization, and on none of the parameters in which a
    study's scenarios differ.
    """
    content = next((candidate for candidate in contents.values() if "curves" in candidate), None)
    if content is None:
        return empty()
    privacy = content["scenario"].privacy
    rows = (
        content["curves"]
        .cast({"quantity": pl.String, "reading": pl.String, "method": pl.String})
        .filter(quantity="rounds", reading="anonymous", participation=1.0, noise_multiplier=privacy.noise_multiplier)
        .filter(pl.col("epsilon").is_finite(), pl.col("epsilon") > 0)
        .unique(["method", "sampling_rate", "x"], keep="first", maintain_order=True)  # schemes share curves
        .sort("x")
    )
    named = [(ADVANCED, "advanced_composition", 1.0)]
    named += [(name.format(rate), key, rate) for key, name in ACCOUNTANTS.items() for rate in privacy.curve_rates]
    curves = [(name, rows.filter(method=method, sampling_rate=rate)) for name, method, rate in named]
    frames = [exact(name, row["x"].to_numpy(), row["epsilon"].to_numpy()) for name, row in curves if len(row)]
    return pl.concat(frames) if frames else empty()


def _by_renyi(contents: dict[str, dict]) -> pl.DataFrame:
    """Return the same without advanced composition, which would squeeze the other curves on a linear axis."""
    return _total_privacy(contents).filter(pl.col("series") != ADVANCED)


FIGURE_1 = Panel(
    name="1",
    title="Cumulative ε of a record, δ = 10⁻⁵",
    x="round",
    curves=_total_privacy,
    marks=(Mark("F1-1", "y", "paper: more than 100", 100.0),),
    captions={
        "S5-1": "Rényi DP below advanced composition (act)",
        "F1-1": "p q = 1 above 100",
        "F1-2": "p q = 0.5 above 100",
        "F1-3": "p q = 0.01 acceptable",
    },
    log_y=True,
)
PAPER = Paper(
    idea="Devices transmit their updates at once, so the channel adds them up and the server sees the sum alone. Who "
    "takes part stays hidden, so a record is as private as if it were sampled far less often.",
    size="Sec. V as in the paper; the paper trains nothing, so MNIST with 100 devices is this project's choice",
    claims=PAPER_CLAIMS,
    interpretations=INTERPRETATIONS,
    panels=((FIGURE_1,), (replace(FIGURE_1, name="1, linear axis", curves=_by_renyi, captions={}, log_y=False),)),
    not_drawn={"The paper's curves": "Their data are not published. Only values that the text reports are marked."},
    errata=(
        ("Sec. III", "gradients are clipped by max{1, L / ‖g‖}", "min"),
        ("Lemma 4", "the noise variance degrades to σ̂ √((a - k) / a)", "its standard deviation"),
        ("Sec. V", "ε of 100 changes the output's distribution by a factor of 100", "by e¹⁰⁰"),
    ),
    equations=(
        ("fading (Sec. III)", "systems.anonymous_oac.fading.draw", ""),
        (
            "devices sampled with p, records with q",
            "systems.anonymous_oac.participation.batches, training.gradients.batches",
            "",
        ),
        ("noise σ = σ̃ 2L / b (Lemma 4, Theorem 1)", "systems.anonymous_oac.noise.run", ""),
        ("update (2), clipping", "training.rounds.advance_function", "accuracy, loss"),
        (
            "Rényi DP of a sampled round, Lemmas 1 and 2",
            "privacy.sampled.renyi, privacy.sampled.renyi_epsilon",
            "composition (Fig. 1)",
        ),
        ("advanced composition", "privacy.sampled.advanced_composition", "composition (Fig. 1)"),
        ("Theorem 1, (3), (4)", "privacy.sampled.renyi_closed_form", ""),
        ("failing devices, Lemma 4", "systems.anonymous_oac.account.robustness", "failures"),
        ("manipulated channel estimates (Sec. IV-C)", "systems.anonymous_oac.account.received", "channel_estimate"),
    ),
)
