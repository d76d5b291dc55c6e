"""The stage `train`: realization after realization, and who holds what."""

from collections.abc import Mapping

import polars as pl

from pwfl.learning import features, partition
from pwfl.learning.datasets import Dataset
from pwfl.systems import registry
from pwfl.tables import contract
from pwfl.work.stage import Tables, Task, module, ordered, tables_read


def run(task: Task, found: Mapping) -> Tables:
    """The tables `history` and `holdings`; `found` holds `features` or `dataset`, unless data are simulated."""
    checkpoint = task.checkpoint
    histories = checkpoint.restore() if checkpoint else {}
    missing = [realization for realization in task.realizations if realization not in histories]
    data = features.training_data(task.values, found)
    with module(task) as own:
        trained = own.trainer(task.values, data, tables_read(task, found))
        for realization in checkpoint.told(missing) if checkpoint else missing:
            histories[realization] = trained(realization)
            if checkpoint:
                checkpoint.save(histories)
    return {
        "holdings": holdings(task, data, found),
        "history": pl.concat([histories[realization] for realization in task.realizations]),
    }


def holdings(task: Task, data: Dataset | None, found: Mapping) -> pl.DataFrame:
    """Who holds what, where the catalog says that `partition` deals it out."""
    values = task.values
    if not registry.system(values.system).catalog.uses_dataset:
        return contract.schema(values.system, "holdings").create_empty()
    users = ordered(task, "users", found)
    numbers = {number: part["samples"].to_numpy() for (number,), part in users.group_by("realization")}
    return pl.concat(partition.holdings(values, data.y_train, numbers[number], number) for number in task.realizations)
