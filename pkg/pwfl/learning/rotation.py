"""A public random rotation that spreads vectors over their coordinates: random signs and Hadamard transforms.

An orthonormal transform is of the largest power of two that fits, m: one of the first m coordinates, then one of the
last m, each after random signs. So nothing is padded, and no coordinate is spread over fewer than m.
"""

import numpy as np


def random_signs(generator: np.random.Generator, size: int) -> np.ndarray:
    """-1 or 1 at random, int8, shape (size,)."""
    return generator.integers(2, size=size, dtype=np.int8) * 2 - 1


def rotate(vectors: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """The rotated vectors, shape (..., coordinate), of the same L2 norms."""
    for part in _parts(len(signs)):
        vectors = vectors * signs
        vectors[..., part] = _hadamard(vectors[..., part])
    return vectors


def rotate_back(rotated: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """The vectors that `rotate` made these of."""
    vectors = rotated.copy()
    for part in reversed(_parts(len(signs))):
        vectors[..., part] = _hadamard(vectors[..., part])
        vectors = vectors * signs
    return vectors


def _parts(size: int) -> tuple[slice, slice]:
    most = 1 << (size.bit_length() - 1)
    return slice(0, most), slice(size - most, size)


def _hadamard(vectors: np.ndarray) -> np.ndarray:
    """Sylvester's Hadamard matrix over the root of its size, its own inverse, times each vector."""
    size, length = vectors.shape[-1], 1
    columns = np.ascontiguousarray(vectors.reshape(-1, size).T)  # so that what is added lies side by side
    while length < size:
        pairs = columns.reshape(size // (2 * length), 2, length, columns.shape[-1])
        columns = np.empty_like(pairs)
        np.add(pairs[:, 0], pairs[:, 1], out=columns[:, 0])
        np.subtract(pairs[:, 0], pairs[:, 1], out=columns[:, 1])
        length *= 2
    return columns.reshape(size, -1).T.reshape(vectors.shape) / size**0.5
