"""Local training of any model, one device after the other; `local_steps` trains dense networks of all devices at once.

Arguments and results are as in `local_steps`.
"""

from dataclasses import dataclass
from functools import partial

from pwfl.process.tensorflow import tf
from pwfl.training.batching import Weights
from pwfl.training.trainable import Differentiated

_each = partial(tf.map_fn, parallel_iterations=1)


@dataclass(frozen=True)
class ModelSteps:
    """The functions of `local_steps` for a model of `training.trainable`."""

    model: Differentiated

    def losses(self, weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """Compute the mean cross-entropy of each device's batch under its parameters, shape (device,)."""
        return _each(lambda parts: self._loss(*parts), (weights, x, y), fn_output_signature=tf.float32)

    def gradients(self, weights: Weights, x: tf.Tensor, y: tf.Tensor, radius: float | None = None) -> Weights:
        """Compute the gradient of each device's loss by its parameters; with a radius as `local_steps.gradients`."""

        def device_gradient(parts):
            weights, x, y = parts
            if radius is None:
                return self._gradient(weights, x, y)
            share = 1 / tf.cast(tf.shape(y)[0], tf.float32)

            def sample_gradient(row):
                return [share * g for g in self._gradient(weights, x[row][None], y[row][None])]

            slopes = tf.vectorized_map(sample_gradient, tf.range(tf.shape(y)[0]))
            square = sum(tf.reduce_sum(tf.square(g), axis=list(range(1, g.shape.rank))) for g in slopes)
            factor = tf.where(tf.math.is_finite(square), tf.minimum(1.0, radius * tf.math.rsqrt(square)), 0.0)
            finite = [tf.where(tf.math.is_finite(g), g, 0.0) for g in slopes]
            return [tf.tensordot(factor, g, 1) for g in finite]

        return _each(device_gradient, (weights, x, y), fn_output_signature=_like(weights))

    def updates(
        self, weights: Weights, x: tf.Tensor, y: tf.Tensor, direction: Weights, steps: tf.Tensor, step_size: float
    ) -> Weights:
        """Compute each device's update h of its copy w of the model after its number of steps, (3)."""
        devices = tf.size(steps)
        direction = [tf.broadcast_to(d, tf.concat([[devices], tf.shape(d)[1:]], axis=0)) for d in direction]
        # Within a larger graph, oneDNN's choice of kernels, and with it last bits, would differ between processes.
        gradient = tf.function(self._gradient, autograph=False, experimental_attributes={"_noinline": True})

        def device_update(parts):
            weights, x, y, direction, count = parts
            drift = [d - g for d, g in zip(direction, gradient(weights, x, y), strict=True)]

            def step(t, moved):
                slope = gradient([w + h for w, h in zip(weights, moved, strict=True)], x, y)
                return t + 1, [h - step_size * (g + d) for h, g, d in zip(moved, slope, drift, strict=True)]

            start = tf.constant(0), [tf.zeros_like(w) for w in weights]
            return tf.while_loop(lambda t, _: t < count, step, start)[1]

        parts = weights, x, y, direction, steps
        return _each(device_update, parts, fn_output_signature=_like(weights))

    def _loss(self, weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """Compute the mean cross-entropy of one device's batch."""
        return tf.reduce_mean(self.model.losses(weights, x, y))

    def _gradient(self, weights: Weights, x: tf.Tensor, y: tf.Tensor) -> Weights:
        """Compute the gradient of one device's loss by its parameters."""
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = self._loss(weights, x, y)
        return tape.gradient(loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def _like(weights: Weights) -> Weights:
    return [tf.TensorSpec(w.shape[1:], tf.float32) for w in weights]
