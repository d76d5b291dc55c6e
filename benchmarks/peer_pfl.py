"""Apple's pfl-research: federated averaging with one local full-batch step, clipping and local noise per user."""

from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch
from peer import Task, Train
from peer_torch import layers, weights_of
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import MinimizeReuseUserSampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from pfl.postprocessor.base import Postprocessor
from pfl.privacy.gaussian_mechanism import GaussianMechanism


class Network(torch.nn.Sequential):
    """The network, with the methods that pfl calls."""

    def loss(self, x, y):
        return torch.nn.functional.cross_entropy(self(x), y)

    def metrics(self, x, y):
        return {}  # evaluation is not timed


class UserNoise(Postprocessor):
    """The Gaussian mechanism with a separate noise standard deviation per user: pfl's has one for all."""

    def __init__(self, bound: float, noise: np.ndarray):
        self.mechanisms = {str(user): GaussianMechanism(bound, float(std) / bound) for user, std in enumerate(noise)}

    def postprocess_one_user(self, *, stats, user_context):
        return self.mechanisms[user_context.user_id].postprocess_one_user(stats=stats, user_context=user_context)


class Clock(TrainingProcessCallback):
    """A callback that records the time at which each round ended."""

    def __init__(self):
        self.ends = []

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        self.ends.append(perf_counter())
        return False, Metrics()


def session(task: Task, body: Callable[[Train, Task], list[float]]) -> list[float]:
    """Return the result of `body(train, task)`, which trains in pfl."""
    x, y = torch.from_numpy(task.x), torch.from_numpy(task.y).long()
    datasets = [PyTorchTensorDataset((x[rows], y[rows]), user_id=str(user)) for user, rows in enumerate(task.users)]
    users = list(range(len(datasets)))

    def train(rounds: int, clip: float, noise: np.ndarray) -> tuple[list[np.ndarray], list[float]]:
        # The mechanism clips and adds noise to a user's update, which is its gradient times the step size.
        mechanism = UserNoise(task.step * clip, task.step * noise)
        backend = SimulatedBackend(
            training_data=FederatedDataset(datasets.__getitem__, MinimizeReuseUserSampler(users)),
            val_data=None,
            postprocessors=[mechanism, WeightByDatapoints()],
        )
        net, clock = Network(*layers(task.weights)), Clock()
        FederatedAveraging().run(
            algorithm_params=NNAlgorithmParams(
                central_num_iterations=rounds,
                evaluation_frequency=rounds,
                train_cohort_size=len(users),
                val_cohort_size=None,
            ),
            backend=backend,
            model=PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), 1.0)),
            model_train_params=NNTrainHyperParams(
                local_num_epochs=1, local_learning_rate=task.step, local_batch_size=None
            ),
            callbacks=[clock],
            send_metrics_to_platform=False,
        )
        return weights_of(net), clock.ends

    return body(train, task)
