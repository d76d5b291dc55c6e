"""Learn a projection of features from synthetic images: Fisher's linear discriminants.

The directions are those in which different figures differ most, compared with deformed copies of one figure. The
projection is a constant that follows from its recipe; it uses no data set.
"""

import logging
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh

from pwfl import streams
from pwfl.learning import synthetic
from pwfl.learning.datasets import content
from pwfl.learning.features import DIRECTIONS, GRIDS
from pwfl.learning.scattering import scattering
from pwfl.process import threads

log = logging.getLogger(__name__)

SEED = 1
CHUNK = 100  # figures drawn at a time


class Recipe(NamedTuple):
    """How a projection is learned.

    Attributes
    ----------
    figures
        Number of synthetic figures.
    copies
        Number of deformed copies of each.
    floor
        Regularization added to the scatter within figures, over the largest eigenvalue of the total covariance.
    exponent
        A direction of eigenvalue lambda is scaled by (lambda / (1 + lambda))^exponent.
    """

    figures: int
    copies: int
    floor: float
    exponent: float


RECIPES = {"strokes": Recipe(4000, 16, 1e-4, 0.5), "shapes": Recipe(4000, 16, 1e-4, 0.25)}


class Projection(NamedTuple):
    """The map x -> (x - mean) directions, float32, shapes (feature,) and (feature, direction)."""

    mean: np.ndarray
    directions: np.ndarray


def learn(kind: str, side: int) -> Projection:
    """Learn the projection of one of RECIPES, for images of `side` by `side` pixels."""
    with threads.one_of_blas():
        return discriminants(_features(kind, side), RECIPES[kind])


def discriminants(figures: Iterator[np.ndarray], recipe: Recipe) -> Projection:
    """Compute Fisher's directions of figures' features, given in chunks of float32, shape (figure, copy, feature).

    They solve S_b v = lambda (S_w + floor ev_max I) v, with the covariance S_b of the figures' means, the covariance
    S_w of copies around them, and the largest eigenvalue ev_max of S_b + S_w.
    """
    means, total, count = [], 0.0, 0
    for chunk in figures:
        rows = chunk.reshape(-1, chunk.shape[-1])
        total, count = total + (rows.T @ rows).astype(float), count + len(rows)
        means.append(chunk.mean(axis=1))
    means = np.concatenate(means).astype(float)
    mean = means.mean(axis=0)
    between = means.T @ means / len(means) - np.outer(mean, mean)
    total = total / count - np.outer(mean, mean)
    features = len(mean)
    largest = eigsh(total, 1, v0=np.ones(features), return_eigenvectors=False)[0]
    within = total - between + recipe.floor * largest * np.eye(features)
    kept = min(max(DIRECTIONS.values()), features)
    values, vectors = eigh(between, within, subset_by_index=[features - kept, features - 1])
    values = np.maximum(values[::-1], 0)
    directions = vectors[:, ::-1] * (values / (1 + values)) ** recipe.exponent
    return Projection(mean.astype(np.float32), directions.astype(np.float32))


def run(task, _) -> dict[str, Projection]:
    """Run the stage `projection`."""
    learned = learn(task.variant, task.values.side)
    log.info("projection to %d directions, SHA-256 %s", learned.directions.shape[1], content(learned))
    return {"projection": learned}


def coefficients(images: np.ndarray) -> np.ndarray:
    """Compute square roots of images' scattering coefficients, scaled to L2 norm 1, shape (image, feature).

    `images` are float32, shape (image, side, side).
    """
    pixels = images.shape[-1]
    side, scales = GRIDS[pixels]
    border = ((side - pixels) // 2,) * 2
    roots = scattering(np.pad(images, ((0, 0), border, border)), scales).reshape(len(images), -1)
    roots = np.sqrt(np.maximum(roots, 0, out=roots), out=roots)  # rounding leaves some below zero
    return roots / np.maximum(np.linalg.norm(roots, axis=1, keepdims=True), np.float32(1e-9))


def _features(kind: str, side: int) -> Iterator[np.ndarray]:
    recipe, draw = RECIPES[kind], getattr(synthetic, kind)
    for chunk, first in enumerate(range(0, recipe.figures, CHUNK)):
        figures = min(CHUNK, recipe.figures - first)
        images = draw(figures, recipe.copies, side, streams.generator(SEED, kind, chunk))
        yield coefficients(images.reshape(-1, side, side)).reshape(figures, recipe.copies, -1)
