"""Learners whose messages arrive with different weights in different bands of coordinates.

The model's tensors are flattened and concatenated; coordinate c of the result is in band c mod B, of B bands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pwfl.process.tensorflow import tf
from pwfl.tables.reception import Reception
from pwfl.training.batching import Weights


class Banded(NamedTuple):
    """The learner's inputs that vary by interval (`Learner.inputs`), one for each band."""

    parts: tuple

    @property
    def rows(self):
        """Indices of records, the same in all bands."""
        return self.parts[0].rows

    @property
    def sizes(self):
        """Numbers of records, the same in all bands."""
        return self.parts[0].sizes


@dataclass(frozen=True)
class ByBand:
    """A learner whose weighted sum of messages has different weights in each band of coordinates.

    `summed` computes the learner's sum once per band, with the band's weights, and keeps the band's coordinates.
    Everything else is the learner's. `inputs` raises NotImplementedError for a learner that does not add up messages
    itself (whose `varying` has a field `weight`).
    """

    learner: Any

    def __getattr__(self, name: str):
        return getattr(self.learner, name)

    def inputs(self, reception: Reception, user_records: list[np.ndarray], seed: int, realization: int) -> tuple:
        assert reception.bands is not None  # as `trainings.training` makes this learner only then
        band_inputs = [
            self.learner.inputs(reception._replace(weight=reception.weight * factor), user_records, seed, realization)
            for factor in np.moveaxis(reception.bands, 2, 0)
        ]
        (fixed, varying), *_ = band_inputs
        if hasattr(varying, "weight"):
            raise NotImplementedError("messages that the learner does not sum are heard in one band")
        return fixed, Banded(tuple(varying for _, varying in band_inputs))

    def gather(self, fixed: Any, varying: Banded, data: Any) -> tuple:
        return tuple(self.learner.gather(fixed, part, data) for part in varying.parts)

    def summed(
        self, weights: Weights, fixed: Any, varying: Banded, used: tuple, uniforms: Callable
    ) -> tuple[Weights, tf.Tensor]:
        sums = [
            self.learner.summed(weights, fixed, *inputs, uniforms) for inputs in zip(varying.parts, used, strict=True)
        ]
        _, measured = sums[0]
        bands = places([w.shape[measured.shape.rank - 1 :] for w in weights], len(sums))  # without realizations' axis
        total = [
            tf.add_n([tf.where(band == b, part, tf.zeros_like(part)) for b, part in enumerate(band_messages)])
            for band, band_messages in zip(bands, zip(*(messages for messages, _ in sums), strict=True), strict=True)
        ]
        return total, measured

    def place(self, start, target: int, round_: int) -> int:
        return self.learner.place(start._replace(varying=start.varying.parts[0]), target, round_)


def places(shapes: Sequence, bands: int) -> list[np.ndarray]:
    """Return the band of each coordinate of tensors of some shapes: c mod `bands`, c counted through all tensors."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    band = np.split(np.arange(sum(sizes)) % bands, np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(band, shapes, strict=True)]


def by_coordinate(values: tf.Tensor, shapes: Sequence, bands: int) -> Weights:
    """Expand values of bands, shape (..., band), to coordinates: one tensor (..., *shape) for each of `shapes`."""
    return [tf.gather(values, band, axis=-1) for band in places(shapes, bands)]
