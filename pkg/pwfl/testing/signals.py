"""Test of a user-defined air interface: its `receive` is compared with signals that its `signals` simulates.

A file has two functions. `receive(sent)` returns what arrives (`pwfl.airs.air`). `signals(sent, messages, noise,
receivers)` simulates one interval of one realization. From messages and their noise, (user, coordinate), and as many
normal numbers as it needs for receivers, (RECEIVERS, coordinate), it makes `Signals`. It must be written from the
physical transmission, not from `receive`: if the two differ, one of them is wrong.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
from scipy import stats

from pwfl import streams
from pwfl.airs.air import Received, Sent, Signals, problem
from pwfl.errors import describe
from pwfl.testing.tiny import CheckError

USERS, STATIONS, INTERVALS, REALIZATIONS = 7, 3, 2, 3
DIMENSION, RECEIVERS = 50, 256  # coordinates of a message; normal numbers that receivers have, at most
DRAWS = 20_000  # coordinates of simulated noise
FALSE_ALARM = 1e-6  # probability of each test
CLOSE = 1e-6  # relative tolerance of quantities without noise
ARRAYS = tuple(name for name in Received._fields if name not in ("seen", "bands", "observed_by"))


def report(path: str) -> bool:
    """Test the air interface in a file, print the result, and return whether it passed."""
    try:
        check(path)
    except CheckError as error:
        for line in str(error).splitlines():
            print(f"{path}: {line}", file=sys.stderr)
        return False
    print(f"{path}: passed: weights, noise, observers' views, powers and energy agree with the signals.")
    return True


def check(path: str) -> None:
    """Compare the air interface in a file with its signals. Raises CheckError, with a line for each difference."""
    module, sent = _load(path), example()
    try:
        received = module.receive(sent)
        if problem_ := problem(sent, received):
            raise CheckError(f"receive: {problem_}")
        wrong = [f"{what}: {fault}" for what, fault in faults(module, sent, received)]
    except CheckError:
        raise
    except Exception as error:  # of the user's code
        raise CheckError(f"fails: {describe(error)}") from error
    if wrong:
        raise CheckError("\n".join(wrong))


def example(seed: int = 1) -> Sent:
    """Make an example of `Sent` over several cells; nobody sends in the first interval of the second realization."""
    generator = np.random.default_rng(seed)
    shape = REALIZATIONS, INTERVALS, USERS
    sends = generator.random(shape) < 0.7
    sends[0, 0, :2], sends[1, 0] = True, False
    samples = generator.integers(5, 30, shape)
    records = np.where(sends, samples, 0)
    return Sent(
        sends=sends,
        weight=sends / np.maximum(records.sum(axis=2, keepdims=True), 1),
        noise_std=sends * generator.uniform(0.5, 2.0, shape),
        norm=records * 0.3,
        gain=10 ** generator.uniform(-12, -9, (REALIZATIONS, INTERVALS, STATIONS, USERS)),
        cell=generator.integers(STATIONS, size=(REALIZATIONS, USERS)),
        dimension=DIMENSION,
        max_power_w=0.01,
        bandwidth_hz=1e6,
        noise_w=1e-12,
        uniforms=lambda purpose, shape: streams.uniforms(seed, purpose, range(REALIZATIONS), shape),
    )


def select_one(sent: Sent, realization: int, interval: int) -> Sent:
    """Select one interval of `sent`; the air interface's random numbers stay those of all intervals."""
    rows, columns = slice(realization, realization + 1), slice(interval, interval + 1)
    arrays = {name: getattr(sent, name)[rows, columns] for name in ("sends", "weight", "noise_std", "norm", "gain")}

    def uniforms(purpose: str, shape: tuple[int, ...]) -> np.ndarray:
        if shape[:1] == (1,):  # drawn for each interval
            return sent.uniforms(purpose, (INTERVALS, *shape[1:]))[rows, columns]
        return sent.uniforms(purpose, shape)[rows]

    return sent._replace(**arrays, cell=sent.cell[rows], uniforms=uniforms)


def faults(module: ModuleType, sent: Sent, received: Received) -> Iterator[tuple[str, str]]:
    """Yield faults as pairs: the quantity that was compared, and the difference that was found."""
    if not _alike(received, module.receive(sent)):
        yield "receive", "returns something else when called again; draw random numbers by `sent.uniforms`"
    generator = np.random.default_rng(2)
    for realization, interval in np.ndindex(REALIZATIONS, INTERVALS):
        where = f"realization {realization}, interval {interval}"
        one = select_one(sent, realization, interval)

        def play(messages=0.0, noise=0.0, receivers=0.0, coordinates=1, one=one) -> Signals:
            silent = np.zeros((USERS, coordinates))
            noise_in = np.zeros((RECEIVERS, coordinates)) + receivers
            return module.signals(one, silent + messages, silent + noise, noise_in)

        for what, fault in _check_interval(one, _at(received, realization, interval), play, generator):
            yield f"{where}: {what}", fault


def _check_interval(sent: Sent, received: Received, play: Callable, generator) -> Iterator[tuple[str, str]]:
    """Yield `faults` of one interval; `received` has only this interval: arrays of shape (user,), or numbers."""
    sends, std, norm = sent.sends[0, 0], sent.noise_std[0, 0], sent.norm[0, 0]
    if not sends.any():
        if received.weight.any() or received.joules or received.symbols:
            yield "an interval without active users", "must have no weights, symbols or joules"
        return
    response = play(messages=np.eye(USERS), coordinates=USERS)
    if off := _off(response.update * sends, received.weight * sends):
        yield "weight", f"each message's share of the update is {off}"
    # Users' noise has the same gains as messages, receivers' noise its own gains.
    noise_response = play(receivers=np.eye(RECEIVERS), coordinates=RECEIVERS)
    normals = generator.standard_normal((USERS, DRAWS)) * std[:, None]
    silence = play(noise=normals, receivers=generator.standard_normal((RECEIVERS, DRAWS)), coordinates=DRAWS).update
    stated = np.hypot(np.linalg.norm(received.weight * std), received.receiver_std)
    if not _deviates_as(silence, stated):
        yield "noise of the update", f"its standard deviation is {silence.std():.4g}, but {stated:.4g} is stated"
    if off := _off(np.linalg.norm(noise_response.update), received.receiver_std):
        yield "receiver_std", f"the receivers' noise in the update is {off}"
    for observer in received.seen:
        if observer not in response.seen:
            yield f"seen[{observer!r}]", "the signals have no such observer"
            continue
        user_response, more = response.seen[observer] * sends, noise_response.seen[observer]
        for whose, stated, noise in zip(
            ("all noise", "users' noise"), received.seen[observer], (more, 0 * more), strict=True
        ):
            shown = _shown(user_response, std, noise)
            if off := _off(shown[sends], stated[sends]):
                yield f"seen[{observer!r}] against {whose}", f"by the signals, it is {off}"
    yield from _check_power(sent, received, norm, std, play, generator)


def _check_power(sent: Sent, received: Received, norm, std, play: Callable, generator) -> Iterator[tuple[str, str]]:
    """Yield faults of power and energy, for messages of the largest norm, spread evenly over coordinates."""
    repeats = -(-DRAWS // DIMENSION)
    signs = generator.choice([-1.0, 1.0], (USERS, repeats * DIMENSION))
    messages = signs * norm[:, None] / np.sqrt(DIMENSION)
    noise = generator.standard_normal(messages.shape) * std[:, None]
    power = np.square(np.abs(play(messages, noise, coordinates=messages.shape[1]).radiated)).mean(axis=1)
    slack = stats.norm.isf(FALSE_ALARM) * np.sqrt(2 / messages.shape[1])
    if power.max() > sent.max_power_w * (1 + slack):
        yield "power", f"a user radiates {power.max():.4g} W; at most {sent.max_power_w:.4g} W are allowed"
    joules = power.sum() * DIMENSION / sent.bandwidth_hz
    if not abs(received.joules - joules) <= slack * joules:
        yield (
            "joules",
            f"{received.joules:.4g} J are stated, but users radiate {joules:.4g} J at one symbol per coordinate",
        )


def _shown(users: np.ndarray, std: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Compute visibilities: norms of the smallest normal numbers with the effect of one unit of each message."""
    spread = np.hstack([users * std, noise])
    least = np.linalg.lstsq(spread, users, rcond=1e-12)[0]
    hidden = np.abs(spread @ least - users).max(axis=0) <= 1e-9 * np.maximum(np.abs(users).max(axis=0), 1e-300)
    return np.where(hidden, np.linalg.norm(least, axis=0), np.inf)


def _off(measured, stated) -> str:
    """Describe the difference of measured and stated values; empty: they agree."""
    measured, stated = np.atleast_1d(measured), np.atleast_1d(np.asarray(stated, float))
    with np.errstate(invalid="ignore"):
        error = np.where(measured == stated, 0.0, np.abs(measured - stated))
    if (error <= CLOSE * np.maximum(np.abs(measured).max(), 1e-300)).all():
        return ""
    k = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
    return f"{measured[k]:.6g}, but {stated[k]:.6g} is stated"


def _deviates_as(numbers: np.ndarray, std: np.ndarray | float) -> bool:
    """Return whether normal numbers may have a standard deviation, by a chi-square test."""
    if std == 0:
        return not numbers.any()
    p = stats.chi2.cdf(np.square(numbers / std).sum(), numbers.size)
    return bool(FALSE_ALARM / 2 < p < 1 - FALSE_ALARM / 2)


def _at(received: Received, realization: int, interval: int) -> Received:
    """Select one interval of what is received."""
    at = realization, interval
    seen = {observer: tuple(part[at] for part in received.seen[observer]) for observer in received.seen}
    return Received(**{name: getattr(received, name)[at] for name in ARRAYS}, seen=seen)


def _alike(one: Received, other: Received) -> bool:
    """Return whether two receptions are equal to the bit."""
    flat = [
        [getattr(received, name) for name in ARRAYS] + [part for array in received.seen.values() for part in array]
        for received in (one, other)
    ]
    return all(np.array_equal(a, b) for a, b in zip(*flat, strict=True))


def _load(path: str) -> ModuleType:
    """Import the module in a file. Raises CheckError if it cannot be imported, or lacks a function."""
    if not Path(path).is_file():
        raise CheckError("file not found")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None  # it exists for every file name that ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CheckError(f"cannot be imported: {describe(error)}") from error
    for name in ("receive", "signals"):
        if not callable(getattr(module, name, None)):
            raise CheckError(f"function `{name}` is missing; an air needs `receive` and `signals`")
    return module
