"""Check and then time one federated round in another framework.

Run as `python peer.py pfl|flower|opacus WORKLOAD.npz` in that framework's environment, which has NumPy but neither pwfl
nor TensorFlow. Prints its version and the seconds of each timed round as JSON.
"""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from typing import NamedTuple

# NumPy is used only for checks, and the threads of its OpenBLAS hang when another thread forks, as in Ray.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

import numpy as np

PACKAGES = {"pfl": "pfl", "flower": "flwr", "opacus": "opacus"}
WARM_UP, ROUNDS = 3, 10

# train(rounds, clip, noise) -> weights after that many rounds from the start, and the time at which each one ended.
Train = Callable[[int, float, np.ndarray], tuple[list[np.ndarray], list[float]]]


class Task(NamedTuple):
    """A workload: start weights [kernel, bias, ...], all users' samples in turn, and the constants of a round.

    `expected` contains the updates of a round without noise, clipped to `clip` and to `tight`, for a network that this
    module does not compute in NumPy; otherwise it is empty.
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
        """Rows of each user."""
        return [slice(a, b) for a, b in pairwise([0, *np.cumsum(self.samples).tolist()])]


def save(path: str, weights: list[np.ndarray], **arrays) -> None:
    """Write the fields of a Task, except `path`, to a file that `load` reads."""
    np.savez(path, *weights, **arrays)


def load(path: str) -> Task:
    """Read a Task that `save` has written."""
    with np.load(path) as arrays:
        weights = [arrays[f"arr_{k}"] for k in range(sum(name.startswith("arr_") for name in arrays))]
        rest = {name: arrays[name] for name in Task._fields if name not in {"path", "weights"}}
    return Task(path, weights, **rest | {name: float(rest[name]) for name in ("clip", "step", "tight")})


def user_gradients(task: Task) -> list[list[np.ndarray]]:
    """Compute each user's mean gradient of the ReLU network's cross-entropy, in NumPy and float64."""
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
    """Concatenate all entries into one float64 vector."""
    return np.concatenate([np.ravel(a) for a in arrays]).astype(np.float64)


def dense_updates(task: Task) -> dict[float, np.ndarray]:
    """Compute the dense network's update of a round without noise, for two clipping norms of users' gradients."""
    gradients = np.stack([flat(gradient) for gradient in user_gradients(task)])
    norms, share = np.linalg.norm(gradients, axis=1), task.samples / task.samples.sum()
    # The second norm clips half of the users.
    bounds = (task.clip, float(np.median(norms)))
    return {clip: -task.step * (share * np.minimum(1, clip / norms)) @ gradients for clip in bounds}


def check(train: Train, task: Task) -> None:
    """Raise AssertionError if a round without noise, or the standard deviation of its noise, is not as expected."""
    start, share = flat(task.weights), task.samples / task.samples.sum()

    def update(clip: float, noise: np.ndarray) -> np.ndarray:
        return flat(train(1, clip, noise)[0]) - start

    if task.expected.size:  # max pooling: rounding decides between nearly equal inputs
        known, limit = dict(zip((task.clip, task.tight), task.expected, strict=True)), 1e-3
    else:  # float32 weights resolve an update to about 1e-5 of its size
        known, limit = dense_updates(task), 1e-4
    for clip, expected in known.items():
        found = update(clip, np.zeros_like(task.noise))
        error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
        assert error < limit, f"clipped to {clip:.3g}, a round is off by {error:.1e}"
    spread = np.std(update(task.clip, task.noise) - known[task.clip]) / (task.step * np.linalg.norm(share * task.noise))
    assert abs(spread - 1) < 0.02, f"noise is {spread:.3f} times what it should be"


def measure(train: Train, task: Task) -> list[float]:
    """Measure the seconds of each of ROUNDS rounds, after the check and WARM_UP rounds."""
    check(train, task)
    _, ends = train(WARM_UP + ROUNDS, task.clip, task.noise)
    return np.diff(ends)[WARM_UP - 1 :].tolist()


if __name__ == "__main__":
    name, path = sys.argv[1:]
    seconds = import_module(f"peer_{name}").session(load(path), measure)
    if os.environ.get("RANK", "0") == "0":  # the first worker, if torch started several
        print(json.dumps({"version": version(PACKAGES[name]), "seconds": seconds}), flush=True)
    os._exit(0)  # with several workers, torch sometimes aborts while the interpreter ends
