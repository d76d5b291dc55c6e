"""All stages in one process, without Snakemake: what reports are made of, in seconds."""

from functools import cache

import polars as pl

import stage_of
from pwfl import execution, registry, tables
from pwfl.api import stage_tables
from pwfl.learning import datasets, sources
from pwfl.scenario import resolve
from pwfl.scenario.values import name_release
from pwfl.stages import AUDIT, REPORT


@cache
def digits() -> datasets.Dataset:
    """The digits as training takes them."""
    return datasets.prepared(sources.load("digits"))


def part(model, stage: str, variant: str | None = None):
    """The part of a scenario that a stage's variant reads, for a release of its first scheme."""
    scheme = model.schemes[0]
    return name_release(model.select_stage(stage, variant), f"{scheme.scheduler}/{scheme.noise}")


def run(config: dict, audited: bool = True) -> tuple:
    """A scenario as its report gets it, and the tables of all its schemes, as they come back from files, and audits."""
    model = resolve({"audit": {"canaries": 50}}, config)
    found = stage_tables(model)
    if audited:
        found[AUDIT] = execution.audit_schemes(part(model, AUDIT), found)
    return part(model, REPORT), found


def stages(model):
    """Each scheme of a scenario, and the tables of all stages but training and the audit."""
    base = finished(stage_of.channel(part(model, "channel"), range(model.realizations)), model)
    for scheme in model.schemes:
        own = part(model, "schedule", scheme.scheduler)
        found = base | finished(stage_of.schedule(own, scheme.scheduler, base), model)
        found |= finished(stage_of.noise(part(model, "noise", scheme.noise), scheme.noise, found), model)
        found |= finished(received(model, found), model)
        yield scheme, found | finished(stage_of.account(part(model, "account"), found), model)


def received(model, found):
    """What is received by tables of a channel, a schedule and noise; nothing of a system whose air is not linear."""
    linear = "receive" in registry.stages(model.system)
    return stage_of.receive(part(model, "receive"), found) if linear else {}


def on_one_cell(frames: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Tables of `multicell` made by hand, with one station that hears everyone, and noise that nothing bounds."""
    frames = on_one_channel(frames)
    users = frames["users"].with_columns(cell=pl.lit(0))
    station = {"interval": pl.lit(0), "station": pl.lit(0), "distance_m": pl.lit(1.0), "gain": pl.lit(1.0)}
    links = users.select("realization", "user", **station)
    status = users.select("realization", interval=pl.lit(0)).unique(maintain_order=True)
    status = status.with_columns(status=pl.lit("target"), noise=pl.lit("target"), multiplier=pl.lit(None, pl.Float64))
    start = users.select("realization", "user", resource_block=pl.lit(0), power_w=pl.lit(0.0), noise_std=pl.lit(1.0))
    return frames | {"users": users, "links": links, "start_values": start, "noise_status": status}


def on_one_channel(frames: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Tables `schedule` and `noise` made by hand, of a channel that stays for all rounds; nobody loses a block."""
    frames = frames | {
        name: frames[name].with_columns(interval=pl.lit(0)) for name in ("schedule", "noise") if name in frames
    }
    if "schedule" in frames and "assigned_block" not in frames["schedule"].columns:
        frames["schedule"] = frames["schedule"].with_columns(assigned_block="resource_block")
    return frames


def finished(frames: dict[str, pl.DataFrame], model) -> dict[str, pl.DataFrame]:
    """Tables as they come back from files, whose schemas they must satisfy."""
    return {name: tables.finished(frame, name, model.system) for name, frame in frames.items()}
