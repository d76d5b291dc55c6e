"""The systems, found by name: those of this package, and others by entry points of the group `pwfl.systems`.

An entry point names the package that holds a system's modules:

    [project.entry-points."pwfl.systems"]
    one_bit = "one_bit"
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from pwfl.errors import describe
from pwfl.process import user_code
from pwfl.stages import GRAPH, READS, STAGES, Stage

GROUP = "pwfl.systems"
OWN = "own"  # the variant that functions of users' own are
# The version of what systems and pwfl expect of each other; what changed with each is in docs/own_system.md.
INTERFACE = 4
CHANGED = {
    4: "epsilons are stated by `accountant.accounts`, `guarantees` and `stated` of `pwfl.privacy`: `receive`, or else "
    "`account`, makes a table `observers`, and `account` a table `guarantees`; the outcome's `epsilon_is`, "
    "`epsilon_user_is`, `guaranteed` and `guarantee` in words are `epsilon_kind`, `epsilon_user_kind`, `guarantee` "
    "(proved, conditional, none), `epsilon_assumes` and `epsilon_trusts`; `tables.contract.Received` is gone; each "
    "column of a table declares what it reveals, PUBLIC, NOISY (which was MODEL) or PRIVATE of `tables.contract`, "
    "whose PUBLIC in words is ALWAYS_PUBLIC; `claims.py` declares `report.claims.Claim` by keywords, with an id, a "
    "statement, a quantity and arithmetic on schemes, and `measure` returns the table; statistics are in "
    "`report.measures`",
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


@dataclass(frozen=True)
class System:
    """A system's name and package, whose modules are loaded when they are asked for."""

    name: str
    package: str

    def part(self, module: str) -> ModuleType:
        """A module of the system, such as `parameters`. Raises RegistryError if it is missing or cannot be imported."""
        path = f"{self.package}.{module}"
        try:
            _check_interface(self)
            return import_module(path)
        except RegistryError:
            raise
        except (Exception, SystemExit) as error:  # whatever code of somebody else does
            name = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
            if name and f"{path}.".startswith(f"{name}."):
                raise RegistryError(f"system {self.name!r} has no module {path}: {error}") from None
            raise RegistryError(f"system {self.name!r}: {path} cannot be imported: {describe(error)}") from error

    def _declared(self, module: str, what: str):
        """What a module of the system must declare. Raises RegistryError."""
        try:
            return getattr(self.part(module), what)
        except AttributeError:
            raise RegistryError(f"system {self.name!r}: {self.package}.{module} declares no {what}") from None

    @property
    def folder(self) -> Path:
        """The package's folder, which holds its captions."""
        return Path(str(self.part("catalog").__file__)).parent

    @property
    def model(self):
        """The scenario's model, a subclass of `pwfl.scenario.common.Scenario`."""
        return self._declared("parameters", "MODEL")

    @property
    def catalog(self):
        """What the system's stages read and its reports show, a `pwfl.report.catalog.Catalog`."""
        return self._declared("catalog", "CATALOG")


def _check_interface(system: System) -> None:
    """Raise RegistryError for a package that was written for another version of the interface."""
    if system.package.partition(".")[0] == __name__.partition(".")[0]:
        return
    version = getattr(import_module(system.package), "INTERFACE", 1)
    if version == INTERFACE:
        return
    older = isinstance(version, int) and version < INTERFACE
    what = "; ".join(CHANGED[each] for each in CHANGED if each > version) if older else "it needs a newer pwfl"
    raise RegistryError(
        f"system {system.name!r}: its package {system.package} implements version {version} of the system interface, "
        f"but this pwfl has version {INTERFACE}: {what}. See 'Versions of the interface' in docs/own_system.md; then "
        f"set INTERFACE = {INTERFACE} in {system.package}/__init__.py"
    )


def reads(name: str, stage: str, variant: str | None = None) -> tuple[str, ...]:
    """The tables that a variant of a stage, or the audit, reads, by the catalog of a system."""
    own = system(name).catalog.reads
    variant = OWN if variant and user_code.is_reference(variant) else variant
    return own.get(f"{stage}/{variant}", own.get(stage, READS[stage]))


@cache
def makes(name: str, stage: str) -> tuple[str, ...]:
    """The tables, or arrays, that a stage of a system makes: those of all systems, and those that its catalog adds."""
    if stage in STAGES and stage not in stages(name):
        return ()
    return (*GRAPH[stage].makes, *system(name).catalog.makes.get(stage, ()))


@cache
def makers(name: str) -> dict[str, str]:
    """By each table, or array, of a system: the stage that makes it, or would if the system had that stage."""
    return {table: stage for stage in GRAPH for table in (*GRAPH[stage].makes, *makes(name, stage))}


@cache
def stages(name: str) -> dict[str, Stage]:
    """The stages that a system has: all, but `receive` where its air is not linear."""
    linear = find_spec(f"{system(name).package}.receive") is not None
    return {stage: declared for stage, declared in STAGES.items() if linear or stage != "receive"}


@cache
def claims() -> dict[str, tuple[str, ...]]:
    """The packages that claim each system's name. Raises RegistryError where what is installed cannot be listed."""
    packages = {name: [f"pwfl.systems.{name}"] for name in BUILT_IN}
    try:
        points = entry_points(group=GROUP)
    except Exception as error:  # of a damaged installation
        raise RegistryError(f"entry points of installed packages cannot be read: {describe(error)}") from error
    for point in points:
        packages.setdefault(point.name, []).append(point.value)
    return {name: tuple(dict.fromkeys(claiming)) for name, claiming in packages.items()}


def systems() -> dict[str, System]:
    """All systems by name, without names that several packages claim."""
    return {name: System(name, packages[0]) for name, packages in claims().items() if len(packages) == 1}


def system(name: str) -> System:
    """The system of a name. Raises RegistryError where there is none, with the known names, or more than one."""
    if name not in claims():
        raise RegistryError(f"there is no system {name!r}; known: {', '.join(claims())}")
    if len(packages := claims()[name]) > 1:
        raise RegistryError(f"system {name!r} is claimed by the packages {' and '.join(packages)}; uninstall one")
    return System(name, packages[0])
