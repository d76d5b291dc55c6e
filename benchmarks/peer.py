"""One federated round in another framework: checked, then timed.

Run as `python peer.py pfl|flower|opacus WORKLOAD.npz` in that framework's environment, which has NumPy but neither pwfl
nor TensorFlow; prints its version and the seconds of each timed round as JSON.
"""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from typing import NamedTuple

# NumPy checks and does not train, and the threads of its OpenBLAS hang when another thread forks, as Ray does.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

import numpy as np

PACKAGES = {"pfl": "pfl", "flower": "flwr", "opacus": "opacus"}
WARM_UP, ROUNDS = 3, 10

# train(rounds, clip, noise) -> weights after that many rounds from the start, and when each of them ended.
Train = Callable[[int, float, np.ndarray], tuple[list[np.ndarray], list[float]]]


class Task(NamedTuple):
    """A workload: start weights [kernel, bias, ...], all users' samples in turn, and what a round does with them.

    `expected` holds the updates of a round without noise, clipped to `clip` and to `tight`, for a network that is not
    made anew here in NumPy; else it is empty.
    """

    path: str
    weights: list[np.ndarray]
    x: np.ndarray
    y: np.ndarray
    samples: np.ndarray
    noise: np.ndarray
    clip: float
    step: float
    tight: float
    expected: np.ndarray

    @property
    def users(self) -> list[slice]:
        """The rows of each user."""
        return [slice(a, b) for a, b in pairwise([0, *np.cumsum(self.samples).tolist()])]


def save(path: str, weights: list[np.ndarray], **arrays) -> None:
    """Write what `load` reads: a Task's fields."""
    np.savez(path, *weights, **arrays)


def load(path: str) -> Task:
    """Read a Task."""
    with np.load(path) as arrays:
        weights = [arrays[f"arr_{k}"] for k in range(sum(name.startswith("arr_") for name in arrays))]
        rest = {name: arrays[name] for name in Task._fields if name not in {"path", "weights"}}
    return Task(path, weights, **rest | {name: float(rest[name]) for name in ("clip", "step", "tight")})


def user_gradients(task: Task) -> list[list[np.ndarray]]:
    """Each user's mean gradient of the ReLU network's cross-entropy, in plain NumPy and float64."""
    weights = [w.astype(np.float64) for w in task.weights]
    found = []
    for rows in task.users:
        inputs = [task.x[rows].astype(np.float64)]
        for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
            inputs.append(np.maximum(inputs[-1] @ kernel + bias, 0))
        odds = np.exp(inputs[-1] @ weights[-2] + weights[-1])
        delta = odds / odds.sum(axis=1, keepdims=True) - np.eye(odds.shape[1])[task.y[rows]]
        gradient = []
        for a, kernel in zip(inputs[::-1], weights[-2::-2], strict=True):
            gradient = [a.T @ delta / len(a), delta.mean(axis=0), *gradient]
            delta = delta @ kernel.T * (a > 0)
        found.append(gradient)
    return found


def flat(arrays: list[np.ndarray]) -> np.ndarray:
    """All entries in one float64 vector."""
    return np.concatenate([np.ravel(a) for a in arrays]).astype(np.float64)


def dense_updates(task: Task) -> dict[float, np.ndarray]:
    """Updates of a round without noise of the dense network, users clipped, by the norm that they are clipped to."""
    gradients = np.stack([flat(gradient) for gradient in user_gradients(task)])
    norms, share = np.linalg.norm(gradients, axis=1), task.samples / task.samples.sum()
    # The second bound clips half of the users.
    bounds = (task.clip, float(np.median(norms)))
    return {clip: -task.step * (share * np.minimum(1, clip / norms)) @ gradients for clip in bounds}


def check(train: Train, task: Task) -> None:
    """Stop unless a round without noise is what it should be, and its noise has the spread that it should."""
    start, share = flat(task.weights), task.samples / task.samples.sum()

    def update(clip: float, noise: np.ndarray) -> np.ndarray:
        return flat(train(1, clip, noise)[0]) - start

    if task.expected.size:  # of a network that pools maxima, where near ties fall either way
        known, limit = dict(zip((task.clip, task.tight), task.expected, strict=True)), 1e-3
    else:  # float32 weights resolve an update to some 1e-5 of it
        known, limit = dense_updates(task), 1e-4
    for clip, expected in known.items():
        found = update(clip, np.zeros_like(task.noise))
        error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
        assert error < limit, f"clipped to {clip:.3g}, a round is off by {error:.1e}"
    spread = np.std(update(task.clip, task.noise) - known[task.clip]) / (task.step * np.linalg.norm(share * task.noise))
    assert abs(spread - 1) < 0.02, f"noise is {spread:.3f} times what it should be"


def measure(train: Train, task: Task) -> list[float]:
    """Seconds of each of ROUNDS rounds, after the check and WARM_UP rounds."""
    check(train, task)
    _, ends = train(WARM_UP + ROUNDS, task.clip, task.noise)
    return np.diff(ends)[WARM_UP - 1 :].tolist()


if __name__ == "__main__":
    name, path = sys.argv[1:]
    seconds = import_module(f"peer_{name}").session(load(path), measure)
    if os.environ.get("RANK", "0") == "0":  # the first, if torch started several workers
        print(json.dumps({"version": version(PACKAGES[name]), "seconds": seconds}), flush=True)
    os._exit(0)  # with several workers, torch aborts in the interpreter's end now and then
