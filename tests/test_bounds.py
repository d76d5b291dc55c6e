"""Bounds of parameters: every number has two, and a scenario at any corner of them runs or is refused by name."""

import math
from typing import get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, Lt
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pwfl import scenario
from pwfl.scenario.fields import Section


def leaves(annotation, metadata=(), path=""):
    """The numbers in a parameter's type, each with its place and what bounds it; of the sections in it, too."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        for key, field in annotation.model_fields.items():
            yield from leaves(field.annotation, field.metadata, f"{path}.{key}")
    elif annotation in (int, float):
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
    low = high = None
    for bound in metadata:
        step = (lambda x, to: x + int(math.copysign(1, to))) if kind is int else math.nextafter
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
    system: {path[1:]: ends(kind, found) for path, kind, found in leaves(model)}
    for system, model in scenario.SYSTEMS.items()
}


def test_all_kinds_of_numbers_are_found():
    assert len(NUMBERS["multicell"]) > 30
    assert {"privacy.target_epsilons[]", "clients.chains[].matrix[][]", "clients.chains[].samples"} <= set(
        NUMBERS["age_aware"]
    )
    assert NUMBERS["multicell"]["data.samples_total"] == (1, 10**6)
    assert NUMBERS["multicell"]["seed"] == (0, 2**63 - 1)


@pytest.mark.parametrize("system", NUMBERS)
def test_every_number_has_a_least_and_a_greatest_value(system):
    open_ended = [path for path, (low, high) in NUMBERS[system].items() if low is None or high is None]
    assert not open_ended
    assert not [path for path, (low, high) in NUMBERS[system].items() if 0 < low < 1e-100 or high > 2**63]


# Small scenarios, which each example changes at some of its numbers. Sizes of jobs are left alone: see test_size.
DATA = {"dataset": "digits"}
SMALL = {
    "multicell": {"network": {"users": 14}, "radio": {"resource_blocks": 2}, "training": {"hidden_layers": [4], "rounds": 3},
                  "data": DATA | {"samples_offset": 10, "samples_log_mean": 2.5}, "privacy": {"min_noise": 3.5, "max_noise_error": 0.4}},
    "anonymous_oac": {"network": {"devices": 5, "participation": 0.6}, "data": DATA | {"samples": 30, "sampling": 0.3},
                      "privacy": {"curve_rates": [0.5], "estimate_scales": [1.0]}, "training": {"rounds": 3, "hidden_layers": []}},
    "random_orthogonalization": {"network": {"users": 4, "antennas": 8}, "data": DATA | {"samples_per_user": 20},
                                 "privacy": {"user_numbers": [2]}, "training": {"rounds": 2, "batch_size": 10}},
    "utility_fair": {"network": {"devices": 4}, "data": DATA | {"samples_per_device": 200}, "training": {"rounds": 3, "hidden_layers": []}},
    "age_aware": {"schedule": {"horizon": 3}, "training": {"draws": 3}, "privacy": {"target_epsilons": [0.5]}},
}  # fmt: skip
SIZES = {"realizations", "training_realizations", "optimization", "training", "users", "devices", "antennas", "number",
         "rounds", "rings", "resource_blocks", "horizon", "draws", "local_steps", "batch_size", "hidden_layers[]",
         "user_numbers[]", "sweep_clients", "evaluate_every", "samples_total"}  # fmt: skip


def corner(path: str, value) -> dict:
    """The part of a scenario that sets a number, in a list of one where it stands in a list."""
    *sections, key = path.split(".")
    content = {key.rstrip("[]"): [value] if key.endswith("[]") else value}
    for section in reversed(sections):
        content = {section: content}
    return content


def corners(system: str):
    """Scenarios with one to four numbers at an end of their bounds."""
    free = [
        path
        for path in NUMBERS[system]
        if path.split(".")[-1] not in SIZES and "[]." not in path and "[][]" not in path
    ]
    changes = st.dictionaries(st.sampled_from(free), st.sampled_from([0, 1]), min_size=1, max_size=4)
    return changes.map(lambda ends: {path: NUMBERS[system][path][end] for path, end in sorted(ends.items())})


@pytest.mark.parametrize("system", NUMBERS)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_a_scenario_at_a_corner_of_its_bounds_runs_or_is_refused_by_name(tmp_path_factory, system, data):
    chosen = data.draw(corners(system))
    content = {"system": system, "realizations": 2, "training_realizations": 1} | SMALL[system]
    for path, value in chosen.items():
        content = scenario._merge(content, corner(path, value))
    try:
        model = scenario.resolve(content, {})
    except scenario.ScenarioError as error:
        keys = [".".join(path) for path, _ in scenario.parameters(scenario.SYSTEMS[system])]
        assert all(line.split(":")[0].removesuffix(".0") in keys for line in str(error).splitlines()), error
        return
    for _, _ in pipeline.stages(model, tmp_path_factory.mktemp("tables")):
        pass
