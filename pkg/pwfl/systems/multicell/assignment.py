"""Solver of a cell's program (30)-(34) as an assignment problem, for many realizations at once.

A user has the same value on every resource block, so only the order of values decides which sets of users are optimal.
Replacing values by their ranks allows exact tie-breaking. One assignment problem with cost -rank (R + 1) + required
power / Pmax finds the most valuable set, and among equals the allocation of least total power, since R fractions of
Pmax never add up to R + 1.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

from pwfl.systems.multicell.integer_program import solve as solve_integer_program

ASSIGNMENT, INTEGER_PROGRAM, INFEASIBLE_KEPT = "assignment", "integer_program", "infeasible_kept"


def solve(
    value: np.ndarray, load: np.ndarray, budget: np.ndarray, fraction: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Maximize the scheduled users' value within a budget on their load, in one cell.

    `value` is K_i - gamma / (K_i sigma_i)^2 and `load` K_i (sigma_i^2 - Vmax), shape (realization, user). `budget` is
    the part of (31) that the other cells' scheduled users leave, shape (realization,). `fraction` is the required power
    over Pmax on each resource block, shape (realization, user, block). By (34), fractions above 1 are not allowed;
    fractions are infinite for entries that pad a cell.

    Returns each user's block, -1 for none, shape (realization, user), and a status, shape (realization,): `assignment`
    if (31) does not bind, `integer_program` if it does, `infeasible_kept` if no allocation satisfies it (all blocks are
    then -1).
    """
    blocks = fraction.shape[2]
    allowed = fraction <= 1
    useful = allowed & (value > 0)[..., None]
    cost = np.where(useful, fraction - (blocks + 1) * _ranks(value)[..., None], 0.0)
    block = np.full(value.shape, -1)
    candidate = np.any(useful, axis=2)
    for realization in np.flatnonzero(np.any(candidate, axis=1)):
        # Exclude rows that pad a cell, so that ties do not depend on the other realizations.
        row = np.flatnonzero(candidate[realization])
        user, chosen = linear_sum_assignment(cost[realization][row])
        block[realization, row[user]] = chosen
    chosen_is_useful = np.take_along_axis(useful, np.maximum(block, 0)[..., None], axis=2)[..., 0]
    block[~chosen_is_useful] = -1

    status = np.full(len(value), ASSIGNMENT, dtype=object)
    for realization in np.flatnonzero(np.where(block >= 0, load, 0.0).sum(axis=1) > budget):
        solution = solve_integer_program(
            value[realization], load[realization], budget[realization], fraction[realization]
        )
        status[realization] = INFEASIBLE_KEPT if solution is None else INTEGER_PROGRAM
        block[realization] = -1 if solution is None else solution
    return block, status


def _ranks(value: np.ndarray) -> np.ndarray:
    """Rank each row's positive numbers, from 1 for the smallest; equal numbers share a rank, others have rank 0."""
    order = value.argsort(axis=1)
    ordered = np.take_along_axis(value, order, axis=1)
    steps = (np.diff(np.maximum(ordered, 0), axis=1, prepend=0) > 0).cumsum(axis=1)
    ranks = np.empty_like(steps)
    np.put_along_axis(ranks, order, steps, axis=1)
    return ranks
