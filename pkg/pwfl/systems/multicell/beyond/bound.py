"""Upper bounds on the value of any schedule, by which it lowers (20), hence lower bounds on the objective (20)."""

from collections.abc import Callable
from math import fsum

import numpy as np

from pwfl.systems.multicell.beyond.admission import signal_to_noise
from pwfl.systems.multicell.beyond.problem import Problem
from pwfl.systems.multicell.interference import Uplink, members

STRETCH = 4.0  # factor by which the search for a bracket of the multiplier moves its end
STEPS = 60  # of the search for the multiplier, at most; it needs ten if noise is given, twenty if chosen
EXACT = 1e-10  # relative error of the bound, compared with the best multiplier
PROVEN = 1e-6  # relative difference from the bound up to which a value is proven optimal
ROUNDING = 1e-9  # relative excess over Pmax, by rounding, of the powers of two users who can share a block


def upper_bound(uplink: Uplink, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Compute an upper bound on any schedule's value, and its multiplier of (21), both of shape (realization,).

    Without interference and with (21) priced by a multiplier, each cell schedules the users of most worth, as many as
    it has blocks. Their total worth is a bound for every multiplier, and convex in it. From the least of these bounds,
    the loss by interference is subtracted (`sharing_loss`).
    """
    snr = signal_to_noise(uplink)
    member, present = members(uplink.cell, uplink.cells, least=uplink.blocks + 1)
    row, station = np.arange(len(member))[:, None, None], np.arange(uplink.cells)[:, None]
    reaches = present & (snr[row, member, station] >= uplink.sinr)

    def worths(rows, multiplier):
        worth, load = (values[row[: len(rows)], member[rows]] for values in problem.rows(rows).priced(multiplier))
        return np.where(reaches[rows] & (worth > 0), worth, 0.0), load

    def relaxed(rows, multiplier):
        worth, load = worths(rows, multiplier)
        best = np.argsort(-worth, axis=2, kind="stable")[..., : uplink.blocks]
        worth, load = (np.take_along_axis(values, best, axis=2).reshape(len(rows), -1) for values in (worth, load))
        return worth.sum(axis=1), -np.where(worth > 0, load, 0.0).sum(axis=1)

    everyone = np.arange(len(member))
    worth, _ = worths(everyone, np.zeros(len(member)))
    load = abs(problem.least_load).sum(axis=1)
    total = np.array([fsum(values) for values in worth.reshape(len(worth), -1)])  # independent of the padding
    start = np.divide(total, load, where=load > 0, out=np.ones_like(load))
    bound, multiplier = least(relaxed, start)
    worth, _ = worths(everyone, multiplier)
    blocks = min(uplink.blocks, int(present.sum(axis=2).max()) + 1)  # with more blocks than users, some remain free
    served = max(blocks + 1, int((worth > 0).sum(axis=2).max()))
    order = np.argsort(-worth, axis=2, kind="stable")[..., :served]
    loss = sharing_loss(
        snr, uplink.sinr, np.take_along_axis(member, order, 2), np.take_along_axis(worth, order, 2), blocks
    )
    return bound - loss, multiplier


def least_proven(bound: np.ndarray) -> np.ndarray:
    """Compute the least value that counts as proven optimal, from an upper bound."""
    return bound - PROVEN * abs(bound)


def least(function: Callable, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimize convex functions of a number that is not negative; return the least values and their points.

    `function` is called with rows and a point for each; it returns values and slopes there. The slope at 0 may be minus
    infinity. `start` is the first positive point to evaluate, shape (row,). The tangents on both sides of a minimum
    intersect at a lower bound on the function; the function is evaluated next at that point.
    """
    low, high = np.zeros(len(start)), start.copy()
    low_value, low_slope = function(np.arange(len(start)), low)
    high_value, high_slope = np.zeros(len(start)), np.full(len(start), -1.0)  # until it encloses the minimum
    value, place = low_value.copy(), low.copy()
    rows = np.flatnonzero(low_slope < 0)
    for _ in range(STEPS):
        if not rows.size:
            break
        enclosed = high_slope[rows] >= 0
        fall, rise = low_slope[rows], high_slope[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            meet = (high_value[rows] - low_value[rows] + fall * low[rows] - rise * high[rows]) / (fall - rise)
            floor = low_value[rows] + fall * (meet - low[rows])
        known = enclosed & np.isfinite(fall)
        point = np.where(
            known, np.clip(meet, low[rows], high[rows]), np.where(enclosed, high[rows] / STRETCH, high[rows])
        )
        height, slope = function(rows, point)
        better = height < value[rows]
        value[rows[better]], place[rows[better]] = height[better], point[better]
        left = slope < 0
        for side, ends in ((left, (low, low_value, low_slope)), (~left, (high, high_value, high_slope))):
            for end, new in zip(ends, (point, height, slope), strict=True):
                end[rows[side]] = new[side]
        high[rows[left & ~enclosed]] *= STRETCH
        rows = rows[~known | (height > floor + EXACT * abs(height))]
    return value, place


def sharing_loss(snr: np.ndarray, sinr: float, member: np.ndarray, worth: np.ndarray, blocks: int) -> np.ndarray:
    """Compute a lower bound on the worth that interference costs the cells' best users, shape (realization,).

    On the block of a served user, another cell can only serve users who can share it with that user. So either not all
    of that cell's best users are served, or this user is not. The smaller of the two losses is certain; the result is
    the largest one of any user. `member` lists the users of each cell by falling worth, shape (realization, cell,
    place), `worth` is their worth, 0 for users who are not served. `blocks`, R, is less than the number of places.
    """
    count, cells, _ = member.shape
    row = np.arange(count)[:, None]
    best = member[..., :blocks].reshape(count, -1)
    station = np.repeat(np.arange(cells), blocks)
    signal = snr[row, best, station][..., None]
    loss = np.zeros(best.shape)
    for other in range(cells):
        users = member[:, other]
        # By the other cell's users, at the base stations of the best users.
        interference = sinr * snr[row[..., None], users[:, None], station[:, None]]
        caused = sinr * snr[row, best, other][..., None]
        theirs = snr[row, users, other][:, None]
        left = (signal * theirs - interference * caused) * (1 + ROUNDING)  # determinant for the two powers
        shares = (left > 0) & (sinr * (theirs + interference) <= left) & (sinr * (signal + caused) <= left)
        kept = np.where(shares, worth[:, None, other], 0.0).max(axis=2)
        loss += np.where(station == other, 0.0, np.maximum(worth[:, None, other, blocks - 1] - kept, 0.0))
    instead = np.repeat(worth[..., blocks], blocks, axis=1)
    gone = worth[..., :blocks].reshape(count, -1) - instead
    return np.minimum(loss, gone).max(axis=1)
