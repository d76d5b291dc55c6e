"""Runs of a small study that are killed at random moments and resumed: see `benchmarks/kills.py`, which kills 200."""

import shutil
import sys

import pytest

from conftest import ROOT
from pwfl.workflow import publish

sys.path.append(str(ROOT / "benchmarks"))

import kills

KILLS = 40
pytestmark = pytest.mark.xdist_group("robust")


@pytest.mark.slow
def test_a_killed_run_leaves_nothing_running_and_what_says_done_is_done(tmp_path):
    counts, faults = kills.disturbed(KILLS, tmp_path)
    assert faults == []
    assert counts.pop("complete") > 1
    assert sum(counts.values()) == KILLS
    assert len(counts) > 6  # of nine ways


def test_what_a_complete_run_lacks_or_has_otherwise_is_a_fault(tmp_path):
    for name in ("store/a", "store/b", "store/.1.c", "results/d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    expected = kills.contents(tmp_path)
    assert kills.flaws(tmp_path, expected, {"results/d"}) == []
    (tmp_path / "store/a").write_text("other")
    (tmp_path / "store/b").rename(tmp_path / "store/e")
    (tmp_path / "results/d").unlink()
    assert kills.flaws(tmp_path, expected, {"results/d"}) == [
        "exit 0 without results/d", "exit 0 without store/b", "store/a differs", "store/e is left",
    ]  # fmt: skip


def test_a_record_of_another_plan_is_the_same_target_and_a_missing_one_is_not(tmp_path):
    record = publish.record_path(tmp_path / "results/kills", "study", "20260101-000000-aaaaaa")
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    targets = kills.targets(tmp_path)
    record.rename(publish.record_path(tmp_path / "results/kills", "study", "20260101-000001-bbbbbb"))
    assert kills.flaws(tmp_path, {}, targets) == []
    shutil.rmtree(record.parent)
    assert kills.flaws(tmp_path, {}, targets) == ["exit 0 without results/kills/.published/study"]
