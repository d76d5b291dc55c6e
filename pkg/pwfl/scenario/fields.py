"""Building blocks of a scenario's model: strict sections, parameters that know who reads them."""

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A group of parameters. Unknown keys and wrong types are errors, numbers are finite."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    def problems(self) -> list[str]:
        """What the parameters name and this machine lacks, a line `key: problem` each."""
        return []


def parameter(default, description: str, *, unit: str = "", stages: str = "", **bounds):
    """A parameter of a section.

    `stages` names, separated by blanks, the stages that read it: `schedule` for all of a stage's
    jobs, `schedule/optimal` for those of one variant. A change re-runs these stages and what
    follows them, and a stage is handed no other parameter.
    """
    extra = {"unit": unit, "stages": stages.split()}
    return Field(default, description=description, json_schema_extra=extra, **bounds)
