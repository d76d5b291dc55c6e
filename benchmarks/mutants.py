"""Test whether the tests detect faults: small changes of modules, one at a time, each in a copy of the project.

Run as `python benchmarks/mutants.py [--jobs N] [--most N] WORD ...`; words choose modules of the package by path.
Prints the mutants that survive; exits with 1 if survivors.toml does not explain one of them. Its entries are identified
by module, line and change, so edits of other lines do not affect them.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from measure import thread_variables

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
PACKAGE = Path("pkg/pwfl")
IGNORED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
MADE = {"build", "results", "logs", "store"}  # folders that runs in the checkout make, at its root
FILES = 5  # largest number of test files that are run on a module's mutants
LIMIT = 1200  # seconds, after which a mutant that hangs counts as killed

PAIRS = (
    (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot),
    (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.BitAnd, ast.BitOr),
)  # fmt: skip
SWAPS = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])} | dict.fromkeys(
    (ast.FloorDiv, ast.Mod, ast.Pow), ast.Mult
)


class Mutant(NamedTuple):
    """A change of a module: the line, without indentation; the old code, and the new code."""

    line: str
    old: str
    new: str
    source: str  # of the whole module


def replacements(node: ast.AST) -> Iterator[str]:
    """Yield the possible replacements of a node, as source code."""
    match node:
        case ast.Compare(left, [*ops], others):
            for at, op in enumerate(ops):
                yield f"({ast.unparse(ast.Compare(left, [*ops[:at], SWAPS[type(op)](), *ops[at + 1 :]], others))})"
        case ast.BinOp(left, op, right) if type(op) in SWAPS:
            yield f"({ast.unparse(ast.BinOp(left, SWAPS[type(op)](), right))})"
        case ast.BoolOp(op, values):
            yield f"({ast.unparse(ast.BoolOp(SWAPS[type(op)](), values))})"
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(bool(value)):
            yield str(not value)
        case ast.Constant(int(value) | float(value)):
            yield f"({2 * value + 1})"
        case ast.IfExp(test, body, other):
            yield f"({ast.unparse(ast.IfExp(test, other, body))})"
        case ast.Return(ast.AST() as value) if ast.unparse(value) != "None":
            yield "return None"
        case ast.Raise() | ast.AugAssign() | ast.Expr(ast.Call()):
            yield "pass"
        case ast.Continue() | ast.Break():
            yield "break" if isinstance(node, ast.Continue) else "continue"


def sites(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a node, except in annotations, decorators, f-strings and arguments `strict=`."""
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list") and not isinstance(node, ast.JoinedStr):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield child
                    yield from sites(child)


def mutants(source: str) -> list[Mutant]:
    """List all mutants of a module's source."""
    content = source.encode()
    lines = content.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    found = []
    for node in sites(ast.parse(source)):
        for new in replacements(node):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            changed = (content[:begin] + new.encode() + content[end:]).decode()
            found.append(Mutant(lines[node.lineno - 1].decode().strip(), ast.unparse(node), new, changed))
    return found


def tests_of(module: str) -> list[str]:
    """List at most FILES test files of a module: those named after it or its package, then those that use it most.

    These run it as a stage of its system. If none do, they import it or else the innermost package around it.
    """
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").glob("test_*.py"))}
    parts = ["pwfl", *Path(module.removesuffix("__init__.py").removesuffix(".py")).parts]
    found = [test for part in parts[-2:] if (test := f"test_{part}.py") in texts]
    stage = re.compile(rf"stage_of\.{parts[-1]}\b")
    run = {test: len(stage.findall(text)) for test, text in texts.items() if parts[-2:-1] and parts[-2] in text}
    found += sorted((test for test, count in run.items() if count), key=run.get, reverse=True)
    for depth in range(len(parts) if not any(run.values()) else 0, 0, -1):
        *folders, name = map(re.escape, parts[:depth])
        package = r"\.".join(folders)
        imported = re.compile(rf"from {package} import (\([^)]*|.*)\b{name}\b|(from|import) {package}\.?{name}\b")
        if count := {test: text.count(parts[-1]) for test, text in texts.items() if imported.search(text)}:
            found += sorted(count, key=count.get, reverse=True)
            break
    return [f"tests/{test}" for test in dict.fromkeys(found)][:FILES]


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Return the names in a folder that a copy of the project leaves out."""
    return IGNORED(folder, names) | (MADE if Path(folder) == ROOT else set())


def run_tests(tests: list[str], module: str = "", source: str = "") -> str:
    """Return the first failure of tests in a copy of the project, with `source` as a module's source; empty: none."""
    with tempfile.TemporaryDirectory(prefix="mutant") as folder:
        copy = shutil.copytree(ROOT, Path(folder, "project"), ignore=_left_out)
        if module:
            (copy / PACKAGE / module).write_text(source, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "--exitfirst", "-p", "no:cacheprovider"]
        command += [f"--basetemp={folder}/tests", "-m", "not slow and not slurm", *tests]
        told = {"PYTHONPATH": str(copy / "pkg"), "PYTHONDONTWRITEBYTECODE": "1"} | thread_variables(1)
        try:
            run = subprocess.run(
                command, cwd=copy, env=os.environ | told, capture_output=True, text=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return "time limit"
    if run.returncode == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", run.stdout, re.MULTILINE)
    return failed[1] if failed else f"pytest ended with {run.returncode}"


def main() -> int:
    """Test mutants of the chosen modules, print the survivors, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--most", type=int, default=40, help="mutants of a module, drawn at random where it has more")
    parser.add_argument("words", nargs="*", help="modules whose path holds one of these words")
    options = parser.parse_args()
    argued, unexplained = tomllib.loads((FOLDER / "survivors.toml").read_text(encoding="utf-8")), 0
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        module = str(path.relative_to(ROOT / PACKAGE))
        all_of_them, tests = mutants(path.read_text(encoding="utf-8")), tests_of(module)
        chosen = random.Random(module).sample(all_of_them, min(options.most, len(all_of_them)))
        if not chosen or not any(word in str(PACKAGE / module) for word in options.words):
            continue
        if failed := run_tests(tests):
            sys.exit(f"{module}: without a fault, too, there fails {failed}")
        with ThreadPoolExecutor(options.jobs) as pool:
            tried = pool.map(lambda mutant, of=module, by=tests: run_tests(by, of, mutant.source), chosen)
            survivors = [mutant for mutant, failed in zip(chosen, tried, strict=True) if not failed]
        known = {(row["line"], row["old"], row["new"]): row["why"] for row in argued.get(module, [])}
        for mutant in survivors:
            why = known.get(mutant[:3])
            unexplained += why is None
            print(f"{module}: {mutant.line!r}: {mutant.old!r} -> {mutant.new!r} survives ({why or 'UNEXPLAINED'})")
        killed = len(chosen) - len(survivors)
        print(f"{module}: {killed} of {len(chosen)} killed, of {len(all_of_them)} that there are", flush=True)
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
