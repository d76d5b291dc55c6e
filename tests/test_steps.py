"""The steps of config/systems.yaml are those that the rule of docs/steps.py picks."""

import sys
from itertools import pairwise

import pytest
import yaml

from conftest import ROOT
from pwfl.scenario import load

sys.path.insert(0, str(ROOT / "docs"))
import steps

CONFIG = yaml.safe_load(steps.CONFIG.read_text(encoding="utf-8"))


def candidates(name: str) -> tuple[float, ...]:
    return steps.CANDIDATES.get(name, steps.CANDIDATES[steps.SCALE])


@pytest.mark.parametrize("name", steps.compared(CONFIG))
def test_a_step_is_a_candidate_within_the_grid_and_chosen_on_what_the_study_does_not_use(name):
    step, tried = steps.chosen_step(CONFIG["scenarios"][name]), candidates(name)
    assert step in tried
    assert all(larger == pytest.approx(2 * smaller) for smaller, larger in pairwise(tried))
    reserved = load(steps.reserved_study(CONFIG, name, tried), "steps").scenarios
    study = load(CONFIG | {"run": [name]}, "systems").scenarios
    assert {scenario.seed for scenario in study.values()}.isdisjoint(scenario.seed for scenario in reserved.values())
    assert {scenario.data.evaluate_on for scenario in reserved.values()} == {"reserved"}
    assert {scenario.data.evaluate_on for scenario in study.values()} == {"test"}


def test_uploads_of_few_bits_have_the_step_of_uploads():
    scenarios = CONFIG["scenarios"]
    few, uploads = (dict(scenarios[name]["training"]) for name in ("uploads_8_bits", "uploads_equal"))
    assert few.pop("bits") == 8
    assert few == uploads


def test_the_rule_picks_the_largest_mean():
    assert steps.pick({0.1: 0.5, 0.2: 0.7, 0.4: 0.6}) == 0.2


@pytest.mark.slow
def test_the_rule_picks_the_studys_step_again():
    """Of candidates further apart, one epsilon and two realizations."""
    name = "superposed_equal"
    step = steps.chosen_step(CONFIG["scenarios"][name])
    few = steps.reserved_study(CONFIG, name, (step / 16, step, 16 * step), epsilons=(4.0,), realizations=2)
    assert steps.pick(steps.accuracies(few)) == step
