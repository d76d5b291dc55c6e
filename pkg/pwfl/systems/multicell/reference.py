"""A cell's program (30)-(34) by CVXPY and a general solver: the paper's way, to compare with."""

from time import monotonic

import cvxpy as cp
import numpy as np

TIME_LIMIT_S = 60.0  # of one program; where many users are worth the same, GLPK does not end
POWER_SCALE = 1e6  # so that small differences in power exceed the solvers' tolerances
VALUE_TOLERANCE = 1e-9  # of the value that the search for least power may give up, relative


class SolverError(RuntimeError):
    """A solver that ended without an answer."""


def solve(value: np.ndarray, load: np.ndarray, budget: float, fraction: np.ndarray, solver: str) -> np.ndarray | None:
    """The allocation of one cell with most value, then least power; None if none fits the budget.

    Two integer programs: the first finds the greatest value, the second the least power at that value. Arguments and
    result are those of `integer_program.solve`, `solver` is CVXPY's name. Raises SolverError if a program ends neither
    optimal nor infeasible, or not within TIME_LIMIT_S.
    """
    if not len(value):
        return np.full(0, -1) if budget >= 0 else None
    allowed = fraction <= 1
    serve = cp.Variable(fraction.shape, boolean=True)
    scheduled = cp.sum(serve, axis=1)
    feasible = [cp.sum(serve, axis=0) <= 1, scheduled <= 1, serve <= allowed, load @ scheduled <= budget]
    # GLPK aborts the process when its presolve leaves no column; of these three at most one can be
    # chosen, which it does not see, so they stay.
    ballast = cp.Variable(3, boolean=True)
    feasible += [ballast[0] + ballast[1] <= 1, ballast[1] + ballast[2] <= 1, ballast[0] + ballast[2] <= 1]
    total = value @ scheduled
    if not _optimal(cp.Problem(cp.Maximize(total + cp.sum(ballast)), feasible), solver):
        return None
    least = total.value - VALUE_TOLERANCE * max(1.0, abs(total.value))
    power = cp.sum(cp.multiply(serve, POWER_SCALE * np.where(allowed, fraction, 0.0)))
    if not _optimal(cp.Problem(cp.Minimize(power - cp.sum(ballast)), [*feasible, total >= least]), solver):
        raise SolverError(f"{solver} found an optimum of (30), but not one of minimum power")
    assert serve.value is not None  # of a program that is solved
    chosen = serve.value > 0.5
    return np.where(chosen.any(axis=1), chosen.argmax(axis=1), -1)


def _optimal(problem: cp.Problem, solver: str) -> bool:
    """Solve; False where infeasible."""
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
