"""What reports hold, without importing what draws them."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Catalog:
    """What a system's stages read and what the reports of its scenarios show.

    Attributes
    ----------
    figures
        Figure -> the stages' tables that it is drawn from: `users` and `links` of the first shard, others of all
        schemes. Captions stand in the system's folder captions/FIGURE.rst.
    tables
        Table of a scenario's report -> caption.
    comparison_figures
        Figures that compare scenarios.
    reads
        A stage or a variant of one (`noise`, `noise/random`) -> the tables that it reads, where these are not all
        that `pwfl.stages` lists.
    colours
        (scheduler, noise) -> colour; other schemes get one that is free.
    tiny
        A scenario that runs through all stages in seconds, for `pwfl.testing`.
    silent
        Columns of the table `noise`, and their values where no noise is added, for `pwfl.testing`.
    """

    figures: dict[str, tuple[str, ...]]
    tables: dict[str, str]
    comparison_figures: tuple[str, ...] = ()
    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    colours: dict[tuple[str, str], str] = field(default_factory=dict)
    tiny: dict = field(default_factory=dict)
    silent: dict[str, float] = field(default_factory=dict)


# Of all systems; captions stand in the workflow's folder report/.
COMMON_FIGURES = {"audit": ("audit",)}
COMMON_TABLES = {
    "audit": "What attacks on the training path of each scheme find, in the realization whose worst record is worst "
    "off: lower bounds on epsilon, beside the epsilon that is stated for what the observer sees.",
}
# Of a study: tables and their captions, and figures where there are several systems.
COMPARISON = {
    "systems": "Every scheme of every scenario under common terms: final accuracy, and of which model; record-level "
    "epsilon under exact accounting, against all that the system's own server receives (whether that is guaranteed) "
    "and against the observer whom the scheme reckons with; local steps; symbols and seconds on air, which follow from "
    "the scenario's bandwidth; transmit energy, which compares only where the link budget is the same.",
    "claims": "The paper's claims: where it makes them, what it prints, what was measured with its 95% interval over "
    "realizations, the band in which it must lie, and whether it does: yes, no, or open where the interval decides "
    "neither. What words were read as, and what is this project's choice, is on the system's page in docs/.",
    "summary": "The summaries of all scenarios of the study.",
}
SYSTEMS_FIGURES = ("tradeoff",)
