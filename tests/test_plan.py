"""The plan of a study's jobs: whole, without files, and enough to compute everything by it."""

import polars as pl
import pytest

import pwfl
from conftest import SMALL, TINY
from pwfl.runtime import shards
from pwfl.scenario import ScenarioError, load
from pwfl.scenario.values import Values
from pwfl.stages import GRAPH
from pwfl.systems import registry
from pwfl.tables import finished
from pwfl.work.stage import Task
from pwfl.workflow.execution import execute
from pwfl.workflow.plan import plan

AGING = SMALL["base"] | {
    "realizations": 5,
    "training_realizations": 4,
    "shards": {"optimization": 2, "training": 3},
    "training": {"draws": 5},
}
STROKES = {"base": TINY["base"] | {"training": TINY["base"]["training"] | {"features": "strokes"}}}


def paths(files) -> list[str]:
    """All paths of a job's inputs, which are one or several."""
    return [path for each in files.values() for path in ([each] if isinstance(each, str) else each)]


def planned(**config):
    return plan(load({"scenarios": {"one": {}}} | config, "a test"))


CASES = {name: {"base": registry.system(name).catalog.tiny | {"system": name}} for name in registry.BUILT_IN}


@pytest.mark.parametrize("config", [*CASES.values(), STROKES], ids=[*CASES, "features"])
def test_each_input_is_made_by_one_job(config):
    jobs = list(planned(**config).jobs())
    made = [path for job in jobs for path in paths(job.outputs)]
    assert len(made) == len(set(made))
    for number, job in enumerate(jobs):
        before = {path for earlier in jobs[:number] for path in paths(earlier.outputs)}
        assert set(paths(job.inputs)) <= before
        assert set(job.outputs) == set(GRAPH[job.description["stage"]].makes)


@pytest.mark.parametrize("size", [1, 2, 4, 7])
def test_shards_hold_each_realization_once(size):
    (scenario,) = planned(base=AGING | {"shards": {"optimization": size, "training": size}}).study.scenarios.values()
    for stage, count in {"schedule": 5, "train": 4}.items():
        held = [k for shard in shards.of(scenario, stage) for k in range(*shards.bounds(shard))]
        assert held == list(range(-(-count // size) * size))


def test_what_jobs_make_one_by_one_is_what_simulate_returns():
    """Shards of training hold three realizations, those of the other stages two; none divides five."""
    chosen = planned(base=AGING)
    made: dict[str, pl.DataFrame] = {}
    for job in chosen.jobs():
        inputs = {name: pl.concat([made[path] for path in paths({name: files})]) for name, files in job.inputs.items()}
        description, shard = job.description, next(iter(job.outputs.values())).split("/")[3]
        realizations = range(*shards.bounds(shard)) if shard.startswith("0") else None
        task = Task(description["stage"], Values(description["parameters"]), description["variant"], realizations)
        found = execute(task, inputs)
        made |= {path: finished(found[name], name, "age_aware") for name, path in job.outputs.items()}
    expected = pwfl.simulate(AGING).scenarios["scenario"].stages
    for table, frame in expected.items():
        files = pl.concat([made[path] for path in chosen.files("one", table)])
        count = AGING["training_realizations" if table in ("history", "holdings") else "realizations"]
        assert files.filter(pl.col("realization") < count).equals(frame.drop("scheme", strict=False))


def test_scenarios_share_what_reads_the_same():
    one = {job.description["address"] for job in planned(base=AGING).jobs()}
    other = AGING | {"privacy": {"target_epsilons": [0.4]}}
    both = planned(scenarios={"one": AGING, "two": other})
    second = {description["address"] for route in both.routes["two"].values() for description in route.values()}
    shared = one & second
    assert {both.descriptions[address]["stage"] for address in shared} == {"channel"}
    assert one | second == set(both.descriptions)


def test_an_address_of_another_study_is_refused():
    with pytest.raises(ScenarioError, match="nothing of the study study has the address 0123456789ab; results/study/"):
        planned(base=AGING).job("0123456789ab")
