"""Schedulers of the system `multicell`: Algorithms 2 and 3 of Tavangaran et al."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl.systems.multicell import assignment
from pwfl.systems.multicell.interference import Uplink, interference, occupants, rates
from pwfl.systems.multicell.intervals import each_interval, redrawn_blocks, turns
from pwfl.systems.multicell.power import powers
from pwfl.tables.arrays import to_array, to_table

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Multicell

KEYS = ("realization", "user")
RATE_TOLERANCE = 1e-6  # by which a rate may miss Rmin, relative


def run(scenario: "Multicell", scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Resource blocks, powers and rates of all realizations and intervals in the tables `users` and `links`.

    Powers (35) follow from the blocks, and users whose rate stays below Rmin lose theirs.

    Parameters
    ----------
    scheduler
        `random` (Algorithm 2: the start values' blocks) or `optimal` (Algorithm 3: each cell's program in turn).
    tables
        `users` and `links`.

    Raises
    ------
    reference.SolverError
        If a general solver gives up on a cell's program.
    ArithmeticError
        If powers cannot be found.
    """
    users = tables["users"]
    uplink = Uplink.of(scenario.radio, tables)
    realizations = users["realization"].unique().sort().to_list()
    intervals = range(tables["links"]["interval"].n_unique())
    turn = turns(scenario, realizations, len(intervals), uplink.cell.shape[1])
    start = start_blocks(users)
    if len(intervals) > 1:
        cell, load = to_array(users, "cell", *KEYS), loads(scenario, users)
        start = redrawn_blocks(scenario, realizations, cell, uplink.cells, turn, load).reshape(uplink.cell.shape)
    uplink = uplink.heard(turn.reshape(uplink.cell.shape))
    if scheduler == "random":
        block = start
        status = np.full((len(block), uplink.cells), "random", dtype=object)
    else:
        block, status = optimal_blocks(scenario, uplink, users, start)
    power = powers(uplink, block)
    lost = (block >= 0) & (rates(uplink, block, power) < uplink.min_rate_bps * (1 - RATE_TOLERANCE))
    final, power = np.where(lost, -1, block), np.where(lost, 0.0, power)
    each = {"resource_block": final, "power_w": power, "rate_bps": rates(uplink, final, power)}
    schedule = to_table(
        {"realization": realizations, "interval": intervals, "user": range(turn.shape[2])},
        turn=turn,
        **{name: values.reshape(turn.shape) for name, values in each.items()},
    )
    schedule = schedule.with_columns(pl.col("resource_block").replace(-1, None))
    member = uplink.cell[:, None] == np.arange(uplink.cells)[:, None]  # (realization, cell, user)
    programs = pl.DataFrame(
        {
            "realization": np.repeat(uplink.realizations, uplink.cells),
            "interval": np.tile(np.repeat(intervals, uplink.cells), len(realizations)),
            "cell": np.tile(np.arange(uplink.cells), len(block)),
            "status": status.ravel().tolist(),
            "users": member.sum(axis=2).ravel(),
            "scheduled": (member & (block >= 0)[:, None]).sum(axis=2).ravel(),
            "unscheduled": (member & lost[:, None]).sum(axis=2).ravel(),
        }
    )
    return {"schedule": schedule, "schedule_status": programs}


def start_blocks(users: pl.DataFrame) -> np.ndarray:
    """The start values' resource blocks, -1 for none, shape (realization, user)."""
    return to_array(users.with_columns(pl.col("start_resource_block").fill_null(-1)), "start_resource_block", *KEYS)


def loads(scenario: "Multicell", users: pl.DataFrame) -> np.ndarray:
    """What each user adds to (21) with its start noise, K_i (sigma_i^2 - Vmax), shape (realization, user)."""
    samples, noise_std = (to_array(users, name, *KEYS) for name in ("samples", "start_noise_std"))
    return samples * (noise_std**2 - scenario.privacy.max_noise_error)


def optimal_blocks(
    scenario: "Multicell", uplink: Uplink, users: pl.DataFrame, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of Algorithm 3: one cell's program after the other, the other cells as they are by then.

    `start` holds the resource blocks that cells have before, -1 for none, shape (realization, user).

    Returns
    -------
    block
        Each user's resource block, -1 for none, shape (realization, user).
    status
        How each cell's program ended, shape (realization, cell). One that is infeasible keeps its start values' blocks.
    """
    block, intervals = start.copy(), len(start) // users["realization"].n_unique()
    samples, noise_std = (to_array(users, name, *KEYS) for name in ("samples", "start_noise_std"))
    value = samples - scenario.schedule.gamma / (samples * noise_std) ** 2
    power_w, value, load = (
        each_interval(values, intervals)
        for values in (to_array(users, "start_power_w", *KEYS), value, loads(scenario, users))
    )
    required = uplink.sinr / uplink.max_power_w  # times disturbance over gain: the required power over Pmax
    count, cells = len(block), uplink.cells
    status = np.empty((count, cells), dtype=object)
    occupant = occupants(uplink, block)
    user, present = members(uplink.cell, cells)
    realization = np.arange(count)[:, None]
    scheduled_load = np.zeros((count, cells))
    np.add.at(scheduled_load, (realization, uplink.cell), np.where(block >= 0, load, 0.0))
    for s in range(cells):
        own, real = user[:, s], present[:, s]
        disturbance = interference(uplink.gain, power_w, occupant, s) + uplink.noise_w  # (realization, block)
        gain = np.where(real, uplink.gain[realization, s, own], 0.0)
        with np.errstate(divide="ignore"):
            fraction = required * disturbance[:, None] / gain[..., None]
        solution, status[:, s] = solve_cells(
            np.where(real, value[realization, own], 0.0),
            np.where(real, load[realization, own], 0.0),
            -np.delete(scheduled_load, s, axis=1).sum(axis=1),
            fraction,
            scenario.schedule.solver,
            where=lambda b, s=s: f"{uplink.row(b)}, cell {s}",
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


def solve_cells(
    value: np.ndarray, load: np.ndarray, budget: np.ndarray, fraction: np.ndarray, solver: str, where: Callable
) -> tuple[np.ndarray, np.ndarray]:
    """One cell's program in every realization, by the chosen solver; see `assignment.solve`.

    `where` says, of a realization's place in the arrays, what a message is about. Raises reference.SolverError.
    """
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
