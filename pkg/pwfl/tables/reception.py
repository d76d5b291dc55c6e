"""What the air delivers, as arrays of a realization: the tables `reception` and `reception_noise`.

In each round of interval i the server's update is

    sum over users k of weight[i, k] message[k] + noise_std[i] times standard normal numbers.

Where users are heard in some bands of coordinates more than in others, this holds in each band of its own weights and
noise: coordinate c of a model's weights, all in a row, is in band c modulo their number.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

#: Columns of `reception` where messages are of all records, no integers, and heard alike in all coordinates.
EMPTY = {
    "records": pl.lit(None, pl.Int64),
    "group": pl.lit(None, pl.Int64),
    "grid_step": pl.lit(None, pl.Float64),
    "bands": pl.lit(None, pl.List(pl.Float64)),
}


class Reception(NamedTuple):
    """What a realization's server receives.

    Attributes
    ----------
    sends
        Who is heard, boolean, shape (interval, user).
    weight, user_noise_std
        Of each user's message, and of its noise, in the update; likewise, 0 of who is not heard.
    records
        How many of its records a user's message is of, likewise; None: all.
    noise_std, planned_noise_std
        Of all noise in the update, shape (interval,), as it occurs and as it was planned; NaN: none is feasible.
    planned_senders
        How many users were to send, likewise.
    rounds
        How many rounds each interval has, likewise.
    group, grid_step
        In which group messages are summed as integers, on grids of which steps, shape (interval, user); None: they
        are no integers.
    bands
        What a user's weight and noise are multiplied by in each band, shape (interval, user, band); None: there are
        none. `noise_std` then is the root of the mean square over bands.
    """

    sends: np.ndarray
    weight: np.ndarray
    user_noise_std: np.ndarray
    records: np.ndarray | None
    noise_std: np.ndarray
    planned_noise_std: np.ndarray
    planned_senders: np.ndarray
    rounds: np.ndarray
    group: np.ndarray | None = None
    grid_step: np.ndarray | None = None
    bands: np.ndarray | None = None

    @property
    def length(self) -> int:
        """How many rounds an interval has: all as many."""
        (length,) = set(self.rounds.tolist())
        return length

    @property
    def status(self) -> str | None:
        """Why a realization is not trained; None: it is."""
        if np.isnan(self.planned_noise_std).any():
            return "noise_infeasible"
        # Where nobody sends, a server that hears noise steps along it.
        return None if self.planned_senders.any() or self.noise_std.any() else "no_user_scheduled"

    @property
    def receiver_std(self) -> np.ndarray:
        """Of the receiver's noise alone, shape (interval,)."""
        return np.sqrt(np.maximum(self.noise_std**2 - self._users_noise_squared.mean(axis=1), 0.0))

    @property
    def band_noise_std(self) -> np.ndarray:
        """Of all noise in each band, shape (interval, band); the receiver's is alike in all."""
        return np.hypot(np.sqrt(self._users_noise_squared), self.receiver_std[:, None])

    @property
    def _users_noise_squared(self) -> np.ndarray:
        """The square of all users' noise in each band, of one if there are none."""
        bands = 1.0 if self.bands is None else self.bands
        return np.square(self.user_noise_std[..., None] * bands).sum(axis=1)

    def shown(self, user: int) -> np.ndarray:
        """A unit of a user's message over all noise in each band, shape (interval, band); of one band without any."""
        std, amplitude = self.noise_std[:, None], np.abs(self.weight * self.sends)[:, user, None]
        if self.bands is not None:
            std, amplitude = self.band_noise_std, amplitude * np.abs(self.bands[:, user])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(amplitude > 0, amplitude / std, 0.0)

    def as_in_band(self, band: np.ndarray) -> "Reception":
        """The same if in all bands it were as in one, another in each interval, shape (interval,)."""
        if self.bands is None:
            return self
        factor = np.take_along_axis(self.bands, band[:, None, None], axis=2)
        return self._replace(
            weight=self.weight * factor[..., 0],
            user_noise_std=self.user_noise_std * np.abs(factor[..., 0]),
            noise_std=np.take_along_axis(self.band_noise_std, band[:, None], axis=1)[:, 0],
            bands=np.ones_like(self.bands),
        )

    def as_most_shown(self, user: int) -> "Reception":
        """The same if in all bands it were as in the one in which a user's message shows most."""
        return self.as_in_band(self.shown(user).argmax(axis=1))

    def select_users(self, chosen: np.ndarray) -> "Reception":
        """Select what some users deliver, boolean (user,), without the receiver's noise, as their observer sees it."""
        noise = self.user_noise_std * chosen
        squares = noise**2 if self.bands is None else noise**2 * np.square(self.bands).mean(axis=2)
        return self._replace(
            sends=self.sends & chosen,
            weight=self.weight * chosen,
            user_noise_std=noise,
            noise_std=np.sqrt(squares.sum(axis=1)),
        )

    def without(self, target: int, colluders: float, senders: np.ndarray) -> np.ndarray:
        """`user_noise_std`, but 0 of the loudest beside the target: a share of those who are to send, (interval,).

        Counted anew: what noise and accounts count by is tested, too.
        """
        left = self.user_noise_std.copy()
        colluding = np.minimum(np.ceil(colluders * senders - 1e-9), np.maximum(senders - 1, 0)).astype(int)
        for stds, sends, number in zip(left, self.sends, colluding, strict=True):
            others = np.flatnonzero(sends & (np.arange(len(sends)) != target))
            order = others[np.argsort(-stds[others], kind="stable")]
            stds[order[:number]] = 0.0
        return left


def receptions(tables: dict[str, pl.DataFrame]) -> Callable[[int], Reception]:
    """A function that gives a realization's `Reception`, of tables that lack rows of who is not heard."""
    frames, noise, users = (
        tables[name].partition_by("realization", as_dict=True) for name in ("reception", "reception_noise", "users")
    )
    integers = tables["reception"]["grid_step"].is_not_null().any()
    drawn = tables["reception"]["records"].is_not_null().any()
    number = bands_of(tables["reception"])

    def select(realization: int) -> Reception:
        interval_rows, count = noise[realization,].sort("interval"), len(users[realization,])
        rows = frames.get((realization,), tables["reception"].clear())
        place = rows["interval"].to_numpy(), rows["user"].to_numpy()

        def spread(name: str, kind: type = float) -> np.ndarray:
            array = np.zeros((len(interval_rows), count), kind)
            array[place] = rows[name].to_numpy()
            return array

        sends = np.zeros((len(interval_rows), count), bool)
        sends[place] = True
        bands = None
        if number:
            bands = np.zeros((*sends.shape, number))
            bands[place] = rows["bands"].explode().to_numpy().reshape(-1, number)
        std, planned = (interval_rows[name].cast(pl.Float64).to_numpy() for name in STD)
        return Reception(
            sends,
            spread("weight"),
            spread("user_noise_std"),
            spread("records", int) if drawn else None,
            std,
            planned,
            interval_rows["planned_senders"].to_numpy(),
            interval_rows["rounds"].to_numpy(),
            *((spread("group", int), spread("grid_step")) if integers else (None, None)),
            bands,
        )

    return select


def bands_of(reception: pl.DataFrame) -> int:
    """In how many bands users are heard by weights of their own, by the table `reception`; 0: there are none."""
    return int(reception["bands"].list.len().max() or 0)  # ty: ignore  # a number, or null


STD = ("update_noise_std", "planned_noise_std")


def by_round(frame: pl.DataFrame) -> pl.DataFrame:
    """A table of intervals, of as many `rounds`, with each round as an interval."""
    length = frame["rounds"][0] if len(frame) else 1
    rounds = frame.join(pl.DataFrame({"within": range(length)}), how="cross")
    rounds = rounds.with_columns(
        interval=pl.col("interval") * length + pl.col("within"), rounds=pl.lit(1, pl.Int64)
    ).drop("within")
    return rounds.sort("realization", "interval", maintain_order=True)
