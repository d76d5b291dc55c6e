"""Items of the store: folders `STAGE/ADDRESS`, or `STAGE/ADDRESS/CHUNK`, that appear at once, with all their files.

An item is computed only if it does not exist. Complete items are replaced only if Snakemake is to compute them again.
If another process has made an item meanwhile, that one is kept, since equal addresses have equal content. So concurrent
runs need no locks, even on different machines.
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

PARTIAL = ".partial"  # folder of the store: items that are being computed or written
IN_USE = ".in_use"  # folder of the store: addresses that recent plans need
ABANDONED_SECONDS = 7 * 24 * 3600.0  # after which a partial folder counts as a killed job's
DESCRIPTION, COST = "description.json", ".cost.json"  # no figure or table has these names


def key_of(path: str) -> str:
    """Return the key of the item to which a file of the store belongs, STAGE/ADDRESS or STAGE/ADDRESS/CHUNK."""
    return path.rpartition("/")[0]


def read_note(path: Path) -> dict:
    """Read a JSON object from a file; an empty one if there is none, or it is damaged."""
    with suppress(OSError, ValueError):
        if isinstance(held := json.loads(path.read_bytes()), dict):
            return held
    return {}


class Store(NamedTuple):
    """The result store in a folder."""

    root: Path

    def path(self, key: str) -> Path:
        """Return the path of an item, or of a file of one, STAGE/ADDRESS/CHUNK/FILE."""
        return self.root / key

    def has(self, key: str, files: Collection[str], old: int | None = None) -> bool:
        """Return whether an item exists, with all of its files; with `old`, an item with another stamp than this."""
        return all((self.root / key / name).exists() for name in files) and (old is None or self.stamp(key) != old)

    def lacking(self, items: Iterable[dict]) -> list[dict]:
        """List a manifest's items that are missing; one with a stamp `old` is, until another one has replaced it."""
        return [item for item in items if not self.has(item["key"], item["files"], item.get("old"))]

    def note_old(self, items: Iterable[dict]) -> list[dict]:
        """Set the stamps of a manifest's existing items as `old`, so that they count as missing; return these items."""
        present = [item for item in items if self.has(item["key"], item["files"])]
        for item in present:
            item["old"] = self.stamp(item["key"])
        return present

    def stamp(self, key: str) -> int:
        """Return the inode of an item's folder, which differs from that of an item that replaces it."""
        return (self.root / key).stat().st_ino

    def bits(self, item: dict) -> tuple[str | None, list[str]]:
        """Return the kind of processor that computed a manifest's item (None: unknown), and its files' digests."""
        processor = read_note(self.root / item["key"] / COST).get("processor")
        return processor, [content(str(self.root / item["key"] / name)) for name in item["files"]]

    @contextmanager
    def workspace(self) -> Generator[Path]:
        """Yield a folder for a process's results; it is deleted at the end, or by `sweep` if the process is killed."""
        folder = self.root / PARTIAL / uuid.uuid4().hex
        with room_for(folder):
            folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def create(self, key: str, files: Collection[str], workspace: Path, old: int | None = None) -> Generator[Path]:
        """Yield a folder to write an item's files into, which becomes the item when the block ends without an error.

        It replaces only an item that lacks files, or the one with the stamp `old`.
        """
        partial, target = workspace / key, self.root / key
        with room_for(target):
            partial.mkdir(parents=True, exist_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            yield partial
            if target.exists() and not self.has(key, files, old):
                with suppress(OSError):  # another process is replacing it, too
                    target.rename(workspace / f"incomplete-{uuid.uuid4().hex}")
            try:
                partial.rename(target)
            except OSError:
                if not self.has(key, files):
                    raise

    def announce(self, keys: Collection[str], workspace: Path) -> None:
        """Announce to other processes the items that are being computed in a workspace."""
        with room_for(self.root):
            for key in keys:
                (workspace / key).mkdir(parents=True, exist_ok=True)

    def is_announced(self, key: str, seconds: float) -> bool:
        """Return whether another process began to compute an item, at most so many seconds ago."""
        earliest = time.time() - seconds
        for path in (self.root / PARTIAL).glob(f"*/{key}"):
            with suppress(OSError):  # it is finished by now
                if path.stat().st_ctime > earliest:
                    return True
        return False

    def describe(self, description: dict) -> None:
        """Write an address's description into its folder, unless it is there."""
        path = self.root / description["stage"] / description["address"] / DESCRIPTION
        if not (path.is_file() and description["address"].encode() in path.read_bytes()):
            write_bytes(json.dumps(description, indent=1).encode(), path)

    def use(self, plan: str, addresses: Collection[str]) -> None:
        """Record the addresses that a plan needs, so that pruning the store keeps them."""
        folder = self.root / IN_USE
        with room_for(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_bytes(json.dumps(sorted(addresses)).encode(), folder / f"{plan}.json")

    def in_use(self) -> set[str]:
        """Return the addresses that plans of the last week need."""
        addresses, young = set(), time.time() - ABANDONED_SECONDS
        for path in (self.root / IN_USE).glob("*.json"):
            with suppress(OSError, ValueError):
                if path.stat().st_mtime >= young:
                    addresses |= set(json.loads(path.read_bytes()))
        return addresses

    def sweep(self) -> None:
        """Delete files that killed jobs left, and records of plans, once they are old."""
        young = time.time() - ABANDONED_SECONDS
        for path in (*(self.root / PARTIAL).glob("*"), *(self.root / IN_USE).glob("*")):
            with suppress(OSError):
                if path.lstat().st_mtime < young:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
