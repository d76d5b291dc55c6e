"""Schedulers of the system `utility_fair`: each device's limits and power in each round.

A device that maximizes its utility needs results of the previous round, so the stage `train` chooses its power.
"""

from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.process import user_code
from pwfl.systems.utility_fair import link
from pwfl.systems.utility_fair.parameters import UtilityFair
from pwfl.systems.utility_fair.schemes import SCHEDULERS
from pwfl.tables.arrays import joined, to_array, to_table

KEYS = ("realization", "round", "device")
TOLERANCE = 1e-9  # relative excess over its limits that a function's power may have


class Uplink(NamedTuple):
    """Devices' limits in a round, for a user-defined scheduler; arrays of shape (realization, device)."""

    gain: np.ndarray
    min_power_w: np.ndarray  # (20), with which the least number of iterations fits
    max_power_w: float
    max_iterations: np.ndarray  # (21), at full power
    able: np.ndarray  # whether P_min is at most P_max; other devices do not take part


def run(scenario: UtilityFair, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Compute limits (20), (21) and power of each device and round in the table `links`, and the status of devices.

    `scheduler` is one of `schemes.SCHEDULERS`, or the name of a user-defined function (`user_powers`). Values chosen in
    training are null. A device that saves effort transmits at P_min, whatever the scheduler. A device that cannot
    compute the minimum number of iterations does not take part in the round.
    """
    limits = link.limits(scenario.radio, scenario.device)
    links, users = tables["links"], tables["users"].select("realization", "device", "path_loss_db")
    unit = link.unit_power_w(links["gain"].to_numpy(), scenario.radio)
    z = link.log_snr(limits.max_power_w, unit)
    takes_part = z >= link.least_z(limits)
    saves = pl.col("device") < scenario.network.savers
    saving = links.select(saves).to_series().to_numpy()
    with np.errstate(over="ignore", divide="ignore"):
        least = link.power_w(link.least_z(limits), unit)
        most = link.whole(np.maximum(link.iterations(z, limits), 0))
        if by_function := user_code.is_reference(scheduler):
            can = links.with_columns(min_power_w=least, max_iterations=most, able=takes_part)
            chosen = user_powers(scenario, scheduler, tables["users"], can, limits.max_power_w)
            takes_part = takes_part & (saving | (chosen > 0))
        else:
            chosen = np.nan if SCHEDULERS[scheduler].decides_in_training else limits.max_power_w
        power = np.where(takes_part, np.where(saving, least, chosen), 0.0)
        decided, iterations = takes_part & ~np.isnan(power), np.where(takes_part, np.nan, 0.0)
        sent_at = link.log_snr(power[decided], unit[decided])
        iterations[decided] = link.whole(link.iterations(sent_at, limits))
        schedule = links.select("realization", "round", "device").with_columns(
            unit_power_w=unit,
            min_power_w=least,
            max_iterations=most,
            takes_part=takes_part,
            power_w=pl.Series(power, nan_to_null=True),
            iterations=pl.Series(iterations, nan_to_null=True),
        )
    sits_out = ~pl.col("takes_part")
    devices = schedule.group_by("realization", "device", maintain_order=True)
    status = joined(users, devices.agg(rounds_out=sits_out.sum(), always=sits_out.all()), "realization", "device")
    ended = pl.when("always").then(pl.lit("always_out")).when(saves).then(pl.lit("least_effort"))
    ended = ended.otherwise(pl.lit("own" if by_function else SCHEDULERS[scheduler].statuses[0]))
    return {"schedule": schedule, "schedule_status": status.with_columns(status=ended)}


def user_powers(
    scenario: UtilityFair, scheduler: str, users: pl.DataFrame, can: pl.DataFrame, max_power_w: float
) -> np.ndarray:
    """Compute powers of the rows of `can` by a user-defined function, called once per round; 0: no participation.

    The function gets the scenario, the round's `Uplink`, the table `users`, and `now` (`user_code.Now`, of powers) if
    it has a parameter of this name. It returns each device's power in W, shape (realization, device), from P_min to
    P_max or 0; or a pair of these and an object to keep. A device that is not able has power 0 in any case. Raises
    UserCodeError for other results.
    """
    names = ("gain", "min_power_w", "max_iterations", "able")
    gain, least, most, able = (to_array(can, name, *KEYS) for name in names)
    realizations, (_, rounds, devices) = users["realization"].unique().sort().to_list(), gain.shape
    free = np.arange(devices) >= scenario.network.savers  # the other devices save effort

    def sent(t: int, power: np.ndarray) -> np.ndarray:
        what = "each device's power in W, 0 for a device that does not take part, realizations by devices"
        power = user_code.array_of(scheduler, power, able[:, t].shape, what)
        low, high = least[:, t] * (1 - TOLERANCE), max_power_w * (1 + TOLERANCE)
        wrong = able[:, t] & free & (power != 0) & ~((power >= low) & (power <= high))
        if wrong.any():
            row, device = np.argwhere(wrong)[0]
            raise user_code.UserCodeError(
                f"{scheduler}: gives device {device} of realization {realizations[row]} {power[row, device]:g} W in "
                f"round {t + 1}; must be 0, or from min_power_w, {least[row, t, device]:.4g}, to {max_power_w:g}"
            )
        power = np.where(power > 0, np.clip(power, least[:, t], max_power_w), 0.0)
        return np.where(able[:, t], np.where(free, power, least[:, t]), 0.0)

    arguments = (
        (scenario, Uplink(gain[:, t], least[:, t], max_power_w, most[:, t], able[:, t].astype(bool)), users)
        for t in range(rounds)
    )
    power = user_code.round_by_round(scheduler, arguments, sent, scenario.seed, realizations, scenario.own.reads)
    keys = {"realization": realizations, "round": range(1, rounds + 1), "device": range(devices)}
    rows = can.select(KEYS).join(to_table(keys, power_w=power), on=KEYS, how="left", maintain_order="left")
    return rows["power_w"].to_numpy()
