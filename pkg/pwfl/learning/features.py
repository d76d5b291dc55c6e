"""Fixed features that users train on instead of pixels: a function of the image alone, learned from no user's data.

- `scattering`: square roots of the image's scattering coefficients (`pwfl.learning.scattering`).
- `strokes`, `shapes`: these, projected to the directions that best separate synthetic glyphs, or textured shapes, in
  spite of deformations (`pwfl.learning.projection`). The projection uses no real image, but knowledge of the task.

`pwfl.learning.extraction` computes them, once per data set.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pwfl.learning import datasets
from pwfl.learning.datasets import Dataset, Size

PIXELS = "pixels"
NORM = 10.0  # L2 norm of a record's features: large compared with the bias's input 1, as the norm of pixels is
DIRECTIONS = {"strokes": 160, "shapes": 500}  # directions of a projection that are used, those of largest eigenvalue


class Grid(NamedTuple):
    """Pixels per side of an image with its black border, and the number of scales J of its scattering transform."""

    side: int
    scales: int


GRIDS = {8: Grid(12, 2), 28: Grid(32, 3)}  # by pixels per side without the border
ANGLES = 8  # of the wavelets


def paths(scales: int) -> int:
    """Return the number of scattering coefficients of order 0, 1 and 2 at a position; `scales`: J."""
    return 1 + ANGLES * scales + ANGLES**2 * scales * (scales - 1) // 2


def requested(scenario) -> str:
    """Return the value of `training.features` of a scenario, `pixels` if it has none."""
    return _value_or(scenario, "training", "features", PIXELS)


def size(scenario) -> Size:
    """Return the size of a scenario's data set with its `training.features`."""
    kind = requested(scenario)
    held = datasets.size(scenario.data)
    if kind == PIXELS:
        return held
    if kind in DIRECTIONS:
        return held._replace(shape=(DIRECTIONS[kind],))
    side, scales = GRIDS[held.shape[0]]
    return held._replace(shape=(paths(scales) * (side >> scales) ** 2,))


def training_data(scenario, inputs: Mapping) -> Dataset | None:
    """Return the data set that a scenario trains on; None if it has no section `data`.

    `inputs` has the arrays of `dataset` or `features`. The last `data.reserved` training records are removed; with
    `data.evaluate_on: reserved` they replace the test records.
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
    """Convert the arrays of `extraction.extract` to a `Dataset` with features of L2 norm NORM.

    `kind` is the value of `training.features`; of a projection, the first directions are used.
    """
    x_train, y_train, x_test, y_test, *users = arrays
    x_train, x_test = (_scaled(x[..., : DIRECTIONS.get(kind)]) for x in (x_train, x_test))
    return Dataset(x_train, y_train.astype(np.int32), x_test, y_test.astype(np.int32), *users)


def _value_or(scenario, section: str, key: str, otherwise):
    return getattr(getattr(scenario, section, None), key, otherwise)


def _scaled(x: np.ndarray) -> np.ndarray:
    """Scale rows to L2 norm NORM; zero rows stay zero."""
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.divide(NORM * x, norm, where=norm > 0, out=np.zeros_like(x))
