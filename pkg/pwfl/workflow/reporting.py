"""The jobs of a study's report: each writes files into its folder, from the stages' tables."""

import json
from functools import partial
from pathlib import Path

from pwfl import tables
from pwfl.report import build, catalog, columns, headline, latex, paper_page, points, study_figures, theme
from pwfl.report import page as pages
from pwfl.report.drawing import unchecked
from pwfl.scenario import resolved
from pwfl.scenario.resolution import merge
from pwfl.scenario.sweep import Point
from pwfl.scenario.values import build_values
from pwfl.stages import AUDIT
from pwfl.store import addressing
from pwfl.workflow.plan import Files
from pwfl.workflow.reports import ADDRESSES, COMPARISON, FIGURES, PAGE, PAPER, RESOLVED, TABLES, WHOLE


def _resolved(job: dict, _inputs: Files, folder: Path) -> None:
    """Write a scenario with all defaults, and its parameters as a table, both without the digest of withheld data."""
    shown = job["parameters"]
    if job["withholds"]:
        resolved.save(shown, str(folder / WHOLE))
        shown = merge(shown, {"data": {"sha256": None}})
    resolved.save(shown, str(folder / "scenario.yaml"))
    tables.write_report({"parameters": resolved.parameter_table(shown)}, folder)


def _tables(job: dict, inputs: Files, folder: Path) -> None:
    """Write a scenario's result tables, and the addresses of their inputs."""
    values = build_values(job["parameters"])
    frames = build.summarize(values, tables.read_schemes(inputs, job, values))
    tables.write_report(columns.with_point(frames, Point(*job["point"])), folder)
    addressing.write_addresses(job["addresses"], str(folder / ADDRESSES))


def _figure(job: dict, inputs: Files, folder: Path) -> None:
    """Draw a figure of a scenario."""
    values, name = build_values(job["parameters"]), job["figure"]
    frames = tables.read_schemes({table: paths for table, paths in inputs.items() if table != AUDIT}, job, values)
    frames |= _read_beside(inputs[AUDIT]) if AUDIT in inputs else {}
    with theme.use_colours(job["system"], job["schemes"]), unchecked():
        chart = theme.named(build.figure(values, name, frames), job["title"])
        theme.save(chart, {kind: str(folder / f"{name}.{kind}") for kind in job["formats"]})


def _comparison(job: dict, inputs: Files, folder: Path) -> None:
    """Write the tables and figures that compare a study's scenarios."""
    study = {}
    for name, parameters in job["parameters"].items():
        point, releases = Point(*job["points"][name]), job["releases"][name]
        study[name] = {"scenario": build_values(parameters), "point": point, "releases": releases}
        study[name] |= _read_beside(inputs[name])
    frames = build.compare(study)
    tables.write_report(frames, folder)
    if job["references"] is not None:
        names = ("outcomes", "effects", "claims")
        texts = [getattr(latex, name)(latex.titled(frames[name], job["titles"])) for name in names]
        for name, text in zip(catalog.FOR_PAPER, [*texts, job["references"]], strict=True):
            (folder / name).write_text(text, encoding="utf-8")
    rows = points.points(study, frames, job["titles"])
    tables.write_report({"points": rows}, folder)
    titled, charts = build.titled(study, job["titles"]), {}
    with unchecked():
        for system in dict.fromkeys(owner for owner, _ in job["figures"]):
            part, outcomes = rows.filter(system=system), frames["outcomes"].filter(system=system)
            lead = headline.lead(part)
            charts[system] = study_figures.draw_page(part, lead, study, outcomes, rows) if len(part) else {}
            for name in (name for owner, name in job["figures"] if owner == system):
                paths = {kind: str(folder / f"{system}_{name}.{kind}") for kind in job["formats"]}
                if name in catalog.STUDY_FIGURES:
                    draw = partial(study_figures.chart, name, part, lead, study, outcomes)
                    theme.save(draw(), paths, draw(printed=True) if "pdf" in paths else None)
                else:
                    theme.save(build.comparison_figure(system, name, titled), paths)
    (folder / "charts.json").write_text(json.dumps(charts, ensure_ascii=False), encoding="utf-8")


def _paper(job: dict, inputs: Files, folder: Path) -> None:
    """Write the page of a paper, and its curves."""
    system, titles = job["system"], job["titles"]
    claims = tables.read_report(Path(inputs[COMPARISON][0]).with_name("claims.parquet")).filter(system=system)
    contents = {}
    for name, parameters in job["parameters"].items():
        values = build_values(parameters)
        paths = {key.partition("/")[2]: files for key, files in inputs.items() if key.startswith(f"{name}/")}
        frames = tables.read_schemes(paths, {"system": system, "upstream": job["stages"][name]}, values)
        contents[titles[name]] = {"scenario": values} | _read_beside(inputs[name]) | frames
    curves, text = paper_page.build_paper(system, job["cited"], latex.titled(claims, titles), contents)
    curves.write_csv(folder / f"{system}_curves.csv")
    (folder / f"{system}_paper.html").write_text(text, encoding="utf-8")


def _page(job: dict, inputs: Files, folder: Path) -> None:
    """Write the study report."""
    view = {path: file for path, (file,) in inputs.items()}
    text = pages.build_page(job["heading"], job["parts"], view, job["computed"], job["papers"])
    (folder / "index.html").write_text(text, encoding="utf-8")


def _read_beside(manifest: list[str]) -> dict:
    """Read the tables next to the manifest of a report job, by name."""
    return {path.stem: tables.read_report(path) for path in sorted(Path(manifest[0]).parent.glob("*.parquet"))}


JOBS = {
    RESOLVED: _resolved,
    TABLES: _tables,
    FIGURES: _figure,
    COMPARISON: _comparison,
    PAPER: _paper,
    PAGE: _page,
}
