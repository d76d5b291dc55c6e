"""Clients of the system `age_aware`: Sec. IV-A of Lin et al. There is no radio model: uploads arrive."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl.systems.age_aware import age_profiles, markov

if TYPE_CHECKING:
    from pwfl.systems.age_aware.parameters import AgeAware


def run(scenario: "AgeAware", realizations: range) -> dict[str, pl.DataFrame]:
    """The clients, and what their data tell at T for each collection time: the same in each realization."""
    clients = scenario.clients
    states, chains = clients.states_wh, clients.chains
    of_user = [chains[user % len(chains)] for user in range(clients.number)]
    laws = {chain.name: markov.chain_of(chain, len(states)) for chain in chains}
    one = pl.DataFrame(
        {
            "user": np.arange(len(of_user)),
            "chain": [chain.name for chain in of_user],
            "samples": [chain.samples for chain in of_user],
            "states_wh": [states] * len(of_user),
            "start": [laws[chain.name][1].tolist() for chain in of_user],
            "transition": [laws[chain.name][0].tolist() for chain in of_user],
        }
    ).with_columns(sensitivity_wh=(max(states) - min(states)) / pl.col("samples"))
    profiles = age_profiles.profiles(one, scenario.schedule.horizon)
    every = pl.DataFrame({"realization": realizations})
    return {
        "users": every.join(one, how="cross", maintain_order="left_right"),
        "links": every.join(
            one.select("user", "chain").join(profiles, on="chain", maintain_order="left_right"),
            how="cross",
            maintain_order="left_right",
        ),
    }
