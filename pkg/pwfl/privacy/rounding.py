"""Rounding errors in delta when privacy losses of sampled rounds are composed by Fourier transforms."""

ROUNDED = 2e-16  # rounding error in delta per composed round, an upper bound on all observed ones
RESOLVED = 1e-15  # smallest delta per composed round at which epsilon has an error of at most 1 %
COUNTS = 1e-5  # share of delta up to which rounding errors are neglected


def least_delta(rounds: int) -> float:
    """Return the smallest delta at which epsilon of `rounds` composed rounds can be computed."""
    return RESOLVED * rounds


def left(delta: float, rounds: int, lower: bool = False) -> float:
    """Subtract the rounding errors of `rounds` composed rounds from delta, or add them for a `lower` bound on epsilon.

    Errors below COUNTS times delta are neglected. Raises ValueError for a delta below `least_delta`.
    """
    if delta < (least := least_delta(rounds)):
        raise ValueError(
            f"delta {delta:g} is too small: rounding errors of composing the privacy losses of {rounds} sampled rounds "
            f"require at least {least:g}"
        )
    rounded = ROUNDED * rounds
    if rounded <= COUNTS * delta:
        return delta
    return delta + rounded if lower else delta - rounded


def check(delta: float, rounds: int, sampled: str, remedy: str) -> None:
    """Raise ValueError for a scenario's delta below `least_delta`.

    The message names what is `sampled`, and a `remedy` besides a larger delta, in words.
    """
    if delta < (least := least_delta(rounds)):
        raise ValueError(
            f"privacy.delta: {delta:g} is too small to account for {sampled}: rounding errors of composing "
            f"training.rounds: {rounds} require at least {least:g}; increase delta, or {remedy}"
        )
