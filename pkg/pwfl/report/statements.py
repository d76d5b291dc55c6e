"""How a study's claims came out: each counts once, in however many scenarios it was measured."""

import polars as pl

from pwfl.report import unscheduled

PAPER, ELSEWHERE, PROJECT = "the paper's", "the paper's, in another setting", "this project's"
OF = {PAPER: "of the papers", PROJECT: "of this project"}
AGAINST = " against "  # between the scenarios that a claim compares
VERDICTS = ("yes", "no", "open")
OUTCOMES = (  # one for each verdict, and where verdicts differ
    "supported in every scenario",
    "refuted in every scenario",
    "inconclusive in every scenario",
    "mixed",
)


def counted(claims: pl.DataFrame) -> pl.DataFrame:
    """A row for each claim of a table of claims: `whose`, `claim`, `cases`, and how many of these each verdict has.

    A case is a scenario or, where `compared`, several that are held against each other.
    """
    verdicts = {verdict: (pl.col("holds") == verdict).sum() for verdict in VERDICTS}
    against = pl.col("scenario").str.contains(AGAINST, literal=True).any()
    groups = claims.group_by("whose", "claim", maintain_order=True)
    return groups.agg(cases=pl.len(), compared=against, **verdicts)


def summary(claims: pl.DataFrame) -> list[str]:
    """Sentences that count the claims: the papers' and this project's apart; none where nothing was measured."""
    each, sentences = counted(claims), []
    for whose, words in OF.items():
        own = each.filter(whose=whose)
        counts = [(own[verdict] == own["cases"]).sum() for verdict in VERDICTS]
        counts.append(len(own) - sum(counts))
        parts = [f"{count} {outcome}" for count, outcome in zip(counts, OUTCOMES, strict=True) if count]
        if parts:
            sentences.append(f"{_claims(len(own))} {words} tested: {', '.join(parts)}.")
    if count := len(each.filter(whose=ELSEWHERE)):
        sentences.append(f"{_claims(count)} of the papers measured outside the paper's setting, and not judged there.")
    if count := claims.filter(pl.col(unscheduled.COLUMN) > 0)["claim"].n_unique():
        sentences.append(f"{_claims(count)} measured partly in realizations with no user scheduled.")
    return sentences


def differing(claims: pl.DataFrame) -> list[str]:
    """The claims that are refuted in every scenario, then those that differ from scenario to scenario, and how."""
    judged = counted(claims).filter(pl.col("whose") != ELSEWHERE)
    refuted = judged.filter(pl.col("no") == pl.col("cases"))
    mixed = judged.filter(pl.max_horizontal(VERDICTS) < pl.col("cases"))
    found = [f"{claim}: refuted" for claim in refuted["claim"]]
    return found + [f"{row['claim']}: {outcome(row)}" for row in mixed.iter_rows(named=True)]


def outcome(row: dict) -> str:
    """How a row of `counted` came out.

    >>> outcome({"cases": 6, "compared": False, "yes": 5, "no": 0, "open": 1})
    'supported in 5 of 6 scenarios, inconclusive in 1'
    >>> outcome({"cases": 2, "compared": True, "yes": 0, "no": 1, "open": 1})
    'supported in 0 of 2 comparisons, refuted in 1, inconclusive in 1'
    """
    noun = ("comparison" if row["compared"] else "scenario") + "s" * (row["cases"] > 1)
    others = {"refuted": row["no"], "inconclusive": row["open"]}
    parts = [f"{words} in {count}" for words, count in others.items() if count]
    return ", ".join([f"supported in {row['yes']} of {row['cases']} {noun}", *parts])


def _claims(count: int) -> str:
    return f"{count} claim{'s' * (count > 1)}"
