"""What the server receives over its antennas: a weighted sum of updates and noise, (4) and (5); what observers see."""

import numpy as np
import polars as pl

from pwfl.learning import features
from pwfl.privacy import visibility
from pwfl.systems.random_orthogonalization import mimo
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.systems.random_orthogonalization.tables import ANTENNAS, UPDATE, observer
from pwfl.tables.arrays import to_array, to_table
from pwfl.training.models import network, parameter_count

KEYS = ("realization", "round", "user")


def run(scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables `reception`, `reception_noise` and `visibility`; a user's message is its clipped update.

    Rounds are intervals. Observers are of the scenario's network and of those of other sizes (`observer`), of the same
    noise and amplitudes.
    """
    noise, users = tables["noise"], tables["users"]["user"].max() + 1
    realizations = range(noise["realization"].min(), noise["realization"].max() + 1)
    sigma, std = (to_array(noise, name, *KEYS[:2]) for name in ("noise_std", "effective_noise_std"))
    own = weights(tables["links"], users)
    keys = {"realization": realizations, "interval": range(own.shape[1])}
    dimension = parameter_count(network(scenario.training, features.size(scenario), hidden_layers=()))
    found = to_table(keys | {"user": range(users)}, weight=own, user_noise_std=np.abs(own) * sigma[..., None])
    return {
        "reception": found.with_columns(
            records=pl.lit(None, pl.Int64), group=pl.lit(None, pl.Int64), grid_step=pl.lit(None, pl.Float64)
        ),
        "reception_noise": to_table(
            keys,
            rounds=1,
            update_noise_std=std,
            planned_noise_std=std,
            planned_senders=users,
            symbols=float(dimension),
            seconds=dimension / scenario.radio.bandwidth_hz,
        ).with_columns(joules=pl.lit(None, pl.Float64)),  # signals have no unit
        "visibility": visible(scenario, tables, realizations),
    }


def weights(links: pl.DataFrame, users: int) -> np.ndarray:
    """Of a unit of each user's update in the server's, (4), in a network of some users, (realization, round, user)."""
    return to_array(links.filter(users=users), "coupling_real", *KEYS) / users


def visible(
    scenario: RandomOrthogonalization,
    tables: dict[str, pl.DataFrame],
    realizations: range,
    observers: tuple[str, ...] = (UPDATE, ANTENNAS),
) -> pl.DataFrame:
    """The table `visibility`, of users, links, schedule and noise. For who sees all antennas, channels are drawn again.

    Without the receiver's noise, who sees all antennas sees each user's noisy update, and what anybody sees is a
    function of these.
    """
    own, sizes = tables["users"]["user"].max() + 1, tables["links"]["users"].unique().sort().to_list()
    sigma = to_array(tables["noise"], "noise_std", *KEYS[:2])
    amplitude = to_array(tables["schedule"], "amplitude", *KEYS)[..., 0]
    radio, antennas = scenario.radio, scenario.network.antennas
    receiver_std = mimo.receiver_noise_std(radio.receiver_noise_variance, radio.normalization, antennas)
    uplink, found = mimo.Uplink(sigma, receiver_std, amplitude), []
    at_antennas = {}
    if ANTENNAS in observers:
        at_antennas = antennas_visibility(scenario.seed, realizations, sizes, antennas, uplink)
    for size in sizes:
        weight = weights(tables["links"], size)
        share, energy = np.abs(weight), np.maximum(weight.sum(axis=-1), 0) / size
        of_users = np.sqrt((np.square(weight) * np.square(sigma)[..., None]).sum(axis=-1))
        noise_std = np.hypot(of_users, receiver_std / amplitude * np.sqrt(energy / 2))
        if size == own:  # the noise that the server is said to add up to
            noise_std = to_array(tables["noise"], "effective_noise_std", *KEYS[:2])
        with np.errstate(divide="ignore", invalid="ignore"):
            update = share / noise_std[..., None], share / of_users[..., None]
            seen = at_antennas.get(size), np.broadcast_to(1 / sigma[..., None], weight.shape)
        keys = {"realization": realizations, "interval": range(weight.shape[1]), "user": range(size)}
        for name in observers:
            all_noise, users_only = {UPDATE: update, ANTENNAS: seen}[name]
            columns = {"visibility": all_noise, "visibility_users_only": users_only}
            # Nothing of a message in nothing of noise: nobody knows that it is nothing.
            columns = {key: np.where(np.isnan(values), np.inf, values) for key, values in columns.items()}
            table = to_table(keys, rounds=1, **columns)
            found.append(table.with_columns(observer=pl.lit(observer(name, size, own))))
    return pl.concat(found)


def antennas_visibility(
    seed: int, realizations: range, sizes: list[int], antennas: int, uplink: mimo.Uplink
) -> dict[int, np.ndarray]:
    """How a unit of each user's update shows at all antennas, (realization, round, user), by the network's size.

    With real channels g_k = (Re h_k, Im h_k), the observer sees alpha sum g_k (u_k + n_k) and noise of variance
    sigma_m^2 / 2 in each real coordinate. All that matters are the g_j' g_k: the observed may be any vectors with these
    products, such as columns of the matrix's square root.
    """
    found = {size: np.empty((*uplink.noise_std.shape, size)) for size in sizes}
    for block in mimo.blocks(realizations, sizes[-1], antennas):
        rows = slice(block.start - realizations.start, block.stop - realizations.start)
        own = uplink._replace(noise_std=uplink.noise_std[rows], amplitude=uplink.amplitude[rows])
        for t in range(uplink.noise_std.shape[1]):
            products = mimo.gram(seed, block, t + 1, sizes[-1], antennas).real
            for size in sizes:
                found[size][rows, t] = visibility.through_gram(
                    own.amplitude[:, t, None, None] ** 2 * products[:, :size, :size],
                    own.noise_std[:, t],
                    own.receiver_std / np.sqrt(2),
                )
    return found
