"""What a study would cost the records that it trains on, were all of it published: one epsilon of all its releases.

A release is a training with noise, of one realization of a scheme of a scenario, and all that its server receives.
Equal ones, of scenarios that train alike, are one. Noise is each release's own, so they compose (`privacy.composition`)
by the losses that a system's `report.published` states, each of its worst record: that bounds every record's.
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
BETWEEN = ". "  # of several units, or reasons
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
    """One of a study, as its scenario's row of it says."""

    scheme: str  # with its system's name, where there are several
    origin: str  # the scenario, or that whose sweep it is a point of
    release: tuple  # the same of equal ones
    loss: Loss | str  # a text: why there is none
    row: dict

    @property
    def cost(self) -> Loss:
        """Its loss, of a training that has one."""
        assert isinstance(self.loss, Loss)
        return self.loss

    @property
    def size(self) -> tuple[float, float]:
        """The largest of equal releases counts: observers may differ."""
        return self.cost.unsampled, self.cost.pure


def table(study: dict[str, dict]) -> pl.DataFrame:
    """A row for each data set of a study: how many releases, their epsilon together, its terms, and what is left out.

    `study` is that of `report.build.compare`, with the digest of each scheme's release by its name (`releases`) where
    scenarios may share any. Columns as in SCHEMA; epsilon is null where nothing is composed. Records that a realization
    draws for itself are in its releases alone: epsilon is the largest of a realization.
    """
    by_records: dict[tuple[str, str], list[Training]] = {}
    several = len({content["scenario"].system for content in study.values()}) > 1
    for name in study:
        for training in _trainings(study, name, several):
            by_records.setdefault(_records(study[name]["scenario"]), []).append(training)
    return pl.DataFrame([_row(records, trainings) for (records, _), trainings in by_records.items()], schema=SCHEMA)


def sentences(table: pl.DataFrame) -> list[str]:
    """What the rows of `table` say."""
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
    """Units of privacy, of each what comes before a semicolon.

    >>> _short("a record of a user; holds for all its records. a record of a device")
    'a record of a user or a record of a device'
    """
    return " or ".join(dict.fromkeys(unit.partition(";")[0] for unit in units.split(BETWEEN)))


def _trainings(study: dict[str, dict], name: str, several: bool) -> Iterator[Training]:
    """The trainings of a scenario in which anybody sends, of a study of one system or of several."""
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
        cases = finite.select(pl.int_range(pl.len()).over("realization")).to_series()  # of systems with cases
        for row, loss, case in zip(finite.iter_rows(named=True), losses, cases, strict=True):
            lost = not isinstance(loss, str) and not isfinite(loss.unsampled + loss.pure)
            yield Training(title, origin, (release, row["realization"], case), OPEN if lost else loss, row)
        for row in rows.filter(~pl.col("epsilon_server").is_finite()).iter_rows(named=True):
            yield Training(title, origin, (), why, row)


def _records(scenario) -> tuple[str, str]:
    """Which records a scenario trains on: in words, and by what tells two files of one name apart."""
    dataset = value_of(scenario, "data.dataset")
    if dataset == FILE:
        return f"the records of {Path(scenario.data.file).name}", scenario.data.sha256
    return (f"the data of {scenario.system}" if dataset is None else dataset), ""


def _row(records: str, trainings: list[Training]) -> dict:
    """The row of the table of all trainings on some records."""
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
    """What releases cost together; the largest of a realization where each draws its records for itself."""
    if not all(training.cost.own_records for training in trainings):
        return compose([training.cost for training in trainings], delta)
    by_realization: dict[int, list[Loss]] = {}
    for training in trainings:
        by_realization.setdefault(training.row["realization"], []).append(training.cost)
    return max((compose(losses, delta) for losses in by_realization.values()), key=lambda composed: composed.epsilon)


def _left_out(trainings: list[Training]) -> str | None:
    """The schemes without an epsilon, by reasons; with scenarios, where others have one of the same scheme."""
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
