"""Path loss of 3GPP TR 38.901, of users outdoors: urban macro cells (UMa), urban micro cells in street canyons (UMi).

Tables 7.4.1-1 (path loss, shadow fading) and 7.4.2-1 (line of sight). Left out: penetration into buildings and
cars, the correlation of shadow fading and line of sight over distance (at most 50 m), small-scale fading.
"""

from typing import NamedTuple

import numpy as np

SPEED_OF_LIGHT = 3e8  # m/s, as the standard rounds it in the breakpoint distance
FREQUENCY_HZ = (0.5e9, 100e9)  # where the standard's path loss holds, as do the following
DISTANCE_M = (10.0, 5000.0)
USER_HEIGHT_M = (1.5, 22.5)
SURE_M = 18.0  # up to which there is line of sight for sure
TALL_M = 13.0  # height from which users see over buildings
ROOFS_M = np.array([12.0, 15.0, 18.0, 21.0])  # effective environment heights of theirs; the most is below the user's
CLEARANCE_M = 1.5  # by how much


class Environment(NamedTuple):
    """Numbers of an environment in the tables; distances in metres, the frequency in GHz."""

    station_height_m: float  # h_BS
    los_db: tuple[float, float]  # PL1 = a + b log10(d_3D) + 20 log10(f_c) up to the breakpoint; b is 40 beyond
    nlos_db: tuple[float, float, float, float]  # PL' = a + b log10(d_3D) + c log10(f_c) - d (h_UT - 1.5)
    shadowing_db: tuple[float, float]  # standard deviations of the shadow fading, with line of sight and without
    los_reach_m: float  # distance over which the probability of line of sight decays
    over_roofs: bool  # whether users above 13 m see over buildings


ENVIRONMENTS = {
    "uma": Environment(25.0, (28.0, 22.0), (13.54, 39.08, 20.0, 0.6), (4.0, 6.0), 63.0, over_roofs=True),
    "umi": Environment(10.0, (32.4, 21.0), (22.4, 35.3, 21.3, 0.3), (4.0, 7.82), 36.0, over_roofs=False),
}


def los_probability(environment: Environment, distance_m: np.ndarray, user_height_m: float) -> np.ndarray:
    """Probability of line of sight to an outdoor user at horizontal distances, Table 7.4.2-1."""
    near = SURE_M / np.maximum(distance_m, SURE_M)
    around = near + np.exp(-distance_m / environment.los_reach_m) * (1 - near)
    # A little beyond 18 m the standard's product is up to 1.006 for the tallest users.
    return np.minimum(around * (1 + _over_roofs(environment, distance_m, user_height_m)), 1.0)


def effective_height(
    environment: Environment, distance_m: np.ndarray, user_height_m: float, uniform: np.ndarray
) -> np.ndarray:
    """Height h_E of the environment over which the wave is reflected, metres, Note 1 of Table 7.4.1-1.

    1 m, but for users who may see over buildings: then, by chance, one of the heights of ROOFS_M (12 m, where their own
    height leaves none). `uniform` are numbers in (0, 1), of the distances' shape.
    """
    ground = 1 / (1 + _over_roofs(environment, distance_m, user_height_m))
    roofs = ROOFS_M[: max(1, np.searchsorted(ROOFS_M, user_height_m - CLEARANCE_M, side="right"))]
    # What a uniform number exceeds `ground` by is uniform again.
    chosen = len(roofs) * np.maximum(uniform - ground, 0) / np.where(ground < 1, 1 - ground, 1)
    return np.where(uniform < ground, 1.0, roofs[np.minimum(chosen.astype(int), len(roofs) - 1)])


def path_loss_db(
    environment: Environment,
    distance_m: np.ndarray,
    frequency_hz: float,
    user_height_m: float,
    line_of_sight: np.ndarray | bool,
    effective_height_m: np.ndarray | float = 1.0,
) -> np.ndarray:
    """Path loss without shadow fading, dB, Table 7.4.1-1, at horizontal distances.

    `line_of_sight` and `effective_height_m` (see `effective_height`) are of each distance. DISTANCE_M, FREQUENCY_HZ and
    USER_HEIGHT_M say where it holds.
    """
    station, frequency = environment.station_height_m, np.log10(frequency_hz / 1e9)
    higher = station - user_height_m
    distance = np.log10(np.hypot(distance_m, higher))
    heights = (station - effective_height_m) * (user_height_m - effective_height_m)
    breakpoint_m = 4 * heights * frequency_hz / SPEED_OF_LIGHT
    constant, slope = environment.los_db
    before = slope * distance
    bend = 20 - slope / 2  # 9 (UMa) and 9.5 (UMi): the branches meet at the breakpoint
    beyond = 40 * distance - bend * np.log10(breakpoint_m**2 + higher**2)
    los = constant + 20 * frequency + np.where(distance_m <= breakpoint_m, before, beyond)
    constant, slope, of_frequency, of_height = environment.nlos_db
    nlos = constant + slope * distance + of_frequency * frequency - of_height * (user_height_m - 1.5)
    return np.where(line_of_sight, los, np.maximum(los, nlos))


def shadowing_db(environment: Environment, line_of_sight: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Shadow fading, dB, from standard normal numbers of the links' shape."""
    return np.where(line_of_sight, *environment.shadowing_db) * normal


def _over_roofs(environment: Environment, distance_m: np.ndarray, user_height_m: float) -> np.ndarray:
    """C(d_2D, h_UT): how much more often users above 13 m have line of sight."""
    if not environment.over_roofs or user_height_m <= TALL_M:
        return np.zeros(np.shape(distance_m))
    often = 1.25 * (distance_m / 100) ** 3 * np.exp(-distance_m / 150)
    return ((user_height_m - TALL_M) / 10) ** 1.5 * np.where(distance_m > SURE_M, often, 0.0)
