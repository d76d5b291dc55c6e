"""Figures and tables of the system `utility_fair`."""

from collections.abc import Callable
from functools import partial

import altair as alt
import numpy as np
import polars as pl
from polars.dataframe.group_by import GroupBy

from pwfl.learning.partition import USER_ACCURACIES
from pwfl.report import chance, results, theme, unscheduled
from pwfl.report.axes import fitted, pixels
from pwfl.report.columns import total
from pwfl.report.words import plural
from pwfl.systems.utility_fair.parameters import UtilityFair
from pwfl.tables.contract import limits

COMPARABILITY = (
    "Noisy are the copies of the model that devices get, so not the access point's, which accuracies are of. Unless "
    "privacy.uploads is noisy, devices send updates without noise, nothing is hidden from the access point, and "
    "epsilon is against devices that pool their copies. Nothing enforces the sensitivity."
)
KEYS = ["scheme", "realization"]
OTHERS = ("user", "server", "printed", "copy", "round", "device", "upload", "worst_case")
EPSILONS = ["epsilon", *(f"epsilon_{other}" for other in OTHERS)]
LEARNED = ["accuracy", "loss", *USER_ACCURACIES]
# Columns of `devices`, and their standard deviations over devices in `realizations`.
SPREADS = {"energy_j": "energy_std_j", "learning_gain": "learning_gain_std", "utility": "utility_std"}
ROUNDS = ["batch_loss", "batch_loss_std", "deviation", *SPREADS, *SPREADS.values()]
SPENT = ["channel_uses", "air_seconds", "transmit_energy_j"]


def loss(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 1: draw the mean over devices of the training loss of their copies, over rounds."""
    y = alt.Y(title="Mean training loss over devices (nats)")
    return _curve(scenario, tables["history"], "batch_loss", pl.Expr.mean, "Training loss", y)


def spread(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw the standard deviation over devices of the training loss, over rounds."""
    y = alt.Y(title="Standard deviation over devices (nats)")
    spread = partial(pl.Expr.std, ddof=0)
    return _curve(scenario, tables["history"], "batch_loss", spread, "Spread of the training loss", y)


def accuracy(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw the test accuracy of the access point's model, over rounds."""
    title = "Test accuracy of the access point's model"
    levels = chance.scenario_levels(scenario, tables["history"])
    return _curve(scenario, tables["history"], "accuracy", pl.Expr.first, title, theme.accuracy_axis(), levels)


def accuracy_seconds(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw the test accuracy of the access point's model, over airtime."""
    return results.accuracy_seconds(scenario, {"history": _evaluated_rounds(tables["history"])})


def accuracy_joules(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw the test accuracy of the access point's model, over the energy radiated by all devices."""
    return results.accuracy_joules(scenario, {"history": _evaluated_rounds(tables["history"])})


def energy(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 2: draw each device's mean energy of a round over its path loss, with regression lines."""
    frame = devices(tables).with_columns(energy_mj=1000 * pl.col("energy_j"))
    title, y = "Energy of a device's round", "Mean energy of a round (mJ)"
    return _over_path_loss(scenario, frame, "energy_mj", title, y, regression=True)


def utility(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw each device's mean utility of a round over its path loss, with regression lines."""
    title, y = "Utility of a device's round", "Mean utility (18) of a round"
    return _over_path_loss(scenario, devices(tables), "utility", title, y, regression=True)


def power(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw each device's mean transmit power over its path loss."""
    frame = devices(tables).with_columns(power_mw=1000 * pl.col("power_w")).filter(pl.col("power_mw") > 0)
    title, y = "Transmit power of a device", "Mean transmit power (mW)"
    return _over_path_loss(scenario, frame, "power_mw", title, y, regression=False)


def deviation(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Draw the distribution of the deviation factors over rounds, devices and realizations."""
    title, axis = "How far devices' updates deviate", "Deviation factor E (15)"
    return theme.cdf(_sound(tables["history"]), "deviation", scenario, title, axis, "rounds and devices")


DRAWN = (loss, spread, energy, utility, power, accuracy, accuracy_seconds, accuracy_joules, deviation)
FIGURES = {figure.__name__: figure for figure in DRAWN}


def summarize(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the report's tables of a scenario, as listed in `catalog`."""
    rows, history = realizations(scenario, tables), tables["history"]
    counts = (*results.trainings("trained", "diverged", "nobody_took_part"), pl.col("rounds_out").sum())
    rounds = history.unique([*KEYS, "round"], keep="first", maintain_order=True)
    return {
        "summary": results.summary(scenario, rows, [*ROUNDS, *LEARNED, *SPENT], *counts, pl.col(EPSILONS).max()),
        "realizations": rows,
        "devices": devices(tables),
        "leakage": tables["leakage"].drop("realization", "device").unique(maintain_order=True),
        "history": history,
        "statuses": results.statuses(tables, train=rounds),
    }


def realizations(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the outcome of each realization and scheme, with the results of its training.

    `batch_loss` is the mean over devices and rounds from the second on. `batch_loss_std` is the mean over these rounds
    of the standard deviation over devices. `energy_j`, `learning_gain` and `utility` are means over devices and rounds.
    Columns of SPREADS are standard deviations over devices of their means over rounds. All are null if the realization
    diverged. If training chooses powers, channel uses, airtime, radiated energy and local steps are those of the
    training.
    """
    last = _grouped(tables["history"]).agg(
        pl.col(LEARNED).sort_by("round").last(),
        training=_ending(),
        transmit_s=total(pl.col("transmit_s")),
        radiated_j=total(pl.col("transmit_s") * pl.col("power_w")),
        air_s=pl.col("air_seconds_cumulative").max(),
        deviation=pl.col("deviation").mean(),
        iterations=pl.col("iterations").filter(pl.col("iterations") > 0).mean(),
    )
    later = _grouped(tables["history"].filter(pl.col("round") > 1), "round")
    rounds = later.agg(pl.col("batch_loss").mean(), batch_loss_std=pl.col("batch_loss").std(ddof=0))
    losses = _grouped(rounds).agg(pl.col("batch_loss", "batch_loss_std").mean())
    spreads = {spread: pl.col(name).std(ddof=0) for name, spread in SPREADS.items()}
    device_means = _grouped(devices(tables)).agg(pl.col(*SPREADS).mean(), **spreads)
    frame = tables["outcome"]
    for part in (last, losses, device_means):
        frame = frame.join(part, on=KEYS, how="left", maintain_order="left")

    def unless_diverged(value: pl.Expr) -> pl.Expr:
        return pl.when(pl.col("training") != "diverged").then(value)

    uses = unless_diverged(pl.col("transmit_s") * scenario.radio.bandwidth_hz)
    return frame.with_columns(
        unless_diverged(pl.col(*LEARNED, *ROUNDS)),
        channel_uses=pl.coalesce("channel_uses", uses),
        air_seconds=pl.coalesce("air_seconds", unless_diverged(pl.col("air_s"))),
        transmit_energy_j=pl.coalesce("transmit_energy_j", unless_diverged(pl.col("radiated_j"))),
        local_steps=pl.coalesce("local_steps", unless_diverged(pl.col("iterations"))),
        **{unscheduled.COLUMN: pl.col("training") == "nobody_took_part"},
    ).drop("transmit_s", "radiated_j", "air_s", "iterations")


def devices(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Compute each device's path loss and means over its rounds, without training runs that diverged."""
    columns = ("power_w", "iterations", "batch_loss", "deviation", "noise_multiplier")
    means = _grouped(_sound(tables["history"]), "device").agg(pl.col(*SPREADS, *columns).mean())
    place = tables["schedule_status"].select(*KEYS, "device", "path_loss_db", "rounds_out")
    return place.join(means, on=[*KEYS, "device"], how="inner", maintain_order="left")


def _grouped(frame: pl.DataFrame, *by: str) -> GroupBy:
    """Group rows by scheme, realization, and other columns."""
    return frame.group_by(*KEYS, *by, maintain_order=True)


def _ending() -> pl.Expr:
    """Return the status of a training run from those of its rounds and devices."""
    diverged, nobody = (pl.col("status") == "diverged").any(), (pl.col("status") == "nobody_took_part").all()
    failed = pl.when(diverged).then(pl.lit("diverged")).when(nobody).then(pl.lit("nobody_took_part"))
    return failed.otherwise(pl.lit("trained"))


def _sound(history: pl.DataFrame) -> pl.DataFrame:
    """Select the rows of training runs that did not diverge."""
    return history.filter((pl.col("status") != "diverged").all().over(KEYS))


def _evaluated_rounds(history: pl.DataFrame) -> pl.DataFrame:
    """Select the evaluated rounds, one row each, with the status of their training run, as `results` requires."""
    status = _ending().over(KEYS).replace("nobody_took_part", unscheduled.COLUMN)
    rounds = history.with_columns(status=status).drop_nulls("accuracy")
    return rounds.unique([*KEYS, "round"], keep="first", maintain_order=True)


def _curve(
    scenario: UtilityFair,
    history: pl.DataFrame,
    column: str,
    over_devices: Callable[[pl.Expr], pl.Expr],
    title: str,
    y: alt.Y,
    levels: pl.DataFrame | None = None,
) -> alt.LayerChart:
    """Draw a column's statistic over devices by round, mean over realizations with its confidence band.

    The statistic has the column's allowed range: a mean or standard deviation of losses is not negative, as losses are
    not.
    """
    kept = _sound(history)
    left_out = history.select(KEYS).n_unique() - kept.select(KEYS).n_unique()
    subtitle = theme.band_over(kept["realization"].n_unique())
    subtitle += f"; left out: {left_out} that diverged" if left_out else ""
    subtitle = [subtitle, *unscheduled.lines(unscheduled.counted(unscheduled.find_unscheduled(kept)))]
    rounds = _grouped(kept.drop_nulls(column), "round").agg(value=over_devices(pl.col(column)))
    frame = theme.means(rounds, ["scheme", "round"], ["value"], scenario.system)
    frame = theme.within(frame, "value", *limits(scenario.system, column))
    title = alt.TitleParams(title, subtitle=subtitle)
    return theme.band(frame, "value", scenario, title, y, column=column, levels=levels)


def _over_path_loss(
    scenario: UtilityFair, frame: pl.DataFrame, column: str, title: str, y: str, regression: bool
) -> alt.LayerChart:
    """Draw a circle per device and scheme, with sizes that keep all visible; names are at the right ends."""
    count = frame.select(["realization", "device"]).n_unique()
    subtitle = f"{plural(count, 'device')} of {plural(frame['realization'].n_unique())}"
    subtitle += "; lines: least squares" if regression else ""
    colours, loss = theme.scenario_colours(scenario), "path_loss_db"
    x = fitted(alt.X(f"{loss}:Q", title="Path loss (dB)"), frame[loss])
    along = fitted(alt.Y(f"{column}:Q", title=y), frame[column])
    sizes = {name: 30.0 + 110 * k for k, name in enumerate(colours)}
    frame = frame.with_columns(area=pl.col("scheme").cast(pl.String).replace_strict(sizes, return_dtype=pl.Float64))
    marks = alt.Chart(frame).mark_point(filled=False, strokeWidth=1.2, opacity=0.8)
    layers = [marks.encode(x=x, y=along, color=theme.coloured_by(colours), size=alt.Size("area:Q", scale=None))]
    ends = []
    for (name,), rows in (
        frame.drop_nulls(column).sort(loss, maintain_order=True).group_by("scheme", maintain_order=True)
    ):
        last = rows[column][-1]
        if regression and rows[loss].n_unique() > 1:
            across = rows[loss].to_numpy()[[0, -1]]
            up = np.polynomial.Polynomial.fit(rows[loss], rows[column], 1)(across)
            line = alt.Chart(pl.DataFrame({loss: across, column: up, "scheme": [str(name)] * 2}))
            line = line.mark_line(strokeWidth=2, clip=True).encode(x=x, y=along, color=theme.coloured_by(colours))
            layers.append(line)
            last = up[-1]
        ends.append((str(name), float(pixels(along, last, theme.HEIGHT)[0]), colours[str(name)]))
    return theme.sized(alt.layer(*layers, *theme.name_ends(ends)), alt.TitleParams(title, subtitle=subtitle))


published = results.gaussian_losses
