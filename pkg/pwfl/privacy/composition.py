"""Compose the privacy losses of several releases computed from the same records.

Each release is a training run whose noise is independent of all others', so releases compose adaptively. Epsilons are
upper bounds for every record, whichever is the most exposed one of each release. Logarithms are natural.

- Gaussian mechanisms: rho (zCDP) adds up, and epsilon of the sum is that of one Gaussian mechanism.
- Bounds up to a Renyi order (truncated CDP; Bun et al., 2018): rho adds up, and the smallest order remains.
- Pure DP: epsilons add up, and are added to epsilon of all other releases.
- Gaussian mechanisms on random batches: see `Sampled`.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pwfl.privacy import discrete, rounding
from pwfl.privacy.gaussian import exact_epsilon


class Sampled(NamedTuple):
    """Rounds on random batches: Gaussian mechanisms of `mu` if a record is in the batch, independent of it if not.

    Releases with the same seed, design and realization use the same batches. Their rounds are then one Gaussian
    mechanism on one batch, whose mu^2 is the sum of theirs, and an observer knows of the batch whatever any of them
    reveals. In different realizations, batches are independent. With different designs of one seed, or different
    variants in one realization, batches may depend on each other in any way, so sampling does not reduce epsilon.

    Attributes
    ----------
    mu
        Sensitivity / noise standard deviation of a round.
    rounds
        Number of rounds.
    seed, realization
        The scenario's seed, and the number of the realization.
    design
        Everything that determines the batches of all realizations, besides the seed.
    variant
        Everything else that determines the batches of this realization.
    knows
        Names of what the release reveals of its batches.
    law
        `law(knows)` returns `(rates, absent)` for an observer who knows all that: the distribution of a record's
        probability to be in a batch (`sampled.Rates`), and `absent` of `sampled.replace_one`.
    """

    mu: float
    rounds: int
    seed: int
    design: Hashable
    realization: int
    knows: frozenset[str]
    law: Callable[[frozenset[str]], tuple]
    variant: Hashable = None

    @property
    def rho(self) -> float:
        """rho (zCDP) of a record that is in every batch: rounds mu^2 / 2."""
        return self.rounds * self.mu**2 / 2


@dataclass(frozen=True)
class Loss:
    """The privacy loss of a release, for its most exposed record; the parts add up.

    Attributes
    ----------
    rho
        zCDP of Gaussian mechanisms.
    order
        Whole number up to which the Renyi divergence of order alpha is at most rho alpha; infinite: all orders.
    pure
        epsilon of pure DP.
    sampled
        Rounds on random batches; None: none.
    lost
        Probability that none of this holds.
    own_records
        Whether the records are drawn for this realization alone, so that no other realization uses them.
    """

    rho: float = 0.0
    order: float = math.inf
    pure: float = 0.0
    sampled: Sampled | None = None
    lost: float = 0.0
    own_records: bool = False

    @property
    def unsampled(self) -> float:
        """rho if every record is in every batch."""
        return self.rho + (self.sampled.rho if self.sampled else 0.0)


class Composed(NamedTuple):
    """epsilon of several releases together, and in words whether it is exact or a bound."""

    epsilon: float
    bound: str


EXACT, UPPER = "of one release: exact if its epsilon_server is", "upper bound"
UNAMPLIFIED = f"{UPPER}: without amplification by sampling where unequal batches may depend on each other"
UNRESOLVED = f"{UPPER}: without amplification by sampling, as delta is too small to compute it of so many rounds"


def compose(losses: Sequence[Loss], delta: float) -> Composed:
    """Compute epsilon at `delta` of all releases together; infinite if nothing is proved."""
    if len(losses) == 1 and not losses[0].sampled and losses[0].order == math.inf and not losses[0].lost:
        bound = EXACT
    else:
        bound = UNAMPLIFIED if _entangled(losses) else UPPER
        rounds, left = _sampled_rounds(losses), delta - math.fsum(loss.lost for loss in losses)
        if rounds and left < rounding.least_delta(rounds):
            bound = UNRESOLVED
    return Composed(float(math.fsum(loss.pure for loss in losses) + _approximate(losses, delta)), bound)


def _approximate(losses: Sequence[Loss], delta: float) -> float:
    """Compute epsilon at `delta` of all parts except pure DP."""
    rho, order = math.fsum(loss.unsampled for loss in losses), min(loss.order for loss in losses)
    if rho == 0:
        return 0.0
    if not (delta := delta - math.fsum(loss.lost for loss in losses)) > 0:
        return math.inf
    if order < math.inf:
        orders = discrete.WHOLE_ORDERS[order >= discrete.WHOLE_ORDERS]
        return float(discrete.epsilon(orders, orders * rho, delta))
    epsilon = float(exact_epsilon(np.asarray(rho), delta))
    amplified = any(loss.sampled for loss in losses) and delta >= rounding.least_delta(_sampled_rounds(losses))
    return min(epsilon, _amplified(losses, delta)) if amplified else epsilon


def _amplified(losses: Sequence[Loss], delta: float) -> float:
    """Compute epsilon at `delta` from privacy loss distributions of rounds on batches.

    All Gaussian mechanisms together are one additional round without sampling. Infinite if there are no such rounds, or
    all depend on each other.
    """
    from pwfl.privacy import sampled  # here, as its libraries would delay every report

    entangled = _entangled(losses)
    rho, batches = [loss.rho for loss in losses], {}
    for part in (loss.sampled for loss in losses if loss.sampled):
        if (part.seed, part.realization) in entangled:
            rho.append(part.rho)
        else:
            batches.setdefault((part.seed, part.design, part.realization), []).append(part)
    if not batches:
        return math.inf
    alike, laws = Counter(), {}
    for (_, design, _), parts in batches.items():
        (rounds,) = {part.rounds for part in parts}  # of one design
        knows = frozenset().union(*(part.knows for part in parts))
        mu = math.sqrt(math.fsum(part.mu**2 for part in parts))
        if (design, knows) not in laws:
            laws[design, knows] = parts[0].law(knows)
        alike[design, knows, mu] += rounds
    mechanisms = []
    for (design, knows, mu), rounds in alike.items():
        rates, absent = laws[design, knows]
        mechanisms.append(sampled.Mechanism(rates, 1 / mu, rounds, absent))
    if (total := math.fsum(rho)) > 0:
        always = sampled.Rates(np.ones(1), np.ones(1))
        mechanisms.append(sampled.Mechanism(always, 1 / math.sqrt(2 * total), 1))
    return sampled.proved_together(mechanisms, delta)


def _sampled_rounds(losses: Iterable[Loss]) -> int:
    """Return the number of rounds that `_amplified` composes at most; 0 if no release samples."""
    rounds = sum(loss.sampled.rounds for loss in losses if loss.sampled)
    return rounds + 1 if rounds else 0


def _entangled(losses: Iterable[Loss]) -> set[tuple[int, int]]:
    """Return the (seed, realization) whose batches may depend on each other without being the same."""
    designs, variants = {}, {}
    for part in (loss.sampled for loss in losses if loss.sampled):
        designs.setdefault(part.seed, set()).add(part.design)
        variants.setdefault((part.seed, part.realization), set()).add(part.variant)
    return {at for at, different in variants.items() if len(different) > 1 or len(designs[at[0]]) > 1}
