"""What superposition on air is to bring, measured."""

import numpy as np
import polars as pl

from pwfl.report.claims import Band, Claim, comparable, counted, difference, estimate, paired, row, table
from pwfl.tables.arrays import to_array

SOURCE = "what superposition is to bring; the band is this example's"
WORST = Claim("worst epsilon over the air less that of orthogonal, same sigma", Band(below=0), SOURCE)
FALLS = Claim("slope of log worst rho over the air by log K", Band(least=-1.1, most=-0.9), SOURCE)
USES = Claim("symbols of orthogonal over those over the air, by K", Band(least=1, most=1), SOURCE)


def _series(tables: dict, scheduler: str, column: str) -> np.ndarray:
    """A column of the outcomes of a scheme with noise, shape (realization,); empty where there is no such scheme."""
    names = [
        each.name for each in tables["scenario"].schemes if (each.scheduler, each.noise) == (scheduler, "gaussian")
    ]
    return to_array(tables["realizations"].filter(pl.col("scheme").is_in(names[:1])), column, "realization")


def _slope(devices: list[int]):
    """The least-squares slope of the logarithm of means, shape (scenario, ...), by that of the numbers of devices."""
    x = np.log(devices) - np.log(devices).mean()
    return lambda means: np.tensordot(x, np.log(means), 1) / (x @ x)


def claims(study: dict[str, dict]) -> pl.DataFrame:
    """The claims; `study` maps a scenario's name to {"scenario": ..., the report's tables by name}."""
    rows = []
    for name, tables in study.items():
        worst, uses = (
            [_series(tables, scheduler, column) for scheduler in ("over_the_air", "orthogonal")]
            for column in ("epsilon", "channel_uses")
        )
        if worst[0].size and worst[1].size:
            here, factor = {name: tables["scenario"]}, uses[1] / uses[0] / tables["scenario"].network.devices
            rows.append(row(WORST, here, estimate(difference, paired(*worst))))
            rows.append(row(USES, here, counted(factor[np.abs(factor - 1).argmax()], factor.size)))
    for group in comparable(study, "network.devices"):
        series = [_series(study[name], "over_the_air", "rho") for name in group]
        if len(group) > 1 and min(each.size for each in series):
            slope = _slope([study[name]["scenario"].network.devices for name in group])
            rows.append(row(FALLS, {name: study[name]["scenario"] for name in group}, estimate(slope, paired(*series))))
    return table(rows)
