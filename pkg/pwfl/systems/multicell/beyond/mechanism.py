"""How rounds hide records in the system `multicell`: what noise is found by, and what account states."""

import polars as pl

from pwfl.privacy.accountant import Gaussian, Mechanism
from pwfl.systems.multicell.beyond.batches import PoissonBatches
from pwfl.systems.multicell.beyond.integers import Integers
from pwfl.systems.multicell.parameters import Multicell


def mechanism(scenario: Multicell, frame: pl.DataFrame) -> Mechanism:
    """The mechanism of `accountant` that a scenario's rounds are; `frame` is that of `assigned`."""
    if rate := scenario.data.sampling:
        return PoissonBatches(rate)
    return Integers.from_table(scenario, frame) if scenario.training.bits else Gaussian()
