"""The stage report: a scenario's tables and figures, and those that compare the scenarios of a study.

Tables of a scenario hold the rows of all its schemes, named in the first column; a scenario is handed over with
the parameters that the stage reads.
"""

import polars as pl

from pwfl.report import results, systems
from pwfl.report.catalog import COMMON_FIGURES
from pwfl.stages import MAKER
from pwfl.systems import registry


def figure(scenario, name: str, tables: dict[str, pl.DataFrame]):
    """The Altair chart `name` of a scenario, from the tables that the system's catalog names for it."""
    own = registry.system(scenario.system).part("report").FIGURES
    draw = (own | {name: getattr(results, name) for name in COMMON_FIGURES})[name]
    try:
        return draw(scenario, tables)
    except KeyError as error:
        if error.args[0] in MAKER:
            raise KeyError(
                f"figure {name} uses the table {error.args[0]!r}; list it in `figures` of the catalog"
            ) from None
        raise


def summarize(scenario, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The report's tables of a scenario, from the tables of all its schemes."""
    own = registry.system(scenario.system).part("report").summarize(scenario, tables)
    return own | {"audit": tables["audit"]}


def compare(study: dict[str, dict]) -> dict[str, pl.DataFrame]:
    """The tables `systems`, `claims` and `summary` of a study.

    `study` maps each scenario's name to its `scenario`, with all parameters that any stage reads, and the tables of
    its report.
    """
    present = sorted({content["scenario"].system for content in study.values()})
    claims = [registry.system(name).part("claims").claims(_of_system(study, name)) for name in present]
    summaries = [content["summary"].select(pl.lit(name).alias("scenario"), pl.all()) for name, content in study.items()]
    return {
        "systems": systems.table(study),
        "claims": pl.concat(claims),
        "summary": pl.concat(summaries, how="diagonal_relaxed"),
    }


def comparison_figure(system: str, name: str, study: dict[str, dict]):
    """The Altair chart `name` that compares a system's scenarios, or all of them for `systems`; see `compare`."""
    if system == "systems":
        return systems.COMPARISON_FIGURES[name](study)
    return registry.system(system).part("report").COMPARISON_FIGURES[name](_of_system(study, system))


def _of_system(study: dict[str, dict], system: str) -> dict[str, dict]:
    return {name: content for name, content in study.items() if content["scenario"].system == system}
