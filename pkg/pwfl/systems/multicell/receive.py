"""Computation of what the server and observers receive: Algorithm 1, (8) and (9), and other air interfaces."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.airs import air
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.beyond import batches, integers, on_air, sums
from pwfl.systems.multicell.beyond.costs import interval_costs
from pwfl.systems.multicell.parameters import Multicell, Privacy
from pwfl.systems.multicell.sending import Sent, sent_of
from pwfl.tables.arrays import joined, to_table
from pwfl.tables.reception import EMPTY, by_round


def run(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `reception`, `reception_noise`, `visibility` and `observers`.

    A user's message is the sum of its records' clipped gradients, with noise of standard deviation s_i = K_i sigma_i,
    or a clipped mean or update, with sigma_i. The server averages messages, (8) and (9). Digital uploads arrive without
    error; `on_air` computes what arrives over other air interfaces.
    """
    frame = assigned(tables).sort(KEYS)
    sent, rounds = sent_of(scenario, frame), _rounds(scenario, frame)
    # The server averages messages divided by their units; the noise here is that of these averages.
    if on_air.is_digital(scenario):
        weight, share, receiver_std, bands = sent.share / sent.unit, sent.share, 0.0, None
        shown, costs = _opened(scenario.privacy, sent, sums.OBSERVERS), interval_costs(scenario, tables)
        observed_by = sums.observed_by(scenario.privacy, len(sent.keys["interval"]))
    else:
        received = on_air.received(scenario, tables, sent)
        weight, receiver_std, bands = received.weight, received.receiver_std, received.bands
        share = np.abs(weight) * sent.unit
        shown, costs = received.seen, on_air.costs(sent, received)
        observed_by = received.observed_by or air.UNDECLARED
    user_std = share * sent.noise_std
    squares = user_std**2 if bands is None else user_std**2 * np.square(bands).mean(axis=-1)
    std = np.hypot(np.sqrt(np.where(sent.scheduled, squares, 0.0).sum(axis=-1)), receiver_std)
    reception = to_table(
        sent.users, sends=sent.scheduled, weight=weight, user_noise_std=np.nan_to_num(user_std), rounds=rounds
    )
    more = {} if bands is None else {"bands": by_band(bands)}
    group = sums.groups(scenario.privacy.observer, sent.cell)
    more |= integers.reception_columns(scenario, frame, group)
    reception = reception.with_columns(**EMPTY | more).filter("sends").drop("sends")
    senders = sent.scheduled.sum(axis=-1)
    noise = to_table(sent.keys, rounds=rounds, update_noise_std=std, planned_senders=senders).with_columns(
        pl.col("update_noise_std").fill_nan(None)
    )
    noise = joined(noise, costs, "realization", "interval").with_columns(planned_noise_std="update_noise_std")
    if scenario.privacy.dropouts:
        reception, noise = occurred(scenario, reception, noise, sent.scheduled, group)
    if scenario.data.sampling:
        reception, noise = batches.drawn(scenario, reception, noise, tables["users"])
    return {
        "reception": reception.drop("rounds"),
        "reception_noise": noise,
        "visibility": _visibility(sent, shown, tuple(observed_by), rounds),
        "observers": air.table(observed_by, sent.keys["realization"]),
    }


def visible(
    scenario: Multicell,
    tables: dict[str, pl.DataFrame],
    frame: pl.DataFrame,
    observers: tuple[str, ...] = sums.OBSERVERS,
) -> pl.DataFrame:
    """Make the table `visibility` for noise that is not final, to calibrate it; `frame` is as from `assigned`.

    In the sums of digital uploads, the noise of colluders and of users who may drop out does not count. A row holds for
    any sums that the scenario opens (`sums.left_to`). `tables` contains `links`.
    """
    sent, digital = sent_of(scenario, frame), on_air.is_digital(scenario)
    shown = _opened(scenario.privacy, sent, observers) if digital else on_air.received(scenario, tables, sent).seen
    return _visibility(sent, shown, observers, _rounds(scenario, frame))


def by_band(bands: np.ndarray) -> pl.Series:
    """Convert factors of shape (realization, interval, user, band) to the column `bands`."""
    return pl.Series(bands.reshape(-1, bands.shape[-1])).cast(pl.List(pl.Float64))


def _visibility(
    sent: Sent, shown: Mapping[str, tuple[np.ndarray, ...]], observers: tuple[str, ...], rounds: int
) -> pl.DataFrame:
    """Make the table `visibility` from what is `shown` to observers, as in `airs.air.Received.seen`."""
    rows = []
    for observer in observers:
        columns = dict(zip(("visibility", "visibility_users_only"), shown[observer], strict=True))
        table = to_table(sent.users, sends=sent.scheduled, **columns).filter("sends").drop("sends")
        rows.append(table.with_columns(pl.col(*columns).fill_nan(None), observer=pl.lit(observer)))
    return pl.concat(rows).with_columns(rounds=pl.lit(rounds))


def _opened(privacy: Privacy, sent: Sent, observers: tuple[str, ...]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Compute visibilities in digital uploads or sums, as `airs.air.Received.seen`; NaN: no noise is feasible."""
    known, opened = ~np.isnan(sent.noise_std), {}
    for observer in observers:
        hiding = sent.noise_std
        if observer != "user":  # an upload contains only its user's noise
            sends = sent.scheduled & known
            coalition = sums.left_to(observer, privacy, sent.cell, sends)
            hiding = sums.hiding_noise(sent.counted, sent.noise_std, sends, *coalition)
        with np.errstate(divide="ignore"):
            seen = np.where(known, 1 / (sent.unit * hiding), np.nan)
        opened[observer] = seen, seen
    return opened


def occurred(
    scenario: Multicell, reception: pl.DataFrame, noise: pl.DataFrame, sends: np.ndarray, group: np.ndarray
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Draw dropouts: return both tables with each round as an interval, without missing users and unopened sums.

    The server averages as if these users had sent zeros without noise. `sends` and `group` have shape (realization,
    interval, user).
    """
    rounds, frames = scenario.training.rounds, []
    for row, realization in enumerate(noise["realization"].unique().sort()):
        drawn = streams.generator(scenario.seed, "dropouts", realization)
        interval, user = np.nonzero(sums.rounds_heard(scenario.privacy, sends[row], group[row], rounds, drawn))
        key = np.full(len(user), realization)  # may be empty
        frames.append(pl.DataFrame({"realization": key, "interval": interval, "user": user}))
    reception = by_round(reception).join(pl.concat(frames), on=KEYS, how="semi", maintain_order="left")
    rows = ("realization", "interval")
    release = reception.group_by(rows).agg(heard=(pl.col("user_noise_std") ** 2).sum().sqrt())
    noise = by_round(noise).join(release, on=rows, how="left", maintain_order="left")
    known = pl.when(pl.col("update_noise_std").is_not_null()).then(pl.col("heard").fill_null(0.0))
    return reception, noise.with_columns(update_noise_std=known).drop("heard")


def _rounds(scenario: Multicell, frame: pl.DataFrame) -> int:
    """Return the number of rounds in a coherence interval."""
    return scenario.training.rounds // frame["interval"].n_unique()
