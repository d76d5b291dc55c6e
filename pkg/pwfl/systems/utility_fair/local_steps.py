"""Local training of all devices at once, each with weights, batch and number of steps of its own.

A device solves (3) by steps h <- h - eta [grad L(w + h) - grad L(w) + xi grad G] from h = 0 over one batch. The
widest layer is the first, whose inputs x stay the same. Its gradients are x^T delta, so after some steps its update is
-eta x^T S with S the sum of the steps' deltas, and what the update adds to the layer's output is -eta (x x^T) S: a step
costs a product with the batch's Gram matrix, not two with x itself, and S becomes an update once, at the end. The rest
of a step is the usual backward pass.

Weights are lists [kernel, bias, ...] with a leading axis for devices. Batches x have shape (device, sample, feature),
their classes y are int32 of shape (device, sample).
"""

from pwfl.process.tensorflow import tf
from pwfl.training.batching import Weights, times


def losses(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Mean cross-entropy of each device's batch under its weights, shape (device,)."""
    _, logits = _forward(weights, _dense(x, weights))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits), axis=1)


def gradients(weights: Weights, x: tf.Tensor, y: tf.Tensor, radius: float | None = None) -> Weights:
    """Gradient of each device's loss by its weights, of the weights' shapes.

    With a radius, a sample's share in its batch's mean is scaled down to at most that norm, and is nothing where it is
    not finite.
    """
    deltas, inputs = _backward(weights, _dense(x, weights), tf.one_hot(y, weights[-1].shape[-1]))
    inputs = [x, *inputs]
    if radius is not None:
        # The gradient of a dense layer is the outer product of its input, and a 1, and the derivative by its output.
        layers = zip(inputs, deltas, strict=True)
        square = sum(_squares(d) * (_squares(a) + 1) for a, d in layers)
        factor = tf.where(tf.math.is_finite(square), tf.minimum(1.0, radius * tf.math.rsqrt(square)), 0.0)
        deltas = [tf.math.multiply_no_nan(d, factor) for d in deltas]
        inputs = [tf.math.multiply_no_nan(a, tf.sign(factor)) for a in inputs]
    return _products(inputs, deltas)


def updates(
    weights: Weights, x: tf.Tensor, y: tf.Tensor, direction: Weights, steps: tf.Tensor, step_size: float
) -> Weights:
    """Each device's update h of its copy w of the model after its number of steps, int32, of the weights' shapes.

    `direction` is xi grad G: of the weights' shapes, or with a leading axis of 1, the same for all devices.
    """
    labels = tf.one_hot(y, weights[-1].shape[-1])
    gram = tf.matmul(x, x, transpose_b=True) + 1  # the 1 is the bias's input
    start_output = _dense(x, weights)
    start_deltas, start_inputs = _backward(weights, start_output, labels)
    # What a step adds to the gradient: xi grad G - grad L(w).
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
    """What each device's update would be if no gradient changed on the way: -eta j xi grad G; see `updates`."""
    travelled = step_size * tf.cast(steps, tf.float32)
    return [times(-travelled, d) for d in direction]


def _squares(rows: tf.Tensor) -> tf.Tensor:
    """Squared norms of rows, shape (device, sample, 1)."""
    return tf.reduce_sum(tf.square(rows), axis=-1, keepdims=True)


def _dense(x: tf.Tensor, weights: Weights) -> tf.Tensor:
    """Output of the first of some layers."""
    return tf.matmul(x, weights[0]) + weights[1][:, None]


def _forward(weights: Weights, output: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Inputs of the layers after the first, and the last one's output, from the first one's output."""
    inputs = []
    for kernel, bias in zip(weights[2::2], weights[3::2], strict=True):
        inputs.append(tf.nn.relu(output))
        output = tf.matmul(inputs[-1], kernel) + bias[:, None]
    return inputs, output


def _backward(weights: Weights, output: tf.Tensor, labels: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Derivatives of the devices' mean losses by the layers' outputs; inputs of the layers after the first."""
    inputs, logits = _forward(weights, output)
    deltas = [(tf.nn.softmax(logits) - labels) / tf.cast(tf.shape(labels)[1], tf.float32)]
    for kernel, a in zip(weights[-2:0:-2], inputs[::-1], strict=True):
        back = tf.matmul(deltas[0], kernel, transpose_b=True)
        deltas.insert(0, tf.raw_ops.ReluGrad(gradients=back, features=a))
    return deltas, inputs


def _products(inputs: list[tf.Tensor], deltas: list[tf.Tensor]) -> Weights:
    """The weights' gradients from layers' inputs and derivatives by their outputs."""
    pairs = zip(inputs, deltas, strict=True)
    layers = [(tf.matmul(a, d, transpose_a=True), tf.reduce_sum(d, axis=1)) for a, d in pairs]
    return [part for layer in layers for part in layer]
