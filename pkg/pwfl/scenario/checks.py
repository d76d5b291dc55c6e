"""Checks of a scenario beyond single parameters' allowed ranges, the files that it needs, and estimates of its cost.

Functions check what is common to all systems, and call the functions of the same names in the system's
`pwfl.system.Checks` for the rest. A system omits those that it does not need.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from importlib.util import decode_source
from pathlib import Path
from symtable import symtable
from typing import Any

from pwfl import registry
from pwfl.learning import datasets, sources
from pwfl.learning.features import GRIDS, PIXELS, requested
from pwfl.process import user_code
from pwfl.scenario.common import DataSource, Scenario
from pwfl.scenario.fields import functions, stages_of
from pwfl.scenario.values import value_of
from pwfl.store.files import TextError, content, decoded
from pwfl.store.imports import TooManyFilesError, file_of, find_user_files
from pwfl.system import Checks

LARGEST_CODE = 10**6  # bytes of a code file
# The key that lists the files a user-defined function reads, by the key that names the function; others: OWN_READS.
READS, OWN_READS = {"training.model": "training.model_reads"}, "own.reads"
OF_PARTITION = {"alpha": "dirichlet", "labels_per_user": "shards"}  # parameters that only one partition reads


def consistent(scenario: Scenario) -> None:
    """Check the constraints between parameters.

    Raises ValueError, `key: what is wrong; what would be right`, at the first violation.
    """
    if scenario.training_realizations > scenario.realizations:
        raise ValueError(
            f"training_realizations: {scenario.training_realizations} is more than realizations: "
            f"{scenario.realizations}; only realizations that exist can be trained: set training_realizations: "
            f"{scenario.realizations}, or less"
        )
    for keys in (("name",), ("scheduler", "noise")):
        values = Counter(tuple(getattr(scheme, key) for key in keys) for scheme in scenario.schemes)
        if twice := [value for value, count in values.items() if count > 1]:
            raise ValueError(f"schemes: {' and '.join(keys)} {' + '.join(twice[0])} appears twice; it must be unique")
    if isinstance(data := getattr(scenario, "data", None), DataSource):
        _check_images(scenario, data)
        if (kept := datasets.held_out(data)) >= (held := datasets.size(data).train):
            raise ValueError(
                f"data.reserved: {kept} leaves users no training samples: {_source(data)} has {held}; lower it"
            )
    _own(scenario).consistent(scenario)


def _check_images(scenario: Scenario, data: DataSource) -> None:
    """Raise ValueError if the requested features do not exist for records of the data set's shape."""
    kind, shape = requested(scenario), datasets.size(data).shape
    if kind != PIXELS and not (len(shape) == 2 and shape[0] == shape[1] and shape[0] in GRIDS):
        sides = " or ".join(f"{side} by {side}" for side in GRIDS)
        raise ValueError(
            f"training.features: {kind} require grey images of {sides} pixels, but records of "
            f"{_source(data)} have shape {shape}; use `pixels`, which accept any features"
        )


def problems(scenario: Scenario) -> list[str]:
    """List problems with the files, functions and solvers that the scenario needs, a line `key: problem` for each."""
    flaws = [f"{key}: {flaw}" for key, reference in _references(scenario).items() if (flaw := _flaw(reference))]
    flaws += [f"{key}: {flaw}" for key, path in _reads(scenario, _references(scenario)) if (flaw := _unreadable(path))]
    flaws += [] if flaws else _own(scenario).problems(scenario)
    if isinstance(data := getattr(scenario, "data", None), DataSource):
        return _data_problems(data) + flaws
    return flaws


def _data_problems(data: DataSource) -> list[str]:
    """Read a data set's files and list the first problem with them, if any; files that Keras downloads are not read."""
    if data.dataset != datasets.FILE:
        try:
            sources.check(data.dataset, data.folder)
        except datasets.DataError as error:
            return [f"data.folder: {error}"]
        return []
    try:
        data.describe_file()
    except ValueError as error:
        return [f"data.{error}"]
    try:
        sources.check_file(data.file, data.sha256, data.bounds and tuple(data.bounds))
    except datasets.DataError as error:
        return [f"data.file: {error}"]
    return []


def user_functions(scenario: Scenario, stage: str, variant: str | None = None) -> tuple[list[str], list[str]]:
    """Return the user-defined functions that a stage's variant runs, and the files that they are declared to read."""
    read = {stage, f"{stage}/{variant}"}
    named = {key: value_of(scenario, key) for key, readers in _find_functions(scenario).items() if readers & read}
    named = ({stage: variant} if variant and user_code.is_reference(variant) else {}) | named
    return list(named.values()), [path for _, path in _reads(scenario, named)]


def _may_name(scenario: Scenario) -> dict[str, set[str]]:
    """Return the stages that read each parameter that may name a user-defined function, by the parameter's key."""
    return {".".join(path): stages_of(field) for path, field in functions(type(scenario))}


def _find_functions(scenario: Scenario) -> dict[str, set[str]]:
    """Return the stages that read each parameter that names a user-defined function, by the parameter's key."""
    return {
        key: readers for key, readers in _may_name(scenario).items() if user_code.is_reference(value_of(scenario, key))
    }


def _references(scenario: Scenario) -> dict[str, str]:
    """Return the user-defined functions that a scenario names, by the keys that name them."""
    texts = {key: value_of(scenario, key) for key in _find_functions(scenario)}
    for scheme in scenario.schemes:
        texts |= {f"schemes: {scheme.name!r}: {part}": getattr(scheme, part) for part in ("scheduler", "noise")}
    return {key: text for key, text in texts.items() if user_code.is_reference(text)}


def _reads(scenario: Scenario, named: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield `(key, path)` of the files that user-defined functions may read; `named` are the functions' keys."""
    for key in dict.fromkeys(READS.get(key, OWN_READS) for key in named):
        yield from ((key, path) for path in value_of(scenario, key) or ())


def _unreadable(path: str) -> str | None:
    """Return why a file cannot be read; None: it can."""
    try:
        content(path)
    except OSError as error:
        return str(error)
    return None


def _flaw(reference: str) -> str | None:
    """Return the problem with a reference to a function; its code is read but not run. None: no problem."""
    where, function = user_code.split(reference)
    path = Path(where) if where.endswith(".py") else file_of(where)
    if path is None:
        return f"there is no module {where}; write a function in a file as FILE.py:{function}"
    if not path.is_file():
        return f"{where}: file not found"
    if path.stat().st_size > LARGEST_CODE:
        return f"{where}: is larger than a file of code may be: {path.stat().st_size} bytes, at most {LARGEST_CODE}"
    try:
        tree = ast.parse(
            source := decode_source(held := path.read_bytes())
        )  # the source may declare another encoding than UTF-8
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes, or bytes invalid in its encoding
        try:
            decoded(held)
        except TextError as no_text:
            return f"{where}: {no_text}"
        return f"{where}: is not valid Python: {error}"
    try:
        find_user_files(where)
    except TooManyFilesError as error:
        return str(error)
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in tree.body):
        return None  # the imported names are known only when it runs
    names = symtable(source, where, "exec").get_symbols()
    if function in (bound := [name.get_name() for name in names if name.is_assigned() or name.is_imported()]):
        return None
    known = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    near = get_close_matches(function, bound, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it defines {', '.join(known) or 'none'}"
    return f"{where}: defines no function {function}; {hint}"


def idle(scenario: Scenario) -> dict[str, str]:
    """Return the keys of parameters that have no effect, each with the setting that is the reason."""
    data = getattr(scenario, "data", None)
    named = {READS.get(key, OWN_READS) for key in _references(scenario)}
    keys = {
        READS[key]: f"{key}: {value}" for key in READS if (value := value_of(scenario, key)) and READS[key] not in named
    }
    keys |= {OWN_READS: "built-in schemes and airs"} if value_of(scenario, OWN_READS) and OWN_READS not in named else {}
    if isinstance(data, DataSource):
        others = (key for key, partition in OF_PARTITION.items() if partition != data.partition)
        keys |= {f"data.{key}": f"data.partition: {data.partition}" for key in others}
        if data.dataset != datasets.FILE:
            keys |= {
                f"data.{key}": f"data.dataset: {data.dataset}" for key in ("bounds", "sha256", "content", "release")
            }
    return keys | _own(scenario).idle(scenario)


def imports(scenario: Scenario) -> dict[str, str]:
    """Return the files of imported tables that the channel is made from, by the tables' names.

    The system's stage `imported` reads and checks them; the tables are the third argument of its `channel` function.
    """
    return _own(scenario).imports(scenario)


def imported_realizations(scenario: Scenario) -> int | None:
    """Return the number of realizations in the imported tables; None: no tables are imported."""
    return _own(scenario).imported_realizations(scenario)


def realization_bytes(scenario: Scenario) -> float:
    """Estimate the bytes of a realization's tables from parameters that the channel reads; 0: few."""
    bytes_of, table_bytes = _own(scenario).realization_bytes, _own(scenario).table_bytes
    return bytes_of(scenario) if bytes_of else table_bytes(scenario)[0]


def table_bytes(scenario: Scenario) -> tuple[float, float, str]:
    """Estimate the memory of a job on tables: bytes per realization, other bytes, and the keys that determine both."""
    return _own(scenario).table_bytes(scenario)


def training_bytes(scenario: Scenario) -> tuple[float, str]:
    """Estimate the memory of a training run in bytes, and return the keys that determine it."""
    return _own(scenario).training_bytes(scenario)


def audit_seconds(scenario: Scenario) -> float:
    """Estimate the core-seconds that a scheme's audit needs for its `canaries`; 0: few."""
    return _own(scenario).audit_seconds(scenario)


def available(data: DataSource) -> int:
    """Return the number of training records that users may hold."""
    return datasets.size(data).train - datasets.held_out(data)


def offer(data: DataSource) -> str:
    """Describe for a message how many training records users may hold, and how many are reserved."""
    kept = datasets.held_out(data)
    held_out = f"; another {kept} are reserved by data.reserved"
    return f"{_source(data)} has {available(data)}" + (held_out if kept else "")


def check_holdings(data: DataSource, key: str, samples: int, users_key: str, users: int) -> None:
    """Raise ValueError unless `users` users can hold `samples` records each; messages name the two parameters' keys."""
    if users * samples > (most := available(data)):
        raise ValueError(
            f"{key}: {users} users would hold {users * samples} samples, but {offer(data)}; lower {key} to "
            f"{most // users} or less, or {users_key}"
        )
    user_counts = data.content.users if data.content and data.partition == "given" else None
    if user_counts is not None and (able := sum(held >= samples for held in user_counts)) < users:
        raise ValueError(
            f"{key}: only {able} users of {data.file} hold at least {samples} training samples, but {users} are "
            f"needed; lower {key} or {users_key}"
        )


def _source(data: DataSource) -> str:
    """Return a data set's name for messages."""
    return data.file or data.dataset


def _own(scenario: Scenario) -> Checks[Any]:
    """Return the checks of the scenario's system."""
    return registry.system(scenario.system).checks
