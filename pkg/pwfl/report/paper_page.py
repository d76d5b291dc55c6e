"""Build the page of a paper, one HTML file without network: verdicts, figures, claims, interpretations."""

import re
from collections.abc import Iterator, Mapping, Sequence

import polars as pl
from markupsafe import Markup

from pwfl import registry
from pwfl.report import drawing, labels, panels, theme
from pwfl.report import paper as papers
from pwfl.report.claims import INCONCLUSIVE, SUPPORTED
from pwfl.report.curves import empty
from pwfl.report.page_tables import LOOKS
from pwfl.report.paper import OUTSIDE, Panel, Paper
from pwfl.report.statements import DEPENDS
from pwfl.report.words import plural, system_name

TINTS = LOOKS | {OUTSIDE: "none"}
MOST_LINES = 4  # lines of a cell, above which they are folded
CAPTION = 14  # pixels of a caption's text
DIGITS = 5  # significant digits of curves in their file
# Spaces at which no line breaks: those of `R = 5`, and before a percent sign.
UNBROKEN = re.compile(r"(?<=\b[RKMTγpqδ]) (?=[=≤<])|(?<=\b[RKMTγpqδ] [=≤<]) (?=[\d<])|(?<=\d) (?=%)")


def build_paper(
    system: str, cited: Mapping, claims: pl.DataFrame, contents: dict[str, dict]
) -> tuple[pl.DataFrame, str]:
    """Build the curves of a system's paper, one table with a column `panel`, and its page, from a study's scenarios.

    `claims` contains the system's rows of the table `claims`, `contents` each scenario's parameters and tables by name.
    """
    entry, catalog = registry.system(system), registry.system(system).catalog
    assert entry.load_paper is not None, f"{system} has no paper's page"
    paper = entry.load_paper()
    settings = papers.find_settings(paper, {name: content["scenario"] for name, content in contents.items()})
    curves = {}
    for panel in (panel for row in paper.panels for panel in row):
        chosen = {name: content for name, content in contents.items() if panel.setting in ("", settings[name])}
        curves[panel.name] = panel.curves(chosen) if chosen else empty()
    colours = theme.study_colours(system, [content["scenario"] for content in contents.values()])
    facts = {"This run": _size(contents)}
    text = render(paper, cited, claims, settings, curves, colours, facts, catalog.studies, _runs(contents))
    table = pl.concat([chosen.select(pl.lit(name).alias("panel"), "*") for name, chosen in curves.items()] or [empty()])
    return table.with_columns(pl.selectors.float().round_sig_figs(DIGITS)), text


def _size(contents: dict[str, dict]) -> str:
    """Describe how many realizations and training runs scenarios have."""
    scenarios = [content["scenario"] for content in contents.values()]
    counts = sorted({(one.realizations, one.training_realizations) for one in scenarios})
    sizes = "; ".join(f"{count} realizations, {trained} training runs of each scheme" for count, trained in counts)
    return f"{plural(len(scenarios), 'scenario')}: {sizes}"


def _runs(contents: dict[str, dict]) -> str:
    """Describe the number of training runs behind each scheme's curves of training."""
    counts = sorted({content["scenario"].training_realizations for content in contents.values()})
    return f"{' or '.join(map(str, counts))} training run{'s' * (counts != [1])}"


def render(
    paper: Paper,
    cited: Mapping,
    claims: pl.DataFrame,
    settings: Mapping[str, str],
    curves: Mapping[str, pl.DataFrame],
    known: Mapping[str, str],
    facts: Mapping[str, str],
    studies: Sequence[str],
    over: str = "",
) -> str:
    """Render the page as HTML.

    Parameters
    ----------
    paper, cited
        The paper, and a `references.Reference` of it as a dictionary.
    claims
        The system's rows of the table `claims`.
    settings
        The key of the paper's setting that each scenario matches, by the scenario's name.
    curves
        Each panel's curves, by its name; instead of a drawing, a panel without any shows the reported values as text.
    known
        Colours of schemes, by their names.
    facts
        Descriptions of this execution by heading, such as `This run`.
    studies
        Names of the studies that reimplement the paper, the full-size one first.
    over
        The number of training runs behind curves of training, in words.
    """
    rows = papers.rows(paper, claims, settings)

    def figures(row: tuple[Panel, ...]) -> Iterator[dict]:
        """Yield the panels of a row: the drawing at both widths, or none, the caption, and the setting."""
        drawn = [panel_curves for panel in row if len(panel_curves := curves.get(panel.name, empty()))]
        widths = (panels.WIDE, panels.NARROW) if drawn else ()
        frames, colours = [panels.fit_frame(row, drawn, width) for width in widths], panels.choose_colours(drawn, known)
        for panel in row:
            panel_curves = curves.get(panel.name, empty())
            setting = paper.settings[panel.setting].title if panel.setting else ""
            label = ", ".join(filter(None, (f"Fig. {panel.name}: {panel.title}", setting)))
            yield {
                "panel": panel,
                "setting": setting,
                "drawn": [
                    drawing.svg(panels.draw(panel, panel_curves, frame, colours), label)
                    for frame in frames
                    if len(panel_curves)
                ],
                "caption": _caption(papers.caption(panel, rows, claims, settings), f"Fig. {panel.name}: "),
            }

    columns = [setting.title for setting in paper.settings.values()]
    if columns and any(len(row.cells) > 1 and row.cells[-1] for row in rows):
        columns.append("Other scenarios")
    context = {
        "signs": papers.SIGNS,
        "tints": TINTS,
        "depends": DEPENDS,
        "most": MOST_LINES,
        "counted": papers.counts,
        "paper": paper,
        "cited": cited,
        "name": system_name(cited["system"]),
        "lead": papers.lead(rows),
        "counts": papers.counts(rows),
        "unsupported": papers.unsupported(rows),
        "rows": [row._replace(cells=row.cells[: len(columns) or 1]) for row in rows],
        "figures": [figure for row in paper.panels for figure in figures(row)],
        "over": over,
        "columns": columns,
        "facts": facts,
        "marked": any(panel.marks for row in paper.panels for panel in row),
        "exact": any(panel_curves["series"].str.ends_with(panels.EXACT).any() for panel_curves in curves.values()),
        "study": studies[0],
        "left_open": {interpretation.id: interpretation.left_open for interpretation in paper.interpretations},
        "style": drawing.style("style.css", "paper.css"),
    }
    return UNBROKEN.sub("\u00a0", drawing.fill("paper.html", context))


def _caption(claims: list[tuple[str, str, str]], begin: str) -> Markup:
    """Write a panel's claims by verdict in a line; if it is too long, supported, then inconclusive ones as ids only."""
    if not claims:
        return Markup("The paper says nothing of it.")
    by_verdict: dict[str, list[tuple[str, str]]] = {}
    for verdict, words, name in claims:
        by_verdict.setdefault(verdict, []).append((words, name))
    for short in ((), (SUPPORTED,), (SUPPORTED, INCONCLUSIVE)):
        parts = []
        for verdict, claimed in by_verdict.items():
            sign = Markup('<span class="v {}">{}</span> ').format(TINTS[verdict], papers.SIGNS[verdict])
            links = [
                Markup('{}<a class="id" href="#{}" title="{}">{}</a>').format(
                    "" if verdict in short else f"{words} ", name, words, name
                )
                for words, name in claimed
            ]
            parts.append(sign + Markup(", ").join(links))
        line = Markup("; ").join(parts)
        if labels.width(f"{begin}{line.striptags()}; ", CAPTION) <= panels.WIDE:
            break
    return line + "."
