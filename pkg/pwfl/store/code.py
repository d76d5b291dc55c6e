"""The code in an address: the files that a stage's results may depend on.

A stage's code consists of its system's package and of the shared packages that compute, without the code for audits.
From the system's package, it excludes the modules of other stages, the audit, claims, papers and the report (the stage
noise includes `receive`, with which it meets a target). It also excludes modules that only declare: catalog, checks,
meanings of columns, and parameters, since the address contains their values. Code that stores, logs, plans or draws is
in no stage's address. Texts of exceptions and descriptions of columns do not count either.

The stages before the channel have no system's package, except `imported`. The audit's code includes the stages'
modules, since it runs them. A report job has its systems' packages without the stages' modules, the audit and meanings.
It also has the shared packages and all of `pwfl.report`, `pwfl.scenario` and `pwfl.workflow.reporting`.
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
    "registry.py",  # lists the tables that a stage reads
    "tables",
    "scenario/values.py",
    "stages.py",  # determines which function runs
    "streams.py",
    "system.py",  # determines which function runs
    "training",
)
DRAWS = ("report", "scenario", "workflow/reporting.py")
OF_AUDIT = ("report/columns.py",)
AUDITS = {f"{LIBRARY}/{name}" for name in ("privacy/audit", "training/audit", "training/audits")}
CLAIMS, PAPER = "claims", "paper"
MEANINGS = "meanings"  # module with descriptions of columns
WORDS = {"catalog", "checks", MEANINGS, "parameters"}  # modules of a system that only declare
UNREAD = ("__pycache__", "captions")  # folders; descriptions contain the captions
INSTALLED = (".dist-info", ".egg-info")  # folders of distributions, with versions in their names
MODULES = (".py", *EXTENSION_SUFFIXES)


def described(
    stage: str, sources: Sequence[str] = (), functions: Sequence[str] = (), reads: Sequence[str] = ()
) -> dict:
    """Describe a stage's code: a digest of it, versions of the packages that it imports, and the arguments given.

    Parameters
    ----------
    stage
        A stage of the graph, the audit, or a job of the report by any other name.
    sources
        The packages of systems, in full.
    functions
        User-defined functions that are run, as in a config: FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION.
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
    """Return the digest of each file that the `code` of a description covers, by the file's name."""
    sources, functions, reads = (description.get(key, ()) for key in ("sources", "functions", "reads"))
    return _all(description["stage"], sources, _find_user_files(functions), reads)


def _all(stage: str, sources: Iterable[str], users: Mapping[str, Path], reads: Iterable[str]) -> dict[str, str]:
    digests = dict(_digests(stage, tuple(sources)))
    digests |= {name: imports.parsed(path).digest for name, path in users.items()}
    return digests | {path: content(path) for path in reads}


def _find_user_files(functions: Iterable[str]) -> dict[str, Path]:
    """Find the files that user-defined functions depend on, by name."""
    paths = {}
    for function in functions:
        paths |= imports.find_user_files(function.rpartition(":")[0])
    return paths


def digest(files: Mapping[str, str]) -> str:
    """Combine the digests of several files into one."""
    return hashlib.sha256(json.dumps(dict(files), sort_keys=True).encode()).hexdigest()[:DIGITS]


@cache
def files(stage: str, packages: tuple[str, ...] = ()) -> Mapping[str, Path]:
    """List the files that are the code of a stage, or of a report job, by name."""
    rooms = COMPUTES + (() if stage in GRAPH else OF_AUDIT if stage == AUDIT else DRAWS)
    paths = {name: path for room in rooms for name, path in _in(ROOT / room, f"{LIBRARY}/{room}").items()}
    for package in packages:
        paths |= _find_system_files(package)
    stage_prefixes = [f"{package.replace('.', '/')}/" for package in (f"{LIBRARY}.execution", *packages)]
    left_out = {f"{folder}{module}" for folder in stage_prefixes for module in _left_out(stage)}
    left_out |= {f"{LIBRARY}/tables/{MEANINGS}"} | (set() if stage == AUDIT else AUDITS)
    return MappingProxyType({name: path for name, path in paths.items() if not _heads(name) & left_out})


def _left_out(stage: str) -> set[str]:
    """Return the names of modules of a system and of `pwfl.execution` that a stage's or report job's code excludes."""
    if stage in GRAPH:
        return {*GRAPH, AUDIT, CLAIMS, PAPER, REPORT, *WORDS} - {stage, "receive" if stage == "noise" else stage}
    return {CLAIMS, PAPER, REPORT, *WORDS} if stage == AUDIT else {*GRAPH, AUDIT, MEANINGS}


def _heads(name: str) -> set[str]:
    """Return the paths of a file and of all folders that contain it, without suffixes.

    >>> sorted(_heads("one_bit/train/steps.py"))
    ['one_bit', 'one_bit/train', 'one_bit/train/steps']
    """
    *folders, file = name.split("/")
    parts = [*folders, file.partition(".")[0]]
    return {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}


def _find_system_files(package: str) -> dict[str, Path]:
    """List the modules of a system's package, by name; outside pwfl, those of the whole top-level package."""
    top, _, inner = package.partition(".")
    room = ROOT / inner.replace(".", "/") if top == LIBRARY else imports.folder(top)
    paths = _in(room, package.replace(".", "/") if top == LIBRARY else top)
    return {name: path for name, path in paths.items() if name.endswith(MODULES)}


@cache
def _in(room: Path, name: str) -> dict[str, Path]:
    """List the files of a folder, or the file itself, by names that begin with `name`."""
    if room.is_file():
        return {name: room}
    inner = sorted(path for path in room.iterdir() if path.name not in UNREAD and not path.name.startswith("."))
    return {label: path for part in inner for label, path in _in(part, f"{name}/{part.name}").items()}


@cache
def stamp() -> str:
    """Compute a digest of all bytes of pwfl, and of the names and versions of all distributions.

    It is faster than `described`, but changes also if only a comment is edited.
    """
    state = hashlib.sha256()
    for name, path in _in(ROOT, LIBRARY).items():
        state.update(f"{name}\0".encode() + path.read_bytes())
    for folder in filter(os.path.isdir, dict.fromkeys(sys.path)):  # Snakemake's jobs have some twice
        state.update("\0".join(sorted(name for name in os.listdir(folder) if name.endswith(INSTALLED))).encode())
    return state.hexdigest()


@cache
def _describe_library(stage: str, sources: tuple[str, ...]) -> dict:
    """Describe a stage's code as `described` without user-defined functions; many sweep points share the result."""
    stamp()  # before anything is read, so that later changes are detected
    part = {"sources": list(sources)} if sources else {}
    versions = dict(sorted(_versions(stage, sources).items()))
    return part | {"code": digest(_digests(stage, sources)), "packages": versions}


@cache
def _digests(stage: str, packages: tuple[str, ...]) -> Mapping[str, str]:
    return MappingProxyType({name: _parsed(path).digest for name, path in files(stage, packages).items()})


@cache
def _versions(stage: str, packages: tuple[str, ...]) -> Mapping[str, str]:
    """Return the versions of the distributions that the files of a stage import, by top-level module."""
    named = {name for path in files(stage, packages).values() for name in _parsed(path).imports}
    return MappingProxyType(_installed(named, {package.partition(".")[0] for package in packages}))


def _installed(names: Iterable[str], but: Collection[str] = ()) -> dict[str, str]:
    """Return the versions of imported modules' distributions, by top-level module; without `but` and pwfl."""
    tops = {name.partition(".")[0] for name in names} - {"", LIBRARY, *but}
    return {top: version for top in tops if (version := imports.version(top))}


_parsed = cache(imports.parsed)  # cached, since this process keeps the modules that it loaded
