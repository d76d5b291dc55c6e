"""The parameters that a stage gets: plain frozen values, so that what is derived from them is a function."""

from collections.abc import Mapping


class UndeclaredError(AttributeError):
    """A stage reads a parameter that is not declared to be read by it."""


class Values:
    """Parameters by name, `values.section.name`: sections are values again, lists are tuples, and nothing can be set.

    Reading a parameter that is not among them raises UndeclaredError. Values of equal parameters are equal, and keys of
    a cache.
    """

    __slots__ = ("__dict__", "_section")

    def __init__(self, plain: Mapping, section: str = ""):
        object.__setattr__(self, "_section", f"{section}." if section else "")
        vars(self).update({key: _frozen(value, f"{self._section}{key}") for key, value in plain.items()})

    def __getattr__(self, name: str):
        if name.startswith("_"):  # what Python and libraries look for
            raise AttributeError(name)
        if self._section.startswith("own."):
            raise UndeclaredError(f"{self._section}{name}: is not given; write it under `{self._section[:-1]}`")
        raise UndeclaredError(
            f"{self._section}{name}: this stage is not declared to read this parameter, or any of this section; add "
            "the stage to `stages` in its declaration"
        )

    def __setattr__(self, name: str, _):
        raise AttributeError(f"{self._section}{name}: parameters are not set; `replaced` makes others")

    def __eq__(self, other) -> bool:
        return vars(self) == vars(other) if isinstance(other, Values) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(vars(self).items()))

    def __repr__(self) -> str:
        return f"Values({plain(self)})"


def plain(values):
    """The nested dicts and lists that values are of."""
    if isinstance(values, Values):
        return {key: plain(value) for key, value in vars(values).items()}
    return [plain(value) for value in values] if isinstance(values, list | tuple) else values


def value_of(scenario, key: str):
    """What values, or a scenario's model, have at a dotted key; None where their system has no such parameter."""
    value = scenario
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    return value


def of_release(values: Values, release: str) -> Values:
    """The values of a stage that draws noise, and of which release this is (`pwfl.workflow.plan`)."""
    return Values(vars(values) | {"release": release})


def with_contents(values: Values, contents: Mapping[str, str]) -> Values:
    """The values of a stage that draws noise, and what a release has of the user's files, by realization."""
    return Values(vars(values) | {"contents": contents}) if contents else values


def replaced(values: Values, key: str, value) -> Values:
    """The values with another one at a key, `section.name`. Raises UndeclaredError where there is none yet.

    >>> replaced(Values({"seed": 1, "network": {"users": 3}}), "network.users", 2)
    Values({'seed': 1, 'network': {'users': 2}})
    """
    first, _, rest = key.partition(".")
    inner = getattr(values, first)
    return Values(plain(values) | {first: plain(replaced(inner, rest, value) if rest else value)})


def _frozen(value, path: str):
    if isinstance(value, Mapping):
        return Values(value, path)
    return tuple(_frozen(each, path) for each in value) if isinstance(value, list | tuple) else value
