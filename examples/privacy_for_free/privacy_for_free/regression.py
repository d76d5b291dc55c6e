"""Simulated records of the regression, its objective and minimum, in float64."""

from typing import NamedTuple

import numpy as np

from privacy_for_free.parameters import PrivacyForFree
from pwfl import streams
from pwfl.learning.datasets import Dataset

COEFFICIENTS = {1: 1.0, 4: 3.0}  # v = u_2 + 3 u_5 + noise, counted from 0


class Minimum(NamedTuple):
    """Where the objective is least, and how much it is there and at the start, w = 0."""

    weights: np.ndarray
    objective: float
    at_start: float


def simulated(scenario: PrivacyForFree, devices: int, samples: int, realization: int) -> Dataset:
    """The records of a realization: u, then v in the last column. Labels, of which a regression has none, are 0."""
    task, generator = scenario.task, streams.generator(scenario.seed, "regression records", realization)
    u = generator.standard_normal((devices * samples, task.dimension))
    v = task.label_noise_std * generator.standard_normal(len(u))
    v += sum(factor * u[:, place] for place, factor in COEFFICIENTS.items())
    records, labels = np.column_stack([u, v]).astype(np.float32), np.zeros(len(u), np.int32)
    return Dataset(records, labels, records[:1], labels[:1])


def objective(weights: np.ndarray, records: np.ndarray, weight_decay: float) -> float:
    """F(w): half the mean squared error plus the regularizer."""
    residuals = records[:, :-1] @ weights - records[:, -1]
    return float(np.mean(residuals**2) / 2 + weight_decay * weights @ weights)


def minimum(records: np.ndarray, weight_decay: float) -> Minimum:
    """The minimum of the objective; of records without a unique one, that of least norm."""
    records = records.astype(float)
    u, v = records[:, :-1], records[:, -1]
    hessian = u.T @ u / len(u) + 2 * weight_decay * np.eye(u.shape[1])
    weights = np.linalg.lstsq(hessian, u.T @ v / len(u), rcond=None)[0]
    least, start = (objective(w, records, weight_decay) for w in (weights, np.zeros_like(weights)))
    return Minimum(weights, least, start)
