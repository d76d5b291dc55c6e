"""Without Snakemake: a study in this process, and the tables that a workflow left."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl
import yaml

from pwfl import run, tables
from pwfl.learning import datasets, sources
from pwfl.report import build
from pwfl.report.catalog import COMMON_TABLES, COMPARISON
from pwfl.runtime import shards, store
from pwfl.scenario import Study, check_surroundings, load, read, resolve
from pwfl.stages import MAKER, REPORT, STAGES
from pwfl.systems import registry


@dataclass(frozen=True)
class ScenarioTables:
    """A scenario's tables by name: those of the stages (`users` ... `audit`), and those of its report.

    Tables that differ from scheme to scheme have the scheme's name in their first column.
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

    The tables are those of the workflow, to the bit. What scenarios and schemes share is computed once.

    Parameters
    ----------
    config
        A config file, its content, or a scenario (a mapping without `scenarios`), which becomes a study of that name.

    Raises
    ------
    ScenarioError
        For a config that cannot be run; the message names key, value and what would be right.

    Examples
    --------
    >>> tiny = {"system": "age_aware", "realizations": 2, "training_realizations": 1, "schedule": {"horizon": 4}}
    >>> found = simulate(tiny)
    >>> found.scenarios["scenario"].stages["users"].columns[:3]
    ['realization', 'user', 'chain']
    """
    study = _study(config)
    check_surroundings(study)
    known: dict[tuple, dict[str, pl.DataFrame]] = {}
    scenarios = {name: _scenario_tables(study, scenario, known) for name, scenario in study.scenarios.items()}
    compared = {
        name: {"scenario": study.scenarios[name].part(None), **found.report} for name, found in scenarios.items()
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
    tables.TableError
        If a table is damaged or not the one that the report was made of.
    """
    folder = Path(folder)
    finished = sorted(path.parent for path in folder.glob("*/addresses.csv") if (path.parent / "summary.csv").exists())
    if not finished:
        raise FileNotFoundError(f"{folder}: holds no finished scenario (results/STUDY, of a workflow that ran)")
    found = {path.name: _read_scenario(path, folder.parent.parent) for path in finished}
    compared = {name: pl.read_parquet(path) for name in COMPARISON if (path := folder / f"{name}.parquet").exists()}
    return StudyTables(found, compared)


def _study(config: str | Path | dict) -> Study:
    if isinstance(config, dict):
        return load(config if "scenarios" in config else {"scenarios": {"scenario": config}}, "config")
    return load(read([config]), str(config))


def _scenario_tables(study: Study, scenario, known: dict) -> ScenarioTables:
    described = store.addresses(scenario)
    blocks = [
        range(first, min(stop, scenario.realizations))
        for first, stop in map(shards.bounds, shards.names(scenario.realizations, scenario.shards.optimization))
    ]
    merged: dict[str, list[pl.DataFrame]] = {}
    for scheme in scenario.schemes:
        found: dict[str, pl.DataFrame] = {}
        for stage in STAGES:
            description = store.of_scheme(described, stage, scheme)
            key = (description["address"], scenario.realizations, scenario.training_realizations)
            if key not in known:
                known[key] = _stage_tables(study, scenario, description, blocks, found)
            found |= known[key]
        for table, frame in found.items():
            if MAKER[table] == "channel":
                merged[table] = [frame]
            else:
                merged.setdefault(table, []).append(frame.select(pl.lit(scheme.name).alias("scheme"), pl.all()))
    stages = {table: pl.concat(frames) for table, frames in merged.items()}
    return ScenarioTables(stages, build.summarize(scenario.part({REPORT}), stages))


def _stage_tables(study: Study, scenario, description: dict, blocks: list[range], found: dict) -> dict:
    """A stage's tables of all realizations, as they come back from files."""
    stage, variant = description["stage"], description["variant"]
    own = scenario.part({stage, f"{stage}/{variant}"})
    if stage == "train":
        made = [run.train(own, _data(study, scenario), range(scenario.training_realizations), found)]
    elif stage == "audit":
        made = [run.audit(own, found)]
    elif stage == "channel":
        made = [run.channel(own, block) for block in blocks]
    else:
        call = getattr(run, stage)
        inside = pl.col("realization")
        parts = [
            {name: frame.filter(inside >= block.start, inside < block.stop) for name, frame in found.items()}
            for block in blocks
        ]
        made = [call(own, variant, part) if variant else call(own, part) for part in parts]
    return {
        table: tables.finished(pl.concat([part[table] for part in made]), table, scenario.system)
        for table in STAGES[stage].makes
    }


def _data(study: Study, scenario) -> datasets.Dataset | None:
    if "data" not in type(scenario).model_fields:
        return None
    return datasets.prepared(sources.load(scenario.data.dataset, scenario.data.folder))


def _read_scenario(folder: Path, root: Path) -> ScenarioTables:
    scenario = resolve({}, yaml.safe_load((folder / "scenario.yaml").read_text(encoding="utf-8")))
    upstream = store.read_addresses(str(folder / "addresses.csv"))
    paths: dict[str, list[str]] = {}
    for stage, made in STAGES.items():
        trained = stage == "train"
        count = scenario.training_realizations if trained else scenario.realizations
        names = shards.names(count, scenario.shards.training if trained else scenario.shards.optimization)
        for scheme in scenario.schemes:
            home = root / "store" / stage / upstream[scheme.name][stage]
            inside = [home] if stage == "audit" else [home / name for name in names]
            for table in made.makes:
                if stage != "channel" or not paths.get(table):
                    paths.setdefault(table, []).extend(str(place / f"{table}.parquet") for place in inside)
    stages = tables.read_schemes(paths, {"system": scenario.system, "upstream": upstream}, scenario)
    wanted = registry.system(scenario.system).catalog.tables | COMMON_TABLES
    return ScenarioTables(stages, {name: pl.read_parquet(folder / f"{name}.parquet") for name in wanted})
