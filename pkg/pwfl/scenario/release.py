"""The parameters that determine a training run's messages and noise, and name its release (`streams.name_noise`).

Releases that differ in any of them have independent noise. Parameters that only observe training change no noise.
Parameters enter by stable names, and not at all at their default, so a new parameter, or a renamed key of the config,
changes no noise. The stage `train` adds records and rows of the user's files (`pwfl.execution.contents`).
"""

from collections.abc import Iterable, Mapping
from functools import cache, reduce

from pydantic.fields import FieldInfo

from pwfl.scenario import checks
from pwfl.scenario.common import Scenario, Scheme
from pwfl.scenario.fields import Section, keyed_of, observes_of, parameters, unless_of
from pwfl.scenario.values import value_of


def depended_on(scenario: Scenario, scheme: Scheme, read: Iterable[Mapping]) -> dict[str, object]:
    """Return the parameters that determine messages of a scheme's training run, or their noise, by stable names.

    `read` are the parameters, nested by sections, that the stages up to training read. Those that only observe, and
    those that have no effect in this scheme, are left out.
    """
    read = list(read)
    values: dict[str, object] = {"system": scenario.system}
    for part in ("scheduler", "noise"):
        values |= _named(part, type(scheme).model_fields[part], getattr(scheme, part))
    idle = checks.idle(scenario.model_copy(update={"schemes": [scheme]}))
    for path, field, default in _with_defaults(type(scenario)):
        key, value = ".".join(path), reduce(getattr, path, scenario)
        if value == default or _only_observes(scenario, scheme, field):
            continue
        # A condition depends on all schemes: a parameter idle with this scheme only need not be idle with all.
        shared = any(other in scenario.conditions for other, _ in unless_of(field).values())
        if any(_has(section, path) for section in read) and (shared or key not in idle):
            values |= _named(key, field, _without_defaults(value))
    return values | {name: True for name in scenario.conditions if any(section.get(name) for section in read)}


@cache  # pydantic copies a default at each access
def _with_defaults(model: type[Scenario]) -> list[tuple[tuple[str, ...], FieldInfo, object]]:
    """List all parameters of a model: a key's parts, pydantic's field, and the default."""
    return [(path, field, field.get_default(call_default_factory=True)) for path, field in parameters(model)]


def _has(values: Mapping, path: tuple[str, ...]) -> bool:
    """Return whether nested parameters contain one at a key's parts."""
    for part in path:
        if part not in values:
            return False
        values = values[part]
    return True


def _only_observes(scenario: Scenario, scheme: Scheme, field: FieldInfo) -> bool:
    """Return whether a parameter changes no message and no noise of a scheme's training run."""
    observes = observes_of(field)
    if isinstance(observes, bool):
        return observes
    variants = {f"schedule/{scheme.scheduler}", f"noise/{scheme.noise}"}
    asked = [other for variant, other in observes.items() if variant in variants]
    return any(other is None or value_of(scenario, other[0]) == other[1] for other in asked)


def _named(key: str, field: FieldInfo, value) -> dict[str, object]:
    """Return a parameter's value by its stable name, or the former values that it replaces, each by its name."""
    keyed = keyed_of(field)
    return dict(keyed[value]) if isinstance(keyed, Mapping) else {keyed or key: value}


def _without_defaults(value):
    """Convert a value to plain types; sections lose parameters that only observe and those at their default."""
    if isinstance(value, Section):
        fields = {key: field for key, field in type(value).model_fields.items() if observes_of(field) is not True}
        values = {key: getattr(value, key) for key in fields}
        return {key: _without_defaults(inner) for key, inner in values.items() if inner != fields[key].default}
    return [_without_defaults(inner) for inner in value] if isinstance(value, list) else value
