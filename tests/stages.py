"""What every stage and variant of a system reads of a scenario."""

from pwfl import stages
from pwfl.scenario import resolve
from pwfl.scenario.values import plain

STAGES = (*stages.STAGES, stages.AUDIT, stages.REPORT)


def slices(model) -> dict[str, dict]:
    """The parameters each stage, or stage/variant, is handed."""
    found = {stage: plain(model.select_stage(stage)) for stage in STAGES if stage not in ("schedule", "noise")}
    for scheme in model.schemes:
        for stage, variant in (("schedule", scheme.scheduler), ("noise", scheme.noise)):
            found[f"{stage}/{variant}"] = plain(model.select_stage(stage, variant))
    return found


def readers(system: str, path: str, value, base: dict | None = None) -> set[str]:
    """The stages, or stage/variants, whose parameters change when the one at a dotted path does."""
    change = value
    for key in reversed(path.split(".")):
        change = {key: change}
    base = {"system": system} | (base or {})
    before, after = slices(resolve(base, {})), slices(resolve(base, change))
    return {stage for stage in before.keys() | after.keys() if before.get(stage) != after.get(stage)}
