"""A device's utility (18), and the power and iterations that maximize it, Theorem 2."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import elementwise

from pwfl.systems.utility_fair import link
from pwfl.systems.utility_fair.link import Consumption, Limits
from pwfl.systems.utility_fair.parameters import UtilityFair


class Terms(NamedTuple):
    """Constants of a round's utility, and its limits, the same for all devices and rounds."""

    limits: Limits
    consumption: Consumption
    beta_2_j: float  # computing energy in which the predicted deviation falls by 1/e
    energy_scale_j: float  # varrho, the energy above which the energy term of (18) is a cost


def terms(scenario: UtilityFair) -> Terms:
    """Return the terms that a scenario sets."""
    device, shares = scenario.device, scenario.utility
    consumption = Consumption(device.computing_power_w, device.circuit_power_w, device.amplifier_efficiency)
    return Terms(link.limits(scenario.radio, device), consumption, shares.beta_2_j, shares.energy_scale_j)


def learning_gain(computing_j: np.ndarray, beta_1: np.ndarray, terms: Terms) -> np.ndarray:
    """Compute the first two terms of (18): the decrease of the deviation predicted by (16) after `computing_j` joules.

    beta_1 is the deviation predicted without any iteration.
    """
    return -beta_1 * np.expm1(-computing_j / terms.beta_2_j)


def utility(computing_j: np.ndarray, energy_j: np.ndarray, beta_1: np.ndarray, terms: Terms) -> np.ndarray:
    """Compute the utility (18) of a round with energy `energy_j` (13), `computing_j` of it for local iterations."""
    return learning_gain(computing_j, beta_1, terms) - energy_j * (energy_j - terms.energy_scale_j)


def best_z(unit_power_w: np.ndarray, beta_1: np.ndarray, terms: Terms) -> np.ndarray:
    """Compute Z* of Theorem 2, (26): the utility's maximum if iterations fill the deadline; NaN if Z_min > Z_max.

    (27) holds where the derivative of the utility by Z is zero. If computing draws at least as much power as the
    radio's circuit (`checks.consistent`), a larger Z costs more energy. So the derivative changes its sign at most
    once, from plus to minus: its root is the maximum. Arguments, as for `utility`, and result have one shape. Raises
    ArithmeticError if (27) is not solved.
    """
    limits, consumption, beta_2_j, energy_scale_j = terms
    unit_power_w, beta_1 = np.broadcast_arrays(np.asarray(unit_power_w, float), np.asarray(beta_1, float))
    low = np.full(unit_power_w.shape, link.least_z(limits))
    high = link.log_snr(limits.max_power_w, unit_power_w)

    def slope(z, unit_power_w, beta_1):
        """Compute the derivative by Z times Z^2 / (P_cp V ln 2 / B): right side of (27) minus the left."""
        computing_s = limits.deadline_s - link.transmit_s(z, limits)
        energy = link.energy_j(computing_s, z, unit_power_w, limits, consumption)
        # In (27), B b / ln 2 is a / rho, and B b c / ln 2 is P_cir - a / rho.
        radiated = unit_power_w / consumption.efficiency * ((z - 1) * np.exp(z) + 1)
        growth = 1 + (radiated - consumption.circuit_power_w) / consumption.computing_power_w
        learned = beta_1 / beta_2_j * np.exp(-computing_s * consumption.computing_power_w / beta_2_j)
        return learned - (2 * energy - energy_scale_j) * growth

    best = np.where(low <= high, high, np.nan)
    inside = np.flatnonzero(low <= high)
    args = unit_power_w.flat[inside], beta_1.flat[inside]
    ends = low.flat[inside], high.flat[inside]
    rises = [slope(z, *args) > 0 for z in ends]
    best.flat[inside[~rises[0]]] = ends[0][~rises[0]]
    between = rises[0] & ~rises[1]
    if between.any():
        root = elementwise.find_root(slope, tuple(z[between] for z in ends), args=tuple(a[between] for a in args))
        if not root.success.all():
            raise ArithmeticError(f"(27) could not be solved for unit powers {args[0][between][~root.success]} W")
        best.flat[inside[between]] = root.x
    return best


def beta_1_of(deviation: np.ndarray, computing_j: np.ndarray, beta_2_j: float) -> np.ndarray:
    """Compute beta_1, (17), for which (16) yields the observed deviation after computing for `computing_j` joules."""
    return deviation * np.exp(computing_j / beta_2_j)
