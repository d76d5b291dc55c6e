"""The stage `channel`, and the tables from outside that it may be made of."""

from collections.abc import Mapping

import polars as pl

from pwfl.scenario.values import Values
from pwfl.stages import IMPORTED
from pwfl.work.stage import Tables, checked, module


def imported(system: str, paths: Mapping[str, str]) -> Tables:
    """Tables from outside, checked, by the files that hold them; none where there are none."""
    if not paths:
        return {}
    with module(system, IMPORTED) as own:
        return own.run(paths)


def run(values: Values, realizations: range, outside: Tables | None = None) -> Tables:
    """The tables `users` and `links` of some consecutive realizations; `outside` may hold more of them."""
    asked = pl.col("realization").is_between(realizations.start, realizations.stop, closed="left")
    handed = [{name: frame.filter(asked) for name, frame in outside.items()}] if outside else []
    with module(values.system, "channel") as own:
        return checked("channel", own.run(values, realizations, *handed))
