"""Stage report: figures, tables, claims."""

from importlib import import_module

import polars as pl


def figure(parameters: dict, name: str, tables: dict[str, pl.DataFrame]):
    """The Altair chart `name` of a scenario, from the tables that `catalog` names for it."""
    from pwfl.report import results

    own = import_module(f"pwfl.report.{parameters['system']}").FIGURES
    return (own | results.COMMON_FIGURES)[name](parameters, tables)


def summarize(parameters: dict, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The report's tables of a scenario, from the tables of all its schemes."""
    own = import_module(f"pwfl.report.{parameters['system']}").summarize(parameters, tables)
    return own | {"audit": tables["audit"]}


def compare(scenarios: dict[str, dict]) -> dict[str, pl.DataFrame]:
    """The tables `systems`, `claims` and `summary` of a study.

    `scenarios` maps each scenario's name to its `parameters`, all that any stage reads, and the tables of its report.
    """
    present = sorted({content["parameters"]["system"] for content in scenarios.values()})
    claims = [import_module(f"pwfl.report.{system}").claims(_of_system(scenarios, system)) for system in present]
    summaries = [
        content["summary"].select(pl.lit(name).alias("scenario"), pl.all()) for name, content in scenarios.items()
    ]
    return {
        "systems": import_module("pwfl.report.systems").table(scenarios),
        "claims": pl.concat(claims),
        "summary": pl.concat(summaries, how="diagonal_relaxed"),
    }


def comparison_figure(system: str, name: str, scenarios: dict[str, dict]):
    """The Altair chart `name` that compares a system's scenarios, or all of them for `systems`; see `compare`."""
    own = scenarios if system == "systems" else _of_system(scenarios, system)
    return import_module(f"pwfl.report.{system}").COMPARISON_FIGURES[name](own)


def _of_system(scenarios: dict[str, dict], system: str) -> dict[str, dict]:
    return {name: content for name, content in scenarios.items() if content["parameters"]["system"] == system}
