"""Lower bounds on what a mechanism reveals, from an attack's scores on canary records.

A canary is a record that is one of two, by a fair coin; a score tells what an observer holds for it. Scores are
independent given the coins. They may come from several records: a bound then holds for the one that loses most, since
what holds for each of them holds for their average.
"""

import numpy as np
from scipy import stats

from pwfl.privacy.gaussian import exact_epsilon

FALSE_ALARM = 1e-4  # probability that a bound is above the truth
ROUNDING = 1e-6  # relative: `exact_epsilon` is rounded up


def epsilon_lower(first: np.ndarray, scores: np.ndarray, delta: float, false_alarm: float = FALSE_ALARM) -> float:
    """epsilon at `delta` that the scores' laws under both records ask for, whatever these laws are.

    `first` says whether the canary was the first of the two records, boolean, shape (canary,); the higher a score, the
    more it looks so (best are log-likelihood ratios, or their multiples).

    A test that takes scores above a threshold for the first record does so with the probabilities p (it was the first)
    and q (it was not), and e^epsilon >= (p - delta) / q. Two such tests share `false_alarm`: the threshold 0, on all
    canaries, and one that half of the canaries choose, with its direction, on the other half. Clopper and Pearson
    (1934) bound p from below and q from above. With m canaries the bound cannot exceed about ln(m / (4 ln(4 /
    false_alarm))).
    """
    middle = float(_log_ratio(first, scores, np.zeros(1), delta, false_alarm / 2)[0])
    return max(0.0, middle, _chosen(first, scores, delta, false_alarm / 2))


def _chosen(first: np.ndarray, scores: np.ndarray, delta: float, false_alarm: float) -> float:
    """A lower bound on epsilon by a threshold and a direction that half of the canaries choose."""
    choosing = np.arange(len(scores)) % 2 == 0
    best, chosen = 0.0, None
    for towards in (first, ~first):
        signed = scores if towards is first else -scores
        thresholds = np.unique(signed[choosing])
        bounds = _log_ratio(towards[choosing], signed[choosing], thresholds, delta, false_alarm)
        if len(bounds) and bounds.max() > best:
            best, chosen = bounds.max(), (towards, signed, thresholds[[bounds.argmax()]])
    if chosen is None:
        return 0.0
    towards, signed, threshold = chosen
    return float(_log_ratio(towards[~choosing], signed[~choosing], threshold, delta, false_alarm)[0])


def _log_ratio(first, scores, thresholds, delta, false_alarm) -> np.ndarray:
    """Lower bounds on ln((p - delta) / q), shape of `thresholds`; -inf where p may be delta."""
    hits, misses = np.sort(scores[first]), np.sort(scores[~first])
    above = [len(part) - np.searchsorted(part, thresholds, side="right") for part in (hits, misses)]
    tail = false_alarm / 2  # for p and for q
    least = np.where(above[0] > 0, stats.beta.ppf(tail, above[0], len(hits) - above[0] + 1), 0.0)
    most = np.where(above[1] < len(misses), stats.beta.isf(tail, above[1] + 1, len(misses) - above[1]), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(least > delta, np.log((least - delta) / most), -np.inf)


def mu_lower(first: np.ndarray, scores: np.ndarray, false_alarm: float = FALSE_ALARM) -> float:
    """mu of Gaussian DP from scores that are normal with the same spread under both records; see `epsilon_lower`.

    mu is the distance of both means over that spread, which need not be known: the mean is bounded below by the
    spread's upper bound (chi-square), each at half of `false_alarm`. 0 where the bound is negative or scores are too
    few.
    """
    count = len(scores)
    if count < 3:
        return 0.0
    signed = np.where(first, scores, -scores)
    spread = np.sqrt(((signed - signed.mean()) ** 2).sum() / stats.chi2.ppf(false_alarm / 2, count - 1))
    return float(max(0.0, 2 * (signed.mean() / spread - stats.norm.isf(false_alarm / 2) / np.sqrt(count))))


def gaussian_epsilon_lower(
    first: np.ndarray, scores: np.ndarray, delta: float, false_alarm: float = FALSE_ALARM
) -> float:
    """epsilon at `delta` from `mu_lower`, for scores that are normal."""
    mu = mu_lower(first, scores, false_alarm)
    return float(exact_epsilon(np.array([mu**2 / 2]), delta)[0]) * (1 - ROUNDING)
