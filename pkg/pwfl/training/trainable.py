"""Models as learners want them: start weights, sums of records' gradients, means of clipped ones, evaluation.

Dense networks compute all realizations at once; models that TensorFlow differentiates one after the other, each in
blocks of records that fill a core, or a GPU.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import tensorflow as tf

from pwfl.learning import adversarial, datasets, mlp
from pwfl.training import autodiff, batching, dense, models, own_models
from pwfl.training.batching import Weights

if TYPE_CHECKING:
    import keras

TRIED = 3  # records, and start weights, with which a network is tried before it is audited
SURE = 1e3  # bias of a class that leaves blank records of it no gradient in float32


class Model(Protocol):
    """What users train; equal ones compute alike.

    Attributes
    ----------
    shapes
        Of the weights of one realization.
    known
        Whether `opposed` records' gradients are opposite in all layers.
    """

    @property
    def shapes(self) -> list[tuple[int, ...]]: ...

    @property
    def known(self) -> bool: ...

    @property
    def start(self) -> Callable[[Callable[[], np.random.Generator]], list[np.ndarray]]:
        """Gives start weights; its argument gives a generator, and is called where any are drawn."""
        ...

    def prepared(self, x: tf.Tensor, /) -> Any:
        """What `clipped_mean` uses of records in all rounds, made once."""
        ...

    def passed(self, weights: Weights, x: tf.Tensor, y: tf.Tensor, /) -> Any:
        """Tensors of the records, in the axis before the last or the last, of which `sums` takes all or some."""
        ...

    def sums(self, weights: Weights, passed: Any, factor: tf.Tensor) -> Weights:
        """The sum of the records' gradients, each times its factor, (..., record)."""
        ...

    def clipped_mean(self, weights: Weights, x, y, clip_norm: float, sizes, counts, prepared, /) -> tuple:
        """See `dense.clipped_mean`."""
        ...

    def evaluate(self, weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """See `dense.evaluate`."""
        ...

    def silent(self) -> list[np.ndarray]:
        """Weights at which a blank record of the first class has no gradient, not even in float32."""
        ...

    def untested(self) -> str | None:
        """Why an audit cannot test it, as its table calls it; None: it can."""
        ...

    def opposed(self, clip_norm: float, generator: np.random.Generator) -> Iterator[adversarial.Opposed]:
        """Weights and two records each, whose gradients are opposite and clipped; see `adversarial`."""
        ...


@dataclass(frozen=True)
class Dense:
    """Dense ReLU networks, of which no record's gradient is ever formed."""

    widths: tuple[int, ...]
    start: Callable[[Callable[[], np.random.Generator]], list[np.ndarray]] = field(compare=False)
    known = True
    passed = staticmethod(dense.backward)
    evaluate = staticmethod(dense.evaluate)
    prepared = staticmethod(dense.row_squares)
    clipped_mean = staticmethod(dense.clipped_mean)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return mlp.shapes(list(self.widths))

    def sums(self, weights: Weights, passed: tuple, factor: tf.Tensor) -> Weights:
        return dense.sums(*passed, factor)

    def silent(self) -> list[np.ndarray]:
        weights = [np.zeros(shape, np.float32) for shape in self.shapes]
        weights[-1][0] = SURE
        return weights

    def untested(self) -> str | None:
        return None

    def opposed(self, clip_norm: float, generator: np.random.Generator) -> Iterator[adversarial.Opposed]:
        return adversarial.opposed(dense.outputs, self.shapes, self.widths[0], clip_norm, generator)


@dataclass(frozen=True)
class Differentiated:
    """Keras models without state; `known` where layers are as in `cnn`, kernels and biases in turn."""

    model: "keras.Model"
    size: datasets.Size
    compiled: bool
    known: bool
    start: Callable[[Callable[[], np.random.Generator]], list[np.ndarray]] = field(compare=False)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [tuple(weight.shape) for weight in self.model.trainable_variables]

    def losses(self, weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """Each record's cross-entropy."""
        return tf.nn.sparse_softmax_cross_entropy_with_logits(y, self.outputs(weights, x))

    def outputs(self, weights: Weights, x: tf.Tensor) -> tf.Tensor:
        with tf.init_scope():  # the state is seeds by which nothing is drawn
            state = [weight.numpy() for weight in self.model.non_trainable_variables]
        return self.model.stateless_call(weights, state, x)[0]

    def prepared(self, x: tf.Tensor) -> tuple:
        return ()

    def passed(self, weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple:
        return x, y

    def sums(self, weights: Weights, passed: tuple, factor: tf.Tensor) -> Weights:
        compute_one = partial(autodiff.weighted_sum, self.losses)
        if factor.shape.rank == 1:
            return compute_one(weights, *passed, factor)
        return _each(compute_one, self._signature, weights, *passed, factor)

    def clipped_mean(self, weights: Weights, x, y, clip_norm: float, sizes, counts, prepared) -> tuple:
        def compute_one(weights, x, y, sizes, counts=None):
            return autodiff.clipped_mean(self.losses, weights, x, y, clip_norm, sizes, counts, self.compiled)

        if y.shape.rank == 1:
            return compute_one(weights, x, y, sizes, counts)
        parts = (weights, x, y, sizes) if counts is None else (weights, x, y, sizes, counts)
        return _each(compute_one, (self._signature, tf.TensorSpec([], tf.float32)), *parts)

    def evaluate(self, weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def compute_one(*weights):
            return autodiff.evaluate(self.outputs, list(weights), x, y)

        if weights[0].shape.rank == len(self.shapes[0]):
            return compute_one(*weights)
        scores = tf.TensorSpec([1 + self.size.classes], tf.float32), tf.TensorSpec([], tf.float32)
        return _each(compute_one, scores, *weights)

    @property
    def _signature(self) -> list:
        return [tf.TensorSpec(shape, tf.float32) for shape in self.shapes]

    def silent(self) -> list[np.ndarray]:
        """Zero weights, which leave a blank record of many networks no gradient; see `untested`."""
        weights = [np.zeros(shape, np.float32) for shape in self.shapes]
        if weights[-1].shape == (self.size.classes,):
            weights[-1][0] = SURE
        return weights

    def untested(self) -> str | None:
        """Why an audit cannot test this network, as its table calls it; None: it can."""
        if self.known:
            return None
        generator = np.random.default_rng(0)
        x, y = generator.random((TRIED, self.size.features), np.float32), np.arange(TRIED) % self.size.classes
        for _ in range(TRIED):
            start = self.start(lambda: generator)
            if not self._is_finite(adversarial.Opposed(start, x, y)) or not any(self.opposed(np.inf, generator)):
                return "not finite"
        blank = np.zeros((1, self.size.features), np.float32), np.zeros(1, int)
        return (
            None if all((slope == 0).all() for slope in self._slopes(self.silent(), *blank)) else "gradient never zero"
        )

    def opposed(self, clip_norm: float, generator: np.random.Generator) -> Iterator[adversarial.Opposed]:
        features = self.size.features
        if self.known:
            return adversarial.opposed(self.outputs, self.shapes, features, clip_norm, generator)
        return filter(
            self._is_finite, adversarial.tied(self.outputs, self.start(lambda: generator), features, generator)
        )

    def _is_finite(self, case: adversarial.Opposed) -> bool:
        """Whether the case's records, and blank ones, have finite gradients."""
        slopes = self._slopes(*case) + self._slopes(case.weights, np.zeros_like(case.x), case.y)
        return all(np.isfinite(slope).all() for slope in slopes)

    def _slopes(self, weights: list[np.ndarray], x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        """The gradient of these records' summed losses."""
        slopes = self.sums([tf.constant(w) for w in weights], (tf.constant(x), tf.constant(y)), tf.ones(len(y)))
        return [slope.numpy() for slope in slopes]


def _each(function: Callable, signature, *parts):
    """A function of each realization's parts, one after the other."""
    return tf.map_fn(lambda part: function(*part), parts, fn_output_signature=signature, parallel_iterations=1)


def model_of(network: models.Network, compiled: bool = False) -> Model:
    """The model of a network."""
    start = partial(models.start_weights, network)
    if network.model == "dense":
        return Dense(network.widths, start)
    if network.model == "cnn":
        keras = autodiff.convolutional(network.size.shape, network.size.classes)
        return Differentiated(keras, network.size, compiled, known=True, start=start)
    return Differentiated(own_models.user_model(network), network.size, compiled, known=False, start=start)


def bytes_each(network: models.Network, records: int, tested: tuple[int, ...]) -> float:
    """About how many bytes of a GPU's memory a realization takes, of records of a round and tested ones."""
    if network.model == "dense":
        return batching.bytes_each(network.widths, records, tested)
    count = models.parameter_count(network)
    return 4.0 * (records * network.size.features + 8 * count) + 16.0 * autodiff.NUMBERS
