"""Definition of the system `anonymous_oac`."""

from typing import TYPE_CHECKING

from pwfl.system import Checks, Part, Report, System, Trainers, deferred
from pwfl.systems.anonymous_oac import checks
from pwfl.systems.anonymous_oac.catalog import CATALOG
from pwfl.systems.anonymous_oac.parameters import AnonymousOac

if TYPE_CHECKING:
    from pwfl.systems.anonymous_oac import (
        account,
        audit,
        channel,
        claims,
        noise,
        paper,
        receive,
        report,
        schedule,
        tables,
        train,
    )
else:
    account, audit, channel, claims, noise, paper, receive, report, schedule, tables, train = deferred(
        __package__, "account audit channel claims noise paper receive report schedule tables train"
    )

SYSTEM = System(
    name="anonymous_oac",
    package=__name__.rpartition(".")[0],
    model=AnonymousOac,
    load_catalog=lambda: CATALOG,
    load_checks=lambda: Checks(
        consistent=checks.consistent,
        problems=checks.problems,
        realization_bytes=checks.realization_bytes,
        table_bytes=checks.table_bytes,
        training_bytes=checks.training_bytes,
        audit_seconds=checks.audit_seconds,
    ),
    load_schemas=lambda: tables.SCHEMAS,
    channel=Part(lambda: channel.run),
    schedule=Part(lambda: schedule.run),
    noise=Part(
        lambda: noise.run,
        reads_of={
            "identified_fixed": ("users", "schedule", "schedule_status"),
            "own": ("users", "links", "schedule", "schedule_status"),
        },
    ),
    receive=Part(lambda: receive.run, ("users", "schedule", "noise")),
    train=Part(lambda: Trainers(train.trainer, train.batch_trainer)),
    account=Part(lambda: account.run, makes=("curves",)),
    audit=Part(
        lambda: audit.verdicts,
        ("users", "schedule_status", "noise", "reception", "reception_noise", "visibility", "outcome"),
    ),
    load_report=lambda: Report(
        summarize=report.summarize,
        figures=report.FIGURES,
        comparability=report.COMPARABILITY,
        published=report.published,
    ),
    load_claims=lambda: claims.claims,
    load_paper=lambda: paper.PAPER,
)
