"""Check a study's run before it starts, to print a line about a problem for which Snakemake prints a traceback."""

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
    """A run cannot start; the message contains the problem, its place and a remedy."""


def check(folder: Path, study: str, is_dry: bool) -> None:
    """Check the folders that Snakemake needs, before it reads a study's workflow. Raises StartError."""
    check_folders(folder, study)
    cache = Path(get_appdirs().user_cache_dir, "snakemake")  # in HOME, by default
    check_writable([cache], "name another one: export XDG_CACHE_HOME=FOLDER")
    check_writable([] if is_dry else [folder, folder / SNAKEMAKE])


def check_address_space(rules: Collection[str]) -> None:
    """Raise StartError if `rules` draw figures, and this process and so its jobs may not reserve enough addresses."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE and REPORT in rules:
        raise StartError(
            f"ulimit -v: {limit // 1024} KiB of address space are too little: what draws figures reserves, and does "
            f"not use, {ADDRESS_SPACE // 1024} KiB; type: ulimit -v unlimited"
        )


def check_counts(cores: int | None, jobs: int | None) -> None:
    """Raise StartError for numbers below 1, with which Snakemake would neither start a job nor end."""
    for option, count, words in (("--cores", cores, "all"), ("--jobs", jobs, "unlimited")):
        if count is not None and count < 1:
            raise StartError(f"{option}: must be a number from 1, or {words}, is {count}")


def be_alone(base: Path, study: str) -> str | None:
    """Refuse a second run of a study in a folder: the first one holds a lock until its process ends.

    Returns a warning if the file system has no locks. Raises StartError, OSError.
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
    """Return whether a run of a study is in progress in a folder."""
    return lock.is_taken(_lock(base, study))


def _lock(base: Path, study: str) -> Path:
    return base / ".pwfl" / f"{study}.lock"


def check_folders(base: Path, study: str) -> None:
    """Raise StartError if a run's output path is no folder, such as a link to a share that is not mounted."""
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
    """Raise StartError if nothing can be written into a folder, or into its nearest existing parent."""
    for path in paths:
        nearest = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
        try:
            tempfile.TemporaryFile(dir=nearest).close()
        except OSError as error:
            raise StartError(f"{nearest}: cannot be written: {error.strerror}; allow it, or {remedy}") from None


def folders(base: Path, study: str) -> list[Path]:
    """List the folders that a run in the folder `base` writes into, including the study's results and their records."""
    results = base / "results" / study
    return [*(base / name for name in WRITTEN), results, results / PUBLISHED]


def forget_incomplete(base: Path, study: str) -> None:
    """Delete Snakemake's notes that a killed run left a study's outputs incomplete: the store shows which are.

    A note's name is the path of the output in base 64; long ones are split into several folders.
    """
    folder, outputs = SNAKEMAKE / "incomplete", tuple(f"{base / name / study}/" for name in (".pwfl", "results"))
    for path in folder.rglob("*"):
        name = "".join(part.removeprefix("@") for part in path.relative_to(folder).parts)
        with suppress(ValueError):  # a file of another kind
            if path.is_file() and urlsafe_b64decode(name).decode().startswith(outputs):
                path.unlink(missing_ok=True)
