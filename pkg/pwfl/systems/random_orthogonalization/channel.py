"""Channel of the system `random_orthogonalization`: Rayleigh fading to many antennas."""

import numpy as np
import polars as pl

from pwfl.systems.random_orthogonalization import mimo
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.tables.arrays import to_table


def run(scenario: RandomOrthogonalization, realizations: range) -> dict[str, pl.DataFrame]:
    """Make the tables `users` and `links` (the channels' `mimo.couplings`) of consecutive realizations.

    `links` is for the scenario's network, and for those of `privacy.user_numbers`: the first of the same users, or
    more. It has rows of every round, equal in the rounds of one coherence interval.
    """
    users, antennas, rounds = scenario.network.users, scenario.network.antennas, scenario.training.rounds
    sizes = sorted({users, *scenario.privacy.user_numbers})
    columns = {size: {} for size in sizes}  # column -> array (realization, round, user)
    coherence = scenario.radio.coherence_rounds
    for rows, within, channel in mimo.drawn(scenario.seed, realizations, rounds, coherence, sizes[-1], antennas):
        products = mimo.inner_products_of_few(channel, sizes)
        for size, arrays in columns.items():
            few = mimo.few(size, antennas)
            made = mimo.couplings(products[:, :size, :size]) if few else mimo.couplings_of_many(channel[:, :size])
            for name, values in made.items():
                column = arrays.setdefault(name, np.empty((len(realizations), rounds, size)))
                column[rows, within] = values[:, None]
    keys = {"realization": realizations, "round": range(1, rounds + 1)}
    links = [to_table(keys | {"user": range(size)}, users=size, **columns[size]) for size in sizes]
    return {
        "users": to_table({"realization": realizations, "user": range(users)}, samples=scenario.data.samples_per_user),
        "links": pl.concat(links).sort("realization", "round", "users", "user"),
    }
