"""The stages' work, by the module of a system: what a job does, what `simulate` does, without files.

Each function is handed the part of a scenario that its stage is declared to read, and returns tables by name. The
tables that come in are put into the order of their keys first, so that results do not depend on it.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic

import polars as pl

from pwfl import tables
from pwfl.learning import partition
from pwfl.runtime import threads
from pwfl.stages import IMPORTED, STAGES
from pwfl.systems import registry

log = logging.getLogger(__name__)

Tables = dict[str, pl.DataFrame]


class Handed(dict):
    """The tables that a stage is handed; asking for another one says where it would be declared."""

    def __init__(self, stage: str, found: Tables):
        super().__init__(found)
        self.stage = stage

    def __missing__(self, table: str):
        """Raise KeyError for a table that the stage does not read."""
        raise KeyError(
            f"stage {self.stage} uses the table {table!r}, which it is not handed: it reads {', '.join(self)}; if "
            f"{table!r} is of an earlier stage, add it to `reads` in the system's catalog"
        )


def imported(system: str, paths: Mapping[str, str]) -> Tables:
    """Tables from outside, checked, by the files that hold them; none where there are none."""
    return registry.system(system).part(IMPORTED).run(paths) if paths else {}


def channel(scenario, realizations: range, outside: Tables | None = None) -> Tables:
    """The tables `users` and `links` of some consecutive realizations; made of tables `imported`, where there are any.

    These may hold more realizations.
    """
    asked = pl.col("realization").is_between(realizations.start, realizations.stop, closed="left")
    handed = [{name: frame.filter(asked) for name, frame in outside.items()}] if outside else []
    return _run(scenario, "channel", realizations, *handed)


def schedule(scenario, scheduler: str, found: Tables) -> Tables:
    """The tables `schedule` and `schedule_status`, from `users` and `links`."""
    handed = _inputs(scenario, "schedule", found, scheduler)
    return _run(scenario, "schedule", scheduler, handed)


def noise(scenario, scheme: str, found: Tables) -> Tables:
    """The tables `noise` and `noise_status`, from `users` and `schedule`."""
    handed = _inputs(scenario, "noise", found, scheme)
    return _run(scenario, "noise", scheme, handed)


def train(scenario, data, realizations: range, found: Tables, checkpoint=None) -> Tables:
    """The tables `history` and `holdings` of some realizations, which `users`, `schedule` and `noise` must cover.

    Parameters
    ----------
    data
        A `datasets.Dataset`; None where users' data are simulated.
    checkpoint
        A `Checkpoint`: realizations that it holds are not trained again, and it grows with each one.
    """
    with quiet_tensorflow():
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


def account(scenario, found: Tables) -> Tables:
    """The tables `leakage` and `outcome`, from `users`, `schedule` and `noise`."""
    return _run(scenario, "account", _inputs(scenario, "account", found))


def audit(scenario, found: Tables) -> Tables:
    """The table `audit`, from all tables of the earlier stages but `history`; they may hold more realizations."""
    from pwfl.privacy import audit as audits  # here, as other stages would wait for scipy.stats

    with quiet_tensorflow():
        module = _module(scenario, "audit")
    asked = pl.col("realization") < scenario.realizations
    handed = _inputs(scenario, "audit", found)
    own = Handed("audit", {name: frame.filter(asked) for name, frame in handed.items()})
    with threads.one_of_blas():
        return {"audit": audits.table(module.attacks(scenario, own))}


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
