"""Runs of a small study that are killed at random moments and resumed: see `benchmarks/kills.py`, which kills 200."""

import sys

import pytest

from conftest import ROOT

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
