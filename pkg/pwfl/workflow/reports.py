"""Add the items of the report to a study's plan, and list the files that `results/STUDY` shows."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path

from pwfl import registry
from pwfl.report import captions as filled
from pwfl.report import catalog, references
from pwfl.scenario import ScenarioError, Study, checks
from pwfl.scenario.common import Scenario
from pwfl.stages import AUDIT, REPORT
from pwfl.store import addressing, code, sealed
from pwfl.store.files import text as read_text
from pwfl.workflow import folder
from pwfl.workflow.plan import Item, Job, Plan, made_of, releases

RESOLVED, TABLES, FIGURES = "scenario", "tables", "figures"
COMPARISON, PAPER, PAGE = "comparison", "paper", "page"
SCENARIOS = "scenarios"  # the scenarios of a comparison
# If a scenario withholds private data, only the store has these files, since they contain digests of the data.
WHOLE, ADDRESSES = "resolved.yaml", "addresses.csv"
FOR_PAGE = ("points.parquet", "points.csv", "charts.json")  # files of the comparison that the folder does not show
FIRST_CHUNK = ("users", "links", "holdings")  # tables of which figures show the first chunk
OF_TABLES = ("schedule_status", "noise_status", "history")  # in addition to all tables of `account`


def plan(planned: Plan, wanted: tuple[str, ...] = ()) -> Plan:
    """Add the report's items to a plan, and its view: all files, or those that match a pattern of `wanted`.

    Sweep points have figures and audits only if these are wanted. Raises ScenarioError if nothing matches.
    """
    study, owners = planned.study, dict(planned.owners)
    descriptions = dict(planned.descriptions)
    jobs: dict[Item, Job] = {}
    view: dict[str, str] = {}
    on_demand: dict[str, str] = {}  # of sweep points

    def add(stage, scenario, description, files, inputs, arguments, kept=(), systems=(), own=()) -> Item:
        packages = [registry.system(system).package for system in systems]
        description = {"stage": stage} | description | code.described(stage, packages, *own)
        item = Item(stage, addressing.digest(description))
        descriptions[item.address] = {"address": item.address} | description
        owners.update({item.address: scenario} if "scenario" in description else {})
        jobs[item] = Job([*files, *kept, sealed.MANIFEST], inputs, arguments)
        shown = on_demand if stage in (AUDIT, FIGURES) and scenario in study.points else view
        shown |= {f"{scenario}/{file}" if scenario else file: item.file(file) for file in files}
        return item

    resolved, tables_ = {}, {}
    for name in study.scenarios:
        audited = name not in study.points or bool(wanted)
        resolved[name], tables_[name] = _add_scenario(planned, name, add, audited)
    systems = dict.fromkeys(scenario.system for scenario in study.scenarios.values())
    citation, kinds = folder() / "CITATION.cff", formats(study)
    figures_ = comparison_figures(study)
    parameters = {
        "parameters": {name: scenario.dump_read() for name, scenario in study.scenarios.items()},
        "points": {name: list(study.point(name)) for name in study.scenarios},
        "releases": {name: releases(routes) for name, routes in planned.routes.items()},
    }
    compared = add(
        COMPARISON,
        None,
        {
            "systems": {name: scenario.system for name, scenario in study.scenarios.items()},
            "figures": [list(figure) for figure in figures_],
            "formats": kinds,
            "titles": study.titles,
            "upstream": {name: item.address for name, item in tables_.items()},
            "parameters": addressing.digest(parameters),
            "references": references.bibtex(citation, systems) if study.print else None,
        },
        [
            *(f"{system}_{figure}.{kind}" for system, figure in figures_ for kind in kinds),
            *_both(*catalog.COMPARISON),
            *(catalog.FOR_PAPER if study.print else ()),
        ],
        {name: [item.file(sealed.MANIFEST)] for name, item in tables_.items()},
        parameters,
        kept=FOR_PAGE,
        systems=systems,
    )
    # Not in the address, for `pwfl.workflow.reasons`: addresses of the parameters, of which the address has a digest.
    descriptions[compared.address][SCENARIOS] = {name: item.address for name, item in resolved.items()}
    papers = {paper.system: paper._asdict() for paper in references.cited(citation, systems)}
    for system, paper in papers.items():
        if study.name in registry.system(system).catalog.studies:
            system_tables = {name: item for name, item in tables_.items() if study.scenarios[name].system == system}
            _add_paper(planned, paper, system_tables, compared, add)
    computed: dict[str, dict] = {"addresses": {}, "packages": {}}
    for address, described in planned.descriptions.items():
        computed["addresses"].setdefault(described["stage"], []).append(address)
        computed["packages"] |= described.get("packages", {})
    content = {
        "heading": {"study": study.name, "title": study.title or study.name, "question": study.question},
        "parts": page_parts(study),
        "computed": computed,
        "papers": list(papers.values()),
    }
    description = {"study": study.name, "view": addressing.digest(view), "content": addressing.digest(content)}
    inputs = {path: [file] for path, file in view.items()} | {file: [compared.file(file)] for file in FOR_PAGE}
    add(PAGE, None, description | {COMPARISON: compared.address}, ["index.html"], inputs, content)
    if wanted:
        view = {path: at for path, at in (view | on_demand).items() if any(fnmatch(path, each) for each in wanted)}
        if not view:
            raise ScenarioError(f"wanted: {', '.join(wanted)}: results/{study.name} has no such file")
    return planned._replace(descriptions=descriptions, owners=owners, jobs=jobs, view=view)


def _add_scenario(planned: Plan, name: str, add: Callable[..., Item], audited: bool) -> tuple[Item, Item]:
    """Add the items of a scenario's report; return the item of its parameters, and that of its tables."""
    study, scenario, kinds = planned.study, planned.study.scenarios[name], formats(planned.study)
    system, stages, makers = scenario.system, registry.stages(scenario.system), registry.makers(scenario.system)
    files = cache(partial(planned.files, name))
    whole, withholds = {"parameters": scenario.model_dump()}, scenario.withholds
    outputs, kept = ["scenario.yaml", *_both("parameters")], [WHOLE] if withholds else []
    resolved = add(RESOLVED, name, whole, outputs, {}, {"withholds": withholds}, kept, systems=[system])
    described = {"system": system, "scenario": name, "point": list(study.point(name))}
    parameters, audited_parameters = scenario.dump_for(REPORT), scenario.dump_for(AUDIT)
    of_report = described | {"parameters": parameters, "formats": kinds}
    code_of_report = {"systems": [system], "own": checks.user_functions(scenario, REPORT)}
    tables_ = add(
        TABLES,
        name,
        of_report | {"upstream": planned.addresses(name, stages)},
        [*_both(*registry.system(system).catalog.all_tables), *([] if withholds else [ADDRESSES])],
        {table: files(table) for table in (*OF_TABLES, *registry.makes(system, "account"))},
        {"addresses": planned.addresses(name)},
        kept=[ADDRESSES] if withholds else [],
        **code_of_report,
    )
    if not audited:
        return resolved, tables_
    upstream = planned.addresses(name, [stage for stage, declared in stages.items() if not declared.takes_data])
    of_audit = described | {"parameters": audited_parameters, "upstream": upstream}
    inputs = {table: files(table) for table in registry.reads(system, AUDIT)}
    own = checks.user_functions(scenario, AUDIT)
    audit = add(AUDIT, name, of_audit, _both(AUDIT), inputs, {}, systems=[system], own=own)
    peers = (peer for peer in study.scenarios.values() if peer.system == system)
    schemes = dict.fromkeys((scheme.name, scheme.scheduler, scheme.noise) for peer in peers for scheme in peer.schemes)
    # The title depends on the study, as do the schemes, which determine colours.
    looks = {"title": study.titles[name], "schemes": [list(scheme) for scheme in schemes]}
    for figure, needed in figures(scenario).items():
        inputs = {table: files(table, table in FIRST_CHUNK) for table in needed if table != AUDIT}
        made_by = {makers[table] for table in inputs}
        # Of the report's parameters, the figure depends on those of its tables' stages, and those that no stage reads.
        used, others = ([audited_parameters] if AUDIT in needed else []), []
        for route in planned.routes[name].values():
            behind = made_of(route, made_by)
            for stage, before in route.items():
                (used if stage in behind else others).append(before["parameters"])
        description = of_report | looks | {"figure": figure, "upstream": planned.addresses(name, made_by)}
        description["parameters"] = _left(parameters, used, others)
        if AUDIT in needed:
            description[AUDIT], inputs[AUDIT] = audit.address, [audit.file(sealed.MANIFEST)]
        add(FIGURES, name, description, [f"{figure}.{kind}" for kind in kinds], inputs, {}, **code_of_report)
    return resolved, tables_


def _add_paper(planned: Plan, cited: dict, sources: dict[str, Item], compared: Item, add: Callable[..., Item]) -> None:
    """Add the page of a system's paper, made of the tables of its scenarios and of claims."""
    study, system = planned.study, cited["system"]
    arguments = {
        "system": system,
        "cited": cited,
        "titles": {name: study.titles[name] for name in sources},
        "parameters": {name: study.scenarios[name].dump_read() for name in sources},
        "stages": {name: planned.addresses(name) for name in sources},
    }
    upstream = {"upstream": {name: item.address for name, item in sources.items()}, COMPARISON: compared.address}
    description = {"study": study.name, "arguments": addressing.digest(arguments)} | upstream
    inputs = {name: [item.file(sealed.MANIFEST)] for name, item in {**sources, COMPARISON: compared}.items()}
    read = registry.system(system).catalog.paper_reads
    inputs |= {f"{name}/{table}": planned.files(name, table) for name in sources for table in read}
    outputs = [f"{system}_paper.html", f"{system}_curves.csv"]
    add(PAPER, None, description, outputs, inputs, arguments, systems=[system])


def _both(*tables: str) -> list[str]:
    return [f"{table}.{kind}" for table in tables for kind in ("csv", "parquet")]


def _left(parameters: dict, used: list[dict], others: list[dict]) -> dict:
    """Remove the parameters that are in a dump of `others`, and in none of `used`."""
    kept = {}
    for key, value in parameters.items():
        if isinstance(value, dict):
            inner = ([dump[key] for dump in dumps if isinstance(dump.get(key), dict)] for dumps in (used, others))
            kept[key] = _left(value, *inner)
        elif any(key in dump for dump in used) or not any(key in dump for dump in others):
            kept[key] = value
    return kept


def formats(study: Study) -> list[str]:
    """List the file formats of a study's figures."""
    return ["json", "png", "svg", *(["pdf"] if study.print else [])]


def figures(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """Return a scenario's figures with the tables that they need; without private ones if it withholds data."""
    catalog_ = registry.system(scenario.system).catalog
    left_out = catalog.private_figures(catalog_) if scenario.withholds else []
    return {name: needed for name, needed in catalog.scenario_figures(catalog_).items() if name not in left_out}


def comparison_figures(study: Study) -> list[tuple[str, str]]:
    """List the figures that compare schemes and scenarios, as pairs (system, name); a system's result comes first."""
    systems = [scenario.system for scenario in study.scenarios.values()]
    swept = {study.scenarios[name].system for name in study.points}
    return [
        (system, figure)
        for system in sorted(set(systems))
        for figure in catalog.compared(registry.system(system).catalog, system in swept, systems.count(system))
    ]


def shown(study: Study, path: str) -> tuple[str, str, str]:
    """Return caption, category and name of a figure or of the study report, by its path in the folder, without suffix.

    The caption is reStructuredText. Raises ScenarioError, which names the caption's file.
    """
    if path == "index":
        return caption_text(folder() / "report" / "page.rst"), "Study", "the study on one page"
    scenario, _, figure = path.rpartition("/")
    if scenario:
        system, title = study.scenarios[scenario].system, study.titles[scenario]
    else:
        system, figure = next(pair for pair in comparison_figures(study) if "_".join(pair) == path)
        title = ""
    text = caption_text(caption_file(system, figure, compares=not scenario), title)
    return text, title or "Comparison", figure


def caption_text(path: Path, title: str = "") -> str:
    """Read a caption, and fill in the title of the figure's scenario. Raises ScenarioError, which names the file."""
    try:
        return filled.fill(read_text(path), title)
    except ValueError as error:
        raise ScenarioError(f"{path}: {error}") from None


def caption_file(system: str, figure: str, compares: bool) -> Path:
    """Return the file of a figure's caption: of common figures in the workflow's folder `report`, else in its system's.

    A figure that `compares` scenarios may have another caption than the scenarios' figure of the same name.
    """
    if figure in (*catalog.COMMON_FIGURES, *(catalog.STUDY_FIGURES if compares else ())):
        return folder() / "report" / f"{figure}.rst"
    captions = registry.system(system).folder / "captions"
    compared = captions / f"comparison_{figure}.rst"
    return compared if compares and compared.is_file() else captions / f"{figure}.rst"


def page_parts(study: Study) -> list[dict]:
    """List the sections of the study report, with their figures and tables by paths without suffix."""

    def captioned(paths: Iterable[str]) -> list[list[str]]:
        return [[path, shown(study, path)[0]] for path in paths]

    compared = captioned(map("_".join, comparison_figures(study)))
    parts = [{"scenario": None, "figures": compared, "tables": list(catalog.COMPARISON)}]
    alike: dict[str, list[str]] = {}  # titles, by all parameters
    for name, scenario in study.scenarios.items():
        alike.setdefault(repr(scenario.dump_read()), []).append(study.titles[name])
    for name, scenario in study.scenarios.items():
        catalog_, point = registry.system(scenario.system).catalog, name in study.points
        tables = [table for table in catalog_.all_tables if table == "summary" or not point]
        parts.append(
            {
                "scenario": name,
                "title": study.titles[name],
                "system": scenario.system,
                "point": point,
                "withholds": scenario.withholds,
                "alike": alike[repr(scenario.dump_read())],
                "crossed": catalog.crossed(catalog_, scenario),
                "figures": captioned(f"{name}/{figure}" for figure in ([] if point else figures(scenario))),
                "tables": [f"{name}/{table}" for table in [*tables, *([] if point else catalog.COMMON_TABLES)]],
            }
        )
    return parts
