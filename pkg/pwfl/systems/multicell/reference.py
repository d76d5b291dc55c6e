"""Reference solution of a cell's program (30)-(34), as in the paper: by CVXPY and a general solver."""

from time import monotonic

import cvxpy as cp
import numpy as np

TIME_LIMIT_S = 60.0  # per program; if many users have the same value, GLPK does not terminate
POWER_SCALE = 1e6  # makes small differences in power exceed the solvers' tolerances
VALUE_TOLERANCE = 1e-9  # largest relative loss of value when power is minimized


class SolverError(RuntimeError):
    """A solver ended without an answer."""


def solve(value: np.ndarray, load: np.ndarray, budget: float, fraction: np.ndarray, solver: str) -> np.ndarray | None:
    """Find the allocation of one cell with the largest value, then the least power; None if none fits the budget.

    Two integer programs: the first finds the largest value, the second the least power at that value. Arguments and
    result are as in `integer_program.solve`; `solver` is CVXPY's name of the solver. Raises SolverError if the first
    program is neither solved nor infeasible, or the second is not solved, within TIME_LIMIT_S.
    """
    if not len(value):
        return np.full(0, -1) if budget >= 0 else None
    allowed = fraction <= 1
    serve = cp.Variable(fraction.shape, boolean=True)
    scheduled = cp.sum(serve, axis=1)
    feasible = [cp.sum(serve, axis=0) <= 1, scheduled <= 1, serve <= allowed, load @ scheduled <= budget]
    # GLPK aborts the process if its presolve leaves no column. At most one of these three variables
    # can be 1, which the presolve does not detect, so they remain.
    ballast = cp.Variable(3, boolean=True)
    feasible += [ballast[0] + ballast[1] <= 1, ballast[1] + ballast[2] <= 1, ballast[0] + ballast[2] <= 1]
    total = value @ scheduled
    if not _optimal(cp.Problem(cp.Maximize(total + cp.sum(ballast)), feasible), solver):
        return None
    least = total.value - VALUE_TOLERANCE * max(1.0, abs(total.value))
    power = cp.sum(cp.multiply(serve, POWER_SCALE * np.where(allowed, fraction, 0.0)))
    if not _optimal(cp.Problem(cp.Minimize(power - cp.sum(ballast)), [*feasible, total >= least]), solver):
        raise SolverError(f"{solver} found an optimum of (30), but not one of minimum power")
    assert serve.value is not None  # the program is solved
    chosen = serve.value > 0.5
    return np.where(chosen.any(axis=1), chosen.argmax(axis=1), -1)


def _optimal(problem: cp.Problem, solver: str) -> bool:
    """Solve a program; return False if it is infeasible. Raises SolverError for any other end without an optimum."""
    options = {
        "GLPK_MI": {"tm_lim": int(1000 * TIME_LIMIT_S)},
        "HIGHS": {"mip_rel_gap": 0.0, "mip_abs_gap": 0.0, "time_limit": TIME_LIMIT_S},
    }
    start = monotonic()
    try:
        problem.solve(solver=solver, **options[solver])
        ended = f"ended as {problem.status}"
    except cp.error.SolverError as error:
        ended = f"failed: {error}"
    if problem.status in (cp.OPTIMAL, cp.INFEASIBLE):
        return problem.status == cp.OPTIMAL
    if monotonic() - start >= TIME_LIMIT_S:
        ended = f"found no optimum for a cell in {TIME_LIMIT_S:g} s; use `schedule.solver: assignment`"
    raise SolverError(f"{solver} {ended}")
