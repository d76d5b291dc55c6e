"""A resolved scenario in readable form: a YAML file, and a table of its parameters."""

import polars as pl
import yaml

from pwfl import registry
from pwfl.scenario.fields import extra_of, parameters
from pwfl.scenario.resolution import look_up
from pwfl.store.files import appearing_whole


def save(resolved: dict, path: str) -> None:
    """Write a resolved scenario to a YAML file that can serve as a config's `base`."""
    with appearing_whole(path) as partial, open(partial, "w", encoding="utf-8") as file:
        yaml.safe_dump(resolved, file, sort_keys=False)


def parameter_table(resolved: dict) -> pl.DataFrame:
    """Return a resolved scenario as a Polars frame: parameter, value, unit, description (Table I)."""
    model = registry.system(resolved["system"]).model
    rows = [
        (".".join(path), str(look_up(resolved, path)), extra_of(field)["unit"], field.description)
        for path, field in parameters(model)
    ]
    return pl.DataFrame(rows, schema=["parameter", "value", "unit", "description"], orient="row")
