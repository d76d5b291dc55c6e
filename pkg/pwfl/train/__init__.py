"""Stage train: federated rounds, accuracy and loss."""

import logging
from importlib import import_module
from time import monotonic

import polars as pl

from pwfl import datasets
from pwfl.train.checkpoint import Checkpoint

log = logging.getLogger(__name__)


def run(
    parameters: dict,
    data: datasets.Dataset | None,
    realizations: range,
    tables: dict[str, pl.DataFrame],
    checkpoint: Checkpoint | None = None,
) -> dict[str, pl.DataFrame]:
    """The table `history` of some realizations, which `users`, `schedule` and `noise` must cover.

    `data` is None where users' data are simulated. With a checkpoint, realizations that it holds are
    not trained again, and it grows with each one.
    """
    train = import_module(f"pwfl.train.{parameters['system']}").trainer(parameters, data, tables)
    histories = checkpoint.restore() if checkpoint else {}
    missing = [realization for realization in realizations if realization not in histories]
    log.info("%d of %d realizations to train", len(missing), len(realizations))
    start = monotonic()
    for done, realization in enumerate(missing, 1):
        histories[realization] = train(realization)
        if checkpoint:
            checkpoint.save(histories)
        left = (monotonic() - start) / done * (len(missing) - done)
        log.info("%d of %d trained, about %.0f s left", done, len(missing), left)
    return {"history": pl.concat([histories[realization] for realization in realizations])}
