"""What is checked before a run of a study starts, so that a line says what is wrong where Snakemake has a traceback."""

import os
import resource
import shlex
import tempfile
from base64 import urlsafe_b64decode
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from snakemake.common import get_appdirs

from pwfl.process import lock
from pwfl.stages import REPORT
from pwfl.workflow.publish import FOLDER as PUBLISHED

SNAKEMAKE = Path(".snakemake")
WRITTEN = (".pwfl", "logs", "results", "store")
ADDRESS_SPACE = 70 * 2**30  # bytes: the JavaScript engine V8 was measured to reserve 64 GiB, and libraries some more


class StartError(RuntimeError):
    """A run cannot start; the message says what is wrong, where, and what to do."""


def check(folder: Path, study: str, is_dry: bool) -> None:
    """Check what Snakemake needs before it reads the workflow of a study in a folder. Raises StartError."""
    check_folders(folder, study)
    cache = Path(get_appdirs().user_cache_dir, "snakemake")  # in HOME, by default
    check_writable([cache], "name another one: export XDG_CACHE_HOME=FOLDER")
    check_writable([] if is_dry else [folder, folder / SNAKEMAKE])


def check_address_space(rules: Collection[str]) -> None:
    """Raise StartError where this process, and so its jobs, may not reserve what figures need."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE and REPORT in rules:
        raise StartError(
            f"ulimit -v: {limit // 1024} KiB of address space are too little: what draws figures reserves, and does "
            f"not use, {ADDRESS_SPACE // 1024} KiB; type: ulimit -v unlimited"
        )


def check_counts(cores: int | None, jobs: int | None) -> None:
    """Raise StartError for numbers with which Snakemake starts no job, and does not end either."""
    for option, count, words in (("--cores", cores, "all"), ("--jobs", jobs, "unlimited")):
        if count is not None and count < 1:
            raise StartError(f"{option}: must be a number from 1, or {words}, is {count}")


def be_alone(base: Path, study: str) -> str | None:
    """Refuse a second run of a study in a folder: its first one holds a lock as long as its process lives.

    Returns a warning where the file system has no locks. Raises StartError, OSError.
    """
    path = _lock(base, study)
    try:
        missing = lock.take(path)
    except lock.HeldError as error:
        raise StartError(
            f"results/{study}: another run of this study writes into it, {error}; wait until that has ended, or run in "
            "another folder"
        ) from None
    warning = f"cannot be locked: {missing}; do not run the study {study!r} here again before this run has ended"
    return f"{path}: {warning}" if missing else None


def is_running(base: Path, study: str) -> bool:
    """Whether a run of a study is on in a folder."""
    return lock.is_taken(_lock(base, study))


def _lock(base: Path, study: str) -> Path:
    return base / ".pwfl" / f"{study}.lock"


def check_folders(base: Path, study: str) -> None:
    """Raise StartError where what a run writes into is no folder, such as a link to a share that is not mounted."""
    for path in folders(base, study):
        if path.is_symlink() and not path.exists():
            raise StartError(
                f"{path}: a link to a folder that is not there, {os.readlink(path)}; mount or create it, or delete the "
                f"link: rm {shlex.quote(str(path))}"
            )
        if path.exists() and not path.is_dir():
            raise StartError(
                f"{path}: is not a folder, but a run writes into a folder of this name; rename or delete it"
            )


def check_writable(paths: Iterable[Path], remedy: str = "run in another folder") -> None:
    """Raise StartError where nothing can be written into a folder, or into the nearest one that there is."""
    for path in paths:
        nearest = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
        try:
            tempfile.TemporaryFile(dir=nearest).close()
        except OSError as error:
            raise StartError(f"{nearest}: cannot be written: {error.strerror}; allow it, or {remedy}") from None


def folders(base: Path, study: str) -> list[Path]:
    """The folders that a run in the folder `base` writes into, the study's results and their records included."""
    results = base / "results" / study
    return [*(base / name for name in WRITTEN), results, results / PUBLISHED]


def forget_incomplete(base: Path, study: str) -> None:
    """Delete Snakemake's notes that a killed run left a study's outputs incomplete: the store says which are.

    A note has the name of the output in base 64, a long one in several folders.
    """
    folder, outputs = SNAKEMAKE / "incomplete", tuple(f"{base / name / study}/" for name in (".pwfl", "results"))
    for path in folder.rglob("*"):
        name = "".join(part.removeprefix("@") for part in path.relative_to(folder).parts)
        with suppress(ValueError):  # a file of another kind
            if path.is_file() and urlsafe_b64decode(name).decode().startswith(outputs):
                path.unlink(missing_ok=True)
