"""Time and energy of a device's round, and limits on its power and iterations.

A link is described by its unit power a = sigma^2 Gamma / (kappa |h|^2 r^-alpha), the transmit power at which the SNR
equals the gap Gamma. At Z = ln(1 + P / a), it carries Z B / ln 2 bit/s, (9). Powers are in watts; a, Z and seconds may
be arrays of shapes that broadcast.
"""

from typing import NamedTuple

import numpy as np

from pwfl.radio.path_loss import link_gain
from pwfl.radio.units import dbm_to_w
from pwfl.systems.utility_fair.parameters import Device, Radio


class Limits(NamedTuple):
    """Limits of every round of every device."""

    transmit_nat_s: float  # V ln 2 / B: transmission time times Z
    deadline_s: float  # T
    iteration_s: float  # d tau, of one local iteration
    min_iterations: int  # j_min
    max_power_w: float  # P_max


class Consumption(NamedTuple):
    """Power consumption of a device."""

    computing_power_w: float  # P_cp
    circuit_power_w: float  # P_cir, while it transmits
    efficiency: float  # rho, of the amplifier


def limits(radio: Radio, device: Device) -> Limits:
    """Return the limits that the sections `radio` and `device` of a scenario set."""
    return Limits(
        transmit_nat_s=radio.update_bits * float(np.log(2)) / radio.bandwidth_hz,
        deadline_s=device.deadline_s,
        iteration_s=device.batch_size * device.sample_bits * device.seconds_per_bit,
        min_iterations=device.min_iterations,
        max_power_w=dbm_to_w(device.max_power_dbm),
    )


def path_gain(distance_m: np.ndarray | float, radio: Radio) -> np.ndarray:
    """Compute the power gain kappa r^-alpha of the path, kappa = (c / 4 pi f_c)^2, without fading."""
    return link_gain(distance_m, radio.frequency_hz, radio.path_loss_exponent)


def unit_power_w(gain: np.ndarray, radio: Radio) -> np.ndarray:
    """Compute the unit power a, in watts, of links with power gain kappa |h|^2 r^-alpha, `gain`."""
    bandwidth_hz = radio.bandwidth_hz if radio.noise == "thermal" else 1.0
    return dbm_to_w(radio.noise_density_dbm_hz) * bandwidth_hz * 10 ** (radio.snr_gap_db / 10) / gain


def log_snr(power_w: np.ndarray | float, unit_power_w: np.ndarray) -> np.ndarray:
    """Compute Z = ln(1 + P / a), the inverse of `power_w`."""
    return np.log1p(power_w / unit_power_w)


def power_w(z: np.ndarray | float, unit_power_w: np.ndarray) -> np.ndarray:
    """Compute the transmit power (25) in watts at Z."""
    return unit_power_w * np.expm1(z)


def transmit_s(z: np.ndarray, limits: Limits) -> np.ndarray:
    """Compute the transmission time (8) in seconds at Z."""
    return limits.transmit_nat_s / z


def energy_j(
    computing_s: np.ndarray, z: np.ndarray, unit_power_w: np.ndarray, limits: Limits, consumption: Consumption
) -> np.ndarray:
    """Compute the energy (13) in joules of local iterations that last `computing_s` and of a transmission at Z."""
    transmitting_w = power_w(z, unit_power_w) / consumption.efficiency + consumption.circuit_power_w
    return computing_s * consumption.computing_power_w + transmit_s(z, limits) * transmitting_w


def least_z(limits: Limits) -> float:
    """Compute Z_min, which leaves time for the minimum number of iterations on any link; infinite if none does."""
    left_s = limits.deadline_s - limits.min_iterations * limits.iteration_s
    return limits.transmit_nat_s / left_s if left_s > 0 else np.inf


def iterations(z: np.ndarray, limits: Limits) -> np.ndarray:
    """Compute the real number of local iterations for which a transmission at Z leaves time, (28), or at P_max (21)."""
    return (limits.deadline_s - transmit_s(z, limits)) / limits.iteration_s


def whole(iterations: np.ndarray) -> np.ndarray:
    """Round iterations down, int64; a number that rounding errors keep below an integer becomes that integer.

    Examples
    --------
    >>> whole(np.array([9.999, 10 - 1e-12, 10.5])).tolist()
    [9, 10, 10]
    """
    return np.floor(iterations + 1e-9).astype(np.int64)
