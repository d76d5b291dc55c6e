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

YOUNG_SECONDS = 3600.0  # younger results may belong to a run that has just begun
STORE = Store(Path("store"))
EVERYTHING = ("*",)  # patterns of wanted files: all, including figures and audits of sweep points


class PruneError(LookupError):
    """There is no store in the working directory."""


def prune(configs: Iterable[str], delete: bool = False) -> None:
    """List, or with `delete` delete, results of the store in the working directory that no config uses.

    It keeps results that recent plans need, young ones, and others' ones behind symbolic links. Raises PruneError.
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
        size = sum(path.lstat().st_size for path in files)  # of links, their own size: they may lead anywhere
        total, count = total + size, count + 1
        print(f"{size / 1e6:10.1f} MB  {folder}")
        if delete:
            gone = folder.with_name(f".{uuid.uuid4().hex}.deleted")
            folder.rename(gone)  # so that a half-deleted folder is never used
            shutil.rmtree(gone)
    print(f"{total / 1e6:10.1f} MB in {count} folders {'deleted' if delete else 'unused'}")
