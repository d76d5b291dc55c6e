"""The access point's policy: the deviation of each device's update, and the noise of its copy of the model."""

import numpy as np


def base_multiplier(epsilon: float, delta: float) -> float:
    """Compute the noise multiplier of Proposition 1, (7): standard deviation over sensitivity at deviation 0, (14)."""
    return float(np.sqrt(2 * np.log(1.25 / delta)) / epsilon)


def scaled(base: np.ndarray, theta: np.ndarray, deviation: np.ndarray | float) -> np.ndarray:
    """Compute the noise multiplier, or standard deviation, of a copy, (14), from `base`, its value at deviation 0."""
    return base / (1 - theta * deviation)


def deviations(similarity: np.ndarray, took_part: np.ndarray) -> np.ndarray:
    """Compute the deviation factors E, (15), of a round's devices, clipped to [0, 1], shape (..., device).

    `similarity` contains the finite cosines of their updates with the reference. A device without an update has
    deviation 1. If no cosine of an update is positive, all devices have deviation 1.

    Examples
    --------
    >>> deviations(np.array([0.8, 0.4, -0.2]), np.array([True, True, True])).tolist()
    [0.0, 0.5, 1.0]
    """
    best = np.max(similarity, axis=-1, keepdims=True, where=took_part, initial=0.0)
    share = np.divide(similarity, best, where=best > 0, out=np.zeros(similarity.shape))
    return np.where(took_part & (best > 0), np.clip(1 - share, 0, 1), 1.0)
