"""Building blocks of a scenario's model: strict sections, and parameters that know who reads them."""

from collections.abc import Iterator
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.fields import FieldInfo


class UndeclaredError(AttributeError):
    """A stage reads a parameter that is not declared to be read by it."""


class Section(BaseModel):
    """A group of parameters. Unknown keys and wrong types are errors, numbers are finite.

    A stage is handed a section that holds the parameters it is declared to read, and no others.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    def __getattr__(self, name: str):
        """Called for what a section does not hold. Raises UndeclaredError for a parameter."""
        if name in type(self).model_fields:
            section = is_section(type(self).model_fields[name].annotation)
            raise UndeclaredError(
                f"{type(self).__name__}.{name}: this stage is not declared to read "
                f"{'any parameter of this section' if section else 'this parameter'}; add the stage to `stages` in its "
                "declaration"
            )
        return super().__getattr__(name)

    def problems(self) -> list[str]:
        """What the parameters name and this machine lacks, a line `key: problem` each."""
        return []

    def part(self, wanted: set[str] | None) -> Self:
        """The section with only those parameters that are read by one of the wanted stages (None: by any).

        Names of stages are those of `parameter`.
        """
        kept = {}
        for key, field in type(self).model_fields.items():
            value, stages = getattr(self, key), stages_of(field)
            if isinstance(value, Section):
                inner = value.part(wanted)
                if inner.__dict__:
                    kept[key] = inner
            elif stages and (wanted is None or stages & wanted):
                kept[key] = value
        return _holding(type(self), kept)

    def plain(self) -> dict:
        """The parameters that the section holds, as nested dicts and lists of plain Python values."""
        return {key: _plain(value) for key, value in self.__dict__.items()}

    @classmethod
    def restored(cls, plain: dict) -> Self:
        """The section that `plain` was made of. Raises pydantic's ValidationError for values it cannot hold."""
        kept = {}
        for key, value in plain.items():
            kind = cls.model_fields[key].annotation
            kept[key] = kind.restored(value) if is_section(kind) else TypeAdapter(kind).validate_python(value)
        return _holding(cls, kept)


def parameter(default, description: str, *, unit: str = "", stages: str = "", **bounds):
    """A parameter of a section.

    Parameters
    ----------
    default
        Its value where a config says nothing; `...`: it must be given.
    description
        What it is, for `config/README.md` and error messages.
    unit
        Its unit, where it has one.
    stages
        The stages that read it, separated by blanks: `schedule` for all of a stage's jobs, `schedule/optimal` for
        those of one variant. It enters the addresses of these stages' results, and no other stage can read it.
    bounds
        Constraints as pydantic's `Field` has them (`ge`, `lt`, `max_length` ...).
    """
    extra = {"unit": unit, "stages": stages.split()}
    return Field(default, description=description, json_schema_extra=extra, **bounds)


def stages_of(field: FieldInfo) -> set[str]:
    """The stages, and variants of stages, that a parameter is declared to be read by."""
    return set((field.json_schema_extra or {}).get("stages", []))


def is_section(kind) -> bool:
    """Whether a parameter's annotation is a section of its own."""
    return isinstance(kind, type) and issubclass(kind, Section)


def parameters(model: type[Section], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """All parameters of a scenario's model, as pairs of a key's parts and pydantic's field."""
    for key, field in model.model_fields.items():
        if is_section(field.annotation):
            yield from parameters(field.annotation, (*prefix, key))
        else:
            yield (*prefix, key), field


def _holding(kind: type[Section], kept: dict) -> Section:
    """A section of some validated parameters and no others."""
    section = kind.model_construct(**kept)
    for key in set(kind.model_fields) - set(kept):
        section.__dict__.pop(key, None)
    return section


def _plain(value):
    if isinstance(value, Section):
        return value.plain()
    return [_plain(v) for v in value] if isinstance(value, list) else value
