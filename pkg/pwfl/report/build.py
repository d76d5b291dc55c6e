"""The stage report: a scenario's tables and figures, and those that compare the scenarios of a study.

A scenario's tables contain the rows of all its schemes, named in the first column.
"""

import polars as pl

from pwfl import registry
from pwfl.report import effects, published, results, sweeps, systems
from pwfl.report.catalog import COMMON_FIGURES
from pwfl.report.columns import literals, with_terms
from pwfl.tables import contract


def figure(scenario, name: str, tables: dict[str, pl.DataFrame]):
    """Draw the Altair chart `name` of a scenario from the tables that the system's catalog lists for it."""
    figures = registry.system(scenario.system).load_report().figures
    draw = getattr(results, name) if name in COMMON_FIGURES else figures[name]
    try:
        return draw(scenario, _released(scenario, tables))
    except KeyError as error:
        if (table := error.args[0]) not in registry.makers(scenario.system):
            raise
        raise KeyError(f"figure {name} uses the table {table!r}; list it in `figures` of the catalog") from None


def summarize(scenario, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make a scenario's report tables, except its audit, from the tables of all its schemes."""
    tables = _released(scenario, tables)
    frames = registry.system(scenario.system).load_report().summarize(scenario, tables)
    frames |= {"guarantees": tables["guarantees"]}
    return {name: with_terms(frame, frames["realizations"]) for name, frame in frames.items()}


def _released(scenario, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Return the stages' tables for the report, with private columns empty if the scenario withholds them."""
    if not scenario.withholds:
        return tables
    return {name: contract.without_private(frame, scenario.system, name) for name, frame in tables.items()}


def compare(study: dict[str, dict]) -> dict[str, pl.DataFrame]:
    """Make the tables of a study: `systems`, `claims`, `summary`, `outcomes`, `front`, `effects` and `published`.

    `study` maps each scenario's name to its `scenario` with all parameters that any stage reads, the tables of its
    report, its `point` (`Study.point`) and its `releases` (`published.table`). Each table of scenarios has one column
    per swept parameter. Claims and effects use identical scenarios once, such as a scenario and a point of another
    scenario's sweep.
    """
    chosen: dict[str, str] = {}  # of identical scenarios, a point of a sweep if there is one: it is part of a curve
    for name in sorted(study, key=lambda name: sweeps.find_point(study, name).of == name):
        chosen.setdefault(repr(study[name]["scenario"]), name)
    different = {name: content for name, content in study.items() if name in chosen.values()}
    present = sorted({content["scenario"].system for content in study.values()})
    claims = [
        registry.system(name).load_claims()(_select_system(different, name)).select(pl.lit(name).alias("system"), "*")
        for name in present
    ]
    summaries = [content["summary"].select(pl.lit(name).alias("scenario"), pl.all()) for name, content in study.items()]
    places = {name: sweeps.find_point(study, name).values for name in study}
    frames = {"systems": systems.table(study), "claims": pl.concat(claims)}
    frames |= {"summary": pl.concat(summaries, how="diagonal_relaxed")}
    outcomes = sweeps.outcomes(study)
    point_tables = {"outcomes": outcomes, "front": sweeps.front(outcomes)}  # already have these columns
    point_tables |= {"effects": effects.table(different, outcomes)}
    point_tables |= {"published": published.table(study)}  # identical scenarios included
    return {name: _with_points(frame, places) for name, frame in frames.items()} | point_tables


def comparison_figure(system: str, name: str, study: dict[str, dict]):
    """Draw the Altair chart `name` of a system, which compares its scenarios; `study` is as in `compare`."""
    return registry.system(system).load_report().comparison_figures[name](_select_system(study, system))


def titled(study: dict[str, dict], titles: dict[str, str]) -> dict[str, dict]:
    """Return the study of `compare` with titles in place of its scenarios' names, as figures show them."""
    named = {}
    for name, content in study.items():
        point = content["point"]
        named[titles[name]] = content | {"point": point._replace(of=titles[point.of])}
    return named


def _select_system(study: dict[str, dict], system: str) -> dict[str, dict]:
    return {name: content for name, content in study.items() if content["scenario"].system == system}


def _with_points(frame: pl.DataFrame, places: dict[str, dict]) -> pl.DataFrame:
    """Add one column per swept parameter to a table of several scenarios, after its column `scenario`."""
    rows = [pl.select(pl.lit(name).alias("scenario"), *literals(values)) for name, values in places.items()]
    values = pl.concat(rows, how="diagonal_relaxed")
    keys = values.columns[1:]
    frame = frame.drop(keys, strict=False)  # a summary already has them, from its scenario's report
    first = frame.columns.index("scenario") + 1
    joined = frame.join(values, on="scenario", how="left", maintain_order="left")
    return joined.select(*frame.columns[:first], *keys, *frame.columns[first:])
