"""Learners whose messages are heard in bands of coordinates, in each by weights of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from pwfl.tables.reception import Reception
from pwfl.training.batching import Weights


class Banded(NamedTuple):
    """What differs by interval, in each band."""

    parts: tuple

    @property
    def rows(self):
        """Places of records, which are those of all bands."""
        return self.parts[0].rows

    @property
    def sizes(self):
        """How many records there are."""
        return self.parts[0].sizes


@dataclass(frozen=True)
class ByBand:
    """A learner's messages, of each coordinate with its band's weights: the learner's sum is taken once for each band.

    All else is the learner's. Raises NotImplementedError where it gives users' messages one by one.
    """

    learner: Any

    def __getattr__(self, name: str):
        return getattr(self.learner, name)

    def inputs(self, reception: Reception, owned: list[np.ndarray], seed: int, realization: int) -> tuple:
        assert reception.bands is not None  # with which alone there is a learner by band
        band_inputs = [
            self.learner.inputs(reception._replace(weight=reception.weight * factor), owned, seed, realization)
            for factor in np.moveaxis(reception.bands, 2, 0)
        ]
        (own, at), *_ = band_inputs
        if hasattr(at, "weight"):
            raise NotImplementedError("messages that the learner does not sum are heard in one band")
        return own, Banded(tuple(at for _, at in band_inputs))

    def gather(self, own: Any, at: Banded, data: Any) -> tuple:
        return tuple(self.learner.gather(own, part, data) for part in at.parts)

    def summed(
        self, weights: Weights, own: Any, at: Banded, used: tuple, uniforms: Callable
    ) -> tuple[Weights, tf.Tensor]:
        sums = [self.learner.summed(weights, own, *each, uniforms) for each in zip(at.parts, used, strict=True)]
        _, measured = sums[0]
        bands = places([w.shape[measured.shape.rank - 1 :] for w in weights], len(sums))  # without realizations' axis
        total = [
            tf.add_n([tf.where(band == b, part, tf.zeros_like(part)) for b, part in enumerate(band_messages)])
            for band, band_messages in zip(bands, zip(*(messages for messages, _ in sums), strict=True), strict=True)
        ]
        return total, measured

    def place(self, start, target: int, round_: int) -> int:
        return self.learner.place(start._replace(at=start.at.parts[0]), target, round_)


def places(shapes: Sequence, bands: int) -> list[np.ndarray]:
    """The band of each coordinate of some tensors: coordinate c of all of them in a row is in band c modulo `bands`."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    each = np.split(np.arange(sum(sizes)) % bands, np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(each, shapes, strict=True)]


def by_coordinate(values: tf.Tensor, shapes: Sequence, bands: int) -> Weights:
    """Values of bands, shape (..., band), for each coordinate of some tensors."""
    return [tf.gather(values, band, axis=-1) for band in places(shapes, bands)]
