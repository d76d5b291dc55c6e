"""The access point's policy: how far a device's update deviates, and the noise its copy of the model gets."""

import numpy as np


def base_multiplier(epsilon: float, delta: float) -> float:
    """Noise standard deviation over sensitivity by Proposition 1, (7): the copy's at deviation 0, (14)."""
    return float(np.sqrt(2 * np.log(1.25 / delta)) / epsilon)


def scaled(base: np.ndarray, theta: np.ndarray, deviation: np.ndarray | float) -> np.ndarray:
    """Noise multiplier, or standard deviation, of a copy, (14), from that at deviation 0, `base`."""
    return base / (1 - theta * deviation)


def deviations(similarity: np.ndarray, took_part: np.ndarray) -> np.ndarray:
    """Deviation factors E, (15), of the devices of a round, cut to [0, 1], shape (..., device).

    `similarity` holds the finite cosines of their updates with the reference. A device that sent no update deviates by
    1, and all do where none points along the reference.

    Examples
    --------
    >>> deviations(np.array([0.8, 0.4, -0.2]), np.array([True, True, True])).tolist()
    [0.0, 0.5, 1.0]
    """
    best = np.max(similarity, axis=-1, keepdims=True, where=took_part, initial=0.0)
    share = np.divide(similarity, best, where=best > 0, out=np.zeros(similarity.shape))
    return np.where(took_part & (best > 0), np.clip(1 - share, 0, 1), 1.0)
