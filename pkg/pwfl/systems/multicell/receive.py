"""What the server receives of scheduled users, and observers of sums of uploads: Algorithm 1, (8) and (9)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.beyond import integers, sums
from pwfl.systems.multicell.beyond.costs import interval_costs
from pwfl.systems.multicell.beyond.server import counts
from pwfl.systems.multicell.parameters import Multicell
from pwfl.tables.arrays import joined, to_array, to_table
from pwfl.tables.reception import by_round


class Sent(NamedTuple):
    """What is sent, arrays of shape (realization, interval, user).

    Attributes
    ----------
    scheduled, noise_std, cell
        Who sends, sigma_i (NaN: none is feasible), and the user's cell.
    counted
        As how many samples the server counts a user.
    unit
        How many of its K_i records a unit of its message is of: all of a sum of gradients, 1 of their mean.
    """

    keys: dict[str, Iterable]
    scheduled: np.ndarray
    noise_std: np.ndarray
    cell: np.ndarray
    counted: np.ndarray
    unit: np.ndarray

    @property
    def share(self) -> np.ndarray:
        """A user's in the server's average of gradients."""
        return self.counted / np.maximum(self.counted.sum(axis=-1, keepdims=True), 1)

    @property
    def users(self) -> dict[str, Iterable]:
        """Keys of tables of users."""
        return self.keys | {"user": range(self.scheduled.shape[-1])}


def run(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables `reception`, `reception_noise` and `visibility`.

    A user's message is the sum of its records' clipped gradients, with noise of s_i = K_i sigma_i, or its clipped mean,
    with noise of sigma_i. The server averages gradients, (8) and (9). Uploads are digital: the receiver adds nothing.
    """
    frame = assigned(tables).sort(KEYS)
    sent, rounds = sent_of(scenario, frame), _rounds(scenario, frame)
    std = np.sqrt(np.where(sent.scheduled, (sent.share * sent.noise_std) ** 2, 0.0).sum(axis=-1))
    reception = to_table(
        sent.users,
        sends=sent.scheduled,
        weight=sent.share / sent.unit,
        user_noise_std=np.nan_to_num(sent.share * sent.noise_std),
        rounds=rounds,
    )
    grid = {"group": pl.lit(None, pl.Int64), "grid_step": pl.lit(None, pl.Float64)}
    group = sums.groups(scenario.privacy.observer, sent.cell)
    if scenario.training.bits:
        grid = {"group": pl.Series(group.ravel()), "grid_step": pl.Series(integers.grids(scenario, frame).ravel())}
    reception = reception.with_columns(records=pl.lit(None, pl.Int64), **grid).filter("sends").drop("sends")
    senders = sent.scheduled.sum(axis=-1)
    noise = to_table(sent.keys, rounds=rounds, update_noise_std=std, planned_senders=senders).with_columns(
        pl.col("update_noise_std").fill_nan(None)
    )
    costs = interval_costs(scenario, tables)
    costs = costs.rename({"channel_uses": "symbols", "air_seconds": "seconds", "transmit_energy_j": "joules"})
    noise = joined(noise, costs, "realization", "interval").with_columns(
        # By a column: a column of several rows Polars multiplies by the inverse of a number, which it divides one by.
        pl.col("symbols", "seconds", "joules") / pl.col("rounds"),
        planned_noise_std="update_noise_std",
    )
    if scenario.privacy.dropouts:
        reception, noise = occurred(scenario, reception, noise, sent.scheduled, group)
    return {"reception": reception.drop("rounds"), "reception_noise": noise, "visibility": visible(scenario, frame)}


def visible(scenario: Multicell, frame: pl.DataFrame, observers: tuple[str, ...] = sums.OBSERVERS) -> pl.DataFrame:
    """The table `visibility`, of users, schedule and noise as `assigned` has them; what noise is found by.

    Who sees sums, of which colluders' noise is taken off, and that of who may drop out, is one of `sums.OBSERVERS`. A
    row holds whatever sums are opened, which goes by `privacy.observer` (`sums.left_to`).
    """
    sent, privacy, found = sent_of(scenario, frame), scenario.privacy, []
    known = ~np.isnan(sent.noise_std)
    for observer in observers:
        hiding = sent.noise_std
        if observer != "user":  # nobody else's noise is in an upload
            sends = sent.scheduled & known
            coalition = sums.left_to(observer, privacy, sent.cell, sends)
            hiding = sums.hiding_noise(sent.counted, sent.noise_std, sends, *coalition)
        with np.errstate(divide="ignore"):
            seen = np.where(known, 1 / (sent.unit * hiding), np.nan)
        table = to_table(sent.users, sends=sent.scheduled, visibility=seen).filter("sends").drop("sends")
        found.append(table.with_columns(pl.col("visibility").fill_nan(None), observer=pl.lit(observer)))
    return pl.concat(found).with_columns(visibility_users_only="visibility", rounds=pl.lit(_rounds(scenario, frame)))


def sent_of(scenario: Multicell, frame: pl.DataFrame) -> Sent:
    """What is sent, of users, schedule and noise as `assigned` has them."""
    columns = ("samples", "scheduled", "noise_std", "cell")
    samples, scheduled, noise_std, cell = (to_array(frame, name, *KEYS) for name in columns)
    group = sums.groups(scenario.privacy.observer, cell)
    counted = counts(scenario.training, samples, scheduled, noise_std, group)
    unit = samples if scenario.training.clipping == "per_sample" else np.ones_like(samples)
    keys = {"realization": frame["realization"].unique().sort(), "interval": range(scheduled.shape[1])}
    return Sent(keys, scheduled, noise_std, cell, counted, unit)


def occurred(
    scenario: Multicell, reception: pl.DataFrame, noise: pl.DataFrame, sends: np.ndarray, group: np.ndarray
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What is received where users drop out: each round an interval, without those, and without sums not opened.

    The server averages as if these had sent zeros without noise. `sends` and `group` have shape (realization, interval,
    user).
    """
    rounds, found = scenario.training.rounds, []
    for row, realization in enumerate(noise["realization"].unique().sort()):
        drawn = streams.generator(scenario.seed, "dropouts", realization)
        interval, user = np.nonzero(sums.rounds_heard(scenario.privacy, sends[row], group[row], rounds, drawn))
        of_all = np.full(len(user), realization)  # maybe nobody's
        found.append(pl.DataFrame({"realization": of_all, "interval": interval, "user": user}))
    reception = by_round(reception).join(pl.concat(found), on=KEYS, how="semi", maintain_order="left")
    rows = ("realization", "interval")
    heard = reception.group_by(rows).agg(heard=(pl.col("user_noise_std") ** 2).sum().sqrt())
    noise = by_round(noise).join(heard, on=rows, how="left", maintain_order="left")
    known = pl.when(pl.col("update_noise_std").is_not_null()).then(pl.col("heard").fill_null(0.0))
    return reception, noise.with_columns(update_noise_std=known).drop("heard")


def _rounds(scenario: Multicell, frame: pl.DataFrame) -> int:
    """Of an interval in which the channel stays."""
    return scenario.training.rounds // frame["interval"].n_unique()
