"""The declaration of the system `utility_fair`."""

from typing import TYPE_CHECKING

from pwfl.system import Checks, Part, Report, System, Trainers, deferred
from pwfl.systems.utility_fair import checks
from pwfl.systems.utility_fair.catalog import CATALOG
from pwfl.systems.utility_fair.parameters import UtilityFair

if TYPE_CHECKING:
    from pwfl.systems.utility_fair import account, audit, channel, claims, noise, paper, report, schedule, tables, train
else:
    account, audit, channel, claims, noise, paper, report, schedule, tables, train = deferred(
        __package__, "account audit channel claims noise paper report schedule tables train"
    )

SYSTEM = System(
    name="utility_fair",
    package=__name__.rpartition(".")[0],
    model=UtilityFair,
    load_catalog=lambda: CATALOG,
    load_checks=lambda: Checks(
        consistent=checks.consistent,
        problems=checks.problems,
        table_bytes=checks.table_bytes,
        training_bytes=checks.training_bytes,
    ),
    load_schemas=lambda: tables.SCHEMAS,
    channel=Part(lambda: channel.run),
    schedule=Part(lambda: schedule.run),
    noise=Part(lambda: noise.run, ("users",), {"own": ("users", "links", "schedule")}),
    train=Part(lambda: Trainers(train.trainer, train.batch_trainer), ("users", "schedule", "noise")),
    account=Part(lambda: account.run, ("users", "schedule", "noise"), makes=("observers",)),
    audit=Part(lambda: audit.verdicts, ("users", "schedule", "noise", "leakage", "outcome")),
    load_report=lambda: Report(
        summarize=report.summarize,
        figures=report.FIGURES,
        comparability=report.COMPARABILITY,
        published=report.published,
    ),
    load_claims=lambda: claims.claims,
    load_paper=lambda: paper.PAPER,
)
