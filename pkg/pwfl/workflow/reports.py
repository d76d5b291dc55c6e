"""The jobs of a study's report: what each depends on, and what it makes; beside the stages' jobs of `runtime.store`.

Their files lie under fixed names, `results/STUDY/` and `results/STUDY/SCENARIO/`, so what each was made of stands in a
record beside them (`runtime.made`).
"""

from collections.abc import Mapping
from pathlib import Path

from pwfl.report import catalog
from pwfl.runtime import made, shards, store
from pwfl.runtime.fingerprint import script
from pwfl.scenario import Study
from pwfl.scenario.values import plain
from pwfl.stages import REPORT, STAGES
from pwfl.systems import registry

COMPARISON, PAGE = "comparison", "page"
UNAUDITED = tuple(stage for stage in STAGES if stage != "audit")
READS = {"tables": UNAUDITED, "figures": tuple(STAGES), "audited": ("audit",)}  # stages, by job


def record(job: str, scenario: str | None = None) -> str:
    """Where a job's record lies, in the study's folder.

    Examples
    --------
    >>> record("tables", "few_blocks"), record("page")
    ('few_blocks/.made/tables.json', '.made/page.json')
    """
    return "/".join([*([scenario] if scenario else []), made.FOLDER, f"{job}.json"])


def plan(study: Study, planned: Mapping[str, dict], captions: Path) -> dict[str, dict]:
    """All that each of the report's jobs depends on, by the job's record in the study's folder.

    Parameters
    ----------
    planned
        Scenario -> what it computes, `store.addresses`.
    captions
        The folder of the captions of figures that are no system's own.
    """
    found: dict[str, dict] = {}
    for name, scenario in study.scenarios.items():
        found[record("scenario", name)] = {
            "stage": "scenario",
            "resolved": scenario.model_dump(),
            **store.code("pwfl.scenario.resolved", *script("scenario")),
        }
        for job in READS:
            found[record(job, name)] = of_scenario(study, name, planned[name], job)
        found[record("tables", name)]["addresses"] = store.listing(scenario, planned[name])
    tables = {name: made.digest(found[record("tables", name)]) for name in study.scenarios}
    found[record(COMPARISON)] = comparison(study) | {"upstream": tables}
    found[record(PAGE)] = {
        "stage": PAGE,
        "study": study.name,
        "parts": page_parts(study, captions),
        "upstream": {path: made.digest(depends) for path, depends in found.items() if shown(study, path)},
        **store.code("pwfl.report.page", *script(PAGE)),
    }
    return found


def of_scenario(study: Study, name: str, addresses: dict, job: str) -> dict:
    """What a job of a scenario's report depends on: parameters, code, the addresses and shards of each scheme's stages.

    And where the scenario stands in the study's sweep.
    """
    scenario, stages = study.scenarios[name], READS[job]
    package = registry.system(scenario.system).package
    return {
        "system": scenario.system,
        "stage": REPORT,
        "scenario": name,
        "point": list(study.place(name)),
        "parameters": plain(scenario.of_stage(REPORT)),
        "upstream": {
            scheme.name: {stage: store.of_scheme(addresses, stage, scheme)["address"] for stage in stages}
            for scheme in scenario.schemes
        },
        "shards": {stage: shards.of(scenario, stage) for stage in stages},
        "formats": formats(study),
        **store.code(f"{package}.{REPORT}", f"{package}.tables", "pwfl.report.build", *script(job)),
    }


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
        **store.code("pwfl.report.build", *modules, *script(COMPARISON)),
    }


def formats(study: Study) -> list[str]:
    """The formats of a study's figures."""
    return ["json", "png", "svg", *(["pdf"] if study.print else [])]


def tables(study: Study, name: str) -> dict[str, str]:
    """The tables of a scenario's report, with their captions; points of a sweep are audited where it is asked for."""
    own = registry.system(study.scenarios[name].system).catalog.tables
    return own if name in study.points else own | catalog.COMMON_TABLES


def figures(system: str) -> dict[str, tuple[str, ...]]:
    """The figures of a system's scenarios, with the tables that they are drawn from."""
    return catalog.scenario_figures(registry.system(system).catalog)


def comparison_figures(study: Study) -> list[tuple[str, str]]:
    """The figures that compare scenarios, as pairs of system and name: of one system, and of all."""
    systems = [scenario.system for scenario in study.scenarios.values()]
    swept = {study.scenarios[name].system for name in study.points}
    compared = [
        (system, figure)
        for system in sorted(set(systems))
        if systems.count(system) > 1
        for figure in catalog.compared(registry.system(system).catalog, system in swept)
    ]
    if len(set(systems)) > 1:
        compared += [("systems", figure) for figure in catalog.SYSTEMS_FIGURES]
    if len(swept) > 1:
        compared += [("systems", figure) for figure in catalog.SYSTEMS_SWEEP_FIGURES]
    return compared


def caption(system: str, figure: str, folder: Path) -> Path:
    """The file of a figure's caption, in `folder` where the figure is no system's own."""
    if system == "systems" or figure in (*catalog.COMMON_FIGURES, *catalog.SWEEP_FIGURES):
        return folder / f"{figure}.rst"
    return registry.system(system).folder / "captions" / f"{figure}.rst"


def page_parts(study: Study, captions: Path) -> list[dict]:
    """What the study's page shows, section by section: figures and tables by their paths without suffix."""

    def text(system: str, figure: str) -> str:
        return caption(system, figure, captions).read_text(encoding="utf-8")

    compared = [[f"{system}_{figure}", text(system, figure)] for system, figure in comparison_figures(study)]
    parts = [{"scenario": None, "figures": compared, "tables": [list(pair) for pair in catalog.COMPARISON.items()]}]
    for name, scenario in study.scenarios.items():
        system, point = scenario.system, name in study.points
        parts.append(
            {
                "scenario": name,
                "system": system,
                "point": point,
                "figures": [] if point else [[f"{name}/{f}", text(system, f)] for f in figures(system)],
                "tables": [
                    [f"{name}/{table}", words]
                    for table, words in tables(study, name).items()
                    if table == "summary" or not point
                ],
            }
        )
    return parts


def page_files(study: Study, captions: Path) -> list[str]:
    """The files that the study's page is made of, in the study's folder."""
    kinds = {"figures": ("json", "svg"), "tables": ("parquet",)}
    return [
        f"{path}.{kind}"
        for part in page_parts(study, captions)
        for what, suffixes in kinds.items()
        for path, _ in part[what]
        for kind in suffixes
    ]


def shown(study: Study, path: str) -> bool:
    """Whether the page shows files of a job, given by its record: of points no figures, and no audit."""
    scenario, _, _ = path.partition(f"/{made.FOLDER}/")
    if path == record(PAGE) or path.endswith("/scenario.json"):
        return False
    return path.endswith("/tables.json") or scenario not in study.points
