"""The graph of stages: what each makes, out of what, and how many jobs it has."""

from typing import NamedTuple


class Stage(NamedTuple):
    """A stage of the graph: what it makes and reads, and how many jobs it has."""

    makes: tuple[str, ...]  # tables, or arrays of the stages before the channel; a system may add tables
    reads: tuple[str, ...] = ()  # of earlier stages, as far as a scenario has these; a system may list other tables
    takes_data: bool = False  # what users train on: features where a scenario asks for any, otherwise a data set
    grid: str | None = None  # whose number of realizations its jobs follow, of REALIZATIONS; None: one job takes all
    each: tuple[str, ...] = ()  # the parts of a scheme for each of whose values it has jobs of its own
    variant: str | None = None  # the part of a scheme that tells its variants apart, which may read other parameters
    draws_noise: bool = False  # whether its parameters have `release`, by which noise is drawn, too
    work: str = "pwfl.execution.stage"  # the module whose `run(task, found)` makes its tables


# Of a grid, how many a scenario has.
REALIZATIONS: dict[str | None, str] = {"optimization": "realizations", "training": "training_realizations"}
SCHEME = ("scheduler", "noise")

# What some scenarios need before their channel.
DATASET, PROJECTION, FEATURES, IMPORTED = "dataset", "projection", "features", "imported"
PREPARATIONS = {
    DATASET: Stage((DATASET,), work="pwfl.learning.sources"),
    PROJECTION: Stage((PROJECTION,), work="pwfl.learning.projection"),
    FEATURES: Stage((FEATURES,), (DATASET, PROJECTION), work="pwfl.learning.extraction"),
    IMPORTED: Stage(("imported_links", "imported_users"), work="pwfl.execution.imported"),
}
IMPORTS = PREPARATIONS[IMPORTED].makes
STAGES = {
    "channel": Stage(("users", "links"), IMPORTS, grid="optimization", work="pwfl.execution.channel"),
    "schedule": Stage(
        ("schedule", "schedule_status"), ("users", "links"), grid="optimization", each=SCHEME[:1], variant="scheduler"
    ),
    "noise": Stage(("noise", "noise_status"), ("users", "schedule"), grid="optimization", each=SCHEME, variant="noise"),
    "receive": Stage(
        ("reception", "reception_noise", "visibility", "observers"),
        ("users", "links", "schedule", "noise"),
        grid="optimization",
        each=SCHEME,
    ),
    "train": Stage(
        ("history", "holdings"),
        ("users", "reception", "reception_noise"),
        takes_data=True,
        grid="training",
        each=SCHEME,
        draws_noise=True,
        work="pwfl.execution.train",
    ),
    "account": Stage(
        ("leakage", "outcome", "guarantees"),
        ("users", "schedule", "noise", "reception_noise", "visibility", "observers"),
        grid="optimization",
        each=SCHEME,
    ),
}
REPORT, AUDIT = "report", "audit"  # what is made of the stages' tables of all schemes
READERS = {DATASET, IMPORTED, *STAGES, AUDIT, REPORT}  # what a parameter may be declared to be read by
GRAPH = PREPARATIONS | STAGES
# The tables that each stage, and the audit, reads, where a system lists no others.
READS = {name: stage.reads for name, stage in GRAPH.items()}
READS[AUDIT] = ("users", "reception", "reception_noise", "visibility", "guarantees", "outcome")


def variants(scheduler: str, noise: str) -> dict[str, str]:
    """The variant of each stage that has any, in a scheme."""
    scheme = {"scheduler": scheduler, "noise": noise}
    return {name: scheme[stage.variant] for name, stage in STAGES.items() if stage.variant}
