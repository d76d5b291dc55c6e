"""A scenario out of a config: what differs merged into the base, defaults filled in, validated."""

import re
from typing import get_args, get_origin

from pydantic import ValidationError

from pwfl.scenario.common import Scenario
from pwfl.scenario.fields import Section
from pwfl.scenario.messages import ScenarioError, did_you_mean, explain
from pwfl.systems import registry

DEFAULT_SYSTEM = "multicell"
NUMBER = re.compile(r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def resolve(base: dict, override: dict) -> Scenario:
    """A scenario: `override` merged into `base`, defaults filled in, validated.

    Raises ScenarioError with a line `key: what is wrong` for each mistake.
    """
    merged = merge(base, override)
    model = model_of(merged)
    try:
        return model.model_validate(_numbers(merged, model))
    except ValidationError as error:
        raise ScenarioError("\n".join(explain(e, model) for e in error.errors())) from None


def model_of(content: dict) -> type[Scenario]:
    """The model of the system that a scenario names. Raises ScenarioError."""
    name, known = content.get("system", DEFAULT_SYSTEM), registry.systems()
    if not isinstance(name, str) or name not in known:
        raise ScenarioError(f"system: there is no system {name!r}{did_you_mean(str(name), known)}")
    return known[name].model


def field_problems(base: dict) -> list[str]:
    """What is wrong with single values of a base, which as a whole need not be a scenario."""
    try:
        model = model_of(base)
        model.model_validate(_numbers(base, model))
    except ScenarioError as error:
        return [str(error)]
    except ValidationError as error:
        return [explain(e, model) for e in error.errors() if e["type"] != "value_error"]
    return []


def merge(base: dict, override: dict) -> dict:
    """A config with another one over it: mappings merge key by key, everything else replaces."""
    merged = dict(base)
    for key, value in override.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
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


def look_up(values: dict, path: tuple[str, ...]):
    """The value at a key's parts."""
    for part in path:
        values = values[part]
    return values
