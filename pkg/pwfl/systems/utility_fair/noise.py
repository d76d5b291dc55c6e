"""Noise of the system `utility_fair`: of the devices' copies of the model, (14), and of what they send, (7)."""

import polars as pl

from pwfl.privacy.gaussian import composed_multiplier
from pwfl.systems.utility_fair import copies, uploads
from pwfl.systems.utility_fair.parameters import UtilityFair


def run(scenario: UtilityFair, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Each device's noise at deviation 0, how deviation scales it, which devices share a draw; noise of uploads.

    `scheme` is `fair` (more noise the more a device deviates, which training finds), `independent` (the same noise for
    all, in vectors of their own), `shared` (one vector for all) or `none` (nor is there any in uploads). Noisy uploads
    have the noise of a copy at deviation 0: the paper's benchmark takes one (epsilon_g, delta_g) for both. A target
    sets the noise of what the outcome's observer sees: of noisy uploads where there are any, while copies, which are
    computed of them, keep that of epsilon_g; else of all copies together, at deviation 0, the least noise.
    """
    privacy, training, noisy = scenario.privacy, scenario.training, scenario.privacy.uploads == "noisy"
    target, devices = privacy.target_epsilon, tables["users"].select("realization", "device")
    copy = upload = copies.base_multiplier(privacy.epsilon, privacy.delta)
    if target is not None and noisy:
        upload = composed_multiplier(target, privacy.delta, uploads.SENT * training.rounds)
    elif target is not None:
        vectors = 1 if scheme == "shared" else devices["device"].n_unique()
        copy = composed_multiplier(target, privacy.delta, vectors * (training.rounds - 1))
    if scheme == "none":
        copy = upload = 0.0
    theta = privacy.theta if scheme == "fair" else 0.0
    sent = pl.lit(upload if noisy else None, pl.Float64)
    noise = devices.with_columns(
        noise_multiplier=pl.lit(copy),
        copy_std=pl.lit(copy * privacy.sensitivity),
        theta=pl.lit(theta),
        noise_vector=pl.lit(0) if scheme == "shared" else pl.col("device"),
        upload_multiplier=sent,
        upload_std=sent * uploads.sensitivity(training.clip_norm, scenario.device.batch_size, privacy.sensitivity),
    )
    status = noise.select(pl.col("realization").unique(maintain_order=True)).with_columns(
        status=pl.lit(scheme),
        noise_multiplier=pl.lit(copy),
        largest_multiplier=pl.lit(copies.scaled(copy, theta, 1.0)),
    )
    return {"noise": noise, "noise_status": status}
