"""Definition of the system `multicell`: its parameters, checks, stages and reports."""

from typing import TYPE_CHECKING

from pwfl.system import Checks, Part, Report, System, Trainers, deferred
from pwfl.systems.multicell import checks
from pwfl.systems.multicell.catalog import CATALOG
from pwfl.systems.multicell.parameters import Multicell

if TYPE_CHECKING:
    from pwfl.systems.multicell import (
        account,
        audit,
        channel,
        claims,
        imported,
        noise,
        paper,
        receive,
        report,
        schedule,
        tables,
        train,
    )
else:
    account, audit, channel, claims, imported, noise, paper, receive, report, schedule, tables, train = deferred(
        __package__, "account audit channel claims imported noise paper receive report schedule tables train"
    )

SYSTEM = System(
    name="multicell",
    package=__name__.rpartition(".")[0],
    model=Multicell,
    load_catalog=lambda: CATALOG,
    load_checks=lambda: Checks(
        consistent=checks.consistent,
        problems=checks.problems,
        idle=checks.idle,
        imports=checks.imports,
        imported_realizations=checks.imported_realizations,
        realization_bytes=checks.realization_bytes,
        table_bytes=checks.table_bytes,
        training_bytes=checks.training_bytes,
    ),
    load_schemas=lambda: tables.SCHEMAS,
    imported=Part(lambda: imported.run),
    channel=Part(lambda: channel.run),
    schedule=Part(lambda: schedule.run, makes=("start_values",)),
    noise=Part(
        lambda: noise.run,
        ("users", "schedule", "start_values"),
        dict.fromkeys(("target", "own"), ("users", "links", "schedule", "start_values")),
    ),
    receive=Part(lambda: receive.run),
    train=Part(lambda: Trainers(train.trainer, train.batch_trainer)),
    account=Part(
        lambda: account.run,
        (
            *("users", "links", "schedule", "start_values"),
            *("noise", "noise_status", "reception_noise", "visibility", "observers"),
        ),
    ),
    audit=Part(lambda: audit.verdicts),
    load_report=lambda: Report(
        summarize=report.summarize,
        figures=report.FIGURES,
        comparability=report.COMPARABILITY,
        published=report.published,
    ),
    load_claims=lambda: claims.claims,
    load_paper=lambda: paper.PAPER,
)
