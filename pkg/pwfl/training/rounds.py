"""The rounds of all systems whose air is linear, as one graph: the server steps along what it receives.

    update = sum over users of weight message + noise_std normal numbers;    w <- w - step update

Learners make the messages; `weight` and `noise_std` are the table `reception`'s, of each band of coordinates if there
are any. `play_round` computes one round, `advance_function` several, `train_function` a training with its evaluations,
and `tap_function` the updates that the server receives, for audits.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import sub
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from pwfl.learning import adversarial
from pwfl.tables.reception import Reception
from pwfl.training.bands import by_coordinate
from pwfl.training.batching import Draws, Weights, repeated, times
from pwfl.training.sent import added, is_by_user, noisy


class Learner(Protocol):
    """What users compute from their records, and the model that they share; equal learners share one traced graph.

    Attributes
    ----------
    message
        What a user's message is, before `reception.weight`: "sum of gradients", "mean gradient" or "update".
    sensitivity
        Upper bound of the L2 norm by which replacing one record moves a user's message.
    reached
        Whether the pairs of records of `opposed` attain the sensitivity.
    measured
        How many statistics of the messages a round yields; they are summed up until the next evaluation.
    lasting
        Whether what `gather` returns is the same in all intervals.
    """

    def __hash__(self) -> int: ...

    @property
    def message(self) -> str: ...

    @property
    def sensitivity(self) -> float: ...

    @property
    def reached(self) -> bool: ...

    @property
    def measured(self) -> int: ...

    @property
    def lasting(self) -> bool: ...

    def start(self, draws: Callable[[], np.random.Generator]) -> list[np.ndarray]:
        """Return the start weights; `draws` gives a generator, and is called only if any are random."""
        ...

    def tensors(self, data: Any) -> Any:
        """Make a named tuple of tensors of training and test data, the argument `data` of the other methods."""
        ...

    def inputs(self, reception: Reception, user_records: list[np.ndarray], seed: int, realization: int) -> tuple:
        """Return two named tuples of arrays: `fixed`, the same in all rounds, and `varying`, by interval in axis 0.

        `user_records` holds each user's indices in the training data. A tuple's `by_record`, if any, names fields whose
        last axis is of records; what pads them does not matter.
        """
        ...

    def gather(self, fixed: Any, varying: Any, data: Any) -> Any:
        """Compute once in an interval what all its rounds use, such as its records' features."""
        ...

    def summed(
        self, weights: Weights, fixed: Any, varying: Any, used: Any, uniforms: Callable
    ) -> tuple[Weights, tf.Tensor]:
        """Compute the weighted sum of the users' messages, and the statistics, shape (..., `measured`).

        If `varying` has a field `weight`, the messages themselves, users in the first axis after realizations'; if the
        learner is `apart`, vectors of shape (sender, coordinate) to which senders' noise is yet to be added (`sent`).
        `used` is what `gather` returned; `uniforms(key, shape)` draws numbers (`batching.Draws`).
        """
        ...

    def evaluate(self, weights: Weights, data: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute accuracies on all test records and on each class's, (..., 1 + class), and mean losses in nats."""
        ...

    # What an audit asks for.
    def silent(self) -> list[np.ndarray]:
        """Return weights at which blank records of the first class have the message zero."""
        ...

    def opposed(self, generator: np.random.Generator, records: int) -> Iterator[adversarial.Opposed]:
        """Yield weights and two records whose exchange moves a message as far as any; `records`: of all users."""
        ...

    def place(self, start: Any, target: int, round_: int) -> int:
        """Return the index in the training data of a record of user `target` that is in its message in a round."""
        ...


class Loop(NamedTuple):
    """What determines a graph of rounds, which is traced once for equal loops.

    Attributes
    ----------
    length, intervals
        Rounds in an interval, and number of intervals.
    summed
        Computes the server's update where the air is not linear: `(weights, messages, varying, key, t)`; None:
        `receive`.
    compiled
        Whether XLA compiles it, for a GPU.
    bands
        Number of coordinate bands whose noise differs; 0: noise is the same in all coordinates.
    decided
        Computes the update from noisy messages, (sender, coordinate), their weights and the receiver's noise, as
        `sent.majority`; None: their weighted sum.
    """

    learner: Learner
    length: int
    intervals: int
    summed: Callable | None = None
    compiled: bool = False
    bands: int = 0
    decided: Callable | None = None


class Inputs(NamedTuple):
    """The tensors from which rounds are computed, beside weights and data; axis 0 is of realizations if several.

    Attributes
    ----------
    fixed, varying
        The learner's inputs (`Learner.inputs`): the same in all rounds, and by interval.
    noise_std
        Standard deviation of the noise in the server's update, float32, shape (interval,) or (interval, band).
    key
        Key of the noise's random numbers, int64, a scalar.
    steps
        The server's step sizes, float32, shape (round,).
    """

    fixed: Any
    varying: Any
    noise_std: tf.Tensor
    key: tf.Tensor
    steps: tf.Tensor

    @property
    def several(self) -> bool:
        """Whether axis 0 is of realizations."""
        return self.key.shape.rank > 0

    def slice_interval(self, parts: Any, interval: int | tf.Tensor) -> Any:
        """Take the part of an interval, or a round, of tensors by these."""
        return slice_interval(parts, interval, self.several)


class Tap(NamedTuple):
    """What an audit keeps of the server's updates.

    Attributes
    ----------
    moves
        Boolean scalar: whether the server steps along its update; otherwise its model stays.
    places
        For each tensor, the flat indices of the coordinates to keep; None: all.
    """

    moves: tf.Tensor
    places: Sequence[tf.Tensor] | None = None

    def keep(self, update: Weights, several: bool) -> Weights:
        """Select the coordinates to keep of an update; axis 0 is of realizations if `several`."""
        if self.places is None:
            return update
        flat = [tf.reshape(part, [*part.shape[: int(several)], -1]) for part in update]
        return [tf.gather(part, mine, axis=-1) for part, mine in zip(flat, self.places, strict=True)]


class Course(NamedTuple):
    """A training's evaluations.

    Attributes
    ----------
    accuracies
        On all test records and on each class's, shape (evaluation, 1 + class).
    losses
        Mean cross-entropy of the test records, in nats, shape (evaluation,).
    sums
        The learner's statistics, summed over the rounds since the previous evaluation, shape (evaluation, measured).
    """

    accuracies: np.ndarray
    losses: np.ndarray
    sums: np.ndarray


def receive(
    messages: Weights, weight: tf.Tensor | None, noise_std: tf.Tensor, key: tf.Tensor, draws: Draws, bands: int = 0
) -> Weights:
    """Compute the server's update: sum over users of weight message + noise_std normal numbers.

    `messages` are summed already if `weight` is None. With `bands`, the last axis of `noise_std` is of bands.
    """
    if weight is None:
        normals = draws.normals(key, messages)
        if bands:
            std = by_coordinate(noise_std, [n.shape[key.shape.rank :] for n in normals], bands)
            return [g + s * n for g, s, n in zip(messages, std, normals, strict=True)]
        return [g + times(noise_std, n) for g, n in zip(messages, normals, strict=True)]
    (message,) = messages  # (..., user, output, feature)
    users = weight.shape.rank - 1
    (draw,) = draws.normals(key, [tf.gather(message, 0, axis=users)])
    # The noise is one more summand of the product. With the sum that the result goes into, a sum of its own
    # would make three, for which TensorFlow's optimizer takes a temporary variable; in loops, these collide.
    summands = tf.concat([message, tf.expand_dims(draw, users)], axis=users)
    factors = tf.concat([weight, noise_std[..., None]], axis=users)
    return [tf.einsum("bu,bucf->bcf", factors, summands) if users else tf.tensordot(factors, summands, axes=1)]


def receive_messages(
    loop: Loop, weights: Weights, vectors: tf.Tensor, varying: Any, std: tf.Tensor, key: tf.Tensor, draws: Draws
) -> Weights:
    """Compute the server's update from messages, (sender, coordinate), to each of which its sender adds noise."""
    noised, receiver = noisy(vectors, varying, key, draws)
    update = (loop.decided or added)(noised, varying.weight, std * receiver)
    parts = tf.split(update, [w.shape.num_elements() for w in weights])
    return [tf.reshape(part, w.shape) for part, w in zip(parts, weights, strict=True)]


def play_round(
    loop: Loop,
    weights: Weights,
    inputs: Inputs,
    t: int | tf.Tensor,
    interval: int | tf.Tensor,
    gathered: Any,
    moves: tf.Tensor | None = None,
) -> tuple[Weights, tf.Tensor, Weights]:
    """Compute round t: the weights after it, the learner's statistics, and the server's update.

    `gathered` is what the learner computed for the `interval`. If `moves` is false, the model stays.
    """
    learner, draws = loop.learner, Draws(t, loop.compiled)
    varying, std = (inputs.slice_interval(parts, interval) for parts in (inputs.varying, inputs.noise_std))
    messages, measured = learner.summed(weights, inputs.fixed, varying, gathered, draws.uniforms)
    if loop.summed is not None:
        update = loop.summed(weights, messages, varying, inputs.key, t)
    elif is_by_user(learner):
        update = receive_messages(loop, weights, messages, varying, std, inputs.key, draws)
    else:
        update = receive(messages, getattr(varying, "weight", None), std, inputs.key, draws, loop.bands)
    moved = update if moves is None else [tf.where(moves, u, tf.zeros_like(u)) for u in update]
    step = inputs.slice_interval(inputs.steps, t)
    return [w - times(step, u) for w, u in zip(weights, moved, strict=True)], measured, update


def advance_function(loop: Loop, single: bool = False) -> Callable:
    """Return a graph function that computes `count` rounds from round `first` on.

    Its arguments are `(weights, inputs, data, first, count, tap, gathered)`; `gathered` is what the learner computed
    for all intervals, if it is the same in all. It returns the weights after the rounds, the sums of the learner's
    statistics over them, and, with a `tap`, what it keeps, rounds in the first axis. With `single`, one round without
    a loop, which costs as much as a small round.
    """
    learner, length, intervals = loop.learner, loop.length, loop.intervals

    def advance(
        weights: Weights,
        inputs: Inputs,
        data: Any,
        first: int | tf.Tensor,
        count: int | tf.Tensor,
        tap: Tap | None = None,
        gathered: Any = None,
    ) -> tuple[Weights, tf.Tensor, list[tf.Tensor]]:
        def gather(interval):
            if gathered is not None:
                return gathered
            return learner.gather(inputs.fixed, inputs.slice_interval(inputs.varying, interval), data)

        def round_of(interval, used):
            def step(t, weights, sums, taken):
                weights, measured, update = play_round(loop, weights, inputs, t, interval, used, tap and tap.moves)
                if tap is not None:
                    kept = tap.keep(update, inputs.several)
                    taken = [array.write(t - first, part) for array, part in zip(taken, kept, strict=True)]
                return weights, sums + measured, taken

            return step

        def play_interval(interval, *state):
            begin, end = tf.maximum(first, interval * length), tf.minimum(stop, (interval + 1) * length)
            return repeated(round_of(interval, gather(interval)), begin, end, state)

        if single:
            interval = 0 if intervals == 1 else first // length
            weights, measured, _ = play_round(loop, weights, inputs, first, interval, gather(interval))
            return weights, measured, []
        sums, stop = tf.zeros([*inputs.key.shape, learner.measured]), first + count
        taken = [tf.TensorArray(tf.float32, count, infer_shape=False) for _ in weights if tap is not None]
        state = weights, sums, taken
        if intervals == 1:
            state = repeated(round_of(0, gather(0)), first, stop, state)
        elif length == 1:
            state = repeated(lambda t, *state: round_of(t, gather(t))(t, *state), first, stop, state)
        else:
            state = repeated(play_interval, first // length, -(-stop // length), state)
        weights, sums, taken = state
        return weights, sums, [array.stack() for array in taken]

    return advance


def slice_interval(parts: Any, interval: int | tf.Tensor, several: bool) -> Any:
    """Take the part of an interval, or a round, of arrays by these: axis 0, or axis 1 of `several` realizations."""
    return tf.nest.map_structure(lambda part: part[:, interval] if several else part[interval], parts)


@lru_cache(maxsize=8)
def train_function(loop: Loop, several: bool, stops: Sequence[int], tested: tuple[int, ...]) -> Callable:
    """Return a graph function that trains realizations as one batch, until no loss is finite.

    It takes weights, `Inputs` and the data, and returns the number of evaluations, and the fields of `Course`, with an
    axis of realizations after that of evaluations if `several`. `stops`, a tuple, are the numbers of rounds after which
    the model is evaluated, from 0 on; `tested` is the shape of the test features. It is traced once for all schemes,
    and points of a sweep, with equal loops. One graph serves single realizations of any numbers of users and records;
    of `several`, each shape has its own.
    """
    learner = loop.learner
    one_by_one = max(map(sub, stops[1:], stops), default=1) == 1
    advance = advance_function(loop, single=one_by_one)
    # Compiled, what is gathered would take a GPU's memory while models are evaluated.
    once = not loop.compiled and (loop.intervals == 1 or learner.lasting)

    @tf.function(jit_compile=loop.compiled or None, reduce_retracing=not several, autograph=False)
    def history(weights, inputs, data):
        gathered = learner.gather(inputs.fixed, inputs.slice_interval(inputs.varying, 0), data) if once else None

        def further(count, _, weights, course):
            # Where all rounds are evaluated, their numbers need not be read.
            done = count - 1 if one_by_one else tf.constant(stops)[count - 1]
            ahead = 1 if one_by_one else tf.constant(stops)[count] - done
            weights, sums, _ = advance(weights, inputs, data, done, ahead, gathered=gathered)
            values = *learner.evaluate(weights, data), sums
            course = [array.write(count, value) for array, value in zip(course, values, strict=True)]
            return count + 1, tf.reduce_any(tf.math.is_finite(values[1])), weights, course

        course = [tf.TensorArray(tf.float32, len(stops), infer_shape=False) for _ in range(3)]
        values = *learner.evaluate(weights, data), tf.zeros([*inputs.key.shape, learner.measured])
        course = [array.write(0, value) for array, value in zip(course, values, strict=True)]
        state = tf.constant(1), tf.constant(True), weights, course

        def goes_on(count, going, *_):
            return going & (count < len(stops))

        # One iteration at a time, as in `repeated`.
        count, _, _, course = tf.while_loop(goes_on, further, state, parallel_iterations=1)
        return count, *(array.stack() for array in course)

    return history


@lru_cache(maxsize=8)
def tap_function(loop: Loop, several: bool, rounds: int | None = None) -> Callable:
    """Return a graph function of the server's updates in the first rounds, (round, ...), and its weights after them.

    It takes weights, `Inputs`, the data, the number of rounds and a `Tap`. Compiled, the number is `rounds`.
    """
    advance = advance_function(loop)

    @tf.function(jit_compile=loop.compiled or None, reduce_retracing=not several, autograph=False)
    def play(weights, inputs, data, count, tap):
        played = count if rounds is None else tf.constant(rounds)
        weights, _, update = advance(weights, inputs, data, tf.constant(0), played, tap)
        return update, weights

    return play


def forget() -> None:
    """Discard all traced graphs, which do not follow code that changes."""
    train_function.cache_clear()
    tap_function.cache_clear()
