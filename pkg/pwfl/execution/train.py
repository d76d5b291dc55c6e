"""The stage `train`: training runs, one after the other or batched on a GPU, and the records that users hold."""

import logging
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import Any

import polars as pl

from pwfl import registry
from pwfl.execution.contents import contents
from pwfl.execution.stage import Tables, Task, loaded, ordered, tables_read
from pwfl.learning import features, partition
from pwfl.learning.datasets import Dataset
from pwfl.process import devices
from pwfl.scenario.values import with_contents
from pwfl.system import Trainers
from pwfl.tables import contract

log = logging.getLogger(__name__)

Histories = dict[int, pl.DataFrame]  # by realization


def run(task: Task, tables: Mapping) -> Tables:
    """Make the tables `history` and `holdings`; `tables` has `features` or `dataset`, unless data are simulated."""
    histories: Histories = {}
    left = dict(task.chunks)
    data = features.training_data(task.values, tables)
    device = devices.take(task.device)
    values = with_contents(task.values, contents(task.values, tables, task.span))
    with loaded(task) as trainers, devices.used(device):
        train, most = _trainer(trainers, device, (values, data, tables_read(task, tables)))
        for batch in batches(train, list(task.span), most):
            histories |= {number: frame.with_columns(processor=pl.lit(device.kind)) for number, frame in batch.items()}
            log.info("trained %d of %d realizations", len(histories), len(task.span))
            for span in [span for span in left if histories.keys() >= set(span)]:
                left.pop(span)(_tables(task._replace(realizations=span), data, tables, histories))
    return {} if task.chunks else _tables(task, data, tables, histories)


def _tables(task: Task, data: Dataset | None, tables: Mapping, histories: Histories) -> Tables:
    """Make the tables of a task's realizations."""
    history = pl.concat([histories[realization] for realization in task.span])
    return {"holdings": holdings(task, data, tables), "history": history}


def _trainer(
    trainers: Trainers[Any], device: devices.Device, arguments: tuple
) -> tuple[Callable[[list[int]], Histories], int]:
    """Return a function that trains some realizations, and the largest number that it may train at a time."""
    why = "this system trains one realization at a time"
    if device.memory is not None:
        if trainers.several is not None:
            try:
                train, size = trainers.several(*arguments)
            except NotImplementedError as error:
                why = str(error)
            else:
                most = max(1, int(device.memory / size))
                log.info("batches of at most %d realizations, about %.0f MiB each", most, size / 2**20)
                return train, most
        log.info("one realization at a time: %s", why)
    train_one = trainers.one(*arguments)
    return lambda realizations: {realization: train_one(realization) for realization in realizations}, 1


def batches(train: Callable[[list[int]], Histories], missing: list[int], most: int) -> Iterator[Histories]:
    """Yield the histories of the missing realizations, at most `most` at a time; half as many if memory runs out."""
    while missing:
        size = ceil(len(missing) / ceil(len(missing) / most))  # equal sizes, as programs are compiled for each size
        try:
            finished = train(missing[:size])
        except devices.exhausted() as error:
            if size == 1:
                raise
            most = ceil(size / 2)
            log.warning("not enough memory for %d realizations; trying %d: %s", size, most, error.message[:200])
            continue
        yield finished
        missing = missing[size:]


def holdings(task: Task, data: Dataset | None, tables: Mapping) -> pl.DataFrame:
    """Make the table `holdings`; it is empty unless `partition` assigns records of a data set to users."""
    values = task.values
    if data is None or not registry.system(values.system).catalog.uses_dataset:
        return contract.schema(values.system, "holdings").create_empty()
    users = ordered(task, "users", tables)
    numbers = {number: part["samples"].to_numpy() for (number,), part in users.group_by("realization")}
    return pl.concat(
        partition.holdings(values, data.y_train, numbers[number], number, data.users) for number in task.span
    )
