"""Path loss and Rayleigh fading."""

import numpy as np
from scipy.constants import speed_of_light


def gain(
    distance_m: np.ndarray,
    fading: np.ndarray,
    frequency_hz: float,
    exponent: float,
    fading_scale: float,
    min_distance_m: float,
) -> np.ndarray:
    """Power gain of a link, l^2 (c / 4 pi f)^2 d^-exponent with l ~ Rayleigh(fading_scale), eq. (17).

    `fading` holds uniform numbers in (0, 1) of the distances' shape; distances are cut below at
    min_distance_m. The result has no unit and the same shape.
    """
    fading_power = -2 * fading_scale**2 * np.log1p(-fading)
    free_space = (speed_of_light / (4 * np.pi * frequency_hz)) ** 2
    return fading_power * free_space * np.maximum(distance_m, min_distance_m) ** -exponent
