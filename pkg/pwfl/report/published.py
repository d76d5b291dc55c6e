"""Compute the privacy loss if all of a study were published: one epsilon of all its releases, for each data set.

A release is one training run with noise, of a realization of a scheme of a scenario, and all that its server receives.
Equal ones, of scenarios that train alike, count once. Noise is independent, so all compose (`privacy.composition`). A
system's `report.published` returns losses of the most exposed record; the joint epsilon bounds that of every record.
"""

from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import polars as pl

from pwfl import registry
from pwfl.learning.datasets import FILE
from pwfl.privacy.accountant import guarantee
from pwfl.privacy.composition import Composed, Loss, compose
from pwfl.privacy.labels import GUARANTEES, PROVED
from pwfl.report.columns import SAID
from pwfl.report.sweeps import find_point
from pwfl.report.words import number
from pwfl.scenario.values import value_of

BARE, OPEN, UNKNOWN = "adds no noise", "an infinite epsilon against its server", "its system states no losses"
BETWEEN = ". "  # separator of several units, or reasons
UNSHOWN = "not among the report's realizations"
SCHEMA = {
    "records": pl.String,
    "releases": pl.Int64,
    "epsilon": pl.Float64,
    "delta": pl.Float64,
    "bound": pl.String,
    "guarantee": pl.String,
    "unit": pl.String,
    "neighbouring_relation": pl.String,
    "left_out": pl.String,
}


class Training(NamedTuple):
    """A training run of a study, with its row of the scenario's table `realizations`."""

    scheme: str  # with its system's name, if the study has several systems
    origin: str  # the scenario, or the swept one if it is a sweep point
    release: tuple  # the same for equal releases
    loss: Loss | str  # a text: the reason why there is none
    row: dict

    @property
    def cost(self) -> Loss:
        """Its loss, for training runs that have one."""
        assert isinstance(self.loss, Loss)
        return self.loss

    @property
    def size(self) -> tuple[float, float]:
        """Its sort key: of equal releases the largest counts, as their observers may differ."""
        return self.cost.unsampled, self.cost.pure


def table(study: dict[str, dict]) -> pl.DataFrame:
    """Make a row for each data set of a study: number of releases, their joint epsilon, its terms, schemes left out.

    `study` is as in `report.build.compare`; `releases` of a scenario has the digest of each scheme's release by name,
    if scenarios may share any. Columns as in SCHEMA; epsilon is null if nothing is composed. Records that each
    realization draws for itself are only in its releases: epsilon is then the largest of a realization.
    """
    by_records: dict[tuple[str, str], list[Training]] = {}
    several = len({content["scenario"].system for content in study.values()}) > 1
    for name in study:
        for training in _trainings(study, name, several):
            by_records.setdefault(_records(study[name]["scenario"]), []).append(training)
    return pl.DataFrame([_row(records, trainings) for (records, _), trainings in by_records.items()], schema=SCHEMA)


def sentences(table: pl.DataFrame) -> list[str]:
    """Describe each row of `table` in words."""
    texts = []
    for row in table.iter_rows(named=True):
        left_out = f" Left out: {row['left_out'].replace(BETWEEN, '; ')}." if row["left_out"] else ""
        records = row["records"].replace("_", " ")
        if row["epsilon"] is None:
            texts.append(f"If all of this study were published, no epsilon would be known for {records}.{left_out}")
            continue
        bound = row["bound"] + ("" if row["guarantee"] == PROVED else f"; {SAID[row['guarantee']]}")
        epsilon = f"ε = {number(row['epsilon'])} at δ = {number(row['delta'])} ({bound})"
        texts.append(
            f"If all of this study were published: its {row['releases']:,} training runs with noise on {records} "
            f"would together cost {_short(row['unit'])} {epsilon}."
            f"{left_out} Table columns computed from records without noise are not counted."
        )
    return texts


def _short(units: str) -> str:
    """Join units of privacy by "or", each up to its first semicolon.

    >>> _short("a record of a user; holds for all its records. a record of a device")
    'a record of a user or a record of a device'
    """
    return " or ".join(dict.fromkeys(unit.partition(";")[0] for unit in units.split(BETWEEN)))


def _trainings(study: dict[str, dict], name: str, several: bool) -> Iterator[Training]:
    """Yield a scenario's training runs in which any user sends, and one without a row for each unreported scheme.

    `several`: whether the study has several systems.
    """
    content = study[name]
    scenario, realizations, origin = content["scenario"], content["realizations"], find_point(study, name).of
    stated = registry.system(scenario.system).load_report().published
    trained = realizations.filter(pl.col("realization") < scenario.training_realizations)
    trained = trained.with_columns(guarantee_server=guarantee("epsilon_server"))
    for scheme in scenario.schemes:
        title = f"{scenario.system}, {scheme.name}" if several else scheme.name
        release = content.get("releases", {}).get(scheme.name, (name, scheme.name))
        rows = trained.filter(pl.col("epsilon_server").is_not_null(), scheme=scheme.name)
        if scheme.name not in realizations["scheme"]:
            yield Training(title, origin, (), UNSHOWN, {})
        finite = rows.filter(pl.col("epsilon_server").is_finite())
        why = BARE if scheme.noise == "none" else OPEN
        losses = [UNKNOWN] * len(finite) if stated is None else stated(scenario, finite)
        cases = finite.select(pl.int_range(pl.len()).over("realization")).to_series()  # number within a realization
        for row, loss, case in zip(finite.iter_rows(named=True), losses, cases, strict=True):
            lost = not isinstance(loss, str) and not isfinite(loss.unsampled + loss.pure)
            yield Training(title, origin, (release, row["realization"], case), OPEN if lost else loss, row)
        for row in rows.filter(~pl.col("epsilon_server").is_finite()).iter_rows(named=True):
            yield Training(title, origin, (), why, row)


def _records(scenario) -> tuple[str, str]:
    """Return a scenario's records: their name, and the digest that distinguishes two files of one name, else ""."""
    dataset = value_of(scenario, "data.dataset")
    if dataset == FILE:
        return f"the records of {Path(scenario.data.file).name}", scenario.data.sha256
    return (f"the data of {scenario.system}" if dataset is None else dataset), ""


def _row(records: str, trainings: list[Training]) -> dict:
    """Make the table's row of all training runs on some records."""
    composed: dict[tuple, Training] = {}
    for training in (training for training in trainings if isinstance(training.loss, Loss)):
        known = composed.setdefault(training.release, training)
        if training.size > known.size:
            composed[training.release] = training
    counted = list(composed.values())
    row = {"records": records, "releases": len(counted), "left_out": _left_out(trainings)}
    if not counted:
        return row | dict.fromkeys(SCHEMA.keys() - row.keys())
    delta = min((training.row["delta"] for training in counted if training.row["delta"] > 0), default=0.0)
    terms = {
        name: BETWEEN.join(dict.fromkeys(training.row[name] for training in counted))
        for name in ("unit", "neighbouring_relation")
    }
    guarantee = max((training.row["guarantee_server"] for training in counted), key=GUARANTEES.index)
    return row | terms | _composed(counted, delta)._asdict() | {"delta": delta, "guarantee": guarantee}


def _composed(trainings: list[Training], delta: float) -> Composed:
    """Compose releases; if each realization draws its records for itself, return the largest of a realization."""
    if not all(training.cost.own_records for training in trainings):
        return compose([training.cost for training in trainings], delta)
    by_realization: dict[int, list[Loss]] = {}
    for training in trainings:
        by_realization.setdefault(training.row["realization"], []).append(training.cost)
    return max((compose(losses, delta) for losses in by_realization.values()), key=lambda composed: composed.epsilon)


def _left_out(trainings: list[Training]) -> str | None:
    """List schemes without an epsilon, by reason; with scenarios, if others have one for the scheme. None: no such."""
    inside = {training.scheme for training in trainings if isinstance(training.loss, Loss)}
    reasons: dict[str, dict[str, dict[str, None]]] = {}
    for training in trainings:
        if isinstance(training.loss, str):
            reasons.setdefault(training.loss, {}).setdefault(training.scheme, {})[training.origin] = None
    parts = []
    for why, schemes in reasons.items():
        names = [
            f"{scheme} in {', '.join(scenarios)}" if scheme in inside else scheme
            for scheme, scenarios in schemes.items()
        ]
        parts.append(f"{'; '.join(names)} ({why})")
    return BETWEEN.join(parts) or None
