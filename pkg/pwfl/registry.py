"""The systems by name: those of this package, and others by entry points of the group `pwfl.systems`.

An entry point names a system's object, a `pwfl.system.System`, as MODULE:NAME:

    [project.entry-points."pwfl.systems"]
    one_bit = "one_bit.system:SYSTEM"
"""

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from pwfl.errors import describe
from pwfl.process import user_code
from pwfl.stages import GRAPH, READS, STAGES, Stage
from pwfl.system import System

GROUP = "pwfl.systems"
OWN = "own"  # the variant of user-defined functions
# The version of the interface between systems and pwfl; docs/upgrading.md lists the changes of each version.
INTERFACE = 5
CHANGED = {
    5: "a system is one object, a `pwfl.system.System`: write NAME/system.py as `pwfl new` shows it, and name it in "
    "pyproject.toml: NAME = 'NAME.system:SYSTEM'. `reads` and `makes` of the catalog are there, beside what each stage "
    "runs; `train` is `Trainers(one, several)`; `own`, `at` and `owned` of what a training starts with are `fixed`, "
    "`varying` and `user_records`; `training.audit.of_system` is `audit_system`, and `of_server` of "
    "`airs.linear.account` is `server_noise`; `tables.py` lists its schemas in SCHEMAS, whose "
    "columns are described by keyword (`key(description=...)`); `parameters.py` has no MODEL; figures have names at "
    "their curves, not legends: `theme.scenario_colours`, `name_ends` and `name_marks` replace `scheme_colour`, "
    "`scheme_dash`, `scheme_shape` and `tips`, and `theme.band` has no `form`",
    4: "epsilons are stated by `accountant.accounts`, `guarantees` and `stated` of `pwfl.privacy`: `receive`, or else "
    "`account`, makes a table `observers`, and `account` a table `guarantees`; the outcome's `epsilon_is`, "
    "`epsilon_user_is`, `guaranteed` and `guarantee` in words are `epsilon_kind`, `epsilon_user_kind`, `guarantee` "
    "(proved, conditional, none), `epsilon_assumes` and `epsilon_trusts`; `tables.contract.Received` is gone; each "
    "column of a table declares what it reveals, PUBLIC, NOISY (which was MODEL) or PRIVATE of `tables.contract`, "
    "whose PUBLIC in words is ALWAYS_PUBLIC; `claims.py` declares `report.claims.Claim` by keywords, with an id, a "
    "statement, a quantity and arithmetic on schemes, and `measure` returns the table; statistics are in "
    "`report.measures`; `DIFFERS` of `report.py` is `COMPARABILITY`, and columns of `theme.means` are `*_ci_low` and "
    "`*_ci_high`; `streams.of_noise` is `name_noise`, `Reception.of_users` `select_users`, `chance.of_scenario` "
    "`scenario_levels`, and `accountant.spent` `airs.linear.spent`",
    3: "a stage `receive` says what the air delivers, and `train`, `account` and `audit` read its tables; "
    "`learning.descent` is `training.plain`, `privacy.received` is `training.audit`; the outcome's `epsilon_exact` is "
    "`epsilon`, with `epsilon_is`, `epsilon_user`, `epsilon_user_is` and `taken_as_public` beside it",
    2: "a package declares its version; `deals` and `silent` of its catalog are `uses_dataset` and `zero_noise_values`"
    "; `tables.beside` is `joined`, `report.claims.alike` is `comparable`; `results.summary` takes the scenario first, "
    "`theme.means` the system's name last",
}
BUILT_IN = ("multicell", "anonymous_oac", "random_orthogonalization", "utility_fair", "age_aware")


class RegistryError(LookupError):
    """A system that cannot be found or loaded."""


@cache
def _load(name: str, value: str) -> System[Any]:
    """Load the system that an entry point names as MODULE:NAME. Raises RegistryError."""
    path, _, attribute = value.partition(":")
    _check_interface(name, (path.rpartition(".")[0] if attribute else path) or path)
    found = vars(_module(name, path)).get(attribute)
    if not isinstance(found, System):
        raise RegistryError(
            f"system {name!r}: its entry point {value!r} must name a pwfl.system.System, as MODULE:NAME, and names "
            f"{'a module' if not attribute else repr(found)}; see docs/how-to/own_system.md"
        )
    return found


def _module(name: str, path: str) -> ModuleType:
    """Import a module of a system. Raises RegistryError if it is missing or cannot be imported."""
    try:
        return import_module(path)
    except (Exception, SystemExit) as error:  # code of other people may raise anything
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{path}.".startswith(f"{missing}."):
            raise RegistryError(f"system {name!r} has no module {path}: {error}") from None
        raise RegistryError(f"system {name!r}: {path} cannot be imported: {describe(error)}") from error


def _check_interface(name: str, package: str) -> None:
    """Raise RegistryError for a package that was written for another version of the interface."""
    if package.partition(".")[0] == __name__.partition(".")[0]:
        return
    module = _module(name, package)
    if module.__file__ is None:  # a folder without __init__.py
        raise RegistryError(
            f"system {name!r}: the folder {next(iter(module.__path__))} hides its package {package}; run in another "
            'folder, or install it with `package-dir = {"" = "."}` in its pyproject.toml, as `pwfl new` writes it'
        )
    version = vars(module).get("INTERFACE", 1)
    if version == INTERFACE:
        return
    older = isinstance(version, int) and version < INTERFACE
    what = "; ".join(CHANGED[each] for each in CHANGED if each > version) if older else "it needs a newer pwfl"
    raise RegistryError(
        f"system {name!r}: its package {package} implements version {version} of the system interface, "
        f"but this pwfl has version {INTERFACE}: {what}. See 'Versions of the interface' in docs/upgrading.md; "
        f"then set INTERFACE = {INTERFACE} in {package}/__init__.py"
    )


def function(name: str, stage: str) -> Any:
    """Load the function (of `train`: `Trainers`) that a system's stage, or its audit, runs. Raises RegistryError."""
    part = system(name).parts.get(stage)
    if part is None:
        raise RegistryError(f"system {name!r} has no stage {stage}")
    try:
        return part.load()
    except RegistryError:
        raise
    except (Exception, SystemExit) as error:  # code of other people may raise anything
        raise RegistryError(f"system {name!r}: its {stage} cannot be loaded: {describe(error)}") from error


def reads(name: str, stage: str, variant: str | None = None) -> tuple[str, ...]:
    """Return the tables that a variant of a stage, or the audit, reads in a system."""
    variant = OWN if variant and user_code.is_reference(variant) else variant
    found = system(name).reads(stage, variant)
    return READS[stage] if found is None else found


@cache
def makes(name: str, stage: str) -> tuple[str, ...]:
    """Return the tables, or arrays, that a stage of a system makes: those of all systems, and those that it adds."""
    if stage in STAGES and stage not in stages(name):
        return ()
    part = system(name).parts.get(stage)
    return (*GRAPH[stage].makes, *(part.makes if part else ()))


@cache
def makers(name: str) -> dict[str, str]:
    """Return, for each table or array of a system, the stage that makes it, or would if the system had that stage."""
    return {table: stage for stage in GRAPH for table in (*GRAPH[stage].makes, *makes(name, stage))}


@cache
def stages(name: str) -> dict[str, Stage]:
    """Return the stages of a system: all, except `receive` if its air is not linear."""
    linear = system(name).receive is not None
    return {stage: declared for stage, declared in STAGES.items() if linear or stage != "receive"}


@cache
def claims() -> dict[str, tuple[str, ...]]:
    """Return the objects, MODULE:NAME, that claim each system's name. Raises RegistryError if none can be listed."""
    packages = {name: [f"pwfl.systems.{name}.system:SYSTEM"] for name in BUILT_IN}
    try:
        points = entry_points(group=GROUP)
    except Exception as error:  # a damaged installation
        raise RegistryError(f"entry points of installed packages cannot be read: {describe(error)}") from error
    for point in points:
        packages.setdefault(point.name, []).append(point.value)
    return {name: tuple(dict.fromkeys(claiming)) for name, claiming in packages.items()}


def systems() -> list[str]:
    """List the names of all systems, except those that several packages claim; none is loaded."""
    return [name for name, values in claims().items() if len(values) == 1]


def system(name: str) -> System[Any]:
    """Return the system of a name. Raises RegistryError if there is none, with the known names, or several."""
    if name not in claims():
        raise RegistryError(
            f"there is no system {name!r}; known: {', '.join(claims())}; an entry point registers another one "
            "(docs/how-to/own_system.md)"
        )
    if len(packages := claims()[name]) > 1:
        raise RegistryError(f"system {name!r} is claimed by the packages {' and '.join(packages)}; uninstall one")
    return _load(name, packages[0])
