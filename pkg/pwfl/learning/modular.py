"""Vectors as integers modulo 2^bits, for secure sums (Kairouz, Liu and Steinke, 2021).

A user rotates its vector, rounds it at random to multiples of a public step, and adds integer noise, in steps; the
users' integers are added up modulo 2^bits. A sum beyond half of 2^bits steps wraps around, which makes the update wrong
but does not affect privacy.
"""

import numpy as np

from pwfl.learning.rotation import rotate, rotate_back

RANGE = 4  # standard deviations of a coordinate of the rotated sum that fit into half of the integers, at least


def grid_step(norm: np.ndarray, noise_std: np.ndarray, senders: np.ndarray, dimensions: int, bits: int) -> np.ndarray:
    """Compute the step of a group's grid, in the unit of the vectors, from public numbers alone.

    2 RANGE sqrt(norm^2 / dimensions + senders noise_std^2) / 2^bits. The first three arguments are broadcast.

    Parameters
    ----------
    norm
        Largest L2 norm of the group's sum without noise.
    noise_std
        Standard deviation of each sender's noise in a coordinate.
    senders
        Number of senders in the group.
    dimensions
        Number of coordinates.
    bits
        Integers are added up modulo 2^bits.
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
    """Compute the integers that users send, int64, shape (..., coordinate).

    Parameters
    ----------
    vectors
        Shape (..., coordinate).
    noise
        Integer noise, in steps, int64, of the same shape.
    signs
        Of the public rotation, -1 or 1, shape (coordinate,).
    step
        Step of the grid, in the unit of the vectors, public; broadcast with `vectors`.
    bits
        Integers are modulo 2^bits.
    generator
        Draws the private numbers of random rounding.
    """
    return wrapped(rounded(rotate(vectors, signs) / step, generator) + noise, bits)


def decoded(total: np.ndarray, signs: np.ndarray, step: np.ndarray | float, bits: int) -> np.ndarray:
    """Decode a sum of users' `integers`, modulo 2^bits or not, to the sum of their vectors and noise.

    `total` has shape (..., coordinate); the other arguments are as in `integers`.
    """
    return rotate_back(wrapped(total, bits) * step, signs)


def rounded(values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Round each value at random to the integer below or above, so that its expectation is the value; int64."""
    below = np.floor(values)
    return below.astype(np.int64) + (generator.random(values.shape) < values - below)


def wrapped(integers: np.ndarray, bits: int) -> np.ndarray:
    """Reduce integers modulo 2^bits to the range from -2^(bits - 1) to 2^(bits - 1) - 1."""
    half = 1 << (bits - 1)
    return ((integers + half) & (2 * half - 1)) - half
