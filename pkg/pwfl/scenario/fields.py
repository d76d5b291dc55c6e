"""Building blocks of a scenario's model: strict sections, and parameters that know who reads them."""

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
        """Whether schemes of a scenario meet the condition."""
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
    """A parameter of a section, with bounds as pydantic's `Field` has them; one whose default is `...` must be given.

    Parameters
    ----------
    stages
        The stages that read it, separated by blanks: `schedule` for all of a stage's jobs, `schedule/optimal` for
        those of one variant. It enters the addresses of these stages' results, and no other stage can read it.
    unless
        Some of these stages, each with another parameter's key and a value: where that has it, the stage does not read
        this one. The stage must read the other parameter, too. In place of a key, one of the `conditions` of the
        system's Scheme: beside its parameters, the stage gets whether that is met, by the condition's name.
    observes
        Whether it changes no message of a training and no message's noise, as what is evaluated or accounted for does
        not: then it draws no other noise (`pwfl.scenario.release`). Or the variants of stages with which it changes
        none, each with another parameter's key and value that this takes, or None.
    keyed
        Its name there, if it had another one before: it draws the same noise as then. Of a choice that stands for
        several former parameters: for each value theirs, by their names, those at their default left out.
    values
        Of a choice: what each of its values means.
    """
    extra: dict[str, Any] = {"unit": unit, "stages": stages.split()}
    extra |= {"unless": dict(unless)} if unless else {}
    extra |= {"usual": list(usual)} if usual else {}
    extra |= {"observes": observes} if observes else {}
    extra |= {"keyed": keyed} if keyed else {}
    extra |= {"values": dict(values)} if values else {}
    return Field(default, description=description, json_schema_extra=extra, **bounds)


def describe(schemes: Mapping[str, Any], function: str) -> dict[str, str]:
    """What each scheduler or noise scheme is, for `values` of `parameter`, and what a function of the user's is."""
    return {name: scheme.description for name, scheme in schemes.items()} | {"FILE.py:FUNCTION": function}


def _choice_or_user_function(value, choice):
    if isinstance(value, str) and user_code.is_reference(value):
        return value
    try:
        return choice(value)
    except ValidationError as error:
        if error.errors()[0]["type"] != "literal_error":  # text that is no Unicode
            raise
        raise PydanticCustomError(
            "literal_error",
            "Input should be {expected}, or a user-defined function, FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION",
            error.errors()[0]["ctx"],
        ) from None


OWN = WrapValidator(_choice_or_user_function)  # marks what may name a function of the user's own


C = TypeVar("C")
S = TypeVar("S", bound=Section)
if TYPE_CHECKING:
    ListOf = Sequence
    OrFunction = C | str
else:
    ListOf = list  # in a config; a stage gets a tuple

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
    Own = Any  # a stage gets values, whose names the user's function alone knows
else:
    # see `user_parameters`
    Own = dict[Annotated[str, StringConstraints(pattern=OWN_NAME)], bool | int | float | str | None]


def user_parameters(function: str, stages: str):
    """A parameter that maps names to values: what a function of the user's own takes, whose names nobody else knows.

    Values are what YAML takes them for, and can be swept by their names.
    """
    meaning = f"parameters of a user-defined function for {function}, `NAME: VALUE` (docs/how-to/own_functions.md)"
    return parameter({}, meaning, stages=stages, max_length=1000)


def widened(section: type[S], **stages: str) -> type[S]:
    """The section with parameters that more stages read: `widened(common.DataSource, partition="channel audit")`."""
    fields = {}
    for key, more in stages.items():
        fields[key] = field = copy(section.model_fields[key])
        extra = extra_of(field)
        field.json_schema_extra = extra | {"stages": [*extra["stages"], *more.split()]}
    annotated: dict[str, Any] = {key: (field.annotation, field) for key, field in fields.items()}
    return create_model(section.__name__, __base__=section, __doc__=section.__doc__, **annotated)


def extra_of(field: FieldInfo) -> dict[str, Any]:
    """What a parameter declares besides its type, default, meaning and bounds; see `parameter`."""
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def stages_of(field: FieldInfo) -> set[str]:
    """The stages, and variants of stages, that a parameter is declared to be read by."""
    return set(extra_of(field).get("stages", []))


def unless_of(field: FieldInfo) -> dict[str, tuple[str, object]]:
    """By stage, the key and value of another parameter with which it does not read this one."""
    return extra_of(field).get("unless", {})


def usual_of(field: FieldInfo) -> list[float] | None:
    """The least and the greatest usual value of a parameter; None where it declares none."""
    return extra_of(field).get("usual")


def observes_of(field: FieldInfo) -> bool | Mapping[str, tuple[str, object] | None]:
    """Whether a parameter changes no message and no noise, or with which variants of stages; see `parameter`."""
    return extra_of(field).get("observes", False)


def values_of(field: FieldInfo) -> dict[str, str]:
    """What each value of a choice means, as its parameter declares it."""
    return extra_of(field).get("values", {})


def keyed_of(field: FieldInfo) -> str | Mapping[object, Mapping[str, object]] | None:
    """A parameter's name, or the values that its own stand for, where noise depends on it; see `parameter`."""
    return extra_of(field).get("keyed")


@cache
def conditions_of(model: type[Section], stages: frozenset[str]) -> set[str]:
    """The names of the conditions by which some of the stages read a parameter, or do not."""
    unless = (unless_of(field).items() for _, field in parameters(model))
    return {other for pairs in unless for stage, (other, _) in pairs if stage in stages and other in model.conditions}


@cache
def parameters(model: type[Section]) -> tuple[tuple[tuple[str, ...], FieldInfo], ...]:
    """All parameters of a scenario's model, as pairs of a key's parts and pydantic's field."""
    fields: list[tuple[tuple[str, ...], FieldInfo]] = []
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            fields += [((key, *path), inner) for path, inner in parameters(field.annotation)]
        else:
            fields.append(((key,), field))
    return tuple(fields)


@cache
def functions(model: type[Section]) -> tuple[tuple[tuple[str, ...], FieldInfo], ...]:
    """Those parameters that may name a function of the user's own."""
    return tuple((path, field) for path, field in parameters(model) if OWN in field.metadata)


def selected(section: Section, wanted: frozenset[str] | None, scenario) -> dict:
    """Those parameters of a scenario's section that are read by one of the wanted stages (None: by any).

    Names of stages are those of `parameter`. Values are plain; sections are dicts, and those without any are left out.
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
    """The fields that some stages may read; with None of a section, else with what each reader's `unless` says.

    The list is empty where a reader has none.
    """
    parts = []
    for key, field in model.model_fields.items():
        readers = stages_of(field)
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section) and not readers:
            parts.append((key, None))  # with readers it is one parameter
        elif wanted is None and readers:
            parts.append((key, []))
        elif wanted is not None and (reading := readers & wanted):
            unless = unless_of(field)
            spared = [unless[stage] for stage in reading if stage in unless]
            parts.append((key, spared if len(spared) == len(reading) else []))
    return parts


def _plain(value):
    """A parameter's value in plain types, as pydantic dumps it."""
    if isinstance(value, Section):
        return value.model_dump()
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _deciding(scenario, key: str):
    """The value of the parameter, or whether the condition is met, that decides whether a stage reads another one."""
    return scenario.meets(key) if key in scenario.conditions else value_of(scenario, key)
