"""The stage `audit`: a system's attacks, on the realizations that are asked for."""

import polars as pl

from pwfl.privacy import audit
from pwfl.scenario.values import Values
from pwfl.work.stage import Handed, Tables, handed, module


def run(values: Values, found: Tables) -> Tables:
    """The table `audit`, from all tables of the earlier stages but `history`; they may hold more realizations."""
    asked = pl.col("realization") < values.realizations
    inputs = handed(values.system, "audit", found)
    inputs = Handed("audit", {name: frame.filter(asked) for name, frame in inputs.items()})
    with module(values.system, "audit") as own:
        return {"audit": audit.table(own.attacks(values, inputs))}
