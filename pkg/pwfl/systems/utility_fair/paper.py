"""The paper behind the system `utility_fair`, for its page: figures, errata, and functions by equation."""

from collections.abc import Callable

import numpy as np
import polars as pl
from scipy.special import stdtrit

from pwfl.report.curves import TAIL, empty, means
from pwfl.report.paper import Mark, Panel, Paper
from pwfl.scenario.values import value_of
from pwfl.systems.utility_fair.claims import INTERPRETATIONS, PAPER_CLAIMS

KEYS = ("scheme", "realization")
ROUNDS = 50  # shown in Fig. 1
PROPOSED, BENCHMARK, SHARED = ("utility", "fair"), ("benchmark", "independent"), ("benchmark", "shared")
# The paper's setting, and this project's choices of parameters that the paper leaves open.
CHOSEN = {key: values for interpretation in INTERPRETATIONS for key, values in interpretation.chosen_values.items()} | {
    "network.savers": (0,),
    "privacy.target_epsilon": (None,),
    "training.clip_norm": (None,),
}


def _rows(contents: dict[str, dict], table: str, *schemes: tuple[str, str]) -> pl.DataFrame | None:
    """Select some schemes' rows, without runs that diverged, of the first scenario with CHOSEN; None: no such rows."""
    for content in contents.values():
        scenario = content["scenario"]
        if all(value_of(scenario, key) in values for key, values in CHOSEN.items()):
            names = [scheme.name for scheme in scenario.schemes if (scheme.scheduler, scheme.noise) in schemes]
            rows = content[table].filter(pl.col("scheme").is_in(names))
            if "status" in rows.columns:
                rows = rows.filter((pl.col("status") != "diverged").all().over(KEYS))
            return rows if len(rows) else None
    return None


def _losses(over_devices: Callable[[pl.Expr], pl.Expr]) -> Callable[[dict[str, dict]], pl.DataFrame]:
    """Return a panel's `curves`: mean over realizations of a statistic of devices' training losses, by round."""

    def curves(contents: dict[str, dict]) -> pl.DataFrame:
        history = _rows(contents, "history", PROPOSED, BENCHMARK, SHARED)
        if history is None:
            return empty()
        shown = history.filter(pl.col("round") <= ROUNDS).group_by(*KEYS, "round", maintain_order=True)
        return means(shown.agg(over_devices(pl.col("batch_loss"))), "round", "batch_loss")

    return curves


def energies(contents: dict[str, dict]) -> pl.DataFrame:
    """Fig. 2: compute each scheme's mean energy of a round in mJ, of devices with similar path loss (`curves`).

    Devices of all realizations are sorted by path loss and divided into groups of equal size, as many as a realization
    has devices. A realization's devices are drawn together, so intervals are of ratios of sums over realizations.
    """
    devices = _rows(contents, "devices", PROPOSED, BENCHMARK)
    if devices is None:
        return empty()
    groups = devices["device"].n_unique()
    place = (pl.col("path_loss_db").rank("ordinal") - 1) * groups // pl.len()
    interpretation = devices.select(
        *KEYS, "path_loss_db", energy_mj=1000 * pl.col("energy_j"), group=place.over("scheme")
    ).with_columns(error=pl.col("energy_mj") - pl.col("energy_mj").mean().over("scheme", "group"))
    sums = interpretation.group_by(*KEYS, "group", maintain_order=True).agg(pl.col("error").sum())
    spread = sums.group_by("scheme", "group").agg(squares=pl.col("error").pow(2).sum())
    count = pl.col("realization").n_unique().over("scheme")
    totals = (
        interpretation.with_columns(count=count)
        .group_by("scheme", "group", maintain_order=True)
        .agg(pl.col("path_loss_db", "energy_mj").mean(), pl.col("count").first(), size=pl.len())
        .join(spread, on=["scheme", "group"], how="left", maintain_order="left")
        .sort("group", maintain_order=True)
    )
    other = np.maximum(totals["count"].to_numpy() - 1, 1)
    half = pl.Series(stdtrit(other, 1 - TAIL)) * (pl.col("squares") * pl.col("count") / other).sqrt() / pl.col("size")
    return totals.select(
        pl.col("scheme").cast(pl.String).alias("series"),
        pl.col("path_loss_db").alias("x"),
        pl.col("energy_mj").alias("y"),
        y_ci_low=pl.col("energy_mj") - half,
        y_ci_high=pl.col("energy_mj") + half,
    )


PAPER = Paper(
    idea="The access point adds noise to each device's copy of the model, the more the further its update deviates "
    "from the others'. Each device chooses its transmit power and local iterations by a utility of what it learns and "
    "what it spends, so that near and far devices should fare alike.",
    size="Table I, MNIST, 20 realizations (the paper states no number); 50 rounds, which Fig. 1 shows, and 200, as in "
    "the paper, in the scenario rounds_200",
    claims=PAPER_CLAIMS,
    interpretations=INTERPRETATIONS,
    panels=(
        (
            Panel(
                name="1",
                title="Training loss, mean over devices",
                x="round",
                curves=_losses(pl.Expr.mean),
                trained=True,
                captions={"F1-1": "Proposed 6.26 % above Benchmark", "F1-3": "learning does not suffer"},
            ),
        ),
        (
            Panel(
                name="1, spread",
                title="Training loss, standard deviation over devices",
                x="round",
                curves=_losses(lambda loss: loss.std(ddof=0)),
                trained=True,
                marks=(Mark("F1-4", "y", "paper: around 0.103", 0.103),),
                captions={"F1-2": "very similar for both schemes", "F1-4": "Proposed around 0.103"},
            ),
        ),
        (
            Panel(
                name="2",
                title="Mean energy of a device's round, mJ",
                x="path loss, dB",
                curves=energies,
                trained=True,
                captions={
                    "F2-1": "Benchmark increases with path loss",
                    "F2-2": "Proposed almost flat",
                    "S4-1": "standard deviation reduced by 99 %",
                    "S4-2": "mean reduced by 12.17 %",
                },
            ),
        ),
    ),
    not_drawn={
        "The paper's curves": "Their data are not published. Only values that the text reports are marked.",
        "Fig. 1, rounds 51 to 200": "The paper does not show them, either.",
        "Fig. 2, single devices": "Drawn are means of devices with about the same path loss; the figure energy.svg of "
        "each scenario shows every device. The benchmark with shared noise spends the same.",
    },
    errata=(
        ("Sec. IV", "109,375 parameters", "109,386"),
        ("Table I", "T = 0.75 ms", "0.75 s: one local iteration lasts 6 ms"),
        ("Table I", "P_max = 0 dB", "0 dBW, 1 W"),
        ("Table I", "N₀ = -174 dBm", "the noise power σ² of (9); a density would be in dBm/Hz"),
        ("Proposition 1, (7)", "no sensitivity", "times S_f, as the noise of (14) is"),
        ("Theorem 1, (12)", "0.5 η² L² - η L + 1", "0.5 μ η² L - μ η + 1, as in (29)"),
        ("Theorem 1", "η > L/2", "η < 2/L"),
        ("Theorem 2, (28)", "the minimum with j_max", "no minimum: with Z* ≤ Z_max there are no more"),
        ("Theorem 2, (29)", "for all j", "for j ≥ 1: without an iteration the accuracy is 1"),
    ),
    equations=(
        ("local problem (3)", "systems.utility_fair.local_steps.updates", "loss, spread (Fig. 1)"),
        ("global model (4)", "systems.utility_fair.rounds.round_function", "accuracy"),
        (
            "times (5), (8), energy (13)",
            "systems.utility_fair.link.transmit_s, systems.utility_fair.link.energy_j",
            "energy (Fig. 2)",
        ),
        (
            "noise of copies (7), (14)",
            "systems.utility_fair.copies.base_multiplier, systems.utility_fair.copies.scaled, "
            "systems.utility_fair.rounds.noisy_copies",
            "",
        ),
        ("noise of uploads (7)", "systems.utility_fair.rounds.noisy_uploads", ""),
        ("channel of (9)", "systems.utility_fair.link.path_gain, systems.utility_fair.channel.run", ""),
        ("noise power and gap of (9)", "systems.utility_fair.link.unit_power_w", ""),
        ("deviation factor (15)", "systems.utility_fair.copies.deviations", "deviation"),
        ("fit (16), (17)", "systems.utility_fair.utility.beta_1_of", ""),
        (
            "utility (18)",
            "systems.utility_fair.utility.utility, systems.utility_fair.utility.learning_gain",
            "utility",
        ),
        (
            "limits (20), (21)",
            "systems.utility_fair.link.least_z, systems.utility_fair.link.iterations, systems.utility_fair.link.whole",
            "",
        ),
        (
            "Theorem 2, (25) to (28)",
            "systems.utility_fair.utility.best_z, systems.utility_fair.train.choose",
            "power",
        ),
        ("what copies and uploads reveal", "systems.utility_fair.account.run", ""),
    ),
)
