"""Interface from Python: run a study in this process, without Snakemake, or read the tables of a finished study."""

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np
import yaml

from pwfl.process import forks, threads

with threads.polars_import():
    import polars as pl

from pwfl import execution, registry, tables
from pwfl.errors import located
from pwfl.report import build
from pwfl.report.catalog import COMMON_TABLES, COMPARISON
from pwfl.report.columns import with_point
from pwfl.scenario import ScenarioError, Study, check_device, check_surroundings, load, read, resolve
from pwfl.scenario.chunks import chunks_of, count_of, sizes_of
from pwfl.scenario.messages import did_you_mean, shown
from pwfl.stages import AUDIT, GRAPH, PREPARATIONS, REPORT, STAGES
from pwfl.store import addressing, grids
from pwfl.store.items import Store
from pwfl.workflow import plan, publish
from pwfl.workflow.in_memory import in_memory
from pwfl.workflow.reports import ADDRESSES, WHOLE

Known = dict[tuple, dict]  # address, and numbers of realizations -> tables or arrays by name


class NamedTables(dict[str, pl.DataFrame]):
    """Tables by name; the error for a missing name suggests a similar one."""

    def __missing__(self, name: str) -> NoReturn:
        raise _absent(name, self)


class LazyTables(Mapping):
    """Tables by name, each read when it is first used."""

    def __init__(self, readers: dict[str, Callable[[], pl.DataFrame]]) -> None:
        self.readers = readers
        self.read: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self.readers:
            raise _absent(name, self)
        if name not in self.read:
            forks.check()
            self.read[name] = self.readers[name]()
        return self.read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.readers)

    def __len__(self) -> int:
        return len(self.readers)

    def __repr__(self) -> str:
        return f"tables, each read when it is first used: {', '.join(self)}"


def _absent(name: str, tables: Mapping) -> KeyError:
    return KeyError(f"{name!r}: there is no such table{did_you_mean(name, tables)}")


UNTIL = (*STAGES, AUDIT)  # where `simulate` may stop


@dataclass(frozen=True, repr=False)
class ScenarioTables:
    """A scenario's tables by name: those of the stages (`users` ... `outcome`), and those of its report.

    Tables that depend on the scheme have the scheme's name in their first column. A report of a sweep point has no
    `audit`, unless it was requested.
    """

    stages: Mapping[str, pl.DataFrame]
    report: Mapping[str, pl.DataFrame]
    system: str

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"no attribute {name!r}; write .report[{name!r}] or, of a stage's table, .stages[{name!r}]"
        )

    def __repr__(self) -> str:
        parts = f"stages: {', '.join(self.stages)}\nreport: {', '.join(self.report)}"
        return f"a scenario of the system {self.system}\n{parts}"


@dataclass(frozen=True, repr=False)
class StudyTables:
    """The tables of a study's scenarios, by the scenarios' names, and those that compare scenarios (`claims` ...)."""

    scenarios: dict[str, ScenarioTables]
    comparison: Mapping[str, pl.DataFrame]
    name: str

    def __getattr__(self, name: str) -> NoReturn:
        if name in ScenarioTables.__annotations__:
            raise AttributeError(f"no attribute {name!r}; write .scenarios[NAME].{name}, NAME one of {self._names}")
        raise AttributeError(f"no attribute {name!r}; write .comparison[{name!r}] or .scenarios[NAME].report[{name!r}]")

    @property
    def _names(self) -> str:
        return shown([*self.scenarios])

    def __repr__(self) -> str:
        return f"study {self.name}; scenarios: {self._names}\ncomparison: {', '.join(self.comparison)}"


def simulate(config: str | Path | dict, until: str | None = None) -> StudyTables:
    """Run a study in this process, without files.

    The tables equal those of the workflow on this machine bit for bit, as one thread computes them. If the process
    imported Polars before this function, or has computed with TensorFlow, their threads remain: a warning states that
    last bits can differ. The warnings of `pwfl check` are issued here, too.

    Parameters
    ----------
    config
        A config file, its content, or a scenario (a mapping without `scenarios`), which becomes a study of that name.
    until
        A stage, or `audit`: only it and its inputs are computed. The report is then empty, except for the audit.

    Raises
    ------
    ScenarioError
        For a config that cannot be run, and for an unknown stage; the message names key, value and remedy.
    InternalError
        For a bug in pwfl; the message names the file with its traceback.
    ForkError
        In a process that was forked from one that had computed: Polars would wait there for ever.

    Examples
    --------
    >>> tiny = {"system": "age_aware", "realizations": 2, "training_realizations": 1, "schedule": {"horizon": 4}}
    >>> found = simulate(tiny)
    >>> found.scenarios["scenario"].stages["users"].columns[:3]
    ['realization', 'user', 'chain']
    """
    with located():
        forks.check()
        threads.look_at_polars()
        if until is not None and until not in UNTIL:
            raise ScenarioError(f"until: there is no stage {until!r}{did_you_mean(str(until), UNTIL)}")
        study = _study(config)
        for warning in study.warnings:
            warnings.warn(warning, stacklevel=2)
        check_surroundings(study)
        check_device(study)
        known: Known = {}
        scenarios = {name: _scenario_tables(study, name, known, until) for name in study.scenarios}
        if until:
            return StudyTables(scenarios, {}, study.name)
        compared = {
            name: {
                "scenario": study.scenarios[name].part(),
                "point": study.point(name),
                "releases": plan.releases(plan.routes(study.scenarios[name])),
                **found.report,
            }
            for name, found in scenarios.items()
        }
        return StudyTables(scenarios, NamedTables(build.compare(compared)), study.name)


def results(folder: str | Path) -> StudyTables:
    """Return the tables that a workflow wrote for a study; each is read when it is first used.

    `folder` is the study's, `results/STUDY`, in the folder that the workflow ran in. Tables of the stages are read from
    the folder `store` there, all others from `folder` itself. Raises FileNotFoundError if it has no finished study.
    Using a table raises tables.TableError or DamagedError if it was changed or is missing. Stages' tables are missing
    in a copy of the folder without the store. The message contains the command that makes the table again.
    """
    folder = Path(folder)
    record = publish.latest(folder)
    if record is None:
        raise FileNotFoundError(f"{folder}: no finished study here (expected a folder results/STUDY that a run wrote)")
    names = [path.removesuffix("/scenario.yaml") for path in record.files if path.endswith("/scenario.yaml")]
    found = {name: _read_scenario(folder, name, record) for name in names}
    return StudyTables(found, _published(folder, "", COMPARISON, record), folder.resolve().name)


def _study(config: str | Path | dict) -> Study:
    if isinstance(config, str | Path):
        return load(read([config]), str(config))
    if not isinstance(config, Mapping):
        raise ScenarioError(f"config: must be a file's path or a mapping, is {shown(config)}")
    config = _plain(config)
    return load(config if "scenarios" in config else {"scenarios": {"scenario": config}}, "config")


def _plain(value):
    """Convert tuples, ranges, arrays, NumPy's numbers and paths in a config to the types that YAML has.

    >>> _plain({"seed": np.int64(3), "file": Path("a.npz"), "sweep": {"network.users": range(2, 4)}})
    {'seed': 3, 'file': 'a.npz', 'sweep': {'network.users': [2, 3]}}
    """
    if isinstance(value, Mapping):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, pl.Series):
        return value.to_list()
    if isinstance(value, list | tuple | range):
        return [_plain(each) for each in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def stage_tables(scenario, stages=STAGES, known: Known | None = None) -> dict[str, pl.DataFrame]:
    """Compute the tables of a scenario's stages, as its report reads them: of all schemes, named in the first column.

    `stages` must include the stages that each of them reads. `known` has results of other scenarios, and is extended.
    Raises ScenarioError for an unknown stage, or if a stage is missing that another one reads.
    """
    forks.check()
    routes = plan.routes(scenario)
    _check_stages(scenario, stages, routes)
    known = {} if known is None else known
    merged: dict[str, list[pl.DataFrame]] = {}
    for scheme, route in routes.items():
        found: dict = {}
        made_of = plan.made_of(route, stages)
        for stage, description in route.items():
            if stage not in made_of:
                continue
            key = (description["address"], scenario.realizations, scenario.training_realizations)
            if key not in known:
                if stage in PREPARATIONS:
                    _forget(known, stage)
                known[key] = _read_stage(scenario, description, found)
            found |= known[key]
        for stage in stages:
            for table in registry.makes(scenario.system, stage):
                if table not in found:
                    continue
                if GRAPH[stage].each:
                    named = found[table].select(pl.lit(scheme).alias("scheme"), pl.all())
                    merged.setdefault(table, []).append(named)
                else:
                    merged[table] = [found[table]]
    return {table: pl.concat(frames) for table, frames in merged.items()}


def _check_stages(scenario, stages: Collection[str], routes: Mapping[str, plan.Route]) -> None:
    """Raise ScenarioError for an unknown stage, and for a missing stage if another one reads its tables."""
    if unknown := [stage for stage in stages if stage not in STAGES]:
        raise ScenarioError(f"stages: there is no stage {unknown[0]!r}{did_you_mean(unknown[0], STAGES)}")
    for route in routes.values():
        for stage in (stage for stage in route if stage in stages):
            made_by = plan.read(scenario, route[stage])
            if missing := [other for other in made_by if other not in (*stages, *PREPARATIONS)]:
                tables_ = ", ".join(map(repr, made_by[missing[0]]))
                raise ScenarioError(
                    f"stages: {missing[0]!r} is missing, whose tables {tables_} are read by {stage!r}; add "
                    f"{missing[0]!r}, or leave out {stage!r}"
                )


def _scenario_tables(study: Study, name: str, known: Known, until: str | None) -> ScenarioTables:
    scenario = study.scenarios[name]
    stages = stage_tables(scenario, _needed(scenario, until) if until else STAGES, known)
    report = {} if until else build.summarize(scenario.select_stage(REPORT), stages)
    if until == AUDIT or not (until or name in study.points):
        report[AUDIT] = execution.audit_schemes(scenario.select_stage(AUDIT), stages)
    report = with_point(report, study.point(name))
    return ScenarioTables(NamedTables(stages), NamedTables(report), scenario.system)


def _needed(scenario, until: str) -> list[str]:
    """List the stages needed for one, itself included, or for the audit, in the order of the graph."""
    makers = registry.makers(scenario.system)
    last = [until] if until in STAGES else [makers[table] for table in registry.reads(scenario.system, AUDIT)]
    found = {stage for route in plan.routes(scenario).values() for stage in plan.made_of(route, last)}
    return [stage for stage in STAGES if stage in found]


def _read_stage(scenario, description: dict, found: dict) -> dict:
    """Compute a stage's tables for all realizations, chunk by chunk if it has a grid; training is not divided."""
    stage = GRAPH[description["stage"]]
    if stage.grid is None:
        return in_memory(scenario, description, found)
    count = count_of(scenario, description["stage"])
    bounds = [(0, count)] if stage.takes_data else map(grids.bounds, chunks_of(scenario, description["stage"]))
    spans = [range(first, min(stop, count)) for first, stop in bounds]
    made = [in_memory(scenario, description, found, span) for span in spans]
    return {table: pl.concat([part[table] for part in made]) for table in made[0]}


def _forget(known: Known, made: str) -> None:
    """Delete other scenarios' results of a preparation, hundreds of megabytes, before new ones replace them."""
    for key in [key for key, found in known.items() if made in found]:
        del known[key]


def _read_scenario(folder: Path, name: str, record: publish.Published) -> ScenarioTables:
    """Return a scenario's tables, none of which is read yet."""

    root = Store(folder.parent.parent / "store")
    if f"{name}/{ADDRESSES}" in record.files:
        written, listed = (publish.published(folder, f"{name}/{file}", record) for file in ("scenario.yaml", ADDRESSES))
    else:
        _check_store(folder, root, f"scenario {name} withholds private data, and is read from there", record)
        written = publish.kept(root, WHOLE, f"{name}/scenario.yaml", record)
        listed = publish.kept(root, ADDRESSES, f"{name}/summary.parquet", record)
    scenario, upstream = resolve({}, yaml.safe_load(written)), addressing.read_addresses(listed)

    def read_stage(table: str) -> pl.DataFrame:
        stage = registry.makers(scenario.system)[table]
        count = count_of(scenario, stage)
        addresses = [upstream[scheme.name][stage] for scheme in scenario.schemes[: None if STAGES[stage].each else 1]]
        stops = [grids.bounds(path.name)[1] for path in root.path(f"{stage}/{addresses[0]}").glob("[0-9]*-[0-9]*")]
        end = max([count, *stops])  # of imported tables; their files may have been moved
        paths = [
            str(root.path(f"{plan.Item(stage, address, chunk).key}/{plan.file_name(table)}"))
            for address in addresses
            for chunk in grids.covering(0, count, sizes_of(scenario, stage), end)
        ]
        _check_store(folder, root, f"the table {table} is read from there", record)
        if absent := next((path for path in paths if not Path(path).exists()), None):
            raise tables.TableError(f"{absent}: is missing; run the study again, by {record.again('wanted=store')}")
        description = {"system": scenario.system, "upstream": upstream}
        try:
            return tables.read_schemes({table: paths}, description, scenario)[table]
        except tables.TableError as error:
            raise tables.TableError(f"{error}, by {record.again('wanted=store')}") from None

    own = registry.stages(scenario.system)
    made_by_stages = [table for stage in own for table in registry.makes(scenario.system, stage)]
    wanted = [*registry.system(scenario.system).catalog.all_tables, *COMMON_TABLES]
    at_hand = [table for table in wanted if f"{name}/{table}.parquet" in record.files]
    stages = LazyTables({table: partial(read_stage, table) for table in made_by_stages})
    return ScenarioTables(stages, _published(folder, f"{name}/", at_hand, record), scenario.system)


def _check_store(folder: Path, root: Store, why: str, record: publish.Published) -> None:
    """Raise TableError if a study's folder is a copy without the store."""
    if not root.root.is_dir():
        raise tables.TableError(
            f"{folder}: this copy of the study has no stage tables: {root.root.resolve()} does not exist, and {why}; "
            f"copy it from where the study ran, or run the study again, by {record.again('wanted=store')}"
        )


def _published(folder: Path, above: str, names: Iterable[str], record: publish.Published) -> LazyTables:
    """Return published tables, none of which is read yet."""

    def read_one(name: str) -> pl.DataFrame:
        return pl.read_parquet(publish.published(folder, f"{above}{name}.parquet", record))

    return LazyTables({name: partial(read_one, name) for name in names})
