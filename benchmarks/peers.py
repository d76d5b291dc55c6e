"""Compare a training round of pwfl with the same round in other frameworks for federated learning, on two threads.

Run as `python benchmarks/peers.py [pfl] [flower] [opacus]` on a quiet machine; default: all. Each framework runs in its
own environment, .venv-NAME. Prints a table and writes it to benchmarks/results/peers.parquet.
"""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from measure import pin_threads, row, seconds, thread_variables

THREADS = 2
pin_threads(THREADS)

import numpy as np  # noqa: E402
import peer  # noqa: E402
import polars as pl  # noqa: E402
import tensorflow as tf  # noqa: E402
import training  # noqa: E402

FOLDER = Path(__file__).parent
REPEATS = 3


class Peer(NamedTuple):
    """A framework: its name, label in the table, target ratio, workload, launcher and number of threads."""

    name: str
    label: str
    target: float
    workload: str = "paper's network"
    launcher: tuple[str, ...] = ()
    threads: int = THREADS


# pfl uses several cores through torch's threads or through worker processes.
WORKERS = ("-m", "torch.distributed.run", "--nproc_per_node", str(THREADS))
PEERS = [
    Peer("pfl", "pfl {} (torch), local noise", 4),
    Peer("pfl", f"the same, {THREADS} workers of one thread", 4, launcher=WORKERS, threads=1),
    Peer("flower", "Flower {} (Ray, torch), local noise", 7),
    Peer("opacus", "Opacus {} (torch), samples clipped", 1, "small CNN, samples"),
    Peer("pfl", "pfl {} (torch), users clipped", 1, "small CNN, users"),
]


def here(workload: str) -> float:
    """Measure the seconds of a round of pwfl."""
    if workload == "paper's network":
        weights, x, y, samples, noise = training.workload()
        (found,) = seconds(training.fused(weights, x, y, tf.constant(training.average_noise(samples, noise))))
        return found / training.ROUNDS
    weights, x, y, samples, noise = training.convolutional_workload()
    one_round, _ = training.by_autodiff(weights, x, y, tf.constant(training.average_noise(samples, noise)))
    return seconds(one_round, repeats=3)[0]


def save(workload: str, path: str) -> None:
    """Write a workload to a file, with the updates of a round without noise if `peer` cannot compute them in NumPy."""
    convolutional = workload != "paper's network"
    weights, x, y, samples, noise = training.convolutional_workload() if convolutional else training.workload()
    expected, tight = [], 0.0
    if convolutional:
        model = training.convolutional()
        gradients, share = user_gradients(model.losses, weights, x, y, samples), samples / samples.sum()
        norms = np.linalg.norm(gradients, axis=1)
        tight = float(np.median(norms))  # clips half of the users, and nearly all samples
        for clip in (training.CLIP, tight):
            if workload.endswith("users"):
                mean = (share * np.minimum(1, clip / norms)) @ gradients
            else:
                mean_of_samples = tf.function(model.clipped_mean)
                found, _ = mean_of_samples(weights, x, y, clip, tf.constant(len(x)), None, ())
                mean = peer.flat([g.numpy() for g in found])
            expected.append(-training.STEP * mean)
    arrays = {"x": x.numpy(), "y": y.numpy(), "samples": samples, "noise": noise, "expected": np.array(expected)}
    constants = {"clip": training.CLIP, "step": training.STEP, "tight": tight}
    peer.save(path, [w.numpy() for w in weights], **arrays, **constants)


def user_gradients(losses, weights, x, y, samples) -> np.ndarray:
    """Compute each user's mean gradient, shape (user, weight)."""
    found = []
    for first, stop in pairwise([0, *np.cumsum(samples)]):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = tf.reduce_mean(losses(weights, x[first:stop], y[first:stop]))
        found.append(peer.flat([g.numpy() for g in tape.gradient(loss, weights)]))
    return np.stack(found)


def output(command: list, environment: dict[str, str]):
    """Run a command and return the last line that it prints, read as JSON; exit if it fails."""
    found = subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit(f"{found.stderr}\n{' '.join(map(str, command))} failed")
    return json.loads(found.stdout.splitlines()[-1])


def rows(peers: list[Peer]) -> list[dict]:
    """Measure a row for each peer, REPEATS times in turns with pwfl."""
    with TemporaryDirectory() as folder:
        paths = {name: f"{folder}/{k}.npz" for k, name in enumerate({p.workload for p in peers})}
        for workload, path in paths.items():
            save(workload, path)
        environment = os.environ | {"FLWR_HOME": folder}
        ours, theirs = {name: [] for name in paths}, [[] for _ in peers]
        for _ in range(REPEATS):
            for name, found in ours.items():
                code = f"import peers; print(peers.here({name!r}))"
                found.append(output([sys.executable, "-c", code], environment))
            for p, found in zip(peers, theirs, strict=True):
                python = FOLDER.parent / f".venv-{p.name}" / "bin" / "python"
                command = [python, *p.launcher, "peer.py", p.name, paths[p.workload]]
                found.append(output(command, environment | thread_variables(p.threads)))
    return [
        row(
            f"training round, {p.workload}, {THREADS} threads",
            p.label.format(found[0]["version"]),
            median(ours[p.workload]),
            median(median(run["seconds"]) for run in found),
            p.target,
        )
        for p, found in zip(peers, theirs, strict=True)
    ]


if __name__ == "__main__":
    pl.Config.set_tbl_cols(-1).set_fmt_str_lengths(60).set_tbl_width_chars(200)
    table = pl.DataFrame(rows([p for p in PEERS if p.name in (sys.argv[1:] or p.name)]))
    (FOLDER / "results").mkdir(exist_ok=True)
    table.write_parquet(FOLDER / "results" / "peers.parquet")
    print(table)
