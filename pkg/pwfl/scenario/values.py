"""The parameters passed to a stage: a frozen object of its system's model with only these, not validated again."""

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
    """A stage reads a parameter that it is not declared to read."""


class Partial:
    """A base class of models; objects may have only some of the model's parameters (`select_part`)."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker would accept any name as a parameter

        def __getattr__(self, name: str):
            part = object.__getattribute__(self, "__pydantic_private__")
            if part is None or name.startswith("_"):  # a whole object, or a name that Python and libraries look up
                return super().__getattr__(name)
            raise UndeclaredError(f"{part['section']}{name}: {UNDECLARED}")

        def __repr__(self) -> str:  # with attributes that are no parameters: reports distinguish scenarios by it
            whole = self.__pydantic_private__ is None
            return super().__repr__() if whole else f"{type(self).__name__}({plain(self)})"


class Values:
    """Parameters without a model, as `values.section.name`: those of a user-defined function, or without a system.

    Sections are Values again, lists are tuples, and nothing can be set. Reading a parameter that is missing raises
    UndeclaredError. Values of equal parameters are equal, and can be keys of a cache.
    """

    __slots__ = ("__dict__", "_section")

    def __init__(self, plain: Mapping, section: str = ""):
        object.__setattr__(self, "_section", f"{section}." if section else "")
        vars(self).update({key: _freeze(value, f"{self._section}{key}") for key, value in plain.items()})

    def __getattr__(self, name: str):
        if name.startswith("_"):  # names that Python and libraries look up
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
    """Convert a stage's parameters, nested dicts, to an object of its system's model, or Values without a system.

    Entries that are no parameters of the model, such as whether a condition is met, become attributes, too.
    """
    if "system" not in parameters:
        return Values(parameters)
    return select_part(registry.system(parameters["system"]).model, parameters)


def select_part(model: type[V], parameters: Mapping, section: str = "") -> V:
    """Create an object of a model, or of a section, with only these parameters, without validating them again.

    Reading another parameter raises UndeclaredError. Lists become tuples. Parts of equal parameters are equal, and can
    be keys of a cache.
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
    """Return, for each field of a model, the model of its value or of its list's entries; None: a single parameter."""
    kinds = {key: (field.annotation, *get_args(field.annotation)) for key, field in model.model_fields.items()}
    return {
        key: next((kind for kind in among if isinstance(kind, type) and issubclass(kind, Partial)), None)
        for key, among in kinds.items()
    }


def plain(values):
    """Convert values to nested dicts and lists."""
    if isinstance(values, Partial | Values):
        return {key: plain(value) for key, value in vars(values).items()}
    return [plain(value) for value in values] if isinstance(values, list | tuple) else values


def value_of(scenario, key: str):
    """Return the value at a dotted key of values, a scenario or its content; None: there is no such parameter."""
    value = scenario
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    return value


def name_release(values: V, release: str) -> V:
    """Add the name of the release, by which noise is drawn, to a stage's values (`pwfl.workflow.plan`)."""
    return with_others(values, release=release)


def with_contents(values: V, contents: Mapping[str, str]) -> V:
    """Add digests of the user's data, by realization, to the values of a stage that draws noise."""
    return with_others(values, contents=contents) if contents else values


def with_others(values: V, **others) -> V:
    """Return values with some sections, or parameters outside of sections, replaced by `others`, in plain types."""
    held: Any = values
    changed = plain(held) | others
    if isinstance(held, Values):
        return held.__class__(changed)
    return select_part(type(held), changed, (held.__pydantic_private__ or {}).get("section", "").removesuffix("."))


def replaced(values: V, key: str, value) -> V:
    """Return values with another one at a key, `section.name`. Raises UndeclaredError if the key has none yet.

    >>> replaced(Values({"seed": 1, "network": {"users": 3}}), "network.users", 2)
    Values({'seed': 1, 'network': {'users': 2}})
    """
    first, _, rest = key.partition(".")
    inner = getattr(values, first)
    return with_others(values, **{first: plain(replaced(inner, rest, value) if rest else value)})


def _freeze(value, path: str, section: type[Partial] | None = None):
    """Make a value immutable: mappings become objects of the section's model or Values, lists become tuples."""
    if isinstance(value, Mapping):
        return Values(value, path) if section is None else select_part(section, value, path)
    return tuple(_freeze(item, path, section) for item in value) if isinstance(value, list | tuple) else value
