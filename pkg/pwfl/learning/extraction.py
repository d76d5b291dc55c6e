"""Compute a data set's features once, each image's from that image alone, so that records stay separate."""

from collections.abc import Callable, Mapping
from math import isqrt

import numpy as np

from pwfl.learning import datasets, projection
from pwfl.process import threads

CHUNK = 1000  # images at a time


def extract(arrays: tuple[np.ndarray, ...], learned: projection.Projection | None = None) -> tuple[np.ndarray, ...]:
    """Compute the features of a data set's images: roots of scattering coefficients, or a projection of these.

    Parameters
    ----------
    arrays
        As from `sources.load`: images, (image, pixel), and labels, (image,), of training and of test records, and users
        if the data set names them.
    learned
        The projection; None: none.

    Returns
    -------
    arrays
        The same with features, float32, shape (image, feature), in place of images.
    """
    x_train, y_train, x_test, y_test, *users = arrays
    side, levels = isqrt(x_test.shape[1]), datasets.levels(x_test)

    def extract_images(images: np.ndarray) -> np.ndarray:
        roots = projection.coefficients((images.astype(np.float32) / levels).reshape(-1, side, side))
        return roots if learned is None else (roots - learned.mean) @ learned.directions

    with threads.one_of_blas():
        return _chunked(extract_images, x_train), y_train, _chunked(extract_images, x_test), y_test, *users


def _chunked(function: Callable[[np.ndarray], np.ndarray], images: np.ndarray) -> np.ndarray:
    first = function(images[:CHUNK])
    extracted = np.empty((len(images), *first.shape[1:]), first.dtype)
    extracted[:CHUNK] = first
    for start in range(CHUNK, len(images), CHUNK):
        extracted[start : start + CHUNK] = function(images[start : start + CHUNK])
    return extracted


def run(task, inputs: Mapping) -> dict[str, tuple[np.ndarray, ...]]:
    """Run the stage `features`: extract them from a `dataset`, with a `projection` if there is one."""
    learned = projection.Projection(*inputs["projection"]) if "projection" in inputs else None
    return {"features": extract(inputs["dataset"], learned)}
