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
<<<<<<< HEAD
    return of_channel.run(values, realizations, outside)
=======
    asked = pl.col("realization").is_between(realizations.start, realizations.stop, closed="left")
    handed = [{name: frame.filter(asked) for name, frame in outside.items()}] if outside else []
    return _run(scenario, "channel", realizations, *handed)
>>>>>>> threads


def schedule(values: Values, scheduler: str, found: Tables) -> Tables:
    """The tables `schedule` and `schedule_status`, from `users` and `links`."""
<<<<<<< HEAD
    return stage.run(values, "schedule", found, scheduler)
=======
    handed = _inputs(scenario, "schedule", found, scheduler)
    return _run(scenario, "schedule", scheduler, handed)
>>>>>>> threads


def noise(values: Values, scheme: str, found: Tables) -> Tables:
    """The tables `noise` and `noise_status`, from `users` and `schedule`."""
<<<<<<< HEAD
    return stage.run(values, "noise", found, scheme)
=======
    handed = _inputs(scenario, "noise", found, scheme)
    return _run(scenario, "noise", scheme, handed)
>>>>>>> threads


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
<<<<<<< HEAD
        stage.module(values.system, "train")
    told = partial(_told, asked=len(realizations))
    return of_train.run(values, data, realizations, found, checkpoint, told)
=======
        module = _module(scenario, "train")
    trained = module.trainer(scenario, data, _inputs(scenario, "train", found))
    histories = checkpoint.restore() if checkpoint else {}
    missing = [realization for realization in realizations if realization not in histories]
    log.info("%d of %d realizations to train", len(missing), len(realizations))
    start = monotonic()
    for done, realization in enumerate(missing, 1):
        with threads.one_of_blas():
            histories[realization] = trained(realization)
        if checkpoint:
            checkpoint.save(histories)
        left = (monotonic() - start) / done * (len(missing) - done)
        log.info("%d of %d trained, about %.0f s left", done, len(missing), left)
    holdings = _holdings(scenario, data, realizations, found["users"])
    return {"holdings": holdings, "history": pl.concat([histories[realization] for realization in realizations])}
>>>>>>> threads


def account(values: Values, found: Tables) -> Tables:
    """The tables `leakage` and `outcome`, from `users`, `schedule` and `noise`."""
<<<<<<< HEAD
    return stage.run(values, "account", found)
=======
    return _run(scenario, "account", _inputs(scenario, "account", found))
>>>>>>> threads


def audit(values: Values, found: Tables) -> Tables:
    """The table `audit`, from all tables of the earlier stages but `history`; they may hold more realizations."""
    from pwfl.work import audit as of_audit  # here, as other stages would wait for scipy.stats

    with quiet_tensorflow():
<<<<<<< HEAD
        stage.module(values.system, "audit")
    return of_audit.run(values, found)
=======
        module = _module(scenario, "audit")
    asked = pl.col("realization") < scenario.realizations
    handed = _inputs(scenario, "audit", found)
    own = Handed("audit", {name: frame.filter(asked) for name, frame in handed.items()})
    with threads.one_of_blas():
        return {"audit": audits.table(module.attacks(scenario, own))}
>>>>>>> threads


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


<<<<<<< HEAD
def _told(missing: list[int], asked: int) -> Iterator[int]:
    """The realizations that are to be trained, with lines in the log on how long it takes."""
    log.info("%d of %d realizations to train", len(missing), asked)
    start = monotonic()
    for done, realization in enumerate(missing, 1):
        yield realization
        left = (monotonic() - start) / done * (len(missing) - done)
        log.info("%d of %d trained, about %.0f s left", done, len(missing), left)
=======
def _module(scenario, stage: str):
    return registry.system(scenario.system).part(stage)


def _inputs(scenario, stage: str, found: Tables, variant: str | None = None) -> Tables:
    """The tables that a stage's variant reads by its catalog, in the order of their keys."""
    wanted = registry.reads(scenario.system, stage, variant)
    return Handed(
        stage, {name: tables.ordered(found[name], tables.schema(scenario.system, name), name) for name in wanted}
    )


def _holdings(scenario, data, realizations: range, users: pl.DataFrame) -> pl.DataFrame:
    """Who holds what, where the catalog says that `partition` deals it out."""
    if not registry.system(scenario.system).catalog.deals:
        return tables.schema(scenario.system, "holdings").create_empty()
    users = tables.ordered(users, tables.schema(scenario.system, "users"), "users")
    numbers = {number: part["samples"].to_numpy() for (number,), part in users.group_by("realization")}
    return pl.concat(partition.holdings(scenario, data.y_train, numbers[number], number) for number in realizations)


def _run(scenario, stage: str, *arguments) -> Tables:
    """What a stage returns. Raises TypeError where that is not its tables by name."""
    module = _module(scenario, stage)
    with threads.one_of_blas():
        made = module.run(scenario, *arguments)
    if not isinstance(made, dict) or set(made) != set(STAGES[stage].makes):
        found = sorted(made) if isinstance(made, dict) else type(made).__name__
        raise TypeError(f"stage {stage} must return a dict of the tables {STAGES[stage].makes}, returned {found}")
    return made
>>>>>>> threads
