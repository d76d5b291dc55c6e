"""The stage `train`: realization after realization, and who holds what."""

from collections.abc import Callable, Iterable

import polars as pl

from pwfl.learning import partition
from pwfl.scenario.values import Values
from pwfl.systems import registry
from pwfl.tables import contract
from pwfl.work.stage import Tables, handed, module, ordered


def run(
    values: Values,
    data,
    realizations: range,
    found: Tables,
    checkpoint=None,
    steps: Callable[[list[int]], Iterable[int]] = iter,
) -> Tables:
    """The tables `history` and `holdings` of some realizations; see `pwfl.run.train`.

    `steps` is handed the realizations that the checkpoint lacks, and yields them one after the other.
    """
    histories = checkpoint.restore() if checkpoint else {}
    missing = [realization for realization in realizations if realization not in histories]
    with module(values.system, "train") as own:
        trained = own.trainer(values, data, handed(values.system, "train", found))
        for realization in steps(missing):
            histories[realization] = trained(realization)
            if checkpoint:
                checkpoint.save(histories)
    return {
        "holdings": holdings(values, data, realizations, found),
        "history": pl.concat([histories[realization] for realization in realizations]),
    }


def holdings(values: Values, data, realizations: range, found: Tables) -> pl.DataFrame:
    """Who holds what, where the catalog says that `partition` deals it out."""
    if not registry.system(values.system).catalog.deals:
        return contract.schema(values.system, "holdings").create_empty()
    users = ordered(values.system, "users", found)
    numbers = {number: part["samples"].to_numpy() for (number,), part in users.group_by("realization")}
    return pl.concat(partition.holdings(values, data.y_train, numbers[number], number) for number in realizations)
