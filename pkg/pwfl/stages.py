"""The stages before the report: which tables each makes, and out of which."""

from typing import NamedTuple


class Stage(NamedTuple):
    """The tables that a stage makes and those of earlier stages that it reads.

    `variant` is the part of a scheme, `scheduler` or `noise`, that tells the stage's variants apart; `work` the module
    that calls the system's own.
    """

    makes: tuple[str, ...]
    reads: tuple[str, ...] = ()
    variant: str | None = None
    work: str = "pwfl.work.stage"


STAGES = {
    "channel": Stage(("users", "links"), work="pwfl.work.channel"),
    "schedule": Stage(("schedule", "schedule_status"), ("users", "links"), "scheduler"),
    "noise": Stage(("noise", "noise_status"), ("users", "schedule"), "noise"),
    "train": Stage(("history", "holdings"), ("users", "schedule", "noise"), work="pwfl.work.train"),
    "account": Stage(("leakage", "outcome"), ("users", "schedule", "noise")),
    "audit": Stage(("audit",), ("users", "schedule", "noise", "leakage", "outcome"), work="pwfl.work.audit"),
}
REPORT = "report"
IMPORTED = "imported"  # what some channels are made of: tables from outside, checked
IMPORTS = ("imported_links", "imported_users")
MAKER = {table: name for name, stage in STAGES.items() for table in stage.makes}  # table -> stage
MAKER |= dict.fromkeys(IMPORTS, IMPORTED)


def variants(scheduler: str, noise: str) -> dict[str, str]:
    """The variant of each stage that has any, in a scheme."""
    scheme = {"scheduler": scheduler, "noise": noise}
    return {name: scheme[stage.variant] for name, stage in STAGES.items() if stage.variant}
