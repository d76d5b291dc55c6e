"""Exact branch and bound for a cell's program (30)-(34) if the noise constraint (31) binds.

If (31) is relaxed with a multiplier, and every user may use every resource block, the optimum is the R largest of value
- multiplier * load. It bounds every subtree by two sums. Sets of users that the blocks cannot serve are pruned by a
bipartite matching that grows with the set.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

EQUAL = 1e-12  # largest difference of equal values, relative to the sum of all values
BISECTIONS = 30
NODES = 20_000  # largest number in a search; at Table I's sizes, it visits tens to hundreds


def solve(value: np.ndarray, load: np.ndarray, budget: float, fraction: np.ndarray) -> np.ndarray | None:
    """Find the allocation of one cell with the largest value, then the least power; None if none fits the budget.

    Arguments are as in `assignment.solve` for one realization, of shapes (user,), (user,), (), (user, block). The
    result is each user's block, -1 for none, shape (user,). If very many sets of users have the same value, the search
    would visit them all. After NODES nodes, HiGHS solves the program instead, with the same optimum.
    """
    blocks = fraction.shape[1]
    candidate = np.flatnonzero((fraction <= 1).any(axis=1) & ((value > 0) | (load < 0)))
    multiplier = _multiplier(value[candidate], load[candidate], budget, blocks)
    if multiplier is None:
        return None
    weight = value[candidate] - multiplier * load[candidate]
    order = candidate[np.argsort(-weight, kind="stable")]
    sets = _best_sets(value[order], load[order], budget, fraction[order] <= 1, multiplier)
    if sets is None:
        from pwfl.systems.multicell import reference

        return reference.solve(value, load, budget, fraction, "HIGHS")
    allocations = [_least_power(fraction[order[list(chosen)]]) for chosen in sets]
    if not allocations:
        return None
    best = min(range(len(sets)), key=lambda k: allocations[k][1])
    block = np.full(len(value), -1)
    block[order[list(sets[best])]] = allocations[best][0]
    return block


def _multiplier(value, load, budget, blocks) -> float | None:
    """Find a multiplier of (31) that makes the relaxation's bound nearly tight; None if (31) cannot hold."""

    def excess(multiplier):
        weight = value - multiplier * load
        top = np.argsort(-weight)[:blocks]
        return load[top[weight[top] > 0]].sum() - budget

    if np.sort(np.minimum(load, 0.0))[:blocks].sum() > budget:
        return None
    low, high = 0.0, 1.0
    while excess(high) > 0 and high < 1e9:
        low, high = high, 4 * high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def _best_sets(value, load, budget, allowed, multiplier) -> list[tuple[int, ...]] | None:
    """List the most valuable sets of users, sorted by falling weight, that fit budget and blocks; None after NODES."""
    users, blocks = allowed.shape
    weight = value - multiplier * load
    gain = np.concatenate([[0.0], np.cumsum(np.maximum(weight, 0.0))]).tolist()
    relief = np.concatenate([np.cumsum(np.minimum(load, 0.0)[::-1])[::-1], [0.0]]).tolist()
    neighbours = [np.flatnonzero(row).tolist() for row in allowed]
    tolerance = EQUAL * float(abs(value).sum() + multiplier * (abs(load).sum() + abs(budget)))
    values, loads, weights = value.tolist(), load.tolist(), weight.tolist()

    best, sets = -np.inf, []
    stack: list[tuple[int, tuple[int, ...], float, float, float, tuple[int, ...]]]
    stack = [(0, (), 0.0, 0.0, multiplier * budget, (-1,) * blocks)]
    for _ in range(NODES):
        if not stack:
            return sets
        user, chosen, total, used, bound, owner = stack.pop()
        if used <= budget and (not chosen or chosen[-1] == user - 1):
            if total > best + tolerance:
                best, sets = total, [chosen]
            elif total >= best - tolerance:
                sets.append(chosen)
        free = blocks - len(chosen)
        if user == users or not free:
            continue
        if bound + gain[min(user + free, users)] - gain[user] < best - tolerance or used + relief[user] > budget:
            continue
        stack.append((user + 1, chosen, total, used, bound, owner))
        if matching := _augment(owner, user, neighbours):
            stack.append(
                (user + 1, (*chosen, user), total + values[user], used + loads[user], bound + weights[user], matching)
            )
    return None


def _augment(owner, user, neighbours) -> tuple[int, ...] | None:
    """Extend a matching so that it also serves `user`; None: impossible. `owner` is the user on each block."""
    owner, visited = list(owner), set()

    def place(user) -> bool:
        for block in neighbours[user]:
            if block not in visited:
                visited.add(block)
                if owner[block] < 0 or place(owner[block]):
                    owner[block] = user
                    return True
        return False

    return tuple(owner) if place(user) else None


def _least_power(fraction: np.ndarray) -> tuple[np.ndarray, float]:
    """Find the blocks of least total power for users who must all be served, and that total over Pmax."""
    cost = np.where(fraction <= 1, fraction, 2.0 * (fraction.shape[1] + 1))
    user, block = linear_sum_assignment(cost)
    return block, float(cost[user, block].sum())
