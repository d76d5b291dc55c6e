"""The rows of a page's tables in words: schemes, the price of privacy, audits, claims."""

import math
from collections.abc import Iterator, Mapping

import polars as pl
from markupsafe import Markup, escape

from pwfl.report import unscheduled
from pwfl.report.claims import INCONCLUSIVE, NOT_MEASURED, PROJECT, REFUTED, SUPPORTED
from pwfl.report.columns import in_words
from pwfl.report.headline import FAILED, PASSED
from pwfl.report.points import baseline, find_outcome, finite, lines, place_of_sweep
from pwfl.report.statements import DEPENDS, judged
from pwfl.report.words import NONE, between, interpreted, number, rate, signed, unit, upper

FOLDED = 12  # rows from which only the best are shown at first
MOST_SCHEMES = 400  # rows of the page; its files have all
SHOWN_CLAIMS, SHOWN_TESTS = 9, 8
COLUMNS = 4  # curves of the table of prices
NOT_TESTED = "not_tested"  # status of an audit's rows
KEY_TESTS = (  # that show most of what epsilon rests on
    *("sensitivity", "deviation of the noise", "scale of the noise", "distribution of the noise"),
    *("noise of different rounds", "signal of a record", "epsilon of the losses", "largest privacy loss"),
    *("records of all users", "model of what was received"),
)
LOOKS = {REFUTED: "bad", DEPENDS: "open", INCONCLUSIVE: "none", NOT_MEASURED: "none", SUPPORTED: "good", None: "none"}
SIGNS = {REFUTED: "✗", DEPENDS: "±", INCONCLUSIVE: "?", NOT_MEASURED: "?", SUPPORTED: "✓", None: "·"}
UNJUDGED = "not the paper’s setting"


def schemes(points: pl.DataFrame, audited: set[tuple[str, str]], failed: bool) -> list[dict]:
    """A row for each point, the smallest epsilon first, without noise last."""
    order = [pl.col("bare"), pl.col("epsilon").fill_null(math.inf).round(2), -pl.col("mean")]
    folded = len(points) > FOLDED
    few = not (points["best"] | points["bare"]).any()  # then the first ones stand for all
    rows = []
    alike = pl.when("bare").then(pl.format("{} {} {}", "scheme", "sweep_of", "mean")).otherwise(pl.int_range(pl.len()))
    shown = points.filter(alike.is_first_distinct()).sort(order, maintain_order=True).head(MOST_SCHEMES)
    for place, row in enumerate(shown.iter_rows(named=True)):
        outcome = find_outcome(row)
        noted = "not above chance" if row["useless"] else between(row["ci_low"], row["ci_high"], outcome)
        rows.append(
            row
            | {"extra": folded and not (row["best"] or row["bare"] or (few and place < FOLDED))}
            | {"result": number(row["mean"], outcome), "noted": [noted, *left_out(row)]}
            | {
                "eps": number(row["epsilon"]),
                "user": number(row["epsilon_user"]),
                "withdrawn": failed and not row["open"],
                "best": row["best"] and not failed,
            }
            | {
                "rate": "all" if row["open"] else rate(row["attack_rate"]),
                "terms": NONE if row["open"] else in_words(row),
            }
            | {"seconds": number(row["air_seconds_mean"]), "joules": number(row["transmit_energy_j_mean"])}
            | {"audited": "audited" if (row["scenario"], row["scheme"]) in audited else NONE}
        )
    return rows


def left_out(row: dict) -> list[str]:
    """How many realizations of a row schedule no user, and how many diverged."""
    diverged = f"{row['diverged']} more diverged" if row["diverged"] else ""
    return [part for part in (unscheduled.share(row), diverged) if part]


def prices(points: pl.DataFrame) -> dict:
    """Rows: epsilons; columns: the best curves, or points; cells: outcomes, and how far they are from the baseline."""
    private = finite(points).filter(~pl.col("bare"))
    if private.is_empty():
        return {"rows": [], "heads": [], "bare": None}
    outcome = find_outcome(private.row(0, named=True))
    loss = pl.col("mean") * (-1 if outcome.better == "more" else 1)
    joined = [curve for curve, _ in lines(private)]
    curves = joined or [curve for _, curve in private.group_by("sweep_of", "scheme", maintain_order=True)]
    shown = sorted(curves, key=lambda curve: curve.select(loss.min()).item())[:COLUMNS]
    base = baseline(points)
    shown = [curve.with_columns(level=pl.coalesce("target_epsilon", "epsilon").round_sig_figs(3)) for curve in shown]
    levels = sorted({value for curve in shown for value in curve["level"]})
    rows = []
    for place, level in enumerate(levels):
        cells, rates = [], []
        for curve in shown:
            matching = curve.filter(level=level)
            cells.append(_price(matching.row(0, named=True), base, outcome) if len(matching) else None)
            rates += matching["attack_rate"].drop_nulls().to_list()
        rows.append(
            {"epsilon": number(level), "rate": rate(max(rates, default=None)), "cells": cells, "extra": place >= FOLDED}
        )
    firsts = [curve.row(0, named=True) for curve in shown]
    heads = [{"scheme": row["scheme"], "place": place_of_sweep(row) if joined else row["place"]} for row in firsts]
    return {
        "rows": rows,
        "heads": heads,
        "bare": None if base is None else number(base, outcome),
        "open": points.filter("bare", pl.col("mean").is_finite())["open"].all(),
    }


def _price(row: dict, base: float | None, outcome) -> dict:
    lost = "" if base is None else f"{signed(row['mean'] - base, outcome)} {unit(outcome)}".rstrip()
    said = "not above chance" if row["useless"] else lost
    return {
        "value": number(row["mean"], outcome),
        "said": said,
        "interval": between(row["ci_low"], row["ci_high"], outcome),
    }


def audits(tables: Mapping[str, pl.DataFrame]) -> list[dict]:
    """A row for each test over all audited schemes: failed ones first, then the KEY_TESTS."""
    frames = [
        frame.select("test", "status", "measured", "expected_min", "expected_max", "detects", "detectable")
        for frame in tables.values()
    ]
    if not frames:
        return []
    tested = pl.concat(frames, how="vertical_relaxed").with_columns(pl.col("status").cast(pl.String))
    tested = tested.filter(pl.col("status").is_in([PASSED, FAILED]))
    rows = []
    for (test,), test_rows in tested.group_by("test", maintain_order=True):
        each = test_rows.to_dicts()
        failed = sum(row["status"] == FAILED for row in each)
        worst = max(each, key=lambda row: (row["status"] == FAILED, _edge(row)))
        row = {"test": upper(test), "failed": failed, "count": len(each), "measured": number(worst["measured"])}
        row |= {
            "expected": between(worst["expected_min"], worst["expected_max"]),
            "detects": upper(worst["detects"] or ""),
        }
        rows.append(row | {"at": _place(worst), "key": test})
    order = {test: place for place, test in enumerate(KEY_TESTS)}
    rows.sort(key=lambda row: (-row["failed"], order.get(row["key"], len(order))))
    for place, row in enumerate(rows):
        row["extra"] = place >= SHOWN_TESTS and not row["failed"]
    return rows


def untested(tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """Schemes that no audit tested, with the reasons, each once."""
    frames = [frame.filter(pl.col("status").cast(pl.String) == NOT_TESTED) for frame in tables.values()]
    found = (
        pl.concat([frame.select("scheme", "reason") for frame in frames], how="vertical_relaxed") if frames else None
    )
    rows = [] if found is None else found.unique(maintain_order=True).rows()
    return [f"{scheme} ({reason})" if reason else scheme for scheme, reason in rows]


def _edge(row: dict) -> float:
    """How near a measured value is to an end of its range: 0 in its middle, 1 at an end."""
    span = row["expected_max"] - row["expected_min"]
    return abs((row["measured"] - row["expected_min"]) / span - 0.5) * 2 if span > 0 and math.isfinite(span) else 0.0


def _place(row: dict) -> float:
    """Where in a gauge a measured value is, in percent: the range is from 20 to 80.

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
    """A row for each statement, refuted first, those outside of the paper's setting last; a case for each scenario.

    `places` are scenarios' names for readers, `papers` the fields of each system's paper.
    """
    rows: list[dict] = []
    several = table["system"].n_unique() > 1
    for said in judged(table).iter_rows(named=True):
        claim_rows = table.filter(system=said["system"], origin=said["origin"], claim=said["claim"])
        several_numbers = claim_rows["quantity"].n_unique() > 1
        first = claim_rows.row(0, named=True)
        cases = [_case(row, places, several_numbers) for row in claim_rows.iter_rows(named=True)]
        row = said | {"look": LOOKS[said["verdict"]], "sign": SIGNS[said["verdict"]], "cases": cases}
        row |= {
            "verdict_words": said["verdict"] or UNJUDGED,
            "count": len(claim_rows),
            "measured": _range(claim_rows),
        }
        row |= {"required": _signs(first["required_range"]), "reported": first["reported"] or NONE}
        row |= {"source": _source(first, papers.get(said["system"])), "quantity": first["quantity"] or ""}
        row |= {
            "of": "this project’s claim"
            if said["origin"] == PROJECT
            else said["system"].replace("_", " ")
            if several
            else ""
        }
        rows.append(row)
    order = {verdict: place for place, verdict in enumerate(LOOKS)}
    rows.sort(key=lambda row: order[row["verdict"]])
    for place, row in enumerate(rows):
        row["extra"] = place >= SHOWN_CLAIMS and row["verdict"] in (SUPPORTED, None)
    return rows


def counts(rows: list[dict]) -> list[dict]:
    """How many statements came out how, refuted first."""
    found = [(verdict, sum(row["verdict"] == verdict for row in rows)) for verdict in LOOKS if verdict]
    return [{"verdict": verdict, "count": count, "look": LOOKS[verdict]} for verdict, count in found if count]


def _case(row: dict, places: Mapping[str, str], of_several: bool) -> dict:
    """A row of the table `claims`: where it was measured, and of which number where a claim has several."""
    place = " and ".join(places.get(name, name) for name in row["scenario"].split(" and "))
    against = f", against {places.get(row['against'], row['against'])}" if row["against"] else ""
    judged_so = row["interpretation"] and row["verdict"]  # no matter where there is no verdict
    reading = f" ({interpreted(row['interpretation'])})" if judged_so else ""
    number_of = f"{row['quantity'].partition(': ')[2]}; " if of_several else ""
    interval = between(row["measured_ci_low"], row["measured_ci_high"])
    return {
        "place": f"{number_of}{place}{against}{reading}",
        "measured": number(row["measured"]) + (f" ({interval})" if interval else ""),
        "sign": SIGNS[row["verdict"]],
        "verdict": row["verdict"] or UNJUDGED,
        "quantity": row["quantity"],
    }


def _range(rows: pl.DataFrame) -> str:
    """The measured values of a statement."""
    known = rows["measured"].drop_nulls()
    if known.is_empty():
        return NONE
    least, most = (number(end) for end in (known.sort()[0], known.sort()[-1]))
    return least if least == most else f"{least} to {most}"


def _signs(text: str) -> str:
    return text.replace("<=", "≤").replace(">=", "≥").replace("-", "−") if text else NONE


def _source(row: dict, paper: dict | None) -> Markup:
    """Where a claim is said, with a link to the paper, or to where the page names it."""
    source = escape(row["source"] or "")
    if not paper or row["origin"] == PROJECT:
        return source
    address = paper["links"][0][1] if paper["links"] else f"#paper-{paper['system']}"
    cited = f"{paper['authors']}: {paper['title']}" + (f"; read as in {paper['page']}" if paper["page"] else "")
    return Markup('<a href="{}" title="{}">{}</a>').format(address, cited, source)


def differing(parameters: Mapping[str, pl.DataFrame], places: Mapping[str, str]) -> Iterator[dict]:
    """The parameters in which scenarios differ, of the tables `parameters`, with each scenario's value."""
    every = [
        frame.select("parameter", pl.col("value").cast(pl.String), pl.lit(name).alias("scenario"))
        for name, frame in parameters.items()
    ]
    if len(every) < 2:
        return
    table = pl.concat(every)
    for (key,), own in table.group_by("parameter", maintain_order=True):
        values = dict(own.select("scenario", "value").rows())
        if len({values.get(name) for name in parameters}) > 1 and key != "schemes":
            told = (values.get(name) for name in parameters)
            yield {"key": key, "values": [NONE if value in (None, "", "None") else value for value in told]}
