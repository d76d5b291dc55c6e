"""Vectors as integers modulo 2^bits, for sums that are all an observer sees (Kairouz, Liu and Steinke, 2021).

A user rotates its vector, rounds it to multiples of a public step and adds its noise, in steps; users' integers add up
modulo 2^bits, masked or not. A sum beyond half of 2^bits steps wraps around, and privacy does not depend on that.
"""

import numpy as np

from pwfl.learning.rotation import rotate, rotate_back

RANGE = 4  # deviations of a rotated sum's coordinate that half of the integers stretch over, at least


def grid_step(norm: np.ndarray, noise_std: np.ndarray, senders: np.ndarray, dimensions: int, bits: int) -> np.ndarray:
    """The step of a group's grid, from public numbers alone.

    `norm` is the largest L2 norm of the group's sum without noise, `noise_std` each sender's, in every coordinate.
    """
    return 2 * RANGE * np.sqrt(norm**2 / dimensions + senders * noise_std**2) / 2**bits


def integers(
    vectors: np.ndarray,
    noise: np.ndarray,
    signs: np.ndarray,
    step: np.ndarray | float,
    bits: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """What users send, int64, shape (..., coordinate) as `vectors` and their `noise`, an integer number of steps.

    `generator` is of private numbers; `signs` and `step` are public.
    """
    return wrapped(rounded(rotate(vectors, signs) / step, generator) + noise, bits)


def decoded(total: np.ndarray, signs: np.ndarray, step: np.ndarray | float, bits: int) -> np.ndarray:
    """The sum of vectors and noise from that of their `integers`, which may have been taken modulo 2^bits or not."""
    return rotate_back(wrapped(total, bits) * step, signs)


def rounded(values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Each value's integer below or above it, at random so that it is right in the mean, int64."""
    below = np.floor(values)
    return below.astype(np.int64) + (generator.random(values.shape) < values - below)


def wrapped(integers: np.ndarray, bits: int) -> np.ndarray:
    """The integers modulo 2^bits, from -2^(bits - 1) to 2^(bits - 1) - 1."""
    half = 1 << (bits - 1)
    return ((integers + half) & (2 * half - 1)) - half
