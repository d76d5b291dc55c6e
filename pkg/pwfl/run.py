"""The stages as a job and `simulate` call them, without files: here are times, logs and quiet; the work is `pwfl.work`.

Each function is handed the parameters that its stage is declared to read, and returns tables by name. This module is
in no address, so nothing that it does may change a table.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from time import monotonic

from pwfl.runtime import threads
from pwfl.scenario.values import Values
from pwfl.systems import registry
from pwfl.work import channel as of_channel
from pwfl.work import stage
from pwfl.work.stage import Tables

log = logging.getLogger(__name__)


def imported(system: str, paths: Mapping[str, str]) -> Tables:
    """Tables from outside, checked, by the files that hold them; none where there are none."""
    return of_channel.imported(system, paths)


def channel(values: Values, realizations: range, outside: Tables | None = None) -> Tables:
    """The tables `users` and `links` of some consecutive realizations; made of tables `imported`, where there are any.

    These may hold more realizations.
    """
    return of_channel.run(values, realizations, outside)


def schedule(values: Values, scheduler: str, found: Tables) -> Tables:
    """The tables `schedule` and `schedule_status`, from `users` and `links`."""
    return stage.run(values, "schedule", found, scheduler)


def noise(values: Values, scheme: str, found: Tables) -> Tables:
    """The tables `noise` and `noise_status`, from `users` and `schedule`."""
    return stage.run(values, "noise", found, scheme)


def train(values: Values, data, realizations: range, found: Tables, checkpoint=None) -> Tables:
    """The tables `history` and `holdings` of some realizations, which `users`, `schedule` and `noise` must cover.

    Parameters
    ----------
    data
        A `datasets.Dataset`; None where users' data are simulated.
    checkpoint
        A `Checkpoint`: realizations that it holds are not trained again, and it grows with each one.
    """
    from pwfl.work import train as of_train  # here, as other stages would wait

    with quiet_tensorflow():
        registry.system(values.system).part("train")
    told = partial(_told, asked=len(realizations))
    return of_train.run(values, data, realizations, found, checkpoint, told)


def account(values: Values, found: Tables) -> Tables:
    """The tables `leakage` and `outcome`, from `users`, `schedule` and `noise`."""
    return stage.run(values, "account", found)


def audit(values: Values, found: Tables) -> Tables:
    """The table `audit`, from all tables of the earlier stages but `history`; they may hold more realizations."""
    from pwfl.work import audit as of_audit  # here, as other stages would wait for scipy.stats

    with quiet_tensorflow():
        registry.system(values.system).part("audit")
    return of_audit.run(values, found)


@contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Keep TensorFlow from writing to standard error while it is imported, which a level of logging does not.

    It has one thread from then on, so that bits depend on no number of cores.
    """
    threads.before_tensorflow()
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
    threads.limit_tensorflow()


def _told(missing: list[int], asked: int) -> Iterator[int]:
    """The realizations that are to be trained, with lines in the log on how long it takes."""
    log.info("%d of %d realizations to train", len(missing), asked)
    start = monotonic()
    for done, realization in enumerate(missing, 1):
        yield realization
        left = (monotonic() - start) / done * (len(missing) - done)
        log.info("%d of %d trained, about %.0f s left", done, len(missing), left)
