"""Plan one call of Snakemake: a study's parts, the items that the store lacks, and the files to publish."""

import json
import os
import shlex
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pwfl.scenario import ScenarioError, Study
from pwfl.store import addressing
from pwfl.store.files import write_bytes
from pwfl.store.items import Store, key_of, read_note
from pwfl.workflow import parts, publish, reports
from pwfl.workflow.jobs import FAILED
from pwfl.workflow.outlook import Outlook
from pwfl.workflow.plan import Plan, plan

EVERYTHING = "store"  # as `wanted`: all items of the study, published or not
OPTIONS = ("wanted", "part_seconds")  # keys of --config that are not the study's


class Session(NamedTuple):
    """The work of a call of Snakemake."""

    base: Path  # the folder of store, results, marks and logs
    work: Plan
    parts: dict[str, parts.Part]  # of the study, or of its wanted files, by path
    lacks: set[str]  # keys of the needed items that the store lacks
    record: Path  # of the published files (`pwfl.workflow.publish`)
    last: publish.Published | None  # the record of the last publication of the whole view
    is_shown: bool  # whether the folder shows the view already
    saved: dict  # the division into parts, for later calls; the view and the command, for the publication

    def outlook(self, forced: Collection[str] = ()) -> Outlook:
        """Return the parts' work; `forced` are the rules and marks that Snakemake is to run again."""
        paths = {str(self.base / self.mark(path)): path for path in self.parts}  # a module's marks have its prefix
        again = parts.following(self.parts.values(), {paths.get(name, name) for name in forced})
        return Outlook(self.work, Store(self.base / "store"), self.lacks, again, self.last)

    def mark(self, path: str) -> str:
        """Return the path of a part's mark, the file that its job creates at the end."""
        return f".pwfl/{self.work.study.name}/{path}.done"

    @property
    def shown_mark(self) -> str:
        """The mark of the folder: a file that exists if the folder shows the view."""
        return f".pwfl/{self.work.study.name}/{self.record.stem}.shown"

    @property
    def shown_parts(self) -> list[str]:
        """The marks of the parts that compute the files to publish."""
        shown = {key_of(file) for file in self.work.view.values()}
        return [self.mark(path) for path, part in self.parts.items() if any(item.key in shown for item in part.items)]

    @property
    def warnings(self) -> list[str]:
        """The lines to print before anything runs: the study's warnings, and the work left."""
        line = self.outlook().remaining(self.parts.values())
        return [*self.work.study.warnings, *([f"{line}. Logs: logs/{self.work.study.name}/"] if line else [])]

    def write_marks(self) -> None:
        """Create the marks of parts without work, all with one time, so that no file's time matters; delete others."""
        now, root = time.time(), Store(self.base / "store")
        for path, part in self.parts.items():
            mark, lacking = self.base / self.mark(path), [item for item in part.items if item.key in self.lacks]
            if not lacking:
                _mark(mark, now)
                if (benchmark := self.base / f"logs/{self.work.study.name}/{path}.tsv").exists():  # counts as an output
                    os.utime(benchmark, (now, now))
            elif mark.exists() and not all(root.has(item.key, self.work.outputs(item)) for item in lacking):
                mark.unlink()  # unless another run has just made it
        if self.is_shown:
            _mark(self.base / self.shown_mark, now)
        else:
            (self.base / self.shown_mark).unlink(missing_ok=True)

    def write_manifests(self, outlook: Outlook) -> None:
        """Write the manifests of all parts, delete files of other parts, and note the addresses in use."""
        folder = self.base / ".pwfl" / self.work.study.name
        needed = {name for part in self.parts.values() for name in part.after}
        for path, part in self.parts.items():
            target = folder / f"{path}.json"
            target.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(json.dumps(outlook.manifest(part, is_last=path not in needed)).encode(), target)
        for path in folder.glob("*/*"):
            if path.suffix == FAILED or f"{path.parent.name}/{path.stem}" not in self.parts:
                path.unlink(missing_ok=True)
        write_bytes(json.dumps(self.saved).encode(), folder / self.record.name)
        root = Store(self.base / "store")
        root.use(self.work.study.name, {item.address for item in self.work.items()})
        root.sweep()


def _mark(path: Path, seconds: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (seconds, seconds))


def options(config: dict) -> tuple[tuple[str, ...], float | None]:
    """Pop the wanted patterns and the seconds per part from a config. Raises ScenarioError for invalid seconds."""
    wanted, seconds = (config.pop(name, None) for name in OPTIONS)
    patterns = tuple(map(str, [wanted] if isinstance(wanted, str) else wanted or ()))
    if seconds is None:
        return patterns, None
    with suppress(TypeError, ValueError):
        if not isinstance(seconds, bool) and float(seconds) > 0:
            return patterns, float(seconds)
    raise ScenarioError(f"part_seconds: {seconds} is wrong: must be a number of seconds above 0")


def command_of(configs: list[str], is_main: bool) -> str:
    """Return the command that runs the study of some config files."""
    if not is_main:
        return "the workflow again"
    near = {path: os.path.relpath(path) for path in configs}  # so that the working directory may be moved
    files = shlex.join(path if near[path].startswith(os.pardir) else near[path] for path in configs)
    return f"pwfl run {files}" if len(configs) == 1 else f"snakemake --configfile {files}"


def study_values(arguments: list[str]) -> list[str]:
    """Select the values of --config that are the study's, not options of a run."""
    return [argument for argument in arguments if argument.partition("=")[0] not in OPTIONS]


def start(
    study: Study,
    base: Path,
    wanted: tuple[str, ...],
    seconds: float | None,
    cores: int | None,
    command: tuple[str, list[str]],
) -> Session:
    """Plan the work for a study with store and results in the folder `base`, without writing anything.

    `cores` is the number of this machine's cores that jobs may use; None: a cluster.
    """
    everything, folder = wanted == (EVERYTHING,), base / "results" / study.name
    wanted = () if everything else wanted
    work, root = reports.plan(plan(study), wanted), Store(base / "store")
    kind = f"wanted_{addressing.digest(sorted(set(wanted)))}" if wanted else publish.ALL
    published = publish.latest(folder, kind)
    is_shown = publish.is_shown(published, work.view, folder)
    keys = [key_of(file) for file in work.view.values()]
    items = parts.needed(work, keys) if wanted else list(work.items())
    wanting = [item.key for item in items] if everything else [] if is_shown else keys
    lacks = {item.key for item in parts.needed(work, wanting, root)}
    longest = seconds or (parts.LOCAL_SECONDS if cores else parts.CLUSTER_SECONDS)
    record = publish.record_path(folder, kind)
    before = read_note(base / ".pwfl" / study.name / record.name)
    divided = parts.divided(items, before.get("parts")) if before.get("by") == [longest, cores] else None
    divided = divided or parts.plan(work, items, root, longest, cores)
    division = [[path, [item.key for item in part.items], part.after] for path, part in divided.items()]
    publication = {"view": work.view, "command": command[0], "values": command[1]}
    saved = {"by": [longest, cores], "parts": division, "publication": publication}
    last = published if kind == publish.ALL else publish.latest(folder)
    return Session(base, work, divided, lacks, record, last, is_shown, saved)
