"""Accounting of the system `random_orthogonalization`: Theorem 1 of ul Zuhra et al., and exact epsilons.

Replacing a record can reverse a user's clipped update, so an update's sensitivity is 2C, for one record as for all of a
user's records. Channels do not depend on data: every guarantee is for the channels that occurred, known to the
observer.
"""

import numpy as np
import polars as pl

from pwfl.airs import linear
from pwfl.learning import features
from pwfl.privacy import accountant
from pwfl.privacy.accountant import ALL, RECORD, USER
from pwfl.privacy.gaussian import exact_epsilon, textbook_epsilon, zcdp
from pwfl.systems.random_orthogonalization import mimo, observers
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.systems.random_orthogonalization.tables import ANTENNAS, UPDATE, WORST, observer
from pwfl.tables.arrays import size_of, to_array, to_table
from pwfl.tables.contract import A_USERS, ALWAYS_PUBLIC
from pwfl.training.models import network, parameter_count

TERMS = {
    "unit": f"one training record of one user; {A_USERS}",
    "energy_scope": "none: signals have no unit of energy",
    "evaluated_model": "the server's global model",
    "taken_as_public": ALWAYS_PUBLIC,
}
KEYS = ("realization", "round", "user")


def run(scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `leakage`, for networks of several sizes, `outcome` and `guarantees`.

    Networks of other sizes than the scenario's consist of the first of the same users, or of more, with the same noise
    and amplitudes.
    """
    privacy, users = scenario.privacy, size_of(tables["users"], "user")
    realizations = tables["users"]["realization"].unique().sort()
    antennas, clip_norm = scenario.network.antennas, scenario.training.clip_norm
    uplink = mimo.uplink_of(scenario, tables["schedule"], to_array(tables["noise"], "noise_std", *KEYS[:2]))
    delta, lost, counted = privacy.delta, observers.tolerance(privacy), observers.counted(privacy.observer)
    leakages, accounts = [], {}
    for size in tables["links"]["users"].unique().sort():
        links = mimo.links_of(tables, size)
        coupling = {name: to_array(links, name, *KEYS) for name in mimo.COUPLINGS}
        asked = observers.claims(2 * clip_norm, size, users)
        costs = accountant.accounts(tables, asked, observers.ROUNDS, delta, lost, size)
        seen = {name: costs[observer(name, size, users), RECORD, ALL] for name in (UPDATE, ANTENNAS)}
        by_theorem = theorem_1(coupling, uplink, clip_norm, antennas, mimo.sends_of(tables, size))
        epsilons = account_round(by_theorem, seen[UPDATE].losses.mu, seen[ANTENNAS].losses.mu, delta, delta - lost)
        declared = observer(privacy.observer, size, users)
        stated = costs[declared, RECORD, counted]
        epsilons |= {
            "rho": stated.rho,
            "epsilon": stated.epsilon,
            "mu": np.sqrt(2 * stated.rho),
            "negative_rounds": (coupling["coupling_real"] < 0).sum(axis=1),
        }
        leakages.append(to_table({"realization": realizations, "user": range(size)}, users=size, **epsilons))
        accounts |= costs
        if size == users:  # all of a user's records move its update no further than one does
            whole = (account._replace(claim=account.claim._replace(unit=USER)) for account in costs.values())
            accounts |= {account.claim.key: account for account in whole}
    leakage = pl.concat(leakages).sort("realization", "users", "user")
    guarantees = accountant.guarantees(accounts, observers.ROUNDS)
    own_network = leakage.filter(users=users)
    return {"leakage": leakage, "outcome": outcome(scenario, own_network, guarantees, tables), "guarantees": guarantees}


def theorem_1(
    coupling: dict[str, np.ndarray], uplink: mimo.Uplink, clip_norm: float, antennas: int, sends: np.ndarray
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Compute the update's sensitivity, (realization, round, user), and noise by interpretations of Theorem 1.

    Theorem 1 uses ||h_k||^2 / K as the weight of user k's update; the true weight is Re(h_s^H h_k) / K. `coupling` has
    `mimo.COUPLINGS` of the active users, `sends`.
    """
    users = sends.sum(axis=-1)
    noise = mimo.effective_noise(coupling, uplink, users)
    claimed = 2 * clip_norm * coupling["energy"] / users[..., None]
    closed_form = np.where(sends, 2 * clip_norm / users[..., None], 0.0)
    mean_noise = mimo.mean_noise(users, antennas, uplink)
    return {
        "epsilon_closed_form": (closed_form, mean_noise),
        "epsilon_printed": (claimed, noise["effective_noise_std_printed"]),
        "epsilon_modulus": (claimed, noise["effective_noise_std_modulus"]),
    }


def account_round(
    by_theorem: dict[str, tuple[np.ndarray, np.ndarray]],
    update: np.ndarray,
    antennas: np.ndarray,
    printed_delta: float,
    delta: float,
) -> dict[str, np.ndarray]:
    """Compute the columns of `leakage` for one round, by all interpretations, each of shape (realization, user).

    They are means over rounds. Theorem 1 uses all of delta, `printed_delta`; others use the part that dropouts leave,
    `delta`. `update` and `antennas` are mu against observers of these, (realization, round, user).
    """
    of_update, of_antennas = exact_epsilon(zcdp(np.stack([update, antennas]), 1.0, 1), delta)
    rounds = {name: textbook_epsilon(mimo.mechanism_mu(*pair), printed_delta) for name, pair in by_theorem.items()} | {
        "epsilon_sensitivity": textbook_epsilon(update, delta),
        "epsilon_gaussian": of_update,
        "epsilon_antennas": of_antennas,
        "epsilon_antennas_classic": textbook_epsilon(antennas, delta),
    }
    rounds["understated"] = rounds["epsilon_printed"] < rounds["epsilon_gaussian"]
    return {name: values.mean(axis=1) for name, values in rounds.items()}


def outcome(
    scenario: RandomOrthogonalization,
    leakage: pl.DataFrame,
    guarantees: pl.DataFrame,
    tables: dict[str, pl.DataFrame],
) -> pl.DataFrame:
    """Make the table `outcome`: guarantee and cost of each realization, by users' leakages in the scenario's network.

    A user's transmit energy is at most alpha^2 (C^2 + d sigma^2), since the update's norm is at most C. The paper's
    limit alpha^2 = P leaves out the noise.
    """
    training, privacy = scenario.training, scenario.privacy
    dimension = parameter_count(network(training, features.size(scenario), hidden_layers=()))
    of_users = leakage.group_by("realization", maintain_order=True).agg(
        pl.col("users").first(),
        pl.col(WORST).max(),
        pl.col("understated").mean(),
        negative_weights=pl.col("negative_rounds").mean() / training.rounds,
        negative_users=(pl.col("negative_rounds") == training.rounds).sum(),
    )
    parts = (
        of_users,
        linear.spent(tables),
        tables["users"].group_by("realization").agg(pl.col("samples").sum()),
        tables["schedule"].group_by("realization").agg(transmit_energy_limit=pl.col("amplitude").max() ** 2),
        tables["noise"].group_by("realization").agg(noise_variance=pl.col("noise_std").max() ** 2),
        accountant.stated(guarantees, tables["observers"], privacy.observer, observers.counted(privacy.observer)),
    )
    terms = {"local_steps": float(training.local_steps), "rounds": training.rounds, "delta": privacy.delta}
    sent = training.clip_norm**2 + dimension * pl.col("noise_variance")
    made = linear.outcome(parts, TERMS | terms)
    return made.with_columns(transmit_energy_bound=pl.col("transmit_energy_limit") * sent)
