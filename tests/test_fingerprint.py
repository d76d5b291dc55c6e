"""Fingerprints of code: what counts as a change."""

import shutil

import pytest

from pwfl.runtime import fingerprint
from stages import STAGES


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package's sources, and a function that changes one of them."""
    shutil.copytree(fingerprint.PACKAGE, tmp_path / "pwfl")
    monkeypatch.setattr(fingerprint, "PACKAGE", tmp_path / "pwfl")

    def change(file, old, new):
        path = tmp_path / "pwfl" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        fingerprint._read.cache_clear()

    fingerprint._read.cache_clear()
    yield change
    fingerprint._read.cache_clear()


def stages() -> dict[str, str]:
    return {s: fingerprint.fingerprint(f"pwfl.{s}", f"pwfl.{s}.multicell", "pwfl.tables.multicell") for s in STAGES}


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("schedule/power.py", "fraction > 1", "fraction >= 1", {"schedule"}),
        ("schedule/integer_program.py", "EQUAL = 1e-12", "EQUAL = 1e-11", {"schedule"}),
        ("noise/optimal.py", "argsort", "argpartition", {"noise"}),
        ("hexagons.py", "np.sqrt(3)", "3**0.5", {"channel", "report"}),
        ("datasets.py", "360, 64", "361, 64", {"channel", "train", "account", "audit", "report"}),
        ("privacy/lower_bounds.py", "ROUNDING = 1e-6", "ROUNDING = 1e-7", {"audit"}),
        ("report/theme.py", "CDF_POINTS = 400", "CDF_POINTS = 500", {"report"}),
        ("files.py", "os.getpid()", "os.getppid()", set(STAGES)),
    ],
)
def test_a_stage_changes_with_the_modules_it_imports_and_no_other(package, file, old, new, changed):
    before = stages()
    package(file, old, new)
    after = stages()
    assert {stage for stage in before if before[stage] != after[stage]} == changed


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("schedule/power.py", '"""Transmit powers', '"""The transmit powers'),
        ("schedule/power.py", "    Parameters\n", "    Arguments\n"),
        ("schedule/assignment.py", "def solve(", "# A comment.\n\n\ndef solve("),
        ("channel/multicell.py", "MAX_ATTEMPTS = 1000", "MAX_ATTEMPTS = (\n    1000\n)"),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(package, file, old, new):
    before = stages()
    package(file, old, new)
    assert stages() == before
