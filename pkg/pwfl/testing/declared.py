"""Conformance tests of a system's declarations: modules, columns, catalog, and the stages that read a parameter."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args, get_origin

import numpy as np
import polars as pl
from annotated_types import Ge, Gt, Le, Lt
from docutils.utils import Reporter, SystemMessage

from pwfl import registry
from pwfl.errors import describe
from pwfl.learning import datasets
from pwfl.process import tensorflow_import
from pwfl.report import captions, page, references
from pwfl.scenario import ScenarioError, checks, parameters, resolve
from pwfl.scenario.common import Scenario
from pwfl.scenario.fields import Section
from pwfl.scenario.values import value_of
from pwfl.stages import AUDIT, GRAPH, REPORT, STAGES
from pwfl.store import code, imports
from pwfl.tables import contract
from pwfl.testing.tiny import CheckError
from pwfl.workflow import plan, reports

PARTS = (*STAGES, AUDIT)  # modules of which none imports another, except in IMPORTING
IMPORTING = {"noise": "receive", AUDIT: "train"}  # noise is calibrated with `receive`, the audit runs the training
FOLLOWING = ("system", "data.sha256", "data.content")  # parameters that follow from others
OWN_FILE = "data.file"
FOR_SHARED = {"data.evaluate_on": {"data": {"reserved": 10}}}  # values that shared parameters also require


def check_modules(model: Scenario, inputs: dict) -> None:
    """Check that all named modules exist, no stage imports another one, and numbers are bounded on both sides."""
    system = registry.system(model.system)
    parts = (*registry.stages(model.system), AUDIT)
    with tensorflow_import.tensorflow_import():
        for stage in parts:
            registry.function(model.system, stage)
        for load in (system.load_catalog, system.load_schemas, system.load_report, system.load_claims):
            load()
        if system.load_paper is not None:
            system.load_paper()
    for stage in parts:
        name = f"{system.package}.{stage}"
        others = {f"{system.package}.{other}" for other in PARTS if other not in (stage, IMPORTING.get(stage))}
        if foreign := _modules_run(name) & others:
            raise CheckError(
                f"{name} imports {', '.join(sorted(foreign))}; move code that two stages share into a separate "
                "module, since a stage's address covers no other stage's module"
            )
    _check_words(system.package, type(model), parts)
    checks.realization_bytes(model.select_stage("channel"))  # what it reads must be in the addresses of all stages
    for path, field in parameters(type(model)):
        if get_origin(field.annotation) is list:
            continue  # its items have the bounds
        kinds = {kind for kind in (field.annotation, *get_args(field.annotation)) if kind in (int, float)}
        signs = {type(bound) for bound in field.metadata}
        if kinds and not (signs & {Ge, Gt} and signs & {Le, Lt}):
            raise CheckError(f"{'.'.join(path)}: needs a lower and an upper bound (`ge` or `gt`, `le` or `lt`)")


def _check_words(package: str, model: type[Scenario], stages: Iterable[str]) -> None:
    """Raise CheckError if stages import more than classes of parameters from modules that no address covers.

    `tables` may import `meanings`, as descriptions of columns are in no address either.
    """
    files = {name: path for stage in stages for name, path in code.files(stage, (package,)).items()}
    inner = f"{package.replace('.', '/')}/"
    modules = {name: path for name, path in files.items() if name.startswith(inner) and name != f"{inner}system.py"}
    classes = vars(import_module(model.__module__))
    for name, path in modules.items():
        for imported in imports.parsed(path).imports:
            module, _, what = imported.removeprefix(f"{package}.").partition(".")
            declares = isinstance(kind := classes.get(what), type) and issubclass(kind, Section)
            describes = module == code.MEANINGS and name == f"{inner}tables.py"
            if imported.startswith(f"{package}.") and module in code.WORDS and not (declares or describes):
                raise CheckError(
                    f"{name} imports {what or module} of {package}.{module}, which no stage's address covers; move "
                    "what stages compute with into a separate module"
                )


def check_columns(model: Scenario, inputs: dict) -> None:
    """Check that each column of a stage's tables declares what it reveals of users' records."""
    for stage in registry.stages(model.system):
        for table in registry.makes(model.system, stage):
            kind = contract.schema(model.system, table)
            if unsaid := [name for name in kind.columns() if contract.reveals(kind, name) is None]:
                raise CheckError(
                    f"the table {table} does not declare what {', '.join(unsaid)} reveal"
                    f"{'s' if len(unsaid) == 1 else ''} of users' records: give the column `metadata=PUBLIC`, NOISY or "
                    "PRIVATE of `pwfl.tables.contract`, or its class `REVEALS = PUBLIC`"
                )


def _modules_run(module: str) -> set[str]:
    """List the modules of a module's package that it imports, directly or not, and the module itself."""
    return {name.removesuffix(".py").replace("/", ".") for name in imports.closure(module)}


def check_catalog(model: Scenario, inputs: dict) -> None:
    """Check that figures have captions and are drawn, that colours are of schemes, and claims are of scenarios."""
    system = registry.system(model.system)
    catalog, report = system.catalog, system.load_report()
    (scheme,) = get_args(type(model).model_fields["schemes"].annotation)
    for place, part in enumerate(("scheduler", "noise")):
        known = get_args(scheme.model_fields[part].annotation)
        if unknown := sorted({pair[place] for pair in catalog.colours} - {*known}):
            raise CheckError(f"catalog: colours: there is no {part} {', '.join(unknown)}; known: {', '.join(known)}")
    for figures, title in ((catalog.figures, "Title"), (catalog.comparison_figures, "")):
        for figure in figures:
            _check_caption(reports.caption_file(model.system, figure, compares=not title), title)
    study = report.comparison_figures
    kinds = ("FIGURES", report.figures, catalog.figures), ("COMPARISON_FIGURES", study, catalog.comparison_figures)
    for name, drawn, figures in kinds:
        if differing := set(drawn) ^ set(figures):
            raise CheckError(f"{name} of report and the catalog's figures differ: {', '.join(sorted(differing))}")
    if catalog.paper is not None:
        _check_paper(catalog.paper)
    if rows := system.load_claims()({}).height:
        raise CheckError(f"claims: {rows} for a study without scenarios; measure only scenarios that exist")


def _check_paper(paper: dict) -> None:
    """Check that a catalog's paper has the required fields, under keys of the Citation File Format."""
    if missing := [key for key in ("type", "title", "authors", "year") if not paper.get(key)]:
        raise CheckError(f"catalog: paper has no {', '.join(missing)}; see docs/how-to/own_system.md")
    if paper["type"] not in references.KINDS:
        raise CheckError(f"catalog: paper: type {paper['type']!r}: use one of {', '.join(references.KINDS)}")
    try:
        references.reference("", paper)
        references.entry("", paper)
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckError(f"catalog: paper: {describe(error)}; see docs/how-to/own_system.md") from None


def _check_caption(path: Path, title: str) -> None:
    """Check that the caption of a figure (without a title: one that compares scenarios) exists and can be shown."""
    if not path.is_file():
        raise CheckError(f"figure {path.stem}: the caption {path.parent.parent.name}/captions/{path.name} is missing")
    try:
        page.caption(
            captions.fill(path.read_text(encoding="utf-8"), title),
            halt_level=Reporter.WARNING_LEVEL,
            warning_stream=False,
        )
    except (ValueError, SystemMessage) as error:
        raise CheckError(f"{path}: {error}") from None


def reruns(model: Scenario, fields: list | None = None) -> pl.DataFrame:
    """Find the stages that a parameter's change invalidates, by changing each of `fields` (None: all parameters)."""
    rows = []
    with TemporaryDirectory() as folder:
        for path, field in parameters(type(model)) if fields is None else fields:
            if (key := ".".join(path)) in FOLLOWING:
                continue
            base = with_needed(model, key)
            base = _with_own_file(model, folder) if key in (OWN_FILE, "data.bounds") else base
            changed = partial(_changed, base, path, field.annotation)
            value, other = (value_of(base, OWN_FILE), base) if key == OWN_FILE else changed()
            before, after = (_stages_by_address(scenario) for scenario in (model if key == OWN_FILE else base, other))
            moved = [stage for stage in after if before.get(stage, set()) != after[stage]]
            rows.append((key, str(value), " ".join(moved)))
    return pl.DataFrame(rows, schema=dict.fromkeys(["parameter", "changed_to", "stages"], pl.String), orient="row")


def with_needed(model: Scenario, key: str) -> Scenario:
    """Return the scenario with the values that a parameter also requires."""
    needed = FOR_SHARED | registry.system(model.system).catalog.tiny_for
    return resolve(model.model_dump(), needed[key]) if key in needed else model


def _with_own_file(model: Scenario, folder: str) -> Scenario:
    """Return the scenario with data of the same size from a file in `folder`."""
    size, path = datasets.size(value_of(model, "data")), f"{folder}/own.npz"
    parts = (("train", size.train), ("test", size.test))
    x = {f"x_{part}": np.zeros((count, *size.shape), np.uint8) for part, count in parts}
    y = {f"y_{part}": np.arange(count) % size.classes for part, count in parts}
    np.savez(path, allow_pickle=False, **x, **y)
    content = model.model_dump()
    return resolve(content | {"data": content["data"] | {"dataset": datasets.FILE, "file": path, "folder": None}}, {})


def _stages_by_address(model: Scenario) -> dict[str, set[str]]:
    """Return the addresses of each stage, or variant of one, in a scenario, with the audit's and the report's."""
    stages: dict[str, set[str]] = {}
    for route in plan.routes(model).values():
        for stage, description in route.items():
            name = f"{stage}/{description['variant']}" if GRAPH[stage].variant else stage
            stages.setdefault(name, set()).add(description["address"])
    read = {registry.makers(model.system)[table] for table in registry.reads(model.system, AUDIT)}
    audited = [sorted(addresses) for name, addresses in stages.items() if name.partition("/")[0] in read]
    return stages | {AUDIT: {f"{model.dump_for(AUDIT)} {audited}"}, REPORT: {str(model.dump_for(REPORT))}}


def _changed(model: Scenario, path: tuple[str, ...], annotation) -> tuple[object, Scenario]:
    """Return another value of a parameter, the first that is valid, and the scenario with it."""
    section = changed = model.model_dump()
    for key in path[:-1]:
        section = section[key]
    old = section[path[-1]]
    for value in _others(old, annotation):
        section[path[-1]] = value
        with suppress(ScenarioError):
            if value != old:
                return value, resolve(changed, {})
    raise CheckError(f"{'.'.join(path)}: no other value is valid in the catalog's `tiny` scenario")


def _others(value, annotation) -> Iterator:
    """Yield values near a parameter's value, which may be among them; not all need be valid."""
    yield from (choice for choice in get_args(annotation) if isinstance(choice, str))
    match value:
        case bool():
            yield not value
        case int() | float():
            kind = type(value)
            yield from (kind(value * factor) for factor in (1.1, 0.9, 1.5, 0.5, 2.0))
            yield from (value + 1, value - 1, kind(0), kind(1), value + kind(0.001))
        case str():
            yield from (f"{value}2", 1, 2)  # a number may be valid, too
        case []:
            yield from ([1], [1.0], [0.5], [3, 3, 3], [__file__])
        case [*others, last]:
            yield others
            yield from ([*others, other] for other in _others(last, None))
        case dict():
            yield value | {"another": 0.5}
        case None:
            yield from (0.5, 1, 10, 1000, [0.0, 1.0], __file__)  # a file that exists: addresses may depend on content
