"""Rounds of Tavangaran et al. as one graph: clipped gradients, aggregated noise (Algorithm 1)."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import tensorflow as tf

from pwfl.learning import autodiff, datasets, engine, network, rotation
from pwfl.process import user_code
from pwfl.systems.multicell.beyond import integers
from pwfl.systems.multicell.beyond.server import aggregated_noise_std, counts, tail_start
from pwfl.systems.multicell.model import shapes, user_model
from pwfl.systems.multicell.parameters import Training

if TYPE_CHECKING:
    import keras


class Messages(NamedTuple):
    """What the senders' integers are made with, of ragged shape (interval, None)."""

    weights: tf.RaggedTensor  # what the server multiplies a sender's sum of gradients by, float64
    step: tf.RaggedTensor  # of the sender's grid, float64
    noise_std: tf.RaggedTensor  # s_i = K_i sigma_i, of its sum of gradients, float64
    group: tf.RaggedTensor  # in which it is summed, int32


Model = engine.Backward | autodiff.Losses


class Senders(NamedTuple):
    """Who is heard in each interval of rounds, of users whose records stand one user after the other."""

    rows: tf.RaggedTensor  # places of the senders' records, int32, shape (interval, None)
    samples: tf.RaggedTensor  # the senders' K_i, int32, same shape
    counts: tf.RaggedTensor  # as how many the server counts each of a sender's records, float32, same shape
    noise_std: tf.Tensor  # standard deviation of the aggregated noise, float32, shape (interval,)
    messages: Messages | tuple[()] = ()  # where these are integers

    @classmethod
    def of(
        cls,
        training: Training,
        samples: np.ndarray,
        scheduled: np.ndarray,
        noise_std: np.ndarray,
        group: np.ndarray | None = None,
        heard: np.ndarray | None = None,
        step: np.ndarray | None = None,
    ) -> Self:
        """From the users' K_i, shape (user,), and who sends with which noise, in which group, shape (interval, user).

        With `heard`, who is heard in each round, shape (round, user), intervals are rounds: the server averages as if
        the others had sent zeros without noise. With `step`, messages are integers on grids of these steps, shape
        (interval, user) (`beyond.integers`).
        """
        counted = counts(training, samples, scheduled, noise_std, group)
        if heard is not None:
            each = len(heard) // len(scheduled)
            counted, scheduled, noise_std = (np.repeat(of, each, axis=0) for of in (counted, scheduled, noise_std))
            noise_std = noise_std * heard
        std = [aggregated_noise_std(*each) for each in zip(counted, scheduled, noise_std, strict=True)]
        if heard is not None:  # the engine averages over the records of those who are
            share = heard @ samples / np.maximum(counted.sum(axis=1), 1)
            scheduled, counted = heard, counted * share[:, None]
        messages = ()
        if step is not None:
            step, group = (np.repeat(of, len(scheduled) // len(of), axis=0) for of in (step, group))
            weights = counted / samples / np.maximum(scheduled @ samples, 1)[:, None]
            parts = (weights, tf.float64), (step, tf.float64), (samples * noise_std, tf.float64), (group, tf.int32)
            messages = Messages(*(_ragged([*map(np.compress, scheduled, part)], kind) for part, kind in parts))
        rows = _ragged([np.flatnonzero(np.repeat(sends, samples)) for sends in scheduled], tf.int32)
        own = _ragged([samples[sends] for sends in scheduled], tf.int32)
        each = [(count / samples)[sends] for count, sends in zip(counted, scheduled, strict=True)]
        return cls(rows, own, _ragged(each, tf.float32), tf.constant(std, tf.float32), messages)


def _ragged(parts: list[np.ndarray], dtype: tf.DType) -> tf.RaggedTensor:
    lengths = [len(part) for part in parts]
    values, lengths = tf.constant(np.concatenate(parts), dtype), tf.constant(lengths, tf.int64)
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)  # which would take longer than the rest


def senders_spec(training: Training, intervals: int) -> Senders:
    """What a graph takes for any `Senders` of so many intervals."""
    ragged = {dtype: tf.RaggedTensorSpec([intervals, None], dtype) for dtype in (tf.int32, tf.float32, tf.float64)}
    return Senders(
        *(ragged[kind] for kind in (tf.int32, tf.int32, tf.float32)),
        tf.TensorSpec([intervals], tf.float32),
        Messages(*(ragged[tf.float64],) * 3, ragged[tf.int32]) if training.bits else (),
    )


def clipped_gradient(
    model: Model, x: tf.Tensor, y: tf.Tensor | None, samples: tf.Tensor, counts: tf.Tensor, training: Training
) -> engine.Gradient:
    """The users' gradients as the server averages them; `samples` and `counts` are an interval's, see `Senders`."""
    clip = tf.constant(training.clip_norm, tf.float32)
    if training.clipping == "per_user":
        return engine.per_user_gradient(model, x, y, clip, samples, counts)
    of_model = engine if training.model == "dense" else autodiff
    return of_model.per_sample_gradient(model, x, y, clip, tf.repeat(counts, samples))


def vectors_to_send(
    model: Model, x: tf.Tensor, y: tf.Tensor | None, senders: Senders, interval: tf.Tensor, training: Training
) -> Callable:
    """A function of weights: the senders' sums of clipped gradients, and what else `integers.server_sum` takes."""
    samples = senders.samples[interval]
    sums_of = engine.clipped_sums(model, x, y, tf.constant(training.clip_norm, tf.float32), samples)
    own = [part[interval] for part in senders.messages]

    def gradient(at: engine.Weights) -> tuple[list[tf.Tensor], tf.Tensor]:
        vectors, clipped = sums_of(at)
        return [vectors, *own], clipped

    return gradient


def in_integers(
    bits: int, gradient: Callable, weights: engine.Weights, noise_std: tf.Tensor, key: tf.Tensor, t: tf.Tensor
) -> tuple[engine.Weights, tf.Tensor]:
    """As `engine.with_noise`, what the server makes of sums of integers, which have users' noise in them."""
    sent, clipped = gradient(weights)
    total = tf.numpy_function(partial(_server_sum, bits), [key, t, *sent], tf.float32)
    return as_weights(total, weights), clipped


def _server_sum(bits: int, key: np.int64, t: np.int32, vectors: np.ndarray, *own: np.ndarray) -> np.ndarray:
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([int(key), int(t)])))
    signs = rotation.random_signs(generator, vectors.shape[1])
    return integers.server_sum(vectors.astype(float), *own, bits, signs, generator).astype(np.float32)


def as_weights(flat: tf.Tensor, weights: engine.Weights) -> engine.Weights:
    """A vector of all weights as a list of tensors of their shapes."""
    sizes = [w.shape.num_elements() for w in weights]
    flat = tf.ensure_shape(flat, [sum(sizes)])
    return [tf.reshape(part, w.shape) for part, w in zip(tf.split(flat, sizes), weights, strict=True)]


def advance_function(
    model: Model,
    x: tf.Tensor,
    y: tf.Tensor | None,
    senders: Senders,
    intervals: int,
    training: Training,
    step_size: tf.Tensor,
    key: tf.Tensor,
    train_rounds: Callable = engine.train_rounds,
) -> Callable:
    """A function that trains some rounds, each with those who send in it, as `engine.history` takes it, inside a graph.

    `x`, shape (sample, feature), and `y`, shape (sample,), are the records of all users who ever send; `step_size`,
    `key` are as `engine.train_rounds` takes them, which `train_rounds` is, or another function of its kind.
    """
    if senders.messages:
        train_rounds = partial(train_rounds, released=partial(in_integers, training.bits))

    def gradient_of(x, y, interval):
        if senders.messages:
            return vectors_to_send(model, x, y, senders, interval, training)
        return clipped_gradient(model, x, y, senders.samples[interval], senders.counts[interval], training)

    if intervals == 1 < training.rounds:  # of one round, some may not be heard
        gradient = gradient_of(x, y, 0)

        def advance(weights, first, count):
            return train_rounds(gradient, weights, step_size, senders.noise_std[0], key, first, count)

        return advance
    coherence = training.rounds // intervals
    users = training.clipping == "per_user"  # are what is clipped; else samples

    def advance_intervals(weights, first, count):
        clipped, gradients, done = tf.constant(0.0), tf.constant(0.0), first
        while done < first + count:
            interval = done // coherence
            rounds = tf.minimum(first + count, (interval + 1) * coherence) - done
            rows, samples = senders.rows[interval], senders.samples[interval]
            gradient = gradient_of(tf.gather(x, rows), None if y is None else tf.gather(y, rows), interval)
            weights, share = train_rounds(gradient, weights, step_size, senders.noise_std[interval], key, done, rounds)
            each = tf.cast(rounds * tf.size(samples if users else rows), tf.float32)
            clipped += tf.math.multiply_no_nan(share, each)  # an interval without senders has no share
            gradients += each
            done += rounds
        return weights, clipped / gradients

    return advance_intervals


def model_of(training: Training, size: datasets.Size) -> tuple[Model, Callable]:
    """The model that `training` says, as `clipped_gradient` takes it, and its `network.evaluate_labels`."""
    if training.model == "dense":
        return network.backward, network.evaluate_labels
    model = _keras(training, size)
    return autodiff.cross_entropy(model), partial(autodiff.evaluate_labels, model)


def _keras(training: Training, size: datasets.Size) -> "keras.Model":
    if training.model == "cnn":
        return autodiff.convolutional(size.shape, size.classes)
    return user_model(training, size)


def logits_of(training: Training, size: datasets.Size) -> Callable:
    """The outputs of the model that `training` says, by its weights and records."""
    if training.model == "dense":
        return network.logits
    model = _keras(training, size)
    return lambda weights, x: model.stateless_call(weights, [], x)[0]


def history_function(
    size: datasets.Size, rounds: list[int], intervals: int, training: Training, x_test: tf.Tensor, y_test: tf.Tensor
) -> Callable:
    """A whole training as one graph, traced once for any numbers of users and samples, and for all schemes.

    `rounds` are those after which the model is evaluated on `x_test`, shape (sample, feature), and `y_test`, shape
    (sample,). Returns a function of start weights, the records x and y of all users who ever send, `Senders`, the
    rounds' step sizes, shape (round,), and the key that determines the noise. It returns test accuracies
    (`network.evaluate_labels`), losses and clipped shares after these rounds, up to the first loss that is not finite.
    """
    # A user's own model may have changed, under its name, since it was traced.
    traced = _traced.__wrapped__ if user_code.is_reference(training.model) else _traced
    history = traced(size, tuple(rounds), intervals, training, tuple(x_test.shape))
    return partial(history, x_test=x_test, y_test=y_test)


@lru_cache(maxsize=4)
def _traced(
    size: datasets.Size, rounds: tuple[int, ...], intervals: int, training: Training, tested: tuple[int, ...]
) -> Callable:
    """`history_function`, of any test set whose features have the shape `tested`."""
    model, evaluate = model_of(training, size)
    averaged, train_rounds = training.tail_average > 0, engine.train_rounds
    if averaged:
        train_rounds = partial(engine.averaged_rounds, tail=tail_start(training))

    @tf.function(
        input_signature=[
            [tf.TensorSpec(shape, tf.float32) for shape in shapes(training, size)],
            tf.TensorSpec([None, size.features], tf.float32),
            tf.TensorSpec([None], tf.int32),
            senders_spec(training, intervals),
            tf.TensorSpec([training.rounds], tf.float32),
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec(tested, tf.float32),
            tf.TensorSpec(tested[:1], tf.int32),
        ]
    )
    def history(weights, x, y, senders, step_sizes, key, x_test, y_test):
        advance = advance_function(model, x, y, senders, intervals, training, step_sizes, key, train_rounds)
        return engine.history(
            (weights, weights) if averaged else weights,
            tf.constant(rounds),
            advance,
            lambda state: evaluate(state[1] if averaged else state, x_test, y_test),
        )

    return history
