"""The paper's claims about the system `anonymous_oac`, and those its comparison would make, on a study's scenarios."""

import numpy as np
import polars as pl

from pwfl.learning import datasets
from pwfl.report import claims as common
from pwfl.report.claims import Band, Claim, difference, fixed
from pwfl.systems.anonymous_oac import schemes

ANONYMOUS, IDENTIFIED, ORTHOGONAL = (
    ("over_the_air", "anonymous"),
    ("over_the_air", "identified"),
    ("orthogonal", "local"),
)
ACCEPTABLE = 10.0  # epsilon that many still call a guarantee
GRACEFUL = 1.5  # factor on epsilon that is read as graceful
CLOSE = 1e-6
PAPER_ROUNDS = 1000
BEYOND = "not in the paper"
READINGS = {
    "anonymous": "hidden",
    "anonymous_read": "hidden, but the batch's size read off the noise",
    "identified": "known to the server",
    "identified_read": "known, and the batch's size read off the noise",
}
INFERRED = {
    "anonymous_read": "the batch's size is read off the noise",
    "identified": "participation can be inferred",
}


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The claims on each scenario, as far as it lets them be measured.

    `scenarios` maps a name to `scenario` (all that any stage reads) and the report's tables. Guarantees are not
    random. Accuracies are compared realization by realization; a training that diverged guesses.
    """
    rows = []
    for name, content in scenarios.items():
        for part in (_privacy(content), _robustness(content), _accuracy(content)):
            rows += [common.row(claim, name, measure) for claim, measure in part]
    return common.table(rows)


def _privacy(content: dict):
    """Sec. V: epsilon after all rounds, by accountant and reading."""
    rounds = content["scenario"].training.rounds
    p, q = content["scenario"].network.participation, content["scenario"].data.sampling
    last = _leakage(content, "rounds").filter(pl.col("x") == rounds)

    def epsilon(method, reading, participation, rate):
        found = last.filter(
            method=method, reading=reading, participation=float(participation), sampling_rate=float(rate)
        )
        return found["epsilon"][0] if len(found) else None

    act, unsampled = (epsilon(method, "anonymous", 1, 1) for method in ("advanced_composition", "renyi"))
    if act is not None and unsampled is not None:
        yield (
            Claim(
                "1. Renyi DP accounts better than advanced composition at p q = 1 (ratio of epsilons)",
                Band(above=1),
                "Sec. V",
                "performs much better",
            ),
            fixed(_ratio(act, unsampled)),
        )
    for rate in (1.0, 0.5) if rounds >= PAPER_ROUNDS else ():
        for method, words in (("renyi", "the paper's accountant"), ("tight", "exact accounting")):
            if (value := epsilon(method, "anonymous", 1, rate)) is not None:
                yield (
                    Claim(
                        f"2. epsilon after all rounds is more than 100 at p q = {rate:g} ({words})",
                        Band(above=100),
                        "Sec. V, Fig. 1",
                        "more than 100",
                    ),
                    fixed(value),
                )
    readings = {
        reading: epsilon("tight", reading, *((p, q) if schemes.READINGS[reading].participation else (1, p * q)))
        for reading in READINGS
    }
    for reading, words in READINGS.items():
        if (value := readings[reading]) is not None:
            own = reading == "anonymous"
            yield (
                Claim(
                    f"3. epsilon after all rounds is acceptable at this p and q (tight, participation {words})",
                    Band(most=ACCEPTABLE),
                    "Sec. V" if own else BEYOND,
                    "an acceptable range at p q of 0.01" if own else None,
                ),
                fixed(value),
            )
    for reading, words in INFERRED.items():
        if p < 1 and readings[reading] is not None and readings["anonymous"] is not None:
            yield (
                Claim(
                    f"4. device sampling amplifies like record sampling, Lemma 3, even where {words} (ratio of "
                    "epsilons)",
                    Band(most=1 + CLOSE),
                    BEYOND,
                ),
                fixed(_ratio(readings[reading], readings["anonymous"])),
            )


def _robustness(content: dict):
    """Sec. IV: devices that fail, channel estimates that are manipulated."""
    network = content["scenario"].network
    participants = max(1, round(network.devices * network.participation))
    failed = _leakage(content, "failed_devices").sort("x")
    for k in dict.fromkeys((1, len(failed) - 1)) if len(failed) > 1 else ():
        count = failed["x"][k]
        yield (
            Claim(
                f"5. failing devices degrade epsilon gracefully ({count:g} of {participants} participants, ratio)",
                Band(most=GRACEFUL),
                "Lemma 4",
                "gracefully",
            ),
            fixed(_ratio(failed["epsilon"][k], failed["epsilon"][0])),
        )
    for quantity, whose, source in (
        ("estimate_scale", "all scaled alike", "Sec. IV-C"),
        ("estimate_scale_of_one_device", "that of one device alone", BEYOND),
    ):
        epsilon = _leakage(content, quantity)["epsilon"]
        if len(epsilon):
            yield (
                Claim(
                    f"6. epsilon does not depend on the server's channel estimates, {whose} (largest over least)",
                    Band(most=1 + CLOSE),
                    source,
                ),
                fixed(_ratio(epsilon.max(), epsilon.min())),
            )
    counting = _leakage(content, "estimate_scale_counting_channel_noise").sort("x")
    # Where there is channel noise to count, and a guarantee to lose.
    if counting["noise_multiplier"].n_unique() > 1 and counting["epsilon"].is_finite().all():
        yield (
            Claim("6. it does where channel noise is counted (ratio of extremes)", Band(above=1), "Sec. IV-C"),
            fixed(_ratio(counting["epsilon"][0], counting["epsilon"][-1])),
        )


def _accuracy(content: dict):
    """Final accuracies of schemes that are equally private."""
    classes = datasets.SIZES[content["scenario"].data.dataset].classes
    accuracy = {
        (scheme.scheduler, scheme.noise): common.accuracies(
            content["realizations"].filter(pl.col("scheme") == scheme.name), classes
        )
        for scheme in content["scenario"].schemes
    }
    above, not_below = Band(above=0), Band(least=0)
    compared = [
        ("anonymous OAC above OAC with known participation", above, ANONYMOUS, IDENTIFIED),
        ("OAC with known participation above orthogonal transmission", above, IDENTIFIED, ORTHOGONAL),
    ]
    compared += [
        (
            f"{words}, noise of fixed strength not below noise that follows the batch",
            not_below,
            (scheduler, f"{noise}_fixed"),
            (scheduler, noise),
        )
        for words, (scheduler, noise) in (
            ("anonymous OAC", ANONYMOUS),
            ("OAC with known participation", IDENTIFIED),
            ("orthogonal", ORTHOGONAL),
        )
    ]
    for words, band, first, second in compared:
        if first in accuracy and second in accuracy:
            values = common.paired(accuracy[first], accuracy[second])
            if values.shape[1]:
                yield (
                    Claim(f"7. final accuracy at equal privacy: {words} (difference)", band, BEYOND),
                    common.estimate(difference, values),
                )


def _leakage(content: dict, quantity: str) -> pl.DataFrame:
    """The rows of a quantity and of one scheme: curves that schemes share are in each one's table."""
    leakage = content["leakage"]
    return leakage.filter(pl.col("scheme") == pl.col("scheme").first(), pl.col("quantity").cast(pl.String) == quantity)


def _ratio(one: float, other: float) -> float:
    """Ratio of epsilons, which may both be zero or infinite."""
    if one == other:
        return 1.0
    return one / other if other else np.inf
