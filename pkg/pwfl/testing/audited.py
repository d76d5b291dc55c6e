"""Conformance test of audits: they test all that an epsilon rests on, and would detect one that is too low."""

import numpy as np
import polars as pl

from pwfl import execution, registry
from pwfl.execution.stage import Tables
from pwfl.privacy import audit, labels
from pwfl.scenario.common import Scenario
from pwfl.stages import AUDIT
from pwfl.testing import tiny
from pwfl.testing.draws import loosened
from pwfl.testing.tiny import CheckError

LOW = 0.1  # relative error of epsilon, downwards, that an audit must detect
NOISE_SEEN, LAW_SEEN = 0.02, 0.15  # errors of the noise, and of privacy losses' distribution, that it must detect
MOST_CANARIES = 50_000
SIGNAL, DEVIATION, LARGEST = "signal of canaries", "deviation of the noise", "largest privacy loss"  # tests of an audit
RECORD, EPSILON, EXACT = audit.RECORD, "epsilon of ", "exact"


def check_audit(model: Scenario, inputs: dict) -> None:
    """Check that the audit tests all that a stated epsilon rests on, passes, and would detect an epsilon 10 % low."""
    audited = []
    for scheme in model.schemes:
        made = tiny.make_untrained(model, scheme, inputs)
        with loosened(None) as asked:
            tiny.make_tables(model, scheme, inputs | made, range(1), ["train"])
        purposes, worst = {draw.purpose for draw in asked}, audit.worst(made["outcome"])
        frame = _audit(model, scheme, made, purposes)
        if worst["epsilon"] is not None and np.isfinite(worst["epsilon"]):
            audited.append((worst["epsilon"], scheme, made, purposes, frame))
    if not audited:
        raise CheckError(
            "the catalog's `tiny` scenario has no finite epsilon; add noise to it, so that an audit can test it"
        )
    _, scheme, made, purposes, frame = max(audited, key=lambda row: row[0])
    for again in (True, False):
        lacking = {test: draws for test, draws in _lacking(frame).items() if draws}
        if not lacking:
            return
        (test, draws), *_ = lacking.items()
        if not again or draws > MOST_CANARIES:
            raise CheckError(
                f"{scheme.name}: audit: its test {test!r} cannot detect an epsilon stated {LOW:.0%} too low, which "
                f"needs about {draws:,} canaries: give the catalog's `tiny` more rounds or coordinates, or less "
                "noise; or let verdicts use `audit.canaries`"
            )
        more = model.model_copy(update={"audit": model.audit.model_copy(update={"canaries": max(lacking.values())})})
        frame = _audit(more, scheme, made, purposes)


def _audit(model: Scenario, scheme, made: Tables, training_purposes: set[str]) -> pl.DataFrame:
    """Return the verdicts on a scheme's largest epsilon; raise CheckError if any verdict fails or is missing."""
    with loosened(None) as asked:
        frame = execution.audit_schemes(model.model_copy(update={"schemes": [scheme]}).select_stage(AUDIT), made)
    worst = audit.worst(made["outcome"])
    epsilon, delta = worst["epsilon"], worst["delta"]
    for row in frame.filter(status="failed").iter_rows(named=True):
        raise CheckError(
            f"{scheme.name}: audit: {row['test']} of {row['observer']} is {row['measured']:g}, expected "
            f"{row['expected_min']:g} to {row['expected_max']:g}: train and account disagree; correct the one that is "
            "wrong"
        )
    if epsilon is None or not np.isfinite(epsilon):
        return frame
    same = (pl.col("epsilon") - epsilon).abs() <= tiny.RELATIVE * epsilon
    frame = frame.filter(same, pl.col("delta") == delta, status="passed")
    tests = frame["test"].to_list()
    wanted = {
        "noise": [DEVIATION],
        "signal": [SIGNAL, RECORD, audit.LOSS],
        "epsilon itself": [SIGNAL, LARGEST, audit.LEAST],
    }
    if "receive" in registry.stages(model.system):
        wanted |= {"trainer": [audit.TRAINED]}
    if worst["guarantee"] != labels.NONE and labels.UNENFORCED.isdisjoint(worst["epsilon_assumes"].split(", ")):
        wanted |= {"sensitivity": ["sensitivity"]}
    for what, names in wanted.items():
        if not any(test.startswith(name) for test in tests for name in names):
            raise CheckError(
                f"{scheme.name}: audit: no test covers the {what} for the observer with epsilon {epsilon:g}: yield "
                f"the verdict {' or '.join(map(repr, names))} (`pwfl.privacy.audit`) for this epsilon and delta"
            )
    of_epsilon = pl.col("test").str.starts_with(EPSILON) | pl.col("test").str.starts_with(LARGEST)
    tested = max(frame.filter(of_epsilon)["measured"].to_list(), default=np.inf)
    if worst["epsilon_kind"] == EXACT and tested < (1 - LOW) * epsilon:
        raise CheckError(
            f"{scheme.name}: audit: the epsilon tested is {tested:.4g}, but {epsilon:.4g} is stated as exact: "
            "test what `account` claims, for example by `claim_of(..., users_only=True)` if only users' noise counts"
        )
    if not {draw.purpose for draw in asked} & training_purposes:
        raise CheckError(
            f"{scheme.name}: audit: uses none of the random streams of train ({', '.join(sorted(training_purposes))}): "
            "run the training code itself, with its noise"
        )
    return frame


def _lacking(frame: pl.DataFrame) -> dict[str, int]:
    """Return, by test, the number of canaries with which it detects an epsilon LOW too low; 0: it already does."""
    lacking = {}
    for row in frame.iter_rows(named=True):
        test, seen, wanted = row["test"], row["detectable"], np.inf
        if test in (SIGNAL, RECORD):
            low, stated = (audit.Subject(0, "", row["delta"], row["epsilon"] / share).mu for share in (1.0, 1.0 - LOW))
            wanted = stated / low - 1
        elif test in (DEVIATION, audit.LOSS):
            wanted = {DEVIATION: NOISE_SEEN, audit.LOSS: LAW_SEEN}[test]
        lacking[test] = 0 if seen <= wanted else int(1.1 * row["draws"] * (seen / wanted) ** 2)
    return lacking
