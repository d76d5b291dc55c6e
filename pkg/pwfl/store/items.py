"""Items of the store: folders `STAGE/ADDRESS`, or `STAGE/ADDRESS/CHUNK`, that appear at once, with all their files.

That an item exists is all that decides whether it is computed. Nothing is overwritten but what Snakemake was told to
compute again: who finds that somebody else made an item meanwhile keeps theirs, since equal addresses have equal
content. So runs need no locks, wherever they are.
"""

import json
import shutil
import time
import uuid
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from pwfl.store.files import content, room_for, write_bytes

PARTIAL = ".partial"  # folder of the store: what is being written, and what is being computed
IN_USE = ".in_use"  # folder of the store: what recent plans need
ABANDONED_SECONDS = 7 * 24 * 3600.0  # after which a partial folder is a killed job's
DESCRIPTION, COST = "description.json", ".cost.json"  # no figure or table is named like these


def key_of(path: str) -> str:
    """The key of the item that a file of the store belongs to, STAGE/ADDRESS or STAGE/ADDRESS/CHUNK."""
    return path.rpartition("/")[0]


def read_note(path: Path) -> dict:
    """What a file holds as a JSON object; nothing where there is none, or it is damaged."""
    with suppress(OSError, ValueError):
        if isinstance(held := json.loads(path.read_bytes()), dict):
            return held
    return {}


class Store(NamedTuple):
    """A store, by its folder."""

    root: Path

    def path(self, key: str) -> Path:
        """The path of an item, or of a file of one, STAGE/ADDRESS/CHUNK/FILE."""
        return self.root / key

    def has(self, key: str, files: Collection[str], old: int | None = None) -> bool:
        """Whether an item exists, with all of its files; with `old`, another one than that with this stamp."""
        return all((self.root / key / name).exists() for name in files) and (old is None or self.stamp(key) != old)

    def lacking(self, items: Iterable[dict]) -> list[dict]:
        """Those of a manifest's items that are not there; of those with a stamp `old`, where no other one is."""
        return [item for item in items if not self.has(item["key"], item["files"], item.get("old"))]

    def note_old(self, items: Iterable[dict]) -> list[dict]:
        """Give a manifest's items that are there their stamps as `old`, so that others are lacking; returns these."""
        present = [item for item in items if self.has(item["key"], item["files"])]
        for item in present:
            item["old"] = self.stamp(item["key"])
        return present

    def stamp(self, key: str) -> int:
        """What tells an item from one that replaces it: two folders that both exist have two."""
        return (self.root / key).stat().st_ino

    def bits(self, item: dict) -> tuple[str | None, list[str]]:
        """What kind of processor computed a manifest's item, None where that is not known, and its files' digests."""
        processor = read_note(self.root / item["key"] / COST).get("processor")
        return processor, [content(str(self.root / item["key"] / name)) for name in item["files"]]

    @contextmanager
    def workspace(self) -> Generator[Path]:
        """A folder for what one process computes; it is deleted at the end, and by `sweep` if the process is killed."""
        folder = self.root / PARTIAL / uuid.uuid4().hex
        with room_for(folder):
            folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def create(self, key: str, files: Collection[str], workspace: Path, old: int | None = None) -> Generator[Path]:
        """A folder to write an item's files into, which becomes the item when the block ends without an error.

        It replaces an item that lacks files, and the one with the stamp `old`; no other.
        """
        partial, target = workspace / key, self.root / key
        with room_for(target):
            partial.mkdir(parents=True, exist_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            yield partial
            if target.exists() and not self.has(key, files, old):
                with suppress(OSError):  # or is replacing it, too
                    target.rename(workspace / f"incomplete-{uuid.uuid4().hex}")
            try:
                partial.rename(target)
            except OSError:
                if not self.has(key, files):
                    raise

    def announce(self, keys: Collection[str], workspace: Path) -> None:
        """Let other processes know which items are being computed in a workspace."""
        with room_for(self.root):
            for key in keys:
                (workspace / key).mkdir(parents=True, exist_ok=True)

    def is_announced(self, key: str, seconds: float) -> bool:
        """Whether another process began to compute an item, at most so many seconds ago."""
        earliest = time.time() - seconds
        for path in (self.root / PARTIAL).glob(f"*/{key}"):
            with suppress(OSError):  # it is finished by now
                if path.stat().st_ctime > earliest:
                    return True
        return False

    def describe(self, description: dict) -> None:
        """Write an address's description into its folder, where it is not."""
        path = self.root / description["stage"] / description["address"] / DESCRIPTION
        if not (path.is_file() and description["address"].encode() in path.read_bytes()):
            write_bytes(json.dumps(description, indent=1).encode(), path)

    def use(self, plan: str, addresses: Collection[str]) -> None:
        """Note which addresses a plan needs, for whoever prunes the store meanwhile."""
        folder = self.root / IN_USE
        with room_for(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_bytes(json.dumps(sorted(addresses)).encode(), folder / f"{plan}.json")

    def in_use(self) -> set[str]:
        """The addresses that plans of the last week need."""
        addresses, young = set(), time.time() - ABANDONED_SECONDS
        for path in (self.root / IN_USE).glob("*.json"):
            with suppress(OSError, ValueError):
                if path.stat().st_mtime >= young:
                    addresses |= set(json.loads(path.read_bytes()))
        return addresses

    def sweep(self) -> None:
        """Delete what killed jobs left behind, and notes of plans, once they are old."""
        young = time.time() - ABANDONED_SECONDS
        for path in (*(self.root / PARTIAL).glob("*"), *(self.root / IN_USE).glob("*")):
            with suppress(OSError):
                if path.lstat().st_mtime < young:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
