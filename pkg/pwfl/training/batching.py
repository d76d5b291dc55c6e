"""Arrays of one realization or of a batch of realizations: padding, products, norms and random numbers."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from pwfl.learning import philox

SIZES = 8  # of padded numbers of records, between a power of two and the next

Weights = list[tf.Tensor]
Numbers = Any  # an array or, inside of a graph, the tensor that it becomes


def padded(number: int) -> int:
    """A size for so many records: no less, and one of SIZES between powers of two, at most an eighth more.

    XLA compiles a program for each set of shapes, in seconds, so there are few.

    >>> [padded(number) for number in (1, 16, 17, 1000, 11_000)]
    [16, 16, 18, 1024, 11264]
    """
    step = max(1, 2 ** (max(number, 16) - 1).bit_length() // 2 // SIZES)
    return -(-max(number, 16) // step) * step


def stacked(arrays: Sequence[np.ndarray], round_up: bool) -> np.ndarray:
    """Stack realizations' arrays to shape (realization, ...), shorter ones padded with zeros.

    `round_up`: if last axes differ, the last axis is padded to a size of `padded`.
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
    """Stack realizations' arrays, or structures of arrays, into one structure of tensors: see `stacked`.

    If `compiled`, the last axes of the fields that `by_record` of a named tuple lists are padded to few sizes. All
    other axes are as long as the longest, so an axis of users is equally long in all arrays.
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
    """The state after `state = body(number, *state)` for the numbers from `first` to `stop` - 1, in a graph.

    One iteration at a time: TensorFlow names the frames of nested loops by a 64-bit hash of their iterations' numbers,
    and frames of iterations that run ahead get equal hashes from about 1,000 iterations on. Outputs then are empty.
    """

    def step(number, *state):
        return number + 1, *body(number, *state)

    begin = tf.convert_to_tensor(first), *state
    return tf.while_loop(lambda number, *_: number < stop, step, begin, parallel_iterations=1)[1:]


def times(factor: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Multiply a tensor, (...) or (realization, ...), by a factor, () or (realization,)."""
    axes = tensor.shape.rank - factor.shape.rank
    return tensor * (tf.reshape(factor, [-1] + [1] * axes) if factor.shape.rank else factor)


def norm(tensors: Weights, like: tf.Tensor) -> tf.Tensor:
    """Compute the L2 norm of all tensors together, for each realization if `like`, () or (realization,), has any."""
    squares = [tf.reduce_sum(tf.square(t), axis=list(range(like.shape.rank, t.shape.rank))) for t in tensors]
    return tf.sqrt(tf.reduce_sum(tf.stack(squares), axis=0))


def bytes_each(widths: Sequence[int], records: int, tested: tuple[int, ...]) -> float:
    """Estimate the memory of training a dense network in one realization, in bytes.

    `widths` are the layers', the input's first; `records` the number in a round; `tested` the shape of the test
    features. Counts layers' inputs, outputs and derivatives, the weights and their average, gradients and noise.
    """
    layers = 3 * sum(widths[1:])
    weights = sum(a * b + b for a, b in pairwise(widths))
    test_numbers = tested[0] * layers
    return 4.0 * (max(records * (widths[0] + layers), test_numbers) + 8 * weights)


class Draws(NamedTuple):
    """Random numbers of round t: of the streams (key, t), those of TensorFlow's kernels whatever draws them."""

    t: tf.Tensor
    compiled: bool

    def normals(self, key: tf.Tensor, like: Weights) -> Weights:
        """Draw standard normal tensors of the shapes of `like`, each realization's by its key, () or (realization,)."""
        sizes = [w.shape[key.shape.rank :].num_elements() for w in like]
        draw = self._numbers(key, sum(sizes), tf.random.stateless_normal, philox.normals)
        return [tf.reshape(part, w.shape) for part, w in zip(tf.split(draw, sizes, axis=-1), like, strict=True)]

    def rows(self, key: tf.Tensor, count: int, size: int) -> tf.Tensor:
        """Draw `count` standard normal vectors, shape (..., count, size); a smaller count gives the first of them."""
        draw = self._numbers(key, count * size, tf.random.stateless_normal, philox.normals)
        return tf.reshape(draw, [*key.shape, count, size])

    def uniforms(self, key: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
        """Draw uniform numbers in [0, 1), of the given shape for each realization."""
        draw = self._numbers(key, math.prod(shape), tf.random.stateless_uniform, philox.uniforms)
        return tf.reshape(draw, [*key.shape, *shape])

    def _numbers(self, key: tf.Tensor, size: int, one: Callable, several: Callable) -> tf.Tensor:
        # XLA draws other normal numbers of a seed than TensorFlow's own kernels do.
        if self.compiled:
            return several(key, self.t, size)
        keys = tf.unstack(key) if key.shape.rank else [key]
        drawn = [one([size], seed=tf.stack([one_key, tf.cast(self.t, tf.int64)])) for one_key in keys]
        return tf.stack(drawn) if key.shape.rank else drawn[0]
