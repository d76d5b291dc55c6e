"""The paper's claims about the system `anonymous_oac`, and those its comparison would make, on a study's scenarios."""

import numpy as np
import polars as pl

from pwfl.report.claims import (
    OF_SHARES,
    POSITIVE,
    Band,
    Claim,
    Measure,
    by,
    by_means,
    by_scheme,
    difference,
    fixed,
    measure,
    table,
)
from pwfl.systems.anonymous_oac import schemes

ANONYMOUS, IDENTIFIED = ("over_the_air", "anonymous"), ("over_the_air", "identified")
ORTHOGONAL = ("orthogonal", "local")
ACCEPTABLE = 10.0  # epsilon that many still call a guarantee
GRACEFUL = 1.5  # factor on epsilon that is read as graceful
CLOSE = 1e-6
PAPER_ROUNDS = 1000
SMALL_RATE = 0.01  # p q at which the paper finds epsilon acceptable
BEYOND = "not in the paper"
MULTIPLIER = "noise_multiplier"
SETTING = {"privacy.target_epsilon": (None,)}  # the paper's, with the noise that is given
READINGS = {
    "anonymous": "hidden",
    "anonymous_read": "hidden, but the batch's size read off the noise",
    "identified": "known to the server",
    "identified_read": "known, and the batch's size read off the noise",
}


def _ratio(one: float, other: float) -> Measure:
    """Ratio of epsilons, which may both be zero or infinite."""
    return fixed(1.0 if one == other else one / other if other else np.inf)


def _extremes(epsilon: pl.Series) -> Measure | None:
    return _ratio(epsilon.max(), epsilon.min()) if len(epsilon) else None


def _after_paper_rounds(rounds: int, epsilon: float) -> Measure | None:
    return fixed(epsilon) if rounds >= PAPER_ROUNDS else None


def _in_the_average(means: np.ndarray) -> np.ndarray:
    """A multiplier over that of devices of their own, whose noise is sqrt(a_t) times as strong in the average."""
    return means[0] / (means[1] * np.sqrt(means[2]))


# What the paper says of pairs of schemes, where, and in which words; it trains nothing, so that any training is its
# setting.
ABSTRACT = ("Abstract", "improves the performance of private wireless FL by reducing the amount of noise")
ANALOG = ("Sec. I", "the same amount of protection with less perturbation, improving also the final accuracy")
# Final accuracies of two schemes, where their difference must lie, and where the paper says so, if it does.
ACCURACIES = (
    ("anonymous OAC above OAC with known participation", Band(above=0), ABSTRACT, ANONYMOUS, IDENTIFIED),
    ("OAC with known participation above orthogonal transmission", Band(above=0), ANALOG, IDENTIFIED, ORTHOGONAL),
    *(
        (f"{words}, noise of fixed strength not below noise that follows the batch", Band(least=0), None, *pair)
        for words, *pair in (
            ("anonymous OAC", ("over_the_air", "anonymous_fixed"), ANONYMOUS),
            ("OAC with known participation", ("over_the_air", "identified_fixed"), IDENTIFIED),
            ("orthogonal", ("orthogonal", "local_fixed"), ORTHOGONAL),
        )
    ),
)
# Epsilons are named by method, reading, participation and sampling rate; those at the scenario's own, by the reading.
CLAIMS = (
    Claim(
        "1. Renyi DP accounts better than advanced composition at p q = 1 (ratio of epsilons)",
        Band(above=1),
        "Sec. V",
        "performs much better",
        by(_ratio, ("advanced_composition", "anonymous", 1.0, 1.0), ("renyi", "anonymous", 1.0, 1.0)),
        SETTING,
    ),
    *(
        Claim(
            f"3. epsilon after all rounds is acceptable at p q = {SMALL_RATE:g} or less (tight, participation {words})",
            Band(most=ACCEPTABLE),
            "Sec. V" if reading == "anonymous" else BEYOND,
            f"an acceptable range at p q of {SMALL_RATE:g}" if reading == "anonymous" else None,
            by(fixed, (reading, "small rate")),
            SETTING if reading == "anonymous" else None,
        )
        for reading, words in READINGS.items()
    ),
    *(
        Claim(
            f"2. epsilon after all rounds is more than 100 at p q = {rate:g} ({words})",
            Band(above=100),
            "Sec. V, Fig. 1",
            "more than 100",
            by(_after_paper_rounds, "rounds", (method, "anonymous", 1.0, rate)),
            SETTING,
        )
        for rate in (1.0, 0.5)
        for method, words in (("renyi", "the paper's accountant"), ("tight", "exact accounting"))
    ),
    *(
        Claim(
            f"4. device sampling amplifies like record sampling, Lemma 3, even where {words} (ratio of epsilons)",
            Band(most=1 + CLOSE),
            BEYOND,
            measured=by(_ratio, reading, "sampled"),
        )
        for reading, words in (
            ("anonymous_read", "the batch's size is read off the noise"),
            ("identified", "participation can be inferred"),
        )
    ),
    Claim(  # that it does not on all of them, scaled alike, is an identity
        "6. epsilon does not depend on the server's channel estimate of one device (largest over least)",
        Band(most=1 + CLOSE),
        BEYOND,
        measured=by(_extremes, "estimate_scale_of_one_device"),
    ),
    *(
        Claim(
            f"7. final accuracy at equal privacy: {words} (difference)",
            band,
            *(said or (BEYOND, None)),
            by_means(difference, *((scheme, "accuracy") for scheme in pair)),
            {} if said else None,
            OF_SHARES,
        )
        for words, band, said, *pair in ACCURACIES
    ),
    Claim(
        "8. noise multiplier at equal privacy: anonymous OAC over OAC with known participation (ratio)",
        Band(below=1),
        *ABSTRACT,
        by(lambda one, other: _ratio(one[0], other[0]), (ANONYMOUS, MULTIPLIER), (IDENTIFIED, MULTIPLIER)),
        {},
        POSITIVE,
    ),
    Claim(
        "8. noise multiplier at equal privacy: OAC with known participation over orthogonal transmission, in the "
        "average of the updates (ratio)",
        Band(below=1),
        *ANALOG,
        by_means(_in_the_average, (IDENTIFIED, MULTIPLIER), (ORTHOGONAL, MULTIPLIER), (ORTHOGONAL, "participants")),
        {},
        POSITIVE,
    ),
)
FAILURES = tuple(
    Claim(
        f"5. failing devices degrade epsilon gracefully ({words}, ratio)",
        Band(most=GRACEFUL),
        "Lemma 4; {failed} of {participants} participants",
        "gracefully",
        by(_ratio, "some failed", "none failed"),
        SETTING,
    )
    for words in ("few of the participants", "half of the participants")
)


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The claims on each scenario, as far as it lets them be measured.

    Guarantees are not random. Accuracies are compared realization by realization; a training that diverged guesses.
    """
    rows = []
    for name, content in scenarios.items():
        scenario = content["scenario"]
        rows += measure(CLAIMS, {name: scenario}, _epsilons(content) | _by_scheme(content))
        participants = max(1, round(scenario.network.devices * scenario.network.participation))
        failed = _curve(content, "failed_devices").sort("x")
        for k, claim in {1: FAILURES[0], len(failed) - 1: FAILURES[1]}.items() if len(failed) > 1 else ():
            series = {"some failed": failed["epsilon"][k], "none failed": failed["epsilon"][0]}
            count = f"{failed['x'][k]:g}"
            rows += measure([claim], {name: scenario}, series, failed=count, participants=participants)
    return table(rows)


def _by_scheme(content: dict) -> dict:
    """Final accuracies, participants and noise multipliers of each scheme; multipliers where there is a guarantee."""
    columns = ("accuracy", "participants", MULTIPLIER, "epsilon")
    series = by_scheme(content["scenario"], content["realizations"], columns)
    private = {pair for pair, column in series if np.isfinite(series[pair, "epsilon"]).all()}
    return {name: values for name, values in series.items() if name[1] != MULTIPLIER or name[0] in private}


def _epsilons(content: dict) -> dict:
    """Sec. V: epsilon after all rounds, by accountant and reading."""
    p, q = content["scenario"].network.participation, content["scenario"].data.sampling
    rounds = content["scenario"].training.rounds
    last = _curve(content, "rounds").filter(pl.col("x") == rounds)
    columns = last.select("method", "reading", "participation", "sampling_rate", "epsilon")
    epsilon = {tuple(key): value for *key, value in reversed(columns.rows())}
    for reading in READINGS:
        rates = (p, q) if schemes.READINGS[reading].participation else (1.0, p * q)
        epsilon[reading] = epsilon.get(("tight", reading, *rates))
        epsilon[reading, "small rate"] = epsilon[reading] if p * q <= SMALL_RATE * (1 + CLOSE) else None
    manipulated = "estimate_scale_of_one_device"  # Sec. IV-C
    epsilon[manipulated] = _curve(content, manipulated)["epsilon"]
    return epsilon | {"rounds": rounds, "sampled": epsilon["anonymous"] if p < 1 else None}


def _curve(content: dict, quantity: str) -> pl.DataFrame:
    """The rows of a quantity and of one scheme: curves that schemes share are in each one's table."""
    curves = content["curves"]
    return curves.filter(pl.col("scheme") == pl.col("scheme").first(), pl.col("quantity").cast(pl.String) == quantity)
