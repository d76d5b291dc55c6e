"""Compare scheduling, powers and noise with CVXPY and general solvers: one thread, equal optima.

Schedulers of all cells are compared with Algorithm 3, with its CVXPY programs and with their target time.
"""

from measure import pin_threads, row, seconds

pin_threads(1)

import cvxpy as cp  # noqa: E402
import numpy as np  # noqa: E402

from pwfl import scenario  # noqa: E402
from pwfl.execution import execute  # noqa: E402
from pwfl.execution.stage import Task  # noqa: E402
from pwfl.systems.multicell import power, schedule, start_values  # noqa: E402
from pwfl.systems.multicell.beyond.bound import upper_bound  # noqa: E402
from pwfl.systems.multicell.beyond.problem import ChosenNoise, GivenNoise  # noqa: E402
from pwfl.systems.multicell.interference import Uplink  # noqa: E402
from pwfl.systems.multicell.optimal_noise import optimal_noise  # noqa: E402
from pwfl.systems.multicell.schemes import SCHEDULERS  # noqa: E402
from pwfl.tables import to_array  # noqa: E402

REALIZATIONS, BASELINE = 100, 3  # the baselines are too slow for more than a few realizations
GAP, MOST_SECONDS = 5e-4, 0.010  # of schedulers of all cells: mean optimality gap, and time per realization


def case(blocks: int, gamma: float):
    """Return the scheduler's part of Table I for R and gamma, and the users' samples, links and start values."""
    model = scenario.resolve({"radio": {"resource_blocks": blocks}, "schedule": {"gamma": gamma}}, {})
    tables = execute(Task("channel", model.select_stage("channel"), None, range(REALIZATIONS)), {})
    values, uplink = (
        model.select_stage("schedule", "optimal"),
        Uplink.from_tables(model.radio, tables["users"], tables["links"]),
    )
    samples = to_array(tables["users"], "samples", "realization", "user")
    return values, samples, uplink, start_values.drawn(values, range(REALIZATIONS), uplink.cell, samples, uplink.cells)


def scheduling(blocks: int, gamma: float, target: float) -> dict:
    """Compare scheduling all cells of a realization in turn with one CVXPY program, by GLPK_MI, for each cell."""
    model, samples, uplink, start = case(blocks, gamma)
    block, _ = schedule.optimal_blocks(model, 0, uplink, samples, start)
    # (30), summed over cells
    ours = np.where(block >= 0, gamma / (samples * start.noise_std) ** 2, samples).sum(axis=1)
    np.testing.assert_allclose(ours[:BASELINE], optima(model, samples, uplink, start, block, BASELINE), rtol=1e-9)
    fast, slow = seconds(
        lambda: schedule.optimal_blocks(model, 0, uplink, samples, start),
        lambda: optima(model, samples, uplink, start, block, BASELINE),
    )
    name = f"scheduling a realization, R = {blocks}, gamma = {gamma:.0e}"
    return row(name, "CVXPY + GLPK_MI for each cell", fast / REALIZATIONS, slow / BASELINE, target)


def optima(model, samples_of, uplink, start, solved, count):
    """Run Algorithm 3 in a straightforward way: for each cell in turn one integer program by CVXPY and GLPK_MI.

    Optima are not unique, and the next cell's program depends on the chosen one: solved cells get
    the blocks in `solved`. Returns the optimal values (30) summed over cells, shape (realization,).
    """
    gamma, bound, blocks = model.schedule.gamma, model.privacy.max_noise_error, uplink.blocks
    most, sinr = uplink.max_power_w, uplink.sinr
    columns = [samples_of, start.noise_std, start.power_w]
    total = np.zeros(count)
    for b in range(count):
        gain, cell, block = uplink.gain[b], uplink.cell[b], start.block[b].copy()
        samples, noise, power_w = (column[b] for column in columns)
        load = samples * (noise**2 - bound)
        for s in range(len(gain)):
            mine, others = np.flatnonzero(cell == s), np.flatnonzero((cell != s) & (block >= 0))
            disturbance = np.full(blocks, uplink.noise_w)
            np.add.at(disturbance, block[others], gain[s, others] * power_w[others])
            serve = cp.Variable((len(mine), blocks), boolean=True)
            scheduled = cp.sum(serve, axis=1)
            objective = samples[mine] @ (1 - scheduled) + (gamma / (samples[mine] * noise[mine]) ** 2) @ scheduled
            problem = cp.Problem(
                cp.Minimize(objective),
                [
                    load[mine] @ scheduled + load[others].sum() <= 0,
                    cp.sum(serve, axis=0) <= 1,
                    scheduled <= 1,
                    cp.multiply(serve, sinr * disturbance[None] / gain[s, mine][:, None]) <= most,
                ],
            )
            total[b] += problem.solve(solver="GLPK_MI")
            block[mine] = solved[b, mine]
    return total


def joint(scheduler: str, blocks: int, gamma: float) -> list[dict]:
    """Measure a scheduler of all cells; its mean optimality gap to the bound must be less than GAP."""
    model, samples, uplink, start = case(blocks, gamma)
    whole = scenario.resolve({"radio": {"resource_blocks": blocks}, "schedule": {"gamma": gamma}}, {})
    own = whole.select_stage("schedule", scheduler)
    max_error = whole.privacy.max_noise_error
    if scheduler == "joint":
        problem = GivenNoise.build(samples, start.noise_std, gamma, max_error)
    else:
        problem = ChosenNoise(samples, gamma, max_error, whole.privacy.min_noise)
    block, _ = SCHEDULERS[scheduler].load()(own, 0, uplink, samples, start)
    least = samples.sum(axis=1) - upper_bound(uplink, problem)[0]
    gap = (samples.sum(axis=1) - problem.value(block >= 0)) / least - 1
    assert gap.mean() < GAP, f"{scheduler}, R = {blocks}: mean gap {gap.mean():.2e}"
    ours, paper, slow = seconds(
        lambda: SCHEDULERS[scheduler].load()(own, 0, uplink, samples, start),
        lambda: schedule.optimal_blocks(model, 0, uplink, samples, start),
        lambda: optima(
            model,
            samples,
            uplink,
            start,
            schedule.optimal_blocks(model, 0, uplink, samples, start)[0],
            BASELINE,
        ),
    )
    name = f"scheduler {scheduler}, a realization, R = {blocks}, gamma = {gamma:.0e}"
    return [
        row(name, f"{MOST_SECONDS:g} s", ours / REALIZATIONS, MOST_SECONDS, 1),
        row(name, "Algorithm 3", ours / REALIZATIONS, paper / REALIZATIONS, 10, better="lower"),
        row(name, "Algorithm 3 by CVXPY + GLPK_MI", ours / REALIZATIONS, slow / BASELINE, 20),
    ]


def powers() -> dict:
    """Compare the powers of a chunk of realizations with one linear program over all users per realization."""
    model, samples, uplink, start = case(5, 1e6)
    block, _ = schedule.optimal_blocks(model, 0, uplink, samples, start)

    def one_program(b):
        sends = np.flatnonzero(block[b] >= 0)
        station = uplink.cell[b, sends]
        received = uplink.gain[b][station][:, sends]
        same = (block[b, sends][:, None] == block[b, sends]) & (station[:, None] != station)
        own = uplink.gain[b][station, sends]
        a = np.eye(len(sends)) - uplink.sinr * np.where(same, received, 0.0) / own[:, None]
        p = cp.Variable(len(sends))
        problem = cp.Problem(
            cp.Minimize(cp.norm1(a @ p - uplink.sinr * uplink.noise_w / uplink.max_power_w / own)), [p >= 0, p <= 1]
        )
        return problem.solve(solver="HIGHS")

    fast, slow = seconds(lambda: power.powers(uplink, block), lambda: [one_program(b) for b in range(BASELINE)])
    baseline = "one CVXPY linear program (HiGHS)"
    return row("powers (35) of a realization", baseline, fast / REALIZATIONS, slow / BASELINE, 50)


def noise() -> dict:
    """Compare the noise optimizer with CVXPY and a conic solver."""
    _, samples, _, start = case(5, 1e6)
    scheduled = start.block >= 0

    def conic(b):
        size = samples[b][scheduled[b]].astype(float)
        variance = cp.Variable(len(size))
        limits = [(size / size.sum()) @ variance <= 12.0, variance >= (100.0 / size) ** 2]
        problem = cp.Problem(cp.Minimize((size / 100.0) ** -2.0 @ cp.inv_pos(variance)), limits)
        return problem.solve(solver="CLARABEL")

    ours = optimal_noise(samples, scheduled, 12.0, 100.0)[0]
    found = ((samples[0] * ours[0] / 100.0)[scheduled[0]] ** -2.0).sum()
    np.testing.assert_allclose(found, conic(0), rtol=1e-6)
    fast, slow = seconds(
        lambda: optimal_noise(samples, scheduled, 12.0, 100.0), lambda: [conic(b) for b in range(BASELINE)]
    )
    return row("noise optimizer (36), a realization", "CVXPY + CLARABEL", fast / REALIZATIONS, slow / BASELINE, 100)


def fading(scheduler: str) -> dict:
    """Compare scheduling a coherence interval of a block-fading channel with scheduling a static channel."""
    intervals, realizations = 5, range(REALIZATIONS)

    def schedules(coherence: int):
        model = scenario.resolve({"radio": {"coherence_rounds": coherence}}, {})
        tables = execute(Task("channel", model.select_stage("channel"), None, realizations), {})
        own = model.select_stage("schedule", scheduler)
        return lambda: execute(Task("schedule", own, scheduler), tables)

    rounds = scenario.resolve({}, {}).training.rounds
    ours, static = seconds(schedules(rounds // intervals), schedules(rounds), repeats=3)
    name, count = f"scheduler {scheduler}, an interval of block fading", len(realizations)
    return row(name, "a realization, static", ours / intervals / count, static / count, 1.2, better="lower")


def rows() -> list[dict]:
    """Measure all rows of this module."""
    settings = ((5, 1e6), (8, 1e7))
    schedulers = [(scheduler, *setting) for scheduler in ("joint", "joint_noise") for setting in settings]
    together = [found for each in schedulers for found in joint(*each)]
    anew = [fading(scheduler) for scheduler in ("optimal", "joint", "joint_noise")]
    return [scheduling(5, 1e6, 100), scheduling(8, 1e7, 50), *together, *anew, powers(), noise()]
