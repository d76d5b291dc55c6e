"""Compute epsilon of the Gaussian mechanism on random batches (subsampled Gaussian mechanism), for replace-one.

A round releases a sum over a batch plus Gaussian noise of `multiplier` times the sensitivity. Each record is in the
batch with probability `rate`. To an observer who knows more of the sampling (who takes part, how large the batch is),
that probability varies from round to round (`Rates`): a round's hockey-stick curve, delta as a function of epsilon, is
then the mean of the curves of these rates.

There are three methods (PAIRS): "tight", the pair of outputs that is usually used, not proved to be the worst over
several rounds; "proved", an upper bound; "opposite", a lower bound from one pair of records. Curves are converted to
privacy loss distributions on a grid of width `interval` ("connect the dots", of `dp_accounting`) and composed over
rounds by Fourier transforms, whose rounding errors limit how small delta may be (`rounding.least_delta`). A wider
interval is faster and gives a larger epsilon. Epsilon is infinite if a round's loss exceeds LARGEST_LOSS. Logarithms
are natural.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from typing import NamedTuple

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln, log_ndtr, logsumexp, ndtr

from pwfl.privacy import gaussian, rounding
from pwfl.privacy.accountant import FALSE_POSITIVES, Account, Claim, Losses
from pwfl.privacy.gaussian import exact_epsilon, zcdp
from pwfl.privacy.labels import Kind, labeled

ORDERS = np.arange(2, 65)  # Renyi orders; integers, as fractional ones require an alternating series
INTERVAL, COARSE = 1e-4, 5e-4  # grid of a privacy loss: for results, and for curves and searches
POINTS = 400_000  # of the grid, at most: beyond, the interval is wider and epsilon larger
TAIL = 10.0  # standard deviations of the noise up to which losses are computed
ALIKE = 1e-9  # relative difference up to which values of mu are treated as equal
NEGLIGIBLE = 1e-6  # epsilon
LARGEST_LOSS = 2000.0  # of a round: a larger one counts as no guarantee
CUT, CUT_SHARE = 1e-15, 1e-3  # mass of tails that a composition cuts off, at most; and that as a share of delta
NEAR = 1e-3  # accuracy of the epsilon that gives the best bound on attacks
COARSER = 4  # times the interval, for attacks: their rates grow by less than 1e-3 (relative)
REMOVE, ADD = AdjacencyType.REMOVE, AdjacencyType.ADD
Numbers = Sequence[int] | np.ndarray


class Rates(NamedTuple):
    """The distribution of a record's probability to be in a round's batch, as an observer knows it.

    Attributes
    ----------
    values, weights
        The rates, and their probabilities, shape (k,).
    lost
        Upper bound on the remaining probability, with which nothing is private.
    """

    values: np.ndarray
    weights: np.ndarray
    lost: float = 0.0


class Mechanism(NamedTuple):
    """A number of rounds with a noise multiplier, whose sampling an observer knows as `rates`.

    `absent` is as in `replace_one`.
    """

    rates: Rates
    multiplier: float
    rounds: int
    absent: float = 1.0


class Batches(NamedTuple):
    """Rounds on random batches, an `accountant.Mechanism`.

    Attributes
    ----------
    rates
        What an observer knows of the sampling.
    method
        A key of PAIRS.
    absent
        As in `replace_one`.
    interval
        Width of the grid of privacy losses.
    sampling
        Value of the column `sampling`.
    """

    rates: Rates
    method: str = "proved"
    absent: float = 1.0
    interval: float = INTERVAL
    sampling: str = "by chance"

    def worth(self, losses: Losses, claim: Claim, delta: float) -> tuple[np.ndarray, np.ndarray]:
        """Compute each user's epsilon of one record, shape (realization, user), and its kind, by composition."""
        return self._of_each_user(losses, delta)[:2]

    def epsilons(self, losses: Losses, delta: float) -> np.ndarray:
        """Compute each user's epsilon of one record, shape (realization, user)."""
        return self.worth(losses, Claim(""), delta)[0]

    def attack_rate(self, account: Account, worst: np.ndarray) -> np.ndarray:
        """Compute an upper bound on the rate from the composed privacy loss, on a coarser grid (`attack_rate`)."""
        one = account.losses.select_users(np.arange(len(worst)), worst)
        coarser = self._replace(interval=COARSER * self.interval)
        return coarser._of_each_user(one, account.delta, FALSE_POSITIVES)[2][:, 0]

    def _of_each_user(
        self, losses: Losses, delta: float, false_positives: float | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute `composed_worth` of each user's rounds, once for users with equal rounds.

        Returns three arrays of shape (realization, user), 0 for users who never send.
        """
        realizations, _, users = losses.mu.shape
        epsilon, kind, rate = (np.zeros((realizations, users), dtype) for dtype in (float, int, float))
        worth_once = cache(partial(self.composed_worth, delta=delta, false_positives=false_positives))
        for place in np.ndindex(realizations, users):
            mu = losses.mu[place[0], :, place[1]]
            seen = mu > 0
            if not seen.any():
                continue
            values, index = np.unique(np.round(np.log(mu[seen]) / ALIKE), return_inverse=True)
            rounds = np.bincount(index, losses.rounds[seen]).astype(int)
            multipliers = [1 / mu[seen][index == k].max() for k in range(len(values))]
            epsilon[place], kind[place], rate[place] = worth_once(tuple(zip(multipliers, rounds.tolist(), strict=True)))
        return epsilon, kind, rate

    def composed_worth(
        self, parts: Sequence[tuple[float, int]], delta: float, false_positives: float | None = None
    ) -> tuple[float, Kind, float]:
        """Compute epsilon after rounds with several noise multipliers, its kind, and an attack's true-positive rate.

        Parameters
        ----------
        parts
            Pairs (noise multiplier, number of rounds).
        delta
            The delta.
        false_positives
            The attack's false-positive rate; None: no rate is computed, and is NaN. Otherwise epsilon is NaN.
        """
        pair = PAIRS[self.method]
        if (self.rates.values == 1).all():
            rho = np.sum([zcdp(1.0, *part) for part in parts])
            if false_positives:
                return np.nan, Kind.EXACT, float(gaussian.attack_rate(rho, false_positives))
            epsilon, kind = labeled(exact_epsilon, rho, delta)
            return float(epsilon), kind, np.nan
        if any(beyond(multiplier) for multiplier, _ in parts):
            return np.inf, pair.kind, 1.0
        mechanisms = [Mechanism(self.rates, *part, self.absent) for part in parts]
        goal, loss = _in_turn(pair, mechanisms, delta, self.interval)
        if false_positives:
            return np.nan, pair.kind, attack_rate(loss, false_positives)
        return float(loss.get_epsilon_for_delta(goal)), pair.kind, np.nan

    def multiplier_for(self, epsilon: float, rounds: int, delta: float) -> float:
        """Find the noise multiplier that gives `epsilon` after `rounds` rounds, or at least NEGLIGIBLE.

        Raises ValueError if there is none between 0.01 and 1e5.
        """

        def excess(log_multiplier):
            reached, *_ = self.composed_worth([(np.exp(log_multiplier), rounds)], delta)
            return min(reached, 1e9) - max(epsilon, NEGLIGIBLE)

        # From above, as small multipliers take long.
        edges = np.log(np.geomspace(1e5, 0.01, 8))
        first = next((k for k, edge in enumerate(edges) if excess(edge) > 0), 0)
        if first == 0:
            raise ValueError(
                f"no noise multiplier between 0.01 and 1e5 gives epsilon {epsilon:g} after {rounds} rounds"
            )
        return float(np.exp(brentq(excess, edges[first], edges[first - 1], xtol=1e-5)))


def renyi(rate: float, multiplier: float) -> np.ndarray:
    """Compute the Renyi divergence of a Poisson-sampled round at ORDERS (Mironov, Talwar and Zhang, 2019, Sec. 3.3).

    For integer orders a it is ln(sum_k C(a, k) (1 - rate)^(a - k) rate^k exp(k (k - 1) / (2 multiplier^2))) / (a - 1).
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        precision = 1 / np.square(multiplier)
        if rate == 1:
            return ORDERS * precision / 2
        k = np.arange(ORDERS[-1] + 1)
        left = np.maximum(ORDERS[:, None] - k, 0)
        terms = gammaln(ORDERS[:, None] + 1) - gammaln(k + 1) - gammaln(left + 1)
        loss = np.where(k > 1, k * (k - 1) / 2 * precision, 0.0)  # none of k < 2, where there is no noise, either
        terms = terms + k * np.log(rate) + left * np.log1p(-rate) + loss
    return logsumexp(np.where(k <= ORDERS[:, None], terms, -np.inf), axis=1) / (ORDERS - 1)


def revealed(participation: float, divergence: np.ndarray) -> np.ndarray:
    """Compute the Renyi divergence at ORDERS of a round that is held with probability `participation`, known to all.

    `divergence` is that of the round if it is held, shape (order,).
    """
    if participation == 1:
        return divergence
    exponent = (ORDERS - 1) * divergence
    return np.logaddexp(np.log1p(-participation), np.log(participation) + exponent) / (ORDERS - 1)


def renyi_epsilon(divergence: np.ndarray, rounds: np.ndarray | Sequence[int] | int, delta: float) -> np.ndarray:
    """Compute epsilon after some numbers of rounds from a round's Renyi divergence at ORDERS, shape of `rounds`.

    min over orders a of rounds divergence(a) + ln(1 / delta) / (a - 1) (Mironov, 2017, Proposition 3; Lemma 1 of
    Hasircioglu and Gunduz).
    """
    total = np.multiply.outer(np.asarray(rounds, float), divergence) - np.log(delta) / (ORDERS - 1)
    return total.min(axis=-1)


def renyi_closed_form(rate: float, multiplier: float) -> np.ndarray:
    """Compute the Renyi divergence of a round at ORDERS by Theorem 1 of Hasircioglu and Gunduz.

    2 rate^2 alpha / multiplier^2 for rate <= 1/5, multiplier >= 4 and orders that satisfy (3) and (4); else infinite.
    """
    if not (rate <= 1 / 5 and multiplier >= 4):
        return np.full(len(ORDERS), np.inf)
    half, log_multiplier = multiplier**2 / 2, np.log(multiplier)
    gain = np.log1p(1 / (rate * (ORDERS - 1)))
    third = half * gain - 2 * log_multiplier
    fourth = (half * gain**2 - np.log(5) - 2 * log_multiplier) / (
        gain + np.log(rate * ORDERS) + 1 / (2 * multiplier**2)
    )
    return np.where((third >= ORDERS) & (fourth >= ORDERS), 2 * rate**2 * ORDERS / multiplier**2, np.inf)


def attack_rate(loss: PrivacyLossDistribution, false_positives: float) -> float:
    """Compute an upper bound on the true-positive rate of any attack at a false-positive rate.

    It is the minimum over epsilon >= 0 of exp(epsilon) false_positives + delta(epsilon) and of 1 - exp(-epsilon) (1 -
    delta(epsilon) - false_positives) (Dong, Roth and Su, 2022, Proposition 2.5). Every epsilon gives a valid bound, so
    the search need not find the best one.
    """

    def above(epsilon: float) -> float:
        return np.exp(epsilon) * false_positives + loss.get_delta_for_epsilon(float(epsilon))

    def below(epsilon: float) -> float:
        return 1 - np.exp(-epsilon) * (1 - loss.get_delta_for_epsilon(float(epsilon)) - false_positives)

    bounds = 0.0, -np.log(false_positives)  # beyond, `above` is more than 1
    first = minimize_scalar(above, bounds=bounds, method="bounded", options={"xatol": NEAR})
    rates = [1.0, above(0.0), first.fun]
    if first.x < 2 * NEAR:  # the best slope is less than 1
        rates.append(minimize_scalar(below, bounds=bounds, method="bounded", options={"xatol": NEAR}).fun)
    return float(min(rates))


def proved_together(mechanisms: Sequence[Mechanism], delta: float, interval: float = INTERVAL) -> float:
    """Compute an upper bound on epsilon after the rounds of several mechanisms, in any order ("proved" of PAIRS).

    A round without sampling has rate 1.
    """
    if any(beyond(mechanism.multiplier) for mechanism in mechanisms):
        return np.inf
    goal, loss = _in_turn(PAIRS["proved"], mechanisms, delta, interval)
    return float(loss.get_epsilon_for_delta(goal))


def hockey_stick(rate: float, epsilon: np.ndarray, multiplier: float, adjacency: AdjacencyType) -> np.ndarray:
    """Compute the smallest delta at each epsilon of one Poisson-sampled round, shape of `epsilon`.

    REMOVE compares P, which is N(1, multiplier^2) with probability `rate` and else N(0, multiplier^2), with Q =
    N(0, multiplier^2): delta = sup over sets S of P(S) - exp(epsilon) Q(S). ADD exchanges P and Q.
    """
    remove = adjacency == REMOVE
    # Beyond the loss that a record's certain absence has, delta is 1 - exp(epsilon) or 0.
    delta = -np.expm1(np.minimum(epsilon, 0.0)) if remove else np.zeros_like(epsilon)
    with np.errstate(divide="ignore"):
        absence = np.log1p(-rate)
    inside = epsilon > absence if remove else epsilon < -absence
    epsilon, side = epsilon[inside], -1 if remove else 1
    with np.errstate(divide="ignore", over="ignore"):
        # The output at which ln(1 - rate + rate exp((2 x - 1) / (2 multiplier^2))) is the loss.
        x = multiplier**2 * _log_ratio(rate, -side * epsilon) + 0.5
        absent = log_ndtr(side * x / multiplier)
        present = np.logaddexp(absence + absent, np.log(rate) + log_ndtr(side * (x - 1) / multiplier))
    upper, lower = (present, absent) if remove else (absent, present)
    delta[inside] = np.clip(np.exp(upper) - np.exp(epsilon + lower), 0.0, 1.0)
    return delta


def replace_one(rate: float, epsilon: np.ndarray, multiplier: float, absent: float) -> np.ndarray:
    """Compute an upper bound, at each epsilon, on delta of one round for all pairs of data that differ in a record.

    A round's output is A without the record, with it B, or B' in the other data: Gaussians whose means are at most
    `absent` (A to B, A to B') and 1 (B to B') apart. By advanced joint convexity (Balle, Barthe and Gaboardi, 2018,
    Theorem 2), with H the hockey-stick divergence at exp(epsilon) >= 1, a = 1 + (exp(epsilon) - 1) / rate and c =
    exp(epsilon) / a,

        H((1 - rate) A + rate B, (1 - rate) A + rate B') = rate H_a(B, (1 - c) A + c B')
                                                        <= rate ((1 - c) H_a(B, A) + c H_a(B, B'))

    and H_a of two Gaussians increases with their distance. The pair is symmetric in B and B', which gives epsilon < 0:
    H(P, Q) = 1 - exp(epsilon) + exp(epsilon) H'(Q, P), with H' at -epsilon. The inequality also holds on average over
    everything else that is random in the round.

    Distances are in units of the sensitivity. `absent` is 1 if a batch of known size has another record instead; the
    result is then the larger of both directions of `hockey_stick`. It is 1/2 for a sum that is divided by a constant: a
    gradient of norm L against none, where 2 L is the sensitivity.
    """
    size = np.abs(epsilon)
    log_a = _log_ratio(rate, size)
    c = np.exp(size - log_a)
    delta = rate * ((1 - c) * gaussian_delta(absent / multiplier, log_a) + c * gaussian_delta(1 / multiplier, log_a))
    below = np.minimum(epsilon, 0.0)
    return np.clip(np.where(epsilon < 0, -np.expm1(below) + np.exp(below) * delta, delta), 0.0, 1.0)


def opposite_records(rate: float, epsilon: np.ndarray, multiplier: float) -> np.ndarray:
    """Compute the smallest delta at each epsilon of one round for a record at 1/2 against one at -1/2, others at 0."""
    # The output at which the loss is epsilon solves a quadratic in exp(x / (2 multiplier^2)).
    with np.errstate(over="ignore"):
        c = rate * np.exp(-1 / (8 * multiplier**2))
        half = (1 - rate) * np.expm1(epsilon) / (2 * c)
        root = half + np.sqrt(half**2 + np.exp(epsilon))
        other = np.exp(epsilon) / (np.sqrt(half**2 + np.exp(epsilon)) - half)
    x = 2 * multiplier**2 * np.log(np.where(half > 0, root, other))
    tails = [(1 - rate) * ndtr(-x / multiplier) + rate * ndtr((sign / 2 - x) / multiplier) for sign in (1, -1)]
    return np.clip(tails[0] - np.exp(epsilon) * tails[1], -np.expm1(np.minimum(epsilon, 0.0)), 1.0)


def advanced_composition(multiplier: float, rounds: np.ndarray, delta: float) -> np.ndarray:
    """Compute epsilon after rounds without sampling by advanced composition (Dwork and Roth, 2014, Theorem 3.20).

    With e = sqrt(2 ln(1.25 / delta)) / multiplier of a round, it is sqrt(2 rounds ln(1 / delta)) e + rounds e (exp(e) -
    1), at (rounds + 1) delta in all: `delta` in each round and once for the composition. The formula for e is proved
    for e < 1 only, and too small for small multipliers.
    """
    rounds = np.asarray(rounds, float)
    per_round = np.sqrt(2 * np.log(1.25 / delta)) / multiplier
    with np.errstate(over="ignore"):
        return np.sqrt(-2 * rounds * np.log(delta)) * per_round + rounds * per_round * np.expm1(per_round)


def beyond(multiplier: float) -> bool:
    """Return whether the privacy loss of a round exceeds LARGEST_LOSS."""
    # The loss of a round without sampling at the tail; with sampling it is no larger.
    return multiplier <= 0 or not (TAIL + 0.5 / multiplier) / multiplier < LARGEST_LOSS


def _log_ratio(rate: float, loss: np.ndarray) -> np.ndarray:
    """Compute ln(1 + (exp(loss) - 1) / rate), or -infinity if its argument is not positive."""
    with np.errstate(divide="ignore", over="ignore"):
        return loss + np.log1p(-np.minimum((1 - rate) * np.exp(-loss), 1.0)) - np.log(rate)


def gaussian_delta(distance: np.ndarray | float, log_order: np.ndarray | float) -> np.ndarray:
    """Compute the hockey-stick divergence of order exp(log_order) of unit-variance Gaussians at a distance."""
    upper, lower = (log_ndtr(side * distance / 2 - log_order / distance) for side in (1, -1))
    return np.maximum(np.exp(upper) - np.exp(log_order + lower), 0.0)


def _interval(limits: tuple[float, float], interval: float) -> float:
    """Return the grid's width for losses between some limits: `interval`, or more for at most POINTS points."""
    return max(interval, (limits[1] - limits[0]) / POINTS)


def _limits(rates: Rates, multiplier: float) -> list[tuple[float, float]]:
    """Return the range of losses of each direction, REMOVE and ADD, of a round: up to TAIL standard deviations."""
    highest = rates.values.max()
    losses = [GaussianPrivacyLoss(multiplier, sampling_prob=highest, adjacency_type=kind) for kind in (REMOVE, ADD)]
    return [(b.epsilon_lower, b.epsilon_upper) for b in (loss.connect_dots_bounds() for loss in losses)]  # ty: ignore


def _mass(
    curve: Callable[[float, np.ndarray], np.ndarray], rates: Rates, limits: tuple[float, float], interval: float
) -> pld_pmf.PLDPmf:
    """Compute a round's privacy loss distribution from its hockey-stick `curve(rate, epsilon)`, averaged over rates."""
    (lower, upper), interval = limits, _interval(limits, interval)
    steps = np.arange(np.floor(lower / interval), np.ceil(upper / interval) + 1)
    epsilon = steps * interval
    mixed = np.full_like(epsilon, rates.lost)
    for rate, weight in zip(rates.values, rates.weights, strict=True):
        mixed += weight * (curve(rate, epsilon) if rate else -np.expm1(np.minimum(epsilon, 0.0)))
    return pld_pmf.create_pmf_pessimistic_connect_dots(interval, steps.astype(int), np.minimum(mixed, 1.0))


def _either_way(rates: Rates, multiplier: float) -> list[tuple[float, float]]:
    """Return the range of losses of a symmetric pair (`replace_one`): the larger range of both directions."""
    limit = np.abs(_limits(rates, multiplier)).max()
    return [(-limit, limit)]


def _opposite_limits(rates: Rates, multiplier: float) -> list[tuple[float, float]]:
    """Return the range of losses of `opposite_records`, up to TAIL standard deviations."""
    rate, x = rates.values.max(), TAIL * multiplier + 0.5
    with np.errstate(divide="ignore"):
        absence = np.log1p(-rate)
    # Log-likelihood ratios of output x with a record at 1/2, and at -1/2, to none.
    one, other = (np.logaddexp(absence, np.log(rate) + (sign * x / 2 - 1 / 8) / multiplier**2) for sign in (1, -1))
    limit = float(one - other)
    return [(-limit, limit)]


class Pair(NamedTuple):
    """A method: which pair of outputs of a round epsilon is computed from.

    Attributes
    ----------
    kind
        The kind of epsilon.
    curves
        `curves(multiplier, absent)` returns hockey-stick curves, one per direction: each is a function `curve(rate,
        epsilon)` that returns deltas.
    limits
        `limits(rates, multiplier)` returns the range of losses of each curve's grid.
    """

    kind: Kind
    curves: Callable[[float, float], list[Callable[[float, np.ndarray], np.ndarray]]]
    limits: Callable[[Rates, float], list[tuple[float, float]]]

    def loss(self, rates: Rates, multiplier: float, absent: float, interval: float) -> PrivacyLossDistribution:
        """Compute the privacy loss distribution of a round."""
        directions = zip(self.curves(multiplier, absent), self.limits(rates, multiplier), strict=True)
        return PrivacyLossDistribution(*(_mass(curve, rates, limits, interval) for curve, limits in directions))

    def epsilons(
        self, rates: Rates, multiplier: float, rounds: Numbers, delta: float, absent=1.0, interval=INTERVAL
    ) -> np.ndarray:
        """Compute epsilon after some numbers of `rounds`, shape (k,); in closed form if nothing is sampled.

        >>> law = Rates(np.array([0.01]), np.ones(1))
        >>> PAIRS["tight"].epsilons(law, 1.0, [1, 1000], delta=1e-5).round(3).tolist()
        [0.199, 1.828]
        """
        if (rates.values == 1).all():
            return exact_epsilon(zcdp(1.0, multiplier, np.asarray(rounds, float)), delta)
        if beyond(multiplier):
            return np.full(len(rounds), np.inf)
        return composed(self.loss(rates, multiplier, absent, interval), rounds, delta, lower=self.kind == Kind.LOWER)


def _usual(multiplier: float, _absent: float) -> list:
    """Return the hockey-stick curves of the pair "tight", of both directions."""
    return [partial(hockey_stick, multiplier=multiplier, adjacency=adjacency) for adjacency in (REMOVE, ADD)]


# By method. Tight: the usual pair for the sampled Gaussian, a round with and without a record of twice the norm, in
# both directions; not proved to be the worst one over several rounds. Proved: `replace_one`, whose curve is an upper
# bound on each round's whatever happened before, so that the composed curve is an upper bound on that of all rounds
# (Zhu, Dong and Wang, 2022, Theorem 10). Opposite: a record whose gradient changes its sign; no valid epsilon of
# replace-one is smaller.
PAIRS = {
    "tight": Pair(Kind.UNPROVED, _usual, _limits),
    "proved": Pair(
        Kind.UPPER,
        lambda multiplier, absent: [partial(replace_one, multiplier=multiplier, absent=absent)],
        _either_way,
    ),
    "opposite": Pair(
        Kind.LOWER, lambda multiplier, _absent: [partial(opposite_records, multiplier=multiplier)], _opposite_limits
    ),
}


def composed(distribution: PrivacyLossDistribution, rounds: Numbers, delta: float, lower: bool = False) -> np.ndarray:
    """Compute epsilon after some numbers of rounds, shape (k,), each with a privacy loss distribution.

    Rounding errors are added, so that it is an upper bound, or subtracted for a `lower` bound. Raises ValueError for a
    delta below `rounding.least_delta`.
    """
    distributions = (_together([(distribution, int(count))], delta, lower) for count in rounds)
    return np.array([float(loss.get_epsilon_for_delta(goal)) for goal, loss in distributions])


def _in_turn(
    pair: Pair, mechanisms: Sequence[Mechanism], delta: float, interval: float
) -> tuple[float, PrivacyLossDistribution]:
    """Do `_together` for mechanisms by the method `pair`, on one grid: the widest interval that any of them needs."""
    limits = (limit for one in mechanisms for limit in pair.limits(one.rates, one.multiplier))
    interval = max(_interval(limit, interval) for limit in limits)
    parts = [(pair.loss(one.rates, one.multiplier, one.absent, interval), int(one.rounds)) for one in mechanisms]
    return _together(parts, delta, pair.kind == Kind.LOWER)


def _together(
    parts: Sequence[tuple[PrivacyLossDistribution, int]], delta: float, lower: bool = False
) -> tuple[float, PrivacyLossDistribution]:
    """Compose the privacy losses of rounds; return the delta at which to evaluate the result, and the result.

    `parts` are pairs of a round's distribution and the number of such rounds. That delta differs from `delta` by
    rounding errors (`rounding.left`).
    """
    goal, cut = rounding.left(delta, sum(count for _, count in parts), lower), min(CUT, CUT_SHARE * delta)
    composed = [distribution.self_compose(count, cut) for distribution, count in parts]
    return goal, reduce(lambda one, other: one.compose(other, cut), composed)
