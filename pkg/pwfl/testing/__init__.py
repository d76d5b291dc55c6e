"""What every system owes, checked: `check_system(NAME)`, or `pwfl test NAME` on the command line."""

import sys
import time
from collections.abc import Callable, Collection

import polars as pl

from pwfl import registry
from pwfl.errors import PACKAGE, describe
from pwfl.scenario import ScenarioError, resolve
from pwfl.testing import audited, declared, draws, repeated, reported, stated, tiny
from pwfl.testing.tiny import CheckError

CHEAP = ("modules", "catalog", "parameters")  # steps for which nothing is run
STEPS: dict[str, tuple[Callable, str]] = {  # each a function of scenario and data that raises CheckError
    "modules": (declared.check_modules, "modules are there, no stage imports another's, and numbers have two bounds"),
    "catalog": (declared.check_catalog, "figures have captions, and a study without scenarios no claims"),
    "parameters": (declared.reruns, "each can be changed, and stands in the addresses of the stages that read it"),
    "accounting": (stated.check_accounting, "the guarantee follows delta, and is infinite without noise"),
    "guarantee": (stated.check_guarantee, "of all that the server sees, by what users add alone"),
    "users": (stated.check_users, "what is said of a user follows the user"),
    "audit": (audited.check_audit, "all that epsilon rests on is tested, and 10 % too little would be seen"),
    "draws": (draws.check_draws, "draws follow seed and realization, are of one use, and matter"),
    "shards": (repeated.check_chunks, "the same tables, by their schemas, for any chunk and order of rows"),
    "report": (reported.check_report, "tables, figures and claims build, and addresses name all code that is run"),
}


def check_system(name: str, only: Collection[str] = (), say: Callable[[str], None] = lambda line: None) -> pl.DataFrame:
    """Run a system's tiny scenario (`tiny` of its catalog) through all stages, and check what every system owes.

    What is checked, step by step, cheap steps first, says `STEPS`. `only` names the steps to take, none: all; `say` is
    told of each before it is taken.

    Returns
    -------
    For each parameter, a value it was changed to and the stages (and variants) that compute anew, with those after
    them: columns parameter, changed_to, stages; no rows unless the step `parameters` is taken.

    Raises
    ------
    CheckError
        After all steps, where something is not as it should be; a paragraph for the first such thing of each step.
    """
    counts = {"realizations": tiny.REALIZATIONS, "training_realizations": tiny.TRAINED}
    model = resolve(registry.system(name).catalog.tiny | {"system": name} | counts, {})
    taken = [step for step in STEPS if step in only or not only]
    found, faults, given = declared.reruns(model, []), [], {}
    for number, step in enumerate(taken, 1):
        check, what = STEPS[step]
        say(f"{number} of {len(taken)}, {step}: {what}")
        try:
            if check is declared.reruns:
                found = declared.reruns(model)
            else:
                given = given or (tiny.given(model) if step not in CHEAP else {})
                check(model, given)
        except Exception as error:  # of the system's own code, too: the steps after it are still worth a look
            speaks = isinstance(error, CheckError) or type(error).__module__.partition(".")[0] == PACKAGE
            faults.append(f"{step}: {error if speaks else describe(error)}")
    if faults:
        raise CheckError("\n".join(faults))
    return found


def report(name: str, only: Collection[str] = ()) -> bool:
    """Check a system by name, print what each parameter computes anew; whether it is as it should be."""
    begun = time.process_time()

    def say(line: str) -> None:
        print(f"{name}: {time.process_time() - begun:.0f} s: {line}", flush=True)

    try:
        found = check_system(name, only, say)
    except (CheckError, ScenarioError, registry.RegistryError) as error:
        for line in str(error).splitlines():
            print(f"{name}: {line}", file=sys.stderr)
        return False
    print(f"{name}: as every system should be{', in this' if only else ''}.")
    if found.height:
        print("What a changed parameter computes anew:")
    for parameter, _, stages in found.iter_rows():
        print(f"  {parameter:32} {stages or 'nothing'}")
    return True
