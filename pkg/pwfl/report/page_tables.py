"""Make the rows of the tables of a study's page: schemes, the price of privacy, audits, claims."""

import math
import re
from collections.abc import Mapping

import polars as pl
from markupsafe import Markup, escape

from pwfl.report import unscheduled
from pwfl.report.claims import INCONCLUSIVE, NOT_MEASURED, PROJECT, REFUTED, SUPPORTED
from pwfl.report.headline import FAILED, PASSED
from pwfl.report.points import baseline, find_outcome, finite, lines, place_of_sweep
from pwfl.report.statements import DEPENDS, SIGNS, deciding, judged
from pwfl.report.words import NONE, between, interpreted, number
from pwfl.scenario.sweep import short_exponents

FOLDED = 12  # number of rows above which only the best are shown before the rest is unfolded
MOST_SCHEMES = 400  # most rows on the page; the files have all
SHOWN_CLAIMS, SHOWN_TESTS = 9, 8
COLUMNS = 4  # most curves in the table of prices
NOT_TESTED = "not_tested"  # a status of an audit's rows
KEY_TESTS = (  # tests of the main assumptions of epsilon, listed first
    *("sensitivity", "deviation of the noise", "scale of the noise", "distribution of the noise"),
    *("noise of different rounds", "signal of a record", "epsilon of the losses", "largest privacy loss"),
    *("records of all users", "model of what was received"),
)
LOOKS = {REFUTED: "bad", DEPENDS: "open", INCONCLUSIVE: "none", NOT_MEASURED: "none", SUPPORTED: "good", None: "none"}
UNJUDGED = "not the paper’s setting"


def schemes(points: pl.DataFrame, audited: set[tuple[str, str]], failed: bool) -> list[dict]:
    """Make a row for each point, the smallest epsilon first, non-private baselines last."""
    order = [pl.col("bare"), pl.col("epsilon").fill_null(math.inf).round(2), -pl.col("mean")]
    few = not (points["best"] | points["bare"]).any()  # then the first rows are shown
    rows = []
    alike = pl.when("bare").then(pl.format("{} {} {}", "scheme", "sweep_of", "mean")).otherwise(pl.int_range(pl.len()))
    shown = points.filter(alike.is_first_distinct()).sort(order, maintain_order=True).head(MOST_SCHEMES)
    for place, row in enumerate(shown.iter_rows(named=True)):
        interval = between(row["ci_low"], row["ci_high"], find_outcome(row))
        kept = row["best"] or row["bare"] or (few and place < FOLDED)
        more = {
            "extra": len(points) > FOLDED and not kept,
            "noted": ["not above chance" if row["useless"] else interval, *left_out(row)],
            "best": row["best"] and not failed,
            "audited": (row["scenario"], row["scheme"]) in audited,
        }
        rows.append(row | more)
    return rows


def left_out(row: dict) -> list[str]:
    """List texts on how many realizations of a row have no user scheduled, and how many more diverged."""
    diverged = f"{row['diverged']} more diverged" if row["diverged"] else ""
    return [part for part in (unscheduled.share(row), diverged) if part]


def prices(points: pl.DataFrame) -> dict:
    """Tabulate points by epsilon (row) and by the best curves or single points (column), with the best baseline.

    A cell is None if the curve has no point of that epsilon.
    """
    private = finite(points).filter(~pl.col("bare"))
    if private.is_empty():
        return {"rows": []}
    outcome = find_outcome(private.row(0, named=True))
    loss = pl.col("mean") * (-1 if outcome.better == "more" else 1)
    joined = [(curve, [place_of_sweep(curve.row(0, named=True)), more]) for curve, more in lines(private)]
    alone = private.group_by("sweep_of", "scheme", maintain_order=True)
    curves = joined or [(curve, [curve["place"][0]]) for _, curve in alone]
    shown = sorted(curves, key=lambda curve: curve[0].select(loss.min()).item())[:COLUMNS]
    level = pl.coalesce("target_epsilon", "epsilon").round_sig_figs(3)
    rows: dict[float, list[dict | None]] = {}
    for place, (curve, _) in enumerate(shown):
        for row in curve.with_columns(level=level).unique("level", keep="first").iter_rows(named=True):
            rows.setdefault(row["level"], [None] * len(shown))[place] = row
    bare = baseline(points)
    least = pl.lit(bare, pl.Float64)  # null without a baseline: then no point is better
    is_better = pl.col("ci_low") > least if outcome.better == "more" else pl.col("ci_high") < least
    return {
        "rows": [
            {
                "level": epsilon,
                "rate": max(
                    (cell["attack_rate"] for cell in cells if cell and cell["attack_rate"] is not None), default=None
                ),
                "cells": cells,
                "extra": place >= FOLDED,
            }
            for place, (epsilon, cells) in enumerate(sorted(rows.items()))
        ],
        "curves": len(curves),
        "heads": [(curve["scheme"][0], ", ".join(filter(None, places))) for curve, places in shown],
        # False for single points at different epsilons without a baseline: the table of all schemes suffices.
        "compares": bare is not None or len(rows) < sum(len(curve) for curve, _ in shown) or len(rows) > len(shown),
        "outcome": outcome,
        "bare": bare,
        "is_beaten": private.select(is_better.any()).item(),
        "open": points.filter("bare", pl.col("mean").is_finite())["open"].all(),
    }


def audits(tables: Mapping[str, pl.DataFrame]) -> list[dict]:
    """Make a row for each test, over all audited schemes: failed tests first, then the KEY_TESTS."""
    tests: dict[str, list[dict]] = {}
    for frame in tables.values():
        for row in frame.with_columns(pl.col("test", "status").cast(pl.String)).iter_rows(named=True):
            if row["status"] in (PASSED, FAILED):
                tests.setdefault(row["test"], []).append(row)
    rows: list[dict] = []
    for results in tests.values():
        worst = max(results, key=lambda row: (row["status"] == FAILED, _edge(row)))
        more = {
            "failed": sum(row["status"] == FAILED for row in results),
            "count": len(results),
            "expected": between(worst["expected_min"], worst["expected_max"]),
            "at": _place(worst),
            "detects": short_exponents(worst["detects"] or ""),
        }
        rows.append(worst | more)
    order = {test: place for place, test in enumerate(KEY_TESTS)}
    rows.sort(key=lambda row: (-row["failed"], order.get(row["test"], len(order))))
    return [row | {"extra": place >= SHOWN_TESTS and not row["failed"]} for place, row in enumerate(rows)]


def untested(tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """List the schemes that audits did not test, with the reasons, each once."""
    rows = [row for frame in tables.values() for row in frame.select("status", "scheme", "reason").rows()]
    texts = [f"{scheme} ({reason})" if reason else scheme for status, scheme, reason in rows if status == NOT_TESTED]
    return list(dict.fromkeys(texts))


def _edge(row: dict) -> float:
    """Return how near a measured value is to an end of its range: 0 in the middle, 1 at an end, more beyond."""
    span = row["expected_max"] - row["expected_min"]
    return abs((row["measured"] - row["expected_min"]) / span - 0.5) * 2 if span > 0 and math.isfinite(span) else 0.0


def _place(row: dict) -> float:
    """Return the position of a measured value in a gauge, in percent: the expected range is from 20 to 80.

    >>> expected = {"expected_min": 0.0, "expected_max": 1.0}
    >>> [_place(expected | {"measured": value}) for value in (0.5, 9.0)]
    [50.0, 97.0]
    >>> expected = {"expected_min": 1.0, "expected_max": 1.0}
    >>> [_place(expected | {"measured": value}) for value in (1.0, 2.0)]
    [50.0, 97.0]
    """
    span = row["expected_max"] - row["expected_min"]
    if not (span > 0 and math.isfinite(span)):
        return 50.0 if row["measured"] == row["expected_min"] else 97.0
    return min(max(20 + 60 * (row["measured"] - row["expected_min"]) / span, 3.0), 97.0)


def claims(table: pl.DataFrame, places: Mapping[str, str], papers: Mapping[str, dict | None]) -> list[dict]:
    """Make a row for each claim, with its cases: refuted claims first, those outside the paper's setting last.

    `places` are scenarios' names for readers, `papers` the fields of each system's paper.
    """
    rows: list[dict] = []
    several = table["system"].n_unique() > 1
    for judged_claim in judged(table).iter_rows(named=True):
        system, origin, verdict = (judged_claim[key] for key in ("system", "origin", "verdict"))
        cases = table.filter(system=system, origin=origin, claim=judged_claim["claim"])
        first, several_numbers = cases.row(0, named=True), cases["quantity"].n_unique() > 1
        more = {
            "look": LOOKS[verdict],
            "sign": SIGNS[verdict],
            "cases": [_case(row, places, several_numbers) for row in cases.iter_rows(named=True)],
            "verdict_words": verdict or UNJUDGED,
            "count": len(cases),
            "measured": _range(cases["measured"].drop_nulls()),
            "required": _signs(first["required_range"]),
            "reported": first["reported"] or NONE,
            "source": _source(first, papers.get(system)),
            "quantity": short_exponents(first["quantity"] or ""),
            "whose": "this project’s claim" if origin == PROJECT else system.replace("_", " ") * several,
        }
        rows.append(judged_claim | more)
    order = list(LOOKS)
    rows.sort(key=lambda row: order.index(row["verdict"]))
    foldable = (SUPPORTED, None)
    return [row | {"extra": k >= SHOWN_CLAIMS and row["verdict"] in foldable} for k, row in enumerate(rows)]


def _case(row: dict, places: Mapping[str, str], several: bool) -> dict:
    """Describe a row of the table `claims`: where it was measured, and which number if the claim has several."""
    place = " and ".join(places.get(name, name) for name in row["scenario"].split(" and "))
    against = f", against {places.get(row['against'], row['against'])}" if row["against"] else ""
    judged_so = row["interpretation"] and row["verdict"]  # irrelevant without a verdict
    reading = f" ({interpreted(row['interpretation'])})" if judged_so else ""
    number_of = f"{row['quantity'].partition(': ')[2]}; " if several else ""
    interval = between(row["measured_ci_low"], row["measured_ci_high"])
    undecided = f"; {words}" if (words := deciding(row)) else ""
    return {
        "place": f"{number_of}{place}{against}{reading}{undecided}",
        "measured": number(row["measured"]) + (f" ({interval})" if interval else ""),
        "sign": SIGNS[row["verdict"]],
        "verdict": row["verdict"] or UNJUDGED,
        "quantity": short_exponents(row["quantity"] or ""),
    }


def _range(measured: pl.Series) -> str:
    """Write the range of a claim's measured values."""
    values = measured.sort().to_list() or [None]
    return " to ".join(dict.fromkeys(number(end) for end in (values[0], values[-1])))


def _signs(text: str) -> str:
    """Write a required range with mathematical signs.

    >>> _signs("< -1e-09"), _signs(">= 0.5"), _signs("")
    ('< −1e−9', '≥ 0.5', '–')
    """
    return short_exponents(text or NONE).replace("<=", "≤").replace(">=", "≥").replace("-", "−")


def _source(row: dict, paper: dict | None) -> Markup:
    """Return the source of a claim, with a link to the paper, or else to the paper's entry on the page.

    >>> _source({"source": "docs/own_air.md", "origin": PROJECT}, None)
    Markup('docs/<wbr>own_<wbr>air.md')
    """
    source = escape(row["source"] or "")
    if not paper or row["origin"] == PROJECT:
        return Markup(re.sub("([/_])", r"\1<wbr>", str(source)))  # lines may break there
    address = paper["links"][0][1] if paper["links"] else f"#paper-{paper['system']}"
    cited = f"{paper['authors']}: {paper['title']}" + (f"; read as in {paper['page']}" if paper["page"] else "")
    return Markup('<a href="{}" title="{}">{}</a>').format(address, cited, source)


def differing(parameters: Mapping[str, pl.DataFrame]) -> list[tuple[str, list[str]]]:
    """List the parameters in which scenarios differ, with each scenario's value, from the tables `parameters`."""
    values: dict[str, dict[str, str]] = {}
    for name, frame in parameters.items():
        for key, value in frame.select("parameter", pl.col("value").cast(pl.String)).rows():
            values.setdefault(key, {})[name] = value
    rows = {key: [cells.get(name) for name in parameters] for key, cells in values.items() if key != "schemes"}
    return [
        (key, [NONE if text in (None, "", "None") else text for text in texts])
        for key, texts in rows.items()
        if len(set(texts)) > 1
    ]
