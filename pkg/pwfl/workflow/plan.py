"""What a study's jobs are: the graph of stages (`pwfl.stages`) walked once, for rules, `simulate`, estimate and prune.

A job's *description* is all that its tables depend on: system, stage, variant, the parameters that the stage reads, its
code, the versions of the packages that this imports, and the addresses of the stages before it. Its digest is their
*address* in the store.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pwfl.learning import sources
from pwfl.learning.datasets import FILE, size
from pwfl.learning.features import DIRECTIONS, asked
from pwfl.runtime import devices, own, shards, store
from pwfl.runtime.files import content
from pwfl.runtime.fingerprint import script
from pwfl.scenario import ScenarioError, Study, checks
from pwfl.scenario.common import Scenario, Scheme
from pwfl.scenario.values import of_scheme, plain, value_of
from pwfl.stages import DATASET, FEATURES, GIVEN, GRAPH, IMPORTED, MAKER, PROJECTION, STAGES, variants
from pwfl.systems import registry

Files = Mapping[str, str | list[str]]
Route = dict[str, dict]  # stage -> the description of a scheme's tables, stages in the order of the graph


class Job(NamedTuple):
    """A job: what it is of, and its files by name, one or several an input.

    `outside`: files that no job makes, whose content the description tells; `reports`: of other jobs of the report.
    """

    description: dict
    inputs: Files = MappingProxyType({})
    outside: Files = MappingProxyType({})
    reports: Files = MappingProxyType({})
    outputs: Files = MappingProxyType({})


class Plan(NamedTuple):
    """All that a study computes before its report."""

    study: Study
    routes: dict[str, dict[str, Route]]  # scenario -> scheme -> route
    descriptions: dict[str, dict]  # address -> description
    owners: dict[str, Scenario]  # address -> a scenario that the tables belong to

    def jobs(self) -> Iterator[Job]:
        """The jobs that the whole study needs."""
        places = {
            (description["address"], shard): None
            for name, schemes in self.routes.items()
            for route in schemes.values()
            for stage, description in route.items()
            for shard in shards.of(self.study.scenarios[name], stage)
        }
        return (self.job(*place) for place in places)

    def job(self, address: str, shard: str = shards.ALL) -> Job:
        """A shard's job at an address. Raises ScenarioError where the study has nothing there."""
        if address not in self.descriptions:
            raise ScenarioError(
                f"{self.study.source}: nothing of the study {self.study.name} has the address {address}; "
                f"results/{self.study.name}/SCENARIO/addresses.csv lists those that have"
            )
        description = self.descriptions[address]
        stage, owner = description["stage"], self.owners[address]
        inputs = {}
        for before, tables in read(owner, description).items():
            held, at = needed(owner, stage, shard, before), description["upstream"][before]
            for table in tables:
                paths = [file(before, at, name, table) for name in held]
                inputs[table] = paths if len(paths) > 1 else paths[0]
        outputs = {table: file(stage, address, shard, table) for table in GRAPH[stage].makes}
        return Job(description, inputs, outside(owner, description), outputs=outputs)

    def files(self, scenario: str, table: str, first: bool = False) -> list[str]:
        """A table's files in a scenario, of each scheme where these differ; with `first`, of the first shards alone."""
        stage, routes = MAKER[table], list(self.routes[scenario].values())
        names = shards.of(self.study.scenarios[scenario], stage)
        return [
            file(stage, route[stage]["address"], shard, table)
            for route in (routes if GRAPH[stage].each else routes[:1])
            for shard in (names[:1] if first else names)
        ]


def plan(study: Study) -> Plan:
    """The plan of a study. It writes nothing."""
    found = {name: routes(scenario) for name, scenario in study.scenarios.items()}
    descriptions: dict[str, dict] = {}
    owners: dict[str, Scenario] = {}
    for name, scenario in study.scenarios.items():
        for description in (each for route in found[name].values() for each in route.values()):
            address = description["address"]
            descriptions[address] = description
            # Of scenarios with the same data set, one that has its files.
            owner = owners.setdefault(address, scenario)
            if outside(scenario, description) and not outside(owner, description):
                owners[address] = scenario
    return Plan(study, found, descriptions, owners)


def routes(scenario: Scenario) -> dict[str, Route]:
    """What each scheme of a scenario computes; stages that schemes share, and read the same, have the same address."""
    common = {description["stage"]: description for description in given(scenario)}
    known: dict[tuple, dict] = {}
    found = {}
    for scheme in scenario.schemes:
        route, chosen = dict(common), variants(scheme.scheduler, scheme.noise)
        for stage, declared in STAGES.items():
            key = (stage, *(getattr(scheme, part) for part in declared.each))
            if key not in known:
                known[key] = _describe(scenario, stage, scheme, chosen.get(stage), route)
            route[stage] = known[key]
        found[scheme.name] = route
    return found


def given(scenario: Scenario) -> list[dict]:
    """The descriptions of what a scenario needs before its channel: what is trained on, and tables from outside."""
    found = []
    if paths := checks.imports(scenario):
        package = registry.system(scenario.system).package
        contents = {table: content(path) for table, path in paths.items()}
        own = (f"{package}.{IMPORTED}", f"{package}.tables")
        more = {"system": scenario.system, "contents": contents}
        found.append(_addressed(IMPORTED, None, {"system": scenario.system}, {}, *own, **more))
    if "data" not in type(scenario).model_fields:
        return found
    data, wanted = scenario.data, asked(scenario)
    of_file = {"contents": {FILE: data.sha256}} if data.dataset == FILE else {}
    images = [_addressed(DATASET, data.dataset, {"bounds": data.bounds} if of_file else {}, {}, **of_file)]
    if not wanted.pixels:
        if wanted.kind in DIRECTIONS:  # learned from no data: neither users nor a data set are named
            images.append(_addressed(PROJECTION, wanted.kind, {"side": size(data).shape[0]}, {}))
        upstream = {description["stage"]: description["address"] for description in images}
        images.append(
            _addressed(FEATURES, wanted.kind, {"dataset": data.dataset, "variants": wanted.variants}, upstream)
        )
    return [*found, *images]


def outside(scenario: Scenario, description: dict) -> dict[str, str | list[str]]:
    """The files from outside that a job reads, by name."""
    if description["stage"] == DATASET and description["variant"] == FILE:
        return {FILE: scenario.data.file}
    if description["stage"] == DATASET:
        files = sources.idx_files(scenario.data.dataset, scenario.data.folder)
        return {"files": files} if files else {}
    if description["stage"] == IMPORTED:
        return checks.imports(scenario)
    return {"own": description["files"]} if "files" in description else {}


def device(scenario: Scenario) -> str:
    """What a scenario is to be trained on; systems that say nothing of it train on the CPU."""
    return value_of(scenario, "training.device") or devices.CPU


def gpus(scenario: Scenario) -> int:
    """How many GPUs a job that trains a scenario is to have for itself."""
    asked = device(scenario)
    return int(asked == "gpu" or (asked == "auto" and devices.present()))


def read(scenario: Scenario, description: dict) -> dict[str, tuple[str, ...]]:
    """The tables that a job reads, by the stages that make them."""
    wanted = registry.reads(scenario.system, description["stage"], description["variant"])
    found = {before: tuple(table for table in wanted if MAKER[table] == before) for before in description["upstream"]}
    return {before: tables or GRAPH[before].makes for before, tables in found.items()}  # others: what is trained on


def needed(scenario: Scenario, stage: str, shard: str, before: str) -> list[str]:
    """The shards of an earlier stage that a shard of a stage needs."""
    grid, before_grid = GRAPH[stage].grid, GRAPH[before].grid
    if grid == before_grid:
        return [shard]
    if None in (grid, before_grid):
        return shards.of(scenario, before)
    return shards.covering(*shards.bounds(shard), getattr(scenario.shards, before_grid))


def file(stage: str, address: str, shard: str, table: str) -> str:
    """Where a table lies, in the folder that holds the store."""
    suffix = "npz" if stage in GIVEN and stage != IMPORTED else "parquet"
    return f"store/{stage}/{address}/{'' if shard == shards.ALL else shard + '/'}{table}.{suffix}"


def listing(schemes: dict[str, Route]) -> list[list[str]]:
    """The addresses behind a scenario's report: rows of scheme, stage, address, and the folder of its tables."""
    return [
        [scheme, stage, route[stage]["address"], f"store/{stage}/{route[stage]['address']}"]
        for scheme, route in schemes.items()
        for stage in GRAPH
        if stage in route
    ]


def _describe(scenario: Scenario, stage: str, scheme: Scheme, variant: str | None, before: Route) -> dict:
    """The description of a stage's variant in a scheme, given those of the stages before it."""
    declared = STAGES[stage]
    upstream = {MAKER[table] for table in registry.reads(scenario.system, stage, variant)}
    if declared.takes_data:
        upstream.add(FEATURES if FEATURES in before else DATASET)
    package = registry.system(scenario.system).package
    addresses = {name: before[name]["address"] for name in GRAPH if name in upstream and name in before}
    values = scenario.of_stage(stage, variant)
    parameters = plain(of_scheme(values, scheme) if declared.draws_noise else values)
    functions = checks.own_functions(scenario, stage, variant)
    modules = (f"{package}.{stage}", f"{package}.tables", *own.modules(functions))
    files = own.files(functions)
    return _addressed(stage, variant, parameters, addresses, *modules, files=files, system=scenario.system)


def _addressed(
    stage: str, variant: str | None, parameters: dict, upstream: dict, *modules: str, files: tuple = (), **more
) -> dict:
    """A description, with its address."""
    code = store.code(*modules, GRAPH[stage].work, script("stage"), files=files)
    description = {"stage": stage, "variant": variant, "parameters": parameters, "upstream": upstream} | more | code
    return {"address": store.digest(description)} | description
