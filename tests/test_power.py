"""Powers, rates and unscheduling: one linear program over all users, naive rates, closed forms."""

from math import log2

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import stage_of
from pipeline import part
from pwfl.scenario import resolve
from pwfl.systems.multicell.interference import interference
from pwfl.systems.multicell.power import least_deviation

RMIN = 100e3
THETA = 2 ** (RMIN / 180e3) - 1
THERMAL = 1e-3 * 10**-17.4 * 180e3
NETWORKS = {
    "table_1": {},
    "crowded": {"radio": {"resource_blocks": 2}},
    "two_rings": {"network": {"rings": 2, "users": 150}},
    "sparse": {"network": {"users": 12}},
    "strong": {"radio": {"max_power_dbm": 60.0}},  # most users need less than a millionth of Pmax
}


def simulate(override, realizations, scheduler):
    s = resolve({}, override)
    tables = stage_of.channel(part(s, "channel"), realizations)
    return tables | stage_of.schedule(part(s, "schedule", scheduler), scheduler, tables)


def max_power_w(name):
    return 1e-3 * 10 ** (NETWORKS[name].get("radio", {}).get("max_power_dbm", 10.0) / 10)


def arrays(tables):
    """Cell and start block of each user (realization, user), gains (realization, station, user)."""
    count = tables["users"]["realization"].n_unique()
    cell = tables["users"]["cell"].to_numpy().reshape(count, -1)
    block = tables["start_values"]["resource_block"].fill_null(-1).to_numpy().reshape(count, -1)
    return cell, block, tables["links"]["gain"].to_numpy().reshape(count, -1, cell.shape[1])


def linear_system(cell, block, gain, p_max):
    """A and b of (29) over all scheduled users of a realization, powers in units of Pmax."""
    user = np.flatnonzero(block >= 0)
    a, b = np.eye(len(user)), np.empty(len(user))
    for row, i in enumerate(user):
        own = gain[cell[i], i]
        b[row] = THETA * THERMAL / own / p_max
        for column, j in enumerate(user):
            if cell[j] != cell[i] and block[j] == block[i]:
                a[row, column] = -THETA * gain[cell[i], j] / own
    return user, a, b


def least_deviation_oracle(a, b):
    """The least ||A q - b||_1 over 0 <= q <= 1; rows scaled to their largest coefficient, q to the largest demand."""
    n, row, unit = len(b), 1 / abs(a).max(axis=1), min(1.0, b.max())
    equality = np.hstack([row[:, None] * a, np.eye(n), -np.eye(n)])
    cost = np.concatenate([np.zeros(n), 1 / row, 1 / row])
    bounds = [(0, 1 / unit)] * n + [(0, None)] * (2 * n)
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    result = linprog(cost, A_eq=equality, b_eq=row * b / unit, bounds=bounds, method="highs", options=options)
    assert result.status == 0
    return result.fun * unit


def rate(i, cell, block, power, gain):
    """(18), written out."""
    received = sum(gain[cell[i], j] * power[j] for j in range(len(cell)) if cell[j] != cell[i] and block[j] == block[i])
    return 180e3 * log2(1 + power[i] * gain[cell[i], i] / (received + THERMAL))


SCHEDULES = [*((name, "random") for name in NETWORKS), ("crowded", "optimal"), ("crowded", "joint")]


@pytest.mark.parametrize(("name", "scheduler"), SCHEDULES)
def test_the_schedule_has_the_powers_of_35_the_rates_of_18_and_who_lost_its_block(name, scheduler):
    tables = simulate(NETWORKS[name], range(25 if scheduler == "random" else 10), scheduler)
    cell, start, gain = arrays(tables)
    schedule = tables["schedule"].with_columns(pl.col("resource_block", "assigned_block").fill_null(-1))
    columns = ("assigned_block", "assigned_power_w", "resource_block", "power_w", "rate_bps")
    block, power, final, final_power, rates = (schedule[column].to_numpy().reshape(cell.shape) for column in columns)
    p_max, lost, inside = max_power_w(name), 0, 0
    assert scheduler != "random" or (block == start).all()
    assert (power[block < 0] == 0).all()
    assert ((power >= 0) & (power <= p_max)).all()
    for r in range(len(cell)):
        user, a, b = linear_system(cell[r], block[r], gain[r], p_max)
        q = power[r, user] / p_max
        assert abs(a @ q - b).sum() == pytest.approx(least_deviation_oracle(a, b), rel=1e-7, abs=1e-8 * b.max())
        exact = np.linalg.solve(a, b)
        if ((exact >= 0) & (exact <= 1)).all():
            inside += 1
            np.testing.assert_allclose(q, exact, rtol=1e-9)
            np.testing.assert_allclose([rate(i, cell[r], block[r], power[r], gain[r]) for i in user], RMIN, rtol=1e-9)
        keeps = np.zeros(len(cell[r]), bool)
        keeps[user] = [rate(i, cell[r], block[r], power[r], gain[r]) >= RMIN * (1 - 1e-6) for i in user]
        assert (final[r] == np.where(keeps, block[r], -1)).all()
        assert (final_power[r] == np.where(keeps, power[r], 0.0)).all()
        assert (rates[r, ~keeps] == 0).all()
        for i in np.flatnonzero(keeps):
            assert rates[r, i] == pytest.approx(rate(i, cell[r], final[r], final_power[r], gain[r]), rel=1e-12)
        lost += (block[r] >= 0).sum() - keeps.sum()
    assert lost == tables["schedule_status"]["unscheduled"].sum()
    assert (lost > 0) == (scheduler != "joint")
    assert inside > 0 or name in ("table_1", "two_rings")
    assert inside < len(cell) or scheduler == "joint"


def test_interference_counts_only_the_other_cells_users_on_the_block():
    gain = np.arange(1.0, 10.0).reshape(1, 3, 3)  # h_i,s = 3 s + i + 1, user i in cell i
    occupant = np.array([[[0, -1], [1, -1], [-1, 2]]])
    power = np.array([[0.5, 0.25, 0.125]])
    np.testing.assert_array_equal(interference(gain, power, occupant, 0), [[2 * 0.25, 3 * 0.125]])
    np.testing.assert_array_equal(interference(gain, power, occupant, 2), [[7 * 0.5 + 8 * 0.25, 0]])


# The linear program itself


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    n=st.integers(1, 7),
    seed=st.integers(0, 2**32 - 1),
    spread=st.floats(0.1, 4),
    demand=st.floats(1e-6, 3),
    signs=st.sampled_from([[-1], [-1, 1]]),  # interference is negative; with both signs residuals are, too
)
def test_least_deviation_attains_the_optimum(n, seed, spread, demand, signs):
    rng = np.random.default_rng(seed)
    used = np.append(True, rng.random(n - 1) < 0.8)
    others = (1 - np.eye(n)) * np.outer(used, used)
    a = np.eye(n) + rng.choice(signs, (n, n)) * rng.lognormal(-1, spread, (n, n)) * others
    b = np.where(used, demand * rng.lognormal(0, 1, n), 0.0)
    q = least_deviation(a, b)
    assert ((q >= 0) & (q <= 1)).all()
    assert abs(a @ q - b).sum() == pytest.approx(least_deviation_oracle(a, b), rel=1e-7, abs=1e-8 * b.max())


def test_a_program_that_ends_without_an_optimum_is_an_error():
    with pytest.raises(ArithmeticError, match=r"power control \(35\) ended as k"):
        least_deviation(np.array([[1.0, np.inf], [0.0, 1.0]]), np.array([0.1, 0.2]))
