"""What is checked before a run of a study starts, so that a line says what is wrong where Snakemake has a traceback."""

import os
import resource
import shlex
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from pwfl.process import lock
from pwfl.stages import GRAPH, REPORT
from pwfl.store.items import IN_USE, PARTIAL
from pwfl.workflow import reports
from pwfl.workflow.publish import FOLDER as PUBLISHED

SNAKEMAKE = Path(".snakemake")
INCOMPLETE = SNAKEMAKE / "incomplete"  # what Snakemake notes of outputs that jobs write, in a file each
WRITTEN = (".pwfl", "logs", "results", "store")
STORED = (PARTIAL, IN_USE, *GRAPH, *reports.JOBS)  # folders of the store
INNER = (  # folders that Snakemake makes, those of containers even where nothing needs them
    *("conda", "conda-archive", "singularity"),
    *("auxiliary", "incomplete", "iocache", "locks", "metadata", "scripts", "shadow"),
)

ADDRESS_SPACE = 70 * 2**30  # bytes: the JavaScript engine V8 was measured to reserve 64 GiB, and libraries some more


class StartError(RuntimeError):
    """A run cannot start; the message says what is wrong, where, and what to do."""


def check(folder: Path, study: str, is_dry: bool) -> None:
    """Check what Snakemake needs before it reads the workflow of a study in a folder. Raises StartError."""
    check_folders(folder, study, folder)
    if not is_dry:
        for path in (folder, folder / SNAKEMAKE):
            _check_writable(path)


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
    if not missing:
        return None
    return f"{path}: cannot be locked: {missing}; do not run the study {study!r} here again before this run has ended"


def is_running(base: Path, study: str) -> bool:
    """Whether a run of a study is on in a folder."""
    return lock.is_taken(_lock(base, study))


def _lock(base: Path, study: str) -> Path:
    return base / ".pwfl" / f"{study}.lock"


def check_folders(base: Path, study: str, home: Path = Path()) -> None:
    """Raise StartError where a run cannot use a folder that it writes into: in `base`; in `home` those of Snakemake."""
    inner = (home / SNAKEMAKE / name for name in ("", *INNER))
    stored = (base / "store" / name for name in STORED)
    for path in (*inner, *(base / name for name in WRITTEN), *stored, *_study_folders(base, study)):
        _check_folder(path)


def _check_folder(path: Path) -> None:
    if path.is_dir() or not os.path.lexists(path):
        return
    if path.is_symlink() and not path.exists():
        raise StartError(
            f"{path}: a link to a folder that is not there, {os.readlink(path)}; mount or create it, or delete the "
            f"link: rm {shlex.quote(str(path))}"
        )
    raise StartError(f"{path}: is not a folder, but a run writes into a folder of this name; rename or delete it")


def check_writable(base: Path, study: str) -> None:
    """Raise StartError where nothing can be written into a folder that a run in the folder `base` writes into."""
    for path in (base, SNAKEMAKE, *(base / name for name in WRITTEN), *_study_folders(base, study)):
        _check_writable(path)


def _check_writable(path: Path) -> None:
    try:
        if path.is_dir():
            tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise StartError(
            f"{path.absolute()}: cannot be written: {error.strerror}; allow it, or run in another folder"
        ) from None


def _study_folders(base: Path, study: str) -> tuple[Path, Path]:
    """The folders of a study's results, and of their records."""
    return base / "results" / study, base / "results" / study / PUBLISHED


def check_outputs(outputs: Sequence[str]) -> None:
    """Raise StartError where a folder is in the place of a file that Snakemake is to make, or no folder around it."""
    for path in map(Path, outputs):
        if path.is_dir():
            raise StartError(f"{path}: is a folder, but a run writes a file of this name; rename or delete it")
        _check_folder(path.parent)


def forget_incomplete(outputs: Sequence[str]) -> None:
    """Delete Snakemake's notes that a killed run left outputs incomplete: the store says which are."""
    if INCOMPLETE.is_dir() and any(INCOMPLETE.iterdir()):
        for path in _records(INCOMPLETE, outputs):
            path.unlink(missing_ok=True)


def _records(folder: Path, outputs: Iterable[str]) -> Iterator[Path]:
    """Where Snakemake keeps notes of outputs: by their names in base 64, in parts that a folder may hold."""
    length = os.pathconf(folder, "PC_NAME_MAX") - 1
    for output in outputs:
        name = urlsafe_b64encode(output.encode()).decode()
        *above, last = (name[start : start + length] for start in range(0, len(name), length))
        yield folder.joinpath(*(f"@{part}" for part in above), last)
