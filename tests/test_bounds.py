"""Bounds of parameters: every number has two, and a scenario at any corner of them runs or is refused by name."""

import math
from collections import deque
from functools import reduce
from typing import Literal, get_args, get_origin

import mpmath
import numpy as np
import pytest
from annotated_types import Ge, Gt, Le, Lt
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pipeline
from conftest import in_turn
from pwfl import registry
from pwfl.learning import datasets
from pwfl.privacy import sampled
from pwfl.scenario import ScenarioError, parameters, resolve
from pwfl.scenario.fields import Own, Section
from pwfl.scenario.resolution import merge
from pwfl.scenario.sweep import nested
from pwfl.systems.multicell.beyond.integers import RoundingError
from pwfl.systems.multicell.interference import Uplink, rates, threshold
from pwfl.systems.multicell.power import powers
from pwfl.systems.multicell.schedule import RATE_TOLERANCE
from pwfl.systems.multicell.start_values import StartValueError


def leaves(annotation, metadata=(), path=""):
    """The numbers and choices in a parameter's type, with their places and bounds; of the sections in it, too."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        for key, field in annotation.model_fields.items():
            yield from leaves(field.annotation, field.metadata, f"{path}.{key}")
    elif annotation == Own:
        return  # names and values that a function of the user's own knows, and nobody else
    elif annotation in (int, float) or get_origin(annotation) is Literal:
        yield path, annotation, list(metadata)
    elif get_origin(annotation) is list:
        yield from leaves(get_args(annotation)[0], (), f"{path}[]")
    elif hasattr(annotation, "__metadata__"):
        bounds = [part for item in annotation.__metadata__ for part in getattr(item, "metadata", [item])]
        yield from leaves(get_args(annotation)[0], bounds, path)
    else:
        for part in get_args(annotation):
            if isinstance(part, type) or get_args(part):
                yield from leaves(part, metadata, path)


def ends(kind: type, metadata: list) -> tuple[float | None, float | None]:
    """The least and the greatest number within bounds; None where there is no bound."""
    step = (lambda x, to: x + int(math.copysign(1, to))) if kind is int else math.nextafter
    low = high = None
    for bound in metadata:
        match bound:
            case Ge(ge=value):
                low = kind(value)
            case Gt(gt=value):
                low = step(kind(value), math.inf)
            case Le(le=value):
                high = kind(value)
            case Lt(lt=value):
                high = step(kind(value), -math.inf)
    return low, high


NUMBERS = {
    name: {
        path[1:]: ends(kind, bounds)
        for path, kind, bounds in leaves(registry.system(name).model)
        if kind in (int, float)
    }
    for name in registry.systems()
}


def test_all_kinds_of_numbers_are_found():
    assert len(NUMBERS["multicell"]) > 30
    nested = {"privacy.target_epsilons[]", "clients.chains[].matrix[][]", "clients.chains[].samples"}
    assert nested <= set(NUMBERS["age_aware"])
    assert NUMBERS["multicell"]["data.samples_total"] == (1, 10**6)
    assert NUMBERS["multicell"]["seed"] == (0, 2**63 - 1)


@pytest.mark.parametrize("system", NUMBERS)
def test_every_number_has_a_least_and_a_greatest_value(system):
    open_ended = [path for path, (low, high) in NUMBERS[system].items() if low is None or high is None]
    assert not open_ended
    assert not [path for path, (low, high) in NUMBERS[system].items() if 0 < low < 1e-100 or high > 1e38]


# Small scenarios, some of whose numbers each example moves to an end of its bounds. Sizes stay: see test_size.
DATA = {"dataset": "digits"}
SMALL = {
    "multicell": {"network": {"users": 14}, "radio": {"resource_blocks": 2}, "training": {"hidden_layers": [4], "rounds": 3},
                  "data": DATA | {"samples_offset": 10, "samples_log_mean": 2.5}, "privacy": {"min_noise": 3.5, "max_noise_error": 0.4}},
    "anonymous_oac": {"network": {"devices": 5, "participation": 0.6}, "data": DATA | {"samples": 30, "sampling": 0.3},
                      "privacy": {"curve_rates": [0.5], "estimate_scales": [1.0]}, "training": {"rounds": 3, "hidden_layers": []},
                      "schemes": [{"name": "Anonymous OAC", "scheduler": "over_the_air", "noise": "anonymous"}]},
    "random_orthogonalization": {"network": {"users": 4, "antennas": 8}, "data": DATA | {"samples_per_user": 20},
                                 "privacy": {"user_numbers": [2]}, "training": {"rounds": 2, "batch_size": 10}},
    "utility_fair": {"network": {"devices": 4}, "data": DATA | {"samples_per_device": 200}, "training": {"rounds": 3, "hidden_layers": []}},
    "age_aware": {"schedule": {"horizon": 3}, "training": {"draws": 3}, "privacy": {"target_epsilons": [0.5]}},
}  # fmt: skip
SIZES = {"realizations", "training_realizations", "optimization", "training", "users", "devices", "antennas", "number",
         "rounds", "rings", "resource_blocks", "horizon", "draws", "local_steps", "batch_size", "hidden_layers[]",
         "user_numbers[]", "evaluate_every", "samples_total"}  # fmt: skip
# As many as take seconds: accounting of anonymous_oac is the slowest.
EXAMPLES = {"multicell": 40, "anonymous_oac": 3, "random_orthogonalization": 25, "utility_fair": 25, "age_aware": 15}


def free(system: str) -> list[str]:
    """The numbers that examples move: no sizes, and none that is one of several of a kind."""
    plain = [path for path in NUMBERS[system] if "[]." not in path and "[][]" not in path]
    return [path for path in plain if path.split(".")[-1] not in SIZES]


def part(path: str, value) -> dict:
    """The part of a scenario that sets a number, in a list of one where it stands in a list."""
    return nested({path.removesuffix("[]"): [value] if path.endswith("[]") else value})


def outcome_of(system: str, chosen: dict) -> str:
    """Run a small scenario with some of its numbers set, tables checked against their schemas; or how it is refused."""
    content = {"system": system, "realizations": 2, "training_realizations": 1} | SMALL[system]
    content = reduce(merge, (part(path, value) for path, value in chosen.items()), content)
    try:
        deque(pipeline.stages(resolve(content, {})), maxlen=0)
    except (ScenarioError, datasets.DataError, StartValueError, RoundingError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("system", in_turn(NUMBERS, "random_orthogonalization"))
def test_a_scenario_at_a_corner_of_its_bounds_runs_or_is_refused_by_name(system, monkeypatch):
    monkeypatch.setattr(sampled, "POINTS", 2000)  # coarse: no epsilon is asked for here
    keys = [".".join(path) for path, _ in parameters(registry.system(system).model)]

    @settings(max_examples=EXAMPLES[system], deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @given(st.dictionaries(st.sampled_from(free(system)), st.sampled_from([0, 1]), min_size=1, max_size=4))
    def check(ends):
        chosen = {path: NUMBERS[system][path][end] for path, end in sorted(ends.items())}
        refused = outcome_of(system, chosen)
        assert not refused or any(key in refused for key in keys), refused

    check()


@pytest.mark.parametrize(
    ("system", "changes", "expected"),
    [
        ("multicell", {"privacy.min_noise": 1e300}, "privacy.min_noise: 1e+300 is above the maximum"),
        ("multicell", {"privacy.min_noise": 1e-300}, "privacy.min_noise: 1e-300 is below the minimum"),
        ("multicell", {"data.samples_log_mean": 20.0}, "data.samples_log_mean: 14 users would hold"),
        ("multicell", {"data.samples_log_sd": 5.0}, "data.samples_log_mean: 14 users would hold"),
        ("multicell", {"schedule.gamma": 1e15}, "schedule.gamma: 1e+15 weights one user's leakage"),
        ("utility_fair", {"device.deadline_s": 1e6, "device.seconds_per_bit": 1e-15}, "device.deadline_s: 1e+06 allows"),
        ("utility_fair", {"utility.beta_2_j": 1e-9}, "utility.beta_2_j: 1e-09 is too small"),
        ("anonymous_oac", {"radio.noise_variance": 1e-300}, "radio.noise_variance: 1e-300 is too small to compute transmit energies"),
    ],
)  # fmt: skip
def test_what_no_number_can_hold_is_refused_by_name(system, changes, expected):
    assert expected in outcome_of(system, changes)


@pytest.mark.parametrize("rate", [1e-9, 1e-8, 1.0, 1e5, 3.6e6])
def test_thresholds_and_rates_are_inverse_to_each_other_however_small(rate):
    with mpmath.workdps(60):
        expected = mpmath.mpf(2) ** (mpmath.mpf(rate) / 180000) - 1
    sinr = threshold(rate, 180e3)
    assert sinr == pytest.approx(float(expected), rel=1e-14)
    first = np.zeros((1, 1), int)  # the only cell, its only block
    found = rates(Uplink(np.ones((1, 1, 1)), first, 1, 180e3, 1.0, 1.0, rate, [0]), first, np.array([[sinr]]))
    assert found.item() == pytest.approx(rate, rel=1e-14)


def test_a_tiny_minimum_rate_is_asked_of_a_user_and_can_be_missed():
    # 2^x - 1 is 0 here: everybody would be served with no power at all.
    gain = np.array([[[1e-20, 1e-30]]])  # of two users on two blocks, to one station
    uplink = Uplink(gain, np.zeros((1, 2), int), 2, 180e3, 1e-15, 1e-2, 1e-8, [0])
    block = np.array([[0, 1]])
    power = powers(uplink, block)
    assert power[0] == pytest.approx([threshold(1e-8, 180e3) * 1e-15 / 1e-20, 1e-2])
    rate = rates(uplink, block, power)
    assert rate[0, 0] == pytest.approx(1e-8)
    assert rate[0, 1] < 1e-8 * (1 - RATE_TOLERANCE)
