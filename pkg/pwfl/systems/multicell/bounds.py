"""What the bounds (21) and (22) on the noise come to in a scenario's rounds, at its clipping norm."""

from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pwfl.systems.multicell.parameters import Multicell

PAPER_CLIP_NORM, PAPER_ROUNDS = 10.0, 200  # L and T of Table I, which its bounds (21) and (22) are given for


def noise_scale(scenario: "Multicell") -> float:
    """Noise over that which the bounds (21) and (22) are of, and the objective (20)."""
    if scenario.privacy.bounds == "noise":
        return 1.0
    return scenario.training.clip_norm / PAPER_CLIP_NORM * sqrt(scenario.training.rounds / PAPER_ROUNDS)


def leakage_bound(scenario: "Multicell") -> float:
    """The largest rho that (22) allows, if a user sends in all rounds."""
    training, least = scenario.training, noise_scale(scenario) * scenario.privacy.min_noise
    return 2 * training.rounds * (training.clip_norm / least) ** 2
