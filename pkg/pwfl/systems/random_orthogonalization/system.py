"""Definition of the system `random_orthogonalization`."""

from typing import TYPE_CHECKING

from pwfl.system import Checks, Part, Report, System, Trainers, deferred
from pwfl.systems.random_orthogonalization import checks
from pwfl.systems.random_orthogonalization.catalog import CATALOG
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization

if TYPE_CHECKING:
    from pwfl.systems.random_orthogonalization import (
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

OF_NOISE = "users", "schedule", "noise", "reception", "reception_noise"

SYSTEM = System(
    name="random_orthogonalization",
    package=__name__.rpartition(".")[0],
    model=RandomOrthogonalization,
    load_catalog=lambda: CATALOG,
    load_checks=lambda: Checks(
        consistent=checks.consistent,
        problems=checks.problems,
        idle=checks.idle,
        realization_bytes=checks.realization_bytes,
        table_bytes=checks.table_bytes,
        training_bytes=checks.training_bytes,
    ),
    load_schemas=lambda: tables.SCHEMAS,
    channel=Part(lambda: channel.run),
    schedule=Part(lambda: schedule.run),
    noise=Part(lambda: noise.run),
    receive=Part(lambda: receive.run),
    train=Part(lambda: Trainers(train.trainer, train.batch_trainer), OF_NOISE),
    account=Part(
        lambda: account.run, ("users", "links", "schedule", "noise", "reception_noise", "visibility", "observers")
    ),
    audit=Part(lambda: audit.verdicts, (*OF_NOISE, "visibility", "guarantees", "outcome")),
    load_report=lambda: Report(
        summarize=report.summarize,
        figures=report.FIGURES,
        comparability=report.COMPARABILITY,
        published=report.published,
    ),
    load_claims=lambda: claims.claims,
    load_paper=lambda: paper.PAPER,
)
