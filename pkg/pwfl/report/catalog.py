"""What the report of a scenario of each system holds, without importing what draws it."""

from typing import NamedTuple


class Figure(NamedTuple):
    """A figure's title and caption, and the tables that it is drawn from.

    Tables of the stages channel are those of the first shard, the others those of all schemes.
    """

    title: str
    caption: str
    tables: tuple[str, ...]


MULTICELL = {
    "topology": Figure(
        "Users, stations and one user's links",
        "Realization 0: users coloured by cell, sized by their number of training samples; stations; "
        "cells; dashed, the links of one user to all stations. (Fig. 3 of the paper.)",
        ("users", "links"),
    ),
    "objective": Figure(
        "Objective",
        "Empirical distribution over realizations of the objective (20) divided by the number of all samples. "
        "Further left is better. (Fig. 4 of the paper.)",
        ("outcome",),
    ),
    "accuracy": Figure(
        "Test accuracy",
        "Mean test accuracy over trained realizations, with its 95% confidence band. (Fig. 5 a, b of the paper.)",
        ("history",),
    ),
    "loss": Figure(
        "Test loss",
        "Mean test loss over trained realizations, with its 95% confidence band. (Fig. 5 c, d of the paper.)",
        ("history",),
    ),
    "leakage": Figure(
        "Privacy leakage",
        "Empirical distribution of the zCDP leakage rho (11) over all scheduled users of all realizations. "
        "Further left is more private. (Fig. 5 e, f of the paper.)",
        ("leakage",),
    ),
    "tradeoff": Figure(
        "Accuracy against privacy",
        "Final test accuracy and the record-level guarantee epsilon (worst user, exact) of every trained "
        "realization; large marks are means. Up and to the left is better.",
        ("outcome", "history"),
    ),
}
FIGURES = {"multicell": MULTICELL}

TABLES = {
    "summary": "For each scheme, means over realizations with 95% intervals, extremes of the leakage, and how many "
    "realizations diverged, could not be noised or scheduled nobody.",
    "realizations": "Objective, guarantee and final accuracy of each realization and scheme.",
    "history": "Test accuracy and loss of each evaluated round, realization and scheme.",
    "statuses": "How the cells' programs and the noise optimizer ended.",
}
COMPARISON = {
    "claims": "The paper's claims, what was measured, its 95% bootstrap interval over realizations, and whether "
    "the claim holds.",
    "summary": "The summaries of all scenarios of the study.",
}
