"""Channel of the system `anonymous_oac`: Sec. III of Hasircioglu and Gunduz."""

from typing import TYPE_CHECKING

import polars as pl

from pwfl.systems.anonymous_oac import participation

if TYPE_CHECKING:
    from pwfl.systems.anonymous_oac.parameters import AnonymousOac


def run(scenario: "AnonymousOac", realizations: range) -> dict[str, pl.DataFrame]:
    """The devices, and for each round the channels that are good enough to take part over."""
    return participation.draw(scenario, realizations)
