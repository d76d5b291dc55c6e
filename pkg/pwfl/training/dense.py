"""Dense ReLU networks with softmax cross-entropy, of one realization or, in a leading axis, of several.

A dense layer's gradient for one record is the outer product of its input a (and 1, for the bias) and its output's
delta, of norm ||delta|| sqrt(||a||^2 + 1): per-record norms need no per-record gradients.
"""

import tensorflow as tf

from pwfl.training.batching import Weights

BLOCKS = 6  # of samples, in a large network; 4 to 12 are as fast
LARGE_LAYER = 2**14  # weights in a layer that makes a network large


def forward(weights: Weights, x: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Inputs of the layers, and the last one's outputs, of records that are a realization's or all realizations'."""
    inputs = [x]
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        inputs.append(tf.nn.relu(_affine(inputs[-1], kernel, bias)))
    return inputs, _affine(inputs[-1], *weights[-2:])


def _affine(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    if kernel.shape.rank == 2:
        return tf.matmul(x, kernel) + bias
    shared = len(x.shape) == 2
    return (tf.einsum("nf,bfh->bnh", x, kernel) if shared else tf.matmul(x, kernel)) + bias[:, None]


def backward(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Inputs of the layers, and derivatives of each record's cross-entropy by the layers' outputs."""
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
    """The mean of the records' gradients, each clipped to a norm of `clip_norm`, and how many are clipped.

    `x` has shape (..., record, feature). Of several realizations, what lies beyond `sizes`, (...), is anything.
    `counts`, shape (..., record or 1), are as how many each record counts in the mean; `x_squares` are
    `row_squares(x)`.

    For a large network the records go through in BLOCKS blocks, one after the other on one core, side by side on
    several: what lies between the matrix products then stays in the cache.
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
    """Each user's sum of its records' clipped gradients, shape (user, weight), and how many are clipped.

    Of one realization; `samples`, int32, are the users' numbers of records, which follow each other in `x` and `y`.
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
    """The sum of the records' gradients, see `backward`, each times its factor, shape (..., record)."""
    return [part for a, d in zip(inputs, deltas, strict=True) for part in _weighted(a, d, factor)]


def _kept(inputs: list[tf.Tensor], deltas: list[tf.Tensor], x_squares: tf.Tensor, clip_norm: float) -> tf.Tensor:
    """What clipping multiplies each record's gradient by, where that is less than 1."""
    squares = [x_squares, *(row_squares(a) for a in inputs[1:])]
    square = _sum([row_squares(d) * (s + 1) for s, d in zip(squares, deltas, strict=True)])
    return clip_norm * tf.math.rsqrt(square)


def _weighted(a: tf.Tensor, d: tf.Tensor, factor: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The sum over records of their gradients times `factor`, of a kernel and a bias."""
    return tf.matmul(a, factor[..., None] * d, transpose_a=True), tf.linalg.matvec(d, factor, transpose_a=True)


def outputs(weights: Weights, x: tf.Tensor) -> tf.Tensor:
    """The outputs of the last layer, shape (..., sample, class)."""
    return forward(weights, x)[1]


def evaluate(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Accuracies on all and on each class's samples, shape (..., 1 + class), and losses, in nats."""
    return measured(forward(weights, x)[1], y)


def measured(outputs: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """What `evaluate` returns, of outputs of shape (..., sample, class); NaN of a class without samples."""
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
    # Not tf.add_n: where memory is short, TensorFlow's optimizer gives it temporary variables, which collide
    # in loops and end the training.
    return tensors[0] if len(tensors) == 1 else tf.reduce_sum(tf.stack(tensors), axis=0)


def row_squares(matrix: tf.Tensor) -> tf.Tensor:
    """Squared norms along the last axis."""
    if matrix.shape.rank > 2:  # XLA has no kernel of the norm
        return tf.reduce_sum(matrix * matrix, axis=-1)
    # One pass over memory, where the sum of tf.square takes two.
    return tf.square(tf.math.reduce_euclidean_norm(matrix, axis=-1))
