"""What a paper states, or what you expect, measured."""

import polars as pl

from pwfl.report.claims import Band, Claim, by_means, by_scheme, difference, measure, table

ALL, STRONGEST = (("all", "gaussian"), "epsilon_exact"), (("strongest", "gaussian"), "epsilon_exact")
CLAIMS = [
    Claim(
        "worst epsilon when all send less that when the strongest send",
        Band(above=0),
        "who sends less often leaks less",
        "more than 0",
        by_means(difference, ALL, STRONGEST),
    )
]


def claims(study: dict[str, dict]) -> pl.DataFrame:
    """The claims; `study` maps a scenario's name to {"scenario": ..., the report's tables by name}."""
    rows = []
    for name, content in study.items():
        series = by_scheme(content["scenario"], content["realizations"], ["epsilon_exact"])
        rows += measure(CLAIMS, {name: content["scenario"]}, series)
    return table(rows)
