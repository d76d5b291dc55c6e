"""The systems, found by name: those of this package, and others by entry points of the group `pwfl.systems`.

An entry point names the package that holds a system's modules:

    [project.entry-points."pwfl.systems"]
    one_bit = "one_bit"
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from pwfl.stages import STAGES

GROUP = "pwfl.systems"
BUILT_IN = ("multicell", "anonymous_oac", "random_orthogonalization", "utility_fair", "age_aware")


class RegistryError(LookupError):
    """A system that cannot be found or loaded."""


@dataclass(frozen=True)
class System:
    """A system's name and package, whose modules are loaded when they are asked for."""

    name: str
    package: str

    def part(self, module: str) -> ModuleType:
        """A module of the system: `scenario`, `catalog`, `tables`, one of a stage's name, or `claims`.

        Raises RegistryError where the package or the module is not there.
        """
        path = f"{self.package}.{module}"
        try:
            return import_module(path)
        except ModuleNotFoundError as error:
            if error.name and f"{path}.".startswith(f"{error.name}."):
                raise RegistryError(f"system {self.name!r} has no module {path}: {error}") from None
            raise  # something that the module itself imports

    @property
    def folder(self) -> Path:
        """The package's folder, which holds its captions."""
        return Path(self.part("catalog").__file__).parent

    @property
    def model(self):
        """The scenario's model, a subclass of `pwfl.scenario.common.Scenario`."""
        return self.part("scenario").MODEL

    @property
    def catalog(self):
        """What the system's stages read and its reports show, a `pwfl.report.catalog.Catalog`."""
        return self.part("catalog").CATALOG


def reads(name: str, stage: str, variant: str | None = None) -> tuple[str, ...]:
    """The tables that a variant of a stage reads, by the catalog of a system."""
    own = system(name).catalog.reads
    return own.get(f"{stage}/{variant}", own.get(stage, STAGES[stage].reads))


@cache
def systems() -> dict[str, System]:
    """All systems by name. Raises RegistryError where two packages claim a name."""
    found = {name: f"pwfl.systems.{name}" for name in BUILT_IN}
    for point in entry_points(group=GROUP):
        if found.setdefault(point.name, point.value) != point.value:
            raise RegistryError(
                f"system {point.name!r} is claimed by the packages {found[point.name]} and {point.value}; uninstall one"
            )
    return {name: System(name, package) for name, package in found.items()}


def system(name: str) -> System:
    """The system of a name. Raises RegistryError, with the known names, where there is none."""
    try:
        return systems()[name]
    except KeyError:
        raise RegistryError(f"there is no system {name!r}; known are {', '.join(systems())}") from None
