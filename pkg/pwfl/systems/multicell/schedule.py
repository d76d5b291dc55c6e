"""Schedulers of the system `multicell`: Algorithms 2 and 3 of Tavangaran et al."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl.radio.units import dbm_to_w
from pwfl.systems.multicell import assignment
from pwfl.systems.multicell.interference import interference, occupants, threshold
from pwfl.systems.multicell.power import powers
from pwfl.tables import to_array

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Multicell, Radio

KEYS = ("realization", "user")
RATE_TOLERANCE = 1e-6  # by which a rate may miss Rmin, relative


def run(scenario: "Multicell", scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Resource blocks, powers and rates of all realizations in the tables `users` and `links`.

    `scheduler` is `random` (Algorithm 2: the start values' blocks) or `optimal` (Algorithm 3: each
    cell's program in turn). Then powers (35), and users whose rate stays below Rmin lose their block.
    """
    users, radio = tables["users"], scenario.radio
    realizations = users["realization"].unique(maintain_order=True).to_list()
    cell = to_array(users, "cell", *KEYS)
    gain = to_array(tables["links"], "gain", "realization", "station", "user")
    start = to_array(users.with_columns(pl.col("start_resource_block").fill_null(-1)), "start_resource_block", *KEYS)
    blocks, cells = radio.resource_blocks, gain.shape[1]
    max_power, noise = dbm_to_w(radio.max_power_dbm), noise_power_w(radio)
    sinr = threshold(radio.min_rate_bps, radio.bandwidth_hz)

    if scheduler == "random":
        block, status = start, np.full((len(cell), cells), "random", dtype=object)
    else:
        block, status = optimal_blocks(
            start,
            cell,
            gain,
            samples=to_array(users, "samples", *KEYS),
            noise_std=to_array(users, "start_noise_std", *KEYS),
            power_w=to_array(users, "start_power_w", *KEYS),
            required=sinr / max_power,
            noise_w=noise,
            blocks=blocks,
            gamma=scenario.schedule.gamma,
            max_noise_error=scenario.privacy.max_noise_error,
            solver=scenario.schedule.solver,
            realizations=realizations,
        )
    occupant = occupants(block, cell, cells, blocks)
    power = powers(gain, cell, occupant, sinr, noise, max_power, realizations)
    rate = rates(gain, cell, block, power, occupant, noise, radio.bandwidth_hz)
    lost = (block >= 0) & (rate < radio.min_rate_bps * (1 - RATE_TOLERANCE))
    final = np.where(lost, -1, block)
    power = np.where(lost, 0.0, power)
    rate = rates(gain, cell, final, power, occupants(final, cell, cells, blocks), noise, radio.bandwidth_hz)

    schedule = users.select("realization", "user").with_columns(
        resource_block=pl.Series(final.ravel()).replace(-1, None),
        power_w=pl.Series(power.ravel()),
        rate_bps=pl.Series(rate.ravel()),
    )
    member = cell[:, None] == np.arange(cells)[:, None]  # (realization, cell, user)
    programs = pl.DataFrame(
        {
            "realization": np.repeat(realizations, cells),
            "cell": np.tile(np.arange(cells), len(cell)),
            "status": status.ravel().tolist(),
            "users": member.sum(axis=2).ravel(),
            "scheduled": (member & (block >= 0)[:, None]).sum(axis=2).ravel(),
            "unscheduled": (member & lost[:, None]).sum(axis=2).ravel(),
        }
    )
    return {"schedule": schedule, "schedule_status": programs}


def optimal_blocks(
    block,
    cell,
    gain,
    *,
    samples,
    noise_std,
    power_w,
    required,
    noise_w,
    blocks,
    gamma,
    max_noise_error,
    solver,
    realizations,
):
    """Blocks of Algorithm 3: one cell's program after the other, the other cells as they are by then.

    `block` (start values), `cell`, `samples`, `noise_std` and `power_w` (start values) have shape
    (realization, user), `gain` (realization, station, user); `required` times interference and
    noise over gain is the required power over Pmax; `realizations` are their numbers, for messages.
    Returns blocks, same shape, and statuses, shape (realization, cell). A cell whose program is
    infeasible keeps its blocks.
    """
    block = block.copy()
    value = samples - gamma / (samples * noise_std) ** 2
    load = samples * (noise_std**2 - max_noise_error)
    count, cells = gain.shape[:2]
    status = np.empty((count, cells), dtype=object)
    occupant = occupants(block, cell, cells, blocks)
    user, present = members(cell, cells)
    realization = np.arange(count)[:, None]
    scheduled_load = np.zeros((count, cells))
    np.add.at(scheduled_load, (realization, cell), np.where(block >= 0, load, 0.0))
    for s in range(cells):
        own, real = user[:, s], present[:, s]
        disturbance = interference(gain, power_w, occupant, s) + noise_w  # (realization, block)
        with np.errstate(divide="ignore"):
            fraction = required * disturbance[:, None] / np.where(real, gain[realization, s, own], 0.0)[..., None]
        solution, status[:, s] = solve_cells(
            np.where(real, value[realization, own], 0.0),
            np.where(real, load[realization, own], 0.0),
            -np.delete(scheduled_load, s, axis=1).sum(axis=1),
            fraction,
            solver,
            where=lambda b, s=s: f"realization {realizations[b]}, cell {s}",
        )
        solved = (status[:, s] != assignment.INFEASIBLE_KEPT)[:, None] & real
        rows, columns = np.nonzero(solved)
        block[rows, own[rows, columns]] = solution[rows, columns]
        occupant[rows, s] = -1
        scheduled_load[rows, s] = 0.0
        rows, columns = np.nonzero(solved & (solution >= 0))
        served = own[rows, columns]
        occupant[rows, s, solution[rows, columns]] = served
        np.add.at(scheduled_load, (rows, s), load[rows, served])
    return block, status


def solve_cells(value, load, budget, fraction, solver, where):
    """One cell's program in every realization, by the chosen solver; see `assignment.solve`."""
    if solver == "assignment":
        return assignment.solve(value, load, budget, fraction)
    from pwfl.systems.multicell import reference

    block = np.full(value.shape, -1)
    status = np.full(len(value), assignment.INTEGER_PROGRAM, dtype=object)
    for b in range(len(value)):
        try:
            solution = reference.solve(value[b], load[b], budget[b], fraction[b], solver)
        except reference.SolverError as error:
            raise reference.SolverError(f"{where(b)}: {error}") from None
        if solution is None:
            status[b] = assignment.INFEASIBLE_KEPT
        else:
            block[b] = solution
    return block, status


def members(cell: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Users of each cell, padded to the largest number of them; and which are real.

    `cell` has shape (realization, user); the results have shape (realization, cell, member).
    """
    realization = np.arange(len(cell))[:, None]
    size = np.bincount((realization * cells + cell).ravel(), minlength=len(cell) * cells).reshape(-1, cells, 1)
    position = np.arange(max(int(size.max()), 1))
    order = np.argsort(cell, axis=1, kind="stable")
    place = np.minimum(size.cumsum(axis=1) - size + position, cell.shape[1] - 1)
    return order[realization[..., None], place], position < size


def rates(gain, cell, block, power_w, occupant, noise_w, bandwidth_hz) -> np.ndarray:
    """Uplink rates (18) of the scheduled users, bit/s, shape (realization, user); 0 for the others."""
    cells = gain.shape[1]
    disturbance = np.stack([interference(gain, power_w, occupant, s) for s in range(cells)], axis=1) + noise_w
    realization, user = np.nonzero(block >= 0)
    station = cell[realization, user]
    signal = power_w[realization, user] * gain[realization, station, user]
    rate = np.zeros(power_w.shape)
    sinr = signal / disturbance[realization, station, block[realization, user]]
    rate[realization, user] = bandwidth_hz / np.log(2) * np.log1p(sinr)
    return rate


def noise_power_w(radio: "Radio") -> float:
    """Thermal noise B N0 in a resource block, watts."""
    return dbm_to_w(radio.noise_density_dbm_hz) * radio.bandwidth_hz
