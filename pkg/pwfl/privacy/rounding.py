"""What rounding errors leave of delta where privacy losses of sampled rounds are composed by Fourier transforms."""

ROUNDED = 2e-16  # of delta, for each round composed: rounding errors, more than any seen
RESOLVED = 1e-15  # of delta, for each round composed: the least at which those leave epsilon to 1%
COUNTS = 1e-5  # share of delta: rounding errors above it count


def least_delta(rounds: int) -> float:
    """The least delta at which an epsilon of some composed rounds is known: rounding errors are far below it."""
    return RESOLVED * rounds


def left(delta: float, rounds: int, lower: bool = False) -> float:
    """delta less the rounding errors of so many composed rounds, or with them for a `lower` bound, where they count.

    Raises ValueError for a delta below `least_delta`.
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
    """Refuse a scenario's delta below `least_delta`, with what is `sampled` and another `remedy` in words."""
    if delta < (least := least_delta(rounds)):
        raise ValueError(
            f"privacy.delta: {delta:g} is too small to account for {sampled}: rounding errors of composing "
            f"training.rounds: {rounds} require at least {least:g}; increase delta, or {remedy}"
        )
