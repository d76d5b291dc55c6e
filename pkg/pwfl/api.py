"""Without Snakemake: a study in this process, and the tables that a workflow left."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import ClassVar

import polars as pl
import yaml

from pwfl import tables
from pwfl.entrance import located
from pwfl.report import build
from pwfl.report.catalog import COMMON_TABLES, COMPARISON
from pwfl.report.columns import placed
from pwfl.runtime import made, shards, store, threads
from pwfl.scenario import ScenarioError, Study, check_device, check_surroundings, load, read, resolve
from pwfl.scenario.messages import shown
from pwfl.scenario.values import plain
from pwfl.stages import AUDIT, GIVEN, GRAPH, REALIZATIONS, REPORT, STAGES
from pwfl.systems import registry
from pwfl.workflow import execution, plan, reports

Known = dict[tuple, dict]  # address, and numbers of realizations -> what was made there, by name
SHOWN = 10  # scenarios that a study's text names


class _Tables:
    """Tables by name: a short text in place of their rows, and `found.claims` for the table `claims`."""

    _parts: ClassVar[tuple[str, ...]]  # the fields that hold tables; of a name that several have, the last one's counts

    def _title(self) -> str:
        raise NotImplementedError

    def _found(self) -> dict[str, dict[str, pl.DataFrame]]:
        return {part: vars(self).get(part, {}) for part in self._parts}  # none yet, where a copy is being made

    def __getattr__(self, name: str) -> pl.DataFrame:
        for part in reversed(self._found().values()):
            if name in part:
                return part[name]
        raise AttributeError(f"{type(self).__name__} has no table {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for part in self._found().values() for name in part)]

    def __repr__(self) -> str:
        lines = [self._title()]
        for part, found in self._found().items():
            lines.append(f"  {part}: " + ", ".join(f"{name} ({frame.height:,})" for name, frame in found.items()))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><td>{part}</td><td>{name}</td><td>{frame.height:,}</td><td>{frame.width:,}</td></tr>"
            for part, found in self._found().items()
            for name, frame in found.items()
        ]
        heads = "".join(f"<th>{head}</th>" for head in ("", "table", "rows", "columns"))
        return f"<p>{escape(self._title())}</p><table><tr>{heads}</tr>{''.join(rows)}</table>"


@dataclass(frozen=True, repr=False)
class ScenarioTables(_Tables):
    """A scenario's tables by name: those of the stages (`users` ... `outcome`), and those of its report.

    Tables that differ from scheme to scheme have the scheme's name in their first column. A report of a point of a
    sweep has no `audit`, unless a workflow was asked for it. `found.summary` is short for `found.report["summary"]`; a
    name that a stage's table has, too, means the report's.
    """

    stages: dict[str, pl.DataFrame]
    report: dict[str, pl.DataFrame]
    system: str
    _parts = ("stages", "report")

    def _title(self) -> str:
        return f"a scenario of the system {self.system}; tables with their numbers of rows:"


@dataclass(frozen=True, repr=False)
class StudyTables(_Tables):
    """The tables of a study's scenarios, by the scenarios' names, and those that compare them (`claims` ...).

    `found.claims` is short for `found.comparison["claims"]`.
    """

    scenarios: dict[str, ScenarioTables]
    comparison: dict[str, pl.DataFrame]
    name: str
    _parts = ("comparison",)

    def _title(self) -> str:
        names = [f"{name} ({one.system})" for name, one in self.scenarios.items()]
        more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
        return f"study {self.name}; scenarios: {', '.join([*names[:SHOWN], *more])}; tables with their numbers of rows:"


def simulate(config: str | Path | dict) -> StudyTables:
    """Run a study in this process, without files.

    The tables are those of the workflow on this machine, to the bit: one thread computes them. A process that imported
    Polars, or computed with TensorFlow, before keeps their threads, and is warned that last bits can differ.

    Parameters
    ----------
    config
        A config file, its content, or a scenario (a mapping without `scenarios`), which becomes a study of that name.

    Raises
    ------
    ScenarioError
        For a config that cannot be run; the message names key, value and what would be right.
    InternalError
        For a fault of the program; the message says where its traceback is kept.

    Examples
    --------
    >>> tiny = {"system": "age_aware", "realizations": 2, "training_realizations": 1, "schedule": {"horizon": 4}}
    >>> found = simulate(tiny)
    >>> found.scenarios["scenario"].stages["users"].columns[:3]
    ['realization', 'user', 'chain']
    """
    with located():
        threads.look_at_polars()
        study = _study(config)
        check_surroundings(study)
        check_device(study)
        known: Known = {}
        scenarios = {name: _scenario_tables(study, name, known) for name in study.scenarios}
        compared = {
            name: {"scenario": study.scenarios[name].part(), "point": study.place(name), **found.report}
            for name, found in scenarios.items()
        }
        return StudyTables(scenarios, build.compare(compared), study.name)


def results(folder: str | Path) -> StudyTables:
    """The tables that a workflow left of a study, of the scenarios that it finished.

    `folder` is the study's, `results/STUDY`, in the folder that the workflow ran in, beside `store`. Raises
    FileNotFoundError if it holds no finished scenario; tables.TableError or DamagedError if a table is damaged or not
    the one that the report was made of.
    """
    folder = Path(folder)
    finished = sorted(path.parent for path in folder.glob("*/addresses.csv") if (path.parent / "summary.csv").exists())
    if not finished:
        raise FileNotFoundError(f"{folder}: holds no finished scenario (results/STUDY, of a workflow that ran)")
    found = {path.name: _read_scenario(path, folder.parent.parent) for path in finished}
    compared = {name: tables.read_report(path) for name in COMPARISON if (path := folder / f"{name}.parquet").exists()}
    return StudyTables(found, compared, folder.resolve().name)


def _study(config: str | Path | dict) -> Study:
    if isinstance(config, str | Path):
        return load(read([config]), str(config))
    if not isinstance(config, dict):
        raise ScenarioError(f"config: must be a file's path or a mapping, is {shown(config)}")
    return load(config if "scenarios" in config else {"scenarios": {"scenario": config}}, "config")


def stage_tables(scenario, stages=STAGES, known: Known | None = None) -> dict[str, pl.DataFrame]:
    """The tables of a scenario's stages, as its report gets them: of all schemes, named in the first column.

    Each of the `stages` needs the ones that it reads. `known` is what was computed for other scenarios, and grows.
    """
    known = {} if known is None else known
    merged: dict[str, list[pl.DataFrame]] = {}
    for scheme, route in plan.routes(scenario).items():
        found: dict = {}
        for stage, description in route.items():
            if stage not in stages and stage not in GIVEN:
                continue
            key = (description["address"], scenario.realizations, scenario.training_realizations)
            if key not in known:
                if stage in GIVEN:
                    _forget(known, stage)
                known[key] = _of_stage(scenario, description, found)
            found |= known[key]
        for stage in stages:
            for table in GRAPH[stage].makes:
                if GRAPH[stage].each:
                    named = found[table].select(pl.lit(scheme).alias("scheme"), pl.all())
                    merged.setdefault(table, []).append(named)
                else:
                    merged[table] = [found[table]]
    return {table: pl.concat(frames) for table, frames in merged.items()}


def _scenario_tables(study: Study, name: str, known: Known) -> ScenarioTables:
    scenario = study.scenarios[name]
    stages = stage_tables(scenario, known=known)
    report = build.summarize(scenario.of_stage(REPORT), stages)
    if name not in study.points:
        report[AUDIT] = execution.audit(scenario.of_stage(AUDIT), stages)
    return ScenarioTables(stages, placed(report, study.place(name)), scenario.system)


def _of_stage(scenario, description: dict, found: dict) -> dict:
    """What a stage makes of all realizations, shard by shard where its jobs are many; training starts but once."""
    stage = GRAPH[description["stage"]]
    if stage.grid is None:
        return execution.in_memory(scenario, description, found)
    count = getattr(scenario, REALIZATIONS[stage.grid])
    bounds = [(0, count)] if stage.takes_data else map(shards.bounds, shards.of(scenario, description["stage"]))
    spans = [range(first, min(stop, count)) for first, stop in bounds]
    made = [execution.in_memory(scenario, description, found, span) for span in spans]
    return {table: pl.concat([part[table] for part in made]) for table in made[0]}


def _forget(known: Known, made: str) -> None:
    """Forget what others trained on, hundreds of megabytes, before something else is loaded in its place."""
    for key in [key for key, found in known.items() if made in found]:
        del known[key]


def _read_scenario(folder: Path, root: Path) -> ScenarioTables:
    scenario = resolve({}, yaml.safe_load(made.content(folder / "scenario.yaml")))
    upstream = store.read_addresses(made.content(folder / "addresses.csv"))
    # A point's audit that was asked for once is of something else when the point was computed anew without it.
    read = {scheme: {stage: route[stage] for stage in reports.READS[AUDIT]} for scheme, route in upstream.items()}
    own = made.inputs({"upstream": read, "parameters": plain(scenario.of_stage(AUDIT))})
    audited = made.recorded(str(folder / reports.record(AUDIT))) == own
    paths = {
        table: [
            str(root / plan.file(stage, upstream[scheme.name][stage], shard, table))
            for scheme in scenario.schemes[: None if declared.each else 1]
            for shard in shards.of(scenario, stage)
        ]
        for stage, declared in STAGES.items()
        for table in declared.makes
    }
    stages = tables.read_schemes(paths, {"system": scenario.system, "upstream": upstream}, scenario)
    wanted = [*registry.system(scenario.system).catalog.tables, *(COMMON_TABLES if audited else ())]
    report = {name: tables.read_report(folder / f"{name}.parquet") for name in wanted}
    return ScenarioTables(stages, report, scenario.system)
