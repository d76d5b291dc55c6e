"""List and delete what no given config uses of the store: `pwfl prune`."""

import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from pwfl import scenario
from pwfl.workflow.plan import plan

YOUNG_SECONDS = 3600.0  # what is younger may belong to a run that has just begun
LOCKS = Path(".snakemake/locks")


class PruneError(LookupError):
    """There is no store."""


def used(configs: Iterable[str]) -> set[str]:
    """The addresses that the studies of config files use. Raises ScenarioError, and OSError for files from outside."""
    return {address for path in configs for address in plan(scenario.load(scenario.read([path]), path)).descriptions}


def unused(root: Path, kept: set[str], now: float) -> list[Path]:
    """Folders of the store whose addresses are not kept, are not young and that no running workflow has locked."""
    locked = "".join(path.read_text(encoding="utf-8") for path in (root / LOCKS).glob("*") if path.is_file())
    return [
        folder
        for folder in sorted((root / "store").glob("*/*"))
        if folder.is_dir()
        and not linked(folder)
        and folder.name not in kept
        and f"/{folder.name}/" not in locked
        and now - max(path.lstat().st_mtime for path in (folder, *folder.rglob("*"))) > YOUNG_SECONDS
    ]


def linked(folder: Path) -> bool:
    """Whether an address's folder, or its stage's, is a symbolic link: somebody else's, which is left alone."""
    return folder.is_symlink() or folder.parent.is_symlink()


def prune(configs: Iterable[str], delete: bool = False) -> None:
    """List, and delete if asked to, what no config uses of the store in the working directory. Raises PruneError."""
    if not Path("store").is_dir():
        raise PruneError("there is no folder store here; go to the folder that the workflow ran in")
    found = unused(Path(), used(configs), time.time())
    for folder in filter(linked, sorted(Path("store").glob("*/*"))):
        print(f"{folder}: is a symbolic link, or its folder is one; it is left alone", file=sys.stderr)
    sizes = {}
    for folder in found:
        files = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
        sizes[folder] = sum(path.lstat().st_size for path in files)  # of links, which may lead anywhere, their own
        print(f"{sizes[folder] / 1e6:10.1f} MB  {folder}")
        if delete:
            gone = folder.with_name(f".{folder.name}.deleted")
            folder.rename(gone)  # so that no half of it is ever taken for the whole
            shutil.rmtree(gone)
    print(f"{sum(sizes.values()) / 1e6:10.1f} MB in {len(found)} folders {'deleted' if delete else 'unused'}")
