"""Write the table of docs/explanation/crossings.md from the results of the study `config/crossings.yaml`.

Run as `python docs/crossings.py results/crossings` once the study has run.
"""

import re
import sys
from pathlib import Path

import polars as pl
from full_size import table

PAGE = Path(__file__).parent / "explanation/crossings.md"
BLOCK = re.compile(r"(?<=<!-- results, by docs/crossings.py: begin -->\n\n).*?(?=\n<!-- results: end -->)", re.DOTALL)
MESSAGES = {
    "poisson": "gradients, a fourth of the records",
    "local_steps": "local steps",
    "majority": "signs of gradients",
}
AIRS = {
    "superposed": "sums over the air",
    "antennas": "64 antennas",
    "broadband": "4 subchannels, truncated",
    "majority": "majority votes",
}
OBSERVERS = {"user": "message", "cell": "stations", "server": "server", "network": "update"}
HEAD = ["messages", "air", "noise calibrated against", "accuracy", *(f"epsilon: {name}" for name in OBSERVERS.values())]
HEAD += ["guarantee", "symbols", "joules"]


def rows(folder: Path) -> list[list[str]]:
    """Return a row per sweep point: mean accuracy with its interval, and mean epsilon against each observer."""
    cells = []
    for point in pl.read_parquet(folder / "systems.parquet").iter_rows(named=True):
        crossing, observer = point["scenario"].partition(",")[0], point["privacy.observer"]
        guarantees = pl.read_parquet(folder / point["scenario"] / "guarantees.parquet")
        user_noise = guarantees.filter(unit="record", noise_from="users")
        against = dict(user_noise.group_by("observer").agg(pl.col("epsilon").mean()).rows())
        half = (point["accuracy_ci_high"] - point["accuracy_ci_low"]) / 2
        stands = [point["guarantee"], f"trusting {point['epsilon_trusts']}" if point["epsilon_trusts"] else ""]
        cells.append(
            [
                *(MESSAGES.get(crossing, "gradients"), AIRS.get(crossing, "uploads"), OBSERVERS[observer]),
                f"{point['accuracy_mean']:.3f} ± {half:.3f}",
                *(f"{against[name]:.3g}" if name in against else "" for name in OBSERVERS),
                ", ".join(filter(None, stands)),
                *(f"{point[name]:.3g}" for name in ("channel_uses_mean", "transmit_energy_j_mean")),
            ]
        )
    return cells


def page(folder: Path) -> str:
    """Return the page with the table of a study's results."""
    text = PAGE.read_text(encoding="utf-8")
    return BLOCK.sub(lambda _: table(HEAD, rows(folder)), text)


if __name__ == "__main__":
    PAGE.write_text(page(Path(sys.argv[1])), encoding="utf-8")
