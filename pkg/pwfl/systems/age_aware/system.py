"""The declaration of the system `age_aware`."""

from typing import TYPE_CHECKING

from pwfl.system import Checks, Part, Report, System, Trainers, deferred
from pwfl.systems.age_aware import checks
from pwfl.systems.age_aware.catalog import CATALOG
from pwfl.systems.age_aware.parameters import AgeAware

if TYPE_CHECKING:
    from pwfl.systems.age_aware import account, audit, channel, claims, noise, paper, report, schedule, tables, train
else:
    account, audit, channel, claims, noise, paper, report, schedule, tables, train = deferred(
        __package__, "account audit channel claims noise paper report schedule tables train"
    )

SYSTEM = System(
    name="age_aware",
    package=__name__.rpartition(".")[0],
    model=AgeAware,
    load_catalog=lambda: CATALOG,
    load_checks=lambda: Checks(
        consistent=checks.consistent,
        realization_bytes=checks.realization_bytes,
        table_bytes=checks.table_bytes,
        training_bytes=checks.training_bytes,
        audit_seconds=checks.audit_seconds,
    ),
    load_schemas=lambda: tables.SCHEMAS,
    channel=Part(lambda: channel.run),
    schedule=Part(lambda: schedule.run),
    noise=Part(lambda: noise.run),
    train=Part(lambda: Trainers(train.trainer), ("users", "schedule", "noise")),
    account=Part(lambda: account.run, ("users", "schedule", "noise"), makes=("observers",)),
    audit=Part(lambda: audit.verdicts, ("users", "schedule", "noise", "leakage", "outcome")),
    load_report=lambda: Report(
        summarize=report.summarize,
        figures=report.FIGURES,
        comparability=report.COMPARABILITY,
        comparison_figures=report.COMPARISON_FIGURES,
        published=report.published,
    ),
    load_claims=lambda: claims.claims,
    load_paper=lambda: paper.PAPER,
)
