"""Definition of the system `privacy_for_free`: its parameters, checks, stages and reports."""

from typing import TYPE_CHECKING

from privacy_for_free import checks
from privacy_for_free.catalog import CATALOG
from privacy_for_free.parameters import PrivacyForFree
from pwfl.system import Checks, Part, Report, System, Trainers, deferred

if TYPE_CHECKING:
    from privacy_for_free import account, audit, channel, claims, noise, receive, report, schedule, tables, train
else:
    account, audit, channel, claims, noise, receive, report, schedule, tables, train = deferred(
        __package__, "account audit channel claims noise receive report schedule tables train"
    )

SYSTEM = System(
    name="privacy_for_free",
    package=__name__.rpartition(".")[0],
    model=PrivacyForFree,
    load_catalog=lambda: CATALOG,
    load_checks=lambda: Checks(
        consistent=checks.consistent,
        table_bytes=checks.table_bytes,
        training_bytes=checks.training_bytes,
    ),
    load_schemas=lambda: tables.SCHEMAS,
    channel=Part(lambda: channel.run),
    schedule=Part(lambda: schedule.run),
    noise=Part(lambda: noise.run, ("schedule",)),
    receive=Part(lambda: receive.run, ("users", "schedule", "noise")),
    train=Part(lambda: Trainers(train.trainer)),
    account=Part(lambda: account.run, ("users", "reception_noise", "visibility", "observers")),
    audit=Part(
        lambda: audit.verdicts,
        ("users", "schedule", "noise", "reception", "reception_noise", "visibility", "outcome"),
    ),
    load_report=lambda: Report(
        summarize=report.summarize,
        figures=report.FIGURES,
        comparability=report.COMPARABILITY,
        comparison_figures=report.COMPARISON_FIGURES,
        published=report.published,
    ),
    load_claims=lambda: claims.claims,
)
