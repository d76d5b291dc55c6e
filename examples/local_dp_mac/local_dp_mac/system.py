"""Definition of the system `local_dp_mac`: its parameters, checks, stages and reports."""

from typing import TYPE_CHECKING

from local_dp_mac import checks
from local_dp_mac.catalog import CATALOG
from local_dp_mac.parameters import LocalDpMac
from pwfl.system import Checks, Part, Report, System, Trainers, deferred

if TYPE_CHECKING:
    from local_dp_mac import account, audit, channel, claims, noise, receive, report, schedule, tables, train
else:
    account, audit, channel, claims, noise, receive, report, schedule, tables, train = deferred(
        __package__, "account audit channel claims noise receive report schedule tables train"
    )

SYSTEM = System(
    name="local_dp_mac",
    package=__name__.rpartition(".")[0],
    model=LocalDpMac,
    load_catalog=lambda: CATALOG,
    load_checks=lambda: Checks(
        consistent=checks.consistent,
        table_bytes=checks.table_bytes,
        training_bytes=checks.training_bytes,
    ),
    load_schemas=lambda: tables.SCHEMAS,
    channel=Part(lambda: channel.run),
    schedule=Part(lambda: schedule.run, ("links",)),
    noise=Part(lambda: noise.run, ("schedule",)),
    receive=Part(lambda: receive.run),
    train=Part(lambda: Trainers(train.trainer, train.batch_trainer)),
    account=Part(lambda: account.run),
    audit=Part(
        lambda: audit.verdicts,
        ("users", "schedule", "noise", "reception", "reception_noise", "visibility", "outcome"),
    ),
    load_report=lambda: Report(
        summarize=report.summarize,
        figures=report.FIGURES,
        comparability=report.COMPARABILITY,
        published=report.published,
    ),
    load_claims=lambda: claims.claims,
)
