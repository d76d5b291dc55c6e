"""Noise and accounts if a user-defined function decides who takes part, or how much noise there is.

Its decisions have no known distribution, so the observer is assumed to know the participation that occurred. A record's
device takes part in these rounds, and the record is in each batch with probability q, independently. The strength of
noise does not follow batches, and sums are divided by the participants' expected batch size, so neither reveals more.
"""

from functools import cache, partial
from typing import NamedTuple, Self

import numpy as np
import polars as pl

from pwfl.privacy import accountant, sampled, users
from pwfl.privacy.accountant import RECORD, Account, Claim, Losses
from pwfl.privacy.labels import Kind
from pwfl.systems.anonymous_oac import batches
from pwfl.systems.anonymous_oac.costs import in_turn
from pwfl.systems.anonymous_oac.mechanism import accounting, population
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.schemes import SUM, UPLOAD
from pwfl.tables.arrays import to_table

KEYS = ("realization", "round")
SAMPLING = (
    "a device takes part in the rounds that it did, known to the observer; then a record is in its batch with "
    "probability q"
)
LEVELS = 16  # largest number of values of mu; accounting takes half a second for each
# Columns of `outcome` that only random participation has, and `epsilon_proved`, which is the stated epsilon already.
BY_CHANCE = (
    *("epsilon_anonymous", "epsilon_anonymous_read", "epsilon_identified_read"),
    *("epsilon_renyi_anonymous", "epsilon_renyi_identified", "epsilon_theorem_1", "epsilon_proved"),
)
ACCOUNTED = accounting("scheduled")


def by_function(tables: dict[str, pl.DataFrame]) -> bool:
    """Return whether a user-defined function decides who takes part."""
    return tables["schedule_status"]["status"][0] == "own"


def strengths(
    scenario: AnonymousOac, multiplier: np.ndarray, local: bool, tables: dict[str, pl.DataFrame]
) -> pl.DataFrame:
    """Make the table `noise` of multipliers (realization, round), for the sum of messages or, if `local`, for each.

    The noise of rounds without participants is 0.
    """
    senders = tables["schedule"].group_by(KEYS).agg(senders=pl.len())
    keys = {"realization": tables["users"]["realization"].unique().sort(), "round": range(1, multiplier.shape[1] + 1)}
    rows = to_table(keys, noise_multiplier=multiplier).join(senders, on=KEYS, how="left", maintain_order="left")
    divisor = pl.col("senders") * population(tables)[1] * scenario.data.sampling
    strength = pl.col("noise_multiplier") * 2 * scenario.training.clip_norm / divisor
    return rows.select(
        *KEYS,
        update_noise_std=(strength * (pl.col("senders").sqrt() if local else 1.0)).fill_null(0.0),
        divisor=divisor.fill_null(0.0),
        noise_multiplier=pl.when(pl.col("senders") > 0).then("noise_multiplier").otherwise(0.0),
        noise=pl.lit("scheduled_local" if local else "scheduled"),
        reading=pl.lit("scheduled"),
    )


def losses(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> Losses:
    """Compute mu of a record that is in its device's batches, in the rounds that the device takes part in."""
    observer = UPLOAD if in_turn(tables) else SUM  # the table has no row if nobody takes part
    return accountant.losses(tables, observer, 2 * scenario.training.clip_norm)


def worst(losses: Losses, rate: float, delta: float, **more) -> tuple[np.ndarray, np.ndarray]:
    """Compute an epsilon that no record's exceeds, and its kind, shape (realization,); 0: nobody takes part.

    It is the epsilon of an assumed device: its largest mu, second largest mu and so on are each the largest of all
    devices. With one multiplier, this is the device that takes part in the most rounds. With many multipliers, mu are
    rounded up to few values. So epsilon is an upper bound at best.
    """
    ordered = np.sort(losses.mu, axis=1).max(axis=2)
    mu = np.array([rounded_up(row) for row in ordered])
    whole, law = Losses(mu[:, :, None], losses.rounds), batches.poisson(rate)
    epsilon, kind = sampled.Batches(law, **(ACCOUNTED | more)).worth(whole, Claim(""), delta)
    return epsilon[:, 0], kind[:, 0] | Kind.UPPER


def rounded_up(mu: np.ndarray) -> np.ndarray:
    """Round increasing mu, shape (round,), up to at most LEVELS values above 0: each to the largest of its group.

    >>> rounded_up(np.array([0.0, 1.0, 2.0]))
    array([0., 1., 2.])
    """
    sent = mu[mu > 0]
    if len(np.unique(sent)) <= LEVELS:
        return mu
    groups = [np.full(len(group), group[-1]) for group in np.array_split(sent, LEVELS)]
    return np.concatenate([np.zeros(len(mu) - len(sent)), *groups])


def at_least(mu: np.ndarray, rate: float, delta: float) -> float:
    """Compute a lower bound on epsilon of a device with mu, shape (round,): opposite records, at the smallest mu."""
    law, sent = sampled.Batches(batches.poisson(rate), "opposite", interval=sampled.COARSE), mu[mu > 0]
    return law.composed_worth([(1 / sent.min(), len(sent))], delta)[0] if len(sent) else 0.0


def longest(mu: np.ndarray) -> int:
    """Find the device that takes part in the most rounds, from mu, shape (round, user)."""
    return int((mu > 0).sum(axis=0).argmax())


class Occurred(NamedTuple):
    """The rounds that each device took part in, known to the observer; an `accountant.Mechanism`.

    All devices of a realization have the epsilon of `worst`. `message` is the distribution of the number of records in
    a device's message in such a round.
    """

    rate: float
    message: users.Messages
    sampling: str = SAMPLING

    @classmethod
    def build(cls, scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> Self:
        """Build the mechanism of a scenario."""
        rate = scenario.data.sampling
        return cls(rate, batches.messages(*population(tables), 1.0, rate, known=True, fixed=True))

    def worth(self, losses: Losses, claim: Claim, delta: float) -> tuple[np.ndarray, np.ndarray]:
        """Compute `worst`; for a user, at least that, and a bound for as many rounds as any device takes part in."""
        epsilon, kind = worst(losses, self.rate, delta)
        if claim.unit != RECORD:
            bound = cache(partial(users.worth, self.message, delta=delta, absent=ACCOUNTED["absent"]))
            least, most = least_multiplier(losses), (losses.mu > 0).sum(axis=1).max(axis=1)
            epsilons = [
                bound(*bounds) if bounds[1] else (0.0, Kind.EXACT)
                for bounds in zip(least.tolist(), most.tolist(), strict=True)
            ]
            most_of_users, kind = (np.array(values) for values in zip(*epsilons, strict=True))
            epsilon = np.maximum(epsilon, most_of_users)
        shape = len(epsilon), losses.mu.shape[2]
        return np.broadcast_to(epsilon[:, None], shape), np.broadcast_to(kind[:, None], shape)

    def attack_rate(self, account: Account, worst: np.ndarray) -> float:
        """Return NaN: only epsilon at delta is computed."""
        return np.nan


def least_multiplier(losses: Losses) -> np.ndarray:
    """Return the smallest noise multiplier of any round and device, shape (realization,); 0: nobody takes part."""
    largest = losses.mu.max(axis=(1, 2))
    with np.errstate(divide="ignore"):
        return np.where(largest > 0, 1 / largest, 0.0)


def epsilons(scenario: AnonymousOac, tables: dict[str, pl.DataFrame], losses: Losses) -> pl.DataFrame:
    """Compute further epsilons (null: nobody sends) and the smallest multiplier of each realization, for `outcome`.

    Epsilons of random participation (BY_CHANCE) are null.
    """
    delta, q = scenario.privacy.delta, scenario.data.sampling
    sends = losses.mu.max(axis=(1, 2)) > 0
    columns = {
        "noise_multiplier": least_multiplier(losses),
        "epsilon_identified": np.where(sends, worst(losses, q, delta, method="tight")[0], np.nan),
        "epsilon_opposite_records": [
            at_least(mu[:, longest(mu)], q, delta) if some else np.nan
            for mu, some in zip(losses.mu, sends, strict=True)
        ],
    }
    keys = {"realization": tables["users"]["realization"].unique().sort(), "reading": tables["noise"]["reading"][0]}
    nulls = dict.fromkeys(BY_CHANCE, pl.lit(None, pl.Float64))
    return pl.DataFrame(keys | columns).with_columns(pl.col(pl.Float64).fill_nan(None), **nulls)
