"""Dense ReLU networks with softmax cross-entropy: per-record clipping without per-record gradients.

With a layer's input a and the derivative delta of the loss by its output (before the ReLU), a record's gradient is
outer(a, delta) for the kernel and delta for the bias. Its squared norm over all layers is

    sum over layers of ||delta||^2 (||a||^2 + 1),

so norms need no per-record gradients (Goodfellow, 2015, "Efficient Per-Example Gradient Computations"), and a weighted
sum of gradients is one matrix product per layer.

`weights` are kernels, shape (..., input, output), and biases, (..., output), in turn. "..." stands for the axis of
realizations, which is there only if several are trained as a batch.
"""

from pwfl.process.tensorflow import tf
from pwfl.training.batching import Weights

BLOCKS = 6  # of records, in a large network; 4 to 12 are as fast
LARGE_LAYER = 2**14  # weights in a layer that makes a network large


def forward(weights: Weights, x: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Compute the layers' inputs, each of shape (..., record, input), and the logits, shape (..., record, class).

    `x` has shape (..., record, feature), or (record, feature) if realizations share the records.
    """
    inputs = [x]
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        inputs.append(tf.nn.relu(_affine(inputs[-1], kernel, bias)))
    return inputs, _affine(inputs[-1], *weights[-2:])


def _affine(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Compute x @ kernel + bias, shape (..., record, output); `x` is (..., record, input), or (record, input)."""
    if kernel.shape.rank == 2:
        return tf.matmul(x, kernel) + bias
    shared = len(x.shape) == 2
    return (tf.einsum("nf,bfh->bnh", x, kernel) if shared else tf.matmul(x, kernel)) + bias[:, None]


def backward(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Compute each layer's inputs a and derivatives delta of the records' cross-entropy by its outputs.

    Two lists of one tensor per layer, of shapes (..., record, input) and (..., record, output). `x` is as in `forward`;
    `y` are the records' classes, int32, shape (..., record).
    """
    inputs, logits = forward(weights, x)
    deltas = [tf.nn.softmax(logits) - tf.one_hot(y, logits.shape[-1])]
    for kernel, a in zip(weights[-2:0:-2], inputs[:0:-1], strict=True):
        deltas.insert(0, tf.raw_ops.ReluGrad(gradients=tf.matmul(deltas[0], kernel, transpose_b=True), features=a))
    return inputs, deltas


def clipped_mean(
    weights: Weights,
    x: tf.Tensor,
    y: tf.Tensor,
    clip_norm: float,
    sizes: tf.Tensor,
    counts: tf.Tensor | None = None,
    x_squares: tf.Tensor | None = None,
) -> tuple[Weights, tf.Tensor]:
    """Compute the mean of the records' clipped gradients, and the number of gradients that were clipped.

    With the gradient g_j of record j of n, and L = `clip_norm`, the mean is

        (1 / n) sum_j counts[j] min(1, L / ||g_j||) g_j,

    one tensor (..., *shape) per tensor of the model. The number of clipped gradients is float32, shape (...).

    The records of one realization of a large network are computed in BLOCKS blocks, so that intermediate tensors stay
    in a core's cache; several cores compute several blocks at a time.

    Parameters
    ----------
    weights
        The model's parameters.
    x, y
        Features, shape (..., record, feature), and classes, int32, shape (..., record).
    clip_norm
        The L2 norm L.
    sizes
        Number of records n, int32, shape (...). With several realizations, records from n on are padding.
    counts
        Weights of records in the mean, shape (..., record) or (..., 1); None: 1.
    x_squares
        `row_squares(x)`, shape (..., record), if it was computed before; None: compute it.
    """
    single = y.shape.rank == 1
    there = None if single else tf.range(tf.shape(y)[-1]) < sizes[:, None]
    number = tf.cast(sizes if single else sizes[:, None], tf.float32)
    blocks = BLOCKS if single and max(w.shape.num_elements() for w in weights) >= LARGE_LAYER else 1
    records = tf.shape(y)[-1]
    edges = [slice(records * k // blocks, records * (k + 1) // blocks) for k in range(blocks)] if blocks > 1 else [...]

    def clip_block(rows):
        some = (x[..., rows, :], y[..., rows]) if blocks > 1 else (x, y)
        inputs, deltas = backward(weights, *some)
        first = row_squares(x) if x_squares is None else x_squares
        kept = _kept(inputs, deltas, first[..., rows] if blocks > 1 else first, clip_norm)
        factor, less = tf.minimum(1.0, kept), kept < 1
        if counts is not None:
            factor *= counts if counts.shape[-1] == 1 or blocks == 1 else counts[..., rows]
        factor = factor / number if single else tf.where(there, tf.math.divide_no_nan(factor, number), 0.0)
        clipped = tf.math.count_nonzero(less if single else less & there, axis=-1, dtype=tf.float32)
        return [part for a, d in zip(inputs, deltas, strict=True) for part in _weighted(a, d, factor)], clipped

    parts, clipped = zip(*map(clip_block, edges), strict=True)
    return [_sum(layer) for layer in zip(*parts, strict=True)], _sum(clipped)


def clipped_sums(
    weights: Weights, x: tf.Tensor, y: tf.Tensor, clip_norm: float, samples: tf.Tensor, x_squares: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Compute each user's sum of clipped gradients, shape (user, coordinate), and the number of clipped gradients.

    Of one realization. A coordinate is one parameter; the model's tensors are flattened and concatenated.

    Parameters
    ----------
    weights
        The model's parameters.
    x, y
        Features, shape (record, feature), and classes, int32, shape (record,), one user's records after the other's.
    clip_norm
        The L2 norm to which each record's gradient is clipped.
    samples
        Number of records of each user, int32, shape (user,).
    x_squares
        `row_squares(x)`, shape (record,).
    """
    stop = tf.cumsum(samples)
    inputs, deltas = backward(weights, x, y)
    kept = _kept(inputs, deltas, x_squares, clip_norm)
    factor = tf.minimum(1.0, kept)

    def sum_user(user: tf.Tensor) -> tf.Tensor:
        rows = slice(stop[user] - samples[user], stop[user])
        summed = sums([a[rows] for a in inputs], [d[rows] for d in deltas], factor[rows])
        return tf.concat([tf.reshape(g, [-1]) for g in summed], axis=0)

    users = tf.range(tf.size(samples))
    vectors = tf.map_fn(sum_user, users, fn_output_signature=tf.float32, parallel_iterations=1)
    clipped = tf.math.count_nonzero(kept < 1, dtype=tf.float32)
    return tf.reshape(vectors, [-1, sum(w.shape.num_elements() for w in weights)]), clipped


def sums(inputs: list[tf.Tensor], deltas: list[tf.Tensor], factor: tf.Tensor) -> Weights:
    """Compute sum_j factor[j] g_j over records j with gradients g_j, one tensor (..., *shape) per tensor of the model.

    `inputs` and `deltas` are as `backward` returns them; `factor` has shape (..., record).
    """
    return [part for a, d in zip(inputs, deltas, strict=True) for part in _weighted(a, d, factor)]


def _kept(inputs: list[tf.Tensor], deltas: list[tf.Tensor], x_squares: tf.Tensor, clip_norm: float) -> tf.Tensor:
    """Compute clip_norm / ||g|| for each record's gradient g, shape (..., record); it is clipped if this is below 1."""
    squares = [x_squares, *(row_squares(a) for a in inputs[1:])]
    square = _sum([row_squares(d) * (s + 1) for s, d in zip(squares, deltas, strict=True)])
    return clip_norm * tf.math.rsqrt(square)


def _weighted(a: tf.Tensor, d: tf.Tensor, factor: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Compute the sum over records of `factor` times their gradients, for one layer's kernel and bias.

    `a` are the layer's inputs, shape (..., record, input), `d` its deltas, (..., record, output); `factor` has shape
    (..., record).
    """
    return tf.matmul(a, factor[..., None] * d, transpose_a=True), tf.linalg.matvec(d, factor, transpose_a=True)


def outputs(weights: Weights, x: tf.Tensor) -> tf.Tensor:
    """Compute the logits, shape (..., record, class); `x` is as in `forward`."""
    return forward(weights, x)[1]


def evaluate(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Compute accuracies and mean cross-entropy on test records that all realizations share.

    `x` has shape (record, feature), `y`, int32, (record,). Accuracies, shape (..., 1 + class), are on all records and
    then on those of each class, NaN for a class without records; the loss, in nats, has shape (...).
    """
    return measured(forward(weights, x)[1], y)


def measured(outputs: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Compute what `evaluate` returns from logits, shape (..., record, class), and classes, int32, (record,)."""
    if outputs.shape.rank == 2:
        hits = tf.cast(tf.equal(tf.argmax(outputs, axis=1, output_type=tf.int32), y), tf.float32)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(y, outputs)
        classes = outputs.shape[1]
        right, count = (tf.math.unsorted_segment_sum(values, y, classes) for values in (hits, tf.ones_like(hits)))
        return tf.concat([[tf.reduce_mean(hits)], right / count], axis=0), tf.reduce_mean(loss)
    hits = tf.cast(tf.equal(tf.argmax(outputs, axis=-1, output_type=tf.int32), y), tf.float32)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.broadcast_to(y, tf.shape(hits)), outputs)
    label = tf.one_hot(y, outputs.shape[-1])
    label_hits = tf.matmul(hits, label) / tf.reduce_sum(label, axis=0)
    return tf.concat([tf.reduce_mean(hits, axis=-1, keepdims=True), label_hits], axis=-1), tf.reduce_mean(loss, axis=-1)


def _sum(tensors) -> tf.Tensor:
    # Not tf.add_n: if memory is short, TensorFlow's optimizer uses temporary variables for it. In loops their names
    # collide, and training fails.
    return tensors[0] if len(tensors) == 1 else tf.reduce_sum(tf.stack(tensors), axis=0)


def row_squares(matrix: tf.Tensor) -> tf.Tensor:
    """Compute squared L2 norms along the last axis, shape (...,) from (..., n)."""
    if matrix.shape.rank > 2:  # XLA has no kernel of the norm
        return tf.reduce_sum(matrix * matrix, axis=-1)
    # One pass over memory, where the sum of tf.square takes two.
    return tf.square(tf.math.reduce_euclidean_norm(matrix, axis=-1))
