"""What users train on instead of pixels: features that follow from an image alone, and from no user's or test data.

- `scattering`: roots of the image's scattering coefficients (`pwfl.learning.scattering`).
- `strokes`, `shapes`: these, projected to the directions in which they tell synthetic glyphs, or textured shapes, from
  each other in spite of deformations (`pwfl.learning.projection`). No image enters, but knowledge of the task does.

`pwfl.learning.extraction` computes them, once for a data set.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pwfl.learning import datasets
from pwfl.learning.datasets import Dataset, Size

PIXELS = "pixels"
NORM = 10.0  # of a record's features: large beside a bias's input of 1, as pixels' is
DIRECTIONS = {"strokes": 160, "shapes": 500}  # of the projections, those of largest eigenvalue


class Grid(NamedTuple):
    """An image's pixels on a side with a black border, and the scales J of its scattering."""

    side: int
    scales: int


GRIDS = {8: Grid(12, 2), 28: Grid(32, 3)}  # by pixels on a side without it
ANGLES = 8  # of the wavelets


def paths(scales: int) -> int:
    """Number of scattering coefficients at a place, of order 0, 1 and 2."""
    return 1 + ANGLES * scales + ANGLES**2 * scales * (scales - 1) // 2


def requested(scenario) -> str:
    """The features that a scenario's section `training` asks for; pixels where it says nothing."""
    return _value_or(scenario, "training", "features", PIXELS)


def size(scenario) -> Size:
    """The size of a scenario's data set, with as many features as it asks for."""
    kind = requested(scenario)
    held = datasets.size(scenario.data)
    if kind == PIXELS:
        return held
    if kind in DIRECTIONS:
        return held._replace(shape=(DIRECTIONS[kind],))
    side, scales = GRIDS[held.shape[0]]
    return held._replace(shape=(paths(scales) * (side >> scales) ** 2,))


def training_data(scenario, inputs: Mapping) -> Dataset | None:
    """What a scenario trains on, out of the arrays of its `dataset` or `features`; None where it simulates the data.

    The last training samples, which `data.reserved` keeps back, are not among them; with `data.evaluate_on: reserved`
    they take the place of the test samples.
    """
    if "data" not in vars(scenario):
        return None
    kind = requested(scenario)
    data = datasets.prepared(inputs["dataset"]) if kind == PIXELS else chosen(inputs["features"], kind)
    dealt = len(data.y_train) - datasets.held_out(scenario.data)
    tested = data.x_test, data.y_test
    if _value_or(scenario, "data", "evaluate_on", "test") == "reserved":
        tested = data.x_train[dealt:], data.y_train[dealt:]
    return Dataset(data.x_train[:dealt], data.y_train[:dealt], *tested, data.users[:dealt])


def chosen(arrays: tuple[np.ndarray, ...], kind: str) -> Dataset:
    """What `extraction.extract` returned as training takes it: of a projection the first directions, scaled to NORM."""
    x_train, y_train, x_test, y_test, *users = arrays
    x_train, x_test = (_scaled(x[..., : DIRECTIONS.get(kind)]) for x in (x_train, x_test))
    return Dataset(x_train, y_train.astype(np.int32), x_test, y_test.astype(np.int32), *users)


def _value_or(scenario, section: str, key: str, otherwise):
    return getattr(getattr(scenario, section, None), key, otherwise)


def _scaled(x: np.ndarray) -> np.ndarray:
    """Rows of norm NORM; what is blank stays so."""
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.divide(NORM * x, norm, where=norm > 0, out=np.zeros_like(x))
