"""Stage train: gradient descent along the received sums, on records that are simulated for each realization."""

from collections.abc import Callable

import numpy as np
import polars as pl

from privacy_for_free import regression
from privacy_for_free.learner import RidgeGradients
from privacy_for_free.parameters import PrivacyForFree
from pwfl.learning.datasets import Dataset
from pwfl.scenario.values import with_others
from pwfl.training import trainings

READ = ("users", "reception", "reception_noise")


def parts(
    scenario: PrivacyForFree, data: Dataset, tables: dict[str, pl.DataFrame], compiled: bool = False
) -> trainings.Parts:
    """Build learner, server and evaluations: sums of clipped gradients, and the step sizes of `steps`."""
    training, task = scenario.training, scenario.task
    learner = RidgeGradients(training.clip_norm, training.mean_norm, task.weight_decay, task.dimension)
    server = trainings.Server(lambda reception: steps(scenario, reception.noise_std))
    rounds = tables["reception_noise"]["interval"].n_unique()
    stops = trainings.evaluation_rounds(rounds, training.evaluate_every)
    return trainings.Parts(learner, server, stops, _shares, 16.0 * data.x_train.size)


def steps(scenario: PrivacyForFree, noise_std: np.ndarray) -> np.ndarray:
    """Compute step sizes, shape (round,): 1 / L, or 0 if noise alone is expected to move the model by more than W.

    With adaptive powers, early rounds cost almost no privacy and are mostly noise. Noise would move the model far away,
    where gradients are clipped and cannot move it back. (The authors' scripts project the model onto a ball.)
    """
    training = scenario.training
    moved = scenario.task.dimension**0.5 * noise_std / training.smoothness
    return np.where(moved <= training.radius, 1 / training.smoothness, 0.0)


def _shares(start: trainings.Start, sums: np.ndarray) -> dict[str, pl.Series]:
    """Compute the columns `clipped_share`, of records, and `limited_share`, of devices: shares scaled down."""
    of_records, of_devices = (trainings.clipped_share(start, part) for part in (sums[:, :2], sums[:, 2:]))
    return of_records | {"limited_share": of_devices["clipped_share"]}


with_loss, _ = trainings.trainers(parts)  # column `loss`: the objective


def dealt(scenario: PrivacyForFree) -> PrivacyForFree:
    """Return the scenario with a section `data`, which `pwfl.training` requires: records are assigned at random."""
    return with_others(scenario, data={"partition": "iid"})


def trainer(
    scenario: PrivacyForFree, data: Dataset | None, tables: dict[str, pl.DataFrame]
) -> Callable[[int], pl.DataFrame]:
    """Return a function from a realization to its rows of `history`; without `data`, records are simulated."""

    def train(realization: int) -> pl.DataFrame:
        own = {name: tables[name].filter(realization=realization) for name in READ}
        samples, records = own["users"]["samples"], data
        if records is None:
            records = regression.simulated(scenario, len(samples), samples[0], realization)
        found = with_loss(dealt(scenario), records, own)(realization)
        least = regression.minimum(records.x_train, scenario.task.weight_decay)
        bound = bounds(scenario, least, own["reception_noise"].sort("interval")["update_noise_std"].to_numpy())
        return found.with_columns(
            accuracy=pl.lit(None, pl.Float64),
            loss=pl.lit(None, pl.Float64),
            ridge_objective=pl.col("loss"),
            optimality_gap=pl.col("loss") / least.objective - 1,
            optimality_gap_bound=pl.Series(bound / least.objective).gather(found["round"]),
        )

    return train


def bounds(scenario: PrivacyForFree, least: regression.Minimum, noise_std: np.ndarray) -> np.ndarray:
    """Compute the paper's bound on the mean of F(w_t) - F*, shape (1 + round,), if nothing is clipped."""
    training, found = scenario.training, [least.at_start - least.objective]
    for step, std in zip(steps(scenario, noise_std), noise_std, strict=True):
        noise = scenario.task.dimension * std**2 * step / 2
        found.append((1 - training.strong_convexity * step) * found[-1] + noise * (step > 0))
    return np.array(found)
