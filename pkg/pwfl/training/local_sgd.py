"""Learners whose messages are model updates: local mini-batch SGD, its total change clipped to an L2 norm.

A user starts from the common parameters w, makes `Steps.number` steps v <- v - size mean_batch(gradient(v)), and sends
(v - w) min(1, clip_norm / ||v - w||); it sends zeros where its steps diverge so far that this norm is not finite.
`LocalSgd` trains softmax regression for all users at once, `ModelLocalSgd` any model for one user after the other.

Parameters of softmax regression have shape (output, feature): logits are weights @ x, and the bias is the column of a
last feature that is 1. During local steps each user has its own parameters, so matrix products are batched over users.
"Sample" is a user's record; users pad to the same number of samples.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pwfl import streams
from pwfl.learning import adversarial, datasets, mlp
from pwfl.process.tensorflow import tf
from pwfl.tables.reception import Reception
from pwfl.training import dense
from pwfl.training.batching import Draws, Numbers, Weights, along, clipping, norm, repeated
from pwfl.training.gradients import OUTWEIGHED, Data
from pwfl.training.trainable import SURE

multiply_no_nan = tf.math.multiply_no_nan  # 0 where the second factor is, whatever the first one is
CACHE_BYTES = 2**22  # of samples of a block of users; at MNIST's sizes 1.7 times as fast as all users at once


class Steps(NamedTuple):
    """The local steps of a round.

    Attributes
    ----------
    number
        Steps of each user.
    batch_size
        Records of a mini-batch.
    size
        The step size (learning rate) of local steps.
    clip_norm
        The L2 norm C to which a user's update is clipped.
    """

    number: int
    batch_size: int
    size: float
    clip_norm: float


class Local(NamedTuple):
    """Inputs of local SGD that are the same in all rounds.

    Attributes
    ----------
    user_records
        Indices of each user's samples in the training data, int32, shape (user, sample), padded with 0. Users who send
        in no interval are left out, unless `LocalSgd.alike`.
    held
        Number of samples of each user, int32, shape (user,); (): all users have the same number, in all realizations.
    passes
        Zeros, shape (pass,): their number is the largest number of passes that a user makes through its samples in a
        round. It is given as a shape because a compiled graph needs it when it is traced. () as `held`.
    extent
        This realization's number of passes, and largest number of samples of a user, before padding: int32, shape (2,).
        () as `held`.
    batch_key
        Key of the stream that draws mini-batches, int64, shape ().
    """

    user_records: Numbers
    held: Numbers
    passes: Numbers
    extent: Numbers
    batch_key: Numbers

    by_record = ("user_records",)


class MessageWeights(NamedTuple):
    """Weights by which the server adds up users' messages: float32, shape (interval, user)."""

    weight: Numbers


class UpdateWeights(NamedTuple):
    """Weights by which `ModelLocalSgd.summed` itself adds up users' messages: float32, shape (interval, user)."""

    factor: Numbers


@dataclass(frozen=True)
class LocalSgd:
    """Local mini-batch SGD of softmax regression; replacing a record changes a clipped update by at most 2 C.

    Attributes
    ----------
    features, classes
        Number of features (without bias) and classes.
    steps
        The local steps.
    alike
        Whether all users have the same number of samples in all realizations. All users then compute, whether or not
        they send, so that shapes are the same.
    compiled
        Whether XLA compiles the graph.
    """

    features: int
    classes: int
    steps: Steps
    alike: bool = False
    compiled: bool = False
    message: ClassVar = "update"
    measured: ClassVar = 3  # means over users: norm before clipping, 1 if it was clipped, squared norm after clipping
    reached: ClassVar = True
    lasting: ClassVar = True

    @property
    def sensitivity(self) -> float:
        return 2 * self.steps.clip_norm

    def start(self, draws: Callable[[], np.random.Generator] | None) -> list[np.ndarray]:
        return [np.zeros((self.classes, self.features + 1), np.float32)]

    def tensors(self, data: datasets.Dataset) -> Data:
        x, x_test = (with_bias(tf.constant(part)) for part in (data.x_train, data.x_test))
        return Data(x, tf.constant(data.y_train), x_test, tf.constant(data.y_test))

    def inputs(
        self, reception: Reception, user_records: list[np.ndarray], seed: int, realization: int
    ) -> tuple[Local, Any]:
        if reception.records is not None:  # the account would count sampling that is not done
            raise NotImplementedError("local steps take mini-batches of all records, and no Poisson batches")
        ever = np.any(reception.sends, axis=0) | self.alike  # users who never send compute nothing
        senders = [records for records, sends in zip(user_records, ever, strict=True) if sends]
        held = np.array([len(records) for records in senders], np.int32)
        places = np.zeros((len(senders), held.max()), np.int32)
        places[np.arange(places.shape[1]) < held[:, None]] = np.concatenate(senders)
        key, weight = np.int64(streams.key(seed, "batches", realization)), reception.weight[:, ever].astype(np.float32)
        if self.alike:
            return Local(places, (), (), (), key), MessageWeights(weight)
        passes = -(-self.steps.number // max(held.min() // self.steps.batch_size, 1))
        extent = np.array([passes, held.max()], np.int32)
        return Local(places, held, np.zeros(passes, np.int32), extent, key), MessageWeights(weight)

    def gather(self, fixed: Local, varying: Any, data: Data) -> tuple:
        """Return features and classes of users' samples, (user, sample, feature) and (user, sample).

        For several realizations, or compiled, those of all training records, (record, feature) and (record,).
        """
        if self.compiled or fixed.user_records.shape.rank == 3:
            return data.x, data.y
        return tf.gather(data.x, fixed.user_records), tf.gather(data.y, fixed.user_records)

    def batches(self, fixed: Local, uniforms: Callable) -> tf.Tensor:
        """Draw the mini-batches of a round (`minibatches`)."""
        return minibatches(uniforms, fixed, self.steps.batch_size, self.steps.number)

    def summed(self, weights: Weights, fixed: Local, varying: Any, used: tuple, uniforms: Callable):
        """Compute each user's clipped update, one tensor of shape (..., user, output, feature), not yet weighted."""
        batches, steps = self.batches(fixed, uniforms), self.steps
        if self.compiled or fixed.user_records.shape.rank == 3:
            rows = tf.gather(fixed.user_records, batches, batch_dims=2)
            raw = updates_together(weights[0], *used, rows, steps.size)
        else:
            raw = updates(weights[0], *used, batches, tf.constant(steps.size))
        update, norms = clip(raw, tf.constant(steps.clip_norm))
        clipped = tf.cast(norms > steps.clip_norm, tf.float32)
        measured = tf.stack([norms, clipped, tf.minimum(norms, steps.clip_norm) ** 2], axis=-2)
        return [update], mean_of_users(measured, fixed)

    def evaluate(self, weights: Weights, data: Data) -> tuple[tf.Tensor, tf.Tensor]:
        (kernel,), x = weights, data.x_test
        outputs = (
            tf.matmul(x, kernel, transpose_b=True) if kernel.shape.rank == 2 else tf.einsum("nf,bcf->bnc", x, kernel)
        )
        return dense.measured(outputs, data.y_test)

    # For audits.
    def silent(self) -> list[np.ndarray]:
        """Return parameters at which records that are all zero and of class 0 have no gradient, so updates are zero."""
        weights = self.start(None)
        weights[0][0, -1] = SURE
        return weights

    def opposed(self, generator: np.random.Generator, records: int) -> Iterator[adversarial.Opposed]:
        """As `Gradients.opposed`, with a gradient so large that other records' gradients do not matter in any step."""
        shapes, norm = mlp.shapes([self.features, self.classes]), self.steps_norm()
        for case in adversarial.opposed(dense.outputs, shapes, self.features, norm, generator):
            kernel, bias = case.weights
            yield case._replace(weights=[np.concatenate([kernel.T, bias[:, None]], axis=1).astype(np.float32)])

    def steps_norm(self) -> float:
        """Return the L2 norm of a record's gradient that dominates all local steps and exceeds the clipping norm."""
        steps = self.steps
        return OUTWEIGHED * steps.number * steps.batch_size * max(steps.clip_norm, steps.size) / steps.size

    def place(self, start, target: int, round_: int) -> int:
        """Return the training-data index of a record in the target's first mini-batch of a round."""
        fixed, (row,) = start.fixed, np.flatnonzero(start.fixed.user_records[:, 0] == start.user_records[target][0])
        tensors = tf.nest.map_structure(tf.constant, fixed)
        batches = self.batches(tensors, Draws(tf.constant(round_), False).uniforms)
        return int(fixed.user_records[row, batches[row, 0, 0]])


@dataclass(frozen=True)
class ModelLocalSgd(LocalSgd):
    """As `LocalSgd`, for any model: one user after the other, so that only one copy of the parameters is in memory."""

    model: Any = None  # a `trainable.Model`; it needs a default as the fields before it have one
    # After the first step has changed a network of several layers, other records' gradients count as well.
    reached: ClassVar = False

    def start(self, draws: Callable[[], np.random.Generator] | None) -> list[np.ndarray]:
        return self.model.start(draws)

    def tensors(self, data: datasets.Dataset) -> Data:
        return Data(*(tf.constant(part) for part in (data.x_train, data.y_train, data.x_test, data.y_test)))

    def inputs(
        self, reception: Reception, user_records: list[np.ndarray], seed: int, realization: int
    ) -> tuple[Local, UpdateWeights]:
        fixed, weight = super().inputs(reception, user_records, seed, realization)
        return fixed, UpdateWeights(weight.weight)

    def gather(self, fixed: Local, varying: Any, data: Data) -> tuple:
        """Return features, (record, feature), and classes, (record,), of all training records."""
        return data.x, data.y

    def summed(self, weights: Weights, fixed: Local, varying: Any, used: tuple, uniforms: Callable):
        """Compute the weighted sum of clipped updates, one tensor (..., *shape) per tensor of the model."""
        steps, several = self.steps, varying.factor.shape.rank > 1
        rows = tf.gather(
            fixed.user_records, self.batches(fixed, uniforms), batch_dims=fixed.user_records.shape.rank - 1
        )
        step = tf.fill(tf.shape(rows[..., 0, 0, :]), steps.size / steps.batch_size)  # (..., batch)
        total = [tf.zeros_like(w) for w in weights]
        norms = tf.TensorArray(
            tf.float32, tf.shape(varying.factor)[-1], element_shape=[*varying.factor.shape[: int(several)], 3]
        )

        def add_user(user, total, norms):
            def take_step(number, local):
                chosen = rows[..., user, number, :]
                mine = self.model.passed(local, tf.gather(used[0], chosen), tf.gather(used[1], chosen))
                slope = self.model.sums(local, mine, step)
                return ([w - g for w, g in zip(local, slope, strict=True)],)

            (local,) = repeated(take_step, 0, steps.number, [weights])
            update = [a - b for a, b in zip(local, weights, strict=True)]
            length = norm(update, varying.factor[..., 0])
            factor = clipping(length, steps.clip_norm) * varying.factor[..., user]
            total = [t + multiply_no_nan(u, along(factor, u)) for t, u in zip(total, update, strict=True)]
            clipped = tf.cast(length > steps.clip_norm, tf.float32)
            measured = tf.stack([length, clipped, tf.minimum(length, steps.clip_norm) ** 2], axis=-1)
            return total, norms.write(user, measured)

        total, norms = repeated(add_user, 0, tf.shape(varying.factor)[-1], (total, norms))
        measured = norms.stack()
        return total, mean_of_users(tf.transpose(measured, [*range(1, measured.shape.rank), 0]), fixed)

    def evaluate(self, weights: Weights, data: Data) -> tuple[tf.Tensor, tf.Tensor]:
        return self.model.evaluate(weights, data.x_test, data.y_test)

    def silent(self) -> list[np.ndarray]:
        return self.model.silent()

    def opposed(self, generator: np.random.Generator, records: int) -> Iterator[adversarial.Opposed]:
        return self.model.opposed(self.steps_norm(), generator)


def _derivative(outputs: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Compute the derivative of softmax cross-entropy by the logits, softmax(outputs) - one_hot(y).

    `outputs` has shape (..., output), `y` holds class numbers, int32, shape (...).
    """
    return tf.nn.softmax(outputs) - tf.one_hot(y, outputs.shape[-1])


def with_bias(x: tf.Tensor) -> tf.Tensor:
    """Append a feature that is 1: from shape (..., feature) to (..., feature + 1)."""
    return tf.concat([x, tf.ones_like(x[..., :1])], axis=-1)


def mean_of_users(measured: tf.Tensor, fixed: Local) -> tf.Tensor:
    """Average `measured`, shape (..., statistic, user), over users, except those that pad the axis.

    Users that pad it have 0 samples in `fixed.held`. The result has shape (..., statistic).
    """
    if isinstance(fixed.held, tuple):
        return tf.reduce_mean(measured, axis=-1)
    there = tf.cast(fixed.held > 0, tf.float32)
    return tf.reduce_sum(measured * there[..., None, :], axis=-1) / tf.reduce_sum(there, axis=-1)[..., None]


def minibatches(uniforms: Callable, fixed: Local, batch_size: int, steps: int) -> tf.Tensor:
    """Draw each user's mini-batches of a round: positions among its samples, int32, shape (..., user, step, batch).

    A user goes through its samples in a random order, leaves out the last ones if they do not fill a batch, and then
    begins a new pass in another order. A user with fewer samples than a batch uses some of them more than once in it;
    this requires `fixed.held`.

    Parameters
    ----------
    uniforms
        `uniforms(key, shape)` draws the round's uniform numbers (`batching.Draws.uniforms`).
    fixed
        Number of samples of each user, and the key of the stream.
    batch_size
        Samples of a mini-batch.
    steps
        Local steps of the round.
    """
    if isinstance(fixed.held, tuple):
        *lead, users, samples = fixed.user_records.shape
        if None in (users, samples):  # of a graph that trains scenarios of several sizes
            users, samples = tf.unstack(tf.shape(fixed.user_records)[len(lead) :])
        batches = samples // batch_size
        passes = -(-steps // batches)
        order = tf.argsort(uniforms(fixed.batch_key, [users, passes, samples]), axis=-1)[..., : batches * batch_size]
        return tf.reshape(order, [*lead, users, passes * batches, batch_size])[..., :steps, :]
    lead = fixed.user_records.shape.rank - 2
    users, samples = tf.unstack(tf.shape(fixed.user_records)[lead:])
    passes, held = tf.shape(fixed.passes)[-1], tf.maximum(fixed.held, 1)  # users that pad the axis have 0
    # Numbers are indexed by the realization's own extent, so that padding does not change which ones are used.
    drawn = uniforms(fixed.batch_key, [users * passes * samples])
    laps, most = fixed.extent[..., 0, None, None, None], fixed.extent[..., 1, None, None, None]
    user, lap, sample = tf.meshgrid(tf.range(users), tf.range(passes), tf.range(samples), indexing="ij")
    there = (sample < held[..., None, None]) & (lap < laps)
    place = tf.where(there, (user * laps + lap) * most + sample, 0)
    number = tf.where(there, tf.gather(drawn, place, batch_dims=lead), 2.0)
    order = tf.reshape(tf.argsort(number, axis=-1, stable=True), tf.concat([tf.shape(held), [-1]], axis=0))
    batches = tf.maximum(held // batch_size, 1)
    lap, turn = (part(tf.range(steps), batches[..., None]) for part in (tf.math.floordiv, tf.math.floormod))
    place = (turn[..., None] * batch_size + tf.range(batch_size)) % held[..., None, None]
    return tf.gather(order, lap[..., None] * samples + place, batch_dims=lead + 1)


def updates(weights: tf.Tensor, x: tf.Tensor, y: tf.Tensor, batches: tf.Tensor, step_size: tf.Tensor) -> tf.Tensor:
    """Compute the change of the common parameters by each user's local steps, shape (user, output, feature).

    Of one realization. One block of users makes all steps before the next, so that their samples stay in the cache.

    Parameters
    ----------
    weights
        The common parameters, shape (output, feature).
    x, y
        Features, shape (user, sample, feature), and classes, int32, shape (user, sample).
    batches
        Positions of samples in `x[user]`, int32, shape (user, step, batch) (`minibatches`).
    step_size
        Float32, shape ().
    """
    users, samples, features = x.shape
    if users is None or samples is None:
        size = tf.maximum(CACHE_BYTES // (4 * tf.shape(x)[1] * features), 1)
        blocks = -(-tf.shape(x)[0] // size)
    else:
        size = max(CACHE_BYTES // (4 * samples * features), 1)
        blocks = -(-users // size)
    done = tf.TensorArray(tf.float32, blocks, element_shape=[None, *weights.shape], infer_shape=False)

    def update_block(block, done):
        rows = slice(block * size, (block + 1) * size)
        return (done.write(block, _updates(weights, x[rows], y[rows], batches[rows], step_size)),)

    (done,) = repeated(update_block, 0, blocks, [done])
    return tf.ensure_shape(done.concat(), [users, *weights.shape])


def _updates(weights, x, y, batches, step_size):
    """Compute `updates` of one block of users."""
    scale = step_size / tf.cast(tf.shape(batches)[2], tf.float32)
    local = tf.repeat(weights[None], tf.shape(x)[0], axis=0)

    def take_step(step, local):
        chosen = batches[:, step]
        samples = tf.gather(x, chosen, batch_dims=1)
        outputs = tf.matmul(samples, local, transpose_b=True)
        slope = scale * _derivative(outputs, tf.gather(y, chosen, batch_dims=1))
        return (local - tf.matmul(slope, samples, transpose_a=True),)

    (local,) = repeated(take_step, 0, tf.shape(batches)[1], [local])
    return local - weights


def updates_together(start: tf.Tensor, x: tf.Tensor, y: tf.Tensor, rows: tf.Tensor, step_size: float) -> tf.Tensor:
    """As `updates`, for several realizations: shape (realization, user, output, feature).

    Parameters
    ----------
    start
        Each realization's common parameters, shape (realization, output, feature).
    x, y
        All training records: features, shape (record, feature), and classes, int32, shape (record,).
    rows
        Indices in `x` and `y`, int32, shape (realization, user, step, batch).
    step_size
        As in `updates`.
    """
    users = rows.shape[1]
    rows, starts = tf.reshape(rows, [-1, *rows.shape[2:]]), tf.repeat(start, users, axis=0)
    scale = step_size / rows.shape[2]

    def take_step(step, local):
        records, labels = (tf.gather(part, rows[:, step]) for part in (x, y))
        slope = scale * _derivative(tf.matmul(records, local, transpose_b=True), labels)
        return (local - tf.matmul(slope, records, transpose_a=True),)

    (local,) = repeated(take_step, 0, rows.shape[1], [starts])
    return tf.reshape(local - starts, [-1, users, *start.shape[1:]])


def clip(update: tf.Tensor, clip_norm: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Scale each user's update u to u min(1, clip_norm / ||u||), and return it with the norms ||u||.

    `update` has shape (..., user, output, feature), the norms (..., user).
    """
    norms = tf.sqrt(tf.reduce_sum(tf.square(update), axis=[-2, -1]))
    return multiply_no_nan(update, clipping(norms, clip_norm)[..., None, None]), norms
