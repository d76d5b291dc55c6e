"""Conformance tests of systems: `check_system(NAME)`, or `pwfl test NAME` on the command line."""

import sys
import time
from collections.abc import Callable, Collection

import polars as pl

from pwfl import registry
from pwfl.errors import PACKAGE, describe
from pwfl.scenario import ScenarioError, resolve
from pwfl.testing import audited, declared, draws, repeated, reported, stated, tiny
from pwfl.testing.tiny import CheckError

CHEAP = ("modules", "tables", "catalog", "parameters")  # steps that run no stage
STEPS: dict[str, tuple[Callable, str]] = {  # a function of scenario and inputs that raises CheckError; its statement
    "modules": (
        declared.check_modules,
        (
            "all modules exist, no stage imports another stage's module, and numeric parameters have lower and upper "
            "bounds"
        ),
    ),
    "tables": (declared.check_columns, "each column says whether it is public, noisy or private"),
    "catalog": (
        declared.check_catalog,
        "figures have captions, and a study without scenarios has no claims",
    ),
    "parameters": (declared.reruns, "each can be changed, and is in the addresses of the stages that read it"),
    "accounting": (stated.check_accounting, "epsilon grows as delta falls, and is infinite without noise"),
    "guarantee": (stated.check_guarantee, "it covers all that the server sees, and rests on the users' noise alone"),
    "users": (stated.check_users, "a user's values stay the same when users are renumbered"),
    "audit": (audited.check_audit, "everything that epsilon rests on is tested, and an error of 10% would be detected"),
    "draws": (draws.check_draws, "random numbers depend on seed and realization, are used once, and have an effect"),
    "chunks": (repeated.check_chunks, "tables match their schemas, and do not depend on chunks or the order of rows"),
    "report": (reported.check_report, "tables, figures and claims build, and addresses cover all code that runs"),
}


def check_system(name: str, only: Collection[str] = (), say: Callable[[str], None] = lambda line: None) -> pl.DataFrame:
    """Run the conformance tests of a system, on its tiny scenario (`tiny` of its catalog) and all stages.

    `STEPS` lists the tests, step by step, cheap steps first. `only` names the steps to take; empty: all. `say` is
    called with a line on each step before the step is taken.

    Returns
    -------
    Columns parameter, changed_to (a value to which it was changed) and stages (stages and variants that the change
    invalidates, with those after them), one row per parameter; no rows unless the step `parameters` is taken.

    Raises
    ------
    CheckError
        After all steps, if any failed; the message has a paragraph for each fault, with the steps that failed by it.
        Of each step, it is the first fault found.
    """
    counts = {"realizations": tiny.REALIZATIONS, "training_realizations": tiny.TRAINED}
    model = resolve(registry.system(name).catalog.tiny | {"system": name} | counts, {})
    taken = [step for step in STEPS if step in only or not only]
    notes, inputs = declared.reruns(model, []), {}
    faults: dict[str, list[str]] = {}  # by what is wrong, the steps that found it
    for number, step in enumerate(taken, 1):
        check, what = STEPS[step]
        say(f"{number} of {len(taken)}, {step}: {what}")
        try:
            if check is declared.reruns:
                notes = declared.reruns(model)
            else:
                inputs = inputs or (tiny.prepare(model) if step not in CHEAP else {})
                check(model, inputs)
        except Exception as error:  # also of the system's code: later steps are still useful
            speaks = isinstance(error, CheckError) or type(error).__module__.partition(".")[0] == PACKAGE
            faults.setdefault(str(error) if speaks else describe(error), []).append(step)
    if faults:
        raise CheckError("\n".join(f"{', '.join(steps)}: {fault}" for fault, steps in faults.items()))
    return notes


def report(name: str, only: Collection[str] = ()) -> bool:
    """Test a system by name, print the stages that each parameter invalidates, and return whether it passed."""
    start = time.process_time()

    def say(line: str) -> None:
        print(f"{name}: {time.process_time() - start:.0f} s: {line}", flush=True)

    try:
        result = check_system(name, only, say)
    except (CheckError, ScenarioError, registry.RegistryError) as error:
        for line in str(error).splitlines():
            print(f"{name}: {line}", file=sys.stderr)
        return False
    print(f"{name}: passed{' the selected tests' if only else ' all conformance tests'}.")
    if result.height:
        print("Stages that each parameter invalidates:")
    for parameter, _, stages in result.iter_rows():
        print(f"  {parameter:32} {stages or 'nothing'}")
    return True
