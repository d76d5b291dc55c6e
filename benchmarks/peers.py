"""One training round here against the same round in other frameworks for federated learning, on two threads.

Run as `python benchmarks/peers.py` on a quiet machine; each framework runs in its own environment, .venv-NAME. A table
on the screen and benchmarks/results/peers.parquet.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from measure import pin_threads, row, seconds, thread_variables

THREADS = 2
pin_threads(THREADS)

import peer  # noqa: E402
import polars as pl  # noqa: E402
import tensorflow as tf  # noqa: E402
import training  # noqa: E402

FOLDER = Path(__file__).parent
REPEATS = 3


class Peer(NamedTuple):
    """A framework's name, what the table calls it, the ratio wanted, and how it is started with how many threads."""

    name: str
    label: str
    target: float
    launcher: tuple[str, ...] = ()
    threads: int = THREADS


# pfl uses several cores by torch's threads or by worker processes.
WORKERS = ("-m", "torch.distributed.run", "--nproc_per_node", str(THREADS))
PEERS = [
    Peer("pfl", "pfl {} (torch), local noise", 4),
    Peer("pfl", f"the same, {THREADS} workers of one thread", 4, WORKERS, 1),
    Peer("flower", "Flower {} (Ray, torch), local noise", 7),
]


def here() -> float:
    """Seconds of a round of the engine."""
    weights, x, y, samples, noise = training.workload()
    (found,) = seconds(training.fused(weights, x, y, tf.constant(training.average_noise(samples, noise))))
    return found / training.ROUNDS


def output(command: list, environment: dict[str, str]):
    """What a command printed last, as JSON."""
    found = subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit(f"{found.stderr}\n{' '.join(map(str, command))} failed")
    return json.loads(found.stdout.splitlines()[-1])


def rows() -> list[dict]:
    """A row for each peer, measured REPEATS times in turns with the engine."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/workload.npz"
        weights, x, y, samples, noise = training.workload()
        arrays = {"x": x.numpy(), "y": y.numpy(), "samples": samples, "noise": noise}
        peer.save(path, [w.numpy() for w in weights], **arrays, clip=training.CLIP, step=training.STEP)
        environment = os.environ | {"FLWR_HOME": folder}
        ours, theirs = [], [[] for _ in PEERS]
        for _ in range(REPEATS):
            ours.append(output([sys.executable, "-c", "import peers; print(peers.here())"], environment))
            for (name, _, _, launcher, threads), found in zip(PEERS, theirs, strict=True):
                python = FOLDER.parent / f".venv-{name}" / "bin" / "python"
                command = [python, *launcher, "peer.py", name, path]
                found.append(output(command, environment | thread_variables(threads)))
    return [
        row(
            f"training round, {THREADS} threads",
            p.label.format(found[0]["version"]),
            median(ours),
            median(median(run["seconds"]) for run in found),
            p.target,
        )
        for p, found in zip(PEERS, theirs, strict=True)
    ]


if __name__ == "__main__":
    pl.Config.set_tbl_cols(-1).set_fmt_str_lengths(60).set_tbl_width_chars(200)
    table = pl.DataFrame(rows())
    (FOLDER / "results").mkdir(exist_ok=True)
    table.write_parquet(FOLDER / "results" / "peers.parquet")
    print(table)
