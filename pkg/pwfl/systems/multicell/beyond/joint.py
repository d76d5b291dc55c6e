"""The schedulers of all cells together: from empty blocks, with exact admission.

Cell after cell chooses the users of most worth among those who can enter its blocks, until nothing changes. No choice
lowers the total worth. If (21) is violated, users of least worth per load leave. Then single changes follow for as long
as one raises the value. If the value does not reach the bound, searches clear some blocks, fill them again, and
continue in the same way.
"""

import numpy as np

from pwfl.systems.multicell import assignment, objective
from pwfl.systems.multicell.beyond.admission import Blocks, signal_to_noise
from pwfl.systems.multicell.beyond.bound import least_proven, upper_bound
from pwfl.systems.multicell.beyond.intervals import uniforms
from pwfl.systems.multicell.beyond.problem import ChosenNoise, GivenNoise, Problem
from pwfl.systems.multicell.interference import Uplink, members
from pwfl.systems.multicell.parameters import Multicell
from pwfl.systems.multicell.start_values import StartValues

SEARCHES = 32  # per realization that is not proven optimal
SWEEPS = 10  # at most; few realizations need more than two
SIDE_BY_SIDE = 8  # searches that start from the same schedule
CLEARED = 3  # blocks that a search clears
SPREAD = 0.3  # largest relative difference of a search's multiplier from the bound's
LEAST_GAIN = 1e-12  # smallest relative gain of value, above rounding
ROUNDING = 1e-9  # relative rounding error of the excess over (21)


def maximize_value(
    scenario: Multicell, interval: int, uplink: Uplink, samples: np.ndarray, start: StartValues
) -> tuple[np.ndarray, np.ndarray]:
    """Find blocks that maximize the schedule's value at the start values' noise, and each cell's status."""
    privacy = scenario.privacy
    problem = GivenNoise.build(samples, start.noise_std, scenario.schedule.gamma, privacy.max_noise_error)
    return _solve(scenario, interval, uplink, problem)


def maximize_value_with_noise(
    scenario: Multicell, interval: int, uplink: Uplink, samples: np.ndarray, start: StartValues
) -> tuple[np.ndarray, np.ndarray]:
    """Find blocks that maximize the schedule's value at the optimal noise (36), and each cell's status."""
    privacy = scenario.privacy
    problem = ChosenNoise(samples, scenario.schedule.gamma, privacy.max_noise_error, privacy.min_noise)
    return _solve(scenario, interval, uplink, problem)


def maximize_snr(
    scenario: Multicell, interval: int, uplink: Uplink, samples: np.ndarray, start: StartValues
) -> tuple[np.ndarray, np.ndarray]:
    """Find blocks that maximize the sum of K_i^2 if the least noise satisfies (21), and each cell's status.

    With weights K_i^2 rho_i, the aggregate has the largest signal-to-noise ratio; its square is in proportion to their
    sum. If all users have the same rho, that is in proportion to the sum of K_i^2. In a sum of uploads, the ratio is
    its records times sqrt(rho); if observers see sums, the sum of K_i is therefore maximized.
    """
    privacy = scenario.privacy
    worth = samples ** (2.0 if privacy.observer == "user" else 1.0)
    load = objective.least_load(samples, privacy.max_noise_error, privacy.min_noise)
    return _solve(scenario, interval, uplink, GivenNoise(worth, load))


def _solve(scenario: Multicell, interval: int, uplink: Uplink, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Find blocks by `joint_blocks`, and each cell's status, `proven` or `searched`."""
    purpose = "schedule" if interval == 0 else f"schedule/{interval}"
    shape = (SEARCHES, uplink.cells + uplink.blocks + 1)
    block, proven = joint_blocks(uplink, problem, uniforms(scenario.seed, purpose, uplink.realizations, shape))
    status = np.where(proven, "proven", "searched").astype(object)
    return block, np.repeat(status[:, None], uplink.cells, axis=1)


def joint_blocks(uplink: Uplink, problem: Problem, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find blocks that maximize the schedule's value, by sweeps and searches.

    All users on a block reach the rate Rmin with powers up to Pmax, and (21) holds. `problem` has the uplink's
    realizations and users. `draws` are uniform numbers for each search, shape (realization, search, cells + blocks +
    1). Returns each user's block, -1 for none, shape (realization, user), and whether the schedule is proven optimal
    (`bound.least_proven`), shape (realization,).
    """
    bound, multiplier = upper_bound(uplink, problem)
    limit = least_proven(bound)
    network = _Network(uplink)
    worth, _ = problem.priced(multiplier)
    user = within_budget(problem, worth, network.swept(worth, limit))
    user, value = network.improved(problem, multiplier, limit, np.arange(len(user)), user)
    for first in range(0, draws.shape[1], SIDE_BY_SIDE):
        rows = np.flatnonzero(value < limit)
        if not rows.size:
            break
        trials = draws[rows, first : first + SIDE_BY_SIDE]
        blocks, best = network.searched(problem.rows(rows), multiplier[rows], limit[rows], rows, user[rows], trials)
        kept = best >= value[rows]
        user[rows[kept]], value[rows[kept]] = blocks[kept], best[kept]
    block = np.full(uplink.cell.shape, -1)
    row, n, cell = np.nonzero(user >= 0)
    block[row, user[row, n, cell]] = n
    return block, value >= limit


def within_budget(problem: Problem, worth: np.ndarray, user: np.ndarray) -> np.ndarray:
    """Remove users of least worth per load from blocks, shape (row, block, cell), -1 for none.

    As many are removed as (21) requires, with a margin for rounding.
    """
    row = np.arange(len(user))[:, None]
    flat = user.reshape(len(user), -1)
    load = np.where(flat >= 0, problem.least_load[row, np.maximum(flat, 0)], 0.0)
    excess = load.sum(axis=1) * (1 + ROUNDING)
    if not (excess > 0).any():
        return user
    price = np.where(load > 0, worth[row, np.maximum(flat, 0)] / np.where(load > 0, load, 1.0), np.inf)
    order = np.argsort(price, axis=1, kind="stable")
    relief = np.maximum(np.take_along_axis(load, order, axis=1), 0.0)
    leaves = np.zeros(flat.shape, bool)
    np.put_along_axis(leaves, order, (relief > 0) & (relief.cumsum(axis=1) - relief < excess[:, None]), axis=1)
    return np.where(leaves, -1, flat).reshape(user.shape)


class _Network:
    """The users of each cell, and the ratios that decide which users can share a block."""

    def __init__(self, uplink: Uplink):
        self.snr, self.sinr, self.blocks = signal_to_noise(uplink), uplink.sinr, uplink.blocks
        self.member, self.present = members(uplink.cell, uplink.cells)

    def scheduled(self, user: np.ndarray) -> np.ndarray:
        """Return which users are on a block, boolean, shape (row, user)."""
        marked = np.zeros((len(user), self.snr.shape[1] + 1), bool)  # the last column is for -1
        np.put_along_axis(marked, user.reshape(len(user), -1), True, axis=1)
        return marked[:, :-1]

    def swept(self, worth: np.ndarray, limit: np.ndarray) -> np.ndarray:
        """Sweep over the cells until nothing changes; return users on blocks, shape (row, block, cell), -1 for none.

        A row is done if its total worth reaches a limit, and all are after SWEEPS.
        """
        rows = np.arange(len(worth))
        user = np.empty((len(worth), self.blocks, self.snr.shape[2]), int)
        blocks = Blocks(self.snr, self.sinr, rows, self.blocks)
        for _ in range(SWEEPS):
            before = blocks.user.copy()
            for cell in range(self.snr.shape[2]):
                cells = np.full(len(blocks.rows), cell)
                blocks.vacate(cells)
                self.choose(blocks, cells, worth[blocks.rows])
            user[blocks.rows] = blocks.user
            total = np.where(self.scheduled(blocks.user), worth[blocks.rows], 0.0).sum(axis=1)
            left = (blocks.user != before).any(axis=(1, 2)) & (total < limit[blocks.rows])
            if not left.any():
                break
            blocks = blocks.select_rows(left)
        return user

    def searched(
        self,
        problem: Problem,
        multiplier: np.ndarray,
        limit: np.ndarray,
        rows: np.ndarray,
        user: np.ndarray,
        draws: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search from the users on each row's blocks; return the best result, and its value; see `joint_blocks`."""
        count, trials, _ = draws.shape
        several, drawn = np.repeat(np.arange(count), trials), draws.reshape(count * trials, -1)
        part = problem.rows(several)
        worth, _ = part.priced(multiplier[several] * (1 + SPREAD * (2 * drawn[:, -1] - 1)))
        feasible = within_budget(part, worth, self.refilled(rows[several], user[several], worth, drawn))
        feasible, values = self.improved(part, multiplier[several], limit[several], rows[several], feasible)
        values = values.reshape(count, trials)
        best = np.arange(count) * trials + values.argmax(axis=1)
        return feasible[best], values.max(axis=1)

    def refilled(self, rows: np.ndarray, user: np.ndarray, worth: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """Clear some blocks and fill them, cell after cell in random order; the other blocks stay as they are."""
        cells = user.shape[2]
        order = drawn[:, :cells].argsort(axis=1)
        cleared = drawn[:, cells : cells + self.blocks].argsort(axis=1)[:, :CLEARED]
        row = np.arange(len(rows))[:, None]
        user = user.copy()
        user[row, cleared] = -1
        worth = np.where(self.scheduled(user), 0.0, worth)
        blocks = Blocks(self.snr, self.sinr, rows, cleared.shape[1])
        for cell in order.T:
            self.choose(blocks, cell, worth)
        user[row, cleared] = blocks.user
        return user

    def improved(
        self, problem: Problem, multiplier: np.ndarray, limit: np.ndarray, rows: np.ndarray, user: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Make the best single changes until none raises the value or it reaches a limit; return users and value.

        A change removes a user from a block, replaces it by another one of the cell, or adds one if the cell has none.
        The total worth is at least the value, so only changes that leave it above the present value may raise that.
        """
        user, value = user.copy(), problem.value(self.scheduled(user))
        worth, _ = problem.priced(multiplier)
        left = np.flatnonzero(value < limit)
        while left.size:
            scheduled = self.scheduled(user[left])
            above = value[left] + LEAST_GAIN * abs(value[left])
            least = above - np.where(scheduled, worth[left], 0.0).sum(axis=1)
            row, block, cell, new = self.changes(rows[left], user[left], scheduled, worth[left], least)
            scheduled, old = scheduled[row], user[left[row], block, cell]
            row_numbers = np.arange(len(row))
            scheduled[row_numbers[old >= 0], old[old >= 0]] = False
            scheduled[row_numbers[new >= 0], new[new >= 0]] = True
            values = problem.rows(left[row]).value(scheduled)
            order = np.lexsort((-values, row))
            best = order[np.unique(row[order], return_index=True)[1]]
            best = best[values[best] > above[row[best]]]
            at = left[row[best]]
            user[at, block[best], cell[best]], value[at] = new[best], values[best]
            left = at[value[at] < limit[at]]
        return user, value

    def changes(
        self, rows: np.ndarray, user: np.ndarray, scheduled: np.ndarray, worth: np.ndarray, least: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """List row, block, cell and new user, -1 for none, of each single change for which powers exist.

        Only changes that raise the total worth by more than `least`, shape (row,), are listed.
        """
        blocks, moves = Blocks(self.snr, self.sinr, rows, self.blocks), []
        for cell in range(user.shape[2]):
            blocks.enter(np.full(len(rows), cell), user[:, :, cell])
        for cell in range(user.shape[2]):
            member, candidates = self.member[rows, cell], user[:, :, cell]
            gone = np.where(candidates >= 0, np.take_along_axis(worth, np.maximum(candidates, 0), axis=1), 0.0)
            free = self.present[rows, cell] & ~np.take_along_axis(scheduled, member, axis=1)
            gain = np.where(free, np.take_along_axis(worth, member, axis=1), -np.inf)
            order = _first(gain > (gone.min(axis=1) + least)[:, None])
            member, gain = (np.take_along_axis(array, order, axis=1) for array in (member, gain))
            enters = gain[:, None] - gone[..., None] > least[:, None, None]
            some = np.flatnonzero(enters.any(axis=(1, 2)))
            others, cells = blocks.select_rows(some), np.full(len(some), cell)
            others.vacate(cells)
            enters[some] &= np.isfinite(others.largest_power(cells, member[some]))
            row, block, place = np.nonzero(enters)
            moves.append((row, block, np.full(len(row), cell), member[row, place]))
            row, block = np.nonzero((candidates >= 0) & (-gone > least[:, None]))
            moves.append((row, block, np.full(len(row), cell), np.full(len(row), -1)))
        return tuple(np.concatenate(parts) for parts in zip(*moves, strict=True))

    def choose(self, blocks: Blocks, cell: np.ndarray, worth: np.ndarray) -> None:
        """Give the blocks of an empty cell to the users of most total worth, shape (row, user), who can enter.

        Among equals, the sum of the blocks' largest powers is least.
        """
        member = self.member[blocks.rows, cell]
        row = np.arange(len(member))[:, None]
        value = np.where(self.present[blocks.rows, cell], np.maximum(worth[row, member], 0.0), 0.0)
        order = _first(value > 0)
        member, value = member[row, order], value[row, order]
        power = blocks.largest_power(cell, member).transpose(0, 2, 1)
        chosen, _ = assignment.solve(value, np.zeros(value.shape), np.full(len(value), np.inf), power)
        user = np.full(blocks.user.shape[:2], -1)
        served, place = np.nonzero(chosen >= 0)
        user[served, chosen[served, place]] = member[served, place]
        blocks.enter(cell, user)


def _first(wanted: np.ndarray) -> np.ndarray:
    """Order places, shape (row, place), wanted ones first; omit the last ones that no row wants."""
    return np.argsort(~wanted, axis=1, kind="stable")[:, : max(1, int(wanted.sum(axis=1).max(initial=0)))]
