"""Transmit powers (35): minimize ||A p - b||_1 over 0 <= p <= Pmax, where A p = b is (29).

Only users on the same resource block interact, so there is one small problem per block. If the linear system's
solution is within these limits, it is the optimum.
"""

import highspy
import numpy as np

from pwfl.systems.multicell.interference import Uplink, occupants

LARGE = 1e9  # largest absolute value of a coefficient in the linear program


def powers(uplink: Uplink, block: np.ndarray) -> np.ndarray:
    """Compute the powers of users with a resource block, watts; 0 for the others.

    `block` (-1: none) and the result have shape (realization, user). Raises ArithmeticError if a linear program
    ends without an optimum.
    """
    occupant = occupants(uplink, block)
    coupling, demand = equations(uplink.gain, occupant, uplink.sinr, uplink.noise_w / uplink.max_power_w)
    fraction = np.linalg.solve(coupling, demand[..., None])[..., 0]
    outside = ((fraction < 0) | (fraction > 1)).any(axis=-1)
    for group in np.argwhere(outside):
        try:
            fraction[tuple(group)] = least_deviation(coupling[tuple(group)], demand[tuple(group)])
        except ArithmeticError as error:
            raise ArithmeticError(f"realization {uplink.realizations[group[0]]}, block {group[1]}: {error}") from None

    power = np.zeros(block.shape)
    realization, n, station = np.nonzero(occupant.transpose(0, 2, 1) >= 0)
    user = occupant[realization, station, n]
    power[realization, user] = uplink.max_power_w * fraction[realization, n, station]
    return power


def equations(gain: np.ndarray, occupant: np.ndarray, sinr: float, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute A, shape (realization, block, cell, cell), and b of (29), with powers and noise in units of Pmax.

    `gain` has shape (realization, station, user), `occupant` is as from `occupants`, `sinr` is the ratio that the
    minimum rate requires. For a cell that does not use the block, the equation is p = 0.
    """
    user = occupant.transpose(0, 2, 1)  # (realization, block, cell)
    used = user >= 0
    cells = user.shape[2]
    realization = np.arange(len(gain))[:, None, None, None]
    station = np.arange(cells)[:, None]
    received = gain[realization, station, np.maximum(user, 0)[:, :, None, :]]  # (..., station, transmitter's cell)
    signal = np.where(used, np.diagonal(received, axis1=2, axis2=3), 1.0)
    coupling = -sinr * received / signal[..., None] * (used[..., None] & used[..., None, :])
    coupling[..., np.arange(cells), np.arange(cells)] = 1.0
    return coupling, np.where(used, sinr * noise / signal, 0.0)


def least_deviation(coupling: np.ndarray, demand: np.ndarray) -> np.ndarray:
    """Find the p in [0, 1]^n that minimizes ||A p - b||_1, by a linear program, shape (n,).

    Raises ArithmeticError if the solver does not report an optimum.
    """
    # HiGHS treats very large numbers as infinite. Every entry of A p is at most 1, so it is below a demand above 1 for
    # all p. A power that costs another row LARGE times its worth stays below 1 / LARGE anyway.
    demand, coupling = np.minimum(demand, LARGE), np.maximum(coupling, -LARGE)
    # In units of the largest demand: HiGHS's tolerances are absolute, and demands can be tiny.
    n, unit = len(demand), min(1.0, float(demand.max())) or 1.0
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = 3 * n, n
    program.col_cost_ = np.repeat([0.0, 1.0, 1.0], n)
    program.col_lower_ = np.zeros(3 * n)
    program.col_upper_ = np.repeat([1.0 / unit, np.inf, np.inf], n)
    program.row_lower_ = program.row_upper_ = demand / unit
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.arange(n + 1) * 3 * n
    program.a_matrix_.index_ = np.tile(np.arange(3 * n), n)
    program.a_matrix_.value_ = np.hstack([coupling, -np.eye(n), np.eye(n)]).ravel()
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("presolve", "off")
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("primal_feasibility_tolerance", 1e-10)
    solver.setOptionValue("dual_feasibility_tolerance", 1e-10)
    solver.passModel(program)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise ArithmeticError(f"power control (35) ended as {solver.getModelStatus().name}")
    return np.clip(unit * np.array(solver.getSolution().col_value)[:n], 0.0, 1.0)
