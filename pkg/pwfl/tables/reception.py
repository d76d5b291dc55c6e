"""Messages and noise received by the server, as arrays of a realization, from `reception` and `reception_noise`.

In each round of interval i, with standard normal z, each coordinate of the server's update is

    sum_k weight[i, k] message[k] + noise_std[i] z.

If users are received with different weights in bands of coordinates, each of B bands has its own weights and noise: the
model's tensors are flattened and concatenated, and coordinate c of the result is in band c mod B.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

#: Optional columns of `reception`, null if messages are of all records, real numbers, and the same in all bands.
EMPTY = {
    "records": pl.lit(None, pl.Int64),
    "group": pl.lit(None, pl.Int64),
    "grid_step": pl.lit(None, pl.Float64),
    "bands": pl.lit(None, pl.List(pl.Float64)),
}


class Reception(NamedTuple):
    """Messages and noise that the server, or an observer, receives in a realization.

    Attributes
    ----------
    sends
        Whether a user's message is received, boolean, shape (interval, user).
    weight
        Weight of a user's message in the update, shape (interval, user); 0 if it is not received.
    user_noise_std
        Standard deviation of the user's noise in the update, shape (interval, user); 0 if its message is not
        received.
    records
        Number of its records that a user's message uses, shape (interval, user); None: all.
    noise_std
        Standard deviation of all noise in the update, in the unit of a weighted message, shape (interval,).
    planned_noise_std
        The same as planned, if all scheduled users send, shape (interval,); NaN: no noise is feasible.
    planned_senders
        Number of users scheduled to send, shape (interval,).
    rounds
        Number of rounds of each interval, shape (interval,).
    group
        Number of the group in which a user's integers are added up, shape (interval, user); None: messages are real
        numbers.
    grid_step
        Step size of the grid that a user's message is rounded to, in the message's unit, shape (interval, user); None:
        messages are real numbers.
    bands
        Factor of a user's `weight` and `user_noise_std` in each band, shape (interval, user, band); None: there are no
        bands. With bands, `noise_std` is the root mean square over bands.
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
        """Number of rounds of an interval, which is the same in all. Raises ValueError if it is not."""
        (length,) = set(self.rounds.tolist())
        return length

    @property
    def status(self) -> str | None:
        """Reason why the realization is not trained, `noise_infeasible` or `no_user_scheduled`; None: it is trained."""
        if np.isnan(self.planned_noise_std).any():
            return "noise_infeasible"
        # Without active users, a server that receives noise still adds it to the model.
        return None if self.planned_senders.any() or self.noise_std.any() else "no_user_scheduled"

    @property
    def receiver_std(self) -> np.ndarray:
        """Standard deviation of the receiver's noise alone in the update, shape (interval,)."""
        return np.sqrt(np.maximum(self.noise_std**2 - self._users_noise_squared.mean(axis=1), 0.0))

    @property
    def band_noise_std(self) -> np.ndarray:
        """Standard deviation of all noise in each band, shape (interval, band); the receiver's is the same in all."""
        return np.hypot(np.sqrt(self._users_noise_squared), self.receiver_std[:, None])

    @property
    def _users_noise_squared(self) -> np.ndarray:
        """Variance of all users' noise in each band, shape (interval, band); one band if there are no bands."""
        bands = 1.0 if self.bands is None else self.bands
        return np.square(self.user_noise_std[..., None] * bands).sum(axis=1)

    def shown(self, user: int) -> np.ndarray:
        """Compute a user's visibility |weight| / noise standard deviation, shape (interval, band).

        It is infinite without noise, and 0 if the user does not send. One band if there are no bands.
        """
        std, amplitude = self.noise_std[:, None], np.abs(self.weight * self.sends)[:, user, None]
        if self.bands is not None:
            std, amplitude = self.band_noise_std, amplitude * np.abs(self.bands[:, user])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(amplitude > 0, amplitude / std, 0.0)

    def as_in_band(self, band: np.ndarray) -> "Reception":
        """Return the reception with all bands equal to one of them: `band`, its number, shape (interval,)."""
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
        """Return the reception with all bands equal to the one in which a user's message is most visible."""
        return self.as_in_band(self.shown(user).argmax(axis=1))

    def select_users(self, chosen: np.ndarray) -> "Reception":
        """Return the reception of some users' messages alone, without the receiver's noise.

        `chosen`: which users, boolean, shape (user,).
        """
        noise = self.user_noise_std * chosen
        squares = noise**2 if self.bands is None else noise**2 * np.square(self.bands).mean(axis=2)
        return self._replace(
            sends=self.sends & chosen,
            weight=self.weight * chosen,
            user_noise_std=noise,
            noise_std=np.sqrt(squares.sum(axis=1)),
        )

    def without(self, target: int, colluders: float, senders: np.ndarray) -> np.ndarray:
        """Return `user_noise_std` without the noise of colluding users, as an observer with whom they collude sees it.

        Colluders are the users, except the target, with the most noise. This recomputes what the accounts assume, so
        that an audit tests them.

        Parameters
        ----------
        target
            Number of the user with the protected record.
        colluders
            Share of the scheduled users who collude; their number is rounded up, and at most all but one.
        senders
            Number of scheduled users, shape (interval,).
        """
        left = self.user_noise_std.copy()
        colluding = np.minimum(np.ceil(colluders * senders - 1e-9), np.maximum(senders - 1, 0)).astype(int)
        for stds, sends, number in zip(left, self.sends, colluding, strict=True):
            others = np.flatnonzero(sends & (np.arange(len(sends)) != target))
            order = others[np.argsort(-stds[others], kind="stable")]
            stds[order[:number]] = 0.0
        return left


def receptions(tables: dict[str, pl.DataFrame]) -> Callable[[int], Reception]:
    """Return a function from a realization to its `Reception`.

    `tables`, by name, are `users`, `reception_noise` and `reception`; users without a row in `reception` do not send.
    """
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
    """Return the number of bands of coordinates with different weights in the table `reception`; 0: none."""
    return int(reception["bands"].list.len().max() or 0)  # ty: ignore  # a number, or null


STD = ("update_noise_std", "planned_noise_std")


def by_round(frame: pl.DataFrame) -> pl.DataFrame:
    """Expand a table with a row per interval, all of the same number of `rounds`, to a row per round.

    Rows are sorted by realization and round; the columns `interval` and `rounds` become the round and 1.
    """
    length = frame["rounds"][0] if len(frame) else 1
    rounds = frame.join(pl.DataFrame({"within": range(length)}), how="cross")
    rounds = rounds.with_columns(
        interval=pl.col("interval") * length + pl.col("within"), rounds=pl.lit(1, pl.Int64)
    ).drop("within")
    return rounds.sort("realization", "interval", maintain_order=True)
