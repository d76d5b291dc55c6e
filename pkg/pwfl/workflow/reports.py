"""The jobs of a study's report: what each depends on, and what it makes; beside the stages' jobs of `plan`.

Their files lie under fixed names in `results/STUDY/SCENARIO/` and above, so a record (`runtime.made`) beside them says
what each was made of.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from pwfl.report import catalog, references
from pwfl.runtime import made, own, shards, store
from pwfl.runtime.fingerprint import script
from pwfl.scenario import Study, checks
from pwfl.scenario.values import plain
from pwfl.stages import AUDIT, REPORT, STAGES
from pwfl.systems import registry
from pwfl.workflow import measured
from pwfl.workflow.plan import Job, Plan, listing

COMPARISON, PAGE = "comparison", "page"
FIRST_SHARD = ("users", "links", "holdings")  # tables of which figures show the first shard
ANY_SCENARIO = "[A-Za-z0-9][^/]*"
READS = {  # stages, by job
    "tables": tuple(STAGES),
    AUDIT: tuple(stage for stage, declared in STAGES.items() if not declared.takes_data),
    "figures": tuple(STAGES),
}
CODE = {REPORT: ("pwfl.report.build", "pwfl.report.columns"), AUDIT: ("pwfl.work.audit", "pwfl.report.columns")}
MEASURED = ("_outcomes", "_plane")  # figures that measurements are drawn in
OF_TABLES = ("schedule_status", "noise_status", "history", "leakage", "outcome")


def record(job: str, scenario: str | None = None) -> str:
    """Where a job's record lies, in the study's folder.

    >>> record("tables", "few_blocks"), record("page")
    ('few_blocks/.made/tables.json', '.made/page.json')
    """
    folder = f"{scenario}/{made.FOLDER}" if scenario else made.FOLDER
    return f"{folder}/{job}.json"


def plan(planned: Plan, captions: Path) -> dict[str, Job]:
    """The jobs of a study's report, by their records; `captions` is the folder of those of figures of no one system."""
    found: dict[str, Job] = {}
    study, names = planned.study, list(planned.study.scenarios)
    for name, scenario in study.scenarios.items():
        resolved = {"stage": "scenario", "resolved": scenario.model_dump()}
        found[record("scenario", name)] = Job(resolved | store.code("pwfl.scenario.resolved", script("scenario")))
        found |= {record(job, name): of_it for job, of_it in _of_scenario(planned, name).items()}

    def lie(paths: list[str]) -> list[str]:
        return [f"results/{study.name}/{path}" for path in paths]

    digests = {name: made.digest(found[record("tables", name)].description) for name in names}
    files = [f"{name}/{table}.parquet" for name in names for table in _catalog(study, name).tables]
    systems = dict.fromkeys(scenario.system for scenario in study.scenarios.values())
    cited = references.bibtex(captions.parent / "CITATION.cff", systems) if study.print else None
    found[record(COMPARISON)] = Job(
        comparison(study) | {"upstream": digests, "references": cited},
        reports={"tables": lie(files), "made": lie([record("tables", name) for name in names])},
    )
    on_page = [path for path in found if shown(study, path)]
    addresses: dict[str, list[str]] = {}
    for address, description in planned.descriptions.items():
        addresses.setdefault(description["stage"], []).append(address)
    packages = [description.get("packages", {}) for description in planned.descriptions.values()]
    computed = {"addresses": addresses, "packages": dict(sorted(item for each in packages for item in each.items()))}
    parts = page_parts(study, captions)
    kinds = {"figures": ("json", "svg"), "tables": ("parquet",)}
    files = [f"{path}.{kind}" for part in parts for what in kinds for path, _ in part[what] for kind in kinds[what]]
    files += [f"{name}/scenario.yaml" for name in names]
    page = {
        "stage": PAGE,
        "study": study.name,
        "parts": parts,
        "computed": computed,
        "upstream": {path: made.digest(found[path].description) for path in on_page},
        **store.code("pwfl.report.page", script(PAGE)),
    }
    found[record(PAGE)] = Job(page, reports={"files": lie(files), "made": lie(on_page)})
    return found


def _catalog(study: Study, name: str) -> catalog.Catalog:
    return registry.system(study.scenarios[name].system).catalog


def _of_scenario(planned: Plan, name: str) -> dict[str, Job]:
    """The jobs that make a scenario's tables, its audit and its figures."""
    system = planned.study.scenarios[name].system
    drawn = {table for needed in figures(system).values() for table in needed}
    described = {job: of_scenario(planned, name, job) for job in READS}
    described["tables"]["addresses"] = listing(planned.routes[name])
    described["figures"][AUDIT] = made.digest(described[AUDIT])
    alike = (each for each in planned.study.scenarios.values() if each.system == system)
    schemes = dict.fromkeys((s.name, s.scheduler, s.noise) for each in alike for s in each.schemes)
    described["figures"]["schemes"] = [list(each) for each in schemes]  # of the study, by which colours go
    inputs = {
        "tables": {table: planned.files(name, table) for table in OF_TABLES},
        AUDIT: {table: planned.files(name, table) for table in registry.reads(system, AUDIT)},
        "figures": {table: planned.files(name, table, table in FIRST_SHARD) for table in sorted(drawn - {AUDIT})},
    }
    audited = {"figures": {AUDIT: f"results/{planned.study.name}/{name}/{AUDIT}.parquet"}}
    return {job: Job(described[job], inputs[job], reports=audited.get(job, {})) for job in READS}


def of_scenario(planned: Plan, name: str, job: str) -> dict:
    """What a job of a scenario's report depends on, the scenario's place in the study's sweep included."""
    study, stages = planned.study, READS[job]
    scenario = study.scenarios[name]
    package = registry.system(scenario.system).package
    kind = AUDIT if job == AUDIT else REPORT
    functions = checks.own_functions(scenario, kind)
    modules = (f"{package}.{kind}", f"{package}.tables", *CODE[kind], script(job), *own.modules(functions))
    description = {
        "system": scenario.system,
        "stage": kind,
        "scenario": name,
        "point": list(study.place(name)),
        "parameters": plain(scenario.of_stage(kind)),
        "upstream": {
            scheme: {stage: route[stage]["address"] for stage in stages}
            for scheme, route in planned.routes[name].items()
        },
        **store.code(*modules, files=own.files(functions)),
    }
    if kind == REPORT:  # figures show the first shard; an audit is the same whatever the shards
        description |= {"shards": {stage: shards.of(scenario, stage) for stage in stages}, "formats": formats(study)}
    return description


def comparison(study: Study) -> dict:
    """What the comparison of a study's scenarios depends on: all parameters that any stage reads, sweeps, and code."""
    scenarios = study.scenarios
    packages = dict.fromkeys(registry.system(scenario.system).package for scenario in scenarios.values())
    modules = [f"{package}.{module}" for package in packages for module in (REPORT, "claims")]
    return {
        "stage": COMPARISON,
        "systems": {name: scenario.system for name, scenario in scenarios.items()},
        "points": {name: list(study.place(name)) for name in scenarios},
        "parameters": {name: plain(scenario.part()) for name, scenario in scenarios.items()},
        "figures": [list(figure) for figure in comparison_figures(study)],
        "formats": formats(study),
        "measured": measured.read(study),
        **store.code("pwfl.report.build", "pwfl.report.latex", *modules, script(COMPARISON)),
    }


def formats(study: Study) -> list[str]:
    """The formats of a study's figures."""
    return ["json", "png", "svg", *(["pdf", "wide.pdf"] if study.print else [])]


def for_paper(study: Study) -> list[str]:
    """The files of a study's folder for a paper, but for figures: tables as LaTeX, and the references."""
    return ["outcomes.tex", "claims.tex", "references.bib"] if study.print else []


def tables(study: Study, name: str) -> dict[str, str]:
    """The tables of a scenario's report, with their captions; points of a sweep are audited where it is asked for."""
    own = _catalog(study, name).tables
    return own if name in study.points else own | catalog.COMMON_TABLES


def figures(system: str) -> dict[str, tuple[str, ...]]:
    """The figures of a system's scenarios, with the tables that they are drawn from."""
    return catalog.scenario_figures(registry.system(system).catalog)


def find(jobs: Mapping[str, Job], study: Study, job: str, scenario: str | None) -> Job:
    """A job of the report by its name and scenario. Raises ScenarioError for an unknown scenario."""
    if scenario is not None:
        study.scenario(scenario)
    return jobs[record(job, scenario)]


def stale(jobs: Mapping[str, Job], places: Mapping[str, str]) -> dict[str, str]:
    """Of the places of the jobs' records, those of jobs whose files are of another plan or were changed."""
    return {path: place for path, place in places.items() if not made.is_of(place, jobs[path].description)}


def unfinished(asked: Collection[str], made_of: Mapping[str, Mapping]) -> list[str]:
    """Of the files asked for those that are missing, and of `made_of`, record -> what its job depends on, the stale."""
    missing = {path for path in asked if not Path(path).exists()}
    return sorted(missing | {path for path, depends in made_of.items() if not made.is_of(path, depends)})


def scenarios_of(study: Study, system: str) -> str:
    """A pattern of the names of a study's scenarios of a system; the first's takes unknown names, too, for an error."""
    scenarios = study.scenarios.items()
    if system != next(iter(study.scenarios.values())).system:
        return "|".join(re.escape(name) for name, scenario in scenarios if scenario.system == system)
    others = "|".join(re.escape(name) for name, scenario in scenarios if scenario.system != system)
    return rf"(?!(?:{others})/){ANY_SCENARIO}" if others else ANY_SCENARIO


def comparison_figures(study: Study) -> list[tuple[str, str]]:
    """The figures that compare schemes and scenarios, as pairs of system and name; the first is the study's result."""
    systems = [scenario.system for scenario in study.scenarios.values()]
    swept = {study.scenarios[name].system for name in study.points}
    compared = [("systems", figure) for figure in catalog.SYSTEMS_FIGURES if len(set(systems)) > 1]
    compared += [("systems", figure) for figure in catalog.SYSTEMS_SWEEP_FIGURES if len(swept) > 1]
    for system in sorted(set(systems)):
        figures = catalog.compared(registry.system(system).catalog, system in swept)
        compared += [(system, figure) for figure in (figures if systems.count(system) > 1 else figures[:1])]
    return compared


def caption(system: str, figure: str, folder: Path) -> Path:
    """The file of a figure's caption, in `folder` where the figure is no system's own."""
    if system == "systems" or figure in (*catalog.COMMON_FIGURES, *catalog.SWEEP_FIGURES):
        return folder / f"{figure}.rst"
    return registry.system(system).folder / "captions" / f"{figure}.rst"


def page_parts(study: Study, captions: Path) -> list[dict]:
    """What the study's page shows, section by section: figures and tables by their paths without suffix."""

    def captioned(path: str, system: str, figure: str) -> list[str]:
        return [path, caption(system, figure, captions).read_text(encoding="utf-8")]

    figures_of_all = [captioned(f"{system}_{figure}", system, figure) for system, figure in comparison_figures(study)]
    if sources := {f"{row['label']}: {row['source']}": None for row in measured.read(study)}:
        said = re.sub(r"([\\*`_|<>])", r"\\\1", "; ".join(sources))
        for pair in figures_of_all:
            if pair[0].endswith(MEASURED):
                pair[1] += f"\n\nStars are measurements, not simulated: {said}.\n"
    parts = [
        {"scenario": None, "figures": figures_of_all, "tables": [list(pair) for pair in catalog.COMPARISON.items()]}
    ]
    for name, scenario in study.scenarios.items():
        system, point = scenario.system, name in study.points
        shown_figures = [] if point else figures(system)
        shown_tables = {table: text for table, text in tables(study, name).items() if table == "summary" or not point}
        parts.append(
            {
                "scenario": name,
                "system": system,
                "point": point,
                "without_noise": catalog.without_noise(scenario),
                "figures": [captioned(f"{name}/{figure}", system, figure) for figure in shown_figures],
                "tables": [[f"{name}/{table}", text] for table, text in shown_tables.items()],
            }
        )
    return parts


def shown(study: Study, path: str) -> bool:
    """Whether the page shows files of a job, given by its record: of points no figures, and no audit."""
    scenario, _, _ = path.partition(f"/{made.FOLDER}/")
    if path == record(PAGE):
        return False
    return path.endswith(("/tables.json", "/scenario.json")) or scenario not in study.points
