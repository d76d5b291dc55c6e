"""What several releases computed of the same records cost together: their privacy losses compose, not their epsilons.

Each release is a training with noise that is independent of all others', so releases compose adaptively. Natural
logarithms; epsilons are upper bounds for every record, whichever is the worst one of each release:

- Gaussian mechanisms: rho of zCDP adds up, and epsilon of the sum is that of one Gaussian mechanism.
- Bounds that hold up to an order alone (tCDP, Bun et al., 2018): rho adds up, the least order remains; by Renyi DP.
- Pure DP: epsilons add up, beside an epsilon of all others.
- Gaussian mechanisms on batches that chance draws: see `Sampled`.
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
    """Rounds that are Gaussian mechanisms of `mu` where a record is in the batch, and tell nothing of it elsewhere.

    Releases of one `seed` and `design` are of the same batches in one `realization`, of independent ones in two. So in
    a realization a round of all of them is one Gaussian mechanism on one batch, whose mu^2 is the sum of theirs, and an
    observer knows of the batch what any of them tells. Of unequal designs of one seed, or unequal variants in one
    realization, batches may depend on each other in any way: then the chance to be in a batch hides nothing.

    Attributes
    ----------
    design, variant
        What batches follow from in all realizations, and in this one.
    knows
        What the release tells of its batches.
    law
        A record's chance to be in a round's batch as an observer knows it who knows all that: `sampled.Rates`, and
        `absent` of `sampled.replace_one`.
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
        """zCDP of a record that is in each batch."""
        return self.rounds * self.mu**2 / 2


@dataclass(frozen=True)
class Loss:
    """What a release costs its worst record, of all parts together.

    Attributes
    ----------
    rho
        zCDP, or up to the Renyi `order`, a whole number, alone.
    pure
        epsilon of pure DP.
    sampled
        Rounds on batches that chance draws.
    lost
        The probability that none of this holds.
    own_records
        Whether the records are drawn for this realization alone: others do not share them.
    """

    rho: float = 0.0
    order: float = math.inf
    pure: float = 0.0
    sampled: Sampled | None = None
    lost: float = 0.0
    own_records: bool = False

    @property
    def unsampled(self) -> float:
        """rho if every record is in each batch."""
        return self.rho + (self.sampled.rho if self.sampled else 0.0)


class Composed(NamedTuple):
    """What releases cost together: epsilon, and in words whether that is exact."""

    epsilon: float
    bound: str


EXACT, UPPER = "of one release: exact if its epsilon_server is", "upper bound"
UNAMPLIFIED = f"{UPPER}: without amplification by sampling where unequal batches may depend on each other"
UNRESOLVED = f"{UPPER}: without amplification by sampling, as delta is too small to compute it of so many rounds"


def compose(losses: Sequence[Loss], delta: float) -> Composed:
    """epsilon at `delta` of all releases together; infinite where nothing is proved."""
    if len(losses) == 1 and not losses[0].sampled and losses[0].order == math.inf and not losses[0].lost:
        bound = EXACT
    else:
        bound = UNAMPLIFIED if _entangled(losses) else UPPER
        rounds, left = _sampled_rounds(losses), delta - math.fsum(loss.lost for loss in losses)
        if rounds and left < rounding.least_delta(rounds):
            bound = UNRESOLVED
    return Composed(float(math.fsum(loss.pure for loss in losses) + _approximate(losses, delta)), bound)


def _approximate(losses: Sequence[Loss], delta: float) -> float:
    """epsilon at `delta` of all but what is pure."""
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
    """epsilon at `delta` by the privacy losses of rounds on batches, and of Gaussian mechanisms as one more round."""
    from pwfl.privacy import sampled  # here, as every report would wait for its libraries

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
    """How many rounds `_amplified` composes at most: those on batches, and one of Gaussian mechanisms; 0: none."""
    rounds = sum(loss.sampled.rounds for loss in losses if loss.sampled)
    return rounds + 1 if rounds else 0


def _entangled(losses: Iterable[Loss]) -> set[tuple[int, int]]:
    """The seeds and realizations whose batches may depend on each other without being the same."""
    designs, variants = {}, {}
    for part in (loss.sampled for loss in losses if loss.sampled):
        designs.setdefault(part.seed, set()).add(part.design)
        variants.setdefault((part.seed, part.realization), set()).add(part.variant)
    return {at for at, multipliers in variants.items() if len(multipliers) > 1 or len(designs[at[0]]) > 1}
