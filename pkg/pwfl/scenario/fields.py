"""Building blocks of a scenario's model: strict sections, and parameters that declare which stages read them."""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    WrapValidator,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from pwfl.process import user_code
from pwfl.scenario.values import Partial, value_of


class Uses(NamedTuple):
    """A condition: a scheme has one of these schedulers or noise schemes or, `by_function`, a user-defined function."""

    scheduler: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()
    by_function: bool = False

    def met(self, schemes: Sequence) -> bool:
        """Return whether at least one scheme of a scenario meets the condition."""
        return any(
            scheme.scheduler in self.scheduler
            or scheme.noise in self.noise
            or (self.by_function and (user_code.is_reference(scheme.scheduler) or user_code.is_reference(scheme.noise)))
            for scheme in schemes
        )


class Section(Partial, BaseModel):
    """A group of parameters. Unknown keys and wrong types are errors, numbers are finite."""

    conditions: ClassVar[Mapping[str, Uses]] = {}  # by name, of a system's Scheme, and of its scenarios' model

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def parameter(
    default,
    description: str,
    *,
    unit: str = "",
    stages: str = "",
    unless: Mapping[str, tuple[str, object]] | None = None,
    usual: tuple[float, float] | None = None,
    observes: bool | Mapping[str, tuple[str, object] | None] = False,
    keyed: str | Mapping[object, Mapping[str, object]] | None = None,
    values: Mapping[str, str] | None = None,
    **bounds,
):
    """Declare a parameter of a section, with bounds as in pydantic's `Field`; the default `...` makes it required.

    Parameters
    ----------
    stages
        The stages that read it, separated by blanks: `schedule` for all of a stage's jobs, `schedule/optimal` for
        those of one variant. It enters the addresses of these stages' results, and no other stage can read it.
    unless
        Some of these stages, each with another parameter's key and a value: if the other parameter has the value, the
        stage does not read this one. The stage must read the other parameter, too. Instead of a key, one of the
        `conditions` of the system's Scheme: the stage also receives whether it is met, under the condition's name.
    observes
        Whether it changes no message of a training run and no message's noise, such as a parameter of evaluation or
        accounting: then noise does not depend on it (`pwfl.scenario.release`). Or the variants of stages with which
        this is so, each with the key and value of another parameter that this requires, or None.
    keyed
        Its former name, if it was renamed: noise stays the same. For a choice that replaces several former
        parameters: for each value, the values of these by their names, except those at their default.
    values
        For a choice: the meaning of each value.
    """
    extra: dict[str, Any] = {"unit": unit, "stages": stages.split()}
    extra |= {"unless": dict(unless)} if unless else {}
    extra |= {"usual": list(usual)} if usual else {}
    extra |= {"observes": observes} if observes else {}
    extra |= {"keyed": keyed} if keyed else {}
    extra |= {"values": dict(values)} if values else {}
    return Field(default, description=description, json_schema_extra=extra, **bounds)


def describe(schemes: Mapping[str, Any], function: str) -> dict[str, str]:
    """Return descriptions of schedulers or noise schemes, and of a user-defined one, for `values` of `parameter`."""
    return {name: scheme.description for name, scheme in schemes.items()} | {"FILE.py:FUNCTION": function}


def _choice_or_user_function(value, choice):
    if isinstance(value, str) and user_code.is_reference(value):
        return value
    try:
        return choice(value)
    except ValidationError as error:
        if error.errors()[0]["type"] != "literal_error":  # text that is not Unicode
            raise
        raise PydanticCustomError(
            "literal_error",
            "Input should be {expected}, or a user-defined function, FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION",
            error.errors()[0]["ctx"],
        ) from None


OWN = WrapValidator(_choice_or_user_function)  # marks parameters that may name a user-defined function


C = TypeVar("C")
S = TypeVar("S", bound=Section)
if TYPE_CHECKING:
    ListOf = Sequence
    OrFunction = C | str
else:
    ListOf = list  # in a config; a stage receives a tuple

    class OrFunction:
        """The type of a parameter that is one of a `Literal`'s choices, or names a function (`pwfl.process.user_code`).

        `own.reads` lists the files that such functions read; `training.model_reads` those of `training.model`.
        """

        def __class_getitem__(cls, choices):
            known, reference = (
                {"enum": list(get_args(choices))},
                {"type": "string", "pattern": f"^{user_code.PATTERN}$"},
            )
            schema = WithJsonSchema({"anyOf": [known, reference]})
            return Annotated[choices, OWN, PlainSerializer(str), schema]


OWN_NAME = r"^[A-Za-z][A-Za-z0-9_]{0,63}$"
if TYPE_CHECKING:
    Own = Any  # a stage receives Values; only the user's function defines their names
else:
    # see `user_parameters`
    Own = dict[Annotated[str, StringConstraints(pattern=OWN_NAME)], bool | int | float | str | None]


def user_parameters(function: str, stages: str):
    """Declare a parameter that maps names to values: arguments of a user-defined function, which defines the names.

    Values have the types that YAML gives them, and can be swept by their names.
    """
    meaning = f"parameters of a user-defined function for {function}, `NAME: VALUE` (docs/how-to/own_functions.md)"
    return parameter({}, meaning, stages=stages, max_length=1000)


def widened(section: type[S], **stages: str) -> type[S]:
    """Return the section with more readers of some parameters: `widened(DataSource, partition="channel audit")`."""
    fields = {}
    for key, more in stages.items():
        fields[key] = field = copy(section.model_fields[key])
        extra = extra_of(field)
        field.json_schema_extra = extra | {"stages": [*extra["stages"], *more.split()]}
    annotated: dict[str, Any] = {key: (field.annotation, field) for key, field in fields.items()}
    return create_model(section.__name__, __base__=section, __doc__=section.__doc__, **annotated)


def extra_of(field: FieldInfo) -> dict[str, Any]:
    """Return a parameter's declarations besides its type, default, meaning and bounds; see `parameter`."""
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def stages_of(field: FieldInfo) -> set[str]:
    """Return the stages, and variants of stages, that are declared to read a parameter."""
    return set(extra_of(field).get("stages", []))


def unless_of(field: FieldInfo) -> dict[str, tuple[str, object]]:
    """Return, by stage, the key and value of another parameter with which the stage does not read this one."""
    return extra_of(field).get("unless", {})


def usual_of(field: FieldInfo) -> list[float] | None:
    """Return the smallest and the largest usual value of a parameter; None: it declares none."""
    return extra_of(field).get("usual")


def observes_of(field: FieldInfo) -> bool | Mapping[str, tuple[str, object] | None]:
    """Return whether a parameter changes no message and no noise, or with which variants of stages; see `parameter`."""
    return extra_of(field).get("observes", False)


def values_of(field: FieldInfo) -> dict[str, str]:
    """Return the meaning of each value of a choice, as its parameter declares it."""
    return extra_of(field).get("values", {})


def keyed_of(field: FieldInfo) -> str | Mapping[object, Mapping[str, object]] | None:
    """Return a parameter's former name, or the former values that its values replace; see `parameter`."""
    return extra_of(field).get("keyed")


@cache
def conditions_of(model: type[Section], stages: frozenset[str]) -> set[str]:
    """Return the names of the conditions that decide whether at least one of the stages reads a parameter."""
    unless = (unless_of(field).items() for _, field in parameters(model))
    return {other for pairs in unless for stage, (other, _) in pairs if stage in stages and other in model.conditions}


@cache
def parameters(model: type[Section]) -> tuple[tuple[tuple[str, ...], FieldInfo], ...]:
    """List all parameters of a scenario's model, as pairs of a key's parts and pydantic's field."""
    fields: list[tuple[tuple[str, ...], FieldInfo]] = []
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            fields += [((key, *path), inner) for path, inner in parameters(field.annotation)]
        else:
            fields.append(((key,), field))
    return tuple(fields)


@cache
def functions(model: type[Section]) -> tuple[tuple[tuple[str, ...], FieldInfo], ...]:
    """List the parameters that may name a user-defined function."""
    return tuple((path, field) for path, field in parameters(model) if OWN in field.metadata)


def selected(section: Section, wanted: frozenset[str] | None, scenario) -> dict:
    """Return the parameters of a scenario's section that at least one of the wanted stages reads (None: any stage).

    Stages are named as in `parameter`. Values have plain types; sections are dicts, and empty ones are left out.
    """
    kept = {}
    for key, unless in _read_by(type(section), wanted):
        value = getattr(section, key)
        if unless is None:
            if inner := selected(value, wanted, scenario):
                kept[key] = inner
        elif not unless or any(_deciding(scenario, other) != idle for other, idle in unless):
            kept[key] = _plain(value)
    return kept


@cache
def _read_by(model: type[Section], wanted: frozenset[str] | None) -> list[tuple[str, list[tuple] | None]]:
    """List the fields that some stages may read: with None for a section, otherwise with the readers' `unless`.

    The list of `unless` is empty if at least one of the readers has none.
    """
    parts = []
    for key, field in model.model_fields.items():
        readers = stages_of(field)
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section) and not readers:
            parts.append((key, None))  # with readers, a section is one parameter
        elif wanted is None and readers:
            parts.append((key, []))
        elif wanted is not None and (reading := readers & wanted):
            unless = unless_of(field)
            spared = [unless[stage] for stage in reading if stage in unless]
            parts.append((key, spared if len(spared) == len(reading) else []))
    return parts


def _plain(value):
    """Convert a parameter's value to plain types, as pydantic dumps it."""
    if isinstance(value, Section):
        return value.model_dump()
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _deciding(scenario, key: str):
    """Return a parameter's value, or whether a condition is met, on which reading another parameter depends."""
    return scenario.meets(key) if key in scenario.conditions else value_of(scenario, key)
