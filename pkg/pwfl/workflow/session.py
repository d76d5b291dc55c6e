"""Plan one call of Snakemake: the missing items of a study in batches, and the files to publish."""

import json
import os
import shlex
import time
import uuid
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from pwfl import scenario
from pwfl.scenario import ScenarioError, Study
from pwfl.store import addressing
from pwfl.store.items import Store, key_of
from pwfl.workflow import batches, publish, reports
from pwfl.workflow.batches import Batch, Work
from pwfl.workflow.costs import counted
from pwfl.workflow.plan import plan

EVERYTHING = "store"  # wanted: all of the study that belongs into the store
OPTIONS = ("wanted", "batch_seconds")  # keys of --config that are not the study's


class Manifests:
    """What the job of the rule `manifests` writes; it is rendered when the job starts, compressed.

    For a job it is a dict of `manifests`, by the batches' names, of all `addresses` that the study needs, and of the
    folder of its `results`.
    """

    def __init__(self, work: Work, found: list[Batch], results: Path) -> None:
        self.work, self.batches, self.results = work, found, results

    def __repr__(self) -> str:  # which Snakemake keeps
        return counted(len(self.batches), "job")

    def __reduce__(self) -> tuple:
        packed = {each.name: zlib.compress(batches.manifest(self.work, each).encode(), 1) for each in self.batches}
        addresses = sorted({item.address for item in self.work.items()})
        return dict, ({"manifests": packed, "addresses": addresses, "results": str(self.results)},)


class Publication(dict):
    """Arguments of the rule `publish`; its repr stays short in Snakemake's metadata."""

    def __repr__(self) -> str:
        return counted(len(self["view"]), "file")


class Session(NamedTuple):
    """What a call of Snakemake is to do.

    Attributes
    ----------
    plan
        The name of what it does, by which its manifests and logs are found.
    view
        What the study's folder is to show: path in it -> file of the store.
    record
        Where that is recorded (`pwfl.workflow.publish`).
    is_shown
        Whether the folder shows it already.
    command, values
        How the study is run again: a command, and values of its option --config.
    """

    study: Study
    plan: str
    work: Work
    batches: dict[str, Batch]
    view: dict[str, str]
    record: Path
    is_shown: bool
    command: str
    values: list[str]

    @property
    def manifests(self) -> Manifests:
        """The manifests of the batches."""
        return Manifests(self.work, list(self.batches.values()), self.record.parent)

    @property
    def digest(self) -> str:
        """A digest of the view, by which Snakemake sees that others are to be published."""
        return addressing.digest(self.view)

    @property
    def publication(self) -> Publication:
        """What is to be published, and by what."""
        parts = {"view": self.view, "plan": self.plan, "command": self.command, "values": self.values}
        return Publication(record=str(self.record), **parts)

    @property
    def outputs(self) -> list[str]:
        """What Snakemake is to have in the end, by its names."""
        folder = f"results/{self.study.name}"
        shown = [*self.view, f"{publish.FOLDER}/{self.record.name}"]
        return [f".pwfl/{self.plan}/complete", *(f"{folder}/{name}" for name in shown)]

    @property
    def warnings(self) -> list[str]:
        """What is worth saying before anything runs."""
        said = [f"{line}. Logs: logs/{self.plan}/" for line in batches.remaining(list(self.batches.values()))]
        return [*self.study.warnings, *said]


def options(config: dict) -> tuple[tuple[str, ...], float | None]:
    """The files that are wanted, as patterns, and the seconds of a batch, which are taken out of a config.

    Raises ScenarioError for seconds that are no positive number.
    """
    wanted, seconds = (config.pop(name, None) for name in OPTIONS)
    patterns = () if wanted is None else (wanted,) if isinstance(wanted, str) else tuple(map(str, wanted))
    try:
        number = None if seconds is None else 0.0 if isinstance(seconds, bool) else float(seconds)
    except (TypeError, ValueError):
        number = 0.0
    if number is not None and not number > 0:
        raise ScenarioError(f"batch_seconds: {seconds} is wrong: must be a number of seconds above 0")
    return patterns, number


def study_of(config: dict, source: str, files: dict | None) -> Study:
    """The study of a config, checked, with what it needs of this machine. Raises ScenarioError.

    `source` names where the config comes from, `files` is what its files alone hold; None: it has none, as a module.
    """
    study = scenario.load(config, source, files)
    scenario.check_surroundings(study)
    return study


def command_of(configs: list[str], is_main: bool) -> str:
    """The command that runs a study of some config files."""
    if not is_main:
        return "the workflow again"
    given = shlex.join(_near(path) for path in configs)
    return f"pwfl run {given}" if len(configs) == 1 else f"snakemake --configfile {given}"


def _near(path: str) -> str:
    """A path, relative to the working directory if it is in there, so that the folder may be moved."""
    near = os.path.relpath(path)
    return path if near.startswith(os.pardir) else near


def study_values(arguments: list[str]) -> list[str]:
    """The values of --config that are of the study, and no options of a run."""
    return [each for each in arguments if each.partition("=")[0] not in OPTIONS]


def start(
    study: Study,
    base: Path,
    captions: Path,
    wanted: tuple[str, ...],
    seconds: float | None,
    cores: int | None,
    again: tuple[str, list[str]],
) -> Session:
    """What is to be done for a study whose store and results are in the folder `base`. It writes nothing.

    `cores` are those of this machine that jobs may use, None on a cluster.
    """
    planned = plan(study)
    everything = wanted == (EVERYTHING,)
    report = reports.plan(planned, captions, () if everything else wanted)
    work, root = Work(planned, report), Store(base / "store")
    folder = base / "results" / study.name
    kind = publish.ALL if everything or not wanted else f"wanted_{addressing.digest(sorted(set(wanted)))}"
    published = publish.latest(folder, kind)
    is_shown = publish.is_shown(published, report.view, folder)
    keys = [] if is_shown else [key_of(file) for file in report.view.values()]
    if everything:
        keys = [item.key for item in work.items()]
    items = batches.missing(work, keys, root)
    longest = seconds or (batches.LOCAL_SECONDS if cores else batches.CLUSTER_SECONDS)
    last = published if kind == publish.ALL else publish.latest(folder)
    found = batches.plan(work, items, root, longest, cores, last)
    name = published.plan if is_shown and not found else f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
    record = publish.record_path(folder, kind, name)
    of_plan = {each.name: each for each in found}
    return Session(study, name, work, of_plan, report.view, record, is_shown, *again)


def planned_batch(folder: Path, name: str) -> SimpleNamespace:
    """What a batch's manifest says of it, in a process that planned nothing, as on a cluster's node."""
    return SimpleNamespace(**json.loads((folder / f"{name}.json").read_bytes()))
