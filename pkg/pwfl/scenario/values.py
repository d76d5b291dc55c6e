"""The parameters that a stage gets: an object of its system's model that holds only those, frozen and unchecked."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pwfl import registry

V = TypeVar("V")

UNDECLARED = (
    "this stage is not declared to read this parameter, or any of this section; add the stage to `stages` in its "
    "declaration"
)


class UndeclaredError(AttributeError):
    """A stage reads a parameter that is not declared to be read by it."""


class Partial:
    """A base of models whose objects may hold a part of their parameters (`select_part`)."""

    __slots__ = ()

    if not TYPE_CHECKING:  # which would take any name for a parameter

        def __getattr__(self, name: str):
            part = object.__getattribute__(self, "__pydantic_private__")
            if part is None or name.startswith("_"):  # a whole object; what Python and libraries look for
                return super().__getattr__(name)
            raise UndeclaredError(f"{part['section']}{name}: {UNDECLARED}")

        def __repr__(self) -> str:  # what is no parameter of the model included, as reports tell scenarios apart by it
            whole = self.__pydantic_private__ is None
            return super().__repr__() if whole else f"{type(self).__name__}({plain(self)})"


class Values:
    """Parameters where no model says which, `values.section.name`: what a user-defined function gets, or no system's.

    Sections are values again, lists are tuples, and nothing can be set. Reading a parameter that is not among them
    raises UndeclaredError. Values of equal parameters are equal, and keys of a cache.
    """

    __slots__ = ("__dict__", "_section")

    def __init__(self, plain: Mapping, section: str = ""):
        object.__setattr__(self, "_section", f"{section}." if section else "")
        vars(self).update({key: _freeze(value, f"{self._section}{key}") for key, value in plain.items()})

    def __getattr__(self, name: str):
        if name.startswith("_"):  # what Python and libraries look for
            raise AttributeError(name)
        if self._section.startswith("own."):
            raise UndeclaredError(f"{self._section}{name}: is not given; write it under `{self._section[:-1]}`")
        raise UndeclaredError(f"{self._section}{name}: {UNDECLARED}")

    def __setattr__(self, name: str, _):
        raise AttributeError(f"{self._section}{name}: parameters are not set; `replaced` makes others")

    def __eq__(self, other) -> bool:
        return vars(self) == vars(other) if isinstance(other, Values) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(vars(self).items()))

    def __repr__(self) -> str:
        return f"Values({plain(self)})"


def build_values(parameters: Mapping) -> Any:
    """What a stage gets of the parameters that it reads, as nested dicts: an object of its system's model, or Values.

    What is no parameter of the model, such as whether a condition is met, is an attribute, too.
    """
    if "system" not in parameters:
        return Values(parameters)
    return select_part(registry.system(parameters["system"]).model, parameters)


def select_part(model: type[V], parameters: Mapping, section: str = "") -> V:
    """An object of a model, or of a section of one, that holds these parameters alone, which nothing checks again.

    Reading another one raises UndeclaredError. Lists are tuples, and parts of equal parameters are equal, and keys of a
    cache.
    """
    kinds, path = _sections(model), f"{section}." if section else ""
    held = {key: _freeze(value, f"{path}{key}", kinds.get(key)) for key, value in parameters.items()}
    made = model.__new__(model)
    state = {"dict": held, "pydantic_fields_set": set(held), "pydantic_extra": None}
    for name, value in (state | {"pydantic_private": {"section": path}}).items():
        object.__setattr__(made, f"__{name}__", value)
    return made


@cache
def _sections(model: Any) -> dict[str, type[Partial] | None]:
    """By each of a model's fields, the model that it is, or is a list of; None where it is one parameter."""
    kinds = {key: (field.annotation, *get_args(field.annotation)) for key, field in model.model_fields.items()}
    return {
        key: next((kind for kind in among if isinstance(kind, type) and issubclass(kind, Partial)), None)
        for key, among in kinds.items()
    }


def plain(values):
    """The nested dicts and lists that values are of."""
    if isinstance(values, Partial | Values):
        return {key: plain(value) for key, value in vars(values).items()}
    return [plain(value) for value in values] if isinstance(values, list | tuple) else values


def value_of(scenario, key: str):
    """What values, or a scenario's model, have at a dotted key; None where their system has no such parameter."""
    value = scenario
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    return value


def name_release(values: V, release: str) -> V:
    """Add the name of the release, by which noise is drawn, to a stage's values (`pwfl.workflow.plan`)."""
    return with_others(values, release=release)


def with_contents(values: V, contents: Mapping[str, str]) -> V:
    """The values of a stage that draws noise, and what a release has of the user's files, by realization."""
    return with_others(values, contents=contents) if contents else values


def with_others(values: V, **others) -> V:
    """The values with others, in plain types, in the place of these sections or parameters outside of sections."""
    held: Any = values
    changed = plain(held) | others
    if isinstance(held, Values):
        return held.__class__(changed)
    return select_part(type(held), changed, (held.__pydantic_private__ or {}).get("section", "").removesuffix("."))


def replaced(values: V, key: str, value) -> V:
    """The values with another one at a key, `section.name`. Raises UndeclaredError where there is none yet.

    >>> replaced(Values({"seed": 1, "network": {"users": 3}}), "network.users", 2)
    Values({'seed': 1, 'network': {'users': 2}})
    """
    first, _, rest = key.partition(".")
    inner = getattr(values, first)
    return with_others(values, **{first: plain(replaced(inner, rest, value) if rest else value)})


def _freeze(value, path: str, section: type[Partial] | None = None):
    """A value that cannot be changed: of a section's model where there is one."""
    if isinstance(value, Mapping):
        return Values(value, path) if section is None else select_part(section, value, path)
    return tuple(_freeze(item, path, section) for item in value) if isinstance(value, list | tuple) else value
