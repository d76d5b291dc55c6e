"""What a client's data tell at the deployment time T when they were collected at t <= T."""

import numpy as np
import polars as pl

from pwfl.systems.age_aware import markov


def profiles(users: pl.DataFrame, horizon: int) -> pl.DataFrame:
    """Every chain of the table `users` seen from every collection time t = 0..T = horizon.

    Returns
    -------
    One row for each chain and collection_time, with the age T - t and

    - total_variation: Delta(T - t), the largest total variation distance between rows of the reverse kernel;
    - total_variation_bound: provable bound on it (`markov.total_variation_bound`);
    - spectral_decay: (1 - gap)^(T - t), the paper's bound with its constant lost, which bounds nothing;
    - divergence_nats: D(law of X_t || law of X_T);
    - information_nats: bound ln(1 + (m - 1) / n) on the information that the mean of n samples with m possible
      values has of each one of them (docs/age_aware.md);
    - mean_wh, variance_wh2: of X_t.
    """
    frames = []
    for row in users.unique("chain", maintain_order=True).iter_rows(named=True):
        transition, start, states = (np.array(row[key]) for key in ("transition", "start", "states_wh"))
        mu = markov.laws(transition, start, horizon)
        mean, age = mu @ states, np.arange(horizon, -1, -1)
        columns = {
            "collection_time": horizon - age,
            "age": age,
            "total_variation": markov.total_variation(markov.reverse_kernels(transition, start, horizon)),
            "total_variation_bound": markov.total_variation_bound(transition, start, horizon),
            "spectral_decay": (1 - markov.spectral_gap(transition)) ** age,
            "divergence_nats": markov.divergence(mu, mu[-1]),
            "information_nats": np.log1p(((mu > 0).sum(axis=1) - 1) / row["samples"]),
            "mean_wh": mean,
            "variance_wh2": (mu * (states - mean[:, None]) ** 2).sum(axis=1),
        }
        frames.append(pl.DataFrame({"chain": row["chain"]} | columns))
    return pl.concat(frames)
