"""Figures that compare scenarios of the system `random_orthogonalization`, mostly numbers of antennas."""

import altair as alt
import polars as pl

from pwfl.report import chance, theme
from pwfl.report.axes import fitted, leveled
from pwfl.report.sweeps import unswept
from pwfl.systems.random_orthogonalization import marks

USERS = ("users:Q", "Users K")
PRINTED = marks.READINGS["epsilon_printed"]


def accuracy(scenarios: dict[str, dict]) -> alt.FacetChart:
    """Fig. 1: mean test accuracy over rounds."""
    names, history = _stack(scenarios, "history")
    kept = marks.trained(history)
    title = alt.TitleParams("Test accuracy", subtitle=marks.interval_of(kept))
    frame, panels = marks.accuracies(kept, ["scenario", "scheme"]), marks.scheme_panels(_schemes(scenarios))
    x = ("round:Q", "Communication round")
    y, levels = leveled(theme.accuracy_axis(), chance.levels(scenarios), *theme.ends(frame, "accuracy"), most=1)
    return _panels(frame, x, "accuracy", y, names, panels, title, levels)


def leakage(scenarios: dict[str, dict]) -> alt.FacetChart:
    """Fig. 2: epsilon of one round as printed (6) over the number of users."""
    names, table = _stack(scenarios, "leakage")
    frame = marks.reading_means(table, ["scenario", "scheme"]).filter(reading=PRINTED)
    title = alt.TitleParams("Leakage of a user in one round, (6) as printed", subtitle=marks.interval_of(table))
    panels = marks.scheme_panels(_schemes(scenarios))
    y = fitted(marks.epsilon_axis(_first(scenarios)), *theme.ends(frame, "mean"))
    return _panels(frame, USERS, "mean", y, names, panels, title)


def readings(scenarios: dict[str, dict]) -> alt.FacetChart:
    """Fig. 2 in the other readings, of the schemes with noise."""
    names, table = _stack(scenarios, "leakage")
    noisy = [s.name for s in _schemes(scenarios) if s.noise == "fixed"] or table["scheme"].unique().to_list()
    frame = marks.reading_means(table.filter(pl.col("scheme").is_in(noisy)), ["scenario"])
    shown = [label for label in marks.READINGS.values() if label != PRINTED]
    panels = alt.Facet("reading:N", title=None, sort=shown)
    subtitle = f"{', '.join(noisy)}; {marks.interval_of(table)}"
    title = alt.TitleParams("Leakage of a user, read otherwise", subtitle=subtitle)
    frame, y = frame.filter(pl.col("reading").is_in(shown)), marks.epsilon_axis(_first(scenarios))
    return _panels(frame, USERS, "mean", y, names, panels, title).resolve_scale(y="independent")


def tradeoff(scenarios: dict[str, dict]) -> alt.FacetChart:
    """Final accuracy against the epsilon of all rounds, for the scenarios' observer and one of all antennas."""
    names, table = _stack(scenarios, "realizations")
    index = ["scenario", "scheme", "realization", "accuracy"]
    observers = marks.observers_of(each["scenario"] for each in (unswept(scenarios) or scenarios).values())
    table = table.select(*index, *observers).drop_nulls("accuracy")
    long = table.unpivot(list(observers), index=index, variable_name="observer", value_name="stated")
    frame = (
        long.rename({"stated": "epsilon"})
        .filter(pl.col("epsilon").is_finite())
        .with_columns(pl.col("observer").replace(observers))
    )
    colour, chosen = _scenario_colour(names, "circle")
    looks = theme.looks(marks.SYSTEM, ((s.name, s.scheduler, s.noise) for s in _schemes(scenarios)))
    shape = theme.shapes_of(looks)
    x = marks.epsilon_axis(_first(scenarios), alt.X)
    by, levels = ["scenario", "scheme", "observer"], chance.levels(scenarios)
    chart = marks.scatter(frame, "epsilon", by, x, colour, chosen, levels).encode(shape=shape)
    title = alt.TitleParams("Accuracy against privacy after all rounds", subtitle=f"worst user; {marks.dots_of(frame)}")
    panels = alt.Column("observer:N", title=None, sort=list(observers.values()))
    chart = chart.properties(width=330, height=theme.HEIGHT).facet(column=panels)
    return chart.properties(title=title)


FIGURES = {"accuracy": accuracy, "leakage": leakage, "readings": readings, "tradeoff": tradeoff}


def _panels(frame, x: tuple[str, str], value: str, y: alt.Y, names, panels, title, levels=()) -> alt.FacetChart:
    """Curves coloured by scenario, in panels."""
    colour, chosen = _scenario_colour(names)
    curves = marks.curves(*x, value, y, colour, chosen, {"scenario:N": "Scenario"})
    width = 330 if isinstance(panels, alt.Column) else 250
    chart = alt.layer(curves, *levels, data=frame).properties(width=width, height=theme.HEIGHT * width // 380)
    faceted = chart.facet(column=panels) if isinstance(panels, alt.Column) else chart.facet(panels, columns=3)
    return faceted.properties(title=title)


def _scenario_colour(names: list[str], symbol: str = "stroke") -> tuple[alt.Color, alt.Parameter]:
    colours = {name: theme.PALETTE[k % len(theme.PALETTE)] for k, name in enumerate(names)}
    colour, chosen, _ = theme.named_colours(colours, symbol, "scenario", "Scenario")
    return colour, chosen


def _stack(scenarios: dict[str, dict], table: str) -> tuple[list[str], pl.DataFrame]:
    """Names of the scenarios by number of antennas, and a table of all of them.

    Points of sweeps are in figures of their own: they are left out where there are other scenarios.
    """
    scenarios = unswept(scenarios) or scenarios
    ordered = sorted(scenarios, key=lambda name: scenarios[name]["scenario"].network.antennas)
    frames = [scenarios[name][table].with_columns(scenario=pl.lit(name)) for name in ordered]
    return ordered, pl.concat(frames, how="diagonal_relaxed")


def _first(scenarios: dict[str, dict]):
    return next(iter(scenarios.values()))["scenario"]


def _schemes(scenarios: dict[str, dict]) -> list:
    """The schemes of all scenarios that are shown, each name once."""
    schemes = [
        scheme for content in (unswept(scenarios) or scenarios).values() for scheme in content["scenario"].schemes
    ]
    return list({scheme.name: scheme for scheme in schemes}.values())
