"""Every value of every choice in the scenario models runs once, from channel to claims; addresses name its code."""

from itertools import product
from typing import Literal, get_args, get_origin

import numpy as np
import pytest

import pipeline
from conftest import in_turn
from pwfl import registry
from pwfl.learning import datasets, features, projection, sources
from pwfl.privacy import sampled
from pwfl.process import devices
from pwfl.report import build
from pwfl.scenario import ScenarioError, resolve
from pwfl.scenario.fields import Section
from pwfl.scenario.resolution import merge
from pwfl.scenario.values import value_of
from pwfl.testing.executed_code import checked_stages
from test_bounds import SMALL, leaves, part


def choices(model: type[Section]) -> dict[str, tuple]:
    """The values of each choice of a scenario, by its place, that can be had on this machine."""
    kinds = ((path[1:].replace("[]", ""), kind) for path, kind, _ in leaves(model))
    found = {path: get_args(kind) for path, kind in kinds if get_origin(kind) is Literal}
    if "training.device" in found and not devices.present():
        found["training.device"] = tuple(value for value in found["training.device"] if value != "gpu")
    # What takes a file of one's own has tests of its own, and so have CIFAR and crossings (test_crossings.py).
    elsewhere = {
        "data.dataset": ("file", "cifar10", "cifar100"),
        "data.partition": ("given",),
        "privacy.observer": ("server",),
        "radio.air": ("superposed", "antennas", "broadband", "majority"),
        "schemes.scheduler": ("inversion",),
        "training.learner": ("local_steps",),
    }
    for path, others in elsewhere.items():
        if path in found:
            found[path] = tuple(value for value in found[path] if value not in others)
    return found


CHOICES = {name: choices(registry.system(name).model) for name in registry.systems()}


def pairs(system: str) -> list[dict]:
    """Schemes that go together, so many that each scheduler and each noise is in one."""
    schedulers, noises = (CHOICES[system][f"schemes.{key}"] for key in ("scheduler", "noise"))
    schemes, missing = [], {*product(["scheduler"], schedulers), *product(["noise"], noises)}
    for pair in product(schedulers, noises):
        scheme = dict(zip(("scheduler", "noise"), pair, strict=True))
        if missing & scheme.items() and not refused(system, {"schemes": [scheme | {"name": " ".join(pair)}]}):
            schemes.append(scheme | {"name": " ".join(pair)})
            missing -= scheme.items()
    assert not missing
    return schemes


def refused(system: str, changes: dict) -> str:
    try:
        resolve(base(system), changes)
    except ScenarioError as error:
        return str(error)
    return ""


NEEDED = {  # for the scheduler `fixed`; for the noise `target`, for weights that start from zero, and for `iid`
    "age_aware": {"schedule": {"times": [0, 1, 2]}},
    "multicell": {
        "privacy": {"target_epsilon": 4.0},
        "training": {"hidden_layers": []},
        "data": {"samples_log_sd": 0.0},
    },
}


def base(system: str) -> dict:
    content = {"system": system, "realizations": 2, "training_realizations": 1} | SMALL[system]
    return merge(content, NEEDED.get(system, {}))


def cases():
    """Systems, and the numbers of runs that take each value of their longest choice."""
    for system, found in CHOICES.items():
        plain = [values for path, values in found.items() if not path.startswith("schemes.")]
        yield from ((system, number) for number in range(max(map(len, plain))))


def content_of(system: str, number: int) -> dict:
    """A scenario of one value of each choice: another one for another number, or the next that goes with the others."""
    content = base(system) | {"schemes": pairs(system) if number == 0 else pairs(system)[-1:]}
    if "data.evaluate_on" in CHOICES[system]:
        content = merge(content, {"data": {"reserved": 37}})  # to be evaluated on
    # Those of most values first: others are taken in more numbers.
    for path, values in sorted(CHOICES[system].items(), key=lambda item: len(item[1]))[::-1]:
        if not path.startswith("schemes."):
            first = number + len(path) // 2  # so that each meets several of the others
            each = (merge(content, part(path, values[(first + k) % len(values)])) for k in range(len(values)))
            content = next(changed for changed in each if not refused(system, changed))
    return content


def test_all_kinds_of_choices_are_found():
    assert {"schedule.solver", "data.dataset", "training.clipping", "schemes.noise"} <= set(CHOICES["multicell"])
    assert CHOICES["age_aware"]["schedule.bound"] == ("paired", "separate")


@pytest.mark.parametrize("system", CHOICES)
def test_the_runs_take_every_value(system):
    taken = [resolve({}, content_of(system, number)) for name, number in cases() if name == system]
    for path, values in CHOICES[system].items():
        if not path.startswith("schemes."):
            assert {value_of(model, path) for model in taken} == {*values}


QUICK = [("age_aware", 0), ("multicell", 3), ("anonymous_oac", 3), ("random_orthogonalization", 1), ("utility_fair", 1)]


@pytest.mark.parametrize(
    ("system", "number"),
    in_turn(list(cases()), *QUICK),
)
def test_each_value_of_each_choice_runs(system, number, monkeypatch):
    monkeypatch.setattr(sampled, "POINTS", 2000)  # coarse: no epsilon is asked for here
    size = datasets.Size(1437, 360, (28, 28), 10)  # for the larger data sets, of which no value is asked here
    generator = np.random.default_rng(number)
    for dataset in ("mnist", "fashion_mnist"):
        monkeypatch.setitem(datasets.SIZES, dataset, size)
    content = content_of(system, number)
    if content.get("data", {}).get("dataset", "digits") != "digits":
        stand_in = []
        for rows in (size.train, size.test):
            stand_in.append((255 * generator.random((rows, size.features), np.float32)).astype(np.uint8))
            stand_in.append(generator.integers(size.classes, size=rows, dtype=np.int32))
        monkeypatch.setattr(sources, "load", lambda *_: stand_in)
    monkeypatch.setitem(features.GRIDS, 28, features.Grid(32, 4))  # fewer coefficients, and few figures
    for kind, recipe in projection.RECIPES.items():
        monkeypatch.setitem(projection.RECIPES, kind, recipe._replace(figures=60, copies=4))
    content["system"] = system
    model = resolve({}, content)
    with checked_stages(model):
        scenario, tables = pipeline.run(content)
        frames = build.summarize(scenario, {name: tables[name] for name in tables if name not in ("users", "links")})
        compared = build.compare({"one": {"scenario": model.part()} | frames})
    assert set(tables["history"]["scheme"]) == {scheme["name"] for scheme in content["schemes"]}
    assert any(len(frame) for frame in frames.values())
    assert len(compared["outcomes"])
