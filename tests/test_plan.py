"""The plan of a study's items: whole, without files, and enough to compute everything by it."""

import json

import polars as pl
import pytest

import pwfl
from conftest import ROOT, SMALL, TINY, environment, python
from pwfl import registry, streams
from pwfl.execution import execute
from pwfl.execution.stage import Task
from pwfl.scenario import common, load
from pwfl.scenario.values import build_values
from pwfl.store import code, grids
from pwfl.tables import finished
from pwfl.workflow.plan import plan

AGING = SMALL["base"] | {"training": {"draws": 5}}
STROKES = {"base": TINY["base"] | {"training": TINY["base"]["training"] | {"features": "strokes"}}}


def planned(**config):
    return plan(load({"scenarios": {"one": {}}} | config, "a test"))


CASES = {name: {"base": registry.system(name).catalog.tiny | {"system": name}} for name in registry.BUILT_IN}


def files(chosen, item) -> list[str]:
    """The files of an item."""
    return [f"{item.key}/{name}" for name in chosen.outputs(item)]


@pytest.mark.parametrize("config", [*CASES.values(), STROKES], ids=[*CASES, "features"])
def test_each_input_is_made_by_one_item_before(config):
    chosen = planned(**config)
    before: list[str] = []
    for item in chosen.items():
        assert {path for paths in chosen.inputs(item).values() for path in paths} <= set(before)
        assert {name.partition(".")[0] for name in chosen.outputs(item)} == set(
            registry.makes(chosen.owner(item).system, item.stage)
        )
        assert chosen.descriptions[item.address]["stage"] == item.stage
        before += files(chosen, item)
    assert len(before) == len(set(before)) > 8


def test_what_items_hold_one_by_one_is_what_simulate_returns():
    chosen = planned(base=AGING)
    made: dict[str, pl.DataFrame] = {}
    for item in chosen.items():
        inputs = {name: pl.concat([made[path] for path in paths]) for name, paths in chosen.inputs(item).items()}
        description = chosen.descriptions[item.address]
        realizations = range(*grids.bounds(item.chunk))
        found = execute(
            Task(item.stage, build_values(description["parameters"]), description["variant"], realizations), inputs
        )
        paths = zip(registry.makes("age_aware", item.stage), files(chosen, item), strict=True)
        made |= {path: finished(found[name], name, "age_aware") for name, path in paths}
    expected = pwfl.simulate(AGING).scenarios["scenario"].stages
    for table, frame in expected.items():
        left = pl.concat([made[path] for path in chosen.files("one", table)])
        count = AGING["training_realizations" if table in ("history", "holdings") else "realizations"]
        assert left.filter(pl.col("realization") < count).equals(frame.drop("scheme", strict=False))


def test_scenarios_share_what_reads_the_same():
    one = {item.address for item in planned(base=AGING).items()}
    other = AGING | {"privacy": {"target_epsilons": [0.4]}}
    both = planned(scenarios={"one": AGING, "two": other})
    second = {description["address"] for route in both.routes["two"].values() for description in route.values()}
    shared = one & second
    assert {both.descriptions[address]["stage"] for address in shared} == {"channel"}
    assert one | second == set(both.descriptions)


@pytest.mark.parametrize("most", [100, 10, 9, 4, 1])
@pytest.mark.parametrize("sizes", [grids.TABLES, grids.TRAININGS])
def test_an_extent_is_that_of_the_chunks_that_are_listed(sizes, most):
    sizes = grids.fitting(sizes, most)
    for count in range(1, 350):
        chunks = [grids.bounds(chunk) for chunk in grids.covering(0, count, sizes)]
        found = grids.extent(count, sizes)
        assert found == (len(chunks), chunks[-1][1], max(stop - first for first, stop in chunks))


def trainings(config):
    """The descriptions of what a study trains, by scenario and scheme."""
    routes = planned(**config).routes
    return {(name, scheme): route["train"] for name, schemes in routes.items() for scheme, route in schemes.items()}


def releases(config):
    return {key: description["parameters"]["release"] for key, description in trainings(config).items()}


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_planning_makes_no_stages_parameters_but_writes_them(system, monkeypatch):
    before = [item.address for item in planned(**CASES[system], scenarios={"one": {}}).items()]
    monkeypatch.setattr(common, "select_part", None)
    again = [item.address for item in planned(**CASES[system], scenarios={"one": {}}).items()]
    assert before == again


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_no_two_trainings_of_a_study_draw_the_same_noise(system):
    seeds = {f"seed_{seed}": {"seed": seed} for seed in (2, 3)}
    config = CASES[system] | {"scenarios": {"one": {}, "same": {}} | seeds}
    found, made = releases(config), trainings(config)
    schemes = {scheme for _, scheme in found}
    assert {found["one", scheme] == found["same", scheme] for scheme in schemes} == {True}
    assert len(set(found.values())) == len({made[key]["address"] for key in found}) == 3 * len(schemes)


def test_points_of_a_sweep_draw_noise_of_their_own():
    # Of parameters that an earlier stage reads alone, too: the points' trainings have the same records.
    sweep = {"swept": {"sweep": {"privacy.min_noise": [1.0, 2.0], "radio.max_power_dbm": [20.0, 23.0]}}}
    found = trainings(TINY | {"scenarios": sweep})
    assert len({each["parameters"]["release"] for each in found.values()}) == len(found)
    assert len(found) == 4 * len({scheme for _, scheme in found})
    keys = {streams.key(*streams.name_noise(build_values(each["parameters"]), 0)) for each in found.values()}
    assert len(keys) == len(found)


def test_names_code_and_numbers_of_realizations_draw_no_other_noise(monkeypatch):
    before = releases(TINY)
    schemes = planned(**TINY).study.scenarios["low"].model_dump()["schemes"]
    named = [scheme | {"name": f"another {k}"} for k, scheme in enumerate(schemes)]
    more = TINY["base"] | {"schemes": named, "realizations": 7, "training_realizations": 5}
    assert list(releases(TINY | {"base": more}).values()) == list(before.values())
    right = code.described
    monkeypatch.setattr(code, "described", lambda *given: right(*given) | {"code": "edited"})
    assert releases(TINY) == before


@pytest.mark.slow
def test_descriptions_are_the_same_bits_whatever_the_hashes_of_a_process():
    code = (
        "import json, sys; from pathlib import Path; from pwfl.scenario import load; from pwfl.workflow import session\n"
        "config = json.loads(sys.argv[1])\n"
        "found = session.start(load(config, 'a'), Path('none'), (), None, 2, ('x', []))\n"
        "print(json.dumps(found.work.descriptions))"
    )
    texts = [
        python("-c", code, json.dumps(SMALL), cwd=ROOT, env=environment() | {"PYTHONHASHSEED": seed}, check=True).stdout
        for seed in ("1", "2", "3")
    ]
    assert len(set(texts)) == 1
