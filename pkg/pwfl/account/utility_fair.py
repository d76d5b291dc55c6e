"""Accounting of the system `utility_fair`: what the devices' copies of the model reveal of a training record."""

import numpy as np
import polars as pl

from pwfl.fairness import copies, link
from pwfl.privacy.gaussian import exact_epsilon, exact_multiplier
from pwfl.tables import to_array

TERMS = {
    "unit": "one training record of one device",
    "neighbouring_relation": "replace-one",
    "sampling": "a fresh batch a round; no amplification by sampling is claimed",
    "observer": "all devices together, each sees its noisy copies of the model of all rounds but the clean first",
    "guarantee": "not guaranteed: the sensitivity is observed, not enforced, and deviation factors and the average "
    "gradient reach the devices without noise; epsilons hold if neither did harm, at deviation 0, the least noise",
}


def run(parameters: dict, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """What each device's copies reveal, and each realization's guarantee and cost.

    A copy is a Gaussian release of the model, of sensitivity S_f by assumption. Deviations only add noise,
    so all copies are taken as if at deviation 0: nothing is understated for what training finds.
    """
    privacy, rounds = parameters["privacy"], parameters["training"]["rounds"]
    epsilon, delta, noisy_rounds = privacy["epsilon"], privacy["delta"], rounds - 1
    noise, schedule = tables["noise"], tables["schedule"]
    multiplier, theta = noise["noise_multiplier"].to_numpy(), noise["theta"].to_numpy()
    rho = 1 / (2 * multiplier**2)  # of one copy
    leakage = noise.select("realization", "device").with_columns(
        copies=pl.lit(noisy_rounds),
        noise_multiplier=pl.Series(multiplier),
        largest_multiplier=pl.Series(copies.scaled(multiplier, theta, 1.0)),
        exact_multiplier=pl.Series(exact_multiplier(np.full(len(rho), epsilon), delta)),
        exact_largest_multiplier=pl.Series(exact_multiplier(epsilon * (1 - theta), delta)),
        epsilon_printed=pl.lit(epsilon),
        epsilon_copy=pl.Series(exact_epsilon(rho, delta)),
        epsilon_device=pl.Series(exact_epsilon(noisy_rounds * rho, delta)),
        rho=pl.Series(noisy_rounds * rho),
    )

    # Devices that share a noise vector get the same copy: together they know no more than one of them.
    released = (
        noise.select("realization", "noise_vector", rho=pl.Series(rho))
        .group_by("realization", "noise_vector")
        .agg(pl.col("rho").max())
        .group_by("realization")
        .agg(pl.col("rho").sum())
    )
    worst = leakage.group_by("realization", maintain_order=True).agg(
        devices=pl.len(), **{name: pl.col(name).max() for name in ("epsilon_printed", "epsilon_copy", "epsilon_device")}
    )
    samples = tables["users"].group_by("realization").agg(pl.col("samples").sum())
    outcome = (
        worst.join(samples, on="realization", maintain_order="left")
        .join(released, on="realization", maintain_order="left")
        .join(cost(schedule, parameters["radio"]), on="realization", maintain_order="left")
    )
    rho = outcome["rho"].to_numpy()
    outcome = outcome.with_columns(
        epsilon_round=pl.Series(exact_epsilon(rho, delta)),
        epsilon_exact=pl.Series(exact_epsilon(noisy_rounds * rho, delta)),
        epsilon_worst_case=pl.lit(np.inf),
        rounds=pl.lit(rounds),
        delta=pl.lit(delta),
        **{name: pl.lit(text) for name, text in TERMS.items()},
    )
    return {"leakage": leakage, "outcome": outcome}


def cost(schedule: pl.DataFrame, radio: dict) -> pl.DataFrame:
    """Rounds sat out, symbols on air and radiated energy of each realization; null where training decides.

    A transmission takes V ln 2 / (B Z) seconds, (8), so B times that many symbols.
    """
    power = to_array(schedule, "power_w", -1)
    z = link.log_snr(power, schedule["unit_power_w"].to_numpy())
    symbols = np.divide(radio["update_bits"] * np.log(2), z, out=np.zeros(len(z)), where=z != 0)
    return (
        schedule.with_columns(symbols=pl.Series(symbols), energy=pl.Series(symbols * power / radio["bandwidth_hz"]))
        .group_by("realization", maintain_order=True)
        .agg(
            rounds_out=(~pl.col("takes_part")).sum(),
            channel_uses=pl.col("symbols").sum().fill_nan(None),
            transmit_energy_j=pl.col("energy").sum().fill_nan(None),
        )
    )
