"""Noise of the system `utility_fair`: of the devices' copies of the model, (14), and of their uploads, (7)."""

import numpy as np
import polars as pl

from pwfl.privacy.gaussian import composed_multiplier
from pwfl.process import user_code
from pwfl.systems.utility_fair import copies, uploads
from pwfl.systems.utility_fair.parameters import UtilityFair
from pwfl.systems.utility_fair.schemes import NOISES, OWN
from pwfl.tables.arrays import joined, to_array, to_table

KEYS = ("realization", "round", "device")


def run(scenario: UtilityFair, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Compute each device's noise at deviation 0, its dependence on deviation, shared noise, and noise of uploads.

    `scheme` is one of `schemes.NOISES`, or the name of a user-defined function (`user_noise`). By default, noisy
    uploads have the noise multiplier of a copy at deviation 0: the paper's benchmark assumes one (epsilon_g, delta_g)
    for both. A target, or a function, sets the noise against the outcome's observer. That is the noise of uploads if
    they are noisy; copies, computed from them, keep that of epsilon_g. Otherwise it is that of all copies together at
    deviation 0, where it is smallest.
    """
    privacy, training, noisy = scenario.privacy, scenario.training, scenario.privacy.uploads == "noisy"
    kind = OWN if (by_function := user_code.is_reference(scheme)) else NOISES[scheme]
    target, devices = privacy.target_epsilon, tables["users"].select("realization", "device")
    copy = upload = copies.base_multiplier(privacy.epsilon, privacy.delta)
    if target is not None and noisy:
        upload = composed_multiplier(target, privacy.delta, uploads.SENT * training.rounds)
    elif target is not None:
        vectors = 1 if kind.one_vector else devices["device"].n_unique()
        copy = composed_multiplier(target, privacy.delta, vectors * (training.rounds - 1))
    if kind.is_silent:
        copy = upload = 0.0
    theta = privacy.theta if kind.follows_deviation else 0.0
    sensitivity = uploads.sensitivity(training.clip_norm, scenario.device.batch_size, privacy.sensitivity)
    multiplier, sent = pl.lit(copy), pl.lit(upload if noisy else None, pl.Float64)
    if by_function:
        devices, std = joined(devices, user_noise(scenario, scheme, tables), "realization", "device"), pl.col("std")
        multiplier, sent = (multiplier, std / sensitivity) if noisy else (std / privacy.sensitivity, sent)
    noise = devices.select(
        "realization",
        "device",
        noise_multiplier=multiplier,
        copy_std=multiplier * privacy.sensitivity,
        theta=pl.lit(theta),
        noise_vector=pl.lit(0) if kind.one_vector else pl.col("device"),
        upload_multiplier=sent,
        upload_std=sent * sensitivity,
    )
    status = noise.group_by("realization", maintain_order=True).agg(
        status=pl.lit("own" if by_function else scheme), noise_multiplier=pl.col("noise_multiplier").min()
    )
    largest = copies.scaled(status["noise_multiplier"].to_numpy(), np.array(theta), np.array(1.0))
    return {"noise": noise, "noise_status": status.with_columns(largest_multiplier=largest)}


def user_noise(scenario: UtilityFair, scheme: str, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Compute the standard deviation `std` of each device's noise, per coordinate, by a user-defined function.

    It is for both vectors that a device sends in a round if uploads are noisy, otherwise for its copies of the model.
    The function gets the scenario, samples (realization, device), gains and powers (realization, round, device; 0: no
    participation, NaN: chosen in training), and `now`, generators, if it has a parameter of this name. It returns the
    standard deviations (realization, device), all above 0. Raises UserCodeError for invalid noise.
    """
    samples = to_array(tables["users"], "samples", "realization", "device")
    power = tables["schedule"].with_columns(pl.col("power_w").fill_null(np.nan))
    arguments = samples, to_array(tables["links"], "gain", *KEYS), to_array(power, "power_w", *KEYS)
    realizations = tables["users"]["realization"].unique().sort()
    now = user_code.Drawn(user_code.generators(scenario.seed, "noise", realizations))
    noise = user_code.call(scheme, scenario, *arguments, reads=scenario.own.reads, now=now)
    what = "the standard deviation of each device's noise, realizations by devices"
    std = user_code.noise_of(scheme, noise, np.ones(samples.shape, bool), what)
    return to_table({"realization": realizations, "device": range(samples.shape[1])}, std=std)
