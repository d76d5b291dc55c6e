"""All stages in one process, without Snakemake: what reports are made of, in seconds."""

import polars as pl

from pwfl import account, audit, channel, datasets, noise, scenario, schedule, tables, train


def digits() -> datasets.Dataset:
    """The digits as training takes them."""
    x_train, y_train, x_test, y_test = datasets.load("digits")
    scaled = [x.astype("float32") / 255 for x in (x_train, x_test)]
    return datasets.Dataset(scaled[0], y_train.astype("int32"), scaled[1], y_test.astype("int32"))


def run(config: dict, folder) -> tuple[dict, dict[str, pl.DataFrame]]:
    """A scenario's parameters and the report's tables; every table passes through its file's schema check."""
    model, collected = scenario.resolve({"audit": {"canaries": 50}}, config), []
    data = digits() if "data" in type(model).model_fields else None
    for scheme, untrained in stages(model, folder):
        trained = range(model.training_realizations)
        history = train.run(scenario.stage_parameters(model, "train"), data, trained, untrained)
        found = untrained | checked(history, model, folder)
        found |= checked(audit.run(scenario.stage_parameters(model, "audit"), found), model, folder)
        names = ("schedule_status", "noise_status", "history", "leakage", "outcome", "audit")
        collected.append({n: found[n].select(pl.lit(scheme.name).alias("scheme"), pl.all()) for n in names})
    merged = {name: pl.concat([part[name] for part in collected]) for name in collected[0]}
    return scenario.stage_parameters(model, None), merged | {name: found[name] for name in ("users", "links")}


def stages(model, folder):
    """Each scheme of a scenario, and the tables of all stages but training."""

    def parameters(stage, variant=None):
        return scenario.stage_parameters(model, stage, variant)

    base = checked(channel.run(parameters("channel"), range(model.realizations)), model, folder)
    for scheme in model.schemes:
        found = schedule.run(parameters("schedule", scheme.scheduler), scheme.scheduler, base)
        found = base | checked(found, model, folder)
        found |= checked(noise.run(parameters("noise", scheme.noise), scheme.noise, found), model, folder)
        yield scheme, found | checked(account.run(parameters("account"), found), model, folder)


def checked(frames: dict[str, pl.DataFrame], model, folder) -> dict[str, pl.DataFrame]:
    """Tables as they come back from files, whose schemas they must satisfy."""
    paths = {name: str(folder / f"{name}.parquet") for name in frames}
    tables.write_all(frames, model.system, paths)
    return tables.read_all(model.system, paths)
