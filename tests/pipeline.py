"""All stages in one process, without Snakemake: what reports are made of, in seconds."""

from functools import cache

import polars as pl

from pwfl import run as stage_of
from pwfl import tables
from pwfl.learning import datasets, sources
from pwfl.scenario import resolve
from pwfl.stages import REPORT


@cache
def digits() -> datasets.Dataset:
    """The digits as training takes them."""
    return datasets.prepared(sources.load("digits"))


def part(model, stage: str, variant: str | None = None):
    """The part of a scenario that a stage's variant reads."""
    return model.part({stage, f"{stage}/{variant}"})


def run(config: dict) -> tuple:
    """A scenario as its report gets it, and the tables of all its schemes, as they come back from files."""
    model, collected = resolve({"audit": {"canaries": 50}}, config), []
    data = digits() if "data" in type(model).model_fields else None
    for scheme, untrained in stages(model):
        trained = range(model.training_realizations)
        found = untrained | finished(stage_of.train(part(model, "train"), data, trained, untrained), model)
        found |= finished(stage_of.audit(part(model, "audit"), found), model)
        names = ("schedule_status", "noise_status", "history", "leakage", "outcome", "audit")
        collected.append({n: found[n].select(pl.lit(scheme.name).alias("scheme"), pl.all()) for n in names})
    merged = {name: pl.concat([part_[name] for part_ in collected]) for name in collected[0]}
    return part(model, REPORT), merged | {name: found[name] for name in ("users", "links")}


def stages(model):
    """Each scheme of a scenario, and the tables of all stages but training and the audit."""
    base = finished(stage_of.channel(part(model, "channel"), range(model.realizations)), model)
    for scheme in model.schemes:
        own = part(model, "schedule", scheme.scheduler)
        found = base | finished(stage_of.schedule(own, scheme.scheduler, base), model)
        found |= finished(stage_of.noise(part(model, "noise", scheme.noise), scheme.noise, found), model)
        yield scheme, found | finished(stage_of.account(part(model, "account"), found), model)


def finished(frames: dict[str, pl.DataFrame], model) -> dict[str, pl.DataFrame]:
    """Tables as they come back from files, whose schemas they must satisfy."""
    return {name: tables.finished(frame, name, model.system) for name, frame in frames.items()}
