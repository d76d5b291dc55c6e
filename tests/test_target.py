"""Scales of noise at which an epsilon is its target: of curves of all kinds, and of real accountants."""

import numpy as np
import pytest

from conftest import in_turn
from pwfl import registry
from pwfl.api import stage_tables
from pwfl.privacy import target
from pwfl.privacy.gaussian import exact_epsilon
from pwfl.scenario import resolve
from pwfl.scenario.resolution import merge
from pwfl.stages import STAGES

RHO = np.array([0.3, 2.0, 50.0])


def recorded(curve):
    """A curve that keeps the scales that it was asked for."""
    asked = []

    def epsilon(scale):
        asked.append(scale.copy())
        return curve(scale)

    return epsilon, asked


@pytest.mark.parametrize("goal", [0.1, 1.86, 8.0, 60.0])
def test_exact_epsilons_reach_their_target_from_below(goal):
    epsilon, asked = recorded(lambda scale: exact_epsilon(RHO / scale**2, 1e-5))
    found = target.scales(epsilon, goal, len(RHO))
    reached = exact_epsilon(RHO / found**2, 1e-5)
    assert (reached <= goal * (1 + target.ABOVE)).all()
    assert (reached >= goal * (1 - target.BELOW)).all()
    assert len(asked) <= 14
    again, calls = recorded(lambda scale: exact_epsilon(RHO / (found * scale) ** 2, 1e-5))
    assert (target.scales(again, goal, len(RHO)) == 1).all()  # what is right stays as it is
    assert len(calls) == 1


def test_a_jump_over_the_target_ends_on_its_lower_side():
    def epsilon(scale):
        return np.where(scale < 3, 10.0, 1.0)

    (found,) = target.scales(epsilon, 5.0, 1)
    assert epsilon(np.array([found])) == 1.0
    assert found == pytest.approx(3.0, rel=1e-12)


def test_nobody_and_nothing_feasible_keep_their_scale():
    found = target.scales(lambda scale: np.array([0.0, np.nan, 4.0 / scale[2]]), 2.0, 3)
    np.testing.assert_allclose(found, [1.0, 1.0, 2.0], rtol=1e-8)


def test_a_target_that_no_scale_reaches_is_an_error():
    with pytest.raises(target.UnreachableError, match=r"no noise scale with an epsilon of 2\.0 or less was found"):
        target.scales(lambda scale: 3.0 + 1 / scale, 2.0, 1)


def test_an_epsilon_that_is_infinite_without_enough_noise_is_left_behind():
    found = target.scales(lambda scale: np.where(scale < 7, np.inf, 20.0 / scale), 2.0, 1)
    np.testing.assert_allclose(found, 10.0, rtol=1e-8)


def test_groups_end_with_the_mu_of_the_worst_off_though_they_disturb_each_other():
    own = np.array([[3.0, 1.0, 0.0], [2.0, 5.0, 1.5]])

    def largest_mu(scale):
        noise = scale**2 + 0.01 * (scale**2).sum(axis=1, keepdims=True)  # what others add hides, too
        return own / np.sqrt(noise)

    mu = largest_mu(target.balanced(largest_mu, own.shape))
    for row in mu:
        np.testing.assert_allclose(row[row > 0], row.max(), rtol=1e-6)
    assert mu[0, 2] == 0


CASES = {
    "uploads": {},
    "cells": {"privacy": {"observer": "cell", "colluders": 0.2}},
    "the network, weights by precision": {
        "privacy": {"observer": "network"},
        "training": {"recipe": "inverse_variance"},
    },
    "blocks, half of them planned": {"radio": {"coherence_rounds": 2}, "privacy": {"planned_share": 0.5}},
    "integers": {"privacy": {"observer": "cell"}, "training": {"bits": 11}},
    "integers of few bits, dropouts": {"privacy": {"observer": "network", "dropouts": 0.1}, "training": {"bits": 10}},
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * case.startswith("integers")) for case in CASES]
)
def test_the_worst_record_of_multicell_has_the_target_epsilon_whatever_the_observer(case):
    changes = merge({"privacy": {"target_epsilon": 3.0}, "training": {"rounds": 4, "hidden_layers": [8]}}, CASES[case])
    tiny = registry.system("multicell").catalog.tiny
    scheme = {"name": "S", "scheduler": "optimal", "noise": "target"}
    model = resolve(merge(tiny, changes | {"system": "multicell", "schemes": [scheme]}), {})
    found = stage_tables(model, [stage for stage in STAGES if stage != "train"])
    worst = found["outcome"]["epsilon"].drop_nulls().to_numpy()
    assert worst.size
    assert (worst <= 3 * (1 + 1e-9)).all()
    least = 0.7 if "blocks" in case else 1 - 1e-8  # who sends in fewer blocks than planned spends less
    assert (worst >= 3 * least).all()


@pytest.mark.parametrize(
    ("scheduler", "noise"),
    in_turn(
        [("over_the_air", "anonymous"), ("over_the_air", "identified_fixed"), ("orthogonal", "local")],
        ("over_the_air", "anonymous"),
    ),
)
def test_the_records_of_anonymous_oac_have_the_target_epsilon(scheduler, noise):
    scheme = {"name": "S", "scheduler": scheduler, "noise": noise}
    changes = {"system": "anonymous_oac", "privacy": {"target_epsilon": 2.0}, "schemes": [scheme]}
    model = resolve(merge(registry.system("anonymous_oac").catalog.tiny, changes), {})
    found = stage_tables(model, [stage for stage in STAGES if stage != "train"])
    worst = found["outcome"]["epsilon"].to_numpy()
    assert (worst <= 2 * (1 + 1e-9)).all()
    assert (worst >= 2 * (1 - 1.1e-4)).all()


@pytest.mark.parametrize("coherence", [1, None])
@pytest.mark.parametrize(("observer", "goal"), [("update", 3.0), ("update", 50.0), ("antennas", 30.0)])
def test_the_worst_user_of_random_orthogonalization_has_the_target_epsilon(observer, goal, coherence):
    scheme = {"name": "S", "scheduler": "all", "noise": "fixed"}
    changes = {"system": "random_orthogonalization", "privacy": {"target_epsilon": goal}, "schemes": [scheme]}
    changes = merge(changes, {"privacy": {"observer": observer}, "radio": {"coherence_rounds": coherence}})
    model = resolve(merge(registry.system("random_orthogonalization").catalog.tiny, changes), {})
    found = stage_tables(model, [stage for stage in STAGES if stage != "train"])
    worst, status = found["outcome"]["epsilon"].to_numpy(), found["noise_status"]["status"].to_numpy()
    assert (worst <= goal * (1 + 1e-9)).all()
    assert (worst[status == "target"] >= goal * (1 - 1e-8)).all()
    assert (status == "target").any()
