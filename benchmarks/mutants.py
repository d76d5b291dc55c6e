"""Whether the tests notice faults: each of mutants.toml in a copy of the package, and the tests that must fail there.

Run as `python benchmarks/mutants.py [--jobs N] [WORD ...]`; words choose mutants whose module, change or text holds
one of them. Writes benchmarks/results/mutants.csv and prints the survivors. What stands in mutants.jsonl beside it for
the same change, module and test files is not run again; delete it to begin anew. The tests that failed are run once
without a fault: those that fail there, too, have killed nothing.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import polars as pl
from measure import thread_variables

FOLDER = Path(__file__).parent
ROOT, PACKAGE = FOLDER.parent, FOLDER.parent / "pkg" / "pwfl"
TABLE, RESULTS = FOLDER / "mutants.toml", FOLDER / "results"
TIMEOUT = 600  # seconds, after which a mutant that hangs counts as killed
KILLED, SURVIVED, UNTESTED, ANYWAY = "killed", "survived", "no test ran", "fails without a fault, too"


class Mutant(NamedTuple):
    """A fault: what stands in a module exactly once, what takes its place, what that breaks, tests that must fail."""

    module: str
    old: str
    new: str
    breaks: str
    tests: str  # arguments of pytest, files without their folder
    survives: str | None  # why no test notices


def mutants() -> list[Mutant]:
    """The table's rows."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    tests = table.pop("tests")
    return [
        Mutant(module, row["old"], row["new"], row["breaks"], row.get("tests", tests[module]), row.get("survives"))
        for module, rows in table.items()
        for row in rows
    ]


def flaw(mutant: Mutant) -> str | None:
    """Why a row of the table is none, or no longer; None where it is fine."""
    path = PACKAGE / mutant.module
    if not path.is_file():
        return f"{mutant.module}: there is no such module"
    if (count := path.read_text(encoding="utf-8").count(mutant.old)) != 1:
        return f"{mutant.module}: {mutant.old!r} stands there {count} times, not once"
    if missing := [name for name in files(mutant) if not (ROOT / "tests" / name).is_file()]:
        return f"{mutant.module}: {mutant.old!r}: there is no tests/{missing[0]}"
    return None


def files(mutant: Mutant) -> list[str]:
    """The test files that a mutant names."""
    return [word.partition("::")[0] for word in shlex.split(mutant.tests) if ".py" in word]


def digest(mutant: Mutant) -> str:
    """Of what a result depends on in the first place: the change, its module and its tests' files."""
    found = hashlib.sha256(repr((mutant.module, mutant.old, mutant.new, mutant.tests)).encode())
    for path in (PACKAGE / mutant.module, *(ROOT / "tests" / name for name in files(mutant))):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def try_out(mutant: Mutant) -> dict:
    """Whether a mutant's tests fail, the first that does, and how long they take."""
    start = perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutant") as folder:
        copy = Path(folder, "pwfl")
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        module = copy / mutant.module
        module.write_text(module.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8")
        arguments = [f"tests/{word}" if ".py" in word else word for word in shlex.split(mutant.tests)]
        try:
            code, failed = run_tests(folder, "--exitfirst", *arguments)
            result = {0: SURVIVED, 1: KILLED, 5: UNTESTED}.get(code, f"pytest ended with {code}")
        except subprocess.TimeoutExpired:
            result, failed = KILLED, []
    return {"result": result, "test": (failed or [None])[0], "seconds": round(perf_counter() - start, 1)}


def run_tests(package_folder: str, *arguments: str, timeout: float | None = TIMEOUT) -> tuple[int, list[str]]:
    """pytest's exit status and the tests that failed, with the package that lies in a folder."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTHONPATH": package_folder, "PYTHONDONTWRITEBYTECODE": "1"} | thread_variables(1)
    run = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    return run.returncode, re.findall(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", run.stdout, re.MULTILINE)


def failing_anyway(tests: set[str]) -> set[str]:
    """Which tests fail without a fault."""
    if not tests:
        return set()
    code, failed = run_tests(str(PACKAGE.parent), *sorted(tests), timeout=None)
    if code not in (0, 1):
        sys.exit(f"the tests that failed cannot be run without a fault: pytest ended with {code}")
    return set(failed)


def main() -> int:
    """Try out the mutants chosen; 1 where one survives of which the table does not say why."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("words", nargs="*", help="mutants whose module, change or text holds one of these words")
    options = parser.parse_args()
    table = mutants()
    if flaws := [found for mutant in table if (found := flaw(mutant))]:
        sys.exit("\n".join(flaws))
    chosen = [m for m in table if not options.words or any(w in " ".join(m[:4]) for w in options.words)]

    RESULTS.mkdir(exist_ok=True)
    record = RESULTS / "mutants.jsonl"
    known = {}
    if record.exists():
        known = {row["digest"]: row for line in record.read_text().splitlines() for row in [json.loads(line)]}
    keys = {mutant: digest(mutant) for mutant in chosen}
    todo = [mutant for mutant in chosen if keys[mutant] not in known]
    with ThreadPoolExecutor(options.jobs) as pool, open(record, "a") as file:
        tried = {pool.submit(try_out, mutant): mutant for mutant in todo}
        try:
            for count, future in enumerate(as_completed(tried), 1):
                mutant, row = tried[future], {"digest": keys[tried[future]]} | future.result()
                known[row["digest"]] = row
                if row["result"] in (KILLED, SURVIVED):
                    print(json.dumps(row), file=file, flush=True)
                done = f"{count}/{len(todo)} {row['result']}, {row['seconds']} s"
                print(f"{done}: {mutant.module}: {mutant.breaks}", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)

    rows = [mutant._asdict() | known[keys[mutant]] for mutant in chosen]
    anyway = failing_anyway({row["test"] for row in rows if row["test"]})
    rows = [row | {"result": ANYWAY} if row["test"] in anyway else row for row in rows]
    pl.DataFrame(rows, infer_schema_length=None).drop("digest").write_csv(RESULTS / "mutants.csv")
    alive = [row for row in rows if row["result"] != KILLED]
    for row in alive:
        print(f"{row['result']}: {row['module']}: {row['breaks']} ({row['survives'] or 'UNEXPLAINED'})")
    seconds = sum(row["seconds"] for row in rows)
    killed = len(rows) - len(alive)
    print(f"{len(rows)} mutants, {killed} killed, {len(alive)} not; {seconds / 60:.0f} minutes of tests")
    return int(any(row["result"] != SURVIVED or not row["survives"] for row in alive))


if __name__ == "__main__":
    sys.exit(main())
