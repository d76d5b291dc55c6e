"""Simulated records of the regression, in float32; its objective and minimum, in float64."""

from typing import NamedTuple

import numpy as np

from privacy_for_free.parameters import PrivacyForFree
from pwfl import streams
from pwfl.learning.datasets import Dataset

COEFFICIENTS = {1: 1.0, 4: 3.0}  # by index of u from 0: v = u_2 + 3 u_5 + noise


class Minimum(NamedTuple):
    """Model parameters that minimize the objective, its minimum, and its value at the start, w = 0."""

    weights: np.ndarray
    objective: float
    at_start: float


def simulated(scenario: PrivacyForFree, devices: int, samples: int, realization: int) -> Dataset:
    """Simulate the records of a realization: u, then v in the last column; labels have no meaning and are 0."""
    task, generator = scenario.task, streams.generator(scenario.seed, "regression records", realization)
    u = generator.standard_normal((devices * samples, task.dimension))
    v = task.label_noise_std * generator.standard_normal(len(u))
    v += sum(factor * u[:, place] for place, factor in COEFFICIENTS.items())
    records, labels = np.column_stack([u, v]).astype(np.float32), np.zeros(len(u), np.int32)
    return Dataset(records, labels, records[:1], labels[:1])


def objective(weights: np.ndarray, records: np.ndarray, weight_decay: float) -> float:
    """Compute F(w): half the mean squared error, plus the regularizer lambda ||w||^2."""
    residuals = records[:, :-1] @ weights - records[:, -1]
    return float(np.mean(residuals**2) / 2 + weight_decay * weights @ weights)


def minimum(records: np.ndarray, weight_decay: float) -> Minimum:
    """Compute the minimum of the objective; if several parameters attain it, those of least norm."""
    records = records.astype(float)
    u, v = records[:, :-1], records[:, -1]
    hessian = u.T @ u / len(u) + 2 * weight_decay * np.eye(u.shape[1])
    weights = np.linalg.lstsq(hessian, u.T @ v / len(u), rcond=None)[0]
    least, start = (objective(w, records, weight_decay) for w in (weights, np.zeros_like(weights)))
    return Minimum(weights, least, start)
