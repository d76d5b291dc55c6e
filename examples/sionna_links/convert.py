"""Channel coefficients of Sionna RT as the tables of `channel.links` and `channel.users`.

`python convert.py paths.npz links.parquet users.parquet`
"""

import sys

import numpy as np
import polars as pl

from pwfl.tables import to_table

FLOOR = 1e-20  # gain of a link without any path


def links(a: np.ndarray) -> pl.DataFrame:
    """Power gains of all links; each time step is a realization.

    `a` is Sionna's, of shape (receiver, its antenna, transmitter, its antenna, path, time step). Receivers are users,
    transmitters stations: the channel is reciprocal, so the uplink's gain is the same.
    """
    narrow = a.sum(axis=4, dtype=complex)  # a resource block is too narrow to tell paths apart
    gain = (np.abs(narrow) ** 2).mean(axis=(1, 3)).transpose(2, 1, 0)  # (time step, transmitter, receiver)
    keys = {name: range(count) for name, count in zip(("realization", "station", "user"), gain.shape, strict=True)}
    return to_table(keys, gain=np.maximum(gain, FLOOR))


def users(positions: np.ndarray, steps: int) -> pl.DataFrame:
    """Where receivers are, shape (receiver, 3), the same at all time steps."""
    return to_table(
        {"realization": range(steps), "user": range(len(positions))}, x_m=positions[:, 0], y_m=positions[:, 1]
    )


def main(paths: str, links_file: str, users_file: str) -> None:
    """Convert what was saved by `np.savez(paths, a=a, rx_positions=positions)`."""
    with np.load(paths) as saved:
        a, positions = saved["a"], saved["rx_positions"]
    links(a).write_parquet(links_file)
    users(positions, a.shape[-1]).write_parquet(users_file)


if __name__ == "__main__":
    main(*sys.argv[1:])
