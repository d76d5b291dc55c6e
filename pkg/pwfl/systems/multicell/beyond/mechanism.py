"""Privacy mechanism of the rounds of the system `multicell`, for calibration of noise and for accounting."""

import polars as pl

from pwfl.privacy.accountant import Gaussian, Mechanism
from pwfl.systems.multicell.beyond.batches import PoissonBatches
from pwfl.systems.multicell.beyond.integers import Integers
from pwfl.systems.multicell.parameters import Multicell


def mechanism(scenario: Multicell, frame: pl.DataFrame) -> Mechanism:
    """Return the mechanism of a scenario's rounds for `accountant`; `frame` is as from `assigned`."""
    if rate := scenario.data.sampling:
        return PoissonBatches(rate)
    return Integers.from_table(scenario, frame) if scenario.training.bits else Gaussian()
