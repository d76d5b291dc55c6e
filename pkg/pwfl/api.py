"""Without Snakemake: a study in this process, and the tables that a workflow left."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl
import yaml

from pwfl import run, tables
from pwfl.entrance import located
from pwfl.learning import extraction
from pwfl.report import build
from pwfl.report.catalog import COMMON_TABLES, COMPARISON
from pwfl.runtime import made, shards, store
from pwfl.scenario import ScenarioError, Study, check_surroundings, checks, load, read, resolve
from pwfl.scenario.messages import shown
from pwfl.stages import MAKER, REPORT, STAGES
from pwfl.systems import registry
from pwfl.workflow import reports

Known = dict[tuple[str, int, int], dict[str, pl.DataFrame]]


@dataclass(frozen=True)
class ScenarioTables:
    """A scenario's tables by name: those of the stages (`users` ... `audit`), and those of its report.

    Tables that differ from scheme to scheme have the scheme's name in their first column. Points of a sweep have no
    `audit`, unless a workflow was asked for it.
    """

    stages: dict[str, pl.DataFrame]
    report: dict[str, pl.DataFrame]


@dataclass(frozen=True)
class StudyTables:
    """The tables of a study's scenarios, by the scenarios' names, and those that compare them (`claims` ...)."""

    scenarios: dict[str, ScenarioTables]
    comparison: dict[str, pl.DataFrame]


def simulate(config: str | Path | dict) -> StudyTables:
    """Run a study in this process, without files.

    The tables are those of the workflow on this machine, to the bit: trainings take one thread. A process that computed
    with more threads of TensorFlow before keeps them, and is warned that the last bits of trainings can differ. What
    scenarios and schemes share is computed once.

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
        study = _study(config)
        check_surroundings(study)
        known: Known = {}
        scenarios = {name: _scenario_tables(study, name, known) for name in study.scenarios}
        compared = {
            name: {"scenario": study.scenarios[name].part(), "point": study.place(name), **found.report}
            for name, found in scenarios.items()
        }
        return StudyTables(scenarios, build.compare(compared))


def results(folder: str | Path) -> StudyTables:
    """The tables that a workflow left of a study, of the scenarios that it finished.

    Parameters
    ----------
    folder
        The study's, `results/STUDY`, in the folder that the workflow ran in, beside `store`.

    Raises
    ------
    FileNotFoundError
        If the folder holds no finished scenario.
    tables.TableError, DamagedError
        If a table is damaged or not the one that the report was made of.
    """
    folder = Path(folder)
    finished = sorted(path.parent for path in folder.glob("*/addresses.csv") if (path.parent / "summary.csv").exists())
    if not finished:
        raise FileNotFoundError(f"{folder}: holds no finished scenario (results/STUDY, of a workflow that ran)")
    found = {path.name: _read_scenario(path, folder.parent.parent) for path in finished}
    compared = {name: tables.read_report(path) for name in COMPARISON if (path := folder / f"{name}.parquet").exists()}
    return StudyTables(found, compared)


def _study(config: str | Path | dict) -> Study:
    if not isinstance(config, str | Path):
        if not isinstance(config, dict):
            raise ScenarioError(f"config: must be a file's path or a mapping, is {shown(config)}")
        return load(config if "scenarios" in config else {"scenarios": {"scenario": config}}, "config")
    return load(read([config]), str(config))


def stage_tables(scenario, stages=STAGES, known: Known | None = None) -> dict[str, pl.DataFrame]:
    """The tables of a scenario's stages, as its report gets them: of all schemes, named in the first column.

    Parameters
    ----------
    stages
        Those to run; each needs the ones that it reads.
    known
        What was computed for other scenarios, by address and numbers of realizations; it is taken, and grows.
    """
    known = {} if known is None else known
    described = store.addresses(scenario)
    merged: dict[str, list[pl.DataFrame]] = {}
    for scheme in scenario.schemes:
        found: dict[str, pl.DataFrame] = {}
        for stage in stages:
            description = store.of_scheme(described, stage, scheme)
            key = (description["address"], scenario.realizations, scenario.training_realizations)
            if key not in known:
                known[key] = _of_stage(scenario, stage, description["variant"], found)
            found |= known[key]
        for table, frame in found.items():
            if MAKER[table] == "channel":
                merged[table] = [frame]
            else:
                merged.setdefault(table, []).append(frame.select(pl.lit(scheme.name).alias("scheme"), pl.all()))
    return {table: pl.concat(frames) for table, frames in merged.items()}


def _scenario_tables(study: Study, name: str, known: Known) -> ScenarioTables:
    scenario = study.scenarios[name]
    stages = stage_tables(scenario, [s for s in STAGES if s != "audit" or name not in study.points], known)
    return ScenarioTables(stages, build.placed(build.summarize(scenario.of_stage(REPORT), stages), study.place(name)))


def _of_stage(scenario, stage: str, variant: str | None, found: dict) -> dict[str, pl.DataFrame]:
    """A stage's tables of all realizations, made shard by shard, as they come back from files."""
    own = scenario.of_stage(stage, variant)
    outside = run.imported(scenario.system, checks.imports(scenario)) if stage == "channel" else {}
    if stage == "train":
        made = [run.train(own, extraction.of(scenario), range(scenario.training_realizations), found)]
    elif stage == "audit":
        made = [run.audit(own, found)]
    else:
        made = []
        for first, stop in map(shards.bounds, shards.of(scenario, stage)):
            if stage == "channel":
                made.append(run.channel(own, range(first, min(stop, scenario.realizations)), outside))
                continue
            inside = pl.col("realization").is_between(first, stop, closed="left")
            part = {name: frame.filter(inside) for name, frame in found.items()}
            call = getattr(run, stage)
            made.append(call(own, variant, part) if variant else call(own, part))
    return {
        table: tables.finished(pl.concat([part[table] for part in made]), table, scenario.system)
        for table in STAGES[stage].makes
    }


def _read_scenario(folder: Path, root: Path) -> ScenarioTables:
    scenario = resolve({}, yaml.safe_load(made.content(folder / "scenario.yaml")))
    upstream = store.read_addresses(made.content(folder / "addresses.csv"))
    # A point's audit that was asked for once is of another address when the point was computed anew without it.
    audits = made.upstream(str(folder / reports.record("audited")))
    audited = audits == {scheme: {"audit": stages["audit"]} for scheme, stages in upstream.items()}
    paths: dict[str, list[str]] = {}
    for stage, declared in STAGES.items():
        for scheme in scenario.schemes if stage != "audit" or audited else ():
            home = root / "store" / stage / upstream[scheme.name][stage]
            inside = [home if name == shards.ALL else home / name for name in shards.of(scenario, stage)]
            for table in declared.makes:
                if stage != "channel" or not paths.get(table):
                    paths.setdefault(table, []).extend(str(place / f"{table}.parquet") for place in inside)
    stages = tables.read_schemes(paths, {"system": scenario.system, "upstream": upstream}, scenario)
    wanted = [*registry.system(scenario.system).catalog.tables, *(COMMON_TABLES if audited else ())]
    return ScenarioTables(stages, {name: tables.read_report(folder / f"{name}.parquet") for name in wanted})
