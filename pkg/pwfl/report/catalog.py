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
    tables: dict[str, str]  # table of a scenario's report -> caption
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
    def all_tables(self) -> dict[str, str]:
        """The tables of a scenario's report that it has by itself, and those of all systems."""
        return self.tables | GUARANTEES


# Of systems that train a network, with the stages' tables that they are drawn from.
ACCURACY_FIGURES = dict.fromkeys(("accuracy", "accuracy_seconds", "accuracy_joules"), ("history",))
# Of all systems; captions stand in the workflow's folder report/.
COMMON_FIGURES = {"holdings": ("holdings",), "audit": ("audit",)}  # holdings: where samples are dealt out
PRIVATE_FIGURES = ("holdings",)  # of these
GUARANTEES = {
    "guarantees": "What the worst-off user of each realization has, of each scheme, against each observer, by unit of "
    "privacy and whose noise counts: epsilon, what kind of a number that is, what it assumes of nature and data, whom "
    "it trusts, and the best attack's rate of true positives at 1% false positives.",
}
COMMON_TABLES = {
    "audit": "Tests of the code that trains, of each scheme, in the realization whose worst record is worst off: what "
    "was measured, what is stated, between which values it may be, and the smallest error that is detected, in words.",
}
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
# Of a study: tables and their captions, and figures where there are several systems.
COMPARISON = {
    "systems": "Every scheme of every scenario under common terms: final accuracy, of which model, over how many "
    "trainings, and how many of these had no user scheduled; record-level epsilon at delta, against all that the "
    "system's own server receives if nobody is trusted, and against the observer whom the scheme reckons with, and "
    "user-level epsilon against the latter; what stands behind them, what they assume and whom they trust; local "
    "steps; symbols and seconds on air, which follow from the scenario's bandwidth; transmit energy, which compares "
    "only where the energy scope is the same.",
    "claims": "The papers' claims and this project's, one row per claim, scenario and interpretation: where the paper "
    "says it, what it reports, what was measured with its 95% interval over realizations, the range in which it must "
    "lie, whether that range follows from the paper or is this project's, and the verdict: supported, refuted, "
    "inconclusive where the interval decides neither, or not measured. A paper's claim is judged in the paper's "
    "setting alone: rows in another setting have no verdict. `no_user_scheduled`: in how many of the realizations a "
    "scheme that is compared has no user scheduled. Interpretations (I1, I2, ...) are on the system's page in docs/.",
    "summary": "The summaries of all scenarios of the study.",
    "published": "Were all of the study published: for each data set, epsilon of all releases together, composed by "
    "their privacy losses, not added up. A release is a training with noise, of one realization, and all that its "
    "server receives; equal ones count once, realizations that are not trained do not. Each counts by its worst "
    "record, so epsilon is an upper bound for every one; a record that changes in time counts with all its values. "
    "Where each realization draws records of its own, epsilon is the largest of a realization. `guarantee`: the "
    "weakest of the releases'. `left_out`: schemes without any epsilon, and why; columns of tables that are computed "
    "of records without noise are not counted, either.",
    "outcomes": "What every scheme of every scenario came to: mean over realizations with its 95% interval, least and "
    "most, in how many of them no user is scheduled, how many more diverged, the accuracy that needs no learning "
    "(`chance`), with the values of swept parameters, and the terms of its "
    "epsilons, of a record and of a user; `guarantee`: what stands behind epsilon, the weakest of all realizations.",
    "effects": "Paired differences of every two points that differ in one factor: the scheduler, the noise, noise "
    "instead of none, the observer, a swept parameter (from its least to its largest value), another parameter, or "
    "several of one section. By how much the second point is above the first in final accuracy, epsilon, airtime and "
    "radiated energy, realization by realization, with its 95% interval; p of a paired t-test, and `p_corrected` by "
    "Holm for all `comparisons` of the system and outcome; the smallest difference that is `detectable` with "
    "probability 0.8 at the "
    "level that Bonferroni gives each, and how many realizations are needed to detect one as large as measured. "
    "`without_result`: how many realizations are left out, as one of the two diverged or was not trained. "
    "`above_chance`: whether either point has learned anything.",
    "front": "For every two outcomes of a system, the points of the study that nothing dominates: no other one "
    "of the same guarantee, trust and observer is as good in both, by its mean, and better in one; none whose accuracy "
    "is not above chance; `x_no_user_scheduled` and `y_no_user_scheduled`: over how many realizations with no user "
    "scheduled each mean is; `x_diverged` and `y_diverged`: how many more diverged.",
}
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
    own = catalog.comparison_figures if scenarios > 1 else ()
    return ("result", *(("parameters",) if swept else ()), *over_rounds, *own)


def crossed(catalog: Catalog, scenario) -> list[str]:
    """By which slots a scenario departs from the system's paper, in words; empty: by none."""
    found = {key: value_of(scenario, key) for key in catalog.slots}
    return [f"{key}: {value}" for key, value in found.items() if value != catalog.slots[key]]
