"""Simulate users who move through seven cells: tables for `channel.links` and `channel.users`, and a map.

python walk.py FOLDER        # writes links.csv, users.csv and map.png there
"""

import sys
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

REALIZATIONS, INTERVALS, USERS = 10, 3, 15
RADIUS_M, SPEED_M_S, SECONDS = 500.0, 15.0, 8.0  # radius of a cell; users' speed; time between intervals
EXPONENT, AT_ONE_METRE = 3.0, (3e8 / 2.45e9 / (4 * np.pi)) ** 2  # path loss, and gain at 1 m


def stations() -> np.ndarray:
    """Return the positions of the central base station and of six around it, in metres, shape (station, 2)."""
    angle = np.pi / 6 + np.arange(6) * np.pi / 3
    ring = np.sqrt(3) * RADIUS_M * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.concatenate([np.zeros((1, 2)), ring])


def ways(generator: np.random.Generator) -> np.ndarray:
    """Draw users' positions on straight paths, in metres, shape (realization, interval, user, 2)."""
    start = generator.uniform(-2 * RADIUS_M, 2 * RADIUS_M, (REALIZATIONS, 1, USERS, 2))
    heading = generator.uniform(0, 2 * np.pi, (REALIZATIONS, 1, USERS))
    step = SPEED_M_S * SECONDS * np.stack([np.cos(heading), np.sin(heading)], axis=-1)
    return start + np.arange(INTERVALS)[:, None, None] * step


def gains(place: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw power gains with Rayleigh fading, shape (realization, interval, station, user)."""
    distance = np.linalg.norm(place[:, :, None] - stations()[:, None], axis=-1)
    return AT_ONE_METRE * np.maximum(distance, 1.0) ** -EXPONENT * generator.exponential(size=distance.shape)


def table(values: np.ndarray, *names: str) -> pl.DataFrame:
    """Make a table of the indices of all values, one named column per axis."""
    axes = np.indices(values.shape).reshape(len(names), -1)
    return pl.DataFrame(dict(zip(names, axes, strict=True)))


def main(folder: Path) -> None:
    """Write the tables and the map into a folder."""
    generator = np.random.default_rng(1)
    place = ways(generator)
    gain = gains(place, generator)
    links = table(gain, "realization", "interval", "station", "user").with_columns(gain=gain.ravel())
    x_m, y_m = stations()[links["station"].to_numpy()].T.round(1)
    links = links.with_columns(pl.col("gain").round_sig_figs(4), station_x_m=x_m, station_y_m=y_m)
    links.write_csv(folder / "links.csv")
    first = table(place[:, 0, :, 0], "realization", "user")
    first.with_columns(x_m=place[:, 0, :, 0].ravel().round(1), y_m=place[:, 0, :, 1].ravel().round(1)).write_csv(
        folder / "users.csv"
    )
    of_first = table(place[0, ..., 0], "interval", "user")
    of_first = of_first.with_columns(x=place[0, ..., 0].ravel() / 1e3, y=place[0, ..., 1].ravel() / 1e3)
    sites = pl.DataFrame({"x": stations()[:, 0] / 1e3, "y": stations()[:, 1] / 1e3})
    x, y = (alt.X("x:Q", title="km, west to east"), alt.Y("y:Q", title="km, south to north"))
    lines = alt.Chart(of_first).mark_line(opacity=0.6).encode(x, y, detail="user:N", order="interval:O")
    starts = alt.Chart(of_first.filter(interval=0)).mark_circle(size=30).encode(x, y)
    masts = alt.Chart(sites).mark_point(shape="triangle-up", size=90, color="black", filled=True).encode(x, y)
    (lines + starts + masts).properties(width=320, height=320).save(folder / "map.png", scale_factor=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
