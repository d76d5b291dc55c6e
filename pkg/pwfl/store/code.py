"""The code in an address: the files that a stage's results may depend on.

A stage's code is its system's package without the other stages' modules (noise has that of receive, by which it meets a
target), the audit, the claims and the report, and without what only declares: catalog, checks, meanings of columns and
parameters, whose values are in the address by themselves. With it count the shared packages that compute, without what
only audits run. What keeps, logs, plans or draws is in no stage's address, and neither is what an exception says, nor
how a column is described.

The stages before the channel have no system's package, except `imported`. The audit's code includes the stages'
modules, as it runs them. The report's jobs have their systems' packages without the stages' modules, the audit and
meanings, the shared packages, and all of `pwfl.report`, `pwfl.scenario` and `pwfl.workflow.reporting`.
"""

import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import MappingProxyType

from pwfl.stages import AUDIT, GRAPH, REPORT
from pwfl.store import imports
from pwfl.store.files import content
from pwfl.store.imports import DIGITS, LIBRARY

ROOT = Path(__file__).parent.parent  # the package pwfl
COMPUTES = (
    "execution",
    "airs",
    "learning",
    "privacy",
    "process/tensorflow.py",
    "process/user_code.py",
    "radio",
    "registry.py",  # says which tables a stage reads
    "tables",
    "scenario/values.py",
    "stages.py",  # says which function runs
    "streams.py",
    "system.py",  # says which function runs
    "training",
)
DRAWS = ("report", "scenario", "workflow/reporting.py")
OF_AUDIT = ("report/columns.py",)
AUDITS = {f"{LIBRARY}/{name}" for name in ("privacy/audit", "training/audit", "training/audits")}
CLAIMS, PAPER = "claims", "paper"
MEANINGS = "meanings"  # of columns, of which schemas are described
WORDS = {"catalog", "checks", MEANINGS, "parameters"}  # modules of a system that say what is drawn, meant, refused
UNREAD = ("__pycache__", "captions")  # folders; descriptions hold the captions
INSTALLED = (".dist-info", ".egg-info")  # folders of distributions, named by their versions
MODULES = (".py", *EXTENSION_SUFFIXES)


def described(
    stage: str, sources: Sequence[str] = (), functions: Sequence[str] = (), reads: Sequence[str] = ()
) -> dict:
    """The part of a description that is about code.

    Parameters
    ----------
    stage
        A stage of the graph, the audit, or a job of the report by any other name.
    sources
        The packages of systems, in full.
    functions
        What is run of the user's own, as a config names it: FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION.
    reads
        The files that these functions read.
    """
    if not (functions or reads):
        return _describe_library(stage, tuple(sources))
    asked = {"sources": sources, "functions": functions, "reads": reads}
    part = {key: list(values) for key, values in asked.items() if values}
    users = _find_user_files(functions)
    named = {name for path in users.values() for name in imports.parsed(path).imports}
    versions = dict(_versions(stage, tuple(sources))) | _installed(named)
    digests = _all(stage, sources, users, reads)
    return part | {"code": digest(digests), "packages": dict(sorted(versions.items()))}


def digest_files(description: Mapping) -> dict[str, str]:
    """The digest of each file that the code of a description's `code` is of, by the file's name."""
    sources, functions, reads = (description.get(key, ()) for key in ("sources", "functions", "reads"))
    return _all(description["stage"], sources, _find_user_files(functions), reads)


def _all(stage: str, sources: Iterable[str], users: Mapping[str, Path], reads: Iterable[str]) -> dict[str, str]:
    digests = dict(_digests(stage, tuple(sources)))
    digests |= {name: imports.parsed(path).digest for name, path in users.items()}
    return digests | {path: content(path) for path in reads}


def _find_user_files(functions: Iterable[str]) -> dict[str, Path]:
    """The files that count with functions of the user's own, by their names."""
    paths = {}
    for function in functions:
        paths |= imports.find_user_files(function.rpartition(":")[0])
    return paths


def digest(files: Mapping[str, str]) -> str:
    """One digest of those of several files."""
    return hashlib.sha256(json.dumps(dict(files), sort_keys=True).encode()).hexdigest()[:DIGITS]


@cache
def files(stage: str, packages: tuple[str, ...] = ()) -> Mapping[str, Path]:
    """The files that are the code of a stage, or of a job of the report, by their names."""
    rooms = COMPUTES + (() if stage in GRAPH else OF_AUDIT if stage == AUDIT else DRAWS)
    paths = {name: path for room in rooms for name, path in _in(ROOT / room, f"{LIBRARY}/{room}").items()}
    for package in packages:
        paths |= _find_system_files(package)
    stage_prefixes = [f"{package.replace('.', '/')}/" for package in (f"{LIBRARY}.execution", *packages)]
    left_out = {f"{folder}{module}" for folder in stage_prefixes for module in _left_out(stage)}
    left_out |= {f"{LIBRARY}/tables/{MEANINGS}"} | (set() if stage == AUDIT else AUDITS)
    return MappingProxyType({name: path for name, path in paths.items() if not _heads(name) & left_out})


def _left_out(stage: str) -> set[str]:
    """The names of modules of a system and of `pwfl.execution` that are no code of a stage, or of a report's job."""
    if stage in GRAPH:
        return {*GRAPH, AUDIT, CLAIMS, PAPER, REPORT, *WORDS} - {stage, "receive" if stage == "noise" else stage}
    return {CLAIMS, PAPER, REPORT, *WORDS} if stage == AUDIT else {*GRAPH, AUDIT, MEANINGS}


def _heads(name: str) -> set[str]:
    """The folders that a file lies in, and itself, without suffixes.

    >>> sorted(_heads("one_bit/train/steps.py"))
    ['one_bit', 'one_bit/train', 'one_bit/train/steps']
    """
    *folders, file = name.split("/")
    parts = [*folders, file.partition(".")[0]]
    return {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}


def _find_system_files(package: str) -> dict[str, Path]:
    """The modules of a system's package by their names; of the whole top-level package, where that is not pwfl."""
    top, _, inner = package.partition(".")
    room = ROOT / inner.replace(".", "/") if top == LIBRARY else imports.folder(top)
    paths = _in(room, package.replace(".", "/") if top == LIBRARY else top)
    return {name: path for name, path in paths.items() if name.endswith(MODULES)}


@cache
def _in(room: Path, name: str) -> dict[str, Path]:
    """The files of a folder, or the file itself, by names that begin with that of the room."""
    if room.is_file():
        return {name: room}
    inner = sorted(path for path in room.iterdir() if path.name not in UNREAD and not path.name.startswith("."))
    return {label: path for part in inner for label, path in _in(part, f"{name}/{part.name}").items()}


@cache
def stamp() -> str:
    """A digest of all bytes of pwfl, and of the names of all distributions: while it is the same, so are all versions.

    It is sooner known than what `described` says, which takes an edit of a comment for no change.
    """
    state = hashlib.sha256()
    for name, path in _in(ROOT, LIBRARY).items():
        state.update(f"{name}\0".encode() + path.read_bytes())
    for folder in filter(os.path.isdir, dict.fromkeys(sys.path)):  # jobs of Snakemake have some twice
        state.update("\0".join(sorted(name for name in os.listdir(folder) if name.endswith(INSTALLED))).encode())
    return state.hexdigest()


@cache
def _describe_library(stage: str, sources: tuple[str, ...]) -> dict:
    """As `described`, without anything of the user's; descriptions of many points of a sweep share it."""
    stamp()  # before anything is read, so that what changes meanwhile is seen
    part = {"sources": list(sources)} if sources else {}
    versions = dict(sorted(_versions(stage, sources).items()))
    return part | {"code": digest(_digests(stage, sources)), "packages": versions}


@cache
def _digests(stage: str, packages: tuple[str, ...]) -> Mapping[str, str]:
    return MappingProxyType({name: _parsed(path).digest for name, path in files(stage, packages).items()})


@cache
def _versions(stage: str, packages: tuple[str, ...]) -> Mapping[str, str]:
    """Versions of the distributions that the files of a stage import, by the top-level module."""
    named = {name for path in files(stage, packages).values() for name in _parsed(path).imports}
    return MappingProxyType(_installed(named, {package.partition(".")[0] for package in packages}))


def _installed(names: Iterable[str], but: Collection[str] = ()) -> dict[str, str]:
    """Versions of the distributions of imported modules, by the top-level module; of none in `but`, nor of pwfl."""
    tops = {name.partition(".")[0] for name in names} - {"", LIBRARY, *but}
    return {top: version for top in tops if (version := imports.version(top))}


_parsed = cache(imports.parsed)  # as it was when this process first asked: it goes on with the modules that it loaded
