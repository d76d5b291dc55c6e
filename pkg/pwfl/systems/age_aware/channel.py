"""Clients of the system `age_aware`: Sec. IV-A of Lin et al. There is no radio model: all uploads arrive."""

import polars as pl

from pwfl.systems.age_aware import age, markov
from pwfl.systems.age_aware.parameters import AgeAware


def run(scenario: AgeAware, realizations: range) -> dict[str, pl.DataFrame]:
    """Make the tables `users` and `links`: clients and their profiles by collection time, equal in all realizations."""
    clients, states = scenario.clients, scenario.clients.states_wh
    laws = {chain.name: markov.chain_of(chain, len(states)) for chain in clients.chains}
    chains = [clients.chains[user % len(clients.chains)] for user in range(clients.number)]
    users = pl.DataFrame(
        {
            "user": range(clients.number),
            "chain": [chain.name for chain in chains],
            "samples": [chain.samples for chain in chains],
            "states_wh": [states] * clients.number,
            "start": [laws[chain.name][1].tolist() for chain in chains],
            "transition": [laws[chain.name][0].tolist() for chain in chains],
        }
    ).with_columns(sensitivity_wh=(max(states) - min(states)) / pl.col("samples"))
    profiles = age.profiles(users, scenario.schedule.horizon)
    links = users.select("user", "chain").join(profiles, on="chain", maintain_order="left_right")
    every = pl.DataFrame({"realization": realizations})
    tables = {"users": users, "links": links}
    return {name: every.join(table, how="cross", maintain_order="left_right") for name, table in tables.items()}
