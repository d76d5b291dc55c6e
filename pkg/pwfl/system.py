"""The class of a system: one frozen object, with fields that a type checker verifies.

Planning imports it with the system's model, checks and catalog, and runs none of its stages. So a function is given by
a `lambda` that returns it, `lambda: channel.run`, from a `deferred` module. That module, with Polars, TensorFlow or
Altair, is imported when the function is first used. A type checker sees the module itself, and checks the function.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import dataframely as dy
    import polars as pl

F_co = TypeVar("F_co", covariant=True)
S = TypeVar("S")  # the system's scenarios
Tables = dict[str, "pl.DataFrame"]
Study = dict[str, dict]  # by scenario, the data of its report
NONE: Mapping[str, tuple[str, ...]] = {}


class Deferred:
    """A module that is imported when one of its attributes is used."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str):
        if name.startswith("__"):  # doctest and inspect look these up on everything in a module
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def deferred(package: str, modules: str) -> Iterator[Any]:
    """Return modules of a package, separated by blanks, as `Deferred`; a type checker sees their import instead."""
    return (Deferred(f"{package}.{module}") for module in modules.split())


@dataclass(frozen=True)
class Part(Generic[F_co]):
    """A stage's function, and the tables that it receives.

    Attributes
    ----------
    load
        Returns the function.
    reads
        The tables, if not those of `pwfl.stages.READS`.
    reads_of
        Tables of single variants, by name, if different; `own` is any user-defined function.
    makes
        Tables that it makes in addition to those of `pwfl.stages`.
    """

    load: Callable[[], F_co]
    reads: tuple[str, ...] | None = None
    reads_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    makes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """A scheduler or a noise scheme; systems add fields, such as a function and bounds, in a subclass.

    A system lists them by name in one place, its module `schemes`, from which the choices of its parameters, the status
    words of its tables and the functions that its stages run are derived.

    Attributes
    ----------
    description
        Its sentence in the reference of parameters.
    statuses
        Status words with which its stage can end; empty: its name.
    """

    description: str
    statuses: tuple[str, ...] = ()


def list_statuses(schemes: Mapping[str, Scheme], *others: str) -> tuple[str, ...]:
    """List the status words of schemes, given by name, and the others, with which any scheme may end."""
    return tuple(dict.fromkeys(word for name in schemes for word in schemes[name].statuses or (name,))) + others


@dataclass(frozen=True)
class Trainers(Generic[S]):
    """Functions that return trainers: of one realization, or of batches, with approximate bytes per realization.

    `several` raises NotImplementedError, with the reason, for a scenario that it cannot train.
    """

    one: "Callable[[S, Any, Tables], Callable[[int], pl.DataFrame]]"
    several: "Callable[[S, Any, Tables], tuple[Callable[[list[int]], dict[int, pl.DataFrame]], float]] | None" = None


@dataclass(frozen=True)
class Checks(Generic[S]):
    """A system's checks and estimates of a scenario before anything runs; see `pwfl.scenario.checks`."""

    consistent: Callable[[S], None] = lambda _: None
    problems: Callable[[S], list[str]] = lambda _: []
    idle: Callable[[S], dict[str, str]] = lambda _: {}
    imports: Callable[[S], dict[str, str]] = lambda _: {}
    imported_realizations: Callable[[S], int | None] = lambda _: None
    realization_bytes: Callable[[S], float] | None = None  # None: as `table_bytes`
    table_bytes: Callable[[S], tuple[float, float, str]] = lambda _: (0.0, 0.0, "")
    training_bytes: Callable[[S], tuple[float, str]] = lambda _: (0.0, "")
    audit_seconds: Callable[[S], float] = lambda _: 0.0


@dataclass(frozen=True)
class Report(Generic[S]):
    """Functions that make a system's report; charts are Altair's.

    Attributes
    ----------
    comparability
        Terms in which the system cannot be compared with others, and why.
    published
        Computes the privacy losses of releases, from rows of the table `realizations`; None: they are unknown.
    """

    summarize: Callable[[S, Tables], Tables]
    figures: Mapping[str, Callable[[S, Tables], Any]]
    comparability: str
    comparison_figures: Mapping[str, Callable[[Study], Any]] = field(default_factory=dict)
    published: "Callable[[S, pl.DataFrame], Iterable[Any]] | None" = None


@dataclass(frozen=True, kw_only=True)
class System(Generic[S]):
    """A system: the model of its scenarios, its stages' functions and tables, and the contents of its reports.

    Attributes
    ----------
    package
        The package with its code; the package's folder contains its captions.
    load_catalog
        Returns its `pwfl.report.catalog.Catalog`.
    load_schemas
        Returns the schemas of its tables by name, except those of all systems, and `realizations`, with columns that
        its report derives.
    imported
        Reads tables from outside, which `channel` then receives as its third argument; None: it imports none.
    receive
        None: its air is not linear.
    load_claims
        Returns a function that measures the paper's claims, from the scenarios' contents by name.
    load_paper
        Returns the content of the paper's page, a `pwfl.report.paper.Paper`; None: it has no such page.
    """

    name: str
    package: str
    model: type[S]
    load_catalog: Callable[[], Any]
    load_checks: Callable[[], Checks[S]] = Checks
    load_schemas: "Callable[[], Mapping[str, type[dy.Schema]]]"
    imported: Part[Callable[[dict[str, str]], Tables]] | None = None
    channel: Part[Callable[..., Tables]]
    schedule: Part[Callable[[S, str, Tables], Tables]]
    noise: Part[Callable[[S, str, Tables], Tables]]
    receive: Part[Callable[[S, Tables], Tables]] | None = None
    train: Part[Trainers[S]]
    account: Part[Callable[[S, Tables], Tables]]
    audit: Part[Callable[[S, Tables], Iterator[Any]]]
    load_report: Callable[[], Report[S]]
    load_claims: "Callable[[], Callable[[Study], pl.DataFrame]]"
    load_paper: Callable[[], Any] | None = None

    @cached_property
    def catalog(self) -> Any:
        """Contents of its scenarios' reports, a `pwfl.report.catalog.Catalog`."""
        return self.load_catalog()

    @cached_property
    def checks(self) -> Checks[S]:
        """Its checks and estimates of a scenario before anything runs."""
        return self.load_checks()

    @property
    def folder(self) -> Path:
        """The package's folder, which contains its captions."""
        return Path(str(import_module(self.package).__file__)).parent

    @cached_property
    def parts(self) -> dict[str, Part[Any]]:
        """Its stages and its audit, by name."""
        found = {
            "imported": self.imported,
            "channel": self.channel,
            "schedule": self.schedule,
            "noise": self.noise,
            "receive": self.receive,
            "train": self.train,
            "account": self.account,
            "audit": self.audit,
        }
        return {stage: part for stage, part in found.items() if part is not None}

    def reads(self, stage: str, variant: str | None) -> tuple[str, ...] | None:
        """Return the tables that a stage, a variant of it, or the audit receives; None: those of all systems."""
        part = self.parts.get(stage)
        return part.reads_of.get(str(variant), part.reads) if part else None
