"""A public random rotation that spreads a vector over its coordinates: random signs, then Hadamard transforms.

The orthonormal transforms have blocks of powers of two, by the binary digits of the size, largest first (1600 = 1024 +
512 + 64), so that nothing is padded. A block of 1 stays as it is.
"""

import numpy as np


def random_signs(generator: np.random.Generator, size: int) -> np.ndarray:
    """-1 or 1 at random, int8, shape (size,)."""
    return generator.integers(2, size=size, dtype=np.int8) * 2 - 1


def rotate(vectors: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """The rotated vectors, shape (..., coordinate), of the same L2 norms."""
    return _hadamard_blocks(vectors * signs)


def rotate_back(rotated: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """The vectors that `rotate` made these of."""
    return _hadamard_blocks(rotated) * signs


def _hadamard_blocks(vectors: np.ndarray) -> np.ndarray:
    digits = [2**k for k in reversed(range(vectors.shape[-1].bit_length())) if vectors.shape[-1] >> k & 1]
    return np.concatenate([_hadamard(block) for block in np.split(vectors, np.cumsum(digits)[:-1], axis=-1)], axis=-1)


def _hadamard(vectors: np.ndarray) -> np.ndarray:
    """Sylvester's Hadamard matrix over the root of its size, its own inverse, times each vector."""
    shape, length = vectors.shape, 1
    while length < shape[-1]:
        pairs = vectors.reshape(*shape[:-1], -1, 2, length)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        vectors = np.stack([first + second, first - second], axis=-2)
        length *= 2
    return vectors.reshape(shape) / shape[-1] ** 0.5
