"""Opacus, with the computation of pwfl: per-sample clipping, all users' samples as one batch, one draw of noise."""

from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from peer import Task, Train
from peer_torch import layers, weights_of

BATCH = 512  # samples with gradients in memory at a time


def session(task: Task, body: Callable[[Train, Task], list[float]]) -> list[float]:
    """Return the result of `body(train, task)`, which trains with Opacus."""
    x, y = torch.from_numpy(task.x), torch.from_numpy(task.y).long()
    share = task.samples / len(x)

    def train(rounds: int, clip: float, noise: np.ndarray) -> tuple[list[np.ndarray], list[float]]:
        network = GradSampleModule(torch.nn.Sequential(*layers(task.weights)), loss_reduction="sum")
        std = float(np.linalg.norm(share * noise))
        optimizer = DPOptimizer(
            torch.optim.SGD(network.parameters(), task.step),
            noise_multiplier=std * len(x) / clip,
            max_grad_norm=clip,
            expected_batch_size=len(x),
        )
        ends = []
        for _ in range(rounds):
            for first in range(0, len(x), BATCH):
                rows = slice(first, first + BATCH)
                torch.nn.functional.cross_entropy(network(x[rows]), y[rows], reduction="sum").backward()
                optimizer.signal_skip_step(do_skip=first + BATCH < len(x))
                optimizer.step()
                optimizer.zero_grad()
            ends.append(perf_counter())
        return weights_of(network), ends

    return body(train, task)
