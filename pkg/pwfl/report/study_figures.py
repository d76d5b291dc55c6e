"""Draw the figures that compare a study's points: as files, with titles, and as elements of its page."""

import altair as alt
import polars as pl

from pwfl.report import labels, study_panels, unscheduled
from pwfl.report.drawing import svg
from pwfl.report.headline import Lead
from pwfl.report.overview import caption, heading, label, observed, overview
from pwfl.report.points import symbol, varied
from pwfl.report.theme import PRINT_SIZE, WIDTH, empty, wrapped
from pwfl.report.words import plural, ranged
from pwfl.scenario.sweep import text

LINE_LENGTH = 85
LONGEST = 12  # most values of a swept parameter that are listed


def chart(
    name: str, rows: pl.DataFrame, lead: Lead, study: dict[str, dict], outcomes: pl.DataFrame, printed: bool = False
):
    """Draw a figure of a system for a file; for print, with panels in a column and larger text."""
    size = PRINT_SIZE if printed else labels.SIZE
    if rows.is_empty():
        return empty("no scheme has a result", "Results")
    if name == "result":
        title = alt.TitleParams(heading(rows), subtitle=wrapped([caption(rows, lead)], LINE_LENGTH))
        return overview(rows, lead, size).properties(title=title)
    options = {"wide": WIDTH, "size": size} if printed else {}
    if name == "rounds":
        title, why = "Test accuracy over rounds", "nothing was trained"
        panels, more = study_panels.over_rounds(study, rows, lead.point, **options)
    else:
        title, why = f"What {swept(rows) or 'nothing'} changes", "no outcome depends on what is swept"
        panels, more = study_panels.over_parameter(rows, outcomes, **options)
    if not panels:
        return empty(why, title)
    subtitle = [f"mean and 95% interval over {ranged(rows['realizations'])}"]
    subtitle += unscheduled.lines(rows) + unscheduled.diverged(rows) + ([undrawn(more)] if more else [])
    charts = [panel.chart.properties(title=", ".join(filter(None, panel[:2]))) for panel in panels]
    whole = alt.concat(*charts, columns=1 if printed else study_panels.ACROSS)
    return whole.properties(title=alt.TitleParams(title, subtitle=subtitle))


def undrawn(panels: int) -> str:
    """Return a text on the number of panels that are not drawn.

    >>> undrawn(1)
    '1 more panel is not drawn; the table outcomes has all values'
    """
    return (
        f"{plural(panels, 'more panel')} {'are' if panels > 1 else 'is'} not drawn; the table outcomes has all values"
    )


def swept(rows: pl.DataFrame) -> str:
    """List the parameters that a study varies, with their values."""
    parts = []
    for key in varied(rows):
        values = rows[key].drop_nulls().unique(maintain_order=True)
        values = [text(value) for value in (values.sort() if values.dtype.is_numeric() else values)]
        listed = ", ".join(values) if len(values) <= LONGEST else f"{values[0]} to {values[-1]} ({len(values)} values)"
        parts.append(f"{symbol(key)} over {listed}")
    return "; ".join(parts)


def draw_page(
    rows: pl.DataFrame, lead: Lead, study: dict[str, dict], outcomes: pl.DataFrame, every: pl.DataFrame
) -> dict:
    """Draw a system's figures for its page, each panel an element.

    `every` contains the points of all systems: narrow figures of systems with the same outcome have common axes.
    """
    comparable = every.filter(outcome=rows["outcome"][0])
    name = label(rows)
    attacked = study_panels.attack(rows)
    return {
        "heading": heading(rows),
        "caption": caption(rows, lead),
        "wide": svg(overview(rows, lead), name),
        "narrow": svg(overview(rows, lead, narrow=True, every=comparable), name, labels.NARROW_SIZE),
        "parameters": _panels(*study_panels.over_parameter(rows, outcomes)),
        "rounds": _panels(*study_panels.over_rounds(study, rows, lead.point)),
        "attack": "" if attacked is None else svg(attacked, "Share of members that an attacker finds, over epsilon"),
        "swept": swept(rows),
        "observed": " ".join(observed(rows)),
    }


def _panels(panels: list[study_panels.Panel], more: int) -> dict:
    """Convert panels to elements of a page, with a text on those that are not drawn; empty without panels."""
    drawn = [
        {"title": panel.title, "value": panel.value, "svg": svg(panel.chart, ", ".join(filter(None, panel[:2])))}
        for panel in panels
    ]
    return {"panels": drawn, "undrawn": undrawn(more) if more else ""} if drawn else {}
