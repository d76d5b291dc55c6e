"""Block fading: coherence intervals of rounds, and quantities besides the channel that differ between them."""

from collections.abc import Sequence
from math import ceil

import numpy as np

from pwfl import streams
from pwfl.systems.multicell.interference import Uplink, round_robin
from pwfl.systems.multicell.parameters import Multicell, Privacy

ROUNDING = 1e-9  # of a planned number of intervals


def intervals(scenario: Multicell) -> int:
    """Return the number of coherence intervals."""
    coherence = scenario.radio.coherence_rounds
    return 1 if coherence is None else scenario.training.rounds // coherence


def planned(privacy: Privacy, intervals: int) -> int:
    """Return the number of intervals for which a user's privacy budget is planned: the planned share, rounded up."""
    return ceil(privacy.planned_share * intervals - ROUNDING)


def redrawn_blocks(seed: int, interval: int, uplink: Uplink, load: np.ndarray) -> np.ndarray:
    """Draw resource blocks from which a scheduler starts in a later interval, by round-robin as for start values.

    Since the noise is not drawn again, the draw is not repeated until (21) holds. Instead, users with the largest load
    lose their block until it does. `load` is a user's load in (21), K_i (sigma_i^2 - Vmax), 0 if (21) is not required,
    infinite for users who may not send, shape (realization, user). The result has this shape, -1 for no block.
    """
    users, grid = load.shape[1], (uplink.cells, uplink.blocks)
    draw = uniforms(seed, f"start/interval/{interval}", uplink.realizations, (users + grid[0] * grid[1],))
    order = draw[:, :users] + np.isinf(load)  # users who may send are first
    block = round_robin(uplink.cell, order, draw[:, users:].reshape(-1, *grid))
    added = np.where(block >= 0, load, np.inf)
    least_first = added.argsort(axis=1, kind="stable")
    kept = np.empty(load.shape, bool)
    np.put_along_axis(kept, least_first, np.take_along_axis(added, least_first, axis=1).cumsum(axis=1) <= 0, axis=1)
    return np.where(kept, block, -1)


def uniforms(seed: int, purpose: str, realizations: Sequence[int], shape: tuple[int, ...]) -> np.ndarray:
    """Draw `streams.uniforms` for realizations in increasing order that need not be consecutive."""
    first, last = realizations[0], realizations[-1]
    return streams.uniforms(seed, purpose, range(first, last + 1), shape)[np.array(realizations) - first]
