"""Contents of reports (figures, tables, outcomes, titles), without importing the code that draws them."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pwfl.scenario.values import value_of

BARE = "#7F7F7F"  # grey, which only non-private baselines (schemes without noise) have


class Outcome(NamedTuple):
    """A number that each realization has: its title with unit, whether more or less is better, and its format."""

    title: str
    better: Literal["more", "less"]
    format: str = ".6~g"


@dataclass(frozen=True)
class Catalog:
    """Contents of the reports of a system's scenarios."""

    # Figure -> the stages' tables that it is drawn from: `users`, `links` and `holdings` of the first chunk of
    # realizations, other tables of all schemes. The caption is captions/FIGURE.rst in the system's folder.
    figures: dict[str, tuple[str, ...]]
    tables: tuple[str, ...]  # tables of a scenario's report, in addition to those of all systems
    # Table of the report -> meanings of its columns that no stage declares (`report.meanings`).
    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    private_figures: tuple[str, ...] = ()  # keys of `figures` drawn from private columns (`tables.contract`)
    comparison_figures: tuple[str, ...] = ()  # figures that compare scenarios
    # Columns of the table `realizations` by which sweep points are compared, in addition to COMMON_OUTCOMES.
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    # (scheduler, noise) -> colour in all studies. If a study has several pairs of one colour, the first of them here
    # keeps it and the others get free colours (`theme.scheme_colours`), so add a new pair last.
    colours: dict[tuple[str, str], str] = field(default_factory=dict)
    # Parameters by which a scenario may use parts of other papers -> values in the system's paper.
    slots: dict[str, object] = field(default_factory=dict)
    tiny: dict = field(default_factory=dict)  # parameters of a scenario that runs in seconds, for `pwfl.testing`
    # Parameter -> changes to the tiny scenario that are required before the parameter can have another value.
    tiny_for: dict[str, dict] = field(default_factory=dict)
    uses_dataset: bool = False  # whether `pwfl.learning.partition.deal_out` assigns records to users
    # Column of the table `noise` -> its value if no noise is added, for `pwfl.testing`.
    zero_noise_values: dict[str, float] = field(default_factory=dict)
    user_noise: tuple[str, ...] = ()  # those of these columns that are noise added by users
    receiver_noise: tuple[str, ...] = ()  # those of these columns that are noise added by no user
    # The system's paper, an entry of `references` in the Citation File Format; papers of built-in systems are in
    # CITATION.cff.
    paper: dict | None = None
    # Names of the studies that reimplement the paper, the full-size one first; each makes a page (`paper.py`).
    # `paper_reads`: stages' tables from which its curves are drawn, in addition to the report's tables.
    studies: tuple[str, ...] = ()
    paper_reads: tuple[str, ...] = ()

    @property
    def all_tables(self) -> tuple[str, ...]:
        """The tables of a scenario's report: the system's, and `guarantees` of all systems."""
        return *self.tables, GUARANTEES


# Figures of systems that train a network -> the stages' tables that they are drawn from.
ACCURACY_FIGURES = dict.fromkeys(("accuracy", "accuracy_seconds", "accuracy_joules"), ("history",))
# Figures of all systems; their captions are in the workflow's folder report/.
COMMON_FIGURES = {"holdings": ("holdings",), "audit": ("audit",)}  # holdings: only if `uses_dataset`
PRIVATE_FIGURES = ("holdings",)  # of COMMON_FIGURES
GUARANTEES = "guarantees"  # table of all systems, by observer, unit of privacy and sources of noise that count
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
# Titles of tables; other tables are titled by their names (`table_title`).
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
# Tables of a study; `report.meanings` explains their columns.
COMPARISON = ("systems", "claims", "summary", "published", "outcomes", "effects", "front")
FOR_PAPER = ("outcomes.tex", "effects.tex", "claims.tex", "references.bib")  # files of a study with `print: true`
# Figures of all points of a system; their captions are in the workflow's folder report/.
STUDY_FIGURES = ("result", "parameters", "rounds")


def table_title(name: str) -> str:
    """Return the title of a report's table.

    >>> table_title("front"), table_title("my_own")
    ('Pareto front', 'My own')
    """
    return TITLES.get(name, name.replace("_", " ").capitalize())


def scenario_figures(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Return a scenario's figures, the system's and the common ones, with the tables that they are drawn from."""
    common = {name: needed for name, needed in COMMON_FIGURES.items() if name != "holdings" or catalog.uses_dataset}
    return catalog.figures | common


def private_figures(catalog: Catalog) -> list[str]:
    """List the figures of `scenario_figures` that are drawn from private columns."""
    return [name for name in scenario_figures(catalog) if name in (*catalog.private_figures, *PRIVATE_FIGURES)]


def compared(catalog: Catalog, swept: bool, scenarios: int = 2) -> tuple[str, ...]:
    """List the figures that compare points of a system, as far as they apply; the result comes first.

    `scenarios` is the number of scenarios, `swept` whether any is a point of a sweep.
    """
    over_rounds = ("rounds",) if "accuracy" in catalog.figures else ()
    figures = catalog.comparison_figures if scenarios > 1 else ()
    return ("result", *(("parameters",) if swept else ()), *over_rounds, *figures)


def crossed(catalog: Catalog, scenario) -> list[str]:
    """Describe the `slots` in which a scenario departs from the system's paper; empty: none."""
    values = {key: value_of(scenario, key) for key in catalog.slots}
    return [f"{key}: {value}" for key, value in values.items() if value != catalog.slots[key]]
