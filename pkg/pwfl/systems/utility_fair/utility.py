"""A device's utility (18), and the power and iterations that maximize it, Theorem 2."""

import numpy as np
from scipy.optimize import elementwise

from pwfl.systems.utility_fair import link
from pwfl.systems.utility_fair.link import Consumption, Limits


def utility(
    computing_s: np.ndarray,
    z: np.ndarray,
    unit_power_w: np.ndarray,
    beta_1: np.ndarray,
    beta_2_j: float,
    energy_scale_j: float,
    limits: Limits,
    consumption: Consumption,
) -> np.ndarray:
    """Utility (18) of computing for some seconds and transmitting at Z; `energy_scale_j` is its varrho."""
    energy = link.energy_j(computing_s, z, unit_power_w, limits, consumption)
    deviation = beta_1 * np.exp(-computing_s * consumption.computing_power_w / beta_2_j)
    return beta_1 - deviation - energy * (energy - energy_scale_j)


def best_z(
    unit_power_w: np.ndarray,
    beta_1: np.ndarray,
    beta_2_j: float,
    energy_scale_j: float,
    limits: Limits,
    consumption: Consumption,
) -> np.ndarray:
    """Z* of Theorem 2, (26), for links and beta_1 of one shape; NaN where Z_min exceeds Z_max.

    With iterations that fill the deadline, (27) is where the derivative of the utility by Z vanishes. As
    long as computing draws no less power than the radio's circuit (the scenario sees to that), more Z costs
    more energy, so the derivative changes its sign at most once, from plus to minus: its root is the maximum.
    """
    unit_power_w, beta_1 = np.broadcast_arrays(np.asarray(unit_power_w, float), np.asarray(beta_1, float))
    low = np.full(unit_power_w.shape, link.least_z(limits))
    high = link.log_snr(limits.max_power_w, unit_power_w)

    def slope(z, unit_power_w, beta_1):
        """The derivative by Z times Z^2 / (P_cp V ln 2 / B): right side of (27) minus the left."""
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
        found = elementwise.find_root(slope, tuple(z[between] for z in ends), args=tuple(a[between] for a in args))
        if not found.success.all():
            raise ArithmeticError(f"(27) was not solved for unit powers {args[0][between][~found.success]} W")
        best.flat[inside[between]] = found.x
    return best


def beta_1_of(deviation: np.ndarray, computing_j: np.ndarray, beta_2_j: float) -> np.ndarray:
    """beta_1 with which (16) yields the deviation seen after computing for `computing_j` joules, (17)."""
    return deviation * np.exp(computing_j / beta_2_j)
