"""Curves of a paper's panels: distributions over realizations or users, and means over rounds, with 95% bands.

A table of curves has the columns COLUMNS: `series`, `x`, `y` and the band's ends, which equal `y` without a band.
"""

from collections.abc import Callable

import numpy as np
import polars as pl
from scipy.special import ndtri

from pwfl.report import theme

COLUMNS = ("series", "x", "y", "y_ci_low", "y_ci_high")
POINTS = 150  # points of a distribution's curve
TAIL = 0.025  # probability on each side of a band


def exact(series: str, x: np.ndarray, y: np.ndarray) -> pl.DataFrame:
    """Make the table of a curve without randomness from arrays of shape (point,)."""
    frame = pl.DataFrame({"x": x, "y": y}).cast(pl.Float64)
    return frame.select(pl.lit(series).alias("series"), "x", "y", y_ci_low="y", y_ci_high="y")


def distribution(table: str, column: str, log: bool = False) -> Callable[[dict[str, dict]], pl.DataFrame]:
    """Return a panel's function `curves`: each scheme's share of a table's rows up to each value of a column.

    All rows of a realization, such as one per user, count as a single draw in the band.
    """

    def curves(contents: dict[str, dict]) -> pl.DataFrame:
        frames = [content[table].select("scheme", "realization", column).drop_nulls() for content in contents.values()]
        rows = pl.concat(frames)
        if rows.is_empty():
            return empty()
        values = rows[column].cast(pl.Float64).to_numpy()
        low, high = values.min(), values.max()
        grid = np.geomspace(0.9 * low, 1.001 * high, POINTS) if log else np.linspace(low, high, POINTS)
        groups = rows.partition_by("scheme", maintain_order=True)
        return pl.concat([_shares(group["scheme"][0], group["realization"], group[column], grid) for group in groups])

    return curves


def _shares(series: str, realization: pl.Series, values: pl.Series, grid: np.ndarray) -> pl.DataFrame:
    """Compute the share of values up to each grid point, with a normal interval for a ratio of realizations' sums."""
    cluster = realization.rank("dense").to_numpy().astype(int) - 1
    below = np.zeros((cluster.max() + 1, len(grid) + 1))
    np.add.at(below, (cluster, np.searchsorted(grid, values.cast(pl.Float64).to_numpy())), 1.0)
    size, below = below.sum(axis=1, keepdims=True), below.cumsum(axis=1)[:, :-1]
    share, count = below.sum(axis=0) / size.sum(), len(size)
    spread = np.square(below - share * size).sum(axis=0) * count / max(count - 1, 1)
    half = -ndtri(TAIL) * np.sqrt(spread) / size.sum()
    inside = (np.append(share[1:], 1.0) > 0) & (np.insert(share[:-1], 0, 0.0) < 1)  # from the last 0 to the first 1
    frame = pl.DataFrame({"x": grid, "y": share, "y_ci_low": share - half, "y_ci_high": share + half})
    return frame.filter(inside).select(pl.lit(series).alias("series"), "x", "y", pl.col("^y_ci.*$").clip(0.0, 1.0))


def over_rounds(column: str, table: str = "history") -> Callable[[dict[str, dict]], pl.DataFrame]:
    """Return a panel's function `curves`: each scheme's mean over realizations per round, with Student's interval."""

    def curves(contents: dict[str, dict]) -> pl.DataFrame:
        rows = pl.concat([content[table].select("scheme", "round", column) for content in contents.values()])
        return means(rows.drop_nulls(column), "round", column)

    return curves


def means(rows: pl.DataFrame, x: str, y: str) -> pl.DataFrame:
    """Compute each scheme's mean of column `y` for each value of column `x`, with Student's interval over rows."""
    averages = theme.means(rows.with_columns(pl.col(x, y).cast(pl.Float64)), ["scheme", x], [y])
    ends = {f"y_ci_{end}": pl.coalesce(f"{y}_ci_{end}", f"{y}_mean") for end in ("low", "high")}
    return averages.select(
        pl.col("scheme").cast(pl.String).alias("series"), pl.col(x).alias("x"), y=f"{y}_mean", **ends
    )


def empty() -> pl.DataFrame:
    """Return a table without curves."""
    return pl.DataFrame(schema=dict(zip(COLUMNS, (pl.String, *[pl.Float64] * 4), strict=True)))
