"""Statistical tests for privacy audits: compare messages and noise with what the stage `account` states.

A system's audit runs the code of its training, with schedule and noise of the realization with the most exposed record,
and passes messages and noise to the tests of this module. Each test is two-sided and has the false-alarm probability
LEVEL. Its `Verdict` states the smallest error that it detects with probability POWER. An audit of one scheme has at
most VERDICTS verdicts, so its false-alarm probability is at most FALSE_ALARM (union bound). Several tests of one kind
share a verdict (`worst_of`).

Unless stated otherwise, random numbers passed to a test are independent standard normal if there is no fault.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy import fft, optimize, stats

from pwfl.privacy import accountant
from pwfl.privacy.gaussian import exact_multiplier
from pwfl.tables import contract

log = logging.getLogger(__name__)

COLUMNS = {name: column.dtype for name, column in contract.Audit.columns().items()}
FALSE_ALARM = 1e-6  # probability of a false alarm in an audit
VERDICTS = 30  # of an audit, at most
LEVEL = FALSE_ALARM / VERDICTS  # probability of a false alarm of a verdict
POWER = 0.99  # probability of detecting the error that a verdict names
LIMIT = float(stats.norm.isf(LEVEL / 2))  # standard errors
NO_MOVE = 1e-9  # share of a stated sensitivity that counts as no movement
# Shares of a stated sensitivity: what some replaced record must move a message by, and the error of float32.
REACHED, ROUNDING = 0.99, 1e-3
DRAWS = 140_000  # normal numbers in a test of noise, at least: it detects a standard deviation 1.5 % too small
STREAMS = 3  # of `pwfl.streams.name_tested_noise`
BLOCKS = 64  # of consecutive coordinates, between which correlations are tested
LOSS = "privacy loss of canaries"  # the test of canaries' log-likelihood ratios
LEAST = "epsilon of the losses"  # the test that the stated epsilon is not below a lower bound
LOW_NOISE, CORRELATED = "noise {percent} too low", "a correlation of {number}"
RECORD = "signal of a record"  # the test of one replaced record's movement in all rounds, over the noise
TRAINED = "loss of what is trained"  # the test that a system's trainer trains the model that is audited
NOTHING = "everything"  # the name of the test if nothing can be tested


class Subject(NamedTuple):
    """What is tested.

    Attributes
    ----------
    realization
        The realization with the most exposed record.
    observer
        What the observer receives, in words.
    delta, epsilon
        The stated guarantee. epsilon None: nothing is sent; infinite: no noise is added.
    """

    realization: int
    observer: str
    delta: float
    epsilon: float | None

    @property
    def mu(self) -> float:
        """mu of the Gaussian mechanism that has the stated epsilon at delta."""
        return 1 / float(exact_multiplier(np.array([self.epsilon]), self.delta)[0])


class Verdict(NamedTuple):
    """A row of the table `audit`; `contract.Audit` describes its columns."""

    subject: Subject
    test: str
    status: str
    reason: str | None = None
    draws: int = 0
    stated: float | None = None
    measured: float | None = None
    expected_min: float | None = None
    expected_max: float | None = None
    detectable: float | None = None
    detects: str | None = None


def table(verdicts: Iterable[Verdict]) -> pl.DataFrame:
    """Make the table `audit` from a system's verdicts on a scheme.

    Raises ValueError for more than VERDICTS, for which the stated false-alarm probability would be too small.
    """
    rows = []
    for verdict in verdicts:
        if len(rows) == VERDICTS:
            raise ValueError(
                f"an audit has at most {VERDICTS} verdicts, for which its false-alarm rate is stated; merge verdicts "
                f"of one kind by `worst_of`; {verdict.test!r} is one too many"
            )
        values = (verdict.test, verdict.status, verdict.measured, verdict.expected_min, verdict.expected_max)
        log.info("%s, %s: %s; measured %s, expected %s to %s", verdict.subject.observer, *values)
        row = verdict.subject._asdict() | verdict._asdict() | {"false_alarm": FALSE_ALARM, "power": POWER}
        rows.append({name: row[name] for name in COLUMNS})
    return pl.DataFrame(rows, schema=COLUMNS)


def untested(subject: Subject, why: str | None = None) -> Verdict:
    """Return the verdict `not_tested`, with a reason `why`; None: nobody sends (no epsilon is stated), or no noise."""
    return Verdict(subject, NOTHING, "not_tested", why or ("nobody sends" if subject.epsilon is None else "no noise"))


def sensitivity(
    subject: Subject,
    moved: np.ndarray,
    stated: float,
    message: str = "",
    reached: bool = True,
    tolerance: float = ROUNDING,
) -> Verdict:
    """Test whether replacing a record moves messages without noise by at most the stated sensitivity, and some by it.

    Parameters
    ----------
    subject
        What is tested.
    moved
        L2 norms of movements, any shape.
    stated
        The stated sensitivity.
    message
        Which message, if there are several, in words.
    reached
        Whether some movement must reach the sensitivity (REACHED). If not, the verdict detects only errors beyond the
        largest movement.
    tolerance
        Relative error of the movements.
    """
    test = f"sensitivity of the {message}" if message else "sensitivity"
    most = float(moved.max())
    low, high = (REACHED + ROUNDING - tolerance) * stated if reached else 0.0, (1 + tolerance) * stated
    detectable = tolerance if reached else max(tolerance, high / max(most, NO_MOVE * high) - 1)
    return within(subject, test, moved.size, stated, most, low, high, detectable, "a record moves {percent} too far")


def bounded(subject: Subject, losses: np.ndarray, epsilon: float) -> Verdict:
    """Test whether the largest of some privacy losses is the stated `epsilon` of pure DP (delta = 0)."""
    low, high = REACHED * epsilon, (1 + ROUNDING) * epsilon
    most, fault = float(losses.max()), "epsilon {percent} too low"
    return within(subject, "largest privacy loss", losses.size, epsilon, most, low, high, ROUNDING, fault)


def at_least(subject: Subject, epsilon: float) -> Verdict:
    """Test whether the stated epsilon is at least `epsilon`, a lower bound from some records' privacy losses.

    Other records may lose more, which this test does not detect.
    """
    stated = float(subject.epsilon)  # ty: ignore  # not None: see `untested`
    share = epsilon / stated if stated > 0 else 1.0  # of an epsilon of 0 all is seen that is above
    high, seen = (1 + ROUNDING) * stated, max(0.0, 1 - share) + ROUNDING
    return within(subject, LEAST, 1, stated, epsilon, 0.0, high, seen, "epsilon {percent} too low")


def noise(subject: Subject, draws: np.ndarray, std: np.ndarray | float) -> Iterator[Verdict]:
    """Test whether noise is independent, Gaussian, and of the stated standard deviation.

    Parameters
    ----------
    subject
        What is tested.
    draws
        Noise of the streams that `pwfl.streams.name_tested_noise` names, shape (stream, round, coordinate): the first
        two of different runs, the first and the third of different schemes.
    std
        The stated standard deviation, broadcast with `draws`.
    """
    scaled = draws / std
    yield variance(subject, "deviation of the noise", scaled)
    yield mean(subject, "mean of the noise", scaled)
    _, rounds, coordinates = scaled.shape
    blocks = min(coordinates, BLOCKS)
    groups = {
        "rounds": np.swapaxes(scaled, 0, 1).reshape(rounds, -1),
        "coordinates": np.moveaxis(scaled[..., : coordinates // blocks * blocks], 2, 0).reshape(blocks, -1),
        "runs": scaled[:2].reshape(2, -1),
        "schemes": scaled[::2].reshape(2, -1),
    }
    for name, parts in groups.items():
        if len(parts) > 1 and parts.shape[1] > 1:
            yield correlation(subject, f"noise of different {name}", parts)


def laplace(subject: Subject, draws: np.ndarray, scale: float) -> Iterator[Verdict]:
    """Test Laplace noise of a stated scale b, `draws` as in `noise`.

    2 sum |x| / b has a chi-square distribution. The tests of `noise` are of the normal numbers of the same quantiles.
    """
    scaled = draws / scale
    low, high, usual = _mean_squares(2 * draws.size)
    measured, seen = float(np.abs(scaled).mean()), 1 - low / usual
    yield within(subject, "scale of the noise", draws.size, 1.0, measured, low, high, seen, LOW_NOISE)
    # Normal numbers of the same quantiles, computed from the nearer tail for accuracy.
    normal = -np.sign(scaled) * stats.norm.ppf(np.exp(-np.abs(scaled)) / 2)
    yield from noise(subject, normal, 1.0)


def worst_of(test: Callable[..., Verdict], subject: Subject, name: str, parts: Sequence[np.ndarray], *more) -> Verdict:
    """Test several parts and return one verdict: that of the part nearest to its limits, or farthest beyond.

    The error that the verdict detects is detected in any of the parts.

    Parameters
    ----------
    test
        `test(subject, name, part, *more, share=)`: `variance`, `mean` or `distribution`. `share` is the part's share of
        LEVEL, 1 / number of parts.
    subject, name
        What is tested, and the test's name.
    parts
        Random numbers.
    more
        Further arguments of the test.
    """
    verdicts = [test(subject, name, part, *more, share=1 / len(parts)) for part in parts]
    nearest, weakest = max(verdicts, key=_strain), max(verdicts, key=lambda verdict: verdict.detectable)
    draws = sum(verdict.draws for verdict in verdicts)
    return nearest._replace(draws=draws, detectable=weakest.detectable, detects=weakest.detects)


def _strain(verdict: Verdict) -> float:
    """Compute |measured - stated| over the largest that it may be on the same side."""
    measured, stated, low, high = np.array(
        [verdict.measured, verdict.stated, verdict.expected_min, verdict.expected_max], float
    )
    off, room = abs(measured - stated), high - stated if measured > stated else stated - low
    return off / room if room > 0 else np.inf if off > 0 else 0.0


def variance(subject: Subject, test: str, scaled: np.ndarray, share: float = 1.0) -> Verdict:
    """Test whether independent normal numbers, any shape, have standard deviation 1 (chi-square test).

    `share` of LEVEL is this test's; see `worst_of`.
    """
    low, high, usual = np.sqrt(_mean_squares(scaled.size, share))
    measured = float(np.sqrt(np.mean(np.square(scaled))))
    return within(subject, test, scaled.size, 1.0, measured, low, high, 1 - low / usual, LOW_NOISE)


def _mean_squares(count: int, share: float = 1.0) -> np.ndarray:
    """Compute limits of a mean of `count` squares of normal numbers: two-sided at the level, and its quantile POWER."""
    tail = share * LEVEL / 2
    limits = stats.chi2.ppf(tail, count), stats.chi2.isf(tail, count)
    return np.array([*limits, stats.chi2.isf(1 - POWER, count)]) / count


def mean(subject: Subject, test: str, scaled: np.ndarray, stated: float = 0.0, share: float = 1.0) -> Verdict:
    """Test whether independent normal numbers of standard deviation 1 have the mean `stated`; as `variance`."""
    error, limit = 1 / np.sqrt(scaled.size), stats.norm.isf(share * LEVEL / 2)
    low, high = stated - limit * error, stated + limit * error
    seen = (limit + stats.norm.isf(1 - POWER)) * error / (stated or 1.0)
    fault = "mean {percent} off" if stated else "a mean of {number} standard deviations"
    return within(subject, test, scaled.size, stated, float(np.mean(scaled)), low, high, seen, fault)


def correlation(subject: Subject, test: str, groups: np.ndarray) -> Verdict:
    """Test whether any two groups of independent normal numbers of mean 0 are correlated.

    The statistic is the largest absolute correlation of all pairs, whose square has a beta distribution (1/2, (n -
    1)/2). `groups` has shape (group, n).
    """
    count, size = groups.shape
    with np.errstate(invalid="ignore"):  # a group of zeros gives NaN, which fails
        unit = groups / np.linalg.norm(groups, axis=1, keepdims=True)
    largest = float(np.abs(np.triu(unit @ unit.T, 1)).max())
    limit = np.sqrt(stats.beta.isf(LEVEL / (count * (count - 1) / 2), 0.5, (size - 1) / 2))
    seen = min(1.0, limit + stats.norm.isf(1 - POWER) / np.sqrt(size))
    return within(subject, test, groups.size, 0.0, largest, 0.0, float(limit), seen, CORRELATED)


def each_coordinate(subject: Subject, test: str, draws: np.ndarray) -> Verdict:
    """Test whether any coordinate has too little or too much noise, by the least likely sum of squares.

    `draws` are independent standard normal numbers, shape (draw, coordinate).
    """
    count, squares = len(draws), (draws**2).sum(axis=0)
    tails = np.minimum(stats.chi2.cdf(squares, count), stats.chi2.sf(squares, count))
    tail = LEVEL / (2 * len(squares))
    seen = 1 - np.sqrt(stats.chi2.ppf(tail, count) / stats.chi2.ppf(POWER, count))
    largest, limit = stats.norm.isf([tails.min(), tail])  # as a normal number of the same tail
    fault = "noise of a coordinate {percent} too low"
    return within(subject, test, draws.size, 0.0, float(largest), 0.0, limit, seen, fault)


def lags(subject: Subject, test: str, draws: np.ndarray) -> Verdict:
    """Test whether coordinates are correlated at any distance (autocorrelation); `draws` as in `each_coordinate`."""
    count, size = draws.shape
    length = fft.next_fast_len(2 * size, real=True)
    spectrum = (np.abs(fft.rfft(draws, length, axis=1)) ** 2).sum(axis=0)
    sums = fft.irfft(spectrum, length)[1:size]
    terms = count * np.arange(size - 1, 0, -1)
    many = terms >= 1000  # sums of fewer products are not normal
    largest = float(np.abs(sums / np.sqrt(terms))[many].max())
    limit = float(stats.norm.isf(LEVEL / (2 * many.sum())))
    # The detected correlation is that at the distance with the fewest products.
    seen = min(1.0, (limit + stats.norm.isf(1 - POWER)) / np.sqrt(terms[many].min()))
    return within(subject, test, draws.size, 0.0, largest, 0.0, limit, seen, CORRELATED)


def signal(subject: Subject, first: np.ndarray, scores: np.ndarray, mu: np.ndarray | None = None) -> Iterator[Verdict]:
    """Test canaries' scores: normal, of standard deviation 1, with mean mu / 2 or -mu / 2.

    A canary is a record that is one of two, chosen at random.

    Parameters
    ----------
    subject
        What is tested.
    first
        Whether each canary is the first of its two records, boolean, any shape.
    scores
        Log-likelihood ratios of the first record to the second, divided by mu; same shape.
    mu
        The stated mu of each canary, the same shape, if they differ; the largest must be the subject's. None: the
        subject's.
    """
    rest = np.where(first, scores, -scores) - (subject.mu if mu is None else mu) / 2
    yield mean(subject, "signal of canaries", rest + subject.mu / 2, subject.mu / 2)
    yield variance(subject, "deviation of canaries' scores", rest)


def distribution(
    subject: Subject,
    test: str,
    numbers: np.ndarray,
    law: Callable[[np.ndarray], np.ndarray],
    grain: float,
    share: float = 1.0,
) -> Verdict:
    """Test whether independent numbers have a stated distribution.

    The statistic is the largest distance of the distribution functions. Its limit is sqrt(ln(2 / level) / (2 n)), by
    the inequality of Dvoretzky, Kiefer and Wolfowitz (Massart, 1990).

    Parameters
    ----------
    subject, test
        What is tested, and the test's name.
    numbers
        Any shape.
    law
        The distribution function: `law(values)` returns the probability of at most each value.
    grain
        Absolute error up to which the numbers may differ from the distribution's, as by rounding.
    share
        Share of LEVEL; see `worst_of`.
    """
    ordered = np.sort(numbers, axis=None)
    count = len(ordered)
    steps = np.arange(count + 1) / count
    above, below = np.split(law(np.concatenate([ordered + grain, ordered - grain])), 2) if grain else [law(ordered)] * 2
    distance = max(0.0, float(max((steps[1:] - above).max(), (below - steps[:-1]).max())))
    band, seen = (np.sqrt(np.log(2 / chance) / (2 * count)) for chance in (share * LEVEL, 1 - POWER))
    return within(subject, test, count, 0.0, distance, 0.0, band, band + seen, "a probability {number} off")


def within(
    subject: Subject,
    test: str,
    draws: int,
    stated: float,
    measured: float,
    low: float,
    high: float,
    detectable: float,
    fault: str = "{number} off",
) -> Verdict:
    """Return the verdict on a measured value that must be within [`low`, `high`]; NaN fails.

    Parameters
    ----------
    subject, test
        What is tested, and the test's name.
    draws
        Number of random numbers, or of measured values.
    stated, measured
        The expected value and the measured one.
    low, high
        The expected range.
    detectable
        The smallest error that is detected with probability POWER.
    fault
        That error in words, with `{number}` or `{percent}` in place of `detectable`.
    """
    measured = np.inf if np.isnan(measured) else measured
    status = "passed" if low <= measured <= high else "failed"
    detects = fault.format(number=f"{detectable:.2g}", percent=f"{100 * detectable:.2g}%")
    return Verdict(
        subject, test, status, None, draws, stated, measured, float(low), float(high), float(detectable), detects
    )


def worst(outcome: pl.DataFrame, epsilon: str = "epsilon") -> dict:
    """Return the row of `outcome` with the largest value in column `epsilon`; the first of several, null last."""
    order = outcome.sort(pl.col(epsilon).fill_null(-1.0), descending=True, maintain_order=True)
    return order.row(0, named=True)


def against(
    tables: dict[str, pl.DataFrame],
    observer: str,
    unit: str = accountant.RECORD,
    noise: str = accountant.USERS,
) -> pl.DataFrame:
    """Return `outcome` with the column `epsilon` of `guarantees` against another observer, unit, or noise.

    `noise`: whose noise counts, `accountant.USERS` or `accountant.ALL`.
    """
    rows = tables["guarantees"].filter(observer=observer, unit=unit, noise_from=noise).select("realization", "epsilon")
    return tables["outcome"].drop("epsilon").join(rows, on="realization", how="left", maintain_order="left")


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Compute epsilon of a Gaussian mechanism of mu at `delta` (Balle and Wang, 2018, Theorem 8).

    It solves Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu) = delta. This is independent of the
    accountant's code (`gaussian.exact_epsilon`), which it tests.
    """
    if mu == 0:
        return 0.0

    def excess(epsilon: float) -> float:
        first, second = stats.norm.logcdf([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
        return float(np.exp(first) - np.exp(epsilon + second)) - delta

    most = mu * (mu / 2 + stats.norm.isf(delta))
    return 0.0 if excess(0.0) <= 0 else float(optimize.brentq(excess, 0.0, most, xtol=1e-12, rtol=1e-10))
