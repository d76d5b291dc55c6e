"""Tests of the code that trains against what `account` states: what a system's audit holds its messages to.

A system's module runs the code that its training runs, with the schedule and the noise of the realization whose worst
record is worst off, and hands what comes out to the tests of this module. An audit, of a scheme of a scenario, has at
most VERDICTS of them and a false alarm with probability FALSE_ALARM: each is two-sided, at the level LEVEL, and says
which fault it would have seen with probability POWER. Tests of a kind of many parts are one verdict (`worst_of`).
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
FALSE_ALARM = 1e-6  # of an audit
VERDICTS = 30  # of an audit, at most
LEVEL = FALSE_ALARM / VERDICTS  # false alarms of a verdict
POWER = 0.99
LIMIT = float(stats.norm.isf(LEVEL / 2))  # standard errors
NO_MOVE = 1e-9  # of a stated sensitivity: nothing
REACHED, ROUNDING = 0.99, 1e-3  # of a stated sensitivity: what some replaced record moves at least; float32's error
DRAWS = 140_000  # normal numbers that a test of noise takes at least: a deviation 1.5 % too small is seen
STREAMS = 3  # of `pwfl.streams.name_tested_noise`
BLOCKS = 64  # of coordinates that follow each other, between which correlations are looked for
LOSS = "privacy loss of canaries"  # the test of their log-likelihood ratios in favour of what they are
LEAST = "epsilon of the losses"  # that messages are held to, at least
LOW_NOISE, CORRELATED = "noise {percent} too low", "a correlation of {number}"
RECORD = "signal of a record"  # the test of what one replaced record moves in all rounds, over the noise
TRAINED = "loss of what is trained"  # the test of whether a system's trainer is what is audited
NOTHING = "everything"  # the test where there is nothing to test


class Subject(NamedTuple):
    """What is tested, and what is stated of it.

    Attributes
    ----------
    realization
        The one whose worst record is worst off.
    observer
        What it sees.
    delta, epsilon
        What is stated; epsilon None: nothing is sent; infinite: nothing is hidden.
    """

    realization: int
    observer: str
    delta: float
    epsilon: float | None

    @property
    def mu(self) -> float:
        """mu of Gaussian DP that the stated epsilon is of."""
        return 1 / float(exact_multiplier(np.array([self.epsilon]), self.delta)[0])


class Verdict(NamedTuple):
    """A row of the table `audit`; its columns say what the values are."""

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
    """The table `audit` of a system's verdicts on a scheme.

    Raises ValueError for more than VERDICTS: their false alarms would be more than are stated.
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
    """The verdict where nothing can be tested: nobody sends, there is no noise, or another of the table's reasons."""
    return Verdict(subject, NOTHING, "not_tested", why or ("nobody sends" if subject.epsilon is None else "no noise"))


def sensitivity(
    subject: Subject,
    moved: np.ndarray,
    stated: float,
    message: str = "",
    reached: bool = True,
    tolerance: float = ROUNDING,
) -> Verdict:
    """Whether no replaced record moves what is seen, its noise off, by more than is stated, and some by as much.

    `moved` are norms, of any shape; `message` says of which message of several. Where none need have `reached` what is
    stated, a sensitivity is seen to be too large only by what lies above it. `tolerance` is of what is measured.
    """
    test = f"sensitivity of the {message}" if message else "sensitivity"
    most = float(moved.max())
    low, high = (REACHED + ROUNDING - tolerance) * stated if reached else 0.0, (1 + tolerance) * stated
    detectable = tolerance if reached else max(tolerance, high / max(most, NO_MOVE * high) - 1)
    return within(subject, test, moved.size, stated, most, low, high, detectable, "a record moves {percent} too far")


def bounded(subject: Subject, losses: np.ndarray, epsilon: float) -> Verdict:
    """Whether no privacy loss is above an epsilon that is stated with delta 0, and some is as large."""
    low, high = REACHED * epsilon, (1 + ROUNDING) * epsilon
    most, fault = float(losses.max()), "epsilon {percent} too low"
    return within(subject, "largest privacy loss", losses.size, epsilon, most, low, high, ROUNDING, fault)


def at_least(subject: Subject, epsilon: float) -> Verdict:
    """Whether what is stated is no less than an epsilon that some records' losses have.

    Others may lose more: an epsilon is seen only where it is stated below theirs.
    """
    stated = float(subject.epsilon)  # ty: ignore  # not None: see `untested`
    share = epsilon / stated if stated > 0 else 1.0  # of an epsilon of 0 all is seen that is above
    high, seen = (1 + ROUNDING) * stated, max(0.0, 1 - share) + ROUNDING
    return within(subject, LEAST, 1, stated, epsilon, 0.0, high, seen, "epsilon {percent} too low")


def noise(subject: Subject, draws: np.ndarray, std: np.ndarray | float) -> Iterator[Verdict]:
    """Whether what is seen with no signal is independent normal noise of a stated deviation.

    Parameters
    ----------
    draws
        Of the streams that `pwfl.streams.name_tested_noise` names, shape (stream, round, coordinate).
    std
        What is stated, of a shape that `draws` broadcasts with.
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
    """As `noise`, of Laplace noise of a stated scale: twice the sum of sizes over the scale is chi-square."""
    scaled = draws / scale
    low, high, usual = _mean_squares(2 * draws.size)
    measured, seen = float(np.abs(scaled).mean()), 1 - low / usual
    yield within(subject, "scale of the noise", draws.size, 1.0, measured, low, high, seen, LOW_NOISE)
    # The normal numbers of the same quantiles, by the nearer tail.
    normal = -np.sign(scaled) * stats.norm.ppf(np.exp(-np.abs(scaled)) / 2)
    yield from noise(subject, normal, 1.0)


def worst_of(test: Callable[..., Verdict], subject: Subject, name: str, parts: Sequence[np.ndarray], *more) -> Verdict:
    """One verdict on several parts: of the one that is nearest to its limits, or beyond.

    `test(subject, name, part, *more, share=)` is `variance`, `mean` or `distribution`; each part has its share of the
    level. What is said to be seen is seen in whichever part.
    """
    verdicts = [test(subject, name, part, *more, share=1 / len(parts)) for part in parts]
    nearest, weakest = max(verdicts, key=_strain), max(verdicts, key=lambda verdict: verdict.detectable)
    draws = sum(verdict.draws for verdict in verdicts)
    return nearest._replace(draws=draws, detectable=weakest.detectable, detects=weakest.detects)


def _strain(verdict: Verdict) -> float:
    """How far what is measured is from what is stated, over how far it may be."""
    measured, stated, low, high = np.array(
        [verdict.measured, verdict.stated, verdict.expected_min, verdict.expected_max], float
    )
    off, room = abs(measured - stated), high - stated if measured > stated else stated - low
    return off / room if room > 0 else np.inf if off > 0 else 0.0


def variance(subject: Subject, test: str, scaled: np.ndarray, share: float = 1.0) -> Verdict:
    """Whether independent normal numbers have deviation 1, by a chi-square test of their sum of squares.

    `share`: of the level; see `worst_of`.
    """
    low, high, usual = np.sqrt(_mean_squares(scaled.size, share))
    measured = float(np.sqrt(np.mean(np.square(scaled))))
    return within(subject, test, scaled.size, 1.0, measured, low, high, 1 - low / usual, LOW_NOISE)


def _mean_squares(count: int, share: float = 1.0) -> np.ndarray:
    """Of a mean of squares of normal numbers: what it lies between without a false alarm, and below with POWER."""
    tail = share * LEVEL / 2
    limits = stats.chi2.ppf(tail, count), stats.chi2.isf(tail, count)
    return np.array([*limits, stats.chi2.isf(1 - POWER, count)]) / count


def mean(subject: Subject, test: str, scaled: np.ndarray, stated: float = 0.0, share: float = 1.0) -> Verdict:
    """Whether independent normal numbers of deviation 1 have a stated mean, by its standard error; see `variance`."""
    error, limit = 1 / np.sqrt(scaled.size), stats.norm.isf(share * LEVEL / 2)
    low, high = stated - limit * error, stated + limit * error
    seen = (limit + stats.norm.isf(1 - POWER)) * error / (stated or 1.0)
    fault = "mean {percent} off" if stated else "a mean of {number} standard deviations"
    return within(subject, test, scaled.size, stated, float(np.mean(scaled)), low, high, seen, fault)


def correlation(subject: Subject, test: str, groups: np.ndarray) -> Verdict:
    """Whether no two of some groups of independent normal numbers go together.

    The largest correlation of all pairs, about the mean 0, whose square has a beta law; `groups` has shape (group, n).
    """
    count, size = groups.shape
    with np.errstate(invalid="ignore"):  # of a group of zeros: NaN, which is violated
        unit = groups / np.linalg.norm(groups, axis=1, keepdims=True)
    largest = float(np.abs(np.triu(unit @ unit.T, 1)).max())
    limit = np.sqrt(stats.beta.isf(LEVEL / (count * (count - 1) / 2), 0.5, (size - 1) / 2))
    seen = min(1.0, limit + stats.norm.isf(1 - POWER) / np.sqrt(size))
    return within(subject, test, groups.size, 0.0, largest, 0.0, float(limit), seen, CORRELATED)


def each_coordinate(subject: Subject, test: str, draws: np.ndarray) -> Verdict:
    """Whether any coordinate has too little noise, or too much, by the least likely of their sums of squares.

    `draws` are independent normal numbers of deviation 1, shape (draw, coordinate).
    """
    count, squares = len(draws), (draws**2).sum(axis=0)
    tails = np.minimum(stats.chi2.cdf(squares, count), stats.chi2.sf(squares, count))
    tail = LEVEL / (2 * len(squares))
    seen = 1 - np.sqrt(stats.chi2.ppf(tail, count) / stats.chi2.ppf(POWER, count))
    largest, limit = stats.norm.isf([tails.min(), tail])  # as a normal number of the same tail
    fault = "noise of a coordinate {percent} too low"
    return within(subject, test, draws.size, 0.0, float(largest), 0.0, limit, seen, fault)


def lags(subject: Subject, test: str, draws: np.ndarray) -> Verdict:
    """Whether coordinates of a vector go together at any distance; `draws` as in `each_coordinate`."""
    count, size = draws.shape
    length = fft.next_fast_len(2 * size, real=True)
    spectrum = (np.abs(fft.rfft(draws, length, axis=1)) ** 2).sum(axis=0)
    sums = fft.irfft(spectrum, length)[1:size]
    terms = count * np.arange(size - 1, 0, -1)
    many = terms >= 1000  # of fewer products, sums are not normal
    largest = float(np.abs(sums / np.sqrt(terms))[many].max())
    limit = float(stats.norm.isf(LEVEL / (2 * many.sum())))
    # A correlation at the distance of the fewest products.
    seen = min(1.0, (limit + stats.norm.isf(1 - POWER)) / np.sqrt(terms[many].min()))
    return within(subject, test, draws.size, 0.0, largest, 0.0, limit, seen, CORRELATED)


def signal(subject: Subject, first: np.ndarray, scores: np.ndarray, mu: np.ndarray | None = None) -> Iterator[Verdict]:
    """Whether canaries show what is stated: scores that are normal, of deviation 1, and of mean mu / 2 or -mu / 2.

    Parameters
    ----------
    first
        Which of its two records each canary is, boolean, any shape.
    scores
        Log-likelihood ratios of the two, divided by mu; same shape.
    mu
        What is stated, where canaries have several, the largest of them the subject's; they go with `scores`.
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
    """Whether independent numbers follow a stated law, both tails.

    The largest distance of both distribution functions, against the band of Dvoretzky, Kiefer and Wolfowitz (Massart,
    1990); a distance of that band and the one of POWER's false alarms would be seen.

    Parameters
    ----------
    numbers
        Any shape.
    law
        The probability that a number is at most each of some values.
    grain
        By how much the law's numbers may be off.
    share
        Of the level; see `worst_of`.
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
    """The verdict on a measured value that has to lie between two; what is no number lies nowhere.

    `fault` says in words what is seen, with `{number}` or `{percent}` for the `detectable` one.
    """
    measured = np.inf if np.isnan(measured) else measured
    status = "passed" if low <= measured <= high else "failed"
    detects = fault.format(number=f"{detectable:.2g}", percent=f"{100 * detectable:.2g}%")
    return Verdict(
        subject, test, status, None, draws, stated, measured, float(low), float(high), float(detectable), detects
    )


def worst(outcome: pl.DataFrame, epsilon: str = "epsilon") -> dict:
    """The row of the realization whose worst record is worst off by a column; the first of several, null comes last."""
    order = outcome.sort(pl.col(epsilon).fill_null(-1.0), descending=True, maintain_order=True)
    return order.row(0, named=True)


def against(
    tables: dict[str, pl.DataFrame],
    observer: str,
    unit: str = accountant.RECORD,
    noise: str = accountant.USERS,
) -> pl.DataFrame:
    """`outcome` with the epsilon that `guarantees` states against another observer than the scenario's own."""
    rows = tables["guarantees"].filter(observer=observer, unit=unit, noise_from=noise).select("realization", "epsilon")
    return tables["outcome"].drop("epsilon").join(rows, on="realization", how="left", maintain_order="left")


def gaussian_epsilon(mu: float, delta: float) -> float:
    """epsilon of a Gaussian mechanism of mu by its delta (Balle and Wang, 2018, Theorem 8), as no account has it."""
    if mu == 0:
        return 0.0

    def excess(epsilon: float) -> float:
        first, second = stats.norm.logcdf([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
        return float(np.exp(first) - np.exp(epsilon + second)) - delta

    most = mu * (mu / 2 + stats.norm.isf(delta))
    return 0.0 if excess(0.0) <= 0 else float(optimize.brentq(excess, 0.0, most, xtol=1e-12, rtol=1e-10))
