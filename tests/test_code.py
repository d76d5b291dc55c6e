"""The code in addresses: which files count for which stage, what counts as a change, what is imported."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pwfl import registry
from pwfl import stages as graph
from pwfl.store import code, imports
from stages import STAGES

SOURCES = code.ROOT
MULTICELL = "pwfl.systems.multicell"
BEFORE = tuple(graph.PREPARATIONS)  # the channel
KINDS = (*BEFORE, *STAGES)  # stages, audit, report
COMPUTED = set(KINDS) - {"report"}
OF_A_SYSTEM = {*STAGES, "imported"} - {"report"}


def packages(kind: str, system: str) -> tuple[str, ...]:
    """As descriptions have it: most stages before the channel are of no system."""
    return () if kind in set(BEFORE) - {"imported"} else (f"pwfl.systems.{system}",)


def digests(system: str = "multicell") -> dict[str, str]:
    return {kind: code.described(kind, packages(kind, system))["code"] for kind in KINDS}


def forget():
    for cached in (code.files, code._in, code._describe_library, code._digests, code._versions, code._parsed):
        cached.cache_clear()  # what `imports.parsed` keeps, it keeps by the files' times


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package's sources, and a function that changes the text of one of them, and returns the old one."""
    shutil.copytree(SOURCES, tmp_path / "pwfl", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "ROOT", tmp_path / "pwfl")

    def change(file, edit):
        path = tmp_path / "pwfl" / file
        text = path.read_text()
        assert edit(text) != text
        path.write_text(edit(text))
        forget()
        return text

    forget()
    yield change
    forget()


def one_more(text):
    return text + "\nONE = 1\n"


# What an edit of a file changes, by the room that it lies in, the first of these that its name begins with.
ROOMS = {
    "airs/": {*COMPUTED, "report"},
    "learning/": {*COMPUTED, "report"},
    "privacy/audit.py": {"audit"},
    "training/audit": {"audit"},  # and training/audits/
    "privacy/": {*COMPUTED, "report"},
    "radio/": {*COMPUTED, "report"},
    "tables/meanings.py": set(),  # descriptions of columns
    "tables/": {*COMPUTED, "report"},
    "training/": {*COMPUTED, "report"},
    "process/tensorflow.py": {*COMPUTED, "report"},  # the version of TensorFlow
    "process/user_code.py": {*COMPUTED, "report"},
    "scenario/values.py": {*COMPUTED, "report"},
    "stages.py": {*COMPUTED, "report"},
    "streams.py": {*COMPUTED, "report"},
    "registry.py": {*COMPUTED, "report"},
    "system.py": {*COMPUTED, "report"},
    "execution/audit.py": {"audit"},
    "execution/channel.py": {"channel", "audit"},
    "execution/imported.py": {"imported", "audit"},
    "execution/train.py": {"train", "audit"},
    "execution/": {*COMPUTED, "report"},
    "report/columns.py": {"audit", "report"},
    "report/": {"report"},
    "scenario/": {"report"},
    "process/": set(),  # keeps, logs, chooses devices
    "store/": set(),
    "workflow/reporting.py": {"report"},
    "workflow/": set(),  # plans
    "testing/": set(),
    "systems/__init__.py": set(),
    "__init__.py": set(),
    "api.py": set(),
    "cli.py": set(),
    "__main__.py": set(),
    "errors.py": set(),
    "new.py": set(),
}
MODULES = {name: {name, "audit"} for name in (*graph.STAGES, "imported")}  # of a system, beside its building blocks
MODULES |= {"receive": {"receive", "noise", "audit"}}  # by which noise is found, too
MODULES |= {"audit": {"audit"}, "meanings": set()}
MODULES |= {name: {"report"} for name in ("catalog", "checks", "claims", "paper", "parameters", "report")}


def expected(file: str, system: str) -> set[str]:
    """The stages of a system whose addresses change when a file of the package does."""
    if file.startswith("systems/") and file.count("/") > 1:
        _, owner, module = file.split("/", 2)
        return MODULES.get(module.removesuffix(".py"), {*OF_A_SYSTEM, "report"}) if owner == system else set()
    return next(changed for room, changed in ROOMS.items() if file.startswith(room))


FILES = sorted(path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py"))


@pytest.mark.parametrize("system", ["multicell", "age_aware"])
def test_an_edit_changes_the_addresses_of_its_room(package, system):
    """Of every file there is: one of a new room fails until that has a line above."""
    before, wrong = digests(system), {}
    for file in FILES:
        text = package(file, one_more)
        after = digests(system)
        changed = {kind for kind in KINDS if after[kind] != before[kind]}
        if changed != expected(file, system):
            wrong[file] = changed
        package(file, lambda _, text=text: text)
    assert wrong == {}
    assert digests(system) == before


@pytest.mark.parametrize("file", ["report/page.html", "report/style.css"])
def test_what_the_page_is_made_of_counts_though_it_is_no_python(package, file):
    before = digests()
    package(file, one_more)
    after = digests()
    assert {kind for kind in KINDS if after[kind] != before[kind]} == {"report"}


def test_the_file_that_changed_can_be_told(package):
    description = {"stage": "schedule"} | code.described("schedule", [MULTICELL])
    before = code.digest_files(description)
    package("learning/partition.py", one_more)
    after = code.digest_files(description)
    assert before.keys() == after.keys()
    assert [name for name in before if after[name] != before[name]] == ["pwfl/learning/partition.py"]
    assert code.digest(before) == description["code"] != code.digest(after)


EDITS = {  # that do not count
    "a docstring": ("systems/multicell/power.py", '"""Transmit powers', '"""The transmit powers'),
    "one of a function": ("privacy/audit.py", "    Parameters\n", "    Arguments\n"),
    "a comment": ("systems/multicell/assignment.py", "def solve(", "# A comment.\n\n\ndef solve("),
    "layout": ("systems/multicell/start_values.py", "MAX_ATTEMPTS = 1000", "MAX_ATTEMPTS = (\n    1000\n)"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_comments_docstrings_and_layout_do_not_count(package, edit):
    file, old, new = EDITS[edit]
    before = digests()
    package(file, lambda text: text.replace(old, new))
    assert digests() == before


ALL, MULTI = set(OF_A_SYSTEM) | {"report"}, "systems/multicell/"
MOVES = {  # a kind of edit -> file, old and new text, the stages whose addresses move
    "a colour": (f"{MULTI}catalog.py", "#D55E00", "#D55E01", {"report"}),
    "a meaning of a column": (f"{MULTI}catalog.py", '"number of realizations', '"how many realizations', {"report"}),
    "a figure's title": (f"{MULTI}report.py", "Scheduler's objective", "The scheduler's objective", {"report"}),
    "a claim's statement": (f"{MULTI}claims.py", 'statement="', 'statement="Indeed: ', {"report"}),
    "a parameter's meaning": (f"{MULTI}parameters.py", '"rings of hexagonal', '"circles of hexagonal', {"report"}),
    "a bound of a parameter": (f"{MULTI}parameters.py", "le=20,", "le=30,", {"report"}),
    "a column's description": (f"{MULTI}tables.py", '"number of the base station', '"index of the base station', set()),
    "what a table adds to a meaning": (f"{MULTI}tables.py", '"of the user, K_i"', '"K_i of the user"', set()),
    "a meaning of a system's columns": (f"{MULTI}meanings.py", "Renyi differential", "Rényi differential", set()),
    "a meaning of all systems' columns": ("tables/meanings.py", "share of the test set", "part of the test set", set()),
    "a bound of a column": (f"{MULTI}tables.py", "dy.Int64(min=1,", "dy.Int64(min=2,", ALL),
    "what a column reveals": (f"{MULTI}tables.py", "metadata=NOISY", "metadata=PUBLIC", ALL),
    "a scheme's sentence": (f"{MULTI}schemes.py", '"optimal noise (36)"', '"optimum noise (36)"', set()),
    "what bounds a scheme": (f"{MULTI}schemes.py", 'bound="chosen"', 'bound="given"', ALL),
    "a check": (f"{MULTI}checks.py", "raise ValueError(", "raise ArithmeticError(", {"report"}),
    "what a check says": (f"{MULTI}checks.py", "does not divide", "is no divisor of", set()),
    "what a stage's error says": (f"{MULTI}noise.py", "must return each", "returns each", set()),
    "what a shared error says": (
        "learning/partition.py",
        'raise ValueError(\n            f"',
        'raise ValueError(f"Sorry: ',
        set(),
    ),
    "a constant of a recipe": (f"{MULTI}recipes.py", "Recipe(True, False, False", "Recipe(True, True, False", ALL),
    "a formula of a stage": (
        f"{MULTI}noise.py",
        "2 * training.clip_norm",
        "3 * training.clip_norm",
        {"noise", "audit"},
    ),
    "what a stage reads": (f"{MULTI}system.py", 'makes=("start_values",)', "makes=()", ALL),
}


@pytest.mark.parametrize("edit", MOVES)
def test_an_edit_moves_only_the_stages_that_compute_with_it(package, edit):
    file, old, new, moved = MOVES[edit]
    before = digests()
    package(file, lambda text: text.replace(old, new))
    after = digests()
    assert {kind for kind in KINDS if after[kind] != before[kind]} == moved


CODE = "def f(x: int = 1, *, y=(2,)):\n    if x: return [y, None, 'a', 1.0]\n"
OTHERS = {  # another program, if only by a word
    "1.0]": "1]", "None": "...", "'a'": "b'a'", "x: int": "x: float", "if x": "if not x", "(2,)": "(2, 2)",
    "*, y": "y", "return": "yield", "[y, None": "[None, y", "f(": "g(",
}  # fmt: skip


@pytest.mark.parametrize("old", OTHERS)
def test_every_other_edit_counts(tmp_path, old):
    assert old in CODE
    digests = []
    for text in (CODE, CODE.replace(old, OTHERS[old])):
        (tmp_path / "one.py").write_text(text)
        digests.append(imports.parsed(tmp_path / "one.py").digest)
    assert len(set(digests)) == 2


def test_packages_are_those_that_the_files_import():
    versions = {kind: code.described(kind, packages(kind, "multicell"))["packages"] for kind in KINDS}
    for kind in KINDS:
        assert {"numpy", "polars", "scipy", "tensorflow", "sklearn"} <= set(versions[kind])
        assert ("highspy" in versions[kind]) == (kind in OF_A_SYSTEM - {"report"} or kind == "report")
        assert ("altair" in versions[kind]) == (kind == "report")
    assert versions["train"]["tensorflow"] == __import__("tensorflow").__version__
    assert not {"os", "pwfl", ""} & set(versions["report"])


def test_a_system_outside_counts_with_its_whole_package_and_is_not_run(tmp_path, monkeypatch):
    for file, text in {
        "__init__.py": "raise RuntimeError\n",
        "block.py": "import numpy\n",
        "inner/__init__.py": "INTERFACE = 2\n",
        "inner/channel.py": "A = 1\n",
        "inner/train.py": "A = 1\n",
        "inner/report.py": "A = 1\n",
        "inner/results.csv": "1\n",
    }.items():
        path = tmp_path / "outside_system" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [name for name in code.files("channel", ("outside_system.inner",)) if name.startswith("outside_system")]
    inner = ["block.py", "inner/__init__.py", "inner/channel.py"]
    assert sorted(found) == [f"outside_system/{name}" for name in ["__init__.py", *inner]]
    assert "outside_system" not in sys.modules


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_all_files_of_a_system_are_code_of_some_stage_or_of_the_report(system):
    found = {name for kind in KINDS for name in code.files(kind, packages(kind, system))}
    of_it = {f"pwfl/{file}" for file in FILES if file.startswith(f"systems/{system}/")}
    assert of_it
    assert of_it - found == {f"pwfl/systems/{system}/meanings.py"}


# Python's grammar of syntax trees gained and lost fields between these.
PYTHONS = [path for name in ("3.11", "3.12", "3.13", "3.14") if (path := shutil.which(f"python{name}"))]


@pytest.mark.parametrize("python", PYTHONS)
def test_all_supported_pythons_agree(python):
    program = (
        "import sys, pathlib; from importlib.util import *; spec = spec_from_file_location('f', sys.argv[1]); "
        "f = module_from_spec(spec); spec.loader.exec_module(f); "
        "print(*(f.parsed(pathlib.Path(path)).digest for path in sys.argv[2:]))"
    )
    files = [str(path) for path in sorted(SOURCES.glob("systems/multicell/*.py"))]
    call = [python, "-c", program, imports.__file__, *files]
    result = subprocess.run(call, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
    if result.returncode and sys.executable != python:
        pytest.skip(f"{python} does not run: {result.stderr.strip().splitlines()[-1:]}")
    assert result.stdout.split() == [imports.parsed(Path(file)).digest for file in files]
