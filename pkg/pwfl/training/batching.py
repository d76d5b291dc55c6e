"""Arrays of one realization or of a batch of realizations: padding, products, norms and random numbers.

A batch has the realization in axis 0 of every array; one realization alone has no such axis.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pwfl.learning import philox
from pwfl.process.tensorflow import tf

SIZES = 8  # of padded numbers of records, between a power of two and the next

Weights = list[tf.Tensor]  # one tensor per tensor of the model: parameters, or a gradient or update of them
Numbers = Any  # a NumPy array or, inside a graph, the tensor made of it


def padded(number: int) -> int:
    """Return the size to which an axis of `number` records is padded: the next of SIZES sizes between powers of two.

    It is at least 16, and at most an eighth above `number` beyond that. XLA compiles a program, in seconds, for each
    set of shapes, so there should be few.

    >>> [padded(number) for number in (1, 16, 17, 1000, 11_000)]
    [16, 16, 18, 1024, 11264]
    """
    step = max(1, 2 ** (max(number, 16) - 1).bit_length() // 2 // SIZES)
    return -(-max(number, 16) // step) * step


def stacked(arrays: Sequence[np.ndarray], round_up: bool) -> np.ndarray:
    """Stack realizations' arrays to shape (realization, ...), padding shorter axes with zeros.

    `round_up`: if the lengths of the last axis differ, it is padded to a size of `padded`.
    """
    arrays = [np.asarray(array) for array in arrays]
    shape = np.max([array.shape for array in arrays], axis=0).astype(int)
    if round_up and len({array.shape[-1] for array in arrays}) > 1:
        shape[-1] = padded(int(shape[-1]))
    full = np.zeros((len(arrays), *shape), arrays[0].dtype)
    for b, array in enumerate(arrays):
        full[(b, *map(slice, array.shape))] = array
    return full


def side_by_side(parts: Sequence[Any], compiled: bool) -> Any:
    """Stack realizations' arrays, or structures of arrays, into one structure of tensors with realizations in axis 0.

    Axes are padded with zeros to the longest realization's. If `compiled`, the last axes of the fields that a named
    tuple's attribute `by_record` lists are padded further, to one of few sizes (`padded`).
    """
    by_record = getattr(parts[0], "by_record", ())

    def filled(name: str | None, *structures):
        round_up = compiled and name in by_record
        return tf.nest.map_structure(lambda *parts: tf.constant(stacked(parts, round_up)), *structures)

    if not hasattr(parts[0], "_fields"):
        return filled(None, *parts)
    fields = zip(*parts, strict=True)
    return type(parts[0])(
        *(filled(name, *structures) for name, structures in zip(parts[0]._fields, fields, strict=True))
    )


def repeated(body: Callable, first: int | tf.Tensor, stop: int | tf.Tensor, state: Sequence) -> tuple:
    """Compute `state = body(number, *state)` for number = first, ..., stop - 1 in a graph, and return the state.

    `body` returns a tuple or list as long as `state`. Iterations run one at a time: TensorFlow names the frames of
    nested loops by a 64-bit hash of iteration numbers, and with parallel iterations, hashes coincide from about 1,000
    iterations on; outputs are then empty.
    """

    def step(number, *state):
        return number + 1, *body(number, *state)

    begin = tf.convert_to_tensor(first), *state
    return tf.while_loop(lambda number, *_: number < stop, step, begin, parallel_iterations=1)[1:]


def times(factor: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Multiply a tensor of shape (...) by a factor (), or one of shape (realization, ...) by factors (realization,)."""
    return tensor * along(factor, tensor)


def along(factor: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Give factors, () or (realization,), the axes with which they multiply a tensor of shape (realization, ...)."""
    axes = tensor.shape.rank - factor.shape.rank
    return tf.reshape(factor, [-1] + [1] * axes) if factor.shape.rank else factor


def norm(tensors: Weights, like: tf.Tensor) -> tf.Tensor:
    """Compute the L2 norm of all tensors together, of the shape of `like`: () or, per realization, (realization,)."""
    squares = [tf.reduce_sum(tf.square(t), axis=list(range(like.shape.rank, t.shape.rank))) for t in tensors]
    return tf.sqrt(tf.reduce_sum(tf.stack(squares), axis=0))


def clipping(norms: tf.Tensor, clip_norm: tf.Tensor | float) -> tf.Tensor:
    """Compute factors min(1, clip_norm / norm), and 0 where a norm is not finite.

    An update without a finite norm would exceed every bound on its sensitivity; with the factor 0 it is sent as zeros.
    """
    return tf.where(tf.math.is_finite(norms), tf.minimum(1.0, clip_norm / norms), 0.0)


def bytes_each(widths: Sequence[int], records: int, tested: tuple[int, ...]) -> float:
    """Estimate the memory of training a dense network in one realization, in bytes.

    Counts layers' inputs, outputs and derivatives, the parameters and their average, gradients and noise.

    Parameters
    ----------
    widths
        Widths of the layers, from the number of features to the number of classes.
    records
        Records in a round.
    tested
        Shape of the test features, (record, feature).
    """
    layers = 3 * sum(widths[1:])
    weights = sum(a * b + b for a, b in pairwise(widths))
    test_numbers = tested[0] * layers
    return 4.0 * (max(records * (widths[0] + layers), test_numbers) + 8 * weights)


class Draws(NamedTuple):
    """Random numbers of round t, a function of (key, t) alone.

    Compiled graphs draw the numbers of TensorFlow's own kernels, too (`learning.philox`), up to rounding.

    Attributes
    ----------
    t
        Number of the round, shape ().
    compiled
        Whether XLA compiles the graph.
    """

    t: tf.Tensor
    compiled: bool

    def normals(self, key: tf.Tensor, like: Weights) -> Weights:
        """Draw standard normal tensors of the shapes of `like`; `key`, int64, has shape () or (realization,)."""
        sizes = [w.shape[key.shape.rank :].num_elements() for w in like]
        draw = self._numbers(key, sum(sizes), tf.random.stateless_normal, philox.normals)
        return [tf.reshape(part, w.shape) for part, w in zip(tf.split(draw, sizes, axis=-1), like, strict=True)]

    def rows(self, key: tf.Tensor, count: int, size: int) -> tf.Tensor:
        """Draw standard normal vectors, shape (..., count, size); those of a smaller `count` are the first of them."""
        draw = self._numbers(key, count * size, tf.random.stateless_normal, philox.normals)
        return tf.reshape(draw, [*key.shape, count, size])

    def uniforms(self, key: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
        """Draw uniform numbers in [0, 1), shape (..., *shape); `key`, int64, has shape () or (realization,)."""
        draw = self._numbers(key, math.prod(shape), tf.random.stateless_uniform, philox.uniforms)
        return tf.reshape(draw, [*key.shape, *shape])

    def _numbers(self, key: tf.Tensor, size: int, one: Callable, several: Callable) -> tf.Tensor:
        """Draw `size` numbers per key, shape (..., size): by TensorFlow's `one` or, compiled, by `several`."""
        # For the same seed, XLA draws other normal numbers than TensorFlow's own kernels.
        if self.compiled:
            return several(key, self.t, size)
        keys = tf.unstack(key) if key.shape.rank else [key]
        drawn = [one([size], seed=tf.stack([one_key, tf.cast(self.t, tf.int64)])) for one_key in keys]
        return tf.stack(drawn) if key.shape.rank else drawn[0]
