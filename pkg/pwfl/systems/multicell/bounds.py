"""Constraints (21) and (22) on the noise, for a scenario's rounds and clipping norm."""

from collections.abc import Callable
from math import ceil, floor, log10, sqrt

from pwfl.systems.multicell.parameters import Multicell, Privacy

PAPER_CLIP_NORM, PAPER_ROUNDS = 10.0, 200  # L and T of Table I, for which (21) and (22) are given


def noise_scale(scenario: Multicell) -> float:
    """Compute the ratio of noise to the noise that (21), (22) and the objective (20) refer to."""
    if scenario.privacy.bounds == "noise":
        return 1.0
    return scenario.training.clip_norm / PAPER_CLIP_NORM * sqrt(scenario.training.rounds / PAPER_ROUNDS)


def leakage_bound(scenario: Multicell) -> float:
    """Compute the largest rho that (22) allows, if a user sends in all rounds."""
    training, least = scenario.training, noise_scale(scenario) * scenario.privacy.min_noise
    return 2 * training.rounds * (training.clip_norm / least) ** 2


def alternatives(privacy: "Privacy", error: float) -> str:
    """Suggest Vmax or Nmin, to two digits, with which a noise error in proportion to Nmin^2 satisfies (21)."""
    least = privacy.min_noise * sqrt(privacy.max_noise_error / error)
    return f"max_noise_error to {_rounded(error, ceil):g} or min_noise to {_rounded(least, floor):g}"


def _rounded(value: float, towards: Callable[[float], int]) -> float:
    """Round a positive value up or down to two significant digits.

    >>> _rounded(0.01234, ceil), _rounded(1234.0, floor)
    (0.013, 1200.0)
    """
    digits = 1 - floor(log10(value))
    return float(f"{towards(value * 10.0**digits)}e{-digits}")
