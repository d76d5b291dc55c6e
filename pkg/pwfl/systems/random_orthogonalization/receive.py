"""Reception of the server over its antennas: a weighted sum of updates, and noise, (4) and (5); visibilities."""

from itertools import product

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.learning import features
from pwfl.privacy import visibility
from pwfl.systems.random_orthogonalization import mimo, observers
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.systems.random_orthogonalization.tables import ANTENNAS, UPDATE, USER, observer
from pwfl.tables.arrays import size_of, span_of, to_array, to_table
from pwfl.tables.reception import EMPTY
from pwfl.training.models import network, parameter_count

KEYS = ("realization", "round", "user")


def run(scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `reception`, `reception_noise`, `visibility` and `observers`; messages are clipped updates.

    Each round is an interval. Observers are of the scenario's network and of those of other sizes (`observer`), with
    the same noise and amplitudes. A user who drops out of a round remains in the sum h_s: it sends nothing, which
    counts as the update zero.
    """
    noise, users = tables["noise"], size_of(tables["users"], "user")
    realizations = span_of(noise)
    sigma, std = (to_array(noise, name, *KEYS[:2]) for name in ("noise_std", "effective_noise_std"))
    links, sends = mimo.links_of(tables, users), mimo.sends_of(tables, users)
    weight = weights(links, sends)
    keys = {"realization": realizations, "interval": range(weight.shape[1])}
    dimension = parameter_count(network(scenario.training, features.size(scenario), hidden_layers=()))
    user_std, occurring, active = np.abs(weight) * sigma[..., None], std, sends
    reception = to_table(keys | {"user": range(users)}, weight=weight, user_noise_std=user_std)
    if scenario.privacy.dropouts:
        active = sends & sending(scenario, realizations, weight.shape[1:])
        receiver_std = _receiver_std(mimo.uplink_of(scenario, tables["schedule"], sigma), weight, sends)
        occurring = np.hypot(np.sqrt((user_std**2 * active).sum(axis=-1)), receiver_std)
    reception = reception.filter(pl.Series(active.ravel()))
    return {
        "reception": reception.with_columns(**EMPTY),
        "reception_noise": to_table(
            keys,
            rounds=1,
            update_noise_std=occurring,
            planned_noise_std=std,
            planned_senders=sends.sum(axis=-1),
            symbols=float(dimension),
            seconds=dimension / scenario.radio.bandwidth_hz,
        ).with_columns(joules=pl.lit(None, pl.Float64)),  # signals have no unit
        "visibility": visible(scenario, tables, realizations),
        "observers": observers.table(scenario.privacy, tables["links"]["users"].unique(), users, realizations),
    }


def sending(scenario: RandomOrthogonalization, realizations: range, shape: tuple[int, int]) -> np.ndarray:
    """Draw who does not drop out, boolean, `shape` (round, user) after the realization axis; equal for all schemes."""
    drawn = [streams.generator(scenario.seed, "dropouts", realization).random(shape) for realization in realizations]
    return np.stack(drawn) >= scenario.privacy.dropouts


def weights(links: pl.DataFrame, sends: np.ndarray) -> np.ndarray:
    """Compute the weight of each user's update in the server's, (4), (realization, round, user), from links."""
    return to_array(links, "coupling_real", *KEYS) / sends.sum(axis=-1, keepdims=True)


def _receiver_std(uplink: mimo.Uplink, weight: np.ndarray, sends: np.ndarray) -> np.ndarray:
    """Compute the standard deviation of the receiver's noise in the server's update, shape (realization, round)."""
    energy = np.maximum(weight.sum(axis=-1), 0) / sends.sum(axis=-1)  # (||h_s|| / K)^2
    return uplink.receiver_std / uplink.amplitude * np.sqrt(energy / 2)


def visible(
    scenario: RandomOrthogonalization,
    tables: dict[str, pl.DataFrame],
    realizations: range,
    seen_by: tuple[str, ...] = (UPDATE, ANTENNAS),
) -> pl.DataFrame:
    """Make the table `visibility` from users, links, schedule and noise; for ANTENNAS, channels are drawn again.

    Without the receiver's noise, an observer of all antennas receives each user's noisy update, and all that others
    receive is a function of these: rows of `USER`. For the update, the noise of the worst coalition and of the planned
    number of dropouts is subtracted; for all antennas, if there are any, that of all other users: a bound.
    """
    all_users, sizes = size_of(tables["users"], "user"), tables["links"]["users"].unique().sort().to_list()
    sigma, privacy = to_array(tables["noise"], "noise_std", *KEYS[:2]), scenario.privacy
    antennas, uplink, rows = scenario.network.antennas, mimo.uplink_of(scenario, tables["schedule"], sigma), []
    gone = {size: observers.gone(privacy, size, sigma.shape[1]) for size in sizes}
    active = {size: mimo.sends_of(tables, size) for size in sizes}
    exact = {size: sends for size, sends in active.items() if ANTENNAS in seen_by and not gone[size]}
    at_antennas: dict[int, np.ndarray] = {}
    if exact:
        coherence = scenario.radio.coherence_rounds
        at_antennas = antennas_visibility(scenario.seed, realizations, antennas, uplink, coherence, exact)
    for size, sends in active.items():
        links = mimo.links_of(tables, size)
        weight = weights(links, sends)
        share, variance = np.abs(weight), np.square(weight) * np.square(sigma)[..., None]
        hiding = observers.left(variance, gone[size]) if gone[size] else variance.sum(axis=-1, keepdims=True)
        users_std = np.sqrt(hiding)
        noise_std = np.hypot(users_std, _receiver_std(uplink, weight, sends)[..., None])
        if gone[size]:
            at_antennas[size] = alone_at_antennas(to_array(links, "energy", *KEYS), uplink)
        elif size == all_users:  # the noise in the server's update, as stated
            noise_std = to_array(tables["noise"], "effective_noise_std", *KEYS[:2])[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            messages = np.broadcast_to(1 / sigma[..., None], weight.shape)
            views: dict[str, tuple] = {
                UPDATE: (share / noise_std, share / users_std),
                ANTENNAS: (at_antennas.get(size), messages),
            }
        views[USER] = (messages, messages)
        keys = {"realization": realizations, "interval": range(weight.shape[1]), "user": range(size)}
        for name in seen_by:
            columns = dict(zip(("visibility", "visibility_users_only"), views[name], strict=True))
            # NaN: the weight and the noise are 0. Infinite, as the observer does not know that the weight is 0.
            columns = {key: np.where(np.isnan(values), np.inf, values) for key, values in columns.items()}
            # All observers know that a user does not send.
            columns = {key: np.where(sends, values, 0.0) for key, values in columns.items()}
            table = to_table(keys, rounds=1, **columns)
            rows.append(table.with_columns(observer=pl.lit(observer(name, size, all_users))))
    return pl.concat(rows)


def alone_at_antennas(energy: np.ndarray, uplink: mimo.Uplink) -> np.ndarray:
    """Compute `antennas_visibility` of one network if all others' signals and noise are known: an upper bound.

    `energy` is ||h_k||^2, shape (realization, round, user).
    """
    received = np.square(uplink.amplitude)[..., None] * energy
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(received / (received * np.square(uplink.noise_std)[..., None] + uplink.receiver_std**2 / 2))


def antennas_visibility(
    seed: int,
    realizations: range,
    antennas: int,
    uplink: mimo.Uplink,
    coherence_rounds: int | None,
    sends: dict[int, np.ndarray],
) -> dict[int, np.ndarray]:
    """Compute each user's visibility to an observer of all antennas, (realization, round, user), by network size.

    With real channels g_k = (Re h_k, Im h_k), the observer receives alpha sum g_k (u_k + n_k) and noise of variance
    sigma_m^2 / 2 in each real coordinate. Visibility depends only on the products g_j' g_k, so any vectors with these
    products may replace the g_k, such as columns of the matrix's square root; for many users, the g_k themselves are
    used. `sends` has, by network size, who sends, boolean, of the result's shape.
    """
    by_size = {size: np.empty(active.shape) for size, active in sends.items()}
    rounds = uplink.noise_std.shape[1]
    for rows, within, channel in mimo.drawn(seed, realizations, rounds, coherence_rounds, max(sends), antennas):
        products = mimo.inner_products_of_few(channel, sends).real
        for size, t in product(sends, within):
            active, amplitude = sends[size][rows, t], uplink.amplitude[rows, t]
            noises = uplink.noise_std[rows, t], uplink.receiver_std / np.sqrt(2)
            if mimo.few(size, antennas):
                gram = mimo.among(products[:, :size, :size], active)
                seen = visibility.through_gram(amplitude[:, None, None] ** 2 * gram, *noises)
            else:
                sent = np.where(active[..., None], channel[:, :size], 0.0)
                sent = np.concatenate([sent.real, sent.imag], axis=-1).swapaxes(-1, -2)
                seen = visibility.through_few(amplitude[:, None, None] * sent, *noises)
            by_size[size][rows, t] = seen
    return by_size
