"""How a study's statements came out: each counts once, in however many scenarios its claim was measured."""

import polars as pl

from pwfl.report import unscheduled

PAPER, ELSEWHERE, PROJECT = "the paper's", "the paper's, in another setting", "this project's"
OF = {PAPER: "of the papers, in the papers' settings", PROJECT: "of this project"}
VERDICTS = ("yes", "no", "open")
OUTCOMES = (  # of one statement and of several: one for each verdict, and where verdicts differ
    ("holds everywhere", "hold everywhere"),
    ("holds nowhere", "hold nowhere"),
    ("is open everywhere", "are open everywhere"),
    ("differs from scenario to scenario", "differ from scenario to scenario"),
)


def counted(claims: pl.DataFrame) -> pl.DataFrame:
    """A row for each statement of a table of claims: `whose`, `claim`, `cases`, and how many of these each verdict has.

    A case is a scenario or, where `compared`, several that are held against each other.
    """
    verdicts = {verdict: (pl.col("holds") == verdict).sum() for verdict in VERDICTS}
    against = pl.col("scenario").str.contains(" against ", literal=True).any()
    groups = claims.group_by("whose", "claim", maintain_order=True)
    return groups.agg(cases=pl.len(), compared=against, **verdicts)


def summary(claims: pl.DataFrame) -> list[str]:
    """Sentences that count the statements: the papers' and this project's apart; none where nothing was measured."""
    each, sentences = counted(claims), []
    for whose, words in OF.items():
        own = each.filter(whose=whose)
        counts = [(own[verdict] == own["cases"]).sum() for verdict in VERDICTS]
        counts.append(len(own) - sum(counts))
        parts = [
            f"{count} {one if count == 1 else several}"
            for count, (one, several) in zip(counts, OUTCOMES, strict=True)
            if count
        ]
        if parts:
            sentences.append(f"{_statements(len(own))} {words}: {', '.join(parts)}.")
    if count := len(each.filter(whose=ELSEWHERE)):
        sentences.append(f"Measured in other settings, where they are not judged: {_statements(count)} of the papers.")
    if count := claims.filter(pl.col(unscheduled.COLUMN) > 0)["claim"].n_unique():
        sentences.append(f"Measured in part in realizations with no user scheduled: {_statements(count)}.")
    return sentences


def differing(claims: pl.DataFrame) -> list[str]:
    """The statements that were judged and differ from scenario to scenario, with how they came out."""
    each = counted(claims).filter(pl.col("whose") != ELSEWHERE, pl.max_horizontal(VERDICTS) < pl.col("cases"))
    return [f"{row['claim']}: {outcome(row)}" for row in each.iter_rows(named=True)]


def outcome(row: dict) -> str:
    """How a row of `counted` came out.

    >>> outcome({"cases": 6, "compared": False, "yes": 5, "no": 0, "open": 1})
    'holds in 5 of 6 scenarios, open in 1'
    >>> outcome({"cases": 2, "compared": True, "yes": 0, "no": 1, "open": 1})
    'holds in 0 of 2 comparisons, does not in 1, open in 1'
    """
    noun = ("comparison" if row["compared"] else "scenario") + "s" * (row["cases"] > 1)
    others = {"does not": row["no"], "open": row["open"]}
    parts = [f"{words} in {count}" for words, count in others.items() if count]
    return ", ".join([f"holds in {row['yes']} of {row['cases']} {noun}", *parts])


def _statements(count: int) -> str:
    return f"{count} statement{'s' * (count > 1)}"
