"""The models that learners train: start parameters, weighted sums and clipped means of gradients, evaluation.

`Dense` computes all realizations of a batch at once (`dense`). `Differentiated` computes Keras models by automatic
differentiation (`autodiff`), one realization after the other, in blocks of records.

"..." before an axis stands for the axis of realizations, which is there only if several are trained as a batch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pwfl.learning import adversarial, datasets, mlp
from pwfl.process.tensorflow import tf
from pwfl.training import autodiff, batching, dense, models, own_models
from pwfl.training.batching import Weights

if TYPE_CHECKING:
    import keras

TRIED = 3  # records, and start parameters, with which a network is tried before it is audited
SURE = 1e3  # bias of a class at which softmax is exactly 1 in float32, so that records of the class have gradient 0


class Model(Protocol):
    """What users train. Equal models compute the same, so they can share a traced graph.

    Attributes
    ----------
    shapes
        Shapes of the tensors of parameters, without an axis of realizations.
    known
        Whether the gradients of `opposed` records are opposite in all layers, by the network's architecture.
    """

    @property
    def shapes(self) -> list[tuple[int, ...]]: ...

    @property
    def known(self) -> bool: ...

    @property
    def start(self) -> Callable[[Callable[[], np.random.Generator]], list[np.ndarray]]:
        """Function `start(draws)` that returns start parameters, float32, one array per tensor of the model.

        `draws()` returns a random generator; it is called only if any parameter is random.
        """
        ...

    def prepared(self, x: tf.Tensor, /) -> Any:
        """Compute from features, (..., record, feature), what `clipped_mean` uses in all rounds with these records."""
        ...

    def passed(self, weights: Weights, x: tf.Tensor, y: tf.Tensor, /) -> Any:
        """Compute what `sums` needs of records: a structure of tensors that can be sliced by record.

        `x` has shape (..., record, feature), `y`, int32, (..., record). For one realization, axis 0 of each tensor is
        of records, so `sums` can be called with slices of it.
        """
        ...

    def sums(self, weights: Weights, passed: Any, factor: tf.Tensor) -> Weights:
        """Compute sum_j factor[j] g_j over records j with gradients g_j, one tensor (..., *shape) per parameter tensor.

        `passed` is as returned by the method, or a slice of it; `factor` has shape (..., record).
        """
        ...

    def clipped_mean(self, weights: Weights, x, y, clip_norm: float, sizes, counts, prepared, /) -> tuple:
        """Compute the mean of clipped gradients; see `dense.clipped_mean`, whose `x_squares` is `prepared`."""
        ...

    def evaluate(self, weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute accuracies and mean loss; see `dense.evaluate`."""
        ...

    def silent(self) -> list[np.ndarray]:
        """Return parameters at which a record that is all zero and of class 0 has gradient 0 in float32."""
        ...

    def untested(self) -> str | None:
        """Return why an audit cannot test the model, a value of the column `reason` of `audit`; None: it can."""
        ...

    def opposed(self, clip_norm: float, generator: np.random.Generator) -> Iterator[adversarial.Opposed]:
        """Yield parameters and two records with opposite gradients of norms above `clip_norm` (`adversarial`)."""
        ...


@dataclass(frozen=True)
class Dense:
    """Dense ReLU networks; no per-record gradient is ever formed (`dense`).

    Attributes
    ----------
    widths
        Widths of the layers, from the number of features to the number of classes.
    start
        As in `Model`.
    """

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
    """Keras models without state, differentiated by TensorFlow.

    Attributes
    ----------
    model
        Maps features, shape (record, feature), to logits, shape (record, class).
    size
        Number of features and classes of the data.
    compiled
        Whether XLA compiles the training.
    known
        Whether the model is that of `autodiff.convolutional`, ReLU layers of kernels and biases in turn.
    start
        As in `Model`.
    """

    model: "keras.Model"
    size: datasets.Size
    compiled: bool
    known: bool
    start: Callable[[Callable[[], np.random.Generator]], list[np.ndarray]] = field(compare=False)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [tuple(weight.shape) for weight in self.model.trainable_variables]

    def losses(self, weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """Compute each record's cross-entropy, in nats, shape (record,)."""
        return tf.nn.sparse_softmax_cross_entropy_with_logits(y, self.outputs(weights, x))

    def outputs(self, weights: Weights, x: tf.Tensor) -> tf.Tensor:
        with tf.init_scope():  # the state is random seeds, which these models do not use
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
        """Return zero parameters and a large bias of class 0 if the last parameters are biases of the logits.

        Many networks then have gradient 0 for an all-zero record of class 0; `untested` checks it.
        """
        weights = [np.zeros(shape, np.float32) for shape in self.shapes]
        if weights[-1].shape == (self.size.classes,):
            weights[-1][0] = SURE
        return weights

    def untested(self) -> str | None:
        """Return why an audit cannot test this network; None: it can.

        "not finite": gradients are infinite or NaN. "gradient never zero": the parameters of `silent` do not silence
        it.
        """
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
        """Return whether the case's records, and all-zero records of their classes, have finite gradients."""
        slopes = self._slopes(*case) + self._slopes(case.weights, np.zeros_like(case.x), case.y)
        return all(np.isfinite(slope).all() for slope in slopes)

    def _slopes(self, weights: list[np.ndarray], x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        """Compute the gradient of the sum of these records' losses, one array per tensor of the model."""
        slopes = self.sums([tf.constant(w) for w in weights], (tf.constant(x), tf.constant(y)), tf.ones(len(y)))
        return [slope.numpy() for slope in slopes]


def _each(function: Callable, signature, *parts):
    """Apply a function to each realization's part of `parts`, one after the other; `signature`: of its results."""
    return tf.map_fn(lambda part: function(*part), parts, fn_output_signature=signature, parallel_iterations=1)


def model_of(network: models.Network, compiled: bool = False) -> Model:
    """Return the model that computes a network; `compiled`: whether XLA compiles the training."""
    start = partial(models.start_weights, network)
    if network.model == "dense":
        return Dense(network.widths, start)
    if network.model == "cnn":
        keras = autodiff.convolutional(network.size.shape, network.size.classes)
        return Differentiated(keras, network.size, compiled, known=True, start=start)
    return Differentiated(own_models.user_model(network), network.size, compiled, known=False, start=start)


def bytes_each(network: models.Network, records: int, tested: tuple[int, ...]) -> float:
    """Estimate the GPU memory of training a network in one realization, in bytes.

    `records` is the number of records in a round, `tested` the shape of the test features, (record, feature).
    """
    if network.model == "dense":
        return batching.bytes_each(network.widths, records, tested)
    count = models.parameter_count(network)
    return 4.0 * (records * network.size.features + 8 * count) + 16.0 * autodiff.NUMBERS
