"""Convert channel coefficients of Sionna RT to the tables of `channel.links` and `channel.users`.

`python convert.py paths.npz links.parquet users.parquet`
"""

import sys

import numpy as np
import polars as pl

from pwfl.tables import to_table

FLOOR = 1e-20  # smallest gain, as of a link without any path


def links(a: np.ndarray) -> pl.DataFrame:
    """Make the table of all links' power gains, means over antennas; each time step is a realization.

    `a` is Sionna's array, of shape (receiver, its antenna, transmitter, its antenna, path, time step). Receivers are
    users and transmitters are stations: the channel is reciprocal, so the uplink has the same gain.
    """
    narrow = a.sum(axis=4, dtype=complex)  # a resource block is too narrow to separate paths
    gain = (np.abs(narrow) ** 2).mean(axis=(1, 3)).transpose(2, 1, 0)  # (time step, transmitter, receiver)
    keys = {name: range(count) for name, count in zip(("realization", "station", "user"), gain.shape, strict=True)}
    return to_table(keys, gain=np.maximum(gain, FLOOR))


def users(positions: np.ndarray, steps: int) -> pl.DataFrame:
    """Make the table of receivers' positions, in metres, shape (receiver, 3), the same at all time steps."""
    return to_table(
        {"realization": range(steps), "user": range(len(positions))}, x_m=positions[:, 0], y_m=positions[:, 1]
    )


def main(paths: str, links_file: str, users_file: str) -> None:
    """Convert a file saved by `np.savez(paths, a=a, rx_positions=positions)`."""
    with np.load(paths) as saved:
        a, positions = saved["a"], saved["rx_positions"]
    links(a).write_parquet(links_file)
    users(positions, a.shape[-1]).write_parquet(users_file)


if __name__ == "__main__":
    main(*sys.argv[1:])
