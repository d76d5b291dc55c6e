"""Build a study's page: one HTML file with a section for each question, complete without network and script.

Text and tables are HTML. Figures that compare scenarios are SVG elements, which the comparison drew at their final
size. Figures of single scenarios are separate files.
"""

import json
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from docutils.core import publish_parts
from markupsafe import Markup, escape

from pwfl import registry
from pwfl.report import factors, glossary, headline, page_tables, published, statements
from pwfl.report.catalog import STUDY_FIGURES, Outcome, private_figures, table_title
from pwfl.report.columns import in_words
from pwfl.report.drawing import Scale, fill, read, style, ticks
from pwfl.report.effects import compared
from pwfl.report.points import baseline, called, find_outcome, readable_title
from pwfl.report.words import (
    NONE,
    between,
    is_share,
    number,
    probability,
    ranged,
    rate,
    signed,
    system_name,
    unit,
    upper,
)
from pwfl.store import sealed
from pwfl.tables import contract, read_report

LONGEST = 10**6  # characters of a caption's line
READ = ("outcomes", "effects", "claims", "published")  # tables of the study that the page uses
POINTS, CHARTS = "points.parquet", "charts.json"  # files that the comparison writes for the page
FORMATS = ("svg", "png", "pdf", "json")
FIRST_FACTORS = 6  # number of factors shown before the rest is unfolded
FILES = {  # files of a scenario, with the text of their links
    "realizations.csv": "results",
    "parameters.csv": "parameters",
    "scenario.yaml": "config",
    "addresses.csv": "addresses",
}
ROOM = 0.04  # share of a strip that is free at each end


def _audited_twins(scenarios: Mapping[str, dict], audits: Mapping[str, object]) -> dict[str, str]:
    """Map each audited scenario to the scenario of its audit: itself, or one with the same parameters.

    >>> parts = {"one": {"title": "1", "alike": ["1", "2"]}, "two": {"title": "2", "alike": ["1", "2"]}}
    >>> _audited_twins(parts | {"three": {"title": "3", "alike": ["3"]}}, {"two": None})
    {'one': 'two', 'two': 'two'}
    """
    audited_twins = {}
    for name, part in scenarios.items():
        twins = [name, *(other for other, content in scenarios.items() if content["title"] in part["alike"])]
        if audited := [twin for twin in twins if twin in audits]:
            audited_twins[name] = audited[0]
    return audited_twins


def build_page(
    heading: dict[str, str], parts: list[dict], view: dict[str, str], computed: dict, papers: Sequence[dict] = ()
) -> str:
    """Build a study's page from its files, as HTML. Raises DamagedError if a file is not what its job wrote.

    `heading` contains `study`, `title` and `question`, which may be "". `parts` are the sections, the study's first,
    then one per scenario. Each has `tables` and `figures`: paths in the study's folder without suffix, figures with
    their captions. A scenario's also has its name `scenario`, its `title` and `system`, whether it is a `point` of a
    sweep, the slots by which it is `crossed`, whether it `withholds` private columns, and in `alike` the titles of all
    scenarios with the same parameters, its own included.

    `view` maps names of files to paths, POINTS and CHARTS included. `computed` contains `addresses` of each stage and
    versions of `packages`, `papers` the fields of `references.Reference` of each system's paper.
    """
    tables = {name: read_report(view[f"{name}.parquet"]) for name in READ}
    points, charts = read_report(view[POINTS]), json.loads(sealed.read_bytes(view[CHARTS]))
    scenarios = {part["scenario"]: part for part in parts[1:]}
    audits = {name: read_report(view[path]) for name in scenarios if (path := f"{name}/audit.parquet") in view}
    leads = {part["system"]: headline.lead(points.filter(system=part["system"])) for part in scenarios.values()}
    first = next((lead for lead in leads.values() if lead.point), headline.Lead(headline.NOTHING, None))
    twins = _audited_twins(scenarios, audits)
    point = first.point
    audit = headline.audited(audits, point and point | {"scenario": twins.get(point["scenario"], point["scenario"])})
    places = _places(points, scenarios)
    systems = [
        _system(system, points, tables, lead, charts.get(system, {}), audit)
        | {"files": {name: _formats(f"{system}_{name}", view) for name in STUDY_FIGURES}}
        for system, lead in leads.items()
    ]
    claims = page_tables.claims(tables["claims"], places, {paper["system"]: paper for paper in papers})
    tested = {
        (name, scheme)
        for name, twin in twins.items()
        for scheme in audits[twin].filter(pl.col("status") != page_tables.NOT_TESTED)["scheme"].unique()
    }
    parameters = {name: read_report(view[f"{name}/parameters.parquet"]) for name, part in scenarios.items()
                  if f"{name}/parameters.parquet" in view and not part["point"]}  # fmt: skip
    withholding = [part["system"] for part in scenarios.values() if part["withholds"]]
    summaries = [path for part in parts for path in part["tables"] if Path(path).name == "summary"]
    context = {
        "single": systems[0] if len(systems) == 1 else None,
        "systems": systems,
        "leads": [_lead_row(system, lead, audits, scenarios) for system, lead in leads.items()],
        "audit": audit,
        "badge": headline.BADGES[audit.verdict],
        "alarm": headline.alarm(audit) if audit.verdict == headline.FAILED else "",
        "facts": headline.facts(first, audit, points, tables["published"], bool(withholding)),
        "published": published.sentences(tables["published"]),
        "answer": headline.answer(leads, audit, tables["claims"]),
        "schemes": page_tables.schemes(points, tested, audit.verdict == headline.FAILED),
        "has_seconds": points["air_seconds_mean"].count() > 0,
        "has_joules": points["transmit_energy_j_mean"].count() > 0,
        "count": len(points) if len(points) > page_tables.MOST_SCHEMES else 0,
        "audits": page_tables.audits(audits),
        "untested": page_tables.untested(audits),
        "audited": [places[name] for name in audits],
        "claims": claims,
        "counts": statements.count([row["verdict"] for row in claims]),
        "looks": page_tables.LOOKS,
        "count_words": headline.counted(tables["claims"]),
        "once": _once([tuple(part["alike"]) for part in scenarios.values()]),
        "withheld": [_withheld(system) for system in sorted(set(withholding))],
        "parameters": page_tables.differing(parameters),
        "parameter_heads": [scenarios[name]["title"] for name in parameters],
        "realizations": ranged(points["realizations"]),
        "delta": next(iter(points["delta"].drop_nulls()), None),
        "more": _figures(parts[0], view, is_study=True),
        "scenarios": [
            {
                "title": readable_title(part["title"], name),
                "about": _about(part),
                "id": _anchor(name),
                "figures": _figures(part, view),
                "files": _links({f"{name}/{file}": text for file, text in FILES.items()}, view),
            }
            for name, part in scenarios.items()
        ],
        "files": _links({f"{path}.csv": f"{Path(path).name}.csv" for path in parts[0]["tables"]}, view),
        "stages": {stage: len(addresses) for stage, addresses in computed["addresses"].items()},
        "versions": {"Python": platform.python_version()} | computed["packages"],
        "processors": _processors([read_report(view[f"{path}.parquet"]) for path in summaries]),
        "papers": papers,
        "paper_pages": [paper["system"] for paper in papers if f"{paper['system']}_paper.html" in view],
        "terms": glossary.TERMS,
        "style": style("style.css"),
        "script": Markup(read("script.js")),
    }
    return re.sub(r"\n\s*\n+", "\n", fill("page.html", heading | context | WORDS))


def _system(system: str, points: pl.DataFrame, tables: dict, lead: headline.Lead, charts: dict, audit) -> dict:
    """Return the template's values for a system's sections."""
    rows = points.filter(system=system)
    effects, outcomes = tables["effects"].filter(system=system), tables["outcomes"].filter(system=system)
    menus: list[dict[str, Any]] = [
        {"column": column, "outcome": outcome, "factors": listed, "axis": _axis(listed)}
        for column, outcome in compared(outcomes, system).items()
        if (listed := factors.factors(effects, rows, column, outcome))
    ]
    main = menus[0] if menus and menus[0]["column"] == rows["outcome"][0] else None
    shown = main["factors"] if main else []
    if len(shown) > FIRST_FACTORS:
        shown = sorted(shown, key=lambda factor: -max(abs(row["difference"]) for row in factor.rows))
    return {
        "name": system_name(system),
        "sentence": headline.sentence(lead, audit),
        "point": lead.point,
        "by": _by(lead, baseline(rows)),
        "factors": shown,
        "main": main,
        "menus": menus,
        "others": {menu["column"]: menu["factors"] for menu in menus},
        "compared": sum(len(factor.shown) for factor in shown),
        "prices": page_tables.prices(rows),
        "learned": bool((~rows["useless"]).any()),
        "charts": charts,
    }


def _axis(shown: list[factors.Factor]) -> Scale:
    """Return the axis, in percent of its width, of the differences of an outcome by all factors, with intervals."""
    columns = ("difference", "difference_ci_low", "difference_ci_high")
    ends = [row[key] for factor in shown for row in factor.rows for key in columns if row[key] is not None]
    low, high = min(0.0, *ends), max(0.0, *ends)
    if is_share(shown[0].outcome):  # no difference of shares is larger
        low, high = max(low, -1.0), min(high, 1.0)
    room = ROOM * (high - low) or 1.0
    return Scale(low - room, high + room, 100)


def strip(factor: factors.Factor, rows: Sequence[dict], axis: Scale) -> Markup:
    """Draw rows of a factor as dots with intervals, filled if significant; positions are in percent of the width."""

    def at(value: float) -> str:
        return f"{axis.inside(value):.2f}%"

    def upright(value: float, kind: str) -> str:
        return f'<line class="{kind}" x1="{at(value)}" x2="{at(value)}" y1="0" y2="100%"/>'

    marks = [upright(value, "tick") for value in _ticks(axis, factor.outcome) if value] + [upright(0, "zero")]
    for row in rows:
        value = row["difference"]
        ends = [at(value if end is None else end) for end in (row["difference_ci_low"], row["difference_ci_high"])]
        marks.append(f'<line class="ci" x1="{ends[0]}" x2="{ends[1]}" y1="50%" y2="50%"/>')
        kind = "dot" if factors.is_significant(row) else "dot hollow"
        tip = escape(factors.describe_row(row, factor))
        marks.append(f'<circle class="{kind}" cx="{at(value)}" cy="50%" r="3.7" aria-label="{tip}"/>')
    return Markup(f'<div class="strip"><svg aria-hidden="true">{"".join(marks)}</svg></div>')


def _ticks(axis: Scale, outcome: Outcome) -> list[float]:
    factor = 100 if is_share(outcome) else 1
    return [value / factor for value in ticks(factor * axis.low, factor * axis.high, 3.5)]


def scale(axis: Scale, outcome: Outcome) -> Markup:
    """Write the axis's numbers below strips."""
    factor = 100 if is_share(outcome) else 1
    labels = [
        f'<span style="left:{axis.at(value):.2f}%">{signed(factor * value)}</span>' for value in _ticks(axis, outcome)
    ]
    return Markup(f'<span class="axis" aria-hidden="true">{"".join(labels)}</span>')


WORDS = {  # functions and constants of the template
    "first_factors": FIRST_FACTORS,
    "most_settings": factors.MOST_SETTINGS,
    "first_settings": factors.FIRST_SETTINGS,
    "strip": strip,
    "scale": scale,
    "effect": factors.effect,
    "costs": factors.costs,
    "epsilons": factors.epsilons,
    "is_significant": factors.is_significant,
    "find_outcome": find_outcome,
    "guaranteed": in_words,
    "is_share": is_share,
    "unit": unit,
    "upper": upper,
    "number": number,
    "signed": signed,
    "between": between,
    "probability": probability,
    "rate": rate,
    "system_name": system_name,
}


def _by(lead: headline.Lead, bare: float | None) -> str:
    """Describe the leading point, with its interval, and the best non-private baseline; "" if no point leads."""
    point = lead.point
    if point is None:
        return ""
    outcome = find_outcome(point)
    interval = between(point["ci_low"], point["ci_high"], outcome)
    parts = [called(point)] + ([f"95% interval {interval}"] if interval else [])
    parts += ["less is better"] * (outcome.better == "less")
    if bare is not None and lead.kind != headline.BARE:
        parts.append(f"without noise {number(bare, outcome)}")
    return "; ".join([*parts, *page_tables.left_out(point)])


def _lead_row(system: str, lead: headline.Lead, audits: Mapping, scenarios: Mapping) -> dict:
    """Return a system's row of the page's first table, which a study of several systems has.

    >>> point = {"system": "multicell", "outcome": "accuracy", "mean": 0.9, "scheme": "A", "place": "", "epsilon": 2.0}
    >>> point |= {"attack_rate": 0.034, "epsilon_assumes": ""}
    >>> kinds = headline.GOOD, headline.NOTHING, headline.OPEN, headline.NOBODY
    >>> [_lead_row("multicell", headline.Lead(kind, point), {}, {})["rate"] for kind in kinds]
    ['3.4%', '3.4%', 'all', '–']
    >>> _lead_row("multicell", headline.Lead(headline.NOTHING, None), {}, {})["result"]
    'no result'
    """
    system_audits = {name: frame for name, frame in audits.items() if scenarios[name]["system"] == system}
    point = lead.point
    row = {"system": system_name(system), "badge": headline.BADGES[headline.audited(system_audits, point).verdict]}
    row |= {"kind": "", "result": headline.NOTHING, "scheme": "", "epsilon": NONE, "rate": NONE}
    if point is None:
        return row
    found = "all" if lead.kind in (headline.BARE, headline.OPEN) else rate(point["attack_rate"])
    return row | {
        "kind": "" if lead.kind in (headline.GOOD, headline.POOR) else lead.kind,
        "result": headline.result(point),
        "scheme": called(point),
        "epsilon": number(point["epsilon"]),
        "rate": NONE if lead.kind == headline.NOBODY else found,
        "assumes": point["epsilon_assumes"],
    }


def _places(points: pl.DataFrame, scenarios: Mapping[str, dict]) -> dict[str, str]:
    """Return each scenario's name for readers: the text that distinguishes it from others, or else its title."""
    short = dict(points.select("scenario", "place").unique("scenario", keep="first", maintain_order=True).rows())
    return {name: upper(short.get(name) or readable_title(part["title"], name)) for name, part in scenarios.items()}


def _figures(part: dict, view: Mapping[str, str], is_study: bool = False) -> list[dict]:
    """List the figures of a part that are separate files; of the study, only those that no section has drawn."""
    return [
        {"id": _anchor(path), "caption": caption(text), "src": f"{path}.svg", "files": _formats(path, view)}
        for path, text in part["figures"]
        if not (is_study and "/" not in path and path.rpartition("_")[2] in STUDY_FIGURES)
    ]


def _links(texts: Mapping[str, str], view: Mapping[str, str]) -> list[dict]:
    """List links to those files that exist; `texts` maps paths relative to the page to the links' texts."""
    return [
        {"href": path, "text": text, "title": table_title(Path(path).stem)}
        for path, text in texts.items()
        if path in view
    ]


def _formats(path: str, view: Mapping[str, str]) -> list[dict]:
    """List links to the files of a figure, one per format."""
    return _links({f"{path}.{kind}": kind.upper() for kind in FORMATS}, view)


def _about(part: dict) -> str:
    """Describe a scenario: system, whether a sweep point, whether a crossing, and scenarios of equal parameters."""
    about = f"{system_name(part['system'])}, a point of a sweep" if part["point"] else system_name(part["system"])
    about += f"; a crossing, nobody's paper ({', '.join(part['crossed'])})" if part["crossed"] else ""
    others = [title for title in part["alike"] if title != part["title"]]
    return f"{about}; the same parameters as {' and '.join(others)}" if others else about


def _once(alike: list[tuple[str, ...]]) -> str:
    """Return a sentence on scenarios of equal parameters, which tables of points and claims list once; "" if none."""
    groups = dict.fromkeys(alike)
    if len(groups) == len(alike):
        return ""
    same = "; ".join(" and ".join(group) for group in groups if len(group) > 1)
    return (
        f"Counted once, as they have the same parameters: {same}. So {len(groups)} of {len(alike)} scenarios are "
        "different."
    )


def _withheld(system: str) -> str:
    """Return a sentence on the private columns and figures that scenarios of a system withhold."""
    tables = (table for stage in registry.stages(system) for table in registry.makes(system, stage))
    columns = {table: contract.private(system, table) for table in tables}
    listed = "; ".join(f"{table}: {', '.join(names)}" for table, names in columns.items() if names)
    figures = ", ".join(private_figures(registry.system(system).catalog))
    return (
        f"Not shown in {system}, as they are functions of users' records without noise: columns, and what is made of "
        f"them ({listed}); figures ({figures}). `data: {{release: everything}}` shows them."
    )


def _processors(summaries: list[pl.DataFrame]) -> list[str]:
    """Return a sentence on the kinds of processor that training ran on, in a list; empty if only one."""
    processors = [frame["processor"] for frame in summaries if "processor" in frame.columns]
    kinds = sorted({kind for column in processors for kind in column.str.split(", ").explode().drop_nulls() if kind})
    if len(kinds) < 2:
        return []
    return [
        f"Training ran on {len(kinds)} kinds of processor ({', '.join(kinds)}), whose results differ in last digits."
    ]


def caption(text: str, **settings) -> Markup:
    """Convert a figure's caption from reStructuredText to HTML; `settings` are settings of Docutils."""
    settings = {"report_level": 5, "line_length_limit": LONGEST} | settings
    return Markup(publish_parts(text, writer="html", settings_overrides=settings)["body"])


def _anchor(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
