"""Compute the rounds of federated learning over a linear air interface, as one TensorFlow graph.

With users k, rounds t in interval i and standard normal z, each coordinate of the model w is updated by

    update[t] = sum_k weight[i, k] message[k] + noise_std[i] z,        w <- w - step[t] update[t].

A `Learner` computes the messages. `weight` is from the table `reception`, `noise_std` from `reception_noise`; if users
are received differently in bands of coordinates, each band has its own. `play_round` computes one round,
`advance_function` several, `train_function` a training run with its evaluations, and `tap_function` returns the
server's updates, for audits.

Shapes: "..." before an axis stands for the axis of realizations, which is there only if several are trained as a batch.
`Weights` are a list with one tensor per tensor of the model.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import sub
from typing import Any, NamedTuple, Protocol

import numpy as np

from pwfl.learning import adversarial
from pwfl.process.tensorflow import tf
from pwfl.tables.reception import Reception
from pwfl.training.bands import by_coordinate
from pwfl.training.batching import Draws, Weights, repeated, times
from pwfl.training.sent import added, is_by_user, noisy


class Learner(Protocol):
    """What users compute from their records, and the model they train. Equal learners share one traced graph.

    A learner may also have a boolean attribute `by_user`, false if missing: `summed` then returns each sender's message
    before its noise is added, as `sent.SentGradients` does.

    Attributes
    ----------
    message
        The kind of a user's message before it is weighted: "sum of gradients", "mean gradient" or "update".
    sensitivity
        Upper bound on the L2 norm of a message's change if one of the user's records is replaced.
    reached
        Whether the pairs of records that `opposed` yields attain the sensitivity.
    measured
        Number of statistics of a round that `summed` returns. They are added up between evaluations (`Course.sums`).
    lasting
        Whether `gather` returns the same tensors in all intervals, so that one call serves the whole training run.
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
        """Return the model's start parameters, float32, one array per tensor.

        `draws()` returns a random generator; it is called only if any parameter is random.
        """
        ...

    def tensors(self, data: Any) -> Any:
        """Return training and test data (`datasets.Dataset`) as a named tuple of tensors.

        It is the argument `data` of `gather` and `evaluate`.
        """
        ...

    def inputs(self, reception: Reception, user_records: list[np.ndarray], seed: int, realization: int) -> tuple:
        """Return the NumPy arrays of a realization that the messages need, as two named tuples `(fixed, varying)`.

        `fixed` is the same in all rounds; the arrays of `varying` have the interval in axis 0. A tuple may have an
        attribute `by_record`, the names of fields whose last axis is of records: `batching.side_by_side` pads that axis
        with zeros, and results must not depend on the padding.

        Parameters
        ----------
        reception
            Who sends in each interval, with which weight.
        user_records
            One array per user: the indices of its records in the training data, shape (record,).
        seed, realization
            For random choices of records.

        Raises
        ------
        NotImplementedError
            If the reception needs something that the learner does not compute, as Poisson batches.
        """
        ...

    def gather(self, fixed: Any, varying: Any, data: Any) -> Any:
        """Compute once per interval what all its rounds use, such as the features of its records.

        `fixed` and `varying` are as from `inputs`, `varying` for one interval, as tensors with the axis of realizations
        if there are several; `data` is as from `tensors`.
        """
        ...

    def summed(
        self, weights: Weights, fixed: Any, varying: Any, used: Any, uniforms: Callable
    ) -> tuple[Weights, tf.Tensor]:
        """Compute the messages of a round and return `(messages, statistics)`.

        Statistics have shape (..., `measured`). The messages are, by learner:

        - usually, their weighted sum over users, one tensor per tensor of the model: `inputs` has put the weights into
          `varying`;
        - if `varying` has a field `weight`, one tensor of unweighted messages, shape (..., user, output, feature):
          `receive` weights and adds them up (`local_sgd.LocalSgd`);
        - if the learner is `by_user`, one tensor of shape (sender, coordinate), without noise: `receive_messages`, or
          `Loop.summed`, adds each sender's.

        Parameters
        ----------
        weights
            The model's parameters, one tensor of shape (..., *shape) per tensor of the model.
        fixed, varying
            As in `gather`.
        used
            What `gather` returned for the interval.
        uniforms
            `uniforms(key, shape)` draws the round's uniform random numbers of a stream (`batching.Draws.uniforms`).
        """
        ...

    def evaluate(self, weights: Weights, data: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute accuracies and mean cross-entropy on the test records.

        Accuracies, shape (..., 1 + class), are on all test records and then on those of each class; the loss, in nats,
        has shape (...).
        """
        ...

    # For audits.
    def silent(self) -> list[np.ndarray]:
        """Return parameters at which users whose records are all zero and of class 0 send the message zero."""
        ...

    def opposed(self, generator: np.random.Generator, records: int) -> Iterator[adversarial.Opposed]:
        """Yield cases of parameters and two records: replacing one record by the other moves a message the farthest.

        `records` is the number of records of all users together.
        """
        ...

    def place(self, start: Any, target: int, round_: int) -> int:
        """Return the training-data index of a record that user `target` uses in round `round_`.

        `start` is the realization's `trainings.Start`.
        """
        ...


class Loop(NamedTuple):
    """What determines the graph of rounds. Equal loops share one traced graph.

    Attributes
    ----------
    learner
        Computes the messages.
    length
        Rounds in an interval.
    intervals
        Number of intervals.
    summed
        Where messages are sent as integers, the server's function `summed(weights, messages, varying, key, t)`: it adds
        noise to the messages, shape (sender, coordinate), adds them up modulo 2^bits and returns the decoded update,
        one tensor per tensor of the model (`integers.summed`). It is not `Learner.summed`, which computes the messages.
        None: messages are real numbers.
    compiled
        Whether XLA compiles the graph, for a GPU.
    bands
        Number of coordinate bands with different noise; 0: noise is the same in all coordinates.
    decided
        For a `by_user` learner, the server's function `decided(messages, weight, noise)` of noisy messages, shape
        (sender, coordinate), their weights, (sender,), and the receiver's noise, (coordinate,): it returns the update,
        (coordinate,), as `sent.majority`. None: the weighted sum plus noise, `sent.added`.
    """

    learner: Learner
    length: int
    intervals: int
    summed: Callable | None = None
    compiled: bool = False
    bands: int = 0
    decided: Callable | None = None


class Inputs(NamedTuple):
    """The tensors from which rounds are computed, except the model's parameters and the data.

    They are fields of `trainings.Start`. If several realizations are trained, axis 0 of each is of realizations, before
    the axes given here.

    Attributes
    ----------
    fixed, varying
        The learner's inputs (`Learner.inputs`): the same in all rounds; with intervals in the first axis.
    noise_std
        Standard deviation of the noise in each coordinate of the update, float32, shape (interval,) or (interval,
        band).
    key
        Key of the noise's random number stream, int64, shape ().
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
        """As the function `slice_interval`, of these inputs' number of realizations."""
        return slice_interval(parts, interval, self.several)


class Tap(NamedTuple):
    """Which of the server's updates an audit records.

    Attributes
    ----------
    moves
        Boolean, shape (): whether the server steps along its update; if not, the model keeps its parameters.
    places
        One int32 tensor per tensor of the model: the flat indices of the coordinates to record, shape (index,); None:
        all.
    """

    moves: tf.Tensor
    places: Sequence[tf.Tensor] | None = None

    def keep(self, update: Weights, several: bool) -> Weights:
        """Select the coordinates of an update to record, shape (..., index); axis 0 is of realizations if `several`."""
        if self.places is None:
            return update
        flat = [tf.reshape(part, [*part.shape[: int(several)], -1]) for part in update]
        return [tf.gather(part, mine, axis=-1) for part, mine in zip(flat, self.places, strict=True)]


class Course(NamedTuple):
    """The evaluations of a realization's training run.

    Attributes
    ----------
    accuracies
        On all test records and then on those of each class, shape (evaluation, 1 + class).
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
    """Compute the server's update: sum_k weight[k] message[k] + noise_std z, with standard normal z.

    Parameters
    ----------
    messages
        If `weight` is None, the users' weighted sum, one tensor of shape (..., *shape) per tensor of the model;
        otherwise one tensor of messages, shape (..., user, output, feature).
    weight
        Shape (..., user), or None.
    noise_std
        Shape (...), or (..., band) with `bands`.
    key
        Key of the noise's stream, int64, shape (...).
    draws
        Random numbers of the round.
    bands
        Number of coordinate bands; 0: none.
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
    # The noise is one more summand of the product. Added separately, it would make a sum of three with w - step update;
    # TensorFlow's optimizer uses a temporary variable for that, and in loops the names of these variables collide.
    summands = tf.concat([message, tf.expand_dims(draw, users)], axis=users)
    factors = tf.concat([weight, noise_std[..., None]], axis=users)
    return [tf.einsum("bu,bucf->bcf", factors, summands) if users else tf.tensordot(factors, summands, axes=1)]


def receive_messages(
    loop: Loop, weights: Weights, vectors: tf.Tensor, varying: Any, std: tf.Tensor, key: tf.Tensor, draws: Draws
) -> Weights:
    """Compute the server's update from each sender's message, after adding the sender's noise to it.

    For a `by_user` learner and one realization. `Loop.decided` combines the noisy messages; None: `sent.added`.

    Parameters
    ----------
    loop
        Its field `decided` is used.
    weights
        The model's parameters, of whose shapes the update is.
    vectors
        Messages without noise, shape (sender, coordinate).
    varying
        The interval's `sent.Sent`: weights and noise standard deviations, shape (sender,).
    std
        Standard deviation of the receiver's noise in the update, shape ().
    key, draws
        As in `receive`.
    """
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
    """Compute round t and return `(weights, statistics, update)`: the parameters after it, and its update.

    Parameters
    ----------
    loop, inputs
        What determines the graph, and the tensors it is computed from.
    weights
        The model's parameters before the round, one tensor of shape (..., *shape) per tensor of the model.
    t
        Number of the round.
    interval
        Number of its interval.
    gathered
        What `Learner.gather` returned for the interval.
    moves
        Boolean, shape (): if false, the model keeps its parameters; None: true.
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
    """Return a function that computes several rounds, to be called while a graph is traced.

    The function is `advance(weights, inputs, data, first, count, tap=None, gathered=None)`. It computes `count` rounds
    from round `first` on and returns `(weights, sums, updates)`: the parameters after them, the sums of the learner's
    statistics over them, shape (..., `learner.measured`), and the updates that `tap` records, one tensor of shape
    (round, ..., *shape) per tensor of the model, or none without a tap. `gathered` is what `Learner.gather` returns in
    all intervals, if it is the same in all; None: it is called in each interval.

    `single`: compute round `first` alone, without a tap and without a loop, whose overhead is that of a small round.
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
    """Select one interval's part of each tensor in a structure.

    `parts` is a nested structure of tensors with intervals (or rounds, then `interval` is a round) in axis 0 or, if
    `several`, with realizations in axis 0 and intervals in axis 1.
    """
    return tf.nest.map_structure(lambda part: part[:, interval] if several else part[interval], parts)


@lru_cache(maxsize=8)
def train_function(loop: Loop, several: bool, stops: Sequence[int], tested: tuple[int, ...]) -> Callable:
    """Return a graph function that trains and evaluates realizations as one batch, until no loss is finite.

    The function is `history(weights, inputs, data)` and returns `(count, accuracies, losses, sums)`: the number of
    evaluations made, and the fields of `Course`, with an axis of realizations after that of evaluations if `several`.
    Rows from `count` on have no meaning.

    Schemes and sweep points with equal arguments share the graph. Without `several`, one graph serves realizations of
    any numbers of users and records; with it, each shape is traced anew.

    Parameters
    ----------
    loop
        What is computed.
    several
        Whether tensors have the realization in axis 0.
    stops
        Numbers of rounds after which the model is evaluated, a tuple, increasing from 0.
    tested
        Shape of the test features, (record, feature): it only keeps graphs of different test data apart.
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
            accuracies, loss = learner.evaluate(weights, data)
            settled = tf.reduce_all(tf.math.is_finite(sums), axis=-1)  # not where users' local steps diverged
            values = accuracies, tf.where(settled, loss, np.nan), sums
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
    """Return a graph function that computes the first rounds and records the server's updates.

    The function is `play(weights, inputs, data, count, tap)`, where `count` is the number of rounds, and returns
    `(updates, weights)`: one tensor of shape (round, ..., *shape) per tensor of the model, and the parameters after the
    rounds. `several` is as in `train_function`. XLA must know the number of rounds when it compiles: `rounds`, if not
    None, replaces `count`.
    """
    advance = advance_function(loop)

    @tf.function(jit_compile=loop.compiled or None, reduce_retracing=not several, autograph=False)
    def play(weights, inputs, data, count, tap):
        played = count if rounds is None else tf.constant(rounds)
        weights, _, update = advance(weights, inputs, data, tf.constant(0), played, tap)
        return update, weights

    return play


def forget() -> None:
    """Discard all traced graphs: they would not follow later changes of code, as tests make them."""
    train_function.cache_clear()
    tap_function.cache_clear()
