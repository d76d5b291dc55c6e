"""Conformance test of reports: tables, figures and claims build, also of few realizations, by addressed code."""

import json
import re
from io import StringIO
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import polars as pl

from pwfl import execution, registry
from pwfl.api import stage_tables
from pwfl.privacy.composition import compose
from pwfl.report import build, theme
from pwfl.report.catalog import scenario_figures
from pwfl.report.claims import VERDICTS
from pwfl.scenario import ScenarioError, load, resolve
from pwfl.scenario.common import Scenario
from pwfl.scenario.sweep import Point
from pwfl.scenario.values import UndeclaredError, build_values
from pwfl.stages import AUDIT, REPORT
from pwfl.testing import tiny
from pwfl.testing.executed_code import checked_stages
from pwfl.testing.tiny import CheckError
from pwfl.workflow import reports
from pwfl.workflow.plan import plan


def check_report(model: Scenario, inputs: dict) -> None:
    """Check that tables, figures and claims match the catalog, and build with few realizations, and none trained.

    No stage may run code that its address does not cover, including schemes that the tiny scenario lacks.
    """
    with checked_stages(model):
        _build(model)
        if others := _other_schemes(model):
            stage_tables(_allowed(model, others), tiny.BEFORE_TRAINING)


def _build(model: Scenario) -> None:
    catalog = registry.system(model.system).catalog
    one = model.model_copy(update={"realizations": 1, "training_realizations": 1})
    few = stage_tables(one)
    untrained = few | {"history": few["history"].clear()}
    for case, stages in ((model, stage_tables(model)), (one, few), (one, untrained)):
        scenario = case.select_stage(REPORT)
        stages[AUDIT] = execution.audit_schemes(case.select_stage(AUDIT), stages)
        report = build.summarize(scenario, stages)
        wanted = {*catalog.all_tables}
        if set(report) != wanted:
            raise CheckError(
                f"summarize and the catalog differ: summarize lacks {sorted(wanted - set(report)) or 'nothing'}, the "
                f"catalog lacks {sorted(set(report) - wanted) or 'nothing'}"
            )
        if case is model:
            _check_losses(case, report["realizations"])
        charts = [
            build.figure(scenario, figure, {name: stages[name] for name in needed})
            for figure, needed in scenario_figures(catalog).items()
        ]
        study = {
            name: {"scenario": case.part(), "point": Point("swept", {"seed": seed})} | report
            for seed, name in enumerate(("one", "two"))
        }
        claims = build.compare(study)["claims"]
        if strange := set(claims["verdict"]) - {*VERDICTS, None}:
            raise CheckError(f"claims: verdict is {strange}, must be one of {', '.join(VERDICTS)}, or null")
        charts += [build.comparison_figure(model.system, figure, study) for figure in catalog.comparison_figures]
        if case is model:
            _check_parameters(case, stages, charts)
        for chart in charts if case is model else ():
            with TemporaryDirectory() as folder:
                theme.save(chart, {kind: str(Path(folder, f"figure.{kind}")) for kind in ("json", "png", "svg")})
        for chart in charts if case is not model else ():
            chart.save(StringIO(), format="svg")


def _check_parameters(model: Scenario, stages: dict[str, pl.DataFrame], charts: list) -> None:
    """Check that figures are the same with only the workflow's parameters: theirs, and those their tables depend on."""
    planned = plan(load({"scenarios": {"one": model.model_dump()}}, "the tiny scenario"))
    planned_jobs = reports.plan(planned)
    jobs = [planned_jobs.descriptions[item.address] for item in planned_jobs.jobs if item.stage == reports.FIGURES]
    needed = scenario_figures(registry.system(model.system).catalog)
    for chart_job, chart in zip(jobs, charts, strict=False):  # figures come first
        name = chart_job["figure"]
        try:
            built = build.figure(
                build_values(chart_job["parameters"]), name, {table: stages[table] for table in needed[name]}
            )
        except UndeclaredError as error:
            raise CheckError(
                f"figure {name}: {str(error).partition(':')[0]} is a parameter that none of its tables depends on; "
                "take it from a table, or list one in `figures` of the catalog that depends on it"
            ) from None
        if _text(built) != _text(chart):
            raise CheckError(f"figure {name}: looks different without the parameters that its tables do not depend on")


def _text(chart) -> str:
    """Return a chart's specification, except the numbers by which Altair counts names."""
    return re.sub(r"(view|param|concat|layer|name)_\d+", r"\1", json.dumps(chart.to_dict()))


def _check_losses(model: Scenario, losses: pl.DataFrame) -> None:
    """Check that `published` losses of one release give no smaller epsilon than the one against the server."""
    stated = registry.system(model.system).load_report().published
    if stated is None:
        return
    rows = losses.filter(pl.col("epsilon_server").is_finite()).unique("scheme", keep="first", maintain_order=True)
    for row, loss in zip(rows.iter_rows(named=True), stated(model.part(), rows), strict=True):
        if isinstance(loss, str):
            continue
        epsilon, server = compose([loss], row["delta"]).epsilon, row["epsilon_server"]
        if epsilon < server * (1 - tiny.RELATIVE):
            raise CheckError(
                f"{row['scheme']}: `published` of report has losses with epsilon {epsilon:g}, but epsilon_server is "
                f"{server:g}"
            )


def _other_schemes(model: Scenario) -> list[dict]:
    """List schemes with schedulers and noise schemes that the model's lack, as far as its parameters allow them."""
    fields = get_args(type(model).model_fields["schemes"].annotation)[0].model_fields
    known = {part: get_args(fields[part].annotation) for part in ("scheduler", "noise")}
    missing = {(part, value) for part, values in known.items() for value in values}
    missing -= {(part, getattr(scheme, part)) for scheme in model.schemes for part in known}
    schemes = []
    for scheduler, noise in product(*known.values()):
        new = missing & {("scheduler", scheduler), ("noise", noise)}
        scheme = {"name": f"{scheduler} and {noise}", "scheduler": scheduler, "noise": noise}
        if new and _allowed(model, [scheme]):
            schemes.append(scheme)
            missing -= new
    return schemes


def _allowed(model: Scenario, schemes: list[dict]) -> Scenario | None:
    """Return the scenario with other schemes; None if it cannot have them."""
    try:
        return resolve(model.model_dump() | {"schemes": schemes}, {})
    except ScenarioError:
        return None
