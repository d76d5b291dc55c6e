"""Block fading: intervals of rounds in which the channel stays, and what differs between them besides the channel.

Arrays of what is scheduled have a row for each pair of realization and interval.
"""

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from pwfl import streams

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Multicell

ROUNDING = 1e-9  # of a planned number of intervals


def turns(scenario: "Multicell", realizations: list[int], intervals: int, users: int) -> np.ndarray:
    """Which intervals a user's budget is planned for, boolean, shape (realization, interval, user).

    So that the rounds in which a user may send are known before the first one, whatever the channel will be: each user
    has the same number of turns, the planned share of all intervals or the next above, drawn at random.
    """
    planned = ceil(scenario.privacy.planned_share * intervals - ROUNDING)
    if planned == intervals:
        return np.full((len(realizations), intervals, users), True)
    draw = _uniforms(scenario.seed, "turns", realizations, (intervals, users))
    return draw.argsort(axis=1).argsort(axis=1) < planned


def redrawn_blocks(
    scenario: "Multicell", realizations: list[int], cell: np.ndarray, cells: int, turn: np.ndarray, load: np.ndarray
) -> np.ndarray:
    """Resource blocks that a scheduler starts from, drawn for each interval as the start values are for all rounds.

    Those whose turn it is get them by round-robin. Since their noise stays, the draw cannot be repeated until (21)
    holds: where it does not, those of the largest noise error give their block back until it does.

    Parameters
    ----------
    cell
        Each user's station, shape (realization, user).
    cells
        Number of stations.
    turn
        As returned by `turns`.
    load
        What each user adds to (21), K_i (sigma_i^2 - Vmax), shape (realization, user).

    Returns
    -------
    Resource blocks, -1 for none, shape (realization, interval, user).
    """
    users, blocks = cell.shape[1], scenario.radio.resource_blocks
    purposes = [f"start/interval/{interval}" for interval in range(turn.shape[1])]
    size = (users + cells * blocks,)
    draw = np.stack([_uniforms(scenario.seed, purpose, realizations, size) for purpose in purposes], axis=1)
    draw = draw.reshape(-1, *size)
    order = draw[:, :users] + ~turn.reshape(-1, users)  # whose turn it is comes first
    block = round_robin(each_interval(cell, turn.shape[1]), order, draw[:, users:].reshape(-1, cells, blocks))
    added = np.where(turn & (block.reshape(turn.shape) >= 0), load[:, None], np.inf)
    least_first = added.argsort(axis=2, kind="stable")
    kept = np.take_along_axis(added, least_first, axis=2).cumsum(axis=2) <= 0
    within = np.empty_like(turn)
    np.put_along_axis(within, least_first, kept, axis=2)
    return np.where(within, block.reshape(turn.shape), -1)


def each_interval(values: np.ndarray, intervals: int) -> np.ndarray:
    """Values of realizations, along the first axis, as those of each pair of realization and interval."""
    return np.repeat(values, intervals, axis=0)


def round_robin(cell: np.ndarray, user_order: np.ndarray, block_order: np.ndarray) -> np.ndarray:
    """One user per resource block in each cell, users and blocks in random order, until either runs out.

    Parameters
    ----------
    cell
        Each user's station, shape (realization, user).
    user_order
        Numbers by which users are ordered, same shape.
    block_order
        Numbers by which a cell's blocks are ordered, shape (realization, cell, block).

    Returns
    -------
    Each user's resource block, -1 for none, shape (realization, user).
    """
    order = np.lexsort((user_order, cell))
    sorted_cell = np.take_along_axis(cell, order, axis=1)
    position = np.broadcast_to(np.arange(cell.shape[1]), cell.shape)
    first = np.concatenate([np.ones((len(cell), 1), bool), np.diff(sorted_cell, axis=1) != 0], axis=1)
    rank = position - np.maximum.accumulate(np.where(first, position, 0), axis=1)
    blocks = block_order.argsort(axis=2)
    served = rank < blocks.shape[2]
    realization = np.arange(len(cell))[:, None]
    chosen = np.where(served, blocks[realization, sorted_cell, np.where(served, rank, 0)], -1)
    result = np.empty_like(chosen)
    np.put_along_axis(result, order, chosen, axis=1)
    return result


def _uniforms(seed: int, purpose: str, realizations: list[int], shape: tuple[int, ...]) -> np.ndarray:
    """Those of `streams`, for realizations in increasing order that need not be consecutive."""
    first, last = realizations[0], realizations[-1]
    return streams.uniforms(seed, purpose, range(first, last + 1), shape)[np.array(realizations) - first]
