"""A public random rotation that spreads each coordinate over many: random signs and Hadamard transforms.

With m the largest power of two that is not above the number of coordinates, the first m coordinates are transformed and
then the last m, each after multiplying all coordinates by random signs. Vectors are therefore not padded, and each
coordinate is spread over at least m.
"""

import numpy as np


def random_signs(generator: np.random.Generator, size: int) -> np.ndarray:
    """Draw -1 or 1 with equal probability, int8, shape (size,)."""
    return generator.integers(2, size=size, dtype=np.int8) * 2 - 1


def rotate(vectors: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Rotate vectors, shape (..., coordinate), by signs, shape (coordinate,); L2 norms stay the same."""
    for part in _parts(len(signs)):
        vectors = vectors * signs
        vectors[..., part] = _hadamard(vectors[..., part])
    return vectors


def rotate_back(rotated: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Invert `rotate`."""
    vectors = rotated.copy()
    for part in reversed(_parts(len(signs))):
        vectors[..., part] = _hadamard(vectors[..., part])
        vectors = vectors * signs
    return vectors


def _parts(size: int) -> tuple[slice, slice]:
    most = 1 << (size.bit_length() - 1)
    return slice(0, most), slice(size - most, size)


def _hadamard(vectors: np.ndarray) -> np.ndarray:
    """Multiply vectors, shape (..., n), by Sylvester's Hadamard matrix over sqrt(n), which is its own inverse."""
    size, length = vectors.shape[-1], 1
    columns = np.ascontiguousarray(vectors.reshape(-1, size).T)  # contiguous along the additions
    while length < size:
        pairs = columns.reshape(size // (2 * length), 2, length, columns.shape[-1])
        columns = np.empty_like(pairs)
        np.add(pairs[:, 0], pairs[:, 1], out=columns[:, 0])
        np.subtract(pairs[:, 0], pairs[:, 1], out=columns[:, 1])
        length *= 2
    return columns.reshape(size, -1).T.reshape(vectors.shape) / size**0.5
