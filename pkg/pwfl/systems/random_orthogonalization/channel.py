"""Channel of the system `random_orthogonalization`: Rayleigh fading to many antennas, redrawn each round."""

import numpy as np
import polars as pl

from pwfl.systems.random_orthogonalization import mimo
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.tables.arrays import to_table


def run(scenario: RandomOrthogonalization, realizations: range) -> dict[str, pl.DataFrame]:
    """Users, and what the server's update takes of their channels, of some consecutive realizations."""
    users, antennas, rounds = scenario.network.users, scenario.network.antennas, scenario.training.rounds
    columns = {}  # column -> array (realization, round, user)
    for block in mimo.blocks(realizations, users, antennas):
        rows = slice(block.start - realizations.start, block.stop - realizations.start)
        for t in range(rounds):
            products = mimo.gram(scenario.seed, block, t + 1, users, antennas)
            for name, values in mimo.couplings(products).items():
                columns.setdefault(name, np.empty((len(realizations), rounds, users)))[rows, t] = values
    keys = {"realization": realizations, "round": range(1, rounds + 1), "user": range(users)}
    return {
        "users": to_table({"realization": realizations, "user": range(users)}, samples=scenario.data.samples_per_user),
        "links": to_table(keys, **columns),
    }
