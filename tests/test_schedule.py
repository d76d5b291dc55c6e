"""Schedulers: a cell's program against brute force and general solvers, Algorithm 3, constraints, edge cases."""

import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import stage_of
from pipeline import part
from pwfl.scenario import resolve
from pwfl.systems.multicell import assignment, integer_program, power, reference
from pwfl.systems.multicell.start_values import StartValueError

SOLVERS = ["GLPK_MI", "HIGHS"]


# A cell's program (30)-(34)


def brute_force(value, load, budget, fraction):
    """Greatest value and least power over all allocations, None if none fits; (23) and (24) by construction."""
    best = None
    for owner in product(range(-1, len(value)), repeat=fraction.shape[1]):
        served = sorted(user for user in owner if user >= 0)
        if len(set(served)) < len(served) or any(fraction[u, n] > 1 for n, u in enumerate(owner) if u >= 0):
            continue
        if sum(load[u] for u in served) <= budget:
            power = sum(fraction[u, n] for n, u in enumerate(owner) if u >= 0)
            best = max(best or (-np.inf, 0.0), (sum(value[u] for u in served), -power))
    return best


def merit(block, value, load, budget, fraction):
    """Value and negative power of an allocation, after checking that it is one."""
    served = np.flatnonzero(block >= 0)
    assert len(set(block[served])) == len(served)
    assert (fraction[served, block[served]] <= 1).all()
    assert load[served].sum() <= budget
    return value[served].sum(), -fraction[served, block[served]].sum()


# Numbers whose sums are exact, so ties are ties.
VALUES = st.sampled_from([-3.0, -1.0, 0.0, 0.5, 1.0, 1.0, 2.0, 2.5, 3.0])
LOADS = st.sampled_from([-3.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 4.0])
FRACTIONS = st.sampled_from([0.125, 0.25, 0.25, 0.5, 0.75, 1.0, 1.5, np.inf])


@st.composite
def cells(draw):
    users, blocks = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    value = draw(st.lists(VALUES, min_size=users, max_size=users))
    load = draw(st.lists(LOADS, min_size=users, max_size=users))
    fraction = draw(st.lists(FRACTIONS, min_size=users * blocks, max_size=users * blocks))
    return np.array(value), np.array(load), float(draw(st.integers(-4, 6))), np.reshape(fraction, (users, blocks))


@settings(derandomize=True, deadline=None, max_examples=400)
@given(cells())
def test_a_cell_gets_the_most_value_then_the_least_power(cell):
    value, load, budget, fraction = cell
    best, relaxed = brute_force(*cell), brute_force(value, load, np.inf, fraction)
    block, status = assignment.solve(value[None], load[None], np.array([budget]), fraction[None])
    if best is None:
        assert status[0] == "infeasible_kept"
        assert (block == -1).all()
    else:
        assert merit(block[0], *cell) == best
        assert status[0] == ("assignment" if best == relaxed and status[0] == "assignment" else "integer_program")
    block = integer_program.solve(*cell)
    assert (block is None) == (best is None)
    assert best is None or merit(block, *cell) == best


# GLPK's presolve leaves no column of this one.
PRESOLVED = np.array([2.5, -1, 1, -1]), np.array([-1.0, -2, 1, 2]), 5.0, np.array([[0.125], [0.5], [1.5], [0.125]])


@settings(derandomize=True, deadline=None, max_examples=60)
@given(cell=cells())
@example(PRESOLVED)
def reference_against_brute_force(solver, cell):
    best, block = brute_force(*cell), reference.solve(*cell, solver)
    assert (block is None) == (best is None)
    assert best is None or merit(block, *cell) == best


@pytest.mark.parametrize("solver", SOLVERS)
def test_reference_solvers_get_the_most_value_then_the_least_power(solver):
    # GLPK aborts the process on an error of its own, so the programs are solved in another one.
    code = f"from test_schedule import reference_against_brute_force as check; check({solver!r})"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]


# Algorithm 3


def simulate(override, realizations, scheduler="optimal", scheme="optimal", base=None):
    """The scenario, and the tables of channel, schedule and noise."""
    s = resolve(base or {}, override)
    tables = stage_of.channel(part(s, "channel"), realizations)
    tables |= stage_of.schedule(part(s, "schedule", scheduler), scheduler, tables)
    return s, tables | stage_of.noise(part(s, "noise", scheme), scheme, tables)


class Network:
    """A table's realizations as arrays, with the constants of Table I in watts."""

    def __init__(self, s, tables):
        users, start = tables["users"], tables["start_values"]
        self.count = users["realization"].n_unique()
        columns = (users["cell"], users["samples"], start["noise_std"], start["power_w"], start["resource_block"])
        arrays = (column.fill_null(-1).to_numpy().reshape(self.count, -1) for column in columns)
        self.cell, self.samples, self.noise_std, self.power, self.start = arrays
        self.gain = tables["links"]["gain"].to_numpy().reshape(self.count, -1, self.cell.shape[1])
        self.cells, self.blocks = self.gain.shape[1], s.radio.resource_blocks
        self.gamma, self.v_max = s.schedule.gamma, s.privacy.max_noise_error
        self.p_max = 1e-3 * 10 ** (s.radio.max_power_dbm / 10)
        self.thermal = 1e-3 * 10 ** (s.radio.noise_density_dbm_hz / 10) * s.radio.bandwidth_hz
        self.theta = 2 ** (s.radio.min_rate_bps / s.radio.bandwidth_hz) - 1

    def value(self, r, i):
        return self.samples[r, i] - self.gamma / (self.samples[r, i] * self.noise_std[r, i]) ** 2

    def load(self, r, i):
        return self.samples[r, i] * (self.noise_std[r, i] ** 2 - self.v_max)

    def program(self, r, s, block):
        """Users, value, load, budget and fraction of (30)-(34) for a cell, the other cells as in `block`."""
        mine = [i for i in range(len(block)) if self.cell[r, i] == s]
        others = [j for j in range(len(block)) if self.cell[r, j] != s and block[j] >= 0]
        fraction = np.empty((len(mine), self.blocks))
        for n in range(self.blocks):
            interference = sum(self.gain[r, s, j] * self.power[r, j] for j in others if block[j] == n)
            for k, i in enumerate(mine):
                fraction[k, n] = self.theta * (interference + self.thermal) / self.gain[r, s, i] / self.p_max
        value, load = (np.array([f(r, i) for i in mine]) for f in (self.value, self.load))
        return mine, value, load, -sum(self.load(r, j) for j in others), fraction


BINDING = {"privacy": {"max_noise_error": 9.0}, "schedule": {"gamma": 3e6}}


def test_every_cell_in_turn_gets_the_optimum_of_its_program():
    statuses = set()
    for users, rings, blocks, power_dbm in [(6, 0, 3, 10.0), (16, 1, 2, 10.0), (12, 1, 3, -5.0), (14, 1, 2, -15.0)]:
        radio = {"resource_blocks": blocks, "max_power_dbm": power_dbm}
        s, tables = simulate(BINDING | {"network": {"users": users, "rings": rings}, "radio": radio}, range(25))
        network = Network(s, tables)
        found = tables["schedule"]["assigned_block"].fill_null(-1).to_numpy().reshape(25, -1)
        status = tables["schedule_status"]["status"].to_numpy().reshape(25, -1)
        statuses |= set(status.ravel())
        for r in range(network.count):
            current = network.start[r].copy()
            for cell in range(network.cells):
                mine, *program = network.program(r, cell, current)
                best = brute_force(*program)
                assert (status[r, cell] == "infeasible_kept") == (best is None)
                if best is None:
                    assert (found[r, mine] == current[mine]).all()
                else:
                    assert merit(found[r, mine], *program) == pytest.approx(best, rel=1e-9)
                current[mine] = found[r, mine]
            final = tables["schedule"].filter(pl.col("realization") == r)["resource_block"].fill_null(-1).to_numpy()
            kept = final >= 0
            assert (final[kept] == found[r, kept]).all()
            counts = tables["schedule_status"].filter(pl.col("realization") == r)
            for cell in range(network.cells):
                inside = network.cell[r] == cell
                sent = (found[r, inside] >= 0).sum()
                numbers = inside.sum(), sent, sent - kept[inside].sum()
                assert counts.row(cell) == (r, 0, cell, status[r, cell], *numbers)
    assert statuses == {"assignment", "integer_program", "infeasible_kept"}


# Table I's size: seed 5, realizations where (31) binds in several cells.
PAPER = [
    pytest.param({"radio": {"resource_blocks": 5}, "schedule": {"gamma": 1e6}}, [33, 54], 4, id="r5_gamma1e6"),
    # In the last two, blocks differ by 1e-8 of Pmax, which decides among equal values.
    pytest.param(
        {"radio": {"resource_blocks": 8}, "schedule": {"gamma": 1e7}}, [12, 16, 19, 53, 48], 8, id="r8_gamma1e7"
    ),
]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("override", "realizations", "binding"), PAPER)
def test_reference_solvers_schedule_the_same_users_on_the_same_blocks(override, realizations, binding, solver):
    bound = 0
    for r in realizations:
        _, ours = simulate({"seed": 5} | override, range(r, r + 1))
        other = {"schedule": override["schedule"] | {"solver": solver}}
        _, theirs = simulate({"seed": 5} | override | other, range(r, r + 1))
        bound += (ours["schedule_status"]["status"] == "integer_program").sum()
        assert_frame_equal(ours["schedule"], theirs["schedule"], check_exact=True)
    assert bound >= binding


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solver_that_does_not_end_is_stopped_and_says_so(solver, monkeypatch):
    # All users hold as many samples: GLPK would visit many sets that are worth the same.
    monkeypatch.setattr(reference, "TIME_LIMIT_S", 1.0 if solver == "GLPK_MI" else 1e-3)
    override = {"data": {"samples_log_sd": 0.0}, "radio": {"resource_blocks": 8}}
    weight = {"schedule": {"gamma": 1e7, "solver": solver}}
    with pytest.raises(
        reference.SolverError, match=rf"realization \d, cell \d: {solver} found no optimum for a cell in"
    ):
        simulate(override | weight, range(2))


# Constraints on what comes out


SCENARIOS = {
    "seed": st.integers(0, 2**40),
    "users": st.integers(1, 40),
    "rings": st.integers(0, 2),
    "blocks": st.integers(1, 6),
    "power_dbm": st.sampled_from([-20.0, 0.0, 10.0, 30.0, 60.0]),
    "rate": st.sampled_from([1e3, 1e5, 1e6]),
    "gamma": st.sampled_from([0.0, 1e6, 1e7]),
    "max_error": st.sampled_from([6.0, 12.0]),
}


SCHEMES = [
    *product(["random", "optimal"], ["random", "optimal"]),
    *[("joint", "random"), ("joint", "optimal"), ("joint_noise", "optimal"), ("joint_snr", "equal_max")],
]


@settings(derandomize=True, deadline=None, max_examples=90)
@given(scheme=st.sampled_from(SCHEMES), **SCENARIOS)
def test_every_output_satisfies_21_to_26(scheme, seed, users, rings, blocks, power_dbm, rate, gamma, max_error):
    override = {
        "seed": seed,
        "network": {"users": users, "rings": rings},
        "radio": {"resource_blocks": blocks, "max_power_dbm": power_dbm, "min_rate_bps": rate},
        "privacy": {"max_noise_error": max_error},
        "schedule": {"gamma": gamma},
    }
    try:
        s, tables = simulate(override, range(4), *scheme)
    except StartValueError:
        assume(False)
    tables |= stage_of.receive(part(s, "receive"), tables)
    outcome = stage_of.account(part(s, "account"), tables)["outcome"]
    frame = pl.concat(
        [tables["users"], tables["schedule"].drop("realization", "user"), tables["noise"].select("noise_std")],
        how="horizontal",
    )
    served, joint = frame.drop_nulls("resource_block"), scheme[0].startswith("joint")
    assert not joint or tables["schedule_status"]["unscheduled"].sum() == 0
    assert not served.select("realization", "cell", "resource_block").is_duplicated().any()  # (23); (24): one column
    assert served["resource_block"].is_between(0, blocks - 1).all()
    assert frame["power_w"].is_between(0, 1e-3 * 10 ** (power_dbm / 10) * (1 + 1e-12)).all()  # (25)
    assert (served["rate_bps"] >= rate * (1 - 1e-6)).all()  # (26)
    rest = frame.filter(pl.col("resource_block").is_null()).select("power_w", "rate_bps", "noise_std")
    assert (rest.fill_null(0) == 0).to_numpy().all()
    status = dict(tables["noise_status"].select("realization", "status").rows())
    for (r,), group in served.group_by("realization"):
        assert status[r] in (scheme[1], "infeasible")
        if status[r] == "infeasible":
            assert not joint
            assert group["noise_std"].is_null().all()
            continue
        samples, noise_std = group["samples"].to_numpy(), group["noise_std"].to_numpy()
        assert (samples * noise_std >= s.privacy.min_noise * (1 - 1e-12)).all()  # (22)
        if joint or scheme[1] == "optimal":
            assert (samples * noise_std**2).sum() <= max_error * samples.sum() * (1 + 1e-9)  # (21)
    assert all(status[r] == "no_user_scheduled" for r in set(range(4)) - set(served["realization"]))
    kept = outcome.filter(pl.col("noise_error") <= max_error * (1 + 1e-9))  # (21)
    assert (kept["objective"] >= kept["objective_bound"] * (1 - 1e-9) - 1e-9).all()
    if scheme in (("joint", "random"), ("joint_noise", "optimal")):
        assert outcome["objective_gap"].null_count() == 0
        proven = tables["schedule_status"].group_by("realization", maintain_order=True).first()["status"] == "proven"
        assert (outcome["proven_optimal"] == proven).all()


# Edge cases


EDGES = {
    "more_blocks_than_users": {"network": {"users": 20}, "radio": {"resource_blocks": 30}},
    "equal_samples": {"network": {"users": 40}, "data": {"samples_log_sd": 0.0}, "schedule": {"gamma": 0.0}},
    "all_privacy_weight": {"schedule": {"gamma": 1e12}},
    "no_path_loss": {"radio": {"path_loss_exponent": 0.0}},
    "steep_path_loss": {"radio": {"path_loss_exponent": 6.0}},
    "high_rate": {"radio": {"min_rate_bps": 3e6}},
    "low_rate": {"radio": {"min_rate_bps": 1.0}},
    "weak": {"radio": {"max_power_dbm": -100.0}},
    "strong": {"radio": {"max_power_dbm": 100.0}},
}


@pytest.mark.parametrize("scheduler", ["random", "optimal"])
@pytest.mark.parametrize("edge", EDGES)
def test_edge_cases_work(edge, scheduler):
    s, tables = simulate(EDGES[edge], range(4), scheduler, "optimal")
    served = tables["schedule"].drop_nulls("resource_block")
    assert len(tables["schedule"]) == 4 * s.network.users
    assert (served["rate_bps"] >= s.radio.min_rate_bps * (1 - 1e-6)).all()
    if edge == "weak":
        assert served.is_empty()
        assert set(tables["noise_status"]["status"]) == {"no_user_scheduled"}
    elif edge not in ("all_privacy_weight", "no_path_loss", "steep_path_loss", "high_rate"):
        assert served["realization"].n_unique() == 4


# The same whatever the shard


SHARDED = {
    "table_1": {},
    "binding": {"radio": {"resource_blocks": 8}, "schedule": {"gamma": 1e7}},
    # Blocks without interference need the same power, so which one a user gets is a tie.
    "equal_blocks": {
        "seed": 452443,
        "network": {"users": 17},
        "radio": {"resource_blocks": 8},
        "schedule": {"gamma": 1e7},
    },
}


@pytest.mark.parametrize("scheduler", ["random", "optimal", "joint", "joint_noise"])
@pytest.mark.parametrize("name", SHARDED)
def test_tables_do_not_depend_on_the_shard(name, scheduler):
    count = 14 if scheduler.startswith("joint") else 40
    _, whole = simulate(SHARDED[name], range(count), scheduler)
    for size in (1, 7):
        shards = [simulate(SHARDED[name], range(k, min(k + size, count)), scheduler)[1] for k in range(0, count, size)]
        for table, frame in whole.items():
            assert_frame_equal(frame, pl.concat([shard[table] for shard in shards]), check_exact=True)


def test_users_who_are_all_alike_are_scheduled_as_highs_would():
    # Every set of as many users is an optimum: the search would visit millions.
    alike = {"network": {"users": 100, "rings": 0}, "data": {"samples_log_sd": 0.0}, "schedule": {"gamma": 0.0}}
    found = [simulate({"schedule": {"solver": solver}}, range(4), base=alike)[1] for solver in ("assignment", "HIGHS")]
    assert "integer_program" in found[0]["schedule_status"]["status"].to_list()
    ours, theirs = (f["schedule"].group_by("realization", maintain_order=True) for f in found)
    total = [pl.col("resource_block").is_not_null().sum(), pl.col("power_w").sum()]
    for (_, *mine), (_, *highs) in zip(ours.agg(total).rows(), theirs.agg(total).rows(), strict=True):
        assert mine == pytest.approx(highs, rel=1e-6)


@pytest.mark.parametrize(
    ("scheduler", "solver", "module", "function", "error", "told"),
    [
        ("optimal", "HIGHS", reference, "solve", reference.SolverError("ended as unbounded"), "realization 7, cell 0"),
        ("random", "assignment", power, "least_deviation", ArithmeticError("ended as kTimeLimit"), r"realization [78], block \d"),
    ],
)  # fmt: skip
def test_what_cannot_be_solved_is_named(monkeypatch, scheduler, solver, module, function, error, told):
    def give_up(*_):
        raise error

    monkeypatch.setattr(module, function, give_up)
    with pytest.raises(type(error), match=f"{told}: {error}"):
        simulate({"schedule": {"solver": solver}}, range(7, 9), scheduler)
