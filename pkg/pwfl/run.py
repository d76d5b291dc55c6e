"""The stages' work, by the module of a system: what a job does, what `simulate` does, without files.

Each function is handed the part of a scenario that its stage is declared to read, and returns tables by name. The
tables that come in are put into the order of their keys first, so that results do not depend on it.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import polars as pl

from pwfl import tables
from pwfl.privacy import audit as audits
from pwfl.stages import STAGES
from pwfl.systems import registry

log = logging.getLogger(__name__)

Tables = dict[str, pl.DataFrame]


def channel(scenario, realizations: range) -> Tables:
    """The tables `users` and `links` of some consecutive realizations."""
    return _module(scenario, "channel").run(scenario, realizations)


def schedule(scenario, scheduler: str, found: Tables) -> Tables:
    """The tables `schedule` and `schedule_status`, from `users` and `links`."""
    return _module(scenario, "schedule").run(scenario, scheduler, _inputs(scenario, "schedule", found))


def noise(scenario, scheme: str, found: Tables) -> Tables:
    """The tables `noise` and `noise_status`, from `users` and `schedule`."""
    return _module(scenario, "noise").run(scenario, scheme, _inputs(scenario, "noise", found))


def train(scenario, data, realizations: range, found: Tables, checkpoint=None) -> Tables:
    """The table `history` of some realizations, which `users`, `schedule` and `noise` must cover.

    Parameters
    ----------
    data
        A `datasets.Dataset`; None where users' data are simulated.
    checkpoint
        A `Checkpoint`: realizations that it holds are not trained again, and it grows with each one.
    """
    with _quiet_tensorflow():
        module = _module(scenario, "train")
    trained = module.trainer(scenario, data, _inputs(scenario, "train", found))
    histories = checkpoint.restore() if checkpoint else {}
    missing = [realization for realization in realizations if realization not in histories]
    log.info("%d of %d realizations to train", len(missing), len(realizations))
    start = monotonic()
    for done, realization in enumerate(missing, 1):
        histories[realization] = trained(realization)
        if checkpoint:
            checkpoint.save(histories)
        left = (monotonic() - start) / done * (len(missing) - done)
        log.info("%d of %d trained, about %.0f s left", done, len(missing), left)
    return {"history": pl.concat([histories[realization] for realization in realizations])}


def account(scenario, found: Tables) -> Tables:
    """The tables `leakage` and `outcome`, from `users`, `schedule` and `noise`."""
    return _module(scenario, "account").run(scenario, _inputs(scenario, "account", found))


def audit(scenario, found: Tables) -> Tables:
    """The table `audit`, from all tables of the earlier stages but `history`; they may hold more realizations."""
    with _quiet_tensorflow():
        module = _module(scenario, "audit")
    own = {
        name: frame.filter(pl.col("realization") < scenario.realizations)
        for name, frame in _inputs(scenario, "audit", found).items()
    }
    return {"audit": audits.table(module.attacks(scenario, own))}


@contextmanager
def _quiet_tensorflow() -> Iterator[None]:
    """Keep TensorFlow from writing to standard error while it is imported, which a level of logging does not."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _module(scenario, stage: str):
    return registry.system(scenario.system).part(stage)


def _inputs(scenario, stage: str, found: Tables) -> Tables:
    return {
        name: tables.ordered(found[name], tables.schema(scenario.system, name), name)
        for name in STAGES[stage].reads
        if name in found
    }
