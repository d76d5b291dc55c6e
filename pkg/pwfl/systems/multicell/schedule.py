"""Schedulers of the system `multicell`: Algorithms 2 and 3 of Tavangaran et al."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.process import user_code
from pwfl.radio.units import db_to_ratio
from pwfl.systems.multicell import assignment, objective, start_values
from pwfl.systems.multicell.beyond.intervals import planned, redrawn_blocks
from pwfl.systems.multicell.interference import Uplink, interference, members, occupants, rates
from pwfl.systems.multicell.parameters import Multicell
from pwfl.systems.multicell.power import powers
from pwfl.systems.multicell.schemes import SCHEDULERS
from pwfl.systems.multicell.start_values import StartValues
from pwfl.tables.arrays import to_array, to_table

KEYS = ("realization", "user")
RATE_TOLERANCE = 1e-6  # relative amount by which a rate may miss Rmin


class Now(NamedTuple):
    """An interval and those before it, for a user-defined scheduler that has a parameter `now`."""

    interval: int  # its number, from 0
    block: np.ndarray  # of users in earlier intervals, -1: did not send; (interval, realization, user), as below
    power_w: np.ndarray
    rate_bps: np.ndarray
    assigned_block: np.ndarray  # as the function returned it, before users below the minimum rate lost theirs
    kept: object  # what the function returned with its blocks in the previous interval; None at first
    generators: tuple[np.random.Generator, ...]  # one per realization, for this interval

    @classmethod
    def build(cls, seed: int, realizations: list[int], users: int, before: list[dict], kept: object) -> "Now":
        """Build the interval that follows the schedules `before`."""
        names = ("resource_block", "power_w", "rate_bps", "assigned_block")
        shape = (len(before), len(realizations), users)
        past = [np.array([column[name] for column in before]).reshape(shape) for name in names]
        generators = user_code.generators(seed, f"schedule/{len(before)}", realizations)
        return cls(len(before), *past, kept, generators)


def run(scenario: Multicell, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Compute resource blocks, powers and rates of all realizations and intervals in the tables `users` and `links`.

    Returns the tables `schedule`, `schedule_status` and `start_values` (`start_values.drawn`).

    `scheduler` is one of `schemes.SCHEDULERS`, or the name of a user-defined function (`user_blocks`). Powers (35)
    follow from the blocks, and users with a rate below Rmin lose theirs. Raises StartValueError if no start values
    satisfy (21), and reference.SolverError or ArithmeticError if a solver fails for a cell's program or for powers.
    """
    users, channels = tables["users"], tables["links"].partition_by("interval", maintain_order=True)
    samples, cell = (to_array(users, name, *KEYS) for name in ("samples", "cell"))
    realizations = users["realization"].unique().sort().to_list()
    first = start = start_values.drawn(scenario, realizations, cell, samples, tables["links"]["station"].n_unique())
    load = start_load(scenario, samples, first)
    most = planned(scenario.privacy, len(channels))
    sent = np.zeros(load.shape, int)  # number of intervals so far
    results, kept = [], None
    for interval, links in enumerate(channels):
        able = sent < most
        uplink = Uplink.from_tables(scenario.radio, users, links)
        uplink = replace(uplink, gain=np.where(able[:, None], uplink.gain, 0.0))  # without gain, a user gets no block
        if interval > 0:
            block = redrawn_blocks(scenario.seed, interval, uplink, np.where(able, load, np.inf))
            start = first._replace(block=block)
        chosen = None
        if user_code.is_reference(scheduler):
            now = Now.build(scenario.seed, realizations, load.shape[1], [before for before, _ in results], kept)
            chosen, kept = user_blocks(scenario, scheduler, uplink, users, start, now)
        results.append(schedule_interval(scenario, scheduler, interval, uplink, users, start, chosen))
        sent += results[-1][0]["resource_block"] >= 0
    schedule, programs = (
        {name: np.stack([result[k][name] for result in results], axis=1) for name in results[0][k]} for k in range(2)
    )
    keys = {"realization": realizations, "interval": range(len(results))}
    schedule = to_table(keys | {"user": range(load.shape[1])}, **schedule)
    programs = to_table(keys | {"cell": range(uplink.cells)}, **programs)
    return {
        "schedule": schedule.with_columns(pl.col("resource_block", "assigned_block").replace(-1, None)),
        "schedule_status": programs.with_columns(pl.col("status").cast(pl.String)),
        "start_values": start_values.table(first, realizations),
    }


def schedule_interval(
    scenario: Multicell,
    scheduler: str,
    interval: int,
    uplink: Uplink,
    users: pl.DataFrame,
    start: StartValues,
    chosen: np.ndarray | None,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Compute an interval's schedule and powers, arrays (realization, user), and statuses of cells (realization, cell).

    `start` contains the blocks from which schedulers start in this interval. `chosen` are the blocks by a user-defined
    function; None: `scheduler` is one of SCHEDULERS.
    """
    samples, on_air = to_array(users, "samples", *KEYS), False
    if chosen is not None:
        block, status = chosen, np.full((len(samples), uplink.cells), "own", dtype=object)
    else:
        on_air = SCHEDULERS[scheduler].on_air
        block, status = SCHEDULERS[scheduler].load()(scenario, interval, uplink, samples, start)
    if on_air:  # powers and rates follow from what users send
        final, power, rate = block, np.zeros(block.shape), np.zeros(block.shape)
        final_power, lost = power, np.zeros(block.shape, bool)
    else:
        power = powers(uplink, block)
        lost = (block >= 0) & (rates(uplink, block, power) < uplink.min_rate_bps * (1 - RATE_TOLERANCE))
        final, final_power = np.where(lost, -1, block), np.where(lost, 0.0, power)
        rate = rates(uplink, final, final_power)
    schedule = {
        "resource_block": final,
        "power_w": final_power,
        "rate_bps": rate,
        "assigned_block": block,
        "assigned_power_w": power,
    }
    member = uplink.cell[:, None] == np.arange(uplink.cells)[:, None]  # (realization, cell, user)
    programs = {
        "status": status,
        "users": member.sum(axis=2),
        "assigned": (member & (block >= 0)[:, None]).sum(axis=2),
        "unscheduled": (member & lost[:, None]).sum(axis=2),
    }
    return schedule, programs


def take_start_blocks(
    scenario: Multicell, interval: int, uplink: Uplink, samples: np.ndarray, start: StartValues
) -> tuple[np.ndarray, np.ndarray]:
    """Return the resource blocks of Algorithm 2, which are those of the start values, and each cell's status."""
    return start.block, np.full((len(samples), uplink.cells), "random", dtype=object)


def invert_channels(
    scenario: Multicell, interval: int, uplink: Uplink, samples: np.ndarray, start: StartValues
) -> tuple[np.ndarray, np.ndarray]:
    """Assign block 0, on air, to all users with a gain to their base station of at least `schedule.least_gain_db`."""
    gain = np.take_along_axis(uplink.gain, uplink.cell[:, None], axis=1)[:, 0]
    block = np.where(gain >= db_to_ratio(scenario.schedule.least_gain_db), 0, -1)
    return block, np.full((len(samples), uplink.cells), "inversion", dtype=object)


def start_load(scenario: "Multicell", samples: np.ndarray, start: StartValues) -> np.ndarray:
    """Compute each user's load in (21) at the start values' noise, 0 if (21) is not required, (realization, user)."""
    if not scenario.bounded:
        return np.zeros(samples.shape)
    return objective.load(samples, start.noise_std, scenario.privacy.max_noise_error)


def user_blocks(
    scenario: Multicell, scheduler: str, uplink: Uplink, users: pl.DataFrame, start: StartValues, now: Now
) -> tuple[np.ndarray, object]:
    """Call a user-defined scheduler with scenario, uplink, the table `users` and the start values' blocks.

    It also gets `now` if it has a parameter of this name. It returns its blocks, or a pair of them and an object for
    the next interval. The result here is that pair, with None if there is no object.

    The table also contains the start powers and noise (`start_power_w`, `start_noise_std`). Blocks are those of users,
    -1 for none, shape (realization, user), as from `optimal_blocks`. A user with gain 0 to its base station gets none.
    Raises UserCodeError for an invalid schedule, for example with two users of a cell on a block.
    """
    users = users.with_columns(
        start_power_w=pl.Series(start.power_w.ravel()),
        start_noise_std=pl.Series(start.noise_std.ravel(), nan_to_null=True),
    )
    block = user_code.call(scheduler, scenario, uplink, users, start.block, reads=scenario.own.reads, now=now)
    block, kept = user_code.split_kept(scheduler, block, len(start.block))
    block = user_code.array(scheduler, block)
    if block.shape != start.block.shape or block.dtype.kind not in "iu":
        raise user_code.UserCodeError(
            f"{scheduler}: returns {block.dtype} of shape {block.shape}; must return each user's resource block, or "
            f"-1 for none: integers of shape {start.block.shape}, realizations by users"
        )
    if (wrong := (block < -1) | (block >= uplink.blocks)).any():
        row, user = np.argwhere(wrong)[0]
        raise user_code.UserCodeError(
            f"{scheduler}: gives user {user} of realization {uplink.realizations[row]} the resource block "
            f"{block[row, user]}; must be 0 to {uplink.blocks - 1}, or -1 for none"
        )
    row, user = np.nonzero(block >= 0)
    sharing = occupants(uplink, block)[row, uplink.cell[row, user], block[row, user]]
    if (twice := np.flatnonzero(sharing != user)).size:
        k = twice[0]
        raise user_code.UserCodeError(
            f"{scheduler}: gives users {user[k]} and {sharing[k]} of realization {uplink.realizations[row[k]]}, both "
            f"of cell {uplink.cell[row[k], user[k]]}, the same resource block {block[row[k], user[k]]}; a cell's "
            "block serves one user"
        )
    reachable = np.take_along_axis(uplink.gain, uplink.cell[:, None], axis=1)[:, 0] > 0
    return np.where(reachable, block, -1), kept


def optimal_blocks(
    scenario: Multicell, interval: int, uplink: Uplink, samples: np.ndarray, start: StartValues
) -> tuple[np.ndarray, np.ndarray]:
    """Assign blocks by Algorithm 3: solve one cell's program after the other, given the present blocks of other cells.

    `samples` K_i have shape (realization, user). Returns each user's block, -1 for none, of the same shape, and the
    status of each cell's program, shape (realization, cell). A cell with an infeasible program keeps its start blocks.
    """
    block, power_w = start.block.copy(), start.power_w
    value = objective.value(samples, start.noise_std, scenario.schedule.gamma)
    load = objective.load(samples, start.noise_std, scenario.privacy.max_noise_error)
    required = uplink.sinr / uplink.max_power_w  # times disturbance over gain, this is the required power over Pmax
    count, cells = len(block), uplink.cells
    status = np.empty((count, cells), dtype=object)
    user, present = members(uplink.cell, cells)
    realization = np.arange(count)[:, None]
    for s in range(cells):
        mine, real = user[:, s], present[:, s]
        received = interference(uplink.gain, power_w, occupants(uplink, block), s)
        disturbance = received + uplink.noise_w  # (realization, block)
        others_load = np.where((block >= 0) & (uplink.cell != s), load, 0.0).sum(axis=1)
        gain = np.where(real, uplink.gain[realization, s, mine], 0.0)
        with np.errstate(divide="ignore"):
            fraction = required * disturbance[:, None] / gain[..., None]
        solution, status[:, s] = solve_cells(
            np.where(real, value[realization, mine], 0.0),
            np.where(real, load[realization, mine], 0.0),
            -others_load,
            fraction,
            scenario.schedule.solver,
            where=lambda b, s=s: f"realization {uplink.realizations[b]}, cell {s}",
        )
        rows, columns = np.nonzero((status[:, s] != assignment.INFEASIBLE_KEPT)[:, None] & real)
        block[rows, mine[rows, columns]] = solution[rows, columns]
    return block, status


def solve_cells(
    value: np.ndarray, load: np.ndarray, budget: np.ndarray, fraction: np.ndarray, solver: str, where: Callable
) -> tuple[np.ndarray, np.ndarray]:
    """Solve one cell's program in every realization, by the chosen solver; see `assignment.solve`.

    `where(index)` names realization and cell for a message. Raises reference.SolverError.
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
