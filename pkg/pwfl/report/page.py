"""A study's page: one HTML file that needs no network, with claims, figures and tables, and links to their files."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import itables
import polars as pl
import vl_convert
from docutils.core import publish_parts
from itables.javascript import generate_init_offline_itables_html
from jinja2 import Template
from markupsafe import Markup

from pwfl.runtime import made
from pwfl.tables import read_report
from pwfl.tables.units import unit

SHOWN = 100  # rows of a table on the page; its files hold all
DIGITS = 4
FORMATS = ("svg", "png", "pdf", "json")
OF_SCENARIO = "A scenario of the system {system}."
OF_POINT = (
    "A point of a sweep of the system {system}. What it came to realization by realization is in the folder {scenario}."
)
COMPARED = "All scenarios side by side. Click on a legend to choose schemes; point at a mark for its numbers."


class Figure(NamedTuple):
    """A drawn figure: its name, its caption as HTML, its Vega-Lite specification, its files relative to the page."""

    name: str
    caption: str
    spec: dict
    files: list[str]


class Table(NamedTuple):
    """A table of a report: its name, its caption, its rows, its files relative to the page."""

    name: str
    caption: str
    frame: pl.DataFrame
    files: list[str]


class Part(NamedTuple):
    """A section of the page."""

    title: str
    text: str
    figures: list[Figure]
    tables: list[Table]


def render(study: str, words: list[str], parts: list[Part]) -> str:
    """The page as HTML.

    Parameters
    ----------
    study
        Its name.
    words
        What the study is and what came out, a sentence or two each.
    parts
        The sections. A figure whose specification has `usermeta.choices`, label -> specification, offers them.
    """
    template = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"), autoescape=True)
    bundle = Path(itables.__file__).parent / "html" / "dt_bundle.js"
    return template.render(
        study=study,
        words=words,
        parts=[
            {
                "id": _anchor(part.title),
                "title": part.title,
                "text": part.text,
                "figures": [_figure(part.title, figure) for figure in part.figures],
                "tables": [_table(part.title, table) for table in part.tables],
            }
            for part in parts
        ],
        vega=Markup(vl_convert.javascript_bundle()),
        datatables=Markup(generate_init_offline_itables_html(bundle)),
    )


def of_files(study: str, parts: list[dict], folder: Path) -> str:
    """The page of a study's files.

    Parameters
    ----------
    parts
        Sections: the study's first, then one for each `scenario`, of a `system`, a `point` of a sweep or not; each
        with `figures`, pairs of a path without suffix and the caption, and `tables`, pairs of the same kind.
    folder
        The study's, which the paths are in.

    Raises
    ------
    DamagedError
        If a file is not as its job wrote it.
    """
    shown = []
    for part in parts:
        scenario = part["scenario"] or ""
        figures = [
            Figure(
                Path(path).name,
                caption(text, scenario),
                json.loads(made.content(folder / f"{path}.json")),
                [f"{path}.{kind}" for kind in FORMATS if (folder / f"{path}.{kind}").exists()],
            )
            for path, text in part["figures"]
        ]
        tables = [
            Table(Path(path).name, text, read_report(folder / f"{path}.parquet"), [f"{path}.csv", f"{path}.parquet"])
            for path, text in part["tables"]
        ]
        text = COMPARED if not scenario else OF_POINT if part["point"] else OF_SCENARIO
        text = text.format(scenario=scenario, system=part.get("system"))
        shown.append(Part(scenario or "The study", text, figures, tables))
    return render(study, _words(parts, shown[0]), shown)


def _words(parts: list[dict], study: Part) -> list[str]:
    """What a study is, and how many of its claims hold."""
    scenarios = [part for part in parts if part["scenario"]]
    systems = Counter(part["system"] for part in scenarios)
    of = ", ".join(f"{count} of {system}" for system, count in systems.items())
    words = [f"{len(scenarios)} scenario{'s' * (len(scenarios) > 1)}: {of}."]
    claims = next((table.frame for table in study.tables if table.name == "claims"), None)
    if claims is not None and len(claims):
        holds = Counter(claims["holds"])
        words.append(
            f"Of {len(claims)} claims of the papers that can be measured here, {holds['yes']} hold, {holds['no']} do "
            f"not, and {holds['open']} are open, as the interval decides neither; the table claims lists them."
        )
    return words


def caption(text: str, scenario: str = "") -> str:
    """A figure's caption, reStructuredText that may name its scenario, as HTML."""
    text = re.sub(r"{{ *snakemake\.wildcards\.scenario *}}", scenario, text)
    return publish_parts(text, writer="html", settings_overrides={"report_level": 5})["body"]


def readable(frame: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, object]]:
    """A table without columns that say nothing or the same in all of several rows, and what these say.

    Examples
    --------
    >>> frame, constant = readable(pl.DataFrame({"a": [1, 2], "delta": [1e-5, 1e-5], "b": [None, None]}))
    >>> frame.columns, constant
    (['a'], {'delta': 1e-05})
    """
    frame = frame.select(column for column in frame if column.null_count() < len(column))
    same = [c for c in frame.columns if len(frame) > 1 and frame[c].null_count() == 0 and frame[c].n_unique() == 1]
    return frame.drop(same), {column: frame[column][0] for column in same}


def _figure(part: str, figure: Figure) -> dict:
    spec = dict(figure.spec)
    choices = spec.pop("usermeta", {}).get("choices", {})
    return {
        "id": _anchor(f"{part}-{figure.name}"),
        "name": figure.name,
        "caption": Markup(figure.caption),
        "charts": Markup(_json([spec, *choices.values()])),
        "labels": list(choices),
        "files": _links(figure.files),
    }


def _table(part: str, table: Table) -> dict:
    frame, constant = readable(table.frame)
    rounded = frame.head(SHOWN).with_columns(pl.selectors.float().round_sig_figs(DIGITS))
    heads = {name: f"{name} ({of})" if (of := unit(name)) else name for name in rounded.columns}
    number = itables.to_html_datatable(
        rounded.rename(heads),
        connected=False,
        table_id=_anchor(f"{part}-{table.name}-table"),
        show_dtypes=False,
        text_in_header_can_be_selected=False,  # a click on it sorts
        display_logo_when_loading=False,
        lengthMenu=[10, 25, SHOWN],
        maxBytes=0,
    )
    return {
        "id": _anchor(f"{part}-{table.name}"),
        "name": table.name,
        "caption": table.caption,
        "rows": len(frame),
        "shown": len(rounded),
        "constant": {
            name: f"{value:.{DIGITS}g}" if isinstance(value, float) else value for name, value in constant.items()
        },
        "html": Markup(number) if len(frame) else "",
        "files": _links(table.files),
    }


def _links(files: list[str]) -> list[dict]:
    return [{"href": file, "kind": Path(file).suffix[1:]} for file in files]


def _json(value) -> str:
    """JSON that can stand in a script element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _anchor(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
