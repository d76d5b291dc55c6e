"""Noise rules of the system `age_aware`: Sec. III-B of Lin et al."""

import numpy as np
import polars as pl

from pwfl.systems.age_aware import age
from pwfl.systems.age_aware.parameters import AgeAware
from pwfl.tables.arrays import joined


def run(scenario: AgeAware, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Each client's classical epsilon and Laplace scale.

    `scheme` is `adaptive`, each client's own required epsilon (4), `constant`, for all clients the least
    of them, so that the client whose age protects it least meets the target, too, or `none`.
    """
    keys, epsilon = ["realization", "case"], pl.col("required_epsilon")
    rules = {"adaptive": epsilon, "constant": epsilon.min().over(keys), "none": pl.lit(np.inf)}
    noise = joined(tables["schedule"], tables["users"], "realization", "user").with_columns(
        classical_epsilon=rules[scheme]
    )
    scale = age.laplace_scale(pl.col("sensitivity_wh"), pl.col("classical_epsilon"))
    noise = noise.select(*keys, "user", "classical_epsilon", noise_scale_wh=scale)
    status = noise.group_by(keys, maintain_order=True).agg(
        status=pl.lit(scheme),
        least_classical_epsilon=pl.col("classical_epsilon").min(),
        largest_scale_wh=pl.col("noise_scale_wh").max(),
    )
    return {"noise": noise, "noise_status": status}
