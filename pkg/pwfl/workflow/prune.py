"""Delete results from the store that no given config uses."""

import shutil
import sys
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

from pwfl import scenario
from pwfl.store.items import Store
from pwfl.workflow import reports
from pwfl.workflow.plan import plan

YOUNG_SECONDS = 3600.0  # what is younger may belong to a run that has just begun
STORE = Store(Path("store"))
EVERYTHING = ("*",)  # points of sweeps with their figures and audits, too


class PruneError(LookupError):
    """There is no store, or nothing to delete in it."""


def prune(configs: Iterable[str], delete: bool = False) -> None:
    """List, and delete if asked to, what no config uses of the store in the working directory. Raises PruneError.

    What recent plans need stays, what is young, and what is behind symbolic links, which is somebody else's.
    """
    if not STORE.root.is_dir():
        raise PruneError("there is no folder ./store here; change to the folder in which the study was run")
    plans = (plan(scenario.load(scenario.read([path]), path)) for path in configs)
    works = (reports.plan(planned, EVERYTHING) for planned in plans)
    used = {item.address for work in works for item in work.items()} | STORE.in_use()
    now, total, count = time.time(), 0, 0
    for folder in sorted(STORE.root.glob("[!.]*/*")):
        is_link = folder.is_symlink() or folder.parent.is_symlink()
        if not (folder.is_dir() or is_link) or folder.name in used:
            continue
        paths = [folder, *folder.rglob("*")]
        if now - max(path.lstat().st_mtime for path in paths) <= YOUNG_SECONDS:
            continue
        if is_link:
            print(f"{folder}: is a symbolic link, or lies behind one; not deleted", file=sys.stderr)
            continue
        files = (path for path in paths if path.is_symlink() or path.is_file())
        size = sum(path.lstat().st_size for path in files)  # of links, which may lead anywhere, their own
        total, count = total + size, count + 1
        print(f"{size / 1e6:10.1f} MB  {folder}")
        if delete:
            gone = folder.with_name(f".{uuid.uuid4().hex}.deleted")
            folder.rename(gone)  # so that no half of it is ever taken for the whole
            shutil.rmtree(gone)
    print(f"{total / 1e6:10.1f} MB in {count} folders {'deleted' if delete else 'unused'}")
