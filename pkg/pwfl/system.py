"""What a system is: one frozen object, whose fields a type checker checks.

Planning imports it with the system's model, checks and catalog, and runs none of its stages. So a function is named by
a `lambda` that gives it, `lambda: channel.run`, of a module that is `deferred`: with Polars, TensorFlow or Altair, it
is imported when the function is asked for. A type checker sees the module itself, and holds the function to the field.
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
Study = dict[str, dict]  # by scenario, what reports know of it
NONE: Mapping[str, tuple[str, ...]] = {}


class Deferred:
    """A module that is imported when something of it is asked for."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str):
        if name.startswith("__"):  # what doctest and inspect ask of everything in a module
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def deferred(package: str, modules: str) -> Iterator[Any]:
    """Some modules of a package, separated by blanks; a type checker is shown their import instead."""
    return (Deferred(f"{package}.{module}") for module in modules.split())


@dataclass(frozen=True)
class Part(Generic[F_co]):
    """What a stage runs, and the tables that it gets.

    Attributes
    ----------
    load
        Gives the function.
    reads
        The tables, where these are not those of `pwfl.stages.READS`.
    reads_of
        Those of single variants, by name, where they differ; `own` is any function of the user's own.
    makes
        Tables that it makes beside those of `pwfl.stages`.
    """

    load: Callable[[], F_co]
    reads: tuple[str, ...] | None = None
    reads_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    makes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """A scheduler or a noise scheme: systems add to it what sets theirs apart, such as a function and bounds.

    A system lists each in one place, by names, in its module `schemes`; the choices of its parameters, the status words
    of its tables and what its stages run follow from there.

    Attributes
    ----------
    description
        Its sentence in the reference of parameters.
    statuses
        The words with which its stage can end; none: its name.
    """

    description: str
    statuses: tuple[str, ...] = ()


def list_statuses(schemes: Mapping[str, Scheme], *others: str) -> tuple[str, ...]:
    """The status words of schemes by names, and those that any may end with."""
    return tuple(dict.fromkeys(word for name in schemes for word in schemes[name].statuses or (name,))) + others


@dataclass(frozen=True)
class Trainers(Generic[S]):
    """What trains: one realization after the other, or several side by side, with about how many bytes one takes.

    `several` raises NotImplementedError for a scenario that it does not train, with the reason.
    """

    one: "Callable[[S, Any, Tables], Callable[[int], pl.DataFrame]]"
    several: "Callable[[S, Any, Tables], tuple[Callable[[list[int]], dict[int, pl.DataFrame]], float]] | None" = None


@dataclass(frozen=True)
class Checks(Generic[S]):
    """What a system says of a scenario before anything runs; see `pwfl.scenario.checks`."""

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
    """What a system's report is made by; charts are Altair's.

    Attributes
    ----------
    comparability
        In which terms the system cannot be compared with others, and why.
    published
        What releases cost, of rows of the table `realizations`; None: nothing is known of it.
    """

    summarize: Callable[[S, Tables], Tables]
    figures: Mapping[str, Callable[[S, Tables], Any]]
    comparability: str
    comparison_figures: Mapping[str, Callable[[Study], Any]] = field(default_factory=dict)
    published: "Callable[[S, pl.DataFrame], Iterable[Any]] | None" = None


@dataclass(frozen=True, kw_only=True)
class System(Generic[S]):
    """A system: how its scenarios are made, what each stage runs and reads, and what its reports show.

    Attributes
    ----------
    package
        Whose modules are its code, and whose folder holds its captions.
    load_catalog
        Gives its `pwfl.report.catalog.Catalog`.
    load_schemas
        Gives the schemas of its tables by name, those of all systems aside, and `realizations`, of columns that its
        report derives.
    imported
        What reads tables from outside, which `channel` then gets as its third argument; None: it takes none.
    receive
        None: its air is not linear.
    load_claims
        Gives a function that measures the paper's claims, of the scenarios' contents by their names.
    load_paper
        Gives what the paper's page shows, a `pwfl.report.paper.Paper`; None: it has none.
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
        """What the reports of its scenarios show, a `pwfl.report.catalog.Catalog`."""
        return self.load_catalog()

    @cached_property
    def checks(self) -> Checks[S]:
        """What it says of a scenario before anything runs."""
        return self.load_checks()

    @property
    def folder(self) -> Path:
        """The package's folder, which holds its captions."""
        return Path(str(import_module(self.package).__file__)).parent

    @cached_property
    def parts(self) -> dict[str, Part[Any]]:
        """What its stages and its audit run, by their names."""
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
        """The tables that a stage, or a variant of it, or the audit, gets; None: those of all systems."""
        part = self.parts.get(stage)
        return part.reads_of.get(str(variant), part.reads) if part else None
