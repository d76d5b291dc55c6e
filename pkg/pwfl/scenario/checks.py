"""What a scenario must satisfy besides the bounds of single parameters, and what it needs of the machine.

Functions say what holds for all systems, and ask those of the same names in the system's module `checks` for what is
its own; a system leaves out those that it has no use for.
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

LARGEST_CODE = 10**6  # bytes of a file of code
# The key that lists the files which a function of the user's own reads, by the key that names it; of others OWN_READS.
READS, OWN_READS = {"training.model": "training.model_reads"}, "own.reads"
OF_PARTITION = {"alpha": "dirichlet", "labels_per_user": "shards"}  # parameters that only one of them reads


def consistent(scenario: Scenario) -> None:
    """Check what parameters must satisfy together.

    Raises ValueError, `key: what is wrong; what would be right`, at the first that do not.
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
    """Raise ValueError for features that records of the data's shape have not."""
    kind, shape = requested(scenario), datasets.size(data).shape
    if kind != PIXELS and not (len(shape) == 2 and shape[0] == shape[1] and shape[0] in GRIDS):
        sides = " or ".join(f"{side} by {side}" for side in GRIDS)
        raise ValueError(
            f"training.features: {kind} require grey images of {sides} pixels, but records of "
            f"{_source(data)} have shape {shape}; use `pixels`, which accept any features"
        )


def problems(scenario: Scenario) -> list[str]:
    """What the scenario needs besides itself and does not find, a line `key: problem` each."""
    flaws = [f"{key}: {flaw}" for key, reference in _references(scenario).items() if (flaw := _flaw(reference))]
    flaws += [f"{key}: {flaw}" for key, path in _reads(scenario, _references(scenario)) if (flaw := _unreadable(path))]
    flaws += [] if flaws else _own(scenario).problems(scenario)
    if isinstance(data := getattr(scenario, "data", None), DataSource):
        return _data_problems(data) + flaws
    return flaws


def _data_problems(data: DataSource) -> list[str]:
    """What is wrong with files of a data set, all of which are read."""
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
    """The functions of the user's own that a stage's variant runs, and the files that they are declared to read."""
    read = {stage, f"{stage}/{variant}"}
    named = {key: value_of(scenario, key) for key, readers in _find_functions(scenario).items() if readers & read}
    named = ({stage: variant} if variant and user_code.is_reference(variant) else {}) | named
    return list(named.values()), [path for _, path in _reads(scenario, named)]


def _may_name(scenario: Scenario) -> dict[str, set[str]]:
    """The stages that read each parameter, by its key, that may name a function of the user's own."""
    return {".".join(path): stages_of(field) for path, field in functions(type(scenario))}


def _find_functions(scenario: Scenario) -> dict[str, set[str]]:
    """The stages that read each parameter, by its key, that names a function of the user's own."""
    return {
        key: readers for key, readers in _may_name(scenario).items() if user_code.is_reference(value_of(scenario, key))
    }


def _references(scenario: Scenario) -> dict[str, str]:
    """The functions of the user's own that a scenario names, by the keys that name them."""
    texts = {key: value_of(scenario, key) for key in _find_functions(scenario)}
    for scheme in scenario.schemes:
        texts |= {f"schemes: {scheme.name!r}: {part}": getattr(scheme, part) for part in ("scheduler", "noise")}
    return {key: text for key, text in texts.items() if user_code.is_reference(text)}


def _reads(scenario: Scenario, named: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The files that functions of the user's own, of the keys that name them, may read, after the keys that say so."""
    for key in dict.fromkeys(READS.get(key, OWN_READS) for key in named):
        yield from ((key, path) for path in value_of(scenario, key) or ())


def _unreadable(path: str) -> str | None:
    """Why a file cannot be read; None: it can."""
    try:
        content(path)
    except OSError as error:
        return str(error)
    return None


def _flaw(reference: str) -> str | None:
    """What is wrong with the name of a function, whose code is read but not run; None: nothing."""
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
        )  # which may declare another encoding than UTF-8
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes, bytes that are not of its encoding
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
        return None  # what that brings is known when it is run
    names = symtable(source, where, "exec").get_symbols()
    if function in (bound := [name.get_name() for name in names if name.is_assigned() or name.is_imported()]):
        return None
    known = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    near = get_close_matches(function, bound, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it defines {', '.join(known) or 'none'}"
    return f"{where}: defines no function {function}; {hint}"


def idle(scenario: Scenario) -> dict[str, str]:
    """Keys of parameters that have no effect because of another one, and what that is."""
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
    """Files of tables from outside that the channel is made of, by the tables' names.

    `run(paths)` of the system's module `imported` checks and reads them; they are its `channel.run`'s third argument.
    """
    return _own(scenario).imports(scenario)


def imported_realizations(scenario: Scenario) -> int | None:
    """How many realizations the tables from outside have; None: there are no such tables."""
    return _own(scenario).imported_realizations(scenario)


def realization_bytes(scenario: Scenario) -> float:
    """About how many bytes a realization's tables take, by what the channel reads; 0: few."""
    bytes_of, table_bytes = _own(scenario).realization_bytes, _own(scenario).table_bytes
    return bytes_of(scenario) if bytes_of else table_bytes(scenario)[0]


def table_bytes(scenario: Scenario) -> tuple[float, float, str]:
    """About how many bytes a job on tables takes: for each realization, besides, and the keys that set both."""
    return _own(scenario).table_bytes(scenario)


def training_bytes(scenario: Scenario) -> tuple[float, str]:
    """About how many bytes a training takes, and the keys that set them."""
    return _own(scenario).training_bytes(scenario)


def audit_seconds(scenario: Scenario) -> float:
    """About how many core-seconds a scheme's audit takes because of its `canaries`; 0: they cost little."""
    return _own(scenario).audit_seconds(scenario)


def available(data: DataSource) -> int:
    """Training samples that users may hold."""
    return datasets.size(data).train - datasets.held_out(data)


def offer(data: DataSource) -> str:
    """What a message says of `available`."""
    kept = datasets.held_out(data)
    held_out = f"; another {kept} are reserved by data.reserved"
    return f"{_source(data)} has {available(data)}" + (held_out if kept else "")


def check_holdings(data: DataSource, key: str, samples: int, users_key: str, users: int) -> None:
    """Raise ValueError unless so many users can hold so many training samples each, which two parameters say."""
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
    """A data set's name in messages."""
    return data.file or data.dataset


def _own(scenario: Scenario) -> Checks[Any]:
    """What the scenario's system says of it."""
    return registry.system(scenario.system).checks
