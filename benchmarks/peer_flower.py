"""Flower's simulation on Ray: FedAvg weighted by samples; each client makes one step with clipping and noise."""

from collections.abc import Callable
from functools import cache
from time import perf_counter

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from peer import Task, Train, load

client = ClientApp()


@cache
def workload(path: str) -> Task:
    """Read the workload, once per worker process, and restrict torch to one thread there."""
    torch.set_num_threads(1)
    return load(path)


@client.train()
def train_user(message: Message, context: Context) -> Message:
    """Reply with a user's weights after one full-batch step along its clipped gradient, with its noise."""
    config = message.content["config"]
    task, user = workload(config["path"]), context.node_config["partition-id"]
    rows = task.users[user]
    x, y = torch.from_numpy(task.x[rows]), torch.from_numpy(task.y[rows]).long()
    weights = [torch.tensor(w, requires_grad=True) for w in message.content["arrays"].to_numpy_ndarrays()]
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        x = torch.relu(x @ kernel + bias)
    loss = torch.nn.functional.cross_entropy(x @ weights[-2] + weights[-1], y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(weights, config["clip"])
    with torch.no_grad():
        updated = [w - task.step * (w.grad + config["noise"][user] * torch.randn_like(w)) for w in weights]
    content = {
        "arrays": ArrayRecord([w.numpy() for w in updated]),
        "metrics": MetricRecord({"num-examples": len(y)}),
    }
    return Message(RecordDict(content), reply_to=message)


class Clocked(FedAvg):
    """Federated averaging that records the time at which each round ended."""

    def __init__(self, users: int):
        super().__init__(fraction_evaluate=0.0, min_train_nodes=users, min_available_nodes=users)
        self.ends = []

    def aggregate_train(self, server_round, replies):
        found = super().aggregate_train(server_round, replies)
        self.ends.append(perf_counter())
        return found


def session(task: Task, body: Callable[[Train, Task], list[float]]) -> list[float]:
    """Return the result of `body(train, task)`, called in a simulation that lasts as long as the call."""
    users, found = len(task.samples), []
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        def train(rounds: int, clip: float, noise: np.ndarray) -> tuple[list[np.ndarray], list[float]]:
            strategy = Clocked(users)
            result = strategy.start(
                grid,
                ArrayRecord(task.weights),
                num_rounds=rounds,
                train_config=ConfigRecord({"path": task.path, "clip": clip, "noise": noise.tolist()}),
            )
            return result.arrays.to_numpy_ndarrays(), strategy.ends

        found.extend(body(train, task))

    run_simulation(
        server,
        client,
        num_supernodes=users,
        backend_name="ray",
        backend_config={
            "init_args": {"num_cpus": torch.get_num_threads(), "include_dashboard": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    return found
