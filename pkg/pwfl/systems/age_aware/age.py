"""Age-dependent differential privacy of a mechanism on the data at t, for the data at T >= t.

Lin, Lin, Hsu and Huang, "Age Aware Scheduling for Differentially-Private Federated Learning".
"""

import numpy as np


def age_epsilon(classical: np.ndarray, total_variation: np.ndarray) -> np.ndarray:
    """(1): epsilon about the data at T of a mechanism on the data at t, ln(1 + Delta (e^epsilon_C - 1)).

    Parameters
    ----------
    classical
        epsilon_C of the mechanism about the data at t; may be infinite. With delta_C, (1) has delta = Delta delta_C.
    total_variation
        Delta(T - t), in [0, 1], of a shape that broadcasts with it.

    Examples
    --------
    Fresh data are as private as the mechanism makes them, data that tell nothing any more are so by themselves.

    >>> age_epsilon(1.0, np.array([1.0, 0.5, 0.0])).round(3)
    array([1.  , 0.62, 0.  ])
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        exact = np.log1p(total_variation * np.expm1(classical))
        # Where e^epsilon_C overflows, the 1s no longer count.
        large = classical + np.log(total_variation)
    return np.where(np.asarray(total_variation) == 0, 0.0, np.where(np.asarray(classical) > 700, large, exact))


def required_epsilon(target: np.ndarray, total_variation: np.ndarray) -> np.ndarray:
    """(4): what the classical mechanism must supply at t for `target` at T, ln(1 + (e^epsilon - 1) / Delta).

    The inverse of `age_epsilon`; infinite where `total_variation` is 0.

    Examples
    --------
    >>> required_epsilon(1.0, np.array([1.0, 0.5])).round(3)
    array([1.  , 1.49])
    """
    with np.errstate(divide="ignore"):
        return np.log1p(np.expm1(target) / total_variation)


def laplace_scale(sensitivity: np.ndarray, classical: np.ndarray) -> np.ndarray:
    """Scale b of the Laplace noise that makes a query of this l1 sensitivity `classical`-DP."""
    return sensitivity / classical
