"""What a study computes: the graph of stages (`pwfl.stages`) walked once, for the rules, `simulate`, prune and tests.

A *description* is all that an item's files depend on: stage, system, variant, the parameters that the stage reads, its
code, the versions of the packages that this imports, and the addresses of the items that it is made of. Its digest is
their *address* in the store. Planning reads files from outside and writes nothing.

A training's *release*, among its parameters, is a digest of what its messages depend on (`pwfl.scenario.release`), and
names the noise that it draws (`pwfl.streams.name_noise`). So the noise of two schemes, or points of a sweep, that train
on the same records is independent, and neither what only observes nor editing code draws other noise.
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
Route = dict[str, dict]  # stage -> the description of a scheme's tables, stages in the order of the graph


class Item(NamedTuple):
    """What appears in the store at once: a stage's files, of a chunk of realizations or of all, or a report job's."""

    stage: str
    address: str
    chunk: str = grids.ALL

    @property
    def key(self) -> str:
        """Its folder, in the store."""
        return f"{self.stage}/{self.address}" + ("" if self.chunk == grids.ALL else f"/{self.chunk}")

    def file(self, name: str) -> str:
        """A file of it, in the store."""
        return f"{self.key}/{name}"


class Job(NamedTuple):
    """What an item of the report is made by: its files, those of the store that it is made of, all other arguments."""

    outputs: list[str]
    inputs: Files
    arguments: dict


class Plan(NamedTuple):
    """What a study computes: the stages' items; with `pwfl.workflow.reports`, those of its report and what it shows."""

    study: Study
    routes: dict[str, dict[str, Route]]  # scenario -> scheme -> route
    descriptions: dict[str, dict]  # address -> description
    owners: dict[str, str]  # address -> the name of a scenario that the tables belong to, if any
    jobs: dict[Item, Job]  # of the report
    view: dict[str, str]  # path in the study's folder -> file in the store

    def items(self) -> Iterator[Item]:
        """All items, each after those that it is made of."""
        yield from dict.fromkeys(
            Item(stage, description["address"], chunk)
            for name, schemes in self.routes.items()
            for route in schemes.values()
            for stage, description in route.items()
            for chunk in chunks_of(self.study.scenarios[name], stage)
        )
        yield from self.jobs

    def owner(self, item: Item) -> Scenario:
        """A scenario that a stage's item belongs to."""
        return self.study.scenarios[self.owners[item.address]]

    def outputs(self, item: Item) -> list[str]:
        """The names of an item's files."""
        if item in self.jobs:
            return self.jobs[item].outputs
        return [file_name(table) for table in registry.makes(self.owner(item).system, item.stage)]

    def inputs(self, item: Item) -> Files:
        """The files of the store that an item is made of, by name."""
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
        """The keys of the items that an item is made of."""
        return {key_of(path) for paths in self.inputs(item).values() for path in paths}

    def entry(self, item: Item) -> dict:
        """An item in a manifest: key, files, inputs, files from outside, scenario."""
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
        """The addresses of stages of a scenario, by scheme and stage, in the order of the graph."""
        return {
            scheme: {stage: route[stage]["address"] for stage in GRAPH if stage in route and stage in stages}
            for scheme, route in self.routes[scenario].items()
        }

    def files(self, scenario: str, table: str, first: bool = False) -> list[str]:
        """A table's files in a scenario, of each scheme where these differ; with `first`, of the first chunks alone."""
        routes = list(self.routes[scenario].values())
        stage = registry.makers(self.study.scenarios[scenario].system)[table]
        return [
            Item(stage, route[stage]["address"], chunk).file(file_name(table))
            for route in (routes if GRAPH[stage].each else routes[:1])
            for chunk in chunks_of(self.study.scenarios[scenario], stage)[: 1 if first else None]
        ]


def plan(study: Study) -> Plan:
    """The plan of a study. Raises OSError for files from outside that cannot be read."""
    all_routes = {name: routes(scenario) for name, scenario in study.scenarios.items()}
    descriptions: dict[str, dict] = {}
    owners: dict[str, str] = {}
    for name, scenario in study.scenarios.items():
        for description in (each for route in all_routes[name].values() for each in route.values()):
            address = description["address"]
            descriptions[address] = description
            # Of scenarios with the same data set, one that has its files.
            owner = owners.setdefault(address, name)
            if outside(scenario, description) and not outside(study.scenarios[owner], description):
                owners[address] = name
    return Plan(study, all_routes, descriptions, owners, {}, {})


def routes(scenario: Scenario) -> dict[str, Route]:
    """Each scheme's route: descriptions by stage. Schemes whose stages have equal inputs share addresses."""
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
    """Stages of a route, and those before them that they are made of."""
    behind = list(stages)
    for stage in behind:  # which grows
        behind += [other for other in route.get(stage, {}).get("upstream", ()) if other not in behind]
    return behind


def releases(schemes: dict[str, Route]) -> dict[str, str]:
    """Digests of the schemes' releases; equal ones are one training. A user's file in another format is another one."""
    digests = {}
    for scheme, route in schemes.items():
        upstream = route["train"]["upstream"]
        files = [upstream.get(stage) for stage in (IMPORTED, DATASET)]
        digests[scheme] = addressing.digest({"release": route["train"]["parameters"]["release"], "files": files})
    return digests


def preparations(scenario: Scenario) -> list[dict]:
    """The descriptions of what a scenario needs before its channel: what is trained on, and tables from outside."""
    descriptions, system = [], scenario.system
    if paths := checks.imports(scenario):
        contents = {table: content(path) for table, path in paths.items()}
        descriptions.append(_addressed(IMPORTED, None, {"system": system}, [], system=system, contents=contents))
    if "data" not in type(scenario).model_fields:
        return descriptions
    data, wanted = value_of(scenario, "data"), requested(scenario)
    bounds, contents = ({"bounds": data.bounds}, {FILE: data.sha256}) if data.dataset == FILE else ({}, None)
    images = [_addressed(DATASET, data.dataset, bounds, [], contents=contents)]
    if wanted in DIRECTIONS:  # learned from no data: neither users nor a data set are named
        images.append(_addressed(PROJECTION, wanted, {"side": size(data).shape[0]}, []))
    if wanted != PIXELS:
        images.append(_addressed(FEATURES, wanted, {"dataset": data.dataset}, images))
    return [*descriptions, *images]


def outside(scenario: Scenario, description: dict) -> Mapping[str, str | list[str]]:
    """The files from outside that an address is made of, by name."""
    if description["stage"] == DATASET and description["variant"] == FILE:
        return {FILE: value_of(scenario, "data.file")}
    if description["stage"] == DATASET:
        files = sources.idx_files(value_of(scenario, "data.dataset"), value_of(scenario, "data.folder"))
        return {"files": files} if files else {}
    return checks.imports(scenario) if description["stage"] == IMPORTED else {}


def device(scenario: Scenario) -> str:
    """What a scenario is to be trained on; systems that say nothing of it train on the CPU."""
    return value_of(scenario, "training.device") or devices.CPU


def read(scenario: Scenario, description: dict) -> dict[str, tuple[str, ...]]:
    """The tables that an address is made of, by the stages that make them."""
    makers = registry.makers(scenario.system)
    wanted = registry.reads(scenario.system, description["stage"], description["variant"])
    return {  # of those of which it reads no table by name, what is trained on
        before: tuple(table for table in wanted if makers[table] == before) or GRAPH[before].makes
        for before in description["upstream"]
    }


def file_name(table: str) -> str:
    """The name of a table's file."""
    return f"{table}.{'npz' if table in PREPARATIONS else 'parquet'}"  # arrays have the names of their stages


def _describe(scenario: Scenario, stage: str, scheme: Scheme, variant: str | None, before: Route) -> dict:
    """The description of a stage's variant in a scheme, given those of the stages before it."""
    declared = STAGES[stage]
    makers = registry.makers(scenario.system)
    upstream = {makers[table] for table in registry.reads(scenario.system, stage, variant)}
    if declared.takes_data:
        upstream.add(FEATURES if FEATURES in before else DATASET)
    if declared.draws_noise:  # which depends on what comes from the user's files
        upstream |= {IMPORTED} | ({DATASET} if value_of(scenario, "data.dataset") == FILE else set())
    sources = [name for name in GRAPH if name in upstream and name in before]
    parameters = scenario.dump_for(stage, variant)
    if declared.draws_noise:  # a digest of what the messages of the training depend on, and of what it is made of
        behind = [before[name]["parameters"] for name in made_of(before, sources) if name in STAGES]
        parameters["release"] = addressing.digest(depended_on(scenario, scheme, [parameters, *behind]))
    own = checks.user_functions(scenario, stage, variant)
    return _addressed(stage, variant, parameters, [before[name] for name in sources], own, system=scenario.system)


def _addressed(stage, variant, parameters: dict, made_of: Iterable[dict], own=(), **more) -> dict:
    """A description, with its address; `made_of` are those of its inputs, `own` user's functions and their files."""
    packages = [registry.system(more["system"]).package] if "system" in more else []
    stated = {"stage": stage, "variant": variant, "parameters": parameters}
    stated |= {key: value for key, value in more.items() if value}
    upstream = {"upstream": {source["stage"]: source["address"] for source in made_of}}
    description = stated | upstream | code.described(stage, packages, *own)
    return {"address": addressing.digest(description)} | description
