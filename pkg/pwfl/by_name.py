"""Systems that are packages of modules with agreed names (docs/how-to/own_system.md), as objects.

To be deleted with the last of them: nothing else looks up a part of a system by its name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from pwfl.system import Checks, Part, Report, System, Trainers


@dataclass(frozen=True, kw_only=True)
class Modules(System[Any]):
    """A system whose modules are found by name, each loaded when it is asked for; its catalog says what stages read."""

    load: Callable[[str], ModuleType]

    @property
    def catalog(self) -> Any:
        """As its module has it now."""
        return self.load_catalog()

    @property
    def checks(self) -> Checks[Any]:
        """As its module has them now."""
        return self.load_checks()

    def part(self, module: str) -> ModuleType:
        """A module of its package."""
        return self.load(f"{self.package}.{module}")

    def reads(self, stage: str, variant: str | None) -> tuple[str, ...] | None:
        """See `System.reads`."""
        reads = self.catalog.reads
        return reads.get(f"{stage}/{variant}", reads.get(stage))


def system(name: str, package: str, load: Callable[[str], ModuleType]) -> System[Any]:
    """The object of a package; `load` gives its modules, by their paths. Raises LookupError for one without MODEL."""

    def declared(module: str, what: str) -> Any:
        try:
            return getattr(load(f"{package}.{module}"), what)
        except AttributeError:
            raise LookupError(f"system {name!r}: {package}.{module} declares no {what}") from None

    def part(stage: str, function: str = "run") -> Part[Any]:
        return Part(lambda: declared(stage, function))

    def some(module: str, names: Mapping[str, str]) -> dict[str, Any]:
        held = vars(load(f"{package}.{module}"))
        return {field: held[what] for field, what in names.items() if what in held}

    checks = {name: name for name in Checks.__dataclass_fields__}
    more = {"comparison_figures": "COMPARISON_FIGURES", "published": "published"}
    return Modules(
        name=name,
        package=package,
        model=declared("parameters", "MODEL"),
        load=load,
        load_catalog=lambda: declared("catalog", "CATALOG"),
        load_checks=lambda: Checks(**some("checks", checks)),
        load_schemas=lambda: _schemas(load(f"{package}.tables")),
        imported=part("imported"),
        channel=part("channel"),
        schedule=part("schedule"),
        noise=part("noise"),
        receive=part("receive") if _has(f"{package}.receive") else None,
        train=Part(lambda: Trainers(declared("train", "trainer"), **some("train", {"several": "batch_trainer"}))),
        account=part("account"),
        audit=part("audit", "verdicts"),
        load_report=lambda: Report(
            *(declared("report", what) for what in ("summarize", "FIGURES", "COMPARABILITY")), **some("report", more)
        ),
    )


_has = cache(lambda module: find_spec(module) is not None)


def _schemas(tables: ModuleType) -> dict[str, Any]:
    """The classes of a module by the tables' names, `ScheduleStatus` as `schedule_status`."""
    return {
        "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]: kind
        for name, kind in vars(tables).items()
        if isinstance(kind, type) and name[:1].isupper()
    }
