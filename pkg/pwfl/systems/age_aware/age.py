"""Age-dependent differential privacy of a mechanism on the data at t, for the data at T >= t.

Lin, Lin, Hsu and Huang, "Age Aware Scheduling for Differentially-Private Federated Learning".
"""

import numpy as np


def age_epsilon(classical: np.ndarray, total_variation: np.ndarray) -> np.ndarray:
    """(1): epsilon about the data at T of a mechanism that is `classical`-DP about the data at t.

    ln(1 + Delta (e^epsilon_C - 1)). An (epsilon_C, delta_C) mechanism has delta = Delta delta_C.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        exact = np.log1p(total_variation * np.expm1(classical))
        # Where e^epsilon_C overflows, the 1s no longer count.
        large = classical + np.log(total_variation)
    return np.where(np.asarray(total_variation) == 0, 0.0, np.where(np.asarray(classical) > 700, large, exact))


def required_epsilon(target: np.ndarray, total_variation: np.ndarray) -> np.ndarray:
    """(4): what the classical mechanism must supply at t for `target` at T, ln(1 + (e^epsilon - 1) / Delta)."""
    with np.errstate(divide="ignore"):
        return np.log1p(np.expm1(target) / total_variation)


def laplace_scale(sensitivity: np.ndarray, classical: np.ndarray) -> np.ndarray:
    """Scale b of the Laplace noise that makes a query of this l1 sensitivity `classical`-DP."""
    return sensitivity / classical
