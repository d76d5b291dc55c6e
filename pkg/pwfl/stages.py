"""The graph of stages: outputs, inputs and jobs of each."""

from typing import NamedTuple


class Stage(NamedTuple):
    """A stage of the graph: its outputs, inputs and jobs."""

    makes: tuple[str, ...]  # tables, or arrays of the stages before the channel; a system may add tables
    reads: tuple[str, ...] = ()  # tables of earlier stages, if a scenario has these; a system may list others
    takes_data: bool = False  # whether it reads training data: features if a scenario has any, otherwise a data set
    grid: str | None = None  # key of REALIZATIONS for the realizations of its jobs; None: one job for all
    each: tuple[str, ...] = ()  # the parts of a scheme; it has separate jobs for each of their values
    variant: str | None = None  # the part of a scheme that selects its variant; variants may read other parameters
    draws_noise: bool = False  # whether its parameters include `release`, by which noise is drawn
    work: str = "pwfl.execution.stage"  # the module with its function, `run(task, found)`


# By grid, the parameter with the number of realizations.
REALIZATIONS: dict[str | None, str] = {"optimization": "realizations", "training": "training_realizations"}
SCHEME = ("scheduler", "noise")

# Stages that some scenarios need before their channel.
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
REPORT, AUDIT = "report", "audit"  # made from the stages' tables of all schemes
READERS = {DATASET, IMPORTED, *STAGES, AUDIT, REPORT}  # readers that a parameter may declare
GRAPH = PREPARATIONS | STAGES
# The tables that each stage, and the audit, reads, unless a system lists others.
READS = {name: stage.reads for name, stage in GRAPH.items()}
READS[AUDIT] = ("users", "reception", "reception_noise", "visibility", "guarantees", "outcome")


def variants(scheduler: str, noise: str) -> dict[str, str]:
    """Return the variant of each stage that has variants, in a scheme."""
    scheme = {"scheduler": scheduler, "noise": noise}
    return {name: scheme[stage.variant] for name, stage in STAGES.items() if stage.variant}
