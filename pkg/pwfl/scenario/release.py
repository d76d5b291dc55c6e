"""What a training's messages and their noise depend on, which names its release (`pwfl.streams.name_noise`).

Releases that differ in any of it have independent noise, and what only observes a training changes none. Parameters
count by stable names, and those at their default not at all, so that a new parameter, or a renamed key of the config,
draws no other noise. Records and rows of the user's files are added by what trains (`pwfl.execution.contents`).
"""

from collections.abc import Iterable, Mapping
from functools import cache, reduce

from pydantic.fields import FieldInfo

from pwfl.scenario import checks
from pwfl.scenario.common import Scenario, Scheme
from pwfl.scenario.fields import Section, keyed_of, observes_of, parameters, unless_of
from pwfl.scenario.values import value_of


def depended_on(scenario: Scenario, scheme: Scheme, read: Iterable[Mapping]) -> dict[str, object]:
    """What messages of a scheme's training, or their noise, depend on, by stable names.

    `read` are the parameters, nested by sections, that the stages up to the training read. Of these, what only observes
    is left out, as is what has no effect in this scheme.
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
        # Other schemes decide about a condition: what is idle in this scheme alone may not be among them.
        shared = any(other in scenario.conditions for other, _ in unless_of(field).values())
        if any(_has(section, path) for section in read) and (shared or key not in idle):
            values |= _named(key, field, _without_defaults(value))
    return values | {name: True for name in scenario.conditions if any(section.get(name) for section in read)}


@cache  # pydantic copies a default each time that it is asked for
def _with_defaults(model: type[Scenario]) -> list[tuple[tuple[str, ...], FieldInfo, object]]:
    """All parameters of a model: a key's parts, pydantic's field, and the default."""
    return [(path, field, field.get_default(call_default_factory=True)) for path, field in parameters(model)]


def _has(values: Mapping, path: tuple[str, ...]) -> bool:
    """Whether nested parameters have one at a key's parts."""
    for part in path:
        if part not in values:
            return False
        values = values[part]
    return True


def _only_observes(scenario: Scenario, scheme: Scheme, field: FieldInfo) -> bool:
    """Whether a parameter changes no message and no noise of a scheme's training."""
    observes = observes_of(field)
    if isinstance(observes, bool):
        return observes
    variants = {f"schedule/{scheme.scheduler}", f"noise/{scheme.noise}"}
    asked = [other for variant, other in observes.items() if variant in variants]
    return any(other is None or value_of(scenario, other[0]) == other[1] for other in asked)


def _named(key: str, field: FieldInfo, value) -> dict[str, object]:
    """A parameter's value by its stable name, or the values that it stands for, each by its own."""
    keyed = keyed_of(field)
    return dict(keyed[value]) if isinstance(keyed, Mapping) else {keyed or key: value}


def _without_defaults(value):
    """A value in plain types; of sections in a list, what neither observes nor is at its default."""
    if isinstance(value, Section):
        fields = {key: field for key, field in type(value).model_fields.items() if observes_of(field) is not True}
        values = {key: getattr(value, key) for key in fields}
        return {key: _without_defaults(inner) for key, inner in values.items() if inner != fields[key].default}
    return [_without_defaults(inner) for inner in value] if isinstance(value, list) else value
