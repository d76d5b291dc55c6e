"""Accounting of the system `random_orthogonalization`: Theorem 1 of ul Zuhra et al., and what holds.

A record's replacement can turn a user's clipped update around, so an update's sensitivity is 2C, for one record as for
all of a user's. Channels do not depend on data: every guarantee is that of the channels that occurred, known to the
observer.
"""

import numpy as np
import polars as pl

from pwfl.learning import features
from pwfl.privacy import accountant
from pwfl.privacy.gaussian import exact_epsilon, textbook_epsilon, zcdp
from pwfl.systems.random_orthogonalization import mimo, observers
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.systems.random_orthogonalization.tables import ANTENNAS, UPDATE, USER, WORST
from pwfl.tables.arrays import joined, to_array, to_table
from pwfl.tables.contract import A_USERS, BOUND, EXACT, PUBLIC, by_users_alone
from pwfl.training.models import network, parameter_count

TERMS = {
    "unit": f"one training record of one user; {A_USERS}",
    "neighbouring_relation": "replace-one",
    "sampling": "none claimed: a record may be in every mini-batch",
    "link_budget": "none: signals have no unit of energy",
    "accuracy_of": "the server's global model",
    "taken_as_public": PUBLIC,
}
GUARANTEED = "guaranteed for the channels that occurred: every user's update is clipped, no noise but the users' counts"
COUNTS_RECEIVER = (
    "not guaranteed: counts the noise of the server's own receiver; the users' own guarantees epsilon_without_receiver "
    "for the channels that occurred, epsilon_antennas_without_receiver to one who sees all antennas"
)
RECEIVER_ALONE = "not guaranteed: users add no noise, only that of the server's own receiver is left"
KEYS = ("realization", "round", "user")


def run(scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Each user's leakage and the signs of its weights in networks of several sizes; each realization's guarantee.

    Networks of other sizes than the scenario's consist of the same users, or of more, with the same noise and
    amplitudes.
    """
    privacy, users = scenario.privacy, tables["users"]["user"].max() + 1
    realizations = tables["users"]["realization"].unique().sort()
    antennas, clip_norm = scenario.network.antennas, scenario.training.clip_norm
    uplink = mimo.uplink_of(scenario, tables["schedule"], to_array(tables["noise"], "noise_std", *KEYS[:2]))
    frames = []
    for size in tables["links"]["users"].unique().sort():
        links = mimo.links_of(tables, size)
        coupling = {name: to_array(links, name, *KEYS) for name in mimo.COUPLINGS}
        seen = {
            (of, users_only): observers.losses(tables, of, size, users, 2 * clip_norm, users_only)
            for of in (UPDATE, ANTENNAS, privacy.observer)
            for users_only in (False, True)
        }
        by_theorem = theorem_1(coupling, uplink, clip_norm, antennas, mimo.sends_of(tables, size))
        each = leakages(by_theorem, seen, privacy.observer, privacy.delta, observers.delta(privacy))
        each["negative_rounds"] = (coupling["coupling_real"] < 0).sum(axis=1)
        frames.append(to_table({"realization": realizations, "user": range(size)}, users=size, **each))
    leakage = pl.concat(frames).sort("realization", "users", "user")
    return {"leakage": leakage, "outcome": outcome(scenario, leakage.filter(users=users), tables)}


def theorem_1(
    coupling: dict[str, np.ndarray], uplink: mimo.Uplink, clip_norm: float, antennas: int, sends: np.ndarray
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By reading of Theorem 1, the sensitivity of the server's update, (realization, round, user), and its noise.

    It takes ||h_k||^2 / K for the weight of user k's update; in truth it is Re(h_s^H h_k) / K. `coupling` holds
    `mimo.COUPLINGS` of who `sends`.
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


def leakages(
    by_theorem: dict[str, tuple[np.ndarray, np.ndarray]],
    seen: dict[tuple[str, bool], accountant.Losses],
    own: str,
    printed_delta: float,
    delta: float,
) -> dict[str, np.ndarray]:
    """Each user's leakage by all readings: columns of the table `leakage`, each of shape (realization, user).

    Rounds compose as Gaussian mechanisms, exactly: their mu^2 add. `seen` is by observer, and whether the users' noise
    alone is counted; `own` is the scenario's. Theorem 1 takes all of delta, what is received the part that dropouts
    leave.
    """
    mu, at_antennas = (seen[of, False].mu for of in (UPDATE, ANTENNAS))
    rounds = {name: textbook_epsilon(mimo.mechanism_mu(*pair), printed_delta) for name, pair in by_theorem.items()} | {
        "epsilon_sensitivity": textbook_epsilon(mu, delta),
        "epsilon_gaussian": exact_epsilon(zcdp(mu, 1.0, 1), delta),
        "epsilon_antennas": exact_epsilon(zcdp(at_antennas, 1.0, 1), delta),
        "epsilon_antennas_classic": textbook_epsilon(at_antennas, delta),
    }
    rounds["understated"] = rounds["epsilon_printed"] < rounds["epsilon_gaussian"]
    total = {view: accountant.epsilons(found, delta) for view, found in seen.items()}
    return {name: values.mean(axis=1) for name, values in rounds.items()} | {
        "epsilon": total[own, False],
        "epsilon_antennas_rounds": total[ANTENNAS, False],
        "mu": np.sqrt(2 * seen[own, False].rho),
        "epsilon_without_receiver": total[own, True],
        "epsilon_antennas_without_receiver": total[ANTENNAS, True],
        "rho_server": seen[own if own == USER else ANTENNAS, False].rho,  # as epsilon_server in `outcome`
    }


def outcome(scenario: RandomOrthogonalization, leakage: pl.DataFrame, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Guarantee and cost of each realization, from its users' leakages in the scenario's own network.

    The power that users may take is bounded by alpha^2 (C^2 + d sigma^2), since the update's norm is at most C; the
    paper's limit alpha^2 = P leaves out the noise.
    """
    training = scenario.training
    dimension = parameter_count(network(training, features.size(scenario), hidden_layers=()))
    frame = leakage.group_by("realization", maintain_order=True).agg(
        pl.col("users").first(),
        pl.col("rho_server", *WORST).max(),
        pl.col("understated").mean(),
        negative_weights=pl.col("negative_rounds").mean() / training.rounds,
        negative_users=(pl.col("negative_rounds") == training.rounds).sum(),
    )
    frame = joined(frame, accountant.spent(tables), "realization")
    strongest = pl.col("noise_std").max()
    for table, columns in {
        "users": [pl.col("samples").sum()],
        "schedule": [(pl.col("amplitude").max() ** 2).alias("transmit_energy_limit")],
        "noise": [(strongest**2).alias("noise_variance")],
    }.items():
        frame = joined(frame, tables[table].group_by("realization").agg(columns), "realization")
    sent = training.clip_norm**2 + dimension * pl.col("noise_variance")
    privacy = scenario.privacy
    watching, besides = observers.words(privacy)
    # Who sees every user's noisy update sees no less than the server does.
    server = "epsilon" if privacy.observer == USER else "epsilon_antennas_rounds"
    guaranteed = by_users_alone() & by_users_alone(server, "epsilon_antennas_without_receiver")
    noisy = pl.col("epsilon_without_receiver").is_finite()
    hidden = pl.col("epsilon").is_finite()
    kind = pl.when(hidden & pl.lit(bool(privacy.colluders or privacy.dropouts))).then(pl.lit(BOUND))
    return frame.with_columns(
        guaranteed=guaranteed,
        epsilon_is=kind.otherwise(pl.lit(EXACT)),
        epsilon_user=pl.col("epsilon"),
        epsilon_user_is=kind.otherwise(pl.lit(EXACT)),
        epsilon_server=pl.col(server),
        guarantee=pl.when(guaranteed)
        .then(pl.lit(GUARANTEED + besides))
        .otherwise(pl.when(noisy).then(pl.lit(COUNTS_RECEIVER + besides)).otherwise(pl.lit(RECEIVER_ALONE + besides))),
        observer=pl.lit(watching),
        local_steps=pl.lit(float(training.local_steps)),
        rounds=pl.lit(training.rounds),
        delta=pl.lit(privacy.delta),
        transmit_energy_bound=pl.col("transmit_energy_limit") * sent,
        **{name: pl.lit(term) for name, term in TERMS.items()},
    )
