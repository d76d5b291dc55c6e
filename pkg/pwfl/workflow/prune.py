"""Delete results from the store that no given config uses."""

import shutil
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from pwfl import scenario, workflow
from pwfl.scenario import Study
from pwfl.store.items import Store
from pwfl.workflow import reports
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
