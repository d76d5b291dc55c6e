"""Scenarios: what a config file says, validated and resolved, and the slice each stage reads.

A config file holds `study` (its name), `base` (a scenario) and `scenarios` (name -> what differs
from the base). Mappings merge key by key, everything else replaces.
"""

import difflib
import re
from dataclasses import dataclass
from typing import get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from pwfl import datasets
from pwfl.files import whole
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
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


class ScenarioError(ValueError):
    """A config that cannot be run; the message names file, key, value and what would be right."""


@dataclass(frozen=True)
class Study:
    """The scenarios of one config file that are to be run."""

    name: str
    source: str
    scenarios: dict[str, Scenario]

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


def load(config: dict, source: str) -> Study:
    """The study that a config file's content describes.

    Parameters
    ----------
    config
        Content of the file(s): `study`, `base`, `scenarios`, and optionally `run`, the names of the
        scenarios to run (default: all).
    source
        Names of the files, for messages.

    Raises
    ------
    ScenarioError
        With one line for every mistake found in any scenario.
    """
    problems = _check_top_level(config)
    if problems:
        raise ScenarioError(_report(source, problems))
    scenarios, base = config["scenarios"], config.get("base") or {}
    run = config.get("run") or list(scenarios)
    for name in run:
        if name not in scenarios:
            problems.append(f"run: there is no scenario {name!r}{_did_you_mean(name, scenarios)}")
    resolved = {}
    for name, override in scenarios.items():
        try:
            resolved[name] = resolve(base, override or {})
        except ScenarioError as error:
            problems += [_blame(line, name, base, override or {}) for line in str(error).splitlines()]
    if problems:
        raise ScenarioError(_report(source, list(dict.fromkeys(problems))))
    return Study(str(config.get("study", "study")), source, {name: resolved[name] for name in run})


def resolve(base: dict, override: dict) -> Scenario:
    """A scenario: `override` merged into `base`, defaults filled in, validated.

    Raises ScenarioError with a line `key: what is wrong` for each mistake.
    """
    merged = _merge(base, override)
    system = merged.get("system", "multicell")
    if system not in SYSTEMS:
        raise ScenarioError(f"system: there is no system {system!r}{_did_you_mean(str(system), SYSTEMS)}")
    model = SYSTEMS[system]
    try:
        return model.model_validate(_numbers(merged, model))
    except ValidationError as error:
        raise ScenarioError("\n".join(_explain(e, model) for e in error.errors())) from None


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
    known = ["study", "run", "base", "scenarios"]
    for key in config:
        if key not in known:
            problems.append(f"{key}: unknown key{_did_you_mean(key, known)}")
    if not isinstance(config.get("scenarios"), dict) or not config["scenarios"]:
        problems.append("scenarios: must name at least one scenario, as in `scenarios: {first: {}}`")
        return problems
    if not isinstance(config.get("base"), dict | None):
        problems.append(f"base: must be a mapping of parameters, is {config['base']!r}")
    if not isinstance(config.get("run"), list | None):
        problems.append(f"run: must be a list of scenario names, is {config['run']!r}")
    for name, override in config["scenarios"].items():
        if not (isinstance(name, str) and NAME.fullmatch(name)):
            problems.append(f"scenarios: {name!r} is no name; use letters, digits, '_', '.' and '-'")
        if name == "comparison":
            problems.append(
                "scenarios: 'comparison' is the folder of comparisons, results/comparison; take another name"
            )
        if not isinstance(override, dict | None):
            problems.append(f"scenarios.{name}: must be a mapping of parameters, is {override!r}")
    if not NAME.fullmatch(str(config.get("study", "study"))):
        problems.append(f"study: {config['study']!r} is no name; use letters, digits, '_', '.' and '-'")
    return problems


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
    if error["type"] == "missing":
        return f"{key}: is missing"
    return f"{key}: {value!r} is wrong: {error['msg'][0].lower()}{error['msg'][1:]}"


def _blame(problem: str, name: str, base: dict, override: dict) -> str:
    """Prefix a problem with the part of the file that sets its key."""
    keys = problem.split(":", maxsplit=1)[0].split(".")
    for part, content in ((f"scenarios.{name}", override), ("base", base)):
        if _sets(content, keys):
            return f"{part}.{problem}"
    return f"scenarios.{name}: {problem}"


def _sets(content, keys: list[str]) -> bool:
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
