"""Delete results from the store: those that no given config uses, or those of one stage, to compute them again."""

import shutil
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from pwfl import scenario, workflow
from pwfl.scenario import Study
from pwfl.stages import GRAPH
from pwfl.store.items import Store, key_of
from pwfl.workflow import publish, reports
from pwfl.workflow.parts import Work
from pwfl.workflow.plan import plan

YOUNG_SECONDS = 3600.0  # what is younger may belong to a run that has just begun
STORE = Store(Path("store"))
EVERYTHING = ("*",)  # points of sweeps with their figures and audits, too


class PruneError(LookupError):
    """There is no store, or nothing to delete in it."""


def prune(configs: Iterable[str], delete: bool = False) -> None:
    """List, and delete if asked to, what no config uses of the store in the working directory. Raises PruneError.

    What recent plans need stays, and what is young.
    """
    _check()
    kept = {item.address for path in configs for item in _work(_study(path)).items()} | STORE.in_use()
    _delete(_unlinked(unused(kept, time.time())), delete)


def forget(config: str, stages: Iterable[str], scenarios: Iterable[str]) -> None:
    """Delete what some stages of a study made, and all that was made of it; of some scenarios, or of all.

    Raises PruneError for a stage or a scenario that there is not.
    """
    _check()
    study = _study(config)
    known = {"stage": [*GRAPH, *reports.JOBS], "scenario": [*study.scenarios]}
    for what, names in (("stage", stages := set(stages)), ("scenario", scenarios := set(scenarios))):
        if unknown := sorted(names - set(known[what])):
            raise PruneError(f"there is no {what} {unknown[0]!r}; known: {', '.join(known[what])}")
    work = _work(study)
    chosen = {
        route[stage]["address"]
        for name in scenarios or study.scenarios
        for route in work.planned.routes[name].values()
        for stage in stages & route.keys()
    }
    of_report = {
        key_of(source)
        for path, source in work.report.view.items()
        if not scenarios or path.rpartition("/")[0] in scenarios
    }
    gone: set[str] = set()
    for item in work.items():  # each after those that it is made of
        of_stage = item.address in chosen or (item.stage in stages and item.key in of_report)
        if of_stage or not gone.isdisjoint(work.needs(item)):
            gone.add(item.key)
    publish.withdraw(Path("results", study.name), gone)
    _delete(_unlinked(path for key in sorted(gone) if (path := STORE.path(key)).is_dir()), delete=True)


def unused(kept: set[str], now: float) -> list[Path]:
    """Folders of addresses in the store that are not kept and are not young."""
    return [
        folder
        for folder in _addresses()
        if folder.name not in kept
        and now - max(path.lstat().st_mtime for path in (folder, *folder.rglob("*"))) > YOUNG_SECONDS
    ]


def _check() -> None:
    if not STORE.root.is_dir():
        raise PruneError("there is no folder ./store here; change to the folder in which the study was run")


def _study(config: str) -> Study:
    return scenario.load(scenario.read([config]), config)


def _work(study: Study) -> Work:
    planned = plan(study)
    return Work(planned, reports.plan(planned, workflow.folder() / "report", EVERYTHING))


def _addresses() -> Iterator[Path]:
    """The folders of addresses."""
    yield from (path for path in sorted(STORE.root.glob("[!.]*/*")) if path.is_dir() or path.is_symlink())


def _unlinked(folders: Iterable[Path]) -> list[Path]:
    """Those of some folders that no symbolic link inside of the store leads to: such a link is somebody else's."""
    found = []
    for folder in folders:
        inside = [folder, *folder.parents][: len(folder.relative_to(STORE.root).parts)]
        if any(path.is_symlink() for path in inside):
            print(f"{folder}: is a symbolic link, or lies behind one; not deleted", file=sys.stderr)
        else:
            found.append(folder)
    return found


def _delete(folders: list[Path], delete: bool) -> None:
    """List folders with their sizes, and delete them if asked to."""
    total = 0
    for folder in folders:
        files = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
        size = sum(path.lstat().st_size for path in files)  # of links, which may lead anywhere, their own
        total += size
        print(f"{size / 1e6:10.1f} MB  {folder}")
        if delete:
            gone = folder.with_name(f".{uuid.uuid4().hex}.deleted")
            folder.rename(gone)  # so that no half of it is ever taken for the whole
            shutil.rmtree(gone)
    print(f"{total / 1e6:10.1f} MB in {len(folders)} folders {'deleted' if delete else 'unused'}")
