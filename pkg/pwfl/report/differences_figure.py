"""The figure of paired differences: how far all schemes are above one that a reader chooses, with intervals."""

import altair as alt
import polars as pl

from pwfl.report import theme, unscheduled
from pwfl.report.axes import fitted
from pwfl.report.differences import LEVEL, both_ways, compared, table
from pwfl.report.sweep_figures import ROW, looks_of
from pwfl.report.sweeps import different, drawn_once, outcomes

MOST = 60  # rows
MOST_POINTS = 30  # points at one epsilon that a reader may choose
LINE_LENGTH = 100
DOT = 70


def against(study: dict[str, dict], reference: str | None = None) -> alt.TopLevelMixin:
    """The main outcome of all points less that of a `reference`, of `references`; the first one without a name."""
    system, found, rows = _known(study)
    known = references(rows)
    if not known:
        return theme.empty("no two schemes have different results in common", _heading(system))
    reference = reference or next(iter(known))
    return _chart(study, system, found, rows, reference, known[reference])


def others(study: dict[str, dict]) -> dict[str, alt.TopLevelMixin]:
    """The charts against all references, by their names."""
    system, found, rows = _known(study)
    known = references(rows).items()
    charts = {f"against {name}": _chart(study, system, found, rows, name, drawn) for name, drawn in known}
    return charts if len(charts) > 1 else {}


def _chart(
    study: dict[str, dict],
    system: str,
    found: pl.DataFrame,
    differences: pl.DataFrame,
    reference: str,
    drawn: pl.DataFrame,
) -> alt.TopLevelMixin:
    """The chart of rows less a reference; `found` is the study's table `outcomes`, `differences` all that are known."""
    outcome = compared(found, system)[drawn["outcome"][0]]
    percent = outcome.format.endswith("%")
    factor = 100 if percent else 1
    scenarios = drawn["scenario"].n_unique() > 1 or drawn["of_points"].any()
    label = pl.format("{} ({})", "scheme", "scenario") if scenarios else pl.col("scheme")
    drawn = drawn.with_columns(
        pl.col("difference", "low", "high", "detectable") * factor,
        point=label,
        clear=(pl.col("p_corrected") < LEVEL).fill_null(value=False),
    )
    shown, left_out = drawn.head(MOST).drop(unscheduled.COLUMN), len(drawn) - MOST
    said = [
        f"paired over {theme.ranged(shown['realizations'])}: mean and 95% interval; "
        f"filled: p < {LEVEL:.2g}, corrected for {theme.counted(shown['pairs'][0], 'pair')}"
    ]
    if shown["without_result"].max():
        said.append(f"up to {shown['without_result'].max()} realizations left out, as one of the two has no result")
    each = (unscheduled.known(content["realizations"]) for content in study.values())
    trained = [unscheduled.counted(frame.drop_nulls(drawn["outcome"][0])) for frame in each]
    said += unscheduled.lines(pl.concat(trained), width=LINE_LENGTH)
    said += unscheduled.diverged(found.filter(outcome=drawn["outcome"][0]), width=LINE_LENGTH)
    said += drawn_once(study)
    if left_out > 0:
        said.append(f"the first {MOST} of {len(drawn)} rows; all are in differences.csv")
    if (count := len(_points(differences))) > MOST_POINTS:
        said.append(f"the menu has the first {MOST_POINTS} of {count} points; all are in differences.csv")
    looks = looks_of(study, shown)
    colour, chosen, opacity = theme.colours_of(looks, None)
    title = f"{outcome.title}{' (points)' if percent else ''}, difference to {reference}"
    ends = [shown[column] for column in ("difference", "low", "high")]
    x = fitted(alt.X("difference:Q", title=title, axis=alt.Axis(format=".4~g")), *ends, 0.0)
    y = alt.Y("point:N", title=None, sort=None)
    tips = {"point:N": "Scheme", "difference:Q": ("Difference", ".3g"), "low:Q": ("95% from", ".3g")}
    tips |= {"high:Q": ("95% to", ".3g"), "p_corrected:Q": ("p, corrected", ".2g"), "realizations:Q": "Realizations"}
    tips |= {"detectable:Q": ("Detectable with probability 0.8", ".3g")}
    base = alt.Chart(shown).encode(y=y, color=colour, opacity=opacity, tooltip=theme.tips(tips))
    fill = alt.when("datum.clear").then(colour).otherwise(alt.value("white"))
    dots = base.mark_point(size=DOT, strokeWidth=1.5).encode(x=x, fill=fill, shape=theme.shapes_of(looks))
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(color="#888").encode(x=alt.datum(0))
    layers = alt.layer(zero, base.mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q"), dots)
    lines = theme.wrapped(said, LINE_LENGTH)
    chart = layers.add_params(chosen).properties(
        title=alt.TitleParams(_heading(system), subtitle=lines), width=theme.WIDTH, height=alt.Step(ROW)
    )
    return chart.configure_legend(orient="bottom", direction="horizontal", columns=3)


def references(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """What a reader may compare with: by its name, the rows of `differences.table`, of others less it.

    Schemes, each with all others of its scenarios; and points, each with those of other scenarios at its epsilon.
    """
    if rows.is_empty():
        return {}
    both = both_ways(rows)
    inside = both.filter(pl.col("scenario") == pl.col("than_scenario")).with_columns(of_points=False)
    found = {}
    for name in inside["than_scheme"].unique(maintain_order=True):
        found[name] = inside.filter(than_scheme=name)
    across = both.filter(pl.col("scenario") != pl.col("than_scenario")).with_columns(of_points=True)
    for scenario, scheme in _points(rows).head(MOST_POINTS).iter_rows():
        found[f"{scheme} ({scenario})"] = across.filter(than_scenario=scenario, than_scheme=scheme)
    return found


def _points(rows: pl.DataFrame) -> pl.DataFrame:
    """The points that points of other scenarios are compared with, columns than_scenario and than_scheme."""
    across = both_ways(rows).filter(pl.col("scenario") != pl.col("than_scenario"))
    return across.select("than_scenario", "than_scheme").unique(maintain_order=True)


def _known(study: dict[str, dict]) -> tuple[str, pl.DataFrame, pl.DataFrame]:
    """The system, its table `outcomes`, and the rows of `differences.table` of its main outcome."""
    system, found = next(iter(study.values()))["scenario"].system, outcomes(study)
    if found.is_empty():
        return system, found, pl.DataFrame()
    return system, found, table(different(study), found).filter(outcome=next(iter(compared(found, system))))


def _heading(system: str) -> str:
    return f"{system}: paired differences"


FIGURES, CHOICES = {"differences": against}, {"differences": others}
