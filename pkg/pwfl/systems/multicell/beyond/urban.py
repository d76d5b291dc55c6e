"""Path loss of 3GPP TR 38.901 for users outdoors: urban macro cells (UMa), urban micro cells in street canyons (UMi).

Tables 7.4.1-1 (path loss, shadow fading) and 7.4.2-1 (line of sight). Not modelled: penetration into buildings and
cars, the correlation of shadow fading and line of sight over distance (at most 50 m), small-scale fading. Users are
1.5 m high.
"""

from typing import NamedTuple

import numpy as np

SPEED_OF_LIGHT = 3e8  # m/s, as the standard rounds it in the breakpoint distance
FREQUENCY_HZ = (0.5e9, 100e9)  # range in which the standard's path loss holds, as the next
DISTANCE_M = (10.0, 5000.0)
USER_HEIGHT_M = 1.5  # the standard's minimum; users who see over buildings are at 13 m or more
SURE_M = 18.0  # distance up to which line of sight is certain
ENVIRONMENT_HEIGHT_M = 1.0  # of the reflecting plane (Note 1 of Table 7.4.1-1)


class Environment(NamedTuple):
    """Parameters of an environment in the tables; distances in metres, the frequency in GHz."""

    station_height_m: float  # h_BS
    los_db: tuple[float, float]  # PL1 = a + b log10(d_3D) + 20 log10(f_c) up to the breakpoint; b is 40 beyond
    nlos_db: tuple[float, float, float]  # PL' = a + b log10(d_3D) + c log10(f_c), at 1.5 m
    shadowing_db: tuple[float, float]  # standard deviations of the shadow fading, with line of sight and without
    los_reach_m: float  # distance over which the probability of line of sight decays


ENVIRONMENTS = {
    "uma": Environment(25.0, (28.0, 22.0), (13.54, 39.08, 20.0), (4.0, 6.0), 63.0),
    "umi": Environment(10.0, (32.4, 21.0), (22.4, 35.3, 21.3), (4.0, 7.82), 36.0),
}


def los_probability(environment: Environment, distance_m: np.ndarray) -> np.ndarray:
    """Compute the probability of line of sight to an outdoor user at horizontal distances, Table 7.4.2-1."""
    near = SURE_M / np.maximum(distance_m, SURE_M)
    return near + np.exp(-distance_m / environment.los_reach_m) * (1 - near)


def path_loss_db(
    environment: Environment, distance_m: np.ndarray, frequency_hz: float, line_of_sight: np.ndarray | bool
) -> np.ndarray:
    """Compute path loss without shadow fading, dB, Table 7.4.1-1, at horizontal distances with `line_of_sight` or not.

    It holds in the ranges DISTANCE_M and FREQUENCY_HZ.
    """
    station, frequency = environment.station_height_m, np.log10(frequency_hz / 1e9)
    higher = station - USER_HEIGHT_M
    distance = np.log10(np.hypot(distance_m, higher))
    heights = (station - ENVIRONMENT_HEIGHT_M) * (USER_HEIGHT_M - ENVIRONMENT_HEIGHT_M)
    breakpoint_m = 4 * heights * frequency_hz / SPEED_OF_LIGHT
    constant, slope = environment.los_db
    before = slope * distance
    bend = 20 - slope / 2  # 9 (UMa) and 9.5 (UMi): the branches meet at the breakpoint
    beyond = 40 * distance - bend * np.log10(breakpoint_m**2 + higher**2)
    los = constant + 20 * frequency + np.where(distance_m <= breakpoint_m, before, beyond)
    constant, slope, frequency_slope = environment.nlos_db
    nlos = constant + slope * distance + frequency_slope * frequency
    return np.where(line_of_sight, los, np.maximum(los, nlos))


def shadowing_db(environment: Environment, line_of_sight: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Compute shadow fading, dB, from standard normal numbers of the links' shape."""
    return np.where(line_of_sight, *environment.shadowing_db) * normal
