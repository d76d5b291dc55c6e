"""Noise of each scheme's rounds, and an observer's possible knowledge of their sampling."""

from typing import NamedTuple, Self

import numpy as np
import polars as pl

from pwfl.privacy import sampled, users
from pwfl.privacy.accountant import RECORD, Account, Claim, Losses
from pwfl.privacy.labels import Kind
from pwfl.systems.anonymous_oac import batches
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.schemes import MECHANISMS, NOISES, READ, READINGS, SUM, UPLOAD


def strengths(scenario: AnonymousOac, scheme: str, multiplier: float, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Make the table `noise` for a noise multiplier, from `users` and `schedule`; see `noise.run`."""
    keys, (devices, samples) = ["realization", "round"], population(tables)
    kind = MECHANISMS[scheme]
    senders = tables["schedule"].filter(pl.lit(kind.fixed) | (pl.col("batch") > 0))
    sums = senders.group_by(keys, maintain_order=True).agg(senders=pl.len(), records=pl.col("batch").sum())
    expected = samples * scenario.data.sampling
    divisor = pl.col("records").cast(pl.Float64)
    if kind.fixed:
        divisor = pl.col("senders") * expected if kind.local else devices * scenario.network.participation * expected
    realizations = tables["users"].select("realization").unique(maintain_order=True)
    rounds = pl.DataFrame({"round": np.arange(1, scenario.training.rounds + 1)})
    update_noise_std = pl.lit(float(multiplier * 2 * scenario.training.clip_norm)) / pl.col("divisor")
    return (
        realizations.join(rounds, how="cross")
        .join(sums.with_columns(divisor=divisor), on=keys, how="left", maintain_order="left")
        .select(
            *keys,
            update_noise_std=(update_noise_std * (pl.col("senders").sqrt() if kind.local else 1.0)).fill_null(0.0),
            divisor=pl.col("divisor").fill_null(0.0),
            noise_multiplier=pl.lit(multiplier),
            noise=pl.lit(scheme),
            reading=pl.lit(kind.reading),
        )
    )


def population(tables: dict[str, pl.DataFrame]) -> tuple[int, int]:
    """Return the number of devices and the number of records of each one, the same in all realizations."""
    users = tables["users"]
    return len(users.filter(pl.col("realization") == users["realization"][0])), users["samples"][0]


def accounting(scheme: str) -> dict:
    """Return the arguments of `sampled.Batches` by which a noise scheme is accounted for.

    Fixed noise uses the proved bound. Sums are divided by a constant, so a record's gradient is compared with none.
    For other noise, that bound is far above the usual pair, which is used instead.
    """
    fixed = MECHANISMS[scheme].fixed
    return {"method": "proved" if fixed else "tight", "absent": 0.5 if fixed else 1.0}


class Readings(NamedTuple):
    """Rounds on batches of devices that take part at random, an `accountant.Mechanism`.

    `laws` has a distribution for each observer. `message` is the distribution of the number of records in a message.
    """

    laws: dict[str, sampled.Batches]
    message: users.Messages
    sampling: str

    @classmethod
    def build(
        cls, scenario: AnonymousOac, scheme: str, laws: dict[str, sampled.Rates], tables: dict[str, pl.DataFrame]
    ) -> Self:
        """Build from a noise scheme and its `readings`: by the scheme's accounting, for READ by the usual pair."""
        kind = NOISES[scheme]
        chances = scenario.network.participation, scenario.data.sampling
        message = batches.messages(*population(tables), *chances, READINGS[kind.reading].participation, kind.fixed)
        assumed = sampled.Batches(laws[kind.reading], **accounting(scheme))
        read = {READ: sampled.Batches(law, "tight")} if (law := laws.get("anonymous_read")) else {}  # local: none
        return cls({SUM: assumed, UPLOAD: assumed} | read, message, kind.sampling)

    def worth(self, losses: Losses, claim: Claim, delta: float) -> tuple[np.ndarray, np.ndarray | Kind]:
        """Compute epsilon by the observer's distribution; for a user, a bound of at least its record's epsilon."""
        law = self.laws[claim.observer]
        epsilon, kind = law.worth(losses, claim, delta)
        if claim.unit == RECORD:
            return epsilon, kind
        epsilon_user, kind = users.worth(self.message, losses.multiplier, int(losses.rounds[0]), delta, law.absent)
        return np.maximum(epsilon, epsilon_user), kind

    def attack_rate(self, account: Account, worst: np.ndarray) -> np.ndarray | float:
        """Compute the rate by the observer's distribution; NaN for a user, as only epsilon at delta is known."""
        return self.laws[account.claim.observer].attack_rate(account, worst) if account.claim.unit == RECORD else np.nan


def readings(scenario: AnonymousOac, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, sampled.Rates]:
    """Return the distribution under each interpretation of the observer's knowledge; see `batches.readings`."""
    kind, network, data = MECHANISMS[scheme], scenario.network, scenario.data
    return batches.readings(*population(tables), network.participation, data.sampling, kind.local, kind.fixed)
