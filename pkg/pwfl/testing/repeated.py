"""Conformance test of reproducibility: tables are the same in each run, and for any chunks and order of rows."""

import polars as pl

from pwfl.execution.stage import Tables
from pwfl.scenario.common import Scenario
from pwfl.testing import tiny
from pwfl.testing.tiny import CheckError


def check_chunks(model: Scenario, inputs: dict) -> None:
    """Check that tables are equal to the bit in each run, for any chunks, and any order of a stage's input rows."""

    def shuffled(made):
        return made.sample(fraction=1.0, shuffle=True, seed=1) if isinstance(made, pl.DataFrame) else made

    everything = range(tiny.REALIZATIONS)
    for scheme in model.schemes:
        whole = tiny.make_tables(model, scheme, inputs, everything)
        if (trained := set(whole["history"]["realization"])) != set(range(tiny.TRAINED)):
            raise CheckError(f"{scheme.name}: history has realizations {trained}, expected 0 to {tiny.TRAINED - 1}")
        mixed = tiny.make_tables(model, scheme, inputs, everything, mix=shuffled)
        if tiny.find_differing(whole, mixed):
            again = tiny.make_tables(model, scheme, inputs, everything)
            _check_same(whole, again, f"{scheme.name}: two runs differ; use `pwfl.streams` for all random numbers")
        _check_same(whole, mixed, f"{scheme.name}: depends on the order of a stage's input rows")
        _check_spent(scheme, whole)
        for realization in everything:
            single = tiny.make_tables(model, scheme, inputs, range(realization, realization + 1))
            rows = {name: whole[name].filter(realization=realization) for name in single}
            _check_same(
                rows, single, f"{scheme.name}: realization {realization} depends on other realizations of its chunk"
            )


def _check_spent(scheme, made: Tables) -> None:
    """Check that airtime and energy after a training run's last round equal those of the outcome."""
    history, outcome = made["history"], made["outcome"]
    if "round" not in history.columns:
        return
    costs = ("air_seconds", "transmit_energy_j")
    last = history.join(outcome.select("realization", "rounds", *costs), on="realization")
    last = last.filter(pl.col("round") == pl.col("rounds"))
    for cost in costs:
        after, stated = pl.col(f"{cost}_cumulative"), pl.col(cost)
        off = last.filter((after - stated).abs() > tiny.RELATIVE * stated)
        for realization, spent, total in off.select("realization", after, stated).iter_rows():
            raise CheckError(
                f"{scheme.name}: realization {realization}: {cost}_cumulative of history is {spent:g} after the last "
                f"round, but {cost} of outcome is {total:g}"
            )


def _check_same(expected: Tables, made: Tables, what: str) -> None:
    if differing := tiny.find_differing(expected, made):
        raise CheckError(f"{what}: table {differing[0]}")
