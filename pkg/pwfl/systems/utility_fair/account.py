"""Privacy accounting of the system `utility_fair`: losses of a record from copies of the model and from uploads."""

import numpy as np
import polars as pl

from pwfl.airs import air, linear
from pwfl.airs.air import Observer
from pwfl.privacy import accountant
from pwfl.privacy.accountant import RECORD, USER, USERS, Claim, Gaussian, Losses
from pwfl.privacy.gaussian import exact_epsilon, exact_multiplier
from pwfl.privacy.labels import DEVIATIONS, OBSERVED, Kind
from pwfl.systems.utility_fair import copies, link, uploads
from pwfl.systems.utility_fair.parameters import Radio, UtilityFair
from pwfl.tables.arrays import joined
from pwfl.tables.contract import ALWAYS_PUBLIC

TERMS = {
    "unit": "one training record of one device",
    "evaluated_model": "the access point's model, which no device gets: copies carry noise",
    "taken_as_public": f"{ALWAYS_PUBLIC}; privacy.sensitivity, where training.clip_norm is null",
    "energy_scope": "radiated on channels without interference, path loss of network.max_distance_m at most, noise "
    "power as radio.noise reads it",
}
ROUNDS = Gaussian("a fresh batch a round; no amplification by sampling is claimed")
COPIES, UPLOADS = "copies", "uploads"  # observers


def observed_by(clipped: bool) -> dict[str, Observer]:
    """Return the observers, all devices and the access point with them; unless `clipped`, sensitivity is assumed."""
    assumed = () if clipped else (OBSERVED,)
    return {
        COPIES: Observer(
            "all devices' noisy copies of the model of all rounds but the clean first, to all of them together",
            UPLOADS,
            assumes=(*assumed, DEVIATIONS),
        ),
        UPLOADS: Observer(
            "all that devices send, and what is computed of it, to access point and all devices together",
            UPLOADS,
            kind=Kind.UPPER,  # a record may move an update by less than the sensitivity
            assumes=assumed,
        ),
    }


def run(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Compute each device's privacy losses, and each realization's guarantee and cost.

    A copy is a Gaussian release of the model, with sensitivity S_f by assumption. It is accounted for at deviation 0,
    as deviations, which training determines, only add noise. The access point receives a gradient and an update of each
    device in each round. If noisy, they are Gaussian releases, too, and all other results are computed from them. Then
    epsilon is that of a device's messages, guaranteed if they are clipped (see `uploads`). If clean, they hide nothing
    from the access point.
    """
    privacy, rounds, noise = scenario.privacy, scenario.training.rounds, tables["noise"]
    epsilon, delta, clip_norm = privacy.epsilon, privacy.delta, scenario.training.clip_norm
    multiplier, theta = noise["noise_multiplier"].to_numpy(), noise["theta"].to_numpy()
    with np.errstate(divide="ignore"):
        rho = 1 / (2 * multiplier**2)  # of one copy
        rho_vector = 1 / (2 * noise["upload_multiplier"].fill_null(0.0).to_numpy() ** 2)  # of one vector that is sent
    moved = {
        RECORD: uploads.SENT,
        USER: sum(far**2 for far in uploads.moved_by_a_user(clip_norm, scenario.device.batch_size)),
    }
    released_rho = {
        "epsilon_copy": rho,
        "epsilon_device": (rounds - 1) * rho,
        "epsilon_upload": moved[RECORD] * rho_vector,
        "epsilon_user": rounds * moved[USER] * rho_vector,
    }
    leakage = noise.select("realization", "device", "noise_multiplier", "upload_multiplier").with_columns(
        copies=pl.lit(rounds - 1),
        largest_multiplier=copies.scaled(multiplier, theta, 1.0),
        exact_multiplier=exact_multiplier(np.full(len(rho), epsilon), delta),
        exact_largest_multiplier=exact_multiplier(epsilon * (1 - theta), delta),
        epsilon_printed=pl.lit(epsilon),
        **dict(zip(released_rho, exact_epsilon(np.stack([*released_rho.values()]), delta), strict=True)),
    )
    maxima = leakage.group_by("realization", maintain_order=True).agg(
        pl.col("epsilon_printed", "epsilon_copy", "epsilon_device", "epsilon_upload").max(),
        devices=pl.len(),
    )
    # Devices that share a noise vector get the same copy: together they receive no more than one of them.
    vectors = noise.with_columns(rho=rho).group_by("realization", "noise_vector", maintain_order=True)
    released = vectors.agg(pl.col("rho").max()).group_by("realization", maintain_order=True).agg(pl.col("rho").sum())
    rho_round = joined(maxima, released, "realization")["rho"].to_numpy()
    observers = air.table(observed_by(clip_norm is not None), maxima["realization"])
    seen = {
        COPIES: Losses(np.sqrt(2 * rho_round)[:, None, None], np.array([rounds - 1])),
        UPLOADS: Losses(np.sqrt(2 * rho_vector).reshape(len(maxima), 1, -1), np.array([rounds])),
    }
    accounts = {}
    for name, squares in {COPIES: {RECORD: 1.0, USER: np.inf}, UPLOADS: moved}.items():
        view = accountant.view_of(observers, name)
        for unit, square in squares.items():
            claim = Claim(name, unit, np.sqrt(square))
            accounts[claim.key] = accountant.account(claim, seen[name].moved(claim.sensitivity), ROUNDS, delta, view)
    guarantees = accountant.guarantees(accounts, ROUNDS)
    declared = COPIES if noise["upload_multiplier"].null_count() else UPLOADS  # clean uploads hide nothing
    account = accounts[declared, RECORD, USERS]
    shape = len(maxima), len(leakage) // len(maxima)  # the account of all copies has one value for all devices
    columns = {name: np.broadcast_to(getattr(account, name), shape).ravel() for name in ("rho", "epsilon")}
    stated = accountant.stated(guarantees, observers, declared).with_columns(
        epsilon_round=exact_epsilon(rho_round, delta),
        epsilon_worst_case=pl.lit(np.inf) if clip_norm is None else pl.col("epsilon_server"),
    )
    samples = tables["users"].group_by("realization").agg(pl.col("samples").sum())
    parts = maxima, samples, released, cost(tables["schedule"], scenario.radio), stated
    return {
        "leakage": leakage.with_columns(**columns),
        "outcome": linear.outcome(parts, TERMS | {"rounds": rounds, "delta": delta}),
        "guarantees": guarantees,
        "observers": observers,
    }


def cost(schedule: pl.DataFrame, radio: Radio) -> pl.DataFrame:
    """Compute rounds without participation, channel uses, airtime, radiated energy and mean iterations by realization.

    Values that training determines are null. A transmission lasts V ln 2 / (B Z) seconds, (8), and has B times as many
    symbols. Each device has a separate channel, so a round's airtime is that of its slowest device.
    """
    power = schedule["power_w"].to_numpy()
    z = link.log_snr(power, schedule["unit_power_w"].to_numpy())
    symbols = np.divide(radio.update_bits * np.log(2), z, out=np.zeros(len(z)), where=z != 0)
    decided = pl.col("power_w").is_not_null().all()
    seconds = symbols / radio.bandwidth_hz
    sent = schedule.with_columns(symbols=symbols, seconds=seconds, energy=symbols * power / radio.bandwidth_hz)
    total = sent.group_by("realization", maintain_order=True).agg(
        rounds_out=(~pl.col("takes_part")).sum(),
        channel_uses=pl.col("symbols").sum().fill_nan(None),
        transmit_energy_j=pl.col("energy").sum().fill_nan(None),
        local_steps=pl.when(decided).then(pl.col("iterations").filter("takes_part").mean()),
    )
    slowest = sent.group_by("realization", "round", maintain_order=True).agg(air_seconds=pl.col("seconds").nan_max())
    on_air = slowest.group_by("realization", maintain_order=True).agg(pl.col("air_seconds").sum().fill_nan(None))
    return joined(total, on_air, "realization")
