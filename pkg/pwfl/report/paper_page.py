"""The page of a paper, one HTML file without network: verdicts, figures, statements, what the paper leaves open."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl
from jinja2 import Environment
from markupsafe import Markup, escape

from pwfl import registry
from pwfl.report import drawing, labels, panels, paper
from pwfl.report.claims import INCONCLUSIVE, NOT_MEASURED, REFUTED, SUPPORTED
from pwfl.report.curves import empty
from pwfl.report.page_tables import LOOKS
from pwfl.report.paper import OUTSIDE, Panel, Paper
from pwfl.report.statements import DEPENDS
from pwfl.report.words import system_name

TINTS = LOOKS | {OUTSIDE: "none"}
WORDS = {
    SUPPORTED: "yes",
    REFUTED: "no",
    DEPENDS: "maybe",
    INCONCLUSIVE: "soft2",
    OUTSIDE: "soft2",
    NOT_MEASURED: "soft2",
}
MOST_LINES = 4  # of a cell, of which more are folded
CAPTION = 14  # pixels of a caption's text
DIGITS = 5  # of curves in their file
# Spaces that break no line: of `R = 5`, and before a percent sign.
UNBROKEN = re.compile(r"(?<=\b[RKMTγpqδ]) (?=[=≤<])|(?<=\b[RKMTγpqδ] [=≤<]) (?=[\d<])|(?<=\d) (?=%)")


def build_paper(
    system: str, cited: Mapping, claims: pl.DataFrame, contents: dict[str, dict]
) -> tuple[pl.DataFrame, str]:
    """Build the curves of a system's paper, a table with the panel's name, and its page, of a study's scenarios.

    `claims` are the system's rows of the table, `contents` have each scenario's parameters and tables by name.
    """
    found, catalog = registry.system(system), registry.system(system).catalog
    assert found.load_paper is not None, f"{system} has no paper's page"
    of = found.load_paper()
    settings = paper.find_settings(of, {name: content["scenario"] for name, content in contents.items()})
    curves = {}
    for panel in (panel for row in of.panels for panel in row):
        chosen = {name: each for name, each in contents.items() if panel.setting in ("", settings[name])}
        curves[panel.name] = panel.curves(chosen) if chosen else empty()
    colours = scheme_colours(system, [content["scenario"] for content in contents.values()])
    text = render(
        of,
        cited,
        claims,
        settings,
        curves,
        colours,
        {"This run": _size(contents)},
        catalog.studies,
        _runs(contents),
    )
    table = pl.concat([chosen.select(pl.lit(name).alias("panel"), "*") for name, chosen in curves.items()] or [empty()])
    return table.with_columns(pl.selectors.float().round_sig_figs(DIGITS)), text


def scheme_colours(system: str, scenarios: Iterable) -> dict[str, str]:
    """The colours of some scenarios' schemes, by their names."""
    known = registry.system(system).catalog.colours
    schemes = [scheme for scenario in scenarios for scheme in scenario.schemes]
    return {each.name: known[pair] for each in schemes if (pair := (each.scheduler, each.noise)) in known}


def _size(contents: dict[str, dict]) -> str:
    """How many realizations and training runs scenarios have."""
    each = [content["scenario"] for content in contents.values()]
    counts = sorted({(one.realizations, one.training_realizations) for one in each})
    said = "; ".join(f"{of} realizations, {trained} training runs of each scheme" for of, trained in counts)
    return f"{len(each)} scenario{'s' * (len(each) > 1)}: {said}"


def _runs(contents: dict[str, dict]) -> str:
    """Over how many training runs each scheme's curves of training are."""
    counts = sorted({content["scenario"].training_realizations for content in contents.values()})
    return f"{' or '.join(map(str, counts))} training run{'s' * (counts != [1])}"


def render(
    of: Paper,
    cited: Mapping,
    claims: pl.DataFrame,
    settings: Mapping[str, str],
    curves: Mapping[str, pl.DataFrame],
    known: Mapping[str, str],
    said: Mapping[str, str],
    studies: Sequence[str],
    over: str = "",
) -> str:
    """The page as HTML.

    Parameters
    ----------
    of, cited
        The paper, and a `references.Reference` of it as a dictionary.
    claims
        The system's rows of the table `claims`.
    settings
        The key of the paper's setting that each scenario is in.
    curves
        Each panel's curves, by its name; panels without any are shown with what the paper reports alone.
    known
        Colours of schemes, by their names.
    said
        What was run: words by heading, such as `This run`.
    studies
        Names of the studies that reimplement the paper, the full-size one first.
    over
        Over how many training runs curves of training are, in words.
    """
    rows = paper.rows(of, claims, settings)
    figures = [figure for row in of.panels for figure in _figures(of, row, rows, claims, settings, curves, known, over)]
    folder = Path(__file__).parent
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {
        "signs": paper.SIGNS,
        "tints": TINTS,
        "words": WORDS,
        "depends": DEPENDS,
        "most": MOST_LINES,
    }
    environment.globals["counted"] = paper.counts
    columns = [setting.title for setting in of.settings.values()]
    if columns and any(len(row.cells) > 1 and row.cells[-1] for row in rows):
        columns.append("Other scenarios")
    rows = [row._replace(cells=row.cells[: len(columns) or 1]) for row in rows]
    text = environment.from_string((folder / "paper.html").read_text(encoding="utf-8")).render(
        paper=of,
        cited=cited,
        name=system_name(cited["system"]),
        lead=paper.lead(rows),
        counts=paper.counts(rows),
        unsupported=paper.unsupported(rows),
        rows=rows,
        figures=figures,
        columns=columns,
        said=said,
        marked=any(panel.marks for row in of.panels for panel in row),
        exact=any(own["series"].str.ends_with(panels.EXACT).any() for own in curves.values()),
        study=studies[0],
        left_open={each.id: each.left_open for each in of.interpretations},
        style=drawing.style("style.css", "paper.css"),
    )
    return UNBROKEN.sub("\u00a0", text)


def _figures(
    of: Paper,
    row: tuple[Panel, ...],
    rows: list[paper.Row],
    claims: pl.DataFrame,
    settings: Mapping[str, str],
    curves: Mapping[str, pl.DataFrame],
    known: Mapping[str, str],
    over: str,
) -> list[dict]:
    """The panels of a row: the drawing at both widths, or none, the caption, and the setting."""
    each = [curves.get(panel.name) for panel in row]
    there = [own for own in each if own is not None and len(own)]
    found = []
    frames = {width: panels.fit_frame(row, there, width) for width in (panels.WIDE, panels.NARROW)} if there else {}
    colours = panels.choose_colours(there, dict(known))
    for panel, own in zip(row, each, strict=True):
        setting = of.settings[panel.setting].title if panel.setting else ""
        label = f"Fig. {panel.name}: {panel.title}{f', {setting}' if setting else ''}"
        drawn = [
            drawing.svg(panels.draw(panel, own, frame, colours), label)
            for frame in frames.values()
            if own is not None and len(own)
        ]
        found.append(
            {
                "name": panel.name,
                "title": panel.title + " (logarithmic)" * panel.log_y,
                "setting": setting,
                "over": over if panel.trained and drawn else "",
                "drawn": drawn,
                "marks": [mark.words.removeprefix("paper: ") for mark in panel.marks],
                "caption": _caption(paper.caption(panel, rows, claims, settings), f"Fig. {panel.name}: "),
            }
        )
    return found


def _caption(claims: list[tuple[str, str, str]], begin: str) -> Markup:
    """What agrees and what does not, in a line: of what is supported words where there is room, else ids alone."""
    for short in ((), (SUPPORTED,), (SUPPORTED, INCONCLUSIVE)):
        plain, parts = begin, []
        for verdict in dict.fromkeys(each[0] for each in claims):
            own = [(words, name) for of, words, name in claims if of == verdict]
            ids = [
                Markup('<a class="id" href="#{}" title="{}">{}</a>').format(name, words, name) for words, name in own
            ]
            shown = [
                link if verdict in short else Markup("{} {}").format(words, link)
                for (words, _), link in zip(own, ids, strict=True)
            ]
            plain += (
                f"{paper.SIGNS[verdict]} "
                + ", ".join(name if verdict in short else f"{words} {name}" for words, name in own)
                + "; "
            )
            sign = Markup('<span class="{}">{}</span> ').format(WORDS[verdict], paper.SIGNS[verdict])
            parts.append(sign + Markup(", ").join(shown))
        if labels.width(plain, CAPTION) <= panels.WIDE:
            break
    return Markup("; ").join(parts) + "." if claims else escape("The paper says nothing of it.")
