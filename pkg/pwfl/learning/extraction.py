"""A data set's features, computed once: each image's from that image alone, so that no record shows in another's."""

from collections.abc import Callable, Mapping
from itertools import product
from math import isqrt

import numpy as np
from scipy.sparse import csr_array

from pwfl.learning import datasets, projection
from pwfl.learning.features import PIXELS
from pwfl.process import threads

CHUNK = 1000  # images at a time
ANGLE, SCALE, SHEAR = np.pi / 18, 0.08, 0.12  # of the variants


def extract(
    arrays: tuple[np.ndarray, ...], kind: str, variants: bool, learned: projection.Projection | None = None
) -> tuple[np.ndarray, ...]:
    """Features of what `sources.load` returned, of a `kind` of `pwfl.learning.features`, with a projection `learned`.

    Labels stay. Features are float32, shape (image, feature), of test images with `variants` (image, variant, feature),
    the image itself first.
    """
    x_train, y_train, x_test, y_test, *users = arrays
    side, levels = isqrt(x_test.shape[1]), datasets.levels(x_test)

    def of_images(images: np.ndarray) -> np.ndarray:
        images = images.astype(np.float32) / levels
        if kind == PIXELS:
            return images
        roots = projection.coefficients(images.reshape(-1, side, side))
        return roots if learned is None else (roots - learned.mean) @ learned.directions

    def of_variants(images: np.ndarray) -> np.ndarray:
        return np.stack([of_images(images), *(of_images((warp @ images.T).T) for warp in warps(side))], axis=1)

    with threads.one_of_blas():
        tested = _chunked(of_variants if variants else of_images, x_test)
        return _chunked(of_images, x_train), y_train, tested, y_test, *users


def warps(side: int) -> list[csr_array]:
    """Sparse maps of an image's pixels to variants' (turned, scaled, sheared): linear between pixels, 0 outside."""
    middle = (side - 1) / 2
    y, x = np.mgrid[:side, :side].reshape(2, -1) - middle
    maps = []
    for matrix in _matrices():
        row, column = matrix @ [y, x] + middle
        weights, places = [], []
        for near_row, near_column in product(
            (np.floor(row), np.floor(row) + 1), (np.floor(column), np.floor(column) + 1)
        ):
            inside = (near_row >= 0) & (near_row < side) & (near_column >= 0) & (near_column < side)
            weights.append(inside * (1 - abs(row - near_row)) * (1 - abs(column - near_column)))
            places.append(np.where(inside, near_row * side + near_column, 0).astype(int))
        entries = (np.concatenate(weights).astype(np.float32), (np.tile(np.arange(side**2), 4), np.concatenate(places)))
        maps.append(csr_array(entries, shape=(side**2, side**2)))
    return maps


def _matrices() -> list[np.ndarray]:
    """Where a variant's pixel lies in the image, by (row, column) from its middle."""
    both = []
    for sign in (1, -1):
        cosine, sine = np.cos(sign * ANGLE), np.sin(sign * ANGLE)
        both += [[[cosine, -sine], [sine, cosine]], np.eye(2) * (1 + sign * SCALE), [[1, 0], [sign * SHEAR, 1]]]
    return [np.array(matrix) for matrix in both]


def _chunked(function: Callable[[np.ndarray], np.ndarray], images: np.ndarray) -> np.ndarray:
    first = function(images[:CHUNK])
    extracted = np.empty((len(images), *first.shape[1:]), first.dtype)
    extracted[:CHUNK] = first
    for start in range(CHUNK, len(images), CHUNK):
        extracted[start : start + CHUNK] = function(images[start : start + CHUNK])
    return extracted


def run(task, inputs: Mapping) -> dict[str, tuple[np.ndarray, ...]]:
    """The stage `features`: those of a `dataset`, by a `projection` where there is one."""
    learned = projection.Projection(*inputs["projection"]) if "projection" in inputs else None
    return {"features": extract(inputs["dataset"], task.variant, task.values.variants, learned)}
