"""What reports hold, without importing what draws them."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pwfl.scenario.values import value_of

BARE = "#7F7F7F"  # the grey that schemes without noise have, and no others


class Outcome(NamedTuple):
    """A number that a realization comes to: its name with its unit, and whether more or less of it is better."""

    title: str
    better: Literal["more", "less"]
    format: str = ".6~g"


@dataclass(frozen=True)
class Catalog:
    """What the reports of a system's scenarios show."""

    # Figure -> the stages' tables that it is drawn from: `users`, `links` and `holdings` of the first chunk, others of
    # all schemes. Captions are in the system's folder captions/FIGURE.rst.
    figures: dict[str, tuple[str, ...]]
    tables: tuple[str, ...]  # of a scenario's report, beside those of all systems
    # A table of the report -> what those of its columns mean that no stage declares (`report.meanings`).
    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    private_figures: tuple[str, ...] = ()  # those of `figures` that are drawn from private columns (`tables.contract`)
    comparison_figures: tuple[str, ...] = ()  # figures that compare scenarios
    # Columns of the table `realizations` that points of a sweep are compared by, beside COMMON_OUTCOMES.
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    # (scheduler, noise) -> colour in all studies; dashes and shapes are by the place here, so a pair that is added
    # stands last. Pairs that have one colour are told apart by these.
    colours: dict[tuple[str, str], str] = field(default_factory=dict)
    # Parameters by which a scenario may be of other papers, too, with the values of the system's own.
    slots: dict[str, object] = field(default_factory=dict)
    tiny: dict = field(default_factory=dict)  # a scenario of seconds, for `pwfl.testing`
    # A parameter -> what the tiny scenario lacks to have two values of it.
    tiny_for: dict[str, dict] = field(default_factory=dict)
    uses_dataset: bool = False  # whether users hold samples that `pwfl.learning.partition.deal_out` deals out
    # Columns of the table `noise`, and their values where no noise is added, for `pwfl.testing`.
    zero_noise_values: dict[str, float] = field(default_factory=dict)
    user_noise: tuple[str, ...] = ()  # those of them that are noise that users add
    receiver_noise: tuple[str, ...] = ()  # those of them that are noise that no user adds
    # The paper whose system this is, an entry of `references` in the Citation File Format; those of built-in systems
    # are in CITATION.cff.
    paper: dict | None = None
    # Names of the studies that reimplement the paper, the full-size one first, of which its page is made (`paper.py`);
    # and the stages' tables that its curves are drawn from, beside the report's.
    studies: tuple[str, ...] = ()
    paper_reads: tuple[str, ...] = ()

    @property
    def all_tables(self) -> tuple[str, ...]:
        """The tables of a scenario's report that it has by itself, and those of all systems."""
        return *self.tables, GUARANTEES


# Of systems that train a network, with the stages' tables that they are drawn from.
ACCURACY_FIGURES = dict.fromkeys(("accuracy", "accuracy_seconds", "accuracy_joules"), ("history",))
# Of all systems; captions stand in the workflow's folder report/.
COMMON_FIGURES = {"holdings": ("holdings",), "audit": ("audit",)}  # holdings: where samples are dealt out
PRIVATE_FIGURES = ("holdings",)  # of these
GUARANTEES = "guarantees"  # table of all systems, by observer, unit of privacy and whose noise counts
COMMON_TABLES = ("audit",)
COMMON_OUTCOMES = {
    "accuracy": Outcome("Final test accuracy", "more", "~%"),
    "epsilon": Outcome("Record-level epsilon, scheme's observer", "less"),
    "epsilon_user": Outcome("User-level epsilon, scheme's observer", "less"),
    "epsilon_server": Outcome("Record-level epsilon, system's own server", "less"),
    "channel_uses": Outcome("Symbols on air", "less", "~s"),
    "transmit_energy_j": Outcome("Radiated energy (J)", "less"),
    "local_steps": Outcome("Local gradient steps a round", "less"),
}
# Of tables; others have their names in words.
TITLES = {
    "systems": "Schemes under common terms",
    "claims": "Claims and their verdicts",
    "summary": "Summary by scheme",
    "published": "Privacy if the whole study were published",
    "outcomes": "Outcomes of every scheme",
    "effects": "Effects of single choices",
    "front": "Pareto front",
    "audit": "Privacy audit",
    "realizations": "Single realizations",
    "history": "Histories of realizations",
    "statuses": "How schedules and noise were found",
}
# Tables of a study, whose columns `report.meanings` explains.
COMPARISON = ("systems", "claims", "summary", "published", "outcomes", "effects", "front")
FOR_PAPER = ("outcomes.tex", "effects.tex", "claims.tex", "references.bib")  # with `print: true`
# Of all points of a system; captions stand in the workflow's folder report/.
STUDY_FIGURES = ("result", "parameters", "rounds")


def table_title(name: str) -> str:
    """The title of a table of reports.

    >>> table_title("front"), table_title("my_own")
    ('Pareto front', 'My own')
    """
    return TITLES.get(name, name.replace("_", " ").capitalize())


def scenario_figures(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """A scenario's figures, the system's own and the common ones, with the tables that they are drawn from."""
    common = {name: needed for name, needed in COMMON_FIGURES.items() if name != "holdings" or catalog.uses_dataset}
    return catalog.figures | common


def private_figures(catalog: Catalog) -> list[str]:
    """The figures of `scenario_figures` that are drawn from private columns."""
    return [name for name in scenario_figures(catalog) if name in (*catalog.private_figures, *PRIVATE_FIGURES)]


def compared(catalog: Catalog, swept: bool, scenarios: int = 2) -> tuple[str, ...]:
    """The figures that compare points of a system, as far as they apply; the result comes first.

    `scenarios` is how many there are, `swept` whether any is a sweep's.
    """
    over_rounds = ("rounds",) if "accuracy" in catalog.figures else ()
    figures = catalog.comparison_figures if scenarios > 1 else ()
    return ("result", *(("parameters",) if swept else ()), *over_rounds, *figures)


def crossed(catalog: Catalog, scenario) -> list[str]:
    """By which slots a scenario departs from the system's paper, in words; empty: by none."""
    values = {key: value_of(scenario, key) for key in catalog.slots}
    return [f"{key}: {value}" for key, value in values.items() if value != catalog.slots[key]]
