"""Scheduling, powers and noise against CVXPY with general solvers, one thread, equal optima."""

from measure import pin_threads, row, seconds

pin_threads(1)

import cvxpy as cp  # noqa: E402
import numpy as np  # noqa: E402

from pwfl import channel, scenario  # noqa: E402
from pwfl.radio.units import dbm_to_w  # noqa: E402
from pwfl.systems.multicell import power  # noqa: E402
from pwfl.systems.multicell import schedule as multicell  # noqa: E402
from pwfl.systems.multicell.interference import (
    occupants,
    threshold,
)
from pwfl.systems.multicell.optimal_noise import optimal_noise  # noqa: E402
from pwfl.tables import to_array  # noqa: E402

REALIZATIONS, BASELINE = 100, 3  # the baselines are so slow that a few realizations must do


def case(blocks: int, gamma: float):
    """Parameters, tables and arrays of Table I with these blocks and this weight."""
    model = scenario.resolve({"radio": {"resource_blocks": blocks}, "schedule": {"gamma": gamma}}, {})
    tables = channel.run(scenario.stage_parameters(model, "channel"), range(REALIZATIONS))
    users, shape = tables["users"], (REALIZATIONS, -1)
    arrays = {name: to_array(users, name, *shape) for name in ("cell", "samples", "start_noise_std", "start_power_w")}
    arrays["gain"] = to_array(tables["links"], "gain", REALIZATIONS, -1, arrays["cell"].shape[1])
    arrays["start"] = users["start_resource_block"].fill_null(-1).to_numpy().reshape(shape)
    return scenario.stage_parameters(model, "schedule", "optimal"), tables, arrays


def blocks_of(parameters, arrays, count, solver):
    """Algorithm 3's blocks of the first realizations."""
    radio, first = parameters["radio"], {name: a[:count] for name, a in arrays.items()}
    return multicell.optimal_blocks(
        first["start"], first["cell"], first["gain"], samples=first["samples"], noise_std=first["start_noise_std"],
        power_w=first["start_power_w"],
        required=threshold(radio["min_rate_bps"], radio["bandwidth_hz"]) / dbm_to_w(radio["max_power_dbm"]),
        noise_w=multicell.noise_power_w(radio), blocks=radio["resource_blocks"], gamma=parameters["schedule"]["gamma"],
        max_noise_error=parameters["privacy"]["max_noise_error"], solver=solver, realizations=range(count),
    )[0]  # fmt: skip


def value(parameters, arrays, block):
    """The objective (30) summed over cells that a schedule attains, by realization."""
    samples, noise = arrays["samples"][: len(block)], arrays["start_noise_std"][: len(block)]
    return np.where(block >= 0, parameters["schedule"]["gamma"] / (samples * noise) ** 2, samples).sum(axis=1)


def scheduling(blocks: int, gamma: float, target: float) -> dict:
    """All cells of a realization in turn, against one CVXPY program with GLPK_MI for each cell."""
    parameters, _, arrays = case(blocks, gamma)
    ours = blocks_of(parameters, arrays, REALIZATIONS, "assignment")
    theirs = optima(parameters, arrays, ours, BASELINE)
    np.testing.assert_allclose(value(parameters, arrays, ours)[:BASELINE], theirs, rtol=1e-9)
    fast, slow = seconds(
        lambda: blocks_of(parameters, arrays, REALIZATIONS, "assignment"),
        lambda: optima(parameters, arrays, ours, BASELINE),
    )
    name = f"scheduling a realization, R = {blocks}, gamma = {gamma:.0e}"
    return row(name, "CVXPY + GLPK_MI for each cell", fast / REALIZATIONS, slow / BASELINE, target)


def optima(parameters, arrays, solved, count):
    """Algorithm 3 as one would write it: for each cell in turn one integer program by CVXPY and GLPK_MI.

    Optima are not unique, and the next cell's program depends on which one is taken: cells passed
    take the blocks in `solved`. Returns the optimal values (30) summed over cells, by realization.
    """
    radio, gamma = parameters["radio"], parameters["schedule"]["gamma"]
    bound, blocks = parameters["privacy"]["max_noise_error"], radio["resource_blocks"]
    noise_w, most = multicell.noise_power_w(radio), dbm_to_w(radio["max_power_dbm"])
    sinr = threshold(radio["min_rate_bps"], radio["bandwidth_hz"])
    total = np.zeros(count)
    for b in range(count):
        gain, cell, samples = arrays["gain"][b], arrays["cell"][b], arrays["samples"][b]
        noise, power_w, block = arrays["start_noise_std"][b], arrays["start_power_w"][b], arrays["start"][b].copy()
        load = samples * (noise**2 - bound)
        for s in range(len(gain)):
            mine, others = np.flatnonzero(cell == s), np.flatnonzero((cell != s) & (block >= 0))
            disturbance = np.full(blocks, noise_w)
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


def powers() -> dict:
    """Powers of a shard, against one linear program over all users for each realization."""
    parameters, _, arrays = case(5, 1e6)
    radio = parameters["radio"]
    block = blocks_of(parameters, arrays, REALIZATIONS, "assignment")
    occupant = occupants(block, arrays["cell"], arrays["gain"].shape[1], radio["resource_blocks"])
    sinr, noise = threshold(radio["min_rate_bps"], radio["bandwidth_hz"]), multicell.noise_power_w(radio)
    most = dbm_to_w(radio["max_power_dbm"])

    def ours():
        return power.powers(arrays["gain"], arrays["cell"], occupant, sinr, noise, most, range(REALIZATIONS))

    def one_program(b):
        users = np.flatnonzero(block[b] >= 0)
        station = arrays["cell"][b, users]
        received = arrays["gain"][b][station][:, users]
        same = (block[b, users][:, None] == block[b, users]) & (station[:, None] != station)
        own = arrays["gain"][b][station, users]
        a = np.eye(len(users)) - sinr * np.where(same, received, 0.0) / own[:, None]
        p = cp.Variable(len(users))
        problem = cp.Problem(cp.Minimize(cp.norm1(a @ p - sinr * noise / most / own)), [p >= 0, p <= 1])
        return problem.solve(solver="HIGHS")

    fast, slow = seconds(ours, lambda: [one_program(b) for b in range(BASELINE)])
    baseline = "one CVXPY linear program (HiGHS)"
    return row("powers (35) of a realization", baseline, fast / REALIZATIONS, slow / BASELINE, 50)


def noise() -> dict:
    """The noise optimizer, against CVXPY with a conic solver."""
    _, _, arrays = case(5, 1e6)
    samples, scheduled = arrays["samples"], arrays["start"] >= 0

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


def rows() -> list[dict]:
    """All rows of this module."""
    return [scheduling(5, 1e6, 100), scheduling(8, 1e7, 50), powers(), noise()]
