"""The rounds of all systems whose air is linear, as one graph: the server steps along what it receives.

    update = sum over users of weight message + noise_std normal numbers;    w <- w - step update

Learners make the messages; `weight` and `noise_std` are the table `reception`'s, of each band of coordinates if there
are any. `play_round` is one round, `advance_function` several, `train_function` a training with its evaluations, and
`tap_function` what an audit looks at: what the server receives.
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
from pwfl.training.sent import added, apart, noisy


class Learner(Protocol):
    """What users compute of their records, and the model that they share; equal ones are traced once.

    Attributes
    ----------
    message
        A unit of a user's message, which `reception.weight` is of: "sum of gradients", "mean gradient" or "update".
    sensitivity
        How far a replaced record moves a user's message at most.
    reached
        Whether `opposed` records move it so far.
    measured
        How many numbers a round tells of the messages, summed up until the next evaluation.
    lasting
        Whether what is gathered in an interval holds in all.
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
        """Start weights; `draws` gives a generator, and is called where any are drawn."""
        ...

    def tensors(self, data: Any) -> Any:
        """Training and test data as the other functions take them, a named tuple of tensors."""
        ...

    def inputs(self, reception: Reception, owned: list[np.ndarray], seed: int, realization: int) -> tuple:
        """Two named tuples of arrays: what holds in all rounds, and what differs, by interval in the first axis.

        Their `by_record`, if any, names fields whose last axis is of records, and may be filled up with anything.
        """
        ...

    def gather(self, own: Any, at: Any, data: Any) -> Any:
        """What the rounds of an interval use, made once in it."""
        ...

    def summed(self, weights: Weights, own: Any, at: Any, used: Any, uniforms: Callable) -> tuple[Weights, tf.Tensor]:
        """The weighted sum of the users' messages, and what is measured; `uniforms(key, shape)`: see `Draws`.

        Or the messages themselves, users in the first axis after realizations', where `at` has a `weight`; of a learner
        that is `apart`, as vectors, (sender, coordinate), to which each sender's noise is yet to be added (`sent`).
        """
        ...

    def evaluate(self, weights: Weights, data: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Accuracies, shape (..., 1 + class), and losses."""
        ...

    # What an audit asks for.
    def silent(self) -> list[np.ndarray]:
        """Weights at which blank records of the first class change nothing."""
        ...

    def opposed(self, generator: np.random.Generator, records: int) -> Iterator[adversarial.Opposed]:
        """Weights and two records each, of so many, which move a message as far apart as any; see `adversarial`."""
        ...

    def place(self, start: Any, target: int, round_: int) -> int:
        """The place in the training data of one of the target's records that is in its message in a round."""
        ...


class Loop(NamedTuple):
    """What a graph of rounds is of.

    Attributes
    ----------
    length, intervals
        Of how many rounds an interval is, and how many there are.
    summed
        What is received where the sum is not linear: `(weights, messages, at, key, t)`; None: `receive`.
    compiled
        By XLA, for a GPU.
    bands
        In how many bands of coordinates noise differs; 0: it does not.
    decided
        What the server makes of messages that come one by one, with their senders' noise in them, of their weights and
        the receiver's noise: `sent.majority`. None: the sum of all.
    """

    learner: Learner
    length: int
    intervals: int
    summed: Callable | None = None
    compiled: bool = False
    bands: int = 0
    decided: Callable | None = None


class Inputs(NamedTuple):
    """What trainings go by, beside their weights and data: tensors; of several realizations, these are the first axis.

    Attributes
    ----------
    own, at
        The learner's (`Learner.inputs`): what holds in all rounds, and what differs, by interval.
    noise_std
        Standard deviation of the noise in what is received, (interval,), or of each band, (interval, band).
    key
        Of the noise's random numbers, a number.
    steps
        The server's step sizes, (round,).
    """

    own: Any
    at: Any
    noise_std: tf.Tensor
    key: tf.Tensor
    steps: tf.Tensor

    @property
    def several(self) -> bool:
        """Whether they are of several realizations."""
        return self.key.shape.rank > 0

    def slice_interval(self, parts: Any, interval: int | tf.Tensor) -> Any:
        """What holds in an interval, or a round, of arrays by these."""
        return slice_interval(parts, interval, self.several)


class Tap(NamedTuple):
    """What an audit keeps of what the server receives.

    Attributes
    ----------
    moves
        A flag: whether the model steps along what is received; else it stays.
    places
        Coordinates that are kept, of each tensor; None: all.
    """

    moves: tf.Tensor
    places: Sequence[tf.Tensor] | None = None

    def keep(self, update: Weights, several: bool) -> Weights:
        """What is kept of what is received, of realizations in the first axis if of `several`."""
        if self.places is None:
            return update
        flat = [tf.reshape(part, [*part.shape[: int(several)], -1]) for part in update]
        return [tf.gather(part, mine, axis=-1) for part, mine in zip(flat, self.places, strict=True)]


class Course(NamedTuple):
    """What a training comes to, by evaluation: accuracies, losses, and what was measured since the one before."""

    accuracies: np.ndarray
    losses: np.ndarray
    sums: np.ndarray


def receive(
    messages: Weights, weight: tf.Tensor | None, noise_std: tf.Tensor, key: tf.Tensor, draws: Draws, bands: int = 0
) -> Weights:
    """What the server receives: the sum of messages, which `weight` weighs if they are not summed yet, and noise.

    In so many `bands`, if any, `noise_std` is of each in its last axis.
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
    loop: Loop, weights: Weights, vectors: tf.Tensor, at: Any, std: tf.Tensor, key: tf.Tensor, draws: Draws
) -> Weights:
    """What the server receives of messages, (sender, weight), to each of which its sender adds noise."""
    heard, receiver = noisy(vectors, at, key, draws)
    update = (loop.decided or added)(heard, at.weight, std * receiver)
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
    """Round t, in an interval of which the learner has `gathered` what it needs: weights, what is measured, the update.

    Where `moves` is false, the model stays.
    """
    learner, draws = loop.learner, Draws(t, loop.compiled)
    at, std = (inputs.slice_interval(parts, interval) for parts in (inputs.at, inputs.noise_std))
    messages, measured = learner.summed(weights, inputs.own, at, gathered, draws.uniforms)
    if loop.summed is not None:
        update = loop.summed(weights, messages, at, inputs.key, t)
    elif apart(learner):
        update = receive_messages(loop, weights, messages, at, std, inputs.key, draws)
    else:
        update = receive(messages, getattr(at, "weight", None), std, inputs.key, draws, loop.bands)
    heard = update if moves is None else [tf.where(moves, u, tf.zeros_like(u)) for u in update]
    step = inputs.slice_interval(inputs.steps, t)
    return [w - times(step, u) for w, u in zip(weights, heard, strict=True)], measured, update


def advance_function(loop: Loop, single: bool = False) -> Callable:
    """A function that plays some rounds, for a graph: `(weights, inputs, data, first, count, tap, gathered)`.

    It returns weights, what was measured, summed up over the rounds, and, with a `tap`, what it keeps, the rounds in
    the first axis. `first` and `count` say which rounds; `gathered` is what the learner needs, where it holds in all.
    Where only a `single` round is ever played, there is no loop, which costs as much as a small round.
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
            return learner.gather(inputs.own, inputs.slice_interval(inputs.at, interval), data)

        def round_of(interval, used):
            def step(t, weights, sums, found):
                weights, measured, update = play_round(loop, weights, inputs, t, interval, used, tap and tap.moves)
                if tap is not None:
                    kept = tap.keep(update, inputs.several)
                    found = [array.write(t - first, part) for array, part in zip(found, kept, strict=True)]
                return weights, sums + measured, found

            return step

        def play_interval(interval, *state):
            begin, end = tf.maximum(first, interval * length), tf.minimum(stop, (interval + 1) * length)
            return repeated(round_of(interval, gather(interval)), begin, end, state)

        if single:
            interval = 0 if intervals == 1 else first // length
            weights, measured, _ = play_round(loop, weights, inputs, first, interval, gather(interval))
            return weights, measured, []
        sums, stop = tf.zeros([*inputs.key.shape, learner.measured]), first + count
        found = [tf.TensorArray(tf.float32, count, infer_shape=False) for _ in weights if tap is not None]
        state = weights, sums, found
        if intervals == 1:
            state = repeated(round_of(0, gather(0)), first, stop, state)
        elif length == 1:
            state = repeated(lambda t, *state: round_of(t, gather(t))(t, *state), first, stop, state)
        else:
            state = repeated(play_interval, first // length, -(-stop // length), state)
        weights, sums, found = state
        return weights, sums, [array.stack() for array in found]

    return advance


def slice_interval(parts: Any, interval: int | tf.Tensor, several: bool) -> Any:
    """What holds in an interval, or a round, of arrays by these; of `several` realizations, in the second axis."""
    return tf.nest.map_structure(lambda part: part[:, interval] if several else part[interval], parts)


@lru_cache(maxsize=8)
def train_function(loop: Loop, several: bool, stops: Sequence[int], tested: tuple[int, ...]) -> Callable:
    """A function that trains some realizations side by side, as one graph, until no loss is finite.

    It takes weights, `Inputs` and the data, and returns how many evaluations there were, and `Course` of all. Traced
    once for all schemes, and points of a sweep, whose rounds are alike. `stops`, a tuple, are the rounds after which
    models are evaluated, from 0 on, on features of the shape `tested`. One graph serves single realizations of all
    numbers of users and records; of `several`, each shape has its own, as learners ask for theirs.
    """
    learner = loop.learner
    one_by_one = max(map(sub, stops[1:], stops), default=1) == 1
    advance = advance_function(loop, single=one_by_one)
    # Compiled, what is gathered would take a GPU's memory while models are evaluated.
    once = not loop.compiled and (loop.intervals == 1 or learner.lasting)

    @tf.function(jit_compile=loop.compiled or None, reduce_retracing=not several, autograph=False)
    def history(weights, inputs, data):
        gathered = learner.gather(inputs.own, inputs.slice_interval(inputs.at, 0), data) if once else None

        def further(count, _, weights, found):
            # Where all rounds are evaluated, their numbers need not be read.
            done = count - 1 if one_by_one else tf.constant(stops)[count - 1]
            ahead = 1 if one_by_one else tf.constant(stops)[count] - done
            weights, sums, _ = advance(weights, inputs, data, done, ahead, gathered=gathered)
            values = *learner.evaluate(weights, data), sums
            found = [array.write(count, value) for array, value in zip(found, values, strict=True)]
            return count + 1, tf.reduce_any(tf.math.is_finite(values[1])), weights, found

        found = [tf.TensorArray(tf.float32, len(stops), infer_shape=False) for _ in range(3)]
        values = *learner.evaluate(weights, data), tf.zeros([*inputs.key.shape, learner.measured])
        found = [array.write(0, value) for array, value in zip(found, values, strict=True)]
        begun = tf.constant(1), tf.constant(True), weights, found

        def goes_on(count, going, *_):
            return going & (count < len(stops))

        # One iteration at a time, as in `repeated`.
        count, _, _, found = tf.while_loop(goes_on, further, begun, parallel_iterations=1)
        return count, *(array.stack() for array in found)

    return history


@lru_cache(maxsize=8)
def tap_function(loop: Loop, several: bool, rounds: int | None = None) -> Callable:
    """A function of what the server receives in some rounds, (round, ...) of each tensor, and where its model is then.

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
    """Forget all graphs, which keep to the code that they were traced of."""
    train_function.cache_clear()
    tap_function.cache_clear()
