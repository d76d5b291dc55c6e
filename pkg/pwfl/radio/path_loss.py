"""Path loss and Rayleigh fading."""

import numpy as np
from scipy.constants import speed_of_light


def link_gain(
    distance_m: np.ndarray | float, frequency_hz: float, exponent: float, fading_power: np.ndarray | float = 1.0
) -> np.ndarray:
    """Compute a link's power gain l^2 (c / 4 pi f)^2 d^-exponent, without unit; l^2 is `fading_power`, d distances.

    >>> float(round(10 * np.log10(link_gain(100.0, 2.4e9, 2.0)), 1))
    -80.1
    """
    free_space = (speed_of_light / (4 * np.pi * frequency_hz)) ** 2
    return fading_power * free_space * distance_m**-exponent


def rayleigh_power(uniform: np.ndarray, scale: float) -> np.ndarray:
    """Compute powers l^2, l ~ Rayleigh(scale), with mean 2 scale^2, by inversion of uniform numbers in (0, 1)."""
    return -2 * scale**2 * np.log1p(-uniform)
