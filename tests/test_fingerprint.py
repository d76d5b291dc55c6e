"""Fingerprints of code: what counts as a change."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pwfl import stages as table
from pwfl.runtime import fingerprint
from pwfl.workflow import reports
from stages import STAGES

SOURCES = Path(fingerprint.__file__).parent.parent
STAGE = "pwfl.systems.multicell"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package's sources and of the scripts, and a function that changes one of them."""
    shutil.copytree(SOURCES, tmp_path / "pkg/pwfl")
    shutil.copytree(SOURCES.parent.parent / "scripts", tmp_path / "scripts")
    monkeypatch.setattr(fingerprint, "__file__", str(tmp_path / "pkg/pwfl/runtime/fingerprint.py"))

    def change(file, old=None, new="\nONE = 1\n"):
        path = tmp_path / file if file.startswith("scripts/") else tmp_path / "pkg/pwfl" / file
        text = path.read_text()
        assert old is None or old in text
        path.write_text(text + new if old is None else text.replace(old, new))
        forget()

    def forget():
        for name in ("fingerprint", "packages", "imports", "_read", "place"):
            getattr(fingerprint, name).cache_clear()

    forget()
    yield change
    forget()


def stages() -> dict[str, str]:
    """As the descriptions of the stages have it."""
    work = {name: (stage.work, fingerprint.script("stage")) for name, stage in table.STAGES.items()}
    work |= {"report": reports.CODE["report"], "audit": (*reports.CODE["audit"], fingerprint.script("audit"))}
    return {stage: fingerprint.fingerprint(f"{STAGE}.{stage}", f"{STAGE}.tables", *work[stage]) for stage in STAGES}


CHANGED = {  # file -> the stages that its code stands in
    "systems/multicell/power.py": {"schedule"},
    "systems/multicell/integer_program.py": {"schedule"},
    "systems/multicell/optimal_noise.py": {"schedule", "noise", "account"},
    "systems/multicell/hexagons.py": {"channel", "report"},
    "systems/multicell/bounds.py": {"channel", "noise", "account", "report"},  # the channel's start values meet them
    "systems/multicell/tables.py": set(STAGES),
    "systems/multicell/parameters.py": set(),  # parameters stand in the address themselves
    "systems/age_aware/age.py": set(),
    "learning/engine.py": {"train", "audit"},
    "learning/partition.py": {"channel", "train", "report"},
    "privacy/audit.py": {"audit"},
    "report/theme.py": {"report"},
    "tables/contract.py": set(STAGES),
    "work/channel.py": {"channel"},
    "work/train.py": {"train"},
    "work/audit.py": {"audit"},
    "work/stage.py": set(STAGES) - {"report"},
    "scenario/values.py": set(STAGES),
    "scripts/stage.py": set(STAGES) - {"audit", "report"},
    "scripts/audit.py": {"audit"},
    "report/columns.py": {"audit", "report"},
    "workflow/execution.py": set(),  # keeps TensorFlow quiet
}


@pytest.mark.parametrize("file", CHANGED)
def test_a_stage_changes_with_the_modules_it_imports_and_no_other(package, file):
    before = stages()
    package(file)
    after = stages()
    assert {stage for stage in before if before[stage] != after[stage]} == CHANGED[file]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("systems/multicell/power.py", '"""Transmit powers', '"""The transmit powers'),
        ("scripts/stage.py", "from pwfl import", "# A comment.\nfrom pwfl import"),
        ("privacy/audit.py", "    Parameters\n", "    Arguments\n"),
        ("systems/multicell/assignment.py", "def solve(", "# A comment.\n\n\ndef solve("),
        ("systems/multicell/channel.py", "MAX_ATTEMPTS = 1000", "MAX_ATTEMPTS = (\n    1000\n)"),
        ("systems/multicell/channel.py", "if TYPE_CHECKING:\n", "if TYPE_CHECKING:\n    import this\n"),
    ],
)
def test_comments_docstrings_layout_and_annotations_do_not_count(package, file, old, new):
    before = stages()
    package(file, old, new)
    assert stages() == before


def test_a_change_taken_back_has_the_old_fingerprint(package):
    before = stages()
    package("systems/multicell/power.py", "fraction > 1", "fraction >= 1")
    assert stages() != before
    package("systems/multicell/power.py", "fraction >= 1", "fraction > 1")
    assert stages() == before


def test_packages_are_those_that_a_stage_imports():
    modules = {stage: fingerprint.packages(f"{STAGE}.{stage}") for stage in STAGES}
    assert {"numpy", "polars", "scipy"} <= set(modules["channel"])
    assert [stage for stage in STAGES if "tensorflow" in modules[stage]] == ["train", "audit"]
    assert "highspy" in modules["schedule"]
    assert modules["train"]["tensorflow"] == __import__("tensorflow").__version__


def test_a_package_outside_is_read_without_running_it(tmp_path, monkeypatch):
    (tmp_path / "outside_system").mkdir()
    (tmp_path / "outside_system/__init__.py").write_text("raise RuntimeError\n")
    (tmp_path / "outside_system/channel.py").write_text("import numpy\nfrom outside_system import block\n")
    (tmp_path / "outside_system/block.py").write_text("from pwfl import streams\nA = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = fingerprint.imports("outside_system.channel")
    assert found == {"outside_system.channel", "outside_system.block", "pwfl.streams"}
    assert set(fingerprint.packages("outside_system.channel")) == {"numpy"}


# Python's grammar of syntax trees gained and lost fields between these.
OTHERS = [path for name in ("3.11", "3.12", "3.13", "3.14") if (path := shutil.which(f"python{name}"))]


@pytest.mark.parametrize("python", OTHERS)
def test_all_supported_pythons_agree(python):
    program = (
        "import sys; from importlib.util import *; spec = spec_from_file_location('f', sys.argv[1]); "
        "f = module_from_spec(spec); spec.loader.exec_module(f); "
        "print(*(f.fingerprint('pwfl.systems.multicell.' + s) for s in sys.argv[2:]))"
    )
    call = [python, "-c", program, fingerprint.__file__, *STAGES]
    result = subprocess.run(call, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
    if result.returncode and sys.executable != python:
        pytest.skip(f"{python} does not run: {result.stderr.strip().splitlines()[-1:]}")
    assert result.stdout.split() == [fingerprint.fingerprint(f"{STAGE}.{stage}") for stage in STAGES]
