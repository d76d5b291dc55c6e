"""What a study found, in sentences and in a table: every scheme's result, epsilon and cost, and what nothing dominates.

Made of the tables `outcomes`, `systems` and `front` alone.
"""

from string import ascii_uppercase

import polars as pl

from pwfl.report import unscheduled
from pwfl.report.catalog import COMMON_OUTCOMES, Outcome
from pwfl.report.columns import guaranteed
from pwfl.report.sweeps import main_outcomes, outcomes_of, with_bare

KEYS = ["scenario", "scheme", "target_epsilon"]
# Of the table `systems`.
SHOWN = ["guaranteed", "epsilon_is", "observer", "guarantee", "delta", "air_seconds_mean", "transmit_energy_j_mean"]
SAME = ["system", "scheme", "target_epsilon", "mean", "epsilon", "air_seconds_mean", "transmit_energy_j_mean"]
ACCURACY = COMMON_OUTCOMES["accuracy"].title
NONE = "-"
NOBODY = unscheduled.COLUMN
NEGLIGIBLE = 1e-12  # numbers that rounding leaves
THOUSANDS, MILLIONS = 1e3, 1e6  # between which numbers are written out
OTHERS = "; for "  # in what an observer sees, before the observers of other columns


def points(tables: dict[str, pl.DataFrame], bare: dict[str, list[str]]) -> pl.DataFrame:
    """A row for each scheme of each scenario: what it came to, at which epsilon, `best` where nothing dominates it.

    `bare` names the schemes without noise by scenario: they are never best. Columns: system, scenario, sweep_of,
    scheme, target_epsilon; the outcome, its mean, low and high, of how many realizations, and of how many with no user
    scheduled; epsilon of a record and of a user (`user_epsilon`), which may be null; those SHOWN, `guaranteed` of a
    record's epsilon. Scenarios with equal results are there once.
    """
    frames = []
    for (system,), each in tables["outcomes"].group_by("system", maintain_order=True):
        x, y = main_outcomes(each, system)
        of_x, of_y = each.filter(outcome=x).select(*KEYS, epsilon="mean"), each.filter(outcome=y)
        either = pl.concat([tables["front"].filter(x=x, y=y), tables["front"].filter(x=y, y=x)])
        of_user = each.filter(outcome="epsilon_user").select(*KEYS, user_epsilon="mean")
        front = either.select(*KEYS, best=True)
        rows = of_y.select("system", "sweep_of", *KEYS, "outcome", "mean", "low", "high", "realizations", NOBODY)
        for other in (of_x, of_user, front, tables["systems"].select(*KEYS, *SHOWN)):
            rows = rows.join(other, on=KEYS, how="left", nulls_equal=True, maintain_order="left")
        frames.append(rows)
    rows = pl.concat(frames).with_columns(guaranteed=guaranteed())
    rows = with_bare(rows, bare).with_columns(pl.col("best").fill_null(value=False))
    rows = rows.with_columns(pl.col("best") & ~pl.col("bare"), pl.col("observer").str.split(OTHERS).list.first())
    swept = pl.col("sweep_of") != pl.col("scenario")
    rows = rows.sort(swept, descending=True, maintain_order=True).unique(SAME, keep="first", maintain_order=True)
    return rows.sort("system", ~pl.col("best"), "bare", "epsilon", maintain_order=True, nulls_last=True)


def sentences(rows: pl.DataFrame) -> list[str]:
    """For each system of `points`, the ends of its front: the best result, and the least epsilon; and without noise.

    Points of another guarantee or observer are another front: that of a guarantee and of most points is told.
    """
    said = []
    several = rows["system"].n_unique() > 1
    for (system,), each in rows.group_by("system", maintain_order=True):
        kinds = each.filter("best").group_by("guaranteed", "guarantee", "observer", maintain_order=True)
        fronts = [front for _, front in kinds]
        parts = []
        if fronts:
            front = max(fronts, key=lambda front: (front["guaranteed"][0], len(front))).sort("epsilon")
            ends = [front.row(-1, named=True)] + ([front.row(0, named=True)] if len(front) > 1 else [])
            named = each["scenario"].n_unique() > 1
            first, *least = (_cells(end, named) for end in ends)
            told = ["{} reaches {} at record-level epsilon {}{}".format(*first)]
            told += ["{} {} at {}{}".format(*end) for end in least]
            parts = [", ".join(told)]
            parts[0] += "" if front["guaranteed"][0] else " (not guaranteed)"
        outcome = outcomes_of(system)[each["outcome"][0]]
        never = pl.col(NOBODY) == pl.col("realizations")
        without = each.filter("bare", ~never, ~pl.col("epsilon").is_finite().fill_null(value=False))
        if len(without):
            most = without.sort("mean", descending=outcome.better == "more", maintain_order=True).row(0, named=True)
            parts.append(f"without noise {number(most['mean'], outcome)}{_nobody(most)}")
        if untrained := each.filter(never)["scheme"].unique(maintain_order=True).to_list():
            parts.append(f"no user scheduled in any realization: {', '.join(untrained)}")
        if parts:
            of = [*([system] if several else []), *([outcome.title] if outcome.title != ACCURACY else [])]
            said.append(": ".join([*of, "; ".join(parts)]) + ".")
    return said


def _cells(row: dict, named: bool) -> tuple[str, str, str, str]:
    """Scheme (and scenario), result and epsilon of a row, in words, and its realizations with no user scheduled."""
    scheme = f"{row['scheme']} ({row['scenario']})" if named else row["scheme"]
    result = number(row["mean"], outcomes_of(row["system"])[row["outcome"]])
    return scheme, result, number(row["epsilon"]), _nobody(row)


def _nobody(row: dict) -> str:
    said = unscheduled.share(row)
    return f" ({said})" if said else ""


def number(value: float | None, outcome: Outcome | None = None) -> str:
    """A number as a reader takes it in: a share in percent, others to three digits; a hyphen for none.

    >>> number(0.94712, Outcome("accuracy", "more", "~%")), number(18.04), number(float("inf")), number(None)
    ('94.7%', '18', '∞', '-')
    >>> number(2484.2), number(3.2e7)
    ('2,480', '3.2e+07')
    """
    if value is None:
        return NONE
    value = 0.0 if abs(value) < NEGLIGIBLE else value
    if outcome and outcome.format.endswith("%"):
        return f"{value:.1%}"
    short = f"{value:.3g}"
    return f"{float(short):,.0f}" if THOUSANDS <= abs(value) < MILLIONS else short.replace("inf", "∞")


def table(rows: pl.DataFrame) -> tuple[list[dict], dict[str, str]]:
    """The rows of `points` in words, as the page shows them, and what observers see, by the letters that rows have."""
    seen = rows["observer"].drop_nulls().unique(maintain_order=True)
    letters = dict(zip(seen, ascii_uppercase, strict=False))
    shown = []
    for row in rows.iter_rows(named=True):
        outcome = outcomes_of(row["system"])[row["outcome"]]
        ends = [number(row[end], outcome) for end in ("low", "high")]
        kind = f"{'' if row['guaranteed'] else 'not '}guaranteed, {row['epsilon_is']}"
        terms = "without noise" if row["bare"] else kind
        terms = terms if row["epsilon"] is not None else "nobody sends"
        shown.append(
            row
            | {"result": number(row["mean"], outcome), "title": outcome.title, "terms": terms}
            | {"interval": " to ".join(ends) if row["low"] is not None else "", "unscheduled": unscheduled.share(row)}
            | {"epsilon": number(row["epsilon"]), "user_epsilon": number(row["user_epsilon"])}
            | {"delta": number(row["delta"]), "letter": letters.get(row["observer"], "")}
            | {"seconds": number(row["air_seconds_mean"]), "joules": number(row["transmit_energy_j_mean"])}
        )
    return shown, {letter: text for text, letter in letters.items()}
