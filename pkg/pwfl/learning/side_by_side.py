"""Sizes of trainings side by side: padded numbers of records, bytes, and how many evaluations count.

XLA compiles a program for each set of shapes, in seconds, so numbers of records are rounded up to few sizes.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

SIZES = 8  # of padded numbers of records, between a power of two and the next


def padded(number: int) -> int:
    """A size for so many records: no less, and one of SIZES between powers of two, at most an eighth more.

    >>> [padded(number) for number in (1, 16, 17, 1000, 11_000)]
    [16, 16, 18, 1024, 11264]
    """
    step = max(1, 2 ** (max(number, 16) - 1).bit_length() // 2 // SIZES)
    return -(-max(number, 16) // step) * step


def bytes_each(widths: Sequence[int], records: int, tested: tuple[int, ...]) -> float:
    """About how many bytes a realization takes, of a network of some layers' widths, the input's first.

    Of records of each round, and of test images, of shape `tested`: layers' inputs, outputs and derivatives, the
    weights and their average, gradients and noise.
    """
    layers = 3 * sum(widths[1:])
    weights = sum(a * b + b for a, b in pairwise(widths))
    of_test = tested[0] * layers * (tested[1] if len(tested) == 3 else 1)
    return 4.0 * (max(records * (widths[0] + layers), of_test) + 8 * weights)


def lengths(losses: np.ndarray) -> np.ndarray:
    """How many evaluations count, up to the first loss that is not finite, of shape (realization, evaluation)."""
    finite = np.isfinite(losses)
    return np.where(finite.all(axis=1), losses.shape[1], finite.argmin(axis=1) + 1)
