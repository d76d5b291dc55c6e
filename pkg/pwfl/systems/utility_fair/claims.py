"""Claims of Alvi, Hong and Durrani, in their order, measured on a study's scenarios."""

from functools import partial

import numpy as np
import polars as pl

from pwfl.report.claims import (
    MNIST,
    MORE,
    POSITIVE,
    PROJECT,
    SHARE,
    Band,
    Claim,
    Interpretation,
    Quantity,
    Reported,
    Term,
    by_scheme,
    combine_means,
    measure,
    only,
    pairs,
    scheme,
)
from pwfl.report.columns import total

SUMS = ("ones", "path_loss_db", "energy_mj", "path_loss_squared", "path_loss_energy")
LEARNED = ("batch_loss", "batch_loss_std", "accuracy")
OF_DEVICES = ("energy_j", "energy_std_j", "learning_gain", "learning_gain_std", "utility", "utility_std")
OF_SAVING = ("utility_of_savers", "noise_multiplier_of_savers", "noise_multiplier_of_others", "batch_loss_of_others")
COLUMNS = (*LEARNED, *OF_DEVICES, *SUMS, *OF_SAVING)

LOSS = Quantity("batch_loss", "mean training loss over devices and rounds from the second on", POSITIVE)
LOSS_SPREAD = Quantity("batch_loss_std", "standard deviation over devices of the training loss", POSITIVE)
ACCURACY = Quantity("accuracy", "final test accuracy", SHARE)
ENERGY = Quantity("energy_j", "mean energy of a device's round", POSITIVE)
ENERGY_SPREAD = Quantity("energy_std_j", "standard deviation over devices of the mean energy of a round", POSITIVE)
SLOPE = Quantity(None, "slope of a device's mean energy of a round over its path loss, mJ/dB")
UTILITY_SPREAD = Quantity("utility_std", "standard deviation over devices of the mean utility (18)", POSITIVE)
RELATIVE_SPREAD = Quantity(None, "standard deviation over devices of the mean utility (18), share of its mean")
GAIN_SPREAD = Quantity(
    None, "standard deviation over devices of the mean learning gain in (18), share of its mean", POSITIVE
)
UTILITY_OF_SAVERS = Quantity("utility_of_savers", "mean utility (18) of devices that save effort")
COPIES = Quantity(None, "mean noise multiplier of a device's copies", POSITIVE)
LOSS_OF_OTHERS = Quantity("batch_loss_of_others", "mean training loss of devices that do not save effort", POSITIVE)

PROPOSED = scheme("utility", "fair", "Proposed")
BENCHMARK = scheme("benchmark", "independent", "Benchmark")
SHARED = scheme("benchmark", "shared", "Benchmark, shared noise")
# The same, in a scenario without another benchmark.
ONLY_SHARED = scheme("benchmark", "only shared", SHARED.words)
SHARED_NOISE = "I2: shared noise, as the paper says"

# The paper's setting: its noise, and no clipping.
SETTING = MNIST | {"privacy.target_epsilon": (None,), "training.clip_norm": (None,)}
NOBODY_SAVES = only(lambda scenario: not scenario.network.savers)
WITH_SAVERS = pairs(
    "with devices that save effort",
    "network.savers",
    matches=lambda first, other: other.network.savers and not first.network.savers,
)


def _find_slope(means: np.ndarray) -> np.ndarray:
    """Compute the slope of the regression of energy on path loss over all devices, from means of realizations' sums."""
    count, x, y, xx, xy = means
    return (count * xy - x * y) / (count * xx - x * x)


def _slope(term: Term) -> Term:
    return combine_means(term.words, _find_slope, *(term[column] for column in SUMS))


INTERPRETATIONS = (
    Interpretation(
        "I1",
        "What devices send: Sec. IV has local and global models noisy, Table I gives no ε for local ones.",
        "Updates without noise, as the loss claim comes out with these alone.",
        {"privacy.uploads": ("clean",)},
    ),
    Interpretation(
        "I2",
        "Whether the benchmark's copies, “the same for each MTD”, have one noise vector or each its own.",
        "Independent vectors of the same strength; the shared one is measured, too.",
    ),
    Interpretation(
        "I3",
        "What a device's update is compared with: (15) prints the model.",
        "The mean update.",
        {"utility.deviation": ("mean_update",)},
    ),
    Interpretation(
        "I4",
        "Over which rounds the numbers go: 200 are run, Fig. 1 shows 50.",
        "50; losses from the second on, as all copies of the first are clean.",
    ),
    Interpretation(
        "I5",
        "The noise power: N₀ of -174 dBm is without a bandwidth.",
        "-174 dBm in all; with N₀ B, energy falls by half.",
        {"radio.noise": ("as_printed",)},
    ),
    Interpretation(
        "I6",
        "Whose scale ς = 1 is: that of |h|, or the mean of |h|².",
        "That of |h|, so that |h|² has mean 2.",
        {"radio.fading_scale": (1.0,)},
    ),
    Interpretation(
        "I7",
        "What P_max = 0 dB is relative to.",
        "1 W; with 1 mW the schemes do not differ.",
        {"device.max_power_dbm": (30.0,)},
    ),
    Interpretation(
        "I8",
        "β₁ and β₂: (17) is one equation in two unknowns.",
        "β₂ is 0.5 J; β₁ fits the last round, and the same round where its utility is reported.",
        {"utility.beta_2_j": (0.5,)},
    ),
    Interpretation(
        "I9",
        "How a device reduces its cost on purpose.",
        "It computes j_min iterations and transmits at P_min (20), whatever the scheme.",
    ),
    Interpretation(
        "I10",
        "How much is “very similar”, “does not suffer”, “almost flat”, “severe” and “addresses”.",
        "10 % of a standard deviation, 1 point of accuracy, 0.02 mJ/dB, 10 % of the mean utility, half of its standard "
        "deviation.",
    ),
    Interpretation(
        "I11",
        "Which model and records the training loss of Fig. 1 is of: (2) has all records, batches have 128.",
        "A device's noisy copy, on the batch of the round, which is all of a round's data.",
    ),
)

# Claims that compare a scenario in which devices save effort with one in which the same devices do not.
OF_SAVERS = (
    Claim(
        id="A-1",
        statement="With the benchmark, a device raises its utility by saving effort.",
        source="Abstract",
        reported="enhance its utility",
        quantity=UTILITY_OF_SAVERS,
        compare=BENCHMARK.at(WITH_SAVERS) - BENCHMARK,
        otherwise={SHARED_NOISE: ONLY_SHARED.at(WITH_SAVERS) - ONLY_SHARED},
        required=MORE,
        setting=SETTING,
    ),
    Claim(
        id="S1-1",
        statement="With the benchmark, devices that save effort damage the training of the others.",
        source="Sec. I",
        reported="damages training efficiency",
        quantity=LOSS_OF_OTHERS,
        compare=BENCHMARK.at(WITH_SAVERS) / BENCHMARK - 1,
        otherwise={SHARED_NOISE: ONLY_SHARED.at(WITH_SAVERS) / ONLY_SHARED - 1},
        required=MORE,
        setting=SETTING,
    ),
    Claim(
        id="S1-2",
        statement="Proposed gives devices that save effort noisier copies of the model than others.",
        source="Sec. I, III-B",
        reported="based on their contribution",
        quantity=COPIES,
        compare=(PROPOSED["noise_multiplier_of_savers"] / PROPOSED["noise_multiplier_of_others"] - 1).at(WITH_SAVERS),
        required=MORE,
        setting=SETTING,
    ),
    Claim(
        id="S1-3",
        statement="With Proposed, a device does not raise its utility by saving effort.",
        source="Sec. I",
        reported="addresses this problem",
        quantity=UTILITY_OF_SAVERS,
        compare=PROPOSED.at(WITH_SAVERS) - PROPOSED,
        required=Band(most=0),
        setting=SETTING,
    ),
)

# Claims about scenarios in which no device saves effort.
CLAIMS = (
    Claim(
        id="S1-4",
        statement="The benchmark suffers from severe utility unfairness among devices.",
        source="Sec. I",
        reported="severe utility unfairness",
        quantity=RELATIVE_SPREAD,
        compare=BENCHMARK["utility_std"] / BENCHMARK["utility"],
        otherwise={SHARED_NOISE: ONLY_SHARED["utility_std"] / ONLY_SHARED["utility"]},
        required=Band(above=0.1),
        range_source=PROJECT,
        setting=SETTING,
        among=NOBODY_SAVES,
    ),
    Claim(
        id="S1-5",
        statement="Proposed addresses the problem: utilities of its devices differ less than the benchmark's.",
        source="Sec. I",
        reported="addresses this problem",
        quantity=UTILITY_SPREAD,
        compare=1 - PROPOSED / BENCHMARK,
        otherwise={SHARED_NOISE: 1 - PROPOSED / ONLY_SHARED},
        required=Band(least=0.5),
        range_source=PROJECT,
        setting=SETTING,
        among=NOBODY_SAVES,
    ),
    Claim(
        id="S1-6",
        statement="Proposed achieves similar learning gains for all devices.",
        source="Sec. I",
        reported="similar learning gain",
        quantity=GAIN_SPREAD,
        compare=PROPOSED["learning_gain_std"] / PROPOSED["learning_gain"],
        required=Band(most=0.1),
        range_source=PROJECT,
        setting=SETTING,
        among=NOBODY_SAVES,
    ),
    Claim(
        id="F1-1",
        statement="The mean training loss of Proposed is only 6.26 % higher than the benchmark's.",
        source="Sec. IV, Fig. 1",
        reported="6.26%",
        quantity=LOSS,
        compare=PROPOSED / BENCHMARK - 1,
        otherwise={SHARED_NOISE: PROPOSED / SHARED - 1},
        required=Reported(0.0626, 0.06255, 0.06265),
        setting=SETTING,
        among=NOBODY_SAVES,
    ),
    Claim(
        id="F1-2",
        statement="The standard deviation over devices of the training loss is very similar for both schemes.",
        source="Sec. IV, Fig. 1",
        reported="very similar",
        quantity=LOSS_SPREAD,
        compare=PROPOSED / BENCHMARK - 1,
        otherwise={SHARED_NOISE: PROPOSED / SHARED - 1},
        required=Band(least=-0.10, most=0.10),
        range_source=PROJECT,
        setting=SETTING,
        among=NOBODY_SAVES,
    ),
    Claim(
        id="F1-3",
        statement="The learning performance does not suffer from Proposed's control of the model's quality.",
        source="Sec. IV, Fig. 1",
        reported="does not suffer",
        quantity=ACCURACY,
        compare=PROPOSED - BENCHMARK,
        otherwise={SHARED_NOISE: PROPOSED - SHARED},
        required=Band(least=-0.01),
        range_source=PROJECT,
        setting=SETTING,
        among=NOBODY_SAVES,
    ),
    Claim(
        id="F1-4",
        statement="With Proposed, the standard deviation over devices of the training loss is around 0.103.",
        source="Sec. IV, Fig. 1",
        reported="around 0.103",
        quantity=LOSS_SPREAD,
        compare=PROPOSED,
        required=Reported(0.103, 0.1025, 0.1035),
        setting=SETTING,
        among=NOBODY_SAVES,
    ),
    Claim(
        id="F2-1",
        statement="With the benchmark, a device's energy significantly increases with its path loss.",
        source="Sec. IV, Fig. 2",
        reported="significantly increases",
        quantity=SLOPE,
        compare=_slope(BENCHMARK),
        otherwise={SHARED_NOISE: _slope(ONLY_SHARED)},
        required=MORE,
        setting=SETTING,
        among=NOBODY_SAVES,
    ),
    Claim(
        id="F2-2",
        statement="With Proposed, a device's energy is almost the same whatever its path loss.",
        source="Sec. IV, Fig. 2",
        reported="almost flat",
        quantity=SLOPE,
        compare=_slope(PROPOSED),
        required=Band(least=-0.02, most=0.02),
        range_source=PROJECT,
        setting=SETTING,
        among=NOBODY_SAVES,
    ),
    Claim(
        id="S4-1",
        statement="Proposed reduces the standard deviation of the energy over devices by 99 %.",
        source="Sec. IV",
        reported="99%",
        quantity=ENERGY_SPREAD,
        compare=1 - PROPOSED / BENCHMARK,
        otherwise={SHARED_NOISE: 1 - PROPOSED / ONLY_SHARED},
        required=Reported(0.99, 0.985, 0.995),
        setting=SETTING,
        among=NOBODY_SAVES,
    ),
    Claim(
        id="S4-2",
        statement="Proposed reduces the mean energy by about 12.17 %.",
        source="Sec. IV",
        reported="about 12.17%",
        quantity=ENERGY,
        compare=1 - PROPOSED / BENCHMARK,
        otherwise={SHARED_NOISE: 1 - PROPOSED / ONLY_SHARED},
        required=Reported(0.1217, 0.12165, 0.12175),
        setting=SETTING,
        among=NOBODY_SAVES,
    ),
)

# Claims for which no scenario is measured.
OF_POLICIES = (
    Claim(
        id="S1-7",
        statement="Devices choose optimal policies without any knowledge of what others contribute and spend.",
        source="Sec. I, IV",
        reported="without any knowledge",
        setting=SETTING,
        why="Follows from the policies: a device knows its link and its last deviation factor. By (15), the factor "
        "depends on the updates of the others.",
    ),
    Claim(
        id="P1-1",
        statement="Noise by (7) achieves (ε, δ)-DP for ε between 0 and 1.",
        source="Proposition 1",
        setting=SETTING,
        why="Does not depend on a run: for ε = 0.95, the exact multiplier is 3.91, (7) has 5.10 (table leakage).",
    ),
    Claim(
        id="T1-1",
        statement="Iterations by (12) solve a device's local problem (3) with accuracy Φ.",
        source="Theorem 1",
        setting=SETTING,
        why="Does not apply to Sec. IV, as the network's loss is not convex. Where it is, (12) as printed can ask for "
        "too few; with μ in place of L it asks for enough (tests).",
    ),
    Claim(
        id="S3B-1",
        statement="The system guarantees at least (ε_g, δ_g)-DP.",
        source="Sec. III-B",
        reported="guarantees at least",
        setting=SETTING,
        why="Not without clipping, as nothing enforces S_f. If S_f holds, one copy has (ε_g, δ_g)-DP; all copies "
        "together have a larger ε (table leakage).",
    ),
    Claim(
        id="S3C-1",
        statement="A device's utility decreases if the access point adds more noise to its copy.",
        source="Sec. III-C",
        reported="decreases when the AP adds more noise",
        setting=SETTING,
        why="Contradicts (18): with β₁ by (17), the learning gain is E (exp(E_cp / β₂) - 1), which increases with the "
        "deviation factor E, and so does the noise (14).",
    ),
    Claim(
        id="L1-1",
        statement="Problem (22) is equivalent to a convex problem, (23).",
        source="Lemma 1",
        setting=SETTING,
        why="Does not depend on a run. (23) is not convex; its optimum is tested by direct maximization instead: T2-1.",
    ),
    Claim(
        id="T2-1",
        statement="A device's utility is largest at the power (25) and the iterations (28).",
        source="Theorem 2",
        setting=SETTING,
        why="Does not depend on a run: tests find no better point by direct maximization and on a grid, with Table I. "
        "If a radio's circuit draws more than its amplifier, fewer iterations can be better.",
    ),
)
OF_BENCHMARK = (
    Claim(
        id="S4-3",
        statement="The benchmark represents the designs of the works [7] to [9].",
        source="Sec. IV",
        reported="can equivalently be represented",
        setting=SETTING,
        why="The designs of these works are not implemented.",
    ),
)
INTRODUCTION = sum(claim.source == "Sec. I" for claim in CLAIMS)
PAPER_CLAIMS = (*OF_SAVERS, *CLAIMS[:INTRODUCTION], *OF_POLICIES, *CLAIMS[INTRODUCTION:], *OF_BENCHMARK)


def claims(contents: dict[str, dict]) -> pl.DataFrame:
    """Measure the paper's claims, as far as scenarios and their schemes permit.

    `contents` has by name `scenario` and the report's tables `realizations` and `devices`. Schemes are compared on the
    same realizations, scenarios on the same devices. A training run that diverged has an infinite loss, and no energy.
    """
    tables = []
    for savers in sorted({content["scenario"].network.savers for content in contents.values()} - {0}):
        chosen = {name: part for name, part in contents.items() if part["scenario"].network.savers in (0, savers)}
        tables.append(measure(OF_SAVERS, chosen, partial(_series, savers=savers), INTERPRETATIONS))
    return pl.concat([*tables, measure(CLAIMS, contents, _series, INTERPRETATIONS)])


def _series(content: dict, savers: int = 0) -> dict:
    """Return each scheme's columns, and those of ONLY_SHARED; the first `savers` devices always count as savers."""
    series = by_scheme(content["scenario"], _realizations(content, savers), COLUMNS)
    (benchmark,), (shared,), (only_shared,) = (term.series for term in (BENCHMARK, SHARED, ONLY_SHARED))
    if any(name == benchmark.name for name, _ in series):
        return series
    return series | {(only_shared.name, column): v for (name, column), v in series.items() if name == shared.name}


def _realizations(content: dict, savers: int) -> pl.DataFrame:
    """Add to `realizations` the sums for the regression on path loss, and means of savers and of other devices."""
    x, y = pl.col("path_loss_db"), 1000 * pl.col("energy_j")
    sums = dict(zip(SUMS, (pl.len(), *map(total, (x, y, x * x, x * y))), strict=True))
    saves = pl.col("device") < savers
    means = {
        "utility_of_savers": pl.col("utility").filter(saves).mean(),
        "noise_multiplier_of_savers": pl.col("noise_multiplier").filter(saves).mean(),
        "noise_multiplier_of_others": pl.col("noise_multiplier").filter(~saves).mean(),
        "batch_loss_of_others": pl.col("batch_loss").filter(~saves).mean(),
    }
    spreads = content["devices"].group_by("scheme", "realization", maintain_order=True).agg(**sums, **means)
    return content["realizations"].join(spreads, on=["scheme", "realization"], how="left")
