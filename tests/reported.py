"""A scenario as its report gets it, and all that is made of it."""

from pipeline import run
from pwfl import registry
from pwfl.report import build
from pwfl.report.catalog import COMPARISON, scenario_figures
from pwfl.scenario import resolve


def reported(config: dict) -> tuple:
    """What the report gets of a scenario, its tables, and what comparisons are made of."""
    settings, tables = run(config)
    return settings, tables, {"scenario": resolve(config, {}).part(None)} | build.summarize(settings, tables)


def everything_made(config: dict) -> tuple:
    """As `reported`, and the tables of a comparison; every figure is drawn, every table is there."""
    settings, tables, content = reported(config)
    catalog, study = registry.system(settings.system).catalog, {"one": content}
    charts = [
        build.figure(settings, name, {table: tables[table] for table in needed})
        for name, needed in scenario_figures(catalog).items()
    ]
    charts += [build.comparison_figure(settings.system, name, study) for name in catalog.comparison_figures]
    for chart in charts:
        assert chart.to_dict(format="vega")["$schema"].startswith("https://vega.github.io")
    assert set(content) - {"scenario"} == set(catalog.all_tables)
    compared = build.compare(study)
    assert set(compared) == set(COMPARISON)
    return settings, tables, content, compared
