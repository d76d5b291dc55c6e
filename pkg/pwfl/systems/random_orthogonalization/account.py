"""Accounting of the system `random_orthogonalization`: Theorem 1 of ul Zuhra et al., and what holds.

A record's replacement can turn a user's clipped update around, so an update's sensitivity is 2C, for one record as for
all of a user's. Channels do not depend on data: every guarantee is that of the channels that occurred, known to the
observer.
"""

import numpy as np
import polars as pl

from pwfl.learning import features
from pwfl.learning.mlp import parameter_count
from pwfl.privacy.gaussian import exact_epsilon, textbook_epsilon, zcdp
from pwfl.systems.random_orthogonalization import mimo
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.systems.random_orthogonalization.tables import WITHOUT_RECEIVER, WORST
from pwfl.tables.arrays import joined, to_array, to_table
from pwfl.tables.contract import by_users_alone

TERMS = {
    "unit": "one training record of one user; holds for all records of the user together",
    "neighbouring_relation": "replace-one",
    "sampling": "none claimed: a record may be in every mini-batch",
    "observer": "sees the server's update of every round and knows all channels; for epsilon_antennas and "
    "all that begin so, sees the signals of all antennas",
    "link_budget": "none: signals have no unit of energy",
    "accuracy_of": "the server's global model",
}
GUARANTEED = "guaranteed for the channels that occurred: every user's update is clipped, no noise but the users' counts"
COUNTS_RECEIVER = (
    "not guaranteed: counts the noise of the server's own receiver; the users' own guarantees epsilon_without_receiver "
    "for the channels that occurred, epsilon_antennas_without_receiver to one who sees all antennas"
)
RECEIVER_ALONE = "not guaranteed: users add no noise, only that of the server's own receiver is left"
KEYS = ("realization", "round", "user")


def run(scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Each user's leakage in networks of several sizes, and each realization's guarantee.

    The scenario's own network is accounted for by the tables `schedule` and `noise`. Networks of other sizes consist of
    the same users' channels, or of more users', drawn again from their stream, with the same noise and amplitudes.
    """
    schedule, noise, radio = tables["schedule"], tables["noise"], scenario.radio
    realizations = range(schedule["realization"].min(), schedule["realization"].max() + 1)
    own = {name: to_array(schedule, name, *KEYS) for name in (*mimo.COUPLINGS, "amplitude")}
    noise_of = {name: to_array(noise, name, *KEYS[:2]) for name in ("noise_std", *mimo.EFFECTIVE)}
    users, antennas = own["energy"].shape[-1], scenario.network.antennas
    sizes = sorted({users, *scenario.privacy.user_numbers})
    receiver_std = mimo.receiver_noise_std(radio.receiver_noise_variance, radio.normalization, antennas)
    clip_norm, delta = scenario.training.clip_norm, scenario.privacy.delta

    frames = []
    # What `draw` returns of a realization.
    kept = np.dtype(float).itemsize * scenario.training.rounds * sum(sizes) * (len(mimo.COUPLINGS) + 1)
    for block in mimo.blocks(realizations, sizes[-1], antennas, kept):
        rows = slice(block.start - realizations.start, block.stop - realizations.start)
        uplink = mimo.Uplink(noise_of["noise_std"][rows], receiver_std, own["amplitude"][rows, :, 0])
        for size, coupling in draw(scenario.seed, block, sizes, antennas, uplink).items():
            if size == users:
                coupling |= {name: own[name][rows] for name in mimo.COUPLINGS}
                effective = {name: noise_of[name][rows] for name in mimo.EFFECTIVE}
            else:
                effective = mimo.effective_noise(coupling, uplink)
            quiet = mimo.effective_noise(coupling, uplink._replace(receiver_std=0.0))["effective_noise_std"]
            effective |= {"of_users": quiet, "of_user": uplink.noise_std}
            each = leakages(coupling, effective, clip_norm, delta, mimo.mean_noise(size, antennas, uplink))
            frames.append(to_table({"realization": block, "user": range(size)}, users=size, **each))
    leakage = pl.concat(frames).sort("realization", "users", "user")
    return {"leakage": leakage, "outcome": outcome(scenario, leakage.filter(users=users), tables)}


def draw(
    seed: int, realizations: range, sizes: list[int], antennas: int, uplink: mimo.Uplink
) -> dict[int, dict[str, np.ndarray]]:
    """`mimo.COUPLINGS` and `visibility` of the first users, (realization, round, user), by their number in `sizes`."""
    drawn = {size: {} for size in sizes}
    shape = uplink.noise_std.shape
    for t in range(shape[1]):
        products = mimo.gram(seed, realizations, t + 1, sizes[-1], antennas)
        for size in sizes:
            part = products[:, :size, :size]
            seen = visibility(part.real, uplink.round(t))
            for name, values in (mimo.couplings(part) | {"visibility": seen}).items():
                drawn[size].setdefault(name, np.empty((*shape, size)))[:, t] = values
    return drawn


def visibility(products: np.ndarray, uplink: mimo.Uplink) -> np.ndarray:
    """Squared distance, over the noise, that a unit change of a user's update makes at all antennas.

    With real channels g_k = (Re h_k, Im h_k), the observer sees y of mean alpha sum g_k u_k and covariance S = alpha^2
    sigma^2 sum g_k g_k' + sigma_m^2 / 2. Of the eigenvalues l and eigenvectors v of the matrix of g_j' g_k, alpha^2
    g_k' S^-1 g_k is the sum of alpha^2 v_k^2 l / (alpha^2 sigma^2 l + sigma_m^2 / 2).

    `products` are the g_j' g_k, shape (realization, user, user), the uplink is of shape (realization,). Returns shape
    (realization, user); infinite without noise.
    """
    values, vectors = np.linalg.eigh(products)
    # Rounding leaves eigenvalues below this in doubt; more of them means more leakage.
    values = np.maximum(values, values[:, -1:] * values.shape[1] * np.finfo(float).eps)
    signal = uplink.amplitude[:, None] ** 2 * values
    with np.errstate(divide="ignore", over="ignore"):
        ratio = signal / (uplink.noise_std[:, None] ** 2 * signal + uplink.receiver_std**2 / 2)
    with np.errstate(invalid="ignore"):
        seen = (vectors**2 @ ratio[..., None])[..., 0]
    return np.where(np.isnan(seen), np.inf, seen)


def leakages(
    coupling: dict[str, np.ndarray],
    noise: dict[str, np.ndarray],
    clip_norm: float,
    delta: float,
    mean_noise: np.ndarray,
) -> dict[str, np.ndarray]:
    """Each user's leakage by all readings: columns of the table `leakage`, each of shape (realization, user).

    Theorem 1 takes ||h_k||^2 / K for the weight of user k's update; in truth it is Re(h_s^H h_k) / K. Rounds compose as
    Gaussian mechanisms, exactly: their mu^2 add. `coupling` holds `mimo.COUPLINGS` and `visibility`, shape
    (realization, round, user), `noise` `mimo.EFFECTIVE`, its part `of_users` in the server's update and each user's
    own, `of_user`; `mean_noise` is that of `mimo`, shape (realization, round).

    Without the receiver's noise, one who sees all antennas sees each user's noisy update, and what anybody sees is a
    function of these.
    """
    users = coupling["energy"].shape[-1]
    claimed = 2 * clip_norm * coupling["energy"] / users
    by_theorem = {
        "epsilon_closed_form": (np.full(claimed.shape, 2 * clip_norm / users), mean_noise),
        "epsilon_printed": (claimed, noise["effective_noise_std_printed"]),
        "epsilon_modulus": (claimed, noise["effective_noise_std_modulus"]),
    }
    mu = mimo.update_mu(coupling["coupling_real"], noise["effective_noise_std"], clip_norm)
    mu_antennas = 2 * clip_norm * np.sqrt(coupling["visibility"])
    without = mimo.update_mu(coupling["coupling_real"], noise["of_users"], clip_norm)
    without_antennas = mimo.mechanism_mu(np.full(mu.shape, 2 * clip_norm), noise["of_user"])
    rho, rho_antennas, *rho_without = (zcdp(each, 1.0, 1) for each in (mu, mu_antennas, without, without_antennas))
    rounds = {name: textbook_epsilon(mimo.mechanism_mu(*pair), delta) for name, pair in by_theorem.items()} | {
        "epsilon_sensitivity": textbook_epsilon(mu, delta),
        "epsilon_gaussian": exact_epsilon(rho, delta),
        "epsilon_antennas": exact_epsilon(rho_antennas, delta),
        "epsilon_antennas_classic": textbook_epsilon(mu_antennas, delta),
    }
    rounds["understated"] = rounds["epsilon_printed"] < rounds["epsilon_gaussian"]
    return {name: values.mean(axis=1) for name, values in rounds.items()} | {
        "epsilon_exact": exact_epsilon(rho.sum(axis=1), delta),
        "epsilon_antennas_rounds": exact_epsilon(rho_antennas.sum(axis=1), delta),
        "mu": np.sqrt(2 * rho.sum(axis=1)),
        **{
            name: exact_epsilon(each.sum(axis=1), delta)
            for name, each in zip(WITHOUT_RECEIVER, rho_without, strict=True)
        },
    }


def outcome(scenario: RandomOrthogonalization, leakage: pl.DataFrame, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Guarantee and cost of each realization, from its users' leakages in the scenario's own network.

    The power that users may take is bounded by alpha^2 (C^2 + d sigma^2), since the update's norm is at most C; the
    paper's limit alpha^2 = P leaves out the noise.
    """
    training, size = scenario.training, features.size(scenario)
    dimension = parameter_count([size.features, size.classes])
    frame = leakage.group_by("realization", maintain_order=True).agg(
        pl.col("users").first(), pl.col(WORST).max(), pl.col("understated").mean()
    )
    strongest = pl.col("noise_std").max()
    for table, columns in {
        "users": [pl.col("samples").sum()],
        "schedule": [(pl.col("amplitude").max() ** 2).alias("transmit_energy_limit")],
        "noise": [(strongest**2).alias("noise_variance")],
    }.items():
        frame = joined(frame, tables[table].group_by("realization").agg(columns), "realization")
    sent = training.clip_norm**2 + dimension * pl.col("noise_variance")
    guaranteed = by_users_alone() & by_users_alone("epsilon_antennas_rounds", "epsilon_antennas_without_receiver")
    noisy = pl.col("epsilon_without_receiver").is_finite()
    return frame.with_columns(
        guaranteed=guaranteed,
        epsilon_server=pl.col("epsilon_antennas_rounds"),
        guarantee=pl.when(guaranteed)
        .then(pl.lit(GUARANTEED))
        .otherwise(pl.when(noisy).then(pl.lit(COUNTS_RECEIVER)).otherwise(pl.lit(RECEIVER_ALONE))),
        local_steps=pl.lit(float(training.local_steps)),
        rounds=pl.lit(training.rounds),
        delta=pl.lit(scenario.privacy.delta),
        channel_uses=pl.lit(float(dimension * training.rounds)),
        air_seconds=pl.lit(dimension * training.rounds / scenario.radio.bandwidth_hz),
        transmit_energy_j=pl.lit(None, pl.Float64),
        transmit_energy_bound=pl.col("transmit_energy_limit") * sent,
        **{name: pl.lit(term) for name, term in TERMS.items()},
    )
