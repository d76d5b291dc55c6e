"""Plan a study: walk the graph of stages (`pwfl.stages`) once, for the rules, `simulate`, prune and tests.

A *description* contains everything that an item's files depend on: stage, system, variant, the parameters that the
stage reads, its code, the versions of the packages that the code imports, and the addresses of the items that it needs.
Its digest is the item's *address* in the store. Planning reads external files and writes nothing.

A training run's *release*, one of its parameters, is a digest of all that its messages depend on
(`pwfl.scenario.release`). It names the run's noise (`pwfl.streams.name_noise`): schemes or sweep points with different
releases have independent noise. Parameters that only observe, and edits of code, do not change the noise.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from pwfl import registry
from pwfl.learning import sources
from pwfl.learning.datasets import FILE, size
from pwfl.learning.features import DIRECTIONS, PIXELS, requested
from pwfl.process import devices
from pwfl.scenario import Study, checks
from pwfl.scenario.chunks import chunks_of, covering
from pwfl.scenario.common import Scenario, Scheme
from pwfl.scenario.release import depended_on
from pwfl.scenario.values import value_of
from pwfl.stages import DATASET, FEATURES, GRAPH, IMPORTED, PREPARATIONS, PROJECTION, STAGES, variants
from pwfl.store import addressing, code, grids
from pwfl.store.files import content
from pwfl.store.items import key_of

Files = dict[str, list[str]]  # name -> paths
Route = dict[str, dict]  # stage -> description of it in a scheme, stages in the order of the graph


class Item(NamedTuple):
    """Files that appear in the store at once: a stage's, of a chunk of realizations or of all, or a report job's."""

    stage: str
    address: str
    chunk: str = grids.ALL

    @property
    def key(self) -> str:
        """The item's folder in the store."""
        return f"{self.stage}/{self.address}" + ("" if self.chunk == grids.ALL else f"/{self.chunk}")

    def file(self, name: str) -> str:
        """Return the path of one of the item's files in the store."""
        return f"{self.key}/{name}"


class Job(NamedTuple):
    """The job that makes a report item: the item's files, its input files in the store, and all other arguments."""

    outputs: list[str]
    inputs: Files
    arguments: dict


class Plan(NamedTuple):
    """A study's items: of its stages and, with `pwfl.workflow.reports`, of its report; and the files to publish."""

    study: Study
    routes: dict[str, dict[str, Route]]  # scenario -> scheme -> route
    descriptions: dict[str, dict]  # address -> description
    owners: dict[str, str]  # address -> the name of a scenario to which its items belong, if any
    jobs: dict[Item, Job]  # of the report
    view: dict[str, str]  # path in the study's folder -> file in the store

    def items(self) -> Iterator[Item]:
        """Yield all items, each after those that it needs."""
        yield from dict.fromkeys(
            Item(stage, description["address"], chunk)
            for name, schemes in self.routes.items()
            for route in schemes.values()
            for stage, description in route.items()
            for chunk in chunks_of(self.study.scenarios[name], stage)
        )
        yield from self.jobs

    def owner(self, item: Item) -> Scenario:
        """Return a scenario to which a stage's item belongs."""
        return self.study.scenarios[self.owners[item.address]]

    def outputs(self, item: Item) -> list[str]:
        """List the names of an item's files."""
        if item in self.jobs:
            return self.jobs[item].outputs
        return [file_name(table) for table in registry.makes(self.owner(item).system, item.stage)]

    def inputs(self, item: Item) -> Files:
        """List the files of the store that an item needs, by name."""
        if item in self.jobs:
            return self.jobs[item].inputs
        owner, description, files = self.owner(item), self.descriptions[item.address], {}
        for before, tables in read(owner, description).items():
            is_whole = item.chunk == grids.ALL or GRAPH[before].grid is None
            chunks = chunks_of(owner, before) if is_whole else covering(owner, before, *grids.bounds(item.chunk))
            made = [Item(before, description["upstream"][before], chunk) for chunk in chunks]
            files |= {table: [each.file(file_name(table)) for each in made] for table in tables}
        return files

    def needs(self, item: Item) -> set[str]:
        """Return the keys of the items that an item needs."""
        return {key_of(path) for paths in self.inputs(item).values() for path in paths}

    def entry(self, item: Item) -> dict:
        """Return an item's entry in a manifest: its fields, key, files, inputs, external files, arguments, scenario."""
        job, address = self.jobs.get(item), item.address
        return item._asdict() | {
            "key": item.key,
            "files": self.outputs(item),
            "inputs": self.inputs(item),
            "outside": {} if job else outside(self.owner(item), self.descriptions[address]),
            "arguments": job.arguments if job else {},
            "scenario": self.owners.get(address),
        }

    def addresses(self, scenario: str, stages: Container[str] = GRAPH) -> dict[str, dict[str, str]]:
        """Return the addresses of a scenario's stages, by scheme and stage, in the order of the graph."""
        return {
            scheme: {stage: route[stage]["address"] for stage in GRAPH if stage in route and stage in stages}
            for scheme, route in self.routes[scenario].items()
        }

    def files(self, scenario: str, table: str, first: bool = False) -> list[str]:
        """List a table's files in a scenario, of each scheme if its stage depends on it; `first`: only first chunks."""
        routes = list(self.routes[scenario].values())
        stage = registry.makers(self.study.scenarios[scenario].system)[table]
        return [
            Item(stage, route[stage]["address"], chunk).file(file_name(table))
            for route in (routes if GRAPH[stage].each else routes[:1])
            for chunk in chunks_of(self.study.scenarios[scenario], stage)[: 1 if first else None]
        ]


def plan(study: Study) -> Plan:
    """Plan the stages of a study. Raises OSError for external files that cannot be read."""
    all_routes = {name: routes(scenario) for name, scenario in study.scenarios.items()}
    descriptions: dict[str, dict] = {}
    owners: dict[str, str] = {}
    for name, scenario in study.scenarios.items():
        for description in (each for route in all_routes[name].values() for each in route.values()):
            address = description["address"]
            descriptions[address] = description
            # If scenarios have the same data set, its owner is one that has its files.
            owner = owners.setdefault(address, name)
            if outside(scenario, description) and not outside(study.scenarios[owner], description):
                owners[address] = name
    return Plan(study, all_routes, descriptions, owners, {}, {})


def routes(scenario: Scenario) -> dict[str, Route]:
    """Return each scheme's route: descriptions by stage. Stages with equal inputs share addresses."""
    common = {description["stage"]: description for description in preparations(scenario)}
    described: dict[tuple, dict] = {}
    scheme_routes = {}
    for scheme in scenario.schemes:
        route, chosen = dict(common), variants(scheme.scheduler, scheme.noise)
        for stage, declared in registry.stages(scenario.system).items():
            key = (stage, *(getattr(scheme, part) for part in declared.each))
            if key not in described:
                described[key] = _describe(scenario, stage, scheme, chosen.get(stage), route)
            route[stage] = described[key]
        scheme_routes[scheme.name] = route
    return scheme_routes


def made_of(route: Route, stages: Iterable[str]) -> list[str]:
    """List stages of a route, and the stages before them that they need."""
    behind = list(stages)
    for stage in behind:  # grows meanwhile
        behind += [other for other in route.get(stage, {}).get("upstream", ()) if other not in behind]
    return behind


def releases(schemes: dict[str, Route]) -> dict[str, str]:
    """Return digests of schemes' releases: equal ones mean one training run. Another file format changes the digest."""
    digests = {}
    for scheme, route in schemes.items():
        upstream = route["train"]["upstream"]
        files = [upstream.get(stage) for stage in (IMPORTED, DATASET)]
        digests[scheme] = addressing.digest({"release": route["train"]["parameters"]["release"], "files": files})
    return digests


def preparations(scenario: Scenario) -> list[dict]:
    """Describe the stages that a scenario needs before its channel: imported tables, data set, projection, features."""
    descriptions, system = [], scenario.system
    if paths := checks.imports(scenario):
        contents = {table: content(path) for table, path in paths.items()}
        descriptions.append(_addressed(IMPORTED, None, {"system": system}, [], system=system, contents=contents))
    if "data" not in type(scenario).model_fields:
        return descriptions
    data, wanted = value_of(scenario, "data"), requested(scenario)
    bounds, contents = ({"bounds": data.bounds}, {FILE: data.sha256}) if data.dataset == FILE else ({}, None)
    images = [_addressed(DATASET, data.dataset, bounds, [], contents=contents)]
    if wanted in DIRECTIONS:  # learned from no data: it depends on neither users nor a data set
        images.append(_addressed(PROJECTION, wanted, {"side": size(data).shape[0]}, []))
    if wanted != PIXELS:
        images.append(_addressed(FEATURES, wanted, {"dataset": data.dataset}, images))
    return [*descriptions, *images]


def outside(scenario: Scenario, description: dict) -> Mapping[str, str | list[str]]:
    """Return the external files that a description depends on, by name."""
    if description["stage"] == DATASET and description["variant"] == FILE:
        return {FILE: value_of(scenario, "data.file")}
    if description["stage"] == DATASET:
        files = sources.idx_files(value_of(scenario, "data.dataset"), value_of(scenario, "data.folder"))
        return {"files": files} if files else {}
    return checks.imports(scenario) if description["stage"] == IMPORTED else {}


def device(scenario: Scenario) -> str:
    """Return the device to train a scenario on: `training.device`, or the CPU in systems without this parameter."""
    return value_of(scenario, "training.device") or devices.CPU


def read(scenario: Scenario, description: dict) -> dict[str, tuple[str, ...]]:
    """List the tables that the stage of a description reads, by the stages that make them."""
    makers = registry.makers(scenario.system)
    wanted = registry.reads(scenario.system, description["stage"], description["variant"])
    return {  # if it names no table of a stage, all that the stage makes, such as the training data
        before: tuple(table for table in wanted if makers[table] == before) or GRAPH[before].makes
        for before in description["upstream"]
    }


def file_name(table: str) -> str:
    """Return the name of a table's file."""
    return f"{table}.{'npz' if table in PREPARATIONS else 'parquet'}"  # arrays are named like their stages


def _describe(scenario: Scenario, stage: str, scheme: Scheme, variant: str | None, before: Route) -> dict:
    """Describe a stage's variant in a scheme, given the descriptions of the stages before it."""
    declared = STAGES[stage]
    makers = registry.makers(scenario.system)
    upstream = {makers[table] for table in registry.reads(scenario.system, stage, variant)}
    if declared.takes_data:
        upstream.add(FEATURES if FEATURES in before else DATASET)
    if declared.draws_noise:  # noise depends on the user's files
        upstream |= {IMPORTED} | ({DATASET} if value_of(scenario, "data.dataset") == FILE else set())
    sources = [name for name in GRAPH if name in upstream and name in before]
    parameters = scenario.dump_for(stage, variant)
    if declared.draws_noise:  # a digest of all parameters that the messages of the training run depend on
        behind = [before[name]["parameters"] for name in made_of(before, sources) if name in STAGES]
        parameters["release"] = addressing.digest(depended_on(scenario, scheme, [parameters, *behind]))
    own = checks.user_functions(scenario, stage, variant)
    return _addressed(stage, variant, parameters, [before[name] for name in sources], own, system=scenario.system)


def _addressed(stage, variant, parameters: dict, made_of: Iterable[dict], own=(), **more) -> dict:
    """Build a description with its address; `made_of`: its inputs' ones, `own`: user-defined functions, their files."""
    packages = [registry.system(more["system"]).package] if "system" in more else []
    stated = {"stage": stage, "variant": variant, "parameters": parameters}
    stated |= {key: value for key, value in more.items() if value}
    upstream = {"upstream": {source["stage"]: source["address"] for source in made_of}}
    description = stated | upstream | code.described(stage, packages, *own)
    return {"address": addressing.digest(description)} | description
