"""Block fading: intervals of rounds in which the channel stays, and what differs between them besides the channel."""

from collections.abc import Sequence
from math import ceil

import numpy as np

from pwfl import streams
from pwfl.systems.multicell.interference import Uplink, round_robin
from pwfl.systems.multicell.parameters import Multicell, Privacy

ROUNDING = 1e-9  # of a planned number of intervals


def intervals(scenario: Multicell) -> int:
    """How many intervals of rounds there are in which the channel stays."""
    coherence = scenario.radio.coherence_rounds
    return 1 if coherence is None else scenario.training.rounds // coherence


def planned(privacy: Privacy, intervals: int) -> int:
    """How many intervals a user's budget is planned for: the planned share of all, or the next whole number above."""
    return ceil(privacy.planned_share * intervals - ROUNDING)


def redrawn_blocks(seed: int, interval: int, uplink: Uplink, load: np.ndarray) -> np.ndarray:
    """Resource blocks that a scheduler starts from in a later interval, by round-robin as the start values' are.

    Since noise stays, the draw cannot be repeated until (21) holds: where it does not, those of the largest noise error
    give their block back until it does. `load` is what each user adds to (21), K_i (sigma_i^2 - Vmax), 0 where nothing
    asks for it, infinite for those who may not send, shape (realization, user). So is the result, -1 for no block.
    """
    users, grid = load.shape[1], (uplink.cells, uplink.blocks)
    draw = uniforms(seed, f"start/interval/{interval}", uplink.realizations, (users + grid[0] * grid[1],))
    order = draw[:, :users] + np.isinf(load)  # those who may send come first
    block = round_robin(uplink.cell, order, draw[:, users:].reshape(-1, *grid))
    added = np.where(block >= 0, load, np.inf)
    least_first = added.argsort(axis=1, kind="stable")
    kept = np.empty(load.shape, bool)
    np.put_along_axis(kept, least_first, np.take_along_axis(added, least_first, axis=1).cumsum(axis=1) <= 0, axis=1)
    return np.where(kept, block, -1)


def uniforms(seed: int, purpose: str, realizations: Sequence[int], shape: tuple[int, ...]) -> np.ndarray:
    """Those of `streams`, for realizations in increasing order that need not be consecutive."""
    first, last = realizations[0], realizations[-1]
    return streams.uniforms(seed, purpose, range(first, last + 1), shape)[np.array(realizations) - first]
