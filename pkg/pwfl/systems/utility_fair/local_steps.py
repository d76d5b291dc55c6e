"""Local training of all devices at once, for dense networks, each with separate parameters, batch and number of steps.

A device solves (3) by steps h <- h - eta [grad L(w + h) - grad L(w) + xi grad G] from h = 0 over one batch. The widest
layer is the first; its inputs x are constant. Its gradients are x^T delta. So its update after some steps is -eta x^T
S, where S is the sum of the steps' deltas, and adds -eta (x x^T) S to the layer's output. A step then needs one product
with the batch's Gram matrix, not two with x, and S becomes an update only at the end. The rest of a step is the usual
backward pass.

Model parameters, `weights`, are lists [kernel, bias, ...] with a leading axis for devices. Batches x have shape
(device, sample, feature), their classes y are int32 of shape (device, sample).
"""

from pwfl.process.tensorflow import tf
from pwfl.training.batching import Weights, times


def losses(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Compute the mean cross-entropy of each device's batch under its parameters, shape (device,)."""
    _, logits = _forward(weights, _dense(x, weights))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits), axis=1)


def gradients(weights: Weights, x: tf.Tensor, y: tf.Tensor, radius: float | None = None) -> Weights:
    """Compute the gradient of each device's loss by its parameters, of the shapes of `weights`.

    With a radius, each sample's part of its batch's mean is scaled down to at most that norm, and is zero if it is not
    finite.
    """
    deltas, inputs = _backward(weights, _dense(x, weights), tf.one_hot(y, weights[-1].shape[-1]))
    inputs = [x, *inputs]
    if radius is not None:
        # A dense layer's gradient is the outer product of its input, extended by 1, and the derivative by its output.
        layers = zip(inputs, deltas, strict=True)
        square = sum(_squares(d) * (_squares(a) + 1) for a, d in layers)
        factor = tf.where(tf.math.is_finite(square), tf.minimum(1.0, radius * tf.math.rsqrt(square)), 0.0)
        deltas = [tf.math.multiply_no_nan(d, factor) for d in deltas]
        inputs = [tf.math.multiply_no_nan(a, tf.sign(factor)) for a in inputs]
    return _products(inputs, deltas)


def updates(
    weights: Weights, x: tf.Tensor, y: tf.Tensor, direction: Weights, steps: tf.Tensor, step_size: float
) -> Weights:
    """Compute each device's update h of its copy w after its number of `steps`, int32; of the shapes of `weights`.

    `direction` is xi grad G: of the shapes of `weights`, or with a leading axis of 1, the same for all devices.
    """
    labels = tf.one_hot(y, weights[-1].shape[-1])
    gram = tf.matmul(x, x, transpose_b=True) + 1  # the 1 is the bias's input
    start_output = _dense(x, weights)
    start_deltas, start_inputs = _backward(weights, start_output, labels)
    # The constant term of a step: xi grad G - grad L(w).
    drift = [d - g for d, g in zip(direction[2:], _products(start_inputs, start_deltas[1:]), strict=True)]
    output_drift = _dense(x, direction)

    def step(t, output, summed, upper):
        size = step_size * tf.cast(t < steps, tf.float32)
        deltas, inputs = _backward(weights[:2] + upper, output, labels)
        change = deltas[0] - start_deltas[0]
        gradient = _products(inputs, deltas[1:])
        return (
            t + 1,
            output - times(size, tf.matmul(gram, change) + output_drift),
            summed + times(size, change),
            [w - times(size, g + d) for w, g, d in zip(upper, gradient, drift, strict=True)],
        )

    start = (tf.constant(0), start_output, tf.zeros_like(start_output), weights[2:])
    _, _, summed, upper = tf.while_loop(lambda t, *_: t < tf.reduce_max(steps), step, start)
    known = straight(direction[:2], steps, step_size)
    first = [k - g for k, g in zip(known, _products([x], [summed]), strict=True)]
    return first + [new - old for new, old in zip(upper, weights[2:], strict=True)]


def straight(direction: Weights, steps: tf.Tensor, step_size: float) -> Weights:
    """Compute each device's update for constant gradients, -eta j xi grad G; see `updates`."""
    travelled = step_size * tf.cast(steps, tf.float32)
    return [times(-travelled, d) for d in direction]


def _squares(rows: tf.Tensor) -> tf.Tensor:
    """Compute squared norms of rows, shape (device, sample, 1)."""
    return tf.reduce_sum(tf.square(rows), axis=-1, keepdims=True)


def _dense(x: tf.Tensor, weights: Weights) -> tf.Tensor:
    """Compute the output of the first layer of `weights`."""
    return tf.matmul(x, weights[0]) + weights[1][:, None]


def _forward(weights: Weights, output: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Compute the inputs of the layers after the first, and the last one's output, from the first one's output."""
    inputs = []
    for kernel, bias in zip(weights[2::2], weights[3::2], strict=True):
        inputs.append(tf.nn.relu(output))
        output = tf.matmul(inputs[-1], kernel) + bias[:, None]
    return inputs, output


def _backward(weights: Weights, output: tf.Tensor, labels: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Compute derivatives of devices' mean losses by the layers' outputs, and inputs of the layers after the first."""
    inputs, logits = _forward(weights, output)
    deltas = [(tf.nn.softmax(logits) - labels) / tf.cast(tf.shape(labels)[1], tf.float32)]
    for kernel, a in zip(weights[-2:0:-2], inputs[::-1], strict=True):
        back = tf.matmul(deltas[0], kernel, transpose_b=True)
        deltas.insert(0, tf.raw_ops.ReluGrad(gradients=back, features=a))
    return deltas, inputs


def _products(inputs: list[tf.Tensor], deltas: list[tf.Tensor]) -> Weights:
    """Compute the parameters' gradients from layers' inputs and derivatives by their outputs."""
    pairs = zip(inputs, deltas, strict=True)
    layers = [(tf.matmul(a, d, transpose_a=True), tf.reduce_sum(d, axis=1)) for a, d in pairs]
    return [part for layer in layers for part in layer]
