"""Schedulers of all cells together, and bounds: brute force, integer programs, SciPy; sweeps, chunks, tables."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import polars as pl
import pytest
from scipy import optimize

from pipeline import part, stages
from pwfl.scenario import ScenarioError, resolve
from pwfl.systems.multicell.beyond import bound, joint
from pwfl.systems.multicell.beyond.admission import MOST_POWER, Blocks, signal_to_noise
from pwfl.systems.multicell.beyond.allocation import share_maximum
from pwfl.systems.multicell.beyond.problem import ChosenNoise, GivenNoise
from pwfl.systems.multicell.interference import Uplink
from pwfl.systems.multicell.optimal_noise import optimal_noise

SINR = 0.5
GAMMA, MAX_ERROR, MIN_NOISE = 300.0, 0.4, 3.5


def network(rng, count, cells, users, blocks):
    """Networks whose users disturb each other: many pairs can share a block, few larger groups can."""
    cell = np.tile(np.repeat(np.arange(cells), users), (count, 1))
    own = np.arange(cells)[:, None] == cell[:, None]
    gain = np.exp(rng.normal(np.where(own, 2.0, 0.5), 1.5, own.shape))
    bandwidth = 1.0
    return Uplink(gain, cell, blocks, bandwidth, 1.0, 1.0, bandwidth * np.log2(1 + SINR), range(count))


def given_noise(rng, uplink):
    """Values and loads with which (21) often binds."""
    value = rng.lognormal(2, 1, uplink.cell.shape)
    return GivenNoise(value, rng.normal(rng.uniform(-1, 1, (len(value), 1)), 2, value.shape) * value)


def chosen_noise(rng, uplink):
    return ChosenNoise(np.rint(10 + rng.lognormal(2.5, 1, uplink.cell.shape)), GAMMA, MAX_ERROR, MIN_NOISE)


def searched(rng, uplink, problem, searches=16):
    draws = rng.random((len(uplink.gain), searches, uplink.cells + uplink.blocks + 1))
    return joint.joint_blocks(uplink, problem, draws)


def feasible_sets(uplink, row):
    """All sets of users, at most one a cell, whose powers exist and stay within Pmax, by a dense solve."""
    cells = [[None, *np.flatnonzero(uplink.cell[row] == s)] for s in range(uplink.cells)]
    found = []
    for several in product(*cells):
        chosen = np.array([user for user in several if user is not None], int)
        received = uplink.gain[row][uplink.cell[row, chosen]][:, chosen]
        own = np.diagonal(received)
        share = SINR * (received - np.diag(own)) / own[:, None]
        power = np.linalg.solve(np.eye(len(chosen)) - share, SINR / own)
        if ((power >= 0) & (power <= 1)).all():
            found.append(frozenset(chosen.tolist()))
    return found


def exact(uplink, problem, row):
    """The greatest value of any schedule, by an integer program over the sets of users that can share a block."""
    sets = [chosen for chosen in feasible_sets(uplink, row) if chosen]
    if not sets:
        return 0.0
    users = uplink.cell.shape[1]
    on = np.array([[user in chosen for chosen in sets] for user in range(users)], float)
    rules = [
        optimize.LinearConstraint(np.ones(len(sets)), -np.inf, uplink.blocks),
        optimize.LinearConstraint(on, -np.inf, 1),
        optimize.LinearConstraint(problem.loads[row] @ on, -np.inf, 0),
    ]
    value, whole = problem.values[row] @ on, np.ones(len(sets))
    best = optimize.milp(-value, constraints=rules, integrality=whole, options={"mip_rel_gap": 0})
    assert best.status == 0
    return -best.fun


# Exact optima


def all_schedules(uplink, row):
    """Who is scheduled by each assignment of two cells of three users to two blocks that powers exist for."""
    cells = [(0, 1, 2), (3, 4, 5)]
    allocations = [  # of a cell: the user of each block
        [pair for pair in product((None, *own), repeat=2) if pair[0] is None or pair[0] != pair[1]] for own in cells
    ]
    shared = set(feasible_sets(uplink, row))
    for first, second in product(*allocations):
        groups = [frozenset(group) - {None} for group in zip(first, second, strict=True)]
        if shared.issuperset(groups):
            yield np.isin(np.arange(6), [u for group in groups for u in group])


def test_all_assignments_of_two_cells():
    rng = np.random.default_rng(1)
    uplink = network(rng, 40, 2, 3, 2)
    for problem, least_reached in ((given_noise(rng, uplink), 28), (chosen_noise(rng, uplink), 36)):
        reached = 0
        most, _ = bound.upper_bound(uplink, problem)
        block, proven = searched(rng, uplink, problem)
        value = problem.value(block >= 0)
        for row in range(40):
            best = max(value_of(problem, row, scheduled) for scheduled in all_schedules(uplink, row))
            assert value[row] <= best + 1e-9 * abs(best)
            assert most[row] >= best - 1e-9 * abs(best)
            assert not proven[row] or value[row] >= best * (1 - 1.1e-6)
            reached += value[row] >= best - 1e-9 * abs(best)
        assert reached > least_reached
        assert 0.3 < proven.mean() < 1


def test_the_signal_to_noise_ratio_at_equal_rho_is_the_greatest_of_all_assignments():
    rng = np.random.default_rng(9)
    uplink = network(rng, 40, 2, 3, 2)
    samples = np.rint(10 + rng.lognormal(1.5, 1, uplink.cell.shape)).astype(int)
    # Users of few samples can only be scheduled beside others: even their least noise is above Vmax.
    config = {"privacy": {"min_noise": 3.5, "max_noise_error": 0.06}}
    own = part(resolve(config, {}), "schedule", "joint_snr")
    block, status = joint.maximize_snr(own, 0, uplink, samples, start=None)
    optimal, _, feasible = optimal_noise(samples, block >= 0, 0.06, 3.5)
    assert feasible.all()
    equal = share_maximum(samples, optimal)
    reached = bound_by_21 = 0
    for row in range(40):
        sent = np.flatnonzero(block[row] >= 0)
        exposure = (samples[row, sent] * equal[row, sent]) ** -2.0
        assert exposure == pytest.approx(np.full(len(sent), ((samples * optimal)[row, sent] ** -2.0).max(initial=0)))
        assert (samples[row, sent] * (equal[row, sent] ** 2 - 0.06)).sum() <= 1e-9  # (21)
        several = list(all_schedules(uplink, row))
        within = [who for who in several if (3.5**2 / samples[row, who] - 0.06 * samples[row, who]).sum() <= 1e-12]
        best, alone = (max((samples[row, who] ** 2).sum() for who in some) for some in (within, several))
        found = (samples[row, sent] ** 2).sum()
        assert found <= best
        assert status[row, 0] == "searched" or found == best
        reached += found == best
        bound_by_21 += best < alone
    assert reached > 34
    assert bound_by_21 > 3


def value_of(problem, row, scheduled):
    """What a schedule takes off the objective: sums, and for chosen noise a root by SciPy."""
    if isinstance(problem, GivenNoise):
        load = problem.loads[row, scheduled].sum()
        return problem.values[row, scheduled].sum() if load <= 1e-9 else -np.inf
    samples = problem.samples[row, scheduled]
    if not samples.size:
        return 0.0

    def noise(log_kappa):
        return np.maximum((samples**3 * np.exp(log_kappa)) ** -0.25, MIN_NOISE / samples)

    def excess(log_kappa):
        return (samples * noise(log_kappa) ** 2).sum() - MAX_ERROR * samples.sum()

    if excess(100.0) > 0:
        return -np.inf
    kappa = optimize.brentq(excess, -100.0, 100.0, xtol=1e-13)
    return (samples - GAMMA / (samples * noise(kappa)) ** 2).sum()


@cache
def small():
    """500 small networks, a problem of each, and their exact optima."""
    rng, cases = np.random.default_rng(2), []
    for cells, users, blocks, budget in ((2, 5, 2, 1), (3, 4, 2, 0), (3, 3, 2, 1), (4, 3, 1, 1), (4, 2, 3, 0)):
        uplink = network(rng, 100, cells, users, blocks)
        problem = given_noise(rng, uplink)
        problem = GivenNoise(problem.values, budget * problem.loads)
        cases.append((uplink, problem, np.array([exact(uplink, problem, row) for row in range(100)])))
    return cases


def test_no_bound_is_below_an_exact_optimum():
    lowered = met = 0
    for uplink, problem, optimum in small():
        most, multiplier = bound.upper_bound(uplink, problem)
        assert (most >= optimum - 1e-9 * abs(optimum)).all()
        worth, _ = problem.priced(multiplier)
        alone = sum_of_best(uplink, worth)
        lowered += (most < alone - 1e-9).sum()
        met += (most <= optimum + 1e-9 * abs(optimum)).sum()
    assert lowered > 60  # by interference
    assert met > 200


def test_with_more_blocks_than_users_of_a_cell_interference_takes_nothing_off_the_bound():
    rng = np.random.default_rng(17)
    fewest = network(rng, 40, 3, 4, 1)
    for problem in (given_noise(rng, fewest), chosen_noise(rng, fewest)):
        for blocks in (5, 30):
            uplink = replace(fewest, blocks=blocks)
            most, multiplier = bound.upper_bound(uplink, problem)
            worth, _ = problem.priced(multiplier)
            np.testing.assert_allclose(most, sum_of_best(uplink, worth), rtol=1e-9)
        enough, _ = bound.upper_bound(replace(fewest, blocks=4), problem)
        assert (enough < most * (1 - 1e-6)).any()  # a block for each user: users of some cells share every block


def sum_of_best(uplink, worth):
    """The bound without interference, cell by cell."""
    total = np.zeros(len(worth))
    for row, cell in product(range(len(worth)), range(uplink.cells)):
        own = np.flatnonzero(uplink.cell[row] == cell)
        heard = own[SINR / uplink.gain[row, cell, own] <= 1]
        total[row] += np.sort(np.maximum(worth[row, heard], 0))[::-1][: uplink.blocks].sum()
    return total


def test_searches_find_most_exact_optima_and_none_beyond():
    rng, found, without = np.random.default_rng(3), [], []
    for uplink, problem, optimum in small():
        for searches, shares in ((0, without), (32, found)):
            block, proven = searched(rng, uplink, problem, searches)
            value = problem.value(block >= 0)
            assert (value <= optimum + 1e-9 * abs(optimum)).all()
            reached = value >= optimum - 1e-9 * abs(optimum)
            assert (reached | ~proven | (value >= optimum * (1 - 1.1e-6))).all()
            shares.append(reached.mean())
    assert min(found[1], found[4]) > 0.97  # without a budget
    assert min(found) > 0.7
    assert np.mean(without) < 0.9


# Building blocks


def test_admission_agrees_with_a_dense_solve():
    rng = np.random.default_rng(5)
    uplink = network(rng, 12, 5, 4, 3)
    snr = signal_to_noise(uplink)
    blocks = Blocks(snr, SINR, np.arange(12), 3)
    counts = {"entered": 0, "refused": 0}
    for step in range(25):
        cell = rng.integers(5, size=12) if step % 2 else np.full(12, step % 5)
        blocks.vacate(cell)
        candidate = np.array([np.flatnonzero(uplink.cell[row] == cell[row]) for row in range(12)])
        found = blocks.largest_power(cell, candidate)
        user = np.full((12, 3), -1)
        for row, n in product(range(12), range(3)):
            there = [u for u in blocks.user[row, n] if u >= 0]
            for place, entering in enumerate(candidate[row]):
                several = [*there, entering]
                received = uplink.gain[row][uplink.cell[row, several]][:, several]
                m = (1 + SINR) * np.diag(np.diagonal(received)) - SINR * received
                power = np.linalg.solve(m, np.full(len(several), SINR))
                if (np.linalg.inv(m) >= 0).all() and power.max() <= MOST_POWER:
                    assert found[row, n, place] == pytest.approx(power.max(), rel=1e-9)
                    counts["entered"] += 1
                else:
                    assert found[row, n, place] == np.inf
                    counts["refused"] += 1
            order = rng.permutation(4)
            fits = [k for k in order if np.isfinite(found[row, n, k]) and candidate[row, k] not in user[row]]
            if fits and rng.random() < 0.8:
                user[row, n] = candidate[row, fits[0]]
        blocks.enter(cell, user)
    assert min(counts.values()) > 500


def test_the_best_noise_at_a_multiplier_is_the_one_that_scipy_finds():
    samples = np.array([[3.0, 9.0, 40.0, 300.0]])
    problem = ChosenNoise(samples, GAMMA, MAX_ERROR, MIN_NOISE)
    for multiplier in (1e-4, 0.05, 3.0, 80.0):
        worth, load = problem.priced(np.array([multiplier]))
        for k, size in enumerate(samples[0]):

            def cost(log_s, size=size, multiplier=multiplier):
                s = np.exp(log_s)
                return GAMMA / (size**2 * s) + multiplier * size * s

            floor, exact = 2 * np.log(MIN_NOISE / size), {"xatol": 1e-10}
            best = optimize.minimize_scalar(cost, bounds=(floor, floor + 40), method="bounded", options=exact)
            least = min(best.fun, cost(floor))
            assert worth[0, k] == pytest.approx(size * (1 + multiplier * MAX_ERROR) - least, rel=1e-9)
            s = np.exp(best.x if best.fun < cost(floor) else floor)
            assert load[0, k] == pytest.approx(size * s - MAX_ERROR * size, rel=1e-4)


@pytest.mark.parametrize("problem_of", [given_noise, chosen_noise])
def test_the_multiplier_is_the_one_that_scipy_finds(problem_of):
    rng, binding = np.random.default_rng(6), 0
    uplink = network(rng, 60, 3, 5, 2)
    problem = problem_of(rng, uplink)
    most, multiplier = bound.upper_bound(uplink, problem)
    for row in range(60):
        one = replace(uplink, gain=uplink.gain[[row]], cell=uplink.cell[[row]])
        priced = problem.rows([row]).priced

        def relaxed(multiplier, one=one, priced=priced):
            return sum_of_best(one, priced(np.array([multiplier]))[0])[0]

        least = relaxed(0.0)
        for high in (1e-2, 1.0, 1e2):
            found = optimize.minimize_scalar(relaxed, bounds=(0, high), method="bounded", options={"xatol": 1e-12})
            least = min(least, found.fun)
        assert relaxed(multiplier[row]) <= least * (1 + 1e-8)
        assert most[row] <= relaxed(multiplier[row]) * (1 + 1e-12)
        binding += multiplier[row] > 0
    assert binding > 20


def test_bounds_have_the_bits_of_a_realization_alone_with_more_blocks_than_users():
    rng = np.random.default_rng(12)
    uplink = replace(network(rng, 60, 5, 4, 30), cell=rng.integers(5, size=(60, 20)))
    problem = given_noise(rng, uplink)
    among, alone = bound.upper_bound(uplink, problem), []
    for row in range(60):
        one = replace(uplink, gain=uplink.gain[[row]], cell=uplink.cell[[row]])
        alone.append(bound.upper_bound(one, problem.rows([row])))
    for together, apart in zip(among, zip(*alone, strict=True), strict=True):
        assert np.array_equal(together, np.concatenate(apart))


def test_a_realization_alone_has_the_bits_that_it_has_among_others():
    rng = np.random.default_rng(11)
    uplink = network(rng, 300, 5, 12, 3)
    cell = rng.integers(5, size=uplink.cell.shape)  # the fullest cell of a realization differs
    uplink = replace(uplink, cell=cell, gain=np.exp(rng.normal(np.where(cell[:, None] == np.arange(5)[:, None], 2, 0))))
    problem, draws = given_noise(rng, uplink), rng.random((300, 8, 9))
    among = [*bound.upper_bound(uplink, problem), *joint.joint_blocks(uplink, problem, draws)]
    for row in range(300):
        one = replace(uplink, gain=uplink.gain[[row]], cell=cell[[row]])
        alone = [
            *bound.upper_bound(one, problem.rows([row])),
            *joint.joint_blocks(one, problem.rows([row]), draws[[row]]),
        ]
        assert all(np.array_equal(a[row], b[0]) for a, b in zip(among, alone, strict=True))


# Sweeps and searches


@pytest.mark.parametrize("problem_of", [given_noise, chosen_noise])
def test_no_search_lowers_the_value(problem_of):
    rng = np.random.default_rng(8)
    uplink = network(rng, 100, 4, 4, 3)
    problem = problem_of(rng, uplink)
    draws = rng.random((100, 40, 8))
    values = [problem.value(joint.joint_blocks(uplink, problem, draws[:, :k])[0] >= 0) for k in (0, 8, 16, 24, 40)]
    assert np.isfinite(values).all()
    assert (np.diff(values, axis=0) >= 0).all()
    assert (values[-1] > values[0]).sum() > 10


def given_with_losses(rng, uplink):
    """Given noise, where users whose own value is negative may bring what (21) needs."""
    problem = given_noise(rng, uplink)
    return GivenNoise(problem.values - 6.0, problem.loads)


@pytest.mark.parametrize("problem_of", [given_noise, given_with_losses, chosen_noise])
@pytest.mark.parametrize("searches", [0, 8])
def test_no_user_who_leaves_enters_or_takes_a_place_raises_the_value(problem_of, searches):
    rng, changes = np.random.default_rng(10), 0
    uplink = network(rng, 60, 3, 4, 2)
    problem = problem_of(rng, uplink)
    block, proven = searched(rng, uplink, problem, searches)
    for row in range(60):
        value = value_of(problem, row, block[row] >= 0)
        most = value + (1.1e-6 if proven[row] else 1e-9) * abs(value)
        shared = set(feasible_sets(uplink, row))
        for n, cell in product(range(2), range(3)):
            own = uplink.cell[row] == cell
            others = (block[row] >= 0) & ~(own & (block[row] == n))
            group = frozenset(np.flatnonzero(others & (block[row] == n)).tolist())
            for user in [None, *np.flatnonzero(own & ~others).tolist()]:
                if group | {user} - {None} in shared:
                    after = others | (np.arange(12) == user)
                    assert value_of(problem, row, after) <= most
                    changes += not proven[row]
    assert changes > 100


def test_users_leave_until_the_budget_is_kept_and_no_longer():
    problem = GivenNoise(np.array([[9.0, 8.0, 7.0, 1.0]]), np.array([[3.0, 4.0, -5.0, 1.0]]))
    user = np.array([[[0, 2], [1, 3]]])
    # Loads add up to 3; worth over load is 3, 2, -, 1: user 3 leaves, then user 1.
    assert joint.within_budget(problem, problem.values, user).tolist() == [[[0, 2], [-1, -1]]]
    assert problem.value(np.array([[True, True, True, True], [True, False, True, False]])).tolist() == [-np.inf, 16.0]
    chosen = ChosenNoise(np.array([[1.0, 40.0]]), GAMMA, MAX_ERROR, MIN_NOISE)
    assert chosen.least_load[0, 0] > 0 > chosen.least_load[0].sum()
    assert np.isfinite(chosen.value(np.array([[True, True]])))
    assert chosen.value(np.array([[True, False]])) == -np.inf
    kept = GivenNoise(problem.values, problem.loads - 1)
    assert joint.within_budget(kept, kept.values, user).tolist() == user.tolist()


# Tables


JOINT = [("joint", "random"), ("joint", "optimal"), ("joint_noise", "optimal"), ("joint_snr", "equal_max")]
SCHEMES = [{"name": f"{a} {b}", "scheduler": a, "noise": b} for a, b in JOINT]
PAPER = [
    {"name": "OptSched", "scheduler": "optimal", "noise": "random"},
    {"name": "OptSched+DP", "scheduler": "optimal", "noise": "optimal"},
]
TABLE_I = [
    pytest.param({"radio": {"resource_blocks": 5}, "schedule": {"gamma": 1e6}}, 4.05, 0.461, id="r5_gamma1e6"),
    pytest.param({"radio": {"resource_blocks": 8}, "schedule": {"gamma": 1e7}}, 2.90, 0.531, id="r8_gamma1e7"),
]


@pytest.mark.parametrize(("override", "papers_gap", "papers_objective"), TABLE_I)
def test_gaps_and_objectives_at_table_1(override, papers_gap, papers_objective):
    model = resolve({"realizations": 100, "training_realizations": 1, "schemes": PAPER + SCHEMES}, override)
    found = {scheme.name: tables for scheme, tables in stages(model)}
    outcome = {name: tables["outcome"] for name, tables in found.items()}
    gap = {name: (frame["objective_gap"] * 100).mean() for name, frame in outcome.items()}
    objective = {name: (frame["objective"] / frame["samples"]).mean() for name, frame in outcome.items()}
    assert gap["OptSched"] == pytest.approx(papers_gap, abs=1.0)
    assert gap["joint random"] < 0.025
    assert gap["joint_noise optimal"] < 0.03
    assert objective["OptSched+DP"] == pytest.approx(papers_objective, abs=0.01)
    assert objective["joint_noise optimal"] < objective["joint optimal"] < objective["OptSched+DP"]
    for scheme in SCHEMES:
        assert set(found[scheme["name"]]["schedule_status"]["status"]) <= {"proven", "searched"}


# Certificates


def test_a_certificate_is_of_the_problem_that_the_noise_leaves_open():
    schemes = [*PAPER, {"name": "RndSched", "scheduler": "random", "noise": "random"}]
    schemes += [{"name": "target", "scheduler": "optimal", "noise": "target"}, SCHEMES[0]]
    config = {"radio": {"resource_blocks": 8}, "schedule": {"gamma": 1e7}, "privacy": {"target_epsilon": 3.0}}
    model = resolve(config | {"realizations": 30, "training_realizations": 1, "schemes": schemes}, {})
    outcome = {}
    for scheme, tables in stages(model):
        outcome[scheme.name] = tables["outcome"]
        if scheme.name == "OptSched":
            users, start = tables["users"], tables["start_values"]
            uplink = Uplink.from_tables(model.radio, users, tables["links"])
    samples, noise_std = (each.to_numpy().reshape(30, -1) for each in (users["samples"], start["noise_std"]))
    given, chosen = GivenNoise.build(samples, noise_std, 1e7, 12.0), ChosenNoise(samples, 1e7, 12.0, 100.0)
    for name, problem in (("OptSched", given), ("RndSched", given), ("OptSched+DP", chosen)):
        least = samples.sum(axis=1) - bound.upper_bound(uplink, problem)[0]
        np.testing.assert_allclose(outcome[name]["objective_bound"], least, rtol=1e-12)
        kept = outcome[name].filter(pl.col("noise_error") <= 12 * (1 + 1e-9))
        assert (kept["objective_gap"] - (kept["objective"] / kept["objective_bound"] - 1)).abs().max() < 1e-12
        # Where (21) does not hold, the bound says nothing.
        lost = outcome[name].filter(pl.col("noise_error") > 12 * (1 + 1e-9))
        assert lost["objective_gap"].is_null().all()
        assert lost["proven_optimal"].is_null().all()
    assert outcome["RndSched"]["objective_gap"].null_count() > 0
    bounds = outcome["target"].select("objective_bound", "objective_gap", "proven_optimal")
    assert bounds.null_count().row(0) == (30,) * 3
    assert (outcome["OptSched+DP"]["objective_bound"] < outcome["OptSched"]["objective_bound"]).all()
    assert outcome["joint random"]["proven_optimal"].sum() > outcome["OptSched"]["proven_optimal"].sum() > 0


def test_where_nobody_can_be_heard_nobody_is_scheduled_and_that_is_proven():
    config = {"radio": {"max_power_dbm": -90.0}, "realizations": 3, "training_realizations": 1, "schemes": SCHEMES}
    for _, tables in stages(resolve(config, {})):
        assert tables["schedule"]["resource_block"].is_null().all()
        assert (tables["outcome"]["objective_gap"] == 0).all()
        assert tables["outcome"]["proven_optimal"].all()


@pytest.mark.parametrize(("scheduler", "noise"), [("joint_noise", "optimal"), ("joint_snr", "equal_max")])
def test_a_schedule_for_noise_that_follows_it_does_not_take_start_values(scheduler, noise):
    wrong = [{"name": "mixed", "scheduler": scheduler, "noise": "random"}]
    with pytest.raises(ScenarioError, match=f"'mixed' has `scheduler: {scheduler}`.* use `noise: {noise}`"):
        resolve({"schemes": wrong}, {})
