"""All that a study computes: beside the stages' items of `plan` those of its report; what `results/STUDY` shows."""

from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from pwfl import registry
from pwfl.report import captions as filled
from pwfl.report import catalog, references
from pwfl.scenario import ScenarioError, Study, checks
from pwfl.scenario.common import Scenario
from pwfl.stages import AUDIT, REPORT, STAGES
from pwfl.store import addressing, code, sealed
from pwfl.store.files import text as read_text
from pwfl.store.items import key_of
from pwfl.workflow.plan import Files, Item, Plan, listing, made_of, releases

RESOLVED, TABLES, FIGURES = "scenario", "tables", "figures"
COMPARISON, PAPER, PAGE = "comparison", "paper", "page"
SCENARIOS = "scenarios"  # the scenarios that a comparison is of
JOBS = (AUDIT, RESOLVED, TABLES, FIGURES, COMPARISON, PAPER, PAGE)
# Where a scenario withholds what is private, the store keeps these, as they have digests of the data.
WHOLE, ADDRESSES = "resolved.yaml", "addresses.csv"
FOR_PAGE = ("points.parquet", "points.csv", "charts.json")  # that the comparison leaves, and the folder does not show
FIRST_CHUNK = ("users", "links", "holdings")  # tables of which figures show the first chunk
READS = {  # stages, by job
    TABLES: tuple(STAGES),
    AUDIT: tuple(stage for stage, declared in STAGES.items() if not declared.takes_data),
    FIGURES: tuple(STAGES),
}
OF_TABLES = ("schedule_status", "noise_status", "history")  # and all that account makes


class Job(NamedTuple):
    """An item of the report: its description, its files, its inputs, and all other arguments of its job.

    Some of the description is not in the address, but says in words what digests in it stand for.
    """

    description: dict
    outputs: list[str]
    inputs: Callable[[], Files] = dict
    arguments: Callable[[], dict] = dict


class Work(NamedTuple):
    """All that a study computes: the stages' items, the report's, and what the study's folder shows of the store."""

    planned: Plan
    jobs: dict[Item, Job]  # of the report
    view: dict[str, str]  # path in the study's folder -> file in the store

    def items(self) -> Iterator[Item]:
        """All items, each after those that it is made of."""
        yield from self.planned.items()
        yield from self.jobs

    @property
    def descriptions(self) -> dict[str, dict]:
        """What items' files depend on, by the items' addresses."""
        return self.planned.descriptions | {item.address: job.description for item, job in self.jobs.items()}

    def description(self, item: Item) -> dict:
        """What an item's files depend on."""
        return self.jobs[item].description if item in self.jobs else self.planned.descriptions[item.address]

    def outputs(self, item: Item) -> list[str]:
        """The names of an item's files."""
        return self.jobs[item].outputs if item in self.jobs else self.planned.outputs(item)

    def inputs(self, item: Item) -> Files:
        """The files of the store that an item is made of, by name."""
        return self.jobs[item].inputs() if item in self.jobs else self.planned.inputs(item)

    def needs(self, item: Item) -> set[str]:
        """The keys of the items that an item is made of."""
        return {key_of(path) for paths in self.inputs(item).values() for path in paths}

    def scenario(self, item: Item) -> str | None:
        """A scenario that an item belongs to, if any."""
        return self.description(item).get("scenario") if item in self.jobs else self.planned.owners[item.address]

    def entry(self, item: Item) -> dict:
        """An item in a manifest: key, files, inputs, files from outside, scenario."""
        job = self.jobs.get(item)
        arguments, outside = (job.arguments(), {}) if job else ({}, self.planned.outside(item))
        files = {"files": self.outputs(item), "inputs": self.inputs(item), "outside": outside}
        return item._asdict() | files | {"key": item.key, "arguments": arguments, "scenario": self.scenario(item)}


def plan(planned: Plan, captions: Path, wanted: tuple[str, ...] = ()) -> Work:
    """All that a study computes; its folder shows all, or the files that some patterns want.

    Points of sweeps have figures and audits only where they are wanted. `captions` is the folder of those of figures of
    no one system. Raises ScenarioError where nothing matches a pattern.
    """
    study = planned.study
    jobs: dict[Item, Job] = {}
    view: dict[str, str] = {}
    on_demand: dict[str, str] = {}  # of points of sweeps
    latest: dict[tuple[str, str | None], Item] = {}  # by job and scenario

    def add(name: str, scenario: str | None, description: dict, files: list[str], kept=(), words=None, **more) -> Item:
        item = Item(name, addressing.digest(description))
        addressed = {"address": item.address} | (words or {}) | description
        jobs[item] = Job(addressed, [*files, *kept, sealed.MANIFEST], **more)
        shown = on_demand if name in (AUDIT, FIGURES) and scenario in study.points else view
        shown |= {f"{scenario}/{file}" if scenario else file: f"{item.key}/{file}" for file in files}
        latest[name, scenario] = item
        return item

    for name in study.scenarios:
        _add_scenario(planned, name, add, audited=name not in study.points or bool(wanted))
    tables_ = {name: latest[TABLES, name] for name in study.scenarios}
    systems = dict.fromkeys(scenario.system for scenario in study.scenarios.values())
    citation = captions.parent / "CITATION.cff"
    cited = references.bibtex(citation, systems) if study.print else None
    files = [f"{system}_{figure}.{kind}" for system, figure in comparison_figures(study) for kind in formats(study)]
    more = _comparison_inputs(planned)
    add(
        COMPARISON,
        None,
        comparison(study)
        | {"upstream": {name: item.address for name, item in tables_.items()}}
        | {"parameters": addressing.digest(more), "references": cited},
        [*files, *_both(*catalog.COMPARISON), *for_paper(study)],
        kept=FOR_PAGE,
        words={SCENARIOS: {name: latest[RESOLVED, name].address for name in study.scenarios}},
        inputs=lambda: {name: [f"{item.key}/{sealed.MANIFEST}"] for name, item in tables_.items()},
        arguments=lambda: _comparison_inputs(planned),
    )
    papers = {paper.system: paper._asdict() for paper in references.cited(citation, systems)}
    for system in systems:
        if study.name in registry.system(system).catalog.studies and system in papers:
            system_tables = {name: item for name, item in tables_.items() if study.scenarios[name].system == system}
            _add_paper(planned, papers[system], system_tables, latest[COMPARISON, None], add)
    page_content = {"parts": page_parts(study, captions), "computed": _computed(planned)}
    page_content["papers"] = list(papers.values())
    page_content |= {"heading": {"study": study.name, "title": study.title or study.name, "question": study.question}}
    shown = dict(view)
    add(
        PAGE,
        None,
        {
            "stage": PAGE,
            "study": study.name,
            "view": addressing.digest(shown),
            "content": addressing.digest(page_content),
        }
        | code.described(PAGE),
        ["index.html"],
        words={COMPARISON: latest[COMPARISON, None].address},
        inputs=lambda: (
            {path: [key] for path, key in shown.items()}
            | {file: [f"{latest[COMPARISON, None].key}/{file}"] for file in FOR_PAGE}
        ),
        arguments=lambda: page_content,
    )
    if wanted:
        everything = view | on_demand
        view = {path: at for path, at in everything.items() if any(fnmatch(path, pattern) for pattern in wanted)}
        if not view:
            raise ScenarioError(f"wanted: {', '.join(wanted)}: results/{study.name} has no such file")
    return Work(planned, jobs, view)


def _add_scenario(planned: Plan, name: str, add: Callable[..., Item], audited: bool) -> None:
    """Add the items of a scenario's report."""
    study = planned.study
    scenario = study.scenarios[name]
    system = scenario.system

    def files_of(tables_: tuple[str, ...], first: tuple[str, ...] = ()) -> Callable[[], Files]:
        return lambda: {table: planned.files(name, table, table in first) for table in tables_}

    add(
        RESOLVED,
        name,
        {"stage": RESOLVED, "resolved": addressing.digest(scenario.model_dump())}
        | code.described(RESOLVED, [_package(scenario.system)]),
        ["scenario.yaml", *_both("parameters")],
        kept=[WHOLE] if scenario.withholds else [],
        words={"parameters": scenario.model_dump()},
        arguments=lambda: {"resolved": scenario.model_dump(), "withholds": scenario.withholds},
    )
    table_files = _both(*_catalog(study, name).all_tables)
    add(
        TABLES,
        name,
        describe_scenario(planned, name, TABLES),
        table_files if scenario.withholds else [*table_files, ADDRESSES],
        kept=[ADDRESSES] if scenario.withholds else [],
        inputs=files_of((*OF_TABLES, *registry.makes(system, "account"))),
        arguments=lambda: {"addresses": listing(planned.routes[name])},
    )
    if not audited:
        return
    audit = add(
        AUDIT,
        name,
        describe_scenario(planned, name, AUDIT),
        _both(AUDIT),
        inputs=files_of(registry.reads(system, AUDIT)),
    )
    alike = (peer for peer in study.scenarios.values() if peer.system == system)
    schemes = dict.fromkeys((scheme.name, scheme.scheduler, scheme.noise) for peer in alike for scheme in peer.schemes)
    # Of the study are the titles, and the schemes, by which colours go.
    looks = {"title": study.titles[name], "schemes": [list(scheme) for scheme in schemes]}
    shared = describe_scenario(planned, name, FIGURES)
    for figure, needed in figures(scenario).items():
        drawn = tuple(table for table in needed if table != AUDIT)
        figure_audit = audit if AUDIT in needed else None
        add(
            FIGURES,
            name,
            describe_figure(planned, shared, figure, drawn, figure_audit) | looks,
            [f"{figure}.{kind}" for kind in formats(study)],
            inputs=_figure_inputs(files_of(drawn, FIRST_CHUNK), figure_audit),
        )


def _add_paper(planned: Plan, cited: dict, sources: dict[str, Item], compared: Item, add: Callable[..., Item]) -> None:
    """Add the page of the paper behind a system, of its scenarios' tables, and of claims."""
    study, system = planned.study, cited["system"]
    catalog_ = registry.system(system).catalog
    read = {f"{name}/{table}": (name, table) for name in sources for table in catalog_.paper_reads}
    arguments = {
        "system": system,
        "cited": cited,
        "titles": {name: study.titles[name] for name in sources},
        "parameters": {name: study.scenarios[name].dump_read() for name in sources},
        "stages": {
            name: {
                scheme: {stage: route[stage]["address"] for stage in route}
                for scheme, route in planned.routes[name].items()
            }
            for name in sources
        },
    }
    manifests = {name: [f"{item.key}/{sealed.MANIFEST}"] for name, item in {**sources, COMPARISON: compared}.items()}
    add(
        PAPER,
        None,
        {"stage": PAPER, "study": study.name, "upstream": {name: item.address for name, item in sources.items()}}
        | {COMPARISON: compared.address, "arguments": addressing.digest(arguments)}
        | code.described(PAPER, [_package(system)]),
        [f"{system}_paper.html", f"{system}_curves.csv"],
        inputs=lambda: manifests | {key: planned.files(*table) for key, table in read.items()},
        arguments=lambda: arguments,
    )


def _figure_inputs(table_inputs: Callable[[], Files], audit: Item | None) -> Callable[[], Files]:
    audited = {AUDIT: [f"{audit.key}/{sealed.MANIFEST}"]} if audit else {}
    return lambda: table_inputs() | audited


def _computed(planned: Plan) -> dict:
    """By which addresses and versions of packages a study was computed."""
    addresses: dict[str, list[str]] = {}
    packages: dict[str, str] = {}
    for address, description in planned.descriptions.items():
        addresses.setdefault(description["stage"], []).append(address)
        packages |= description.get("packages", {})
    return {"addresses": addresses, "packages": dict(sorted(packages.items()))}


def _comparison_inputs(planned: Plan) -> dict:
    """The parameters, points of sweeps, and releases of the scenarios that are compared."""
    study, scenarios = planned.study, planned.study.scenarios
    return {
        "parameters": {name: scenario.dump_read() for name, scenario in scenarios.items()},
        "points": {name: list(study.point(name)) for name in scenarios},
        "releases": {name: releases(routes) for name, routes in planned.routes.items()},
    }


def _both(*tables: str) -> list[str]:
    return [f"{table}.{kind}" for table in tables for kind in ("csv", "parquet")]


def _package(system: str) -> str:
    return registry.system(system).package


def _catalog(study: Study, name: str) -> catalog.Catalog:
    return registry.system(study.scenarios[name].system).catalog


def describe_scenario(planned: Plan, name: str, job: str) -> dict:
    """Describe what a job of a scenario's report depends on, the scenario's point in the study's sweep included."""
    study, scenario = planned.study, planned.study.scenarios[name]
    declared = registry.stages(scenario.system)
    stages = [stage for stage in READS[job] if stage in declared]
    kind = AUDIT if job == AUDIT else REPORT
    functions, reads = checks.user_functions(scenario, kind)
    description = {
        "stage": job,
        "system": scenario.system,
        "scenario": name,
        "point": list(study.point(name)),
        "parameters": scenario.dump_for(kind),
        "upstream": {
            scheme: {stage: route[stage]["address"] for stage in stages}
            for scheme, route in planned.routes[name].items()
        },
        **code.described(kind, [_package(scenario.system)], functions, reads),
    }
    return description | ({"formats": formats(study)} if kind == REPORT else {})


def describe_figure(planned: Plan, shared: dict, figure: str, drawn: tuple[str, ...], audit: Item | None) -> dict:
    """Describe what a figure of a scenario, which may be of its audit, depends on.

    `shared` is what all figures of the scenario depend on (`describe_scenario`). Of the parameters that the report
    reads, a figure gets those that its tables depend on, and those that no stage reads.
    """
    name = shared["scenario"]
    scenario = planned.study.scenarios[name]
    makers, routes = registry.makers(scenario.system), planned.routes[name]
    stages = list(dict.fromkeys(makers[table] for table in drawn))  # in an order: a description's bits are equal
    behind = {scheme: made_of(route, stages) for scheme, route in routes.items()}
    read: dict[bool, list[dict]] = {True: [], False: []}  # parameters of stages, by whether its tables depend on them
    for scheme, route in routes.items():
        for stage, description in route.items():
            read[stage in behind[scheme]].append(description["parameters"])
    read[True] += [scenario.dump_for(AUDIT)] if audit else []
    upstream = {scheme: {stage: route[stage]["address"] for stage in stages} for scheme, route in routes.items()}
    specific = {"figure": figure, "parameters": _left(shared["parameters"], read), "upstream": upstream}
    return shared | specific | ({AUDIT: audit.address} if audit else {})


def _left(parameters: dict, read: dict[bool, list[dict]]) -> dict:
    """Parameters without those that are read elsewhere alone."""
    kept = {}
    for key, value in parameters.items():
        if isinstance(value, dict):
            inner = {
                used: [dump[key] for dump in dumps if isinstance(dump.get(key), dict)] for used, dumps in read.items()
            }
            kept[key] = _left(value, inner)
        elif any(key in other for other in read[True]) or not any(key in other for other in read[False]):
            kept[key] = value
    return kept


def comparison(study: Study) -> dict:
    """What the comparison of a study's scenarios depends on: all parameters that any stage reads, sweeps, and code."""
    scenarios = study.scenarios
    packages = dict.fromkeys(_package(scenario.system) for scenario in scenarios.values())
    return {
        "stage": COMPARISON,
        "systems": {name: scenario.system for name, scenario in scenarios.items()},
        "figures": [list(figure) for figure in comparison_figures(study)],
        "formats": formats(study),
        "titles": study.titles,
        **code.described(COMPARISON, tuple(packages)),
    }


def formats(study: Study) -> list[str]:
    """The formats of a study's figures."""
    return ["json", "png", "svg", *(["pdf"] if study.print else [])]


def for_paper(study: Study) -> list[str]:
    """The files of a study's folder for a paper, but for figures: tables as LaTeX, and the references."""
    return list(catalog.FOR_PAPER) if study.print else []


def tables(study: Study, name: str) -> tuple[str, ...]:
    """The tables of a scenario's report; points of a sweep are audited where it is asked for."""
    names = _catalog(study, name).all_tables
    return names if name in study.points else names + catalog.COMMON_TABLES


def figures(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """The figures of a scenario, with the tables that they are drawn from; without private ones where it withholds."""
    catalog_ = registry.system(scenario.system).catalog
    left_out = catalog.private_figures(catalog_) if scenario.withholds else []
    return {name: needed for name, needed in catalog.scenario_figures(catalog_).items() if name not in left_out}


def comparison_figures(study: Study) -> list[tuple[str, str]]:
    """The figures that compare schemes and scenarios, as pairs of system and name; the first is the study's result."""
    systems = [scenario.system for scenario in study.scenarios.values()]
    swept = {study.scenarios[name].system for name in study.points}
    compared = []
    for system in sorted(set(systems)):
        figures = catalog.compared(registry.system(system).catalog, system in swept, systems.count(system))
        compared += [(system, figure) for figure in figures]
    return compared


def shown(study: Study, path: str, captions: Path) -> tuple[str, str, str]:
    """The caption, the category and the name of a figure, by its path in the study's folder."""
    folder, _, figure = path.rpartition(".")[0].rpartition("/")
    if folder:
        return caption(study, study.scenarios[folder].system, figure, captions, folder), study.titles[folder], figure
    system = next(name for name in registry.systems() if figure.startswith(f"{name}_"))
    figure = figure.removeprefix(f"{system}_")
    return caption(study, system, figure, captions), "Comparison", figure


def caption(study: Study, system: str, figure: str, folder: Path, scenario: str | None = None) -> str:
    """The caption of a figure of a scenario, or else of one that compares scenarios, as reStructuredText.

    `folder` has the captions of figures that are no system's own. Raises ScenarioError, with the caption's file.
    """
    path = caption_file(system, figure, folder, compares=scenario is None)
    return caption_text(path, study.titles[scenario] if scenario else "")


def caption_text(path: Path, title: str = "") -> str:
    """The caption in a file, of a figure of the scenario of a title. Raises ScenarioError, with the file's name."""
    try:
        return filled.fill(read_text(path), title)
    except ValueError as error:
        raise ScenarioError(f"{path}: {error}") from None


def caption_file(system: str, figure: str, folder: Path, compares: bool) -> Path:
    """The file of a figure's caption, in `folder` where the figure is no system's own.

    A figure that `compares` scenarios may have a caption of its own beside that of a scenario's figure of its name.
    """
    if figure in (*catalog.COMMON_FIGURES, *(catalog.STUDY_FIGURES if compares else ())):
        return folder / f"{figure}.rst"
    captions = registry.system(system).folder / "captions"
    compared = captions / f"comparison_{figure}.rst"
    return compared if compares and compared.is_file() else captions / f"{figure}.rst"


def page_parts(study: Study, captions: Path) -> list[dict]:
    """What the study's page shows, section by section: figures and tables by their paths without suffix."""

    def captioned(path: str, system: str, figure: str, scenario: str | None = None) -> list[str]:
        return [path, caption(study, system, figure, captions, scenario)]

    figures_of_all = [captioned(f"{system}_{figure}", system, figure) for system, figure in comparison_figures(study)]
    parts = [{"scenario": None, "figures": figures_of_all, "tables": list(catalog.COMPARISON)}]
    alike: dict[str, list[str]] = {}  # titles, by all parameters
    for name, scenario in study.scenarios.items():
        alike.setdefault(repr(scenario.dump_read()), []).append(study.titles[name])
    for name, scenario in study.scenarios.items():
        system, point = scenario.system, name in study.points
        shown_figures = [] if point else figures(scenario)
        shown_tables = [table for table in tables(study, name) if table == "summary" or not point]
        parts.append(
            {
                "scenario": name,
                "title": study.titles[name],
                "system": system,
                "point": point,
                "withholds": scenario.withholds,
                "alike": alike[repr(scenario.dump_read())],
                "crossed": catalog.crossed(registry.system(scenario.system).catalog, scenario),
                "figures": [captioned(f"{name}/{figure}", system, figure, name) for figure in shown_figures],
                "tables": [f"{name}/{table}" for table in shown_tables],
            }
        )
    return parts
