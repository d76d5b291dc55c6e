"""Noise rules of the system `age_aware`: Sec. III-B of Lin et al."""

import numpy as np
import polars as pl

from pwfl.process import user_code
from pwfl.systems.age_aware import age
from pwfl.systems.age_aware.parameters import AgeAware
from pwfl.systems.age_aware.schemes import NOISES
from pwfl.tables.arrays import joined, to_array

KEYS = ["realization", "case"]


def run(scenario: AgeAware, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Compute each client's classical epsilon and Laplace scale (`noise`), and their extremes (`noise_status`).

    `scheme` is one of `schemes.NOISES`, or the name of a user-defined function (`user_scales`).
    """
    frame = joined(tables["schedule"], tables["users"], "realization", "user")
    if by_function := user_code.is_reference(scheme):
        frame = frame.sort(*KEYS, "user")
        epsilon = pl.col("sensitivity_wh") / pl.Series(user_scales(scenario, scheme, frame).ravel())
    else:
        epsilon = NOISES[scheme].load()(pl.col("required_epsilon"))
    noise = frame.with_columns(classical_epsilon=epsilon)
    scale = age.laplace_scale(pl.col("sensitivity_wh"), pl.col("classical_epsilon"))
    noise = noise.select(*KEYS, "user", "classical_epsilon", noise_scale_wh=scale)
    status = noise.group_by(KEYS, maintain_order=True).agg(
        status=pl.lit("own" if by_function else scheme),
        least_classical_epsilon=pl.col("classical_epsilon").min(),
        largest_scale_wh=pl.col("noise_scale_wh").max(),
    )
    return {"noise": noise, "noise_status": status}


def require_own(required_epsilon: pl.Expr) -> pl.Expr:
    """Return the classical epsilon that each client's age requires (4)."""
    return required_epsilon


def require_same(required_epsilon: pl.Expr) -> pl.Expr:
    """Return the smallest required epsilon for all clients, so that the one least protected by age meets the target."""
    return required_epsilon.min().over(KEYS)


def add_none(required_epsilon: pl.Expr) -> pl.Expr:
    """Return an infinite classical epsilon: no noise."""
    return pl.lit(np.inf)


def user_scales(scenario: AgeAware, scheme: str, frame: pl.DataFrame) -> np.ndarray:
    """Compute scales of clients' Laplace noise in Wh, (realization, case, user), by a user-defined function.

    The function gets the scenario and three arrays of this shape: the sensitivity of each client's mean in Wh, its
    collection time, and the epsilon_C that its target requires at that time. It also gets `now`, generators, if it has
    a parameter of this name. Raises user_code.UserCodeError for invalid noise.
    """
    names = ("sensitivity_wh", "collection_time", "required_epsilon")
    arguments = [to_array(frame, name, *KEYS, "user") for name in names]
    now = user_code.Drawn(user_code.generators(scenario.seed, "noise", frame["realization"].unique().sort()))
    scales = user_code.call(scheme, scenario, *arguments, reads=scenario.own.reads, now=now)
    what = "the scale of each client's noise in Wh, realizations by cases by clients"
    return user_code.noise_of(scheme, scales, np.ones(arguments[0].shape, bool), what)
