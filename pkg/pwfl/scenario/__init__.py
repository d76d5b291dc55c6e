"""Scenarios: what a config file says, validated and resolved, and the slice each stage reads.

A config file holds `study` (its name), `base` (a scenario) and `scenarios` (name -> what differs
from the base). Mappings merge key by key, everything else replaces.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from pwfl import datasets
from pwfl.files import whole
from pwfl.scenario import common, size, written
from pwfl.scenario.age_aware import AgeAware
from pwfl.scenario.anonymous_oac import AnonymousOac
from pwfl.scenario.common import Scenario
from pwfl.scenario.fields import Section
from pwfl.scenario.multicell import Multicell
from pwfl.scenario.random_orthogonalization import RandomOrthogonalization
from pwfl.scenario.utility_fair import UtilityFair

SYSTEMS: dict[str, type[Scenario]] = {
    "multicell": Multicell,
    "anonymous_oac": AnonymousOac,
    "random_orthogonalization": RandomOrthogonalization,
    "utility_fair": UtilityFair,
    "age_aware": AgeAware,
}
TOP_LEVEL = ("study", "run", "base", "scenarios", "allow_large")
COMMAND_LINE = "--config"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # stands in names of files, of which file systems allow 255 bytes
NAME_RULE = "use letters, digits, '_', '.' and '-', beginning with a letter or digit, at most 100 of them"
NUMBER = re.compile(r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)


class ScenarioError(ValueError):
    """A config that cannot be run; the message names file, key, value and what would be right."""


@dataclass(frozen=True)
class Study:
    """The scenarios of one config file that are to be run."""

    name: str
    source: str
    scenarios: dict[str, Scenario]
    warnings: tuple[str, ...] = ()

    def scenario(self, name: str) -> Scenario:
        """The scenario `name`; raises ScenarioError where there is none."""
        if name not in self.scenarios:
            raise ScenarioError(f"there is no scenario {name!r}{_did_you_mean(name, self.scenarios)}")
        return self.scenarios[name]

    def idx_files(self, dataset: str) -> list[str]:
        """The IDX files that a scenario's `data.folder` gives for a data set; none: Keras loads it."""
        sources = [s.data for s in self.scenarios.values() if "data" in type(s).model_fields]
        folders = {source.folder for source in sources if source.dataset == dataset} - {None}
        return [str(path) for path in datasets.idx_paths(min(folders))] if folders and dataset != "digits" else []


def read(paths: Sequence[str | Path], arguments: Sequence[str] = ()) -> dict:
    """What config files say together, later ones merged over earlier ones.

    They and the KEY=VALUE `arguments` of --config are checked as they are written. Raises ScenarioError with one
    line for every flaw in any of them.
    """
    contents, reports = [], []
    for path in paths:
        try:
            contents.append(written.read(path))
        except written.WrittenError as error:
            reports.append(_report(str(path), str(error).splitlines()))
    flaws = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        try:
            written.parse(value, typed=False)
        except written.WrittenError as error:
            flaws += [f"{key}: {line.partition(': ')[2]}" for line in str(error).splitlines()]
    if flaws:
        reports.append(_report(COMMAND_LINE, flaws))
    if reports:
        raise ScenarioError("\n".join(reports))
    return reduce(_merge, contents, {})


def load(config: dict, source: str, files: dict | None = None) -> Study:
    """The study that a config describes.

    Parameters
    ----------
    config
        Content of the file(s), `--config` merged over it: `study`, `base`, `scenarios`, and optionally `run`, the
        names of the scenarios to run (default: all), and `allow_large`, for studies beyond the limits of `size`.
    source
        Names of the files, for messages.
    files
        Content of the file(s) alone. What is wrong with `config` and not with `files` is blamed on `--config`.

    Raises
    ------
    ScenarioError
        With one line for every mistake found in any scenario.
    """
    problems, chosen = _find(config)
    if problems:
        own = problems if files is None else set(_find(files)[0])
        of_files = [problem for problem in problems if problem in own]
        of_command_line = [problem for problem in problems if problem not in own]
        reports = [
            _report(place, lines) for place, lines in ((source, of_files), (COMMAND_LINE, of_command_line)) if lines
        ]
        raise ScenarioError("\n".join(reports))
    warnings = tuple(_shadowed(config, chosen, config if files is None else files))
    return Study(str(config.get("study", "study")), source, chosen, warnings)


def _find(config: dict) -> tuple[list[str], dict[str, Scenario]]:
    """Everything that is wrong with a config, and the scenarios to run."""
    problems = _check_top_level(config)
    if problems:
        return problems, {}
    scenarios, base = config["scenarios"], config.get("base", {})
    run = config.get("run", list(scenarios))
    for name in run:
        if name not in scenarios:
            problems.append(f"run: there is no scenario {name!r}{_did_you_mean(name, scenarios)}")
    resolved = {}
    for name, override in scenarios.items():
        try:
            resolved[name] = resolve(base, override)
        except ScenarioError as error:
            problems += [_blame(line, name, base, override) for line in str(error).splitlines()]
    # What every scenario overrides is not seen above, and should be no less right.
    for system in dict.fromkeys(model.system for model in resolved.values()):
        problems += [f"base.{line}" for line in _field_problems({"system": system} | base)]
    if problems:
        return list(dict.fromkeys(problems)), {}
    chosen = {name: resolved[name] for name in run}
    return ([] if _flag(config.get("allow_large", False)) else size.problems(chosen)), chosen


def _shadowed(config: dict, chosen: dict[str, Scenario], files: dict) -> Iterator[str]:
    """A warning for each value of the base that scenarios to run replace: all do, or it came by --config."""
    base, base_of_files = config.get("base", {}), files.get("base", {})
    for path, value in _leaves(base):
        shadowing = [name for name in chosen if _sets(config["scenarios"][name], path)]
        given = not (_sets(base_of_files, path) and _look_up(base_of_files, path) == value)
        if shadowing and (given or len(shadowing) == len(chosen)):
            key = ".".join(path)
            yield (
                f"{COMMAND_LINE + ': ' if given else ''}base.{key}: {value!r} has no effect in {', '.join(shadowing)}: "
                f"scenarios.{shadowing[0]}.{key} replaces it"
            )


def _leaves(content: dict, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*prefix, key))
        else:
            yield (*prefix, key), value


def resolve(base: dict, override: dict) -> Scenario:
    """A scenario: `override` merged into `base`, defaults filled in, validated.

    Raises ScenarioError with a line `key: what is wrong` for each mistake.
    """
    merged = _merge(base, override)
    model = _model(merged)
    try:
        return model.model_validate(_numbers(merged, model))
    except ValidationError as error:
        raise ScenarioError("\n".join(_explain(e, model) for e in error.errors())) from None


def _model(content: dict) -> type[Scenario]:
    """The model of the system that a scenario names. Raises ScenarioError."""
    system = content.get("system", "multicell")
    if not isinstance(system, str) or system not in SYSTEMS:
        raise ScenarioError(f"system: there is no system {system!r}{_did_you_mean(str(system), SYSTEMS)}")
    return SYSTEMS[system]


def _field_problems(base: dict) -> list[str]:
    """What is wrong with single values of a base, which as a whole need not be a scenario."""
    try:
        model = _model(base)
        model.model_validate(_numbers(base, model))
    except ScenarioError as error:
        return [str(error)]
    except ValidationError as error:
        return [_explain(e, model) for e in error.errors() if e["type"] != "value_error"]
    return []


def check_surroundings(study: Study) -> None:
    """Check what scenarios need besides themselves: data folders and solvers.

    Raises ScenarioError with one line for everything that is missing or not what it should be.
    """
    problems = {}
    for name, scenario in study.scenarios.items():
        for problem in scenario.problems():
            problems.setdefault(problem, f"scenarios.{name}: {problem}")
    if problems:
        raise ScenarioError(_report(study.source, list(problems.values())))


def stage_parameters(scenario: Scenario, stage: str | None, variant: str | None = None) -> dict:
    """The part of a scenario that a stage reads, or any stage for None, as a plain nested dict with a fixed key order.

    `variant` names the job's kind within the stage (the scheduler, the noise scheme), so that
    parameters which only another variant reads stay out.
    """
    wanted = {stage, f"{stage}/{variant}"}

    def pick(section: BaseModel) -> dict:
        picked = {}
        for key, field in type(section).model_fields.items():
            value = getattr(section, key)
            stages = set((field.json_schema_extra or {}).get("stages", []))
            if isinstance(value, Section):
                if inner := pick(value):
                    picked[key] = inner
            elif stages & wanted if stage else stages:
                picked[key] = _plain(value)
        return picked

    return {"system": scenario.system} | pick(scenario)


def save(resolved: dict, path: str) -> None:
    """Write a resolved scenario to a YAML file that can stand as a config's `base`."""
    with whole(path) as partial, open(partial, "w", encoding="utf-8") as file:
        yaml.safe_dump(resolved, file, sort_keys=False)


def parameter_table(resolved: dict):
    """A resolved scenario as a Polars frame: parameter, value, unit, description (Table I)."""
    import polars as pl

    model = SYSTEMS[resolved["system"]]
    rows = [
        (".".join(path), str(_look_up(resolved, path)), field.json_schema_extra["unit"], field.description)
        for path, field in parameters(model)
    ]
    return pl.DataFrame(rows, schema=["parameter", "value", "unit", "description"], orient="row")


def parameters(model: type[Section], prefix: tuple[str, ...] = ()):
    """All parameters of a scenario's model, as pairs of a key's parts and pydantic's field."""
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from parameters(field.annotation, (*prefix, key))
        else:
            yield (*prefix, key), field


def _look_up(values: dict, path: tuple[str, ...]):
    for part in path:
        values = values[part]
    return values


def _plain(value):
    """A parameter's value in plain Python types."""
    if isinstance(value, list):
        return [v.model_dump() if isinstance(v, Section) else v for v in value]
    return value


def _check_top_level(config: dict) -> list[str]:
    problems = []
    for key in config:
        if key not in TOP_LEVEL:
            problems.append(f"{key}: unknown key{_did_you_mean(key, TOP_LEVEL)}")
    if not isinstance(config.get("scenarios"), dict) or not config["scenarios"]:
        problems.append("scenarios: must name at least one scenario, as in `scenarios: {first: {}}`")
        return problems
    if not isinstance(config.get("base", {}), dict):
        hint = "; leave it out, or write {}, for one without" if config["base"] is None else ""
        problems.append(f"base: must be a mapping of parameters, is {_shown(config['base'])}{hint}")
    run = config.get("run", ["all"])
    if not isinstance(run, list):
        problems.append(f"run: must be a list of scenario names, is {_shown(run)}")
    elif not run:
        problems.append("run: names no scenario; leave it out to run all")
    for name, override in config["scenarios"].items():
        if not (isinstance(name, str) and NAME.fullmatch(name)):
            problems.append(f"scenarios: {_shown(name)} is no name; {NAME_RULE}")
        if name == "comparison":
            problems.append(
                "scenarios: 'comparison' is the folder of comparisons, results/comparison; take another name"
            )
        if not isinstance(override, dict):
            hint = "; write {} for the base as it is" if override is None else ""
            problems.append(f"scenarios.{name}: must be a mapping of parameters, is {_shown(override)}{hint}")
    if _flag(config.get("allow_large", False)) is None:
        problems.append(f"allow_large: must be true or false, is {_shown(config['allow_large'])}")
    study = config.get("study", "study")
    if isinstance(study, bool) or not isinstance(study, str | int) or not NAME.fullmatch(str(study)):
        problems.append(f"study: {_shown(study)} is no name; {NAME_RULE}")
    return problems


def _flag(value) -> bool | None:
    """A truth value of a config, which --config hands over as text; None if it is none."""
    return {"true": True, "false": False}.get(str(value).lower())


def _shown(value) -> str:
    """A value in a message: as YAML's null is called there, and not longer than a line."""
    text = "empty" if value is None else repr(value)
    return text if len(text) <= 120 else f"{text[:100]}... ({len(text)} characters)"


def _merge(base: dict, override: dict) -> dict:
    merged = dict(base)
    for key, value in override.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _numbers(value, kind):
    """A config's value with its numbers in the types that the model wants.

    `1`, `1.0`, and text such as `1e6` (so YAML 1.1 reads it) or `6` (so Snakemake hands over nested
    values of --config) mean the same number. What is no number stays, for the model to refuse.
    """
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Section):
        fields = kind.model_fields
        return {key: _numbers(v, fields[key].annotation) if key in fields else v for key, v in value.items()}
    lists = [k for k in (kind, *get_args(kind)) if get_origin(k) is list]  # `list[...]`, or `list[...] | None`
    if isinstance(value, list) and lists:
        return [_numbers(v, get_args(lists[0])[0]) for v in value]
    kinds = {(get_origin(k) and get_args(k)[0]) or k for k in (get_args(kind) or [kind])}
    if isinstance(value, str) and kinds & {int, float} and NUMBER.fullmatch(value):
        value = float(value) if re.search("[.eE]", value) else int(value)
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    return value


def _explain(error: dict, model: type[Section]) -> str:
    """One line for one of pydantic's errors: key, what is wrong, what would be right."""
    location, value = error["loc"], error["input"]
    key = ".".join(str(part) for part in location)
    if error["type"] == "extra_forbidden":
        for part in location[:-1]:
            if isinstance(part, str):
                kind = model.model_fields[part].annotation
                model = kind if isinstance(kind, type) else kind.__args__[0]
        return f"{key}: unknown key{_did_you_mean(location[-1], model.model_fields)}"
    if error["type"] == "value_error":
        return (f"{key}." if key else "") + str(error["ctx"]["error"])
    if error["type"] == "string_pattern_mismatch":
        return f"{key}: {_shown(value)} is no name; {common.NAME_RULE}"
    if error["type"] == "missing":
        return f"{key}: is missing"
    message = error["msg"][0].lower() + error["msg"][1:]
    if bound := {"ge", "gt", "le", "lt"} & set(error.get("ctx", {})):  # which pydantic writes with all its zeros
        message = f"{message.rpartition(' ')[0]} {error['ctx'][bound.pop()]:g}"
    return f"{key}: {_shown(value)} is wrong: {message}"


def _blame(problem: str, name: str, base: dict, override: dict) -> str:
    """Prefix a problem with the part of the file that sets its key."""
    keys = problem.split(":", maxsplit=1)[0].split(".")
    for part, content in ((f"scenarios.{name}", override), ("base", base)):
        if _sets(content, keys):
            return f"{part}.{problem}"
    return f"scenarios.{name}: {problem}"


def _sets(content, keys: Sequence[str]) -> bool:
    for key in keys:
        if isinstance(content, list):
            return True
        if not (isinstance(content, dict) and key in content):
            return False
        content = content[key]
    return True


def _did_you_mean(word: str, known) -> str:
    near = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"


def _report(source: str, problems: list[str]) -> str:
    return f"{source}:\n" + "\n".join(f"  {problem}" for problem in problems)
