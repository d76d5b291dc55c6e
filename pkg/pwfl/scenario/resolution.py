"""Resolution of a config's scenarios: overrides merged into the base, defaults filled in, values validated."""

import re
from functools import cache, reduce
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from pwfl import registry
from pwfl.scenario import checks
from pwfl.scenario.common import Scenario
from pwfl.scenario.fields import Own, Section, parameters
from pwfl.scenario.messages import ScenarioError, did_you_mean, explain, shown

DEFAULT_SYSTEM = "multicell"
NUMBER = re.compile(r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)
WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None}
UNPRINTABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")  # UTF-8 cannot encode surrogates
FORMULA = ("=", "+", "-", "@")


def resolve(base: dict, override: dict) -> Scenario:
    """Make a scenario: merge `override` into `base`, fill in defaults, and validate the result.

    Raises ScenarioError with a line `key: what is wrong` for each mistake.
    """
    merged = merge(base, override)
    model = model_of(merged)
    try:
        scenario = model.model_validate(typed(merged, model))
        checks.consistent(scenario)
    except ValidationError as error:
        raise ScenarioError("\n".join(explain(error.errors(), model, merged))) from None
    except ValueError as error:
        raise ScenarioError(str(error)) from None
    if strange := _strange_texts(scenario):
        raise ScenarioError("\n".join(strange))
    return scenario


def model_of(content: dict) -> type[Scenario]:
    """Return the model of the system that a scenario names. Raises ScenarioError."""
    name = content.get("system", DEFAULT_SYSTEM)
    try:
        known = registry.claims()
        if not isinstance(name, str) or name not in known:
            raise ScenarioError(f"system: there is no system {shown(name)}{did_you_mean(shown(name), known)}")
        system = registry.system(name)
        model = system.model
        if not (isinstance(model, type) and issubclass(model, Scenario)):
            raise ScenarioError(
                f"system: {name!r}: its model must be a pwfl.scenario.common.Scenario, is {shown(model)}"
            )
        _ = system.checks
    except registry.RegistryError as error:
        raise ScenarioError(f"system: {error}") from error
    return model


def field_problems(base: dict) -> list[str]:
    """List problems with single values of a base, which need not be a complete scenario."""
    try:
        model = model_of(base)
        model.model_validate(typed(base, model))
    except ScenarioError as error:
        return [str(error)]
    except ValidationError as error:
        return explain((detail for detail in error.errors() if detail["type"] != "value_error"), model, base)
    return []


def merge(base: dict, override: dict) -> dict:
    """Merge `override` over `base`: mappings merge key by key, all other values replace those of the base."""
    merged = dict(base)
    for key, value in override.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def typed(value, kind):
    """Convert a config's numbers, truth values and nulls to the types that the model requires.

    `1`, `1.0`, and text such as `1e6` or `6` (as Snakemake reads the config of a module) mean the same number. So do
    `true`, `false` and `null` and these words as text, if the parameter allows one. Other values are returned
    unchanged; the model rejects wrong ones.
    """
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Section):
        fields = kind.model_fields
        return {key: typed(v, fields[key].annotation) if key in fields else v for key, v in value.items()}
    if isinstance(value, dict) and kind == Own:
        return {key: typed(v, float | bool | None) if isinstance(v, str) else v for key, v in value.items()}
    lists = [k for k in (kind, *get_args(kind)) if get_origin(k) is list]  # `list[...]`, or `list[...] | None`
    if isinstance(value, list) and lists:
        return [typed(v, get_args(lists[0])[0]) for v in value]
    kinds = {(get_origin(k) and get_args(k)[0]) or k for k in (get_args(kind) or [kind])}
    if isinstance(value, str) and value in WORDS and type(WORDS[value]) in kinds:
        return WORDS[value]
    try:
        if isinstance(value, str) and kinds & {int, float} and NUMBER.fullmatch(value):
            value = float(value) if re.search("[.eE]", value) else int(value)
        if float in kinds and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
    except (ValueError, OverflowError):  # more digits than Python reads, or too large for a float
        pass
    return value


def _strange_texts(scenario: Scenario) -> list[str]:
    """Return a line for each free text, such as a path, that is unprintable or a formula to spreadsheets.

    Parameters are written to CSV files unchanged.
    """
    problems = []
    for path in _texts(type(scenario)):
        text: Any = reduce(getattr, path, scenario) or []
        for value in [text] if isinstance(text, str) else text:
            key = f"{'.'.join(path)}: {shown(value)}"
            if character := UNPRINTABLE.search(value):
                problems.append(f"{key} is wrong: it contains the unprintable character {ord(character[0]):#06x}")
            elif value.startswith(FORMULA):
                problems.append(f"{key} is wrong: spreadsheets would read it as a formula; write ./ before it")
    return problems


@cache
def _texts(model: type[Section]) -> list[tuple[str, ...]]:
    """List the key parts of the parameters that accept any text."""
    return [path for path, field in parameters(model) if str in (field.annotation, *get_args(field.annotation))]


def look_up(values: dict, path: tuple[str, ...]):
    """Return the value at a key's parts."""
    return reduce(dict.__getitem__, path, values)
