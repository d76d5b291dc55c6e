"""A study's page: one HTML file that needs no network: the result first, then figures by question, tables, files.

Its style sheet is Simple.css 2.3.7, under the MIT licence (docs/running.md).
"""

import json
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import itables
import polars as pl
import vl_convert
from docutils.core import publish_parts
from itables.javascript import generate_init_offline_itables_html
from jinja2 import Template
from markupsafe import Markup, escape

from pwfl import registry
from pwfl.report import finding, glossary, published, statements, unscheduled
from pwfl.report.catalog import QUESTIONS, private_figures, table_title
from pwfl.report.claims import PROJECT
from pwfl.store import sealed
from pwfl.tables import contract, read_report
from pwfl.tables.units import unit

SHOWN = 100  # rows of a table on the page, claims excepted; its files hold all
DIGITS = 4
LONGEST = 10**6  # characters of a caption's line
READ = (
    "outcomes",
    "systems",
    "front",
    "differences",
    "claims",
    "published",
)  # tables of the study that the page speaks of
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
FORMATS = ("svg", "png", "pdf", "json")
COSTS = [("seconds", "airtime (s)"), ("joules", "radiated (J)")]  # of the first table
CLAIMS_FIRST = [  # columns
    *("verdict", "claim", "statement", "scenario", "against", "interpretation"),
    *("measured", "measured_ci_low", "measured_ci_high", "required_range", "range_source", "reported"),
]
FILES = {  # of a scenario
    "parameters.csv": "all parameters (csv)",
    "scenario.yaml": "resolved config (yaml)",
    "addresses.csv": "addresses in the store (csv)",
}


def of_files(
    heading: dict[str, str], parts: list[dict], view: dict[str, str], computed: dict, papers: Sequence[dict] = ()
) -> str:
    """The page of a study's files, as HTML.

    `heading` is its `title` and `question`, which may be "". `parts` are its sections: the study's first, then one for
    each `scenario`, with its `title`, of a `system`, a `point` of a sweep or
    not, with its schemes `without_noise`, by which slots it is `crossed`, whether it `withholds` private columns, and
    the titles of all scenarios, itself among them, that are `alike` in all parameters;
    each has `figures` and `tables`, a path in the study's folder, without suffix, and a caption, of figures also the
    question that they answer. `computed`
    has the addresses of each stage and versions of `packages`, `papers` the systems' papers, the fields of
    `references.Reference` each. Raises DamagedError if a file is not what its job wrote.
    """
    lead, sections = None, []
    by_system = {paper["system"]: paper for paper in papers}
    of_scenarios = {part["scenario"]: by_system.get(part["system"]) for part in parts[1:]}
    for part in parts:
        scenario = part["scenario"] or ""
        name, title = scenario or "The study", part["title"] if scenario else "The study"
        figures = []
        for path, text, question in part["figures"]:
            spec = json.loads(sealed.read_bytes(view[f"{path}.json"]))
            drawn = [f"{path}.{kind}" for kind in FORMATS if f"{path}.{kind}" in view]
            figures.append(figure(name, Path(path).name, caption(text), spec, drawn, question))
        tables = []
        for path, text in part["tables"]:
            frame = read_report(view[f"{path}.parquet"])
            tables.append(table(name, Path(path).name, text, frame, [f"{path}.csv", f"{path}.parquet"], of_scenarios))
        if not scenario:
            lead, *figures = figures
        about = _about(part) if scenario else ""
        files = [{"href": f"{scenario}/{file}", "text": text} for file, text in FILES.items()] if scenario else []
        files = [file for file in files if file["href"] in view]
        own = {"id": _anchor(name), "title": title, "text": about, "files": files}
        sections.append(own | section(figures, tables))
    read = {name: read_report(view[f"{name}.parquet"]) for name in READ}
    titles = {part["scenario"]: part["title"] for part in parts[1:]}
    found = finding.points(read, {part["scenario"]: part["without_noise"] for part in parts[1:]}, titles)
    judged, once = [*statements.summary(read["claims"]), *statements.unsupported(read["claims"])], _once(parts[1:])
    judged += once if judged else []
    summaries = [read_report(view[f"{path}.parquet"]) for path in _tables(parts, "summary")]
    made_by = {
        "stages": computed["addresses"],
        "versions": {"Python": platform.python_version()} | computed["packages"],
        "processors": _processors(summaries),
    }
    rows, observers = finding.table(found)
    result = {
        "words": finding.sentences(found, read["differences"]),
        "lead": lead,
        "rows": rows,
        "observers": observers,
        "once": once,
        "papers": papers,
    }
    result["published"] = published.sentences(read["published"])
    result["withheld"] = [_withheld(system) for system in sorted({p["system"] for p in parts[1:] if p["withholds"]})]
    result["spent"] = [cost for cost in COSTS if any(row[cost[0]] != finding.NONE for row in rows)]
    return render(heading, result, sections, judged, made_by)


def render(heading: dict[str, str], result: dict, sections: list[dict], judged: list[str], made_by: dict) -> str:
    """The page as HTML: what came out (`words`, the figure `lead`, `rows` of schemes, what all would cost if it were
    `published`), what `section` makes, what is said of the claims, and how it was computed."""
    template = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"), autoescape=True)
    style = Path(__file__).with_name("simple.css").read_text(encoding="utf-8")
    bundle = Path(itables.__file__).parent / "html" / "dt_bundle.js"
    embedded = {"vega": vl_convert.javascript_bundle(), "datatables": generate_init_offline_itables_html(bundle)}
    embedded = {name: Markup(text) for name, text in (embedded | {"style": style}).items()}
    return template.render(
        **heading,
        ended=ended,
        terms=glossary.TERMS,
        parts=sections,
        judged=judged,
        made_by=made_by,
        **result,
        **embedded,
    )


def section(figures: list[dict], tables: list[dict]) -> dict:
    """What a section of the page shows, of what `figure` and `table` make: figures by the QUESTIONS."""
    asked: dict[str, list[dict]] = {question: [] for question in QUESTIONS}
    for each in figures:
        asked.setdefault(each["question"], []).append(each)
    asked = {question: answers for question, answers in asked.items() if answers}
    return {"figures": asked, "tables": tables}


def figure(part: str, name: str, text: Markup, spec: dict, files: list[str], question: str) -> dict:
    """A figure of a section: its caption, its Vega-Lite specification, its files relative to the page, its question.

    One whose specification has `usermeta.choices`, label -> specification, offers them.
    """
    spec = dict(spec)
    choices = spec.pop("usermeta", {}).get("choices", {})
    links = [{"href": file, "text": Path(file).suffix[1:]} for file in files]
    charts = json.dumps([spec, *choices.values()], ensure_ascii=False, separators=(",", ":"))
    charts = Markup(charts.replace("<", "\\u003c"))  # so that it can stand in a script element
    return _item(part, name, text, links) | {"charts": charts, "labels": list(choices), "question": question}


def table(
    part: str,
    name: str,
    text: str,
    frame: pl.DataFrame,
    files: list[str],
    papers: Mapping[str, dict | None] = MappingProxyType({}),
) -> dict:
    """A table of a section: its caption, its rows, its files relative to the page.

    Claims are all there, with links to the `papers` of their scenarios; of other tables the first rows.
    """
    is_claims = name == "claims"
    sources = _sources(frame, papers) if is_claims else None
    if is_claims:
        frame = frame.select(*CLAIMS_FIRST, pl.exclude(CLAIMS_FIRST))
    frame, constant = readable(frame)
    rounded = (frame if is_claims else frame.head(SHOWN)).with_columns(pl.selectors.float().round_sig_figs(DIGITS))
    if is_claims:
        rounded = rounded.with_columns(pl.selectors.string().str.replace_many(ENTITIES))
        rounded = rounded.with_columns(source=sources) if "source" in rounded.columns else rounded
    heads = {column: f"{column} ({of})" if (of := unit(column)) else column for column in rounded.columns}
    html = itables.to_html_datatable(
        rounded.rename(heads),
        connected=False,
        table_id=_anchor(f"{part}-{name}-table"),
        show_dtypes=False,
        text_in_header_can_be_selected=False,  # a click on it sorts
        classes="display compact",
        style="",
        autoWidth=False,
        display_logo_when_loading=False,
        lengthMenu=[10, 25, SHOWN, *([{"label": "all", "value": -1}] if len(rounded) > SHOWN else [])],
        maxBytes=0,
        maxRows=0,
        maxColumns=0,
        allow_html=is_claims,  # whose texts are escaped above
    )
    said = {key: f"{value:.{DIGITS}g}" if isinstance(value, float) else value for key, value in constant.items()}
    rows = {"rows": len(frame), "shown": len(rounded), "html": Markup(html) if len(frame) else ""}
    links = [{"href": file, "text": Path(file).name} for file in files]
    return _item(part, name, text, links) | rows | {"title": table_title(name), "constant": said}


def _sources(claims: pl.DataFrame, papers: Mapping[str, dict | None]) -> pl.Series:
    """The sources of claims as HTML: of a paper's claim a link to the paper, or to where the page cites it."""
    found = []
    for row in claims.select("source", "scenario", "against", "origin").iter_rows(named=True):
        paper = papers.get(row["against"] or row["scenario"])
        source = escape(row["source"])
        if paper and row["origin"] != PROJECT:
            address = paper["links"][0][1] if paper["links"] else f"#paper-{paper['system']}"
            cited = f"{paper['authors']}: {paper['title']}" + (f"; read as in {paper['page']}" if paper["page"] else "")
            source = Markup('<a href="{}" title="{}">{}</a>').format(address, cited, source)
        found.append(str(source))
    return pl.Series("source", found, dtype=pl.String)


def ended(text: object) -> str:
    """A text that ends a sentence, with its full stop.

    >>> ended("a"), ended("a."), ended(1.5)
    ('a.', 'a.', '1.5.')
    """
    return f"{str(text).rstrip().removesuffix('.')}."


def _about(part: dict) -> str:
    """What a scenario is: its system, whether a point of a sweep, and whether nobody's paper."""
    about = f"{part['system']}, a point of a sweep" if part["point"] else part["system"]
    about += f"; a crossing, nobody's paper ({', '.join(part['crossed'])})" if part["crossed"] else ""
    others = [title for title in part["alike"] if title != part["title"]]
    return f"{about}; the same parameters as {' and '.join(others)}" if others else about


def _once(scenarios: list[dict]) -> list[str]:
    """A sentence where scenarios have the same parameters, as claims and the first table count them once."""
    groups = dict.fromkeys(tuple(part["alike"]) for part in scenarios)
    same = "; ".join(" and ".join(group) for group in groups if len(group) > 1)
    counted = f"{len(groups)} of {len(scenarios)} scenarios are different"
    return [f"Counted once, as they have the same parameters: {same}. So {counted}."] if same else []


def _tables(parts: list[dict], name: str) -> list[str]:
    return [path for part in parts for path, _ in part["tables"] if Path(path).name == name]


def _withheld(system: str) -> str:
    """A sentence on what stays out of scenarios of a system that withhold what is private."""
    tables = (table for stage in registry.stages(system) for table in registry.makes(system, stage))
    columns = {table: contract.private(system, table) for table in tables}
    told = "; ".join(f"{table}: {', '.join(names)}" for table, names in columns.items() if names)
    figures = ", ".join(private_figures(registry.system(system).catalog))
    return (
        f"Not shown in {system}, as they are functions of users' records without noise: columns, and what is made of "
        f"them ({told}); figures ({figures}). `data: {{release: everything}}` shows them."
    )


def _processors(summaries: list[pl.DataFrame]) -> list[str]:
    """A sentence where trainings ran on several kinds of processor."""
    said = [frame["processor"] for frame in summaries if "processor" in frame.columns]
    kinds = sorted({kind for column in said for kind in column.str.split(", ").explode().drop_nulls() if kind})
    if len(kinds) < 2:
        return []
    return [
        f"Trainings ran on {len(kinds)} kinds of processor ({', '.join(kinds)}), whose results differ in last digits."
    ]


def caption(text: str, **settings) -> Markup:
    """A figure's caption, reStructuredText, as HTML; `settings` are of Docutils."""
    settings = {"report_level": 5, "line_length_limit": LONGEST} | settings
    return Markup(publish_parts(text, writer="html", settings_overrides=settings)["body"])


def readable(frame: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, object]]:
    """A table without columns that say nothing or the same in all of several rows, and what these say.

    Counts of realizations with no user scheduled, or that diverged, say nothing where all are 0.

    Examples
    --------
    >>> frame, constant = readable(pl.DataFrame({"a": [1, 2], "delta": [1e-5, 1e-5], "b": [None, None]}))
    >>> frame.columns, constant
    (['a'], {'delta': 1e-05})
    """
    frame = frame.select(column for column in frame if column.null_count() < len(column) and not _is_no_count(column))
    same = [c for c in frame.columns if len(frame) > 1 and frame[c].null_count() == 0 and frame[c].n_unique() == 1]
    return frame.drop(same), {column: frame[column][0] for column in same}


def _is_no_count(column: pl.Series) -> bool:
    counts = column.dtype.is_integer() and column.name.endswith((unscheduled.COLUMN, unscheduled.DIVERGED))
    return counts and bool((column == 0).all())


def _item(part: str, name: str, text: str, links: list[dict[str, str]]) -> dict:
    return {"id": _anchor(f"{part}-{name}"), "name": name, "caption": text, "files": links}


def _anchor(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
