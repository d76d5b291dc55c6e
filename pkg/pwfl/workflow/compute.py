"""Compute the missing items of a part, each into its folder of the store: the work of a part's job."""

import json
import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

from pwfl import execution, tables
from pwfl.errors import describe
from pwfl.execution.stage import Task
from pwfl.learning import stored
from pwfl.process import devices, supervisor
from pwfl.report.columns import with_point
from pwfl.scenario.sweep import Point
from pwfl.scenario.values import build_values
from pwfl.stages import AUDIT, GRAPH
from pwfl.store import addressing, grids, sealed
from pwfl.store.items import COST, Store

log = logging.getLogger(__name__)

PATIENCE = 1.5  # factor of a part's estimated seconds: how long to wait for items that another run computes
POLL_SECONDS = 0.5
GROWTH = 2 * 2**30  # bytes by which a process may grow before another process continues with the other items


def compute(part: dict, root: Store, workspace: Path, failed: set[str], reporter: supervisor.Reporter) -> bool:
    """Compute the missing items of a part. Returns False if another process must continue.

    `part` is a manifest (`pwfl.workflow.outlook`). Items with keys in `failed` are left out. A failed item blocks only
    items that need it. If a batch of chunks fails, its missing chunks are computed one by one.
    """
    if part["device"] == devices.CPU:
        devices.hide()
    left = [item for item in part["items"] if item["key"] not in failed]
    patience, before = PATIENCE * part["seconds"], supervisor.memory()
    end, single = time.monotonic() + patience, set()
    while left := root.lacking(left):
        # Items that another run computes are left for last: they probably exist by then.
        free = [item for item in left if not root.is_announced(item["key"], patience)]
        if not free and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
            continue
        batch = _consecutive(free or left, single)
        left = [item for item in left if item not in batch]
        keys = [item["key"] for item in batch]
        inputs = (path for item in batch for paths in item["inputs"].values() for path in paths)
        if absent := [path for path in inputs if not root.path(path).exists()]:
            log.info("%s: skipped, since its input %s is missing", keys[0], absent[0])
            if forced := [item["key"] for item in batch if item.get("old") is not None]:
                reporter.failed(forced, f"its input {absent[0]} was deleted; `--config wanted=store` computes it")
            continue
        log.info("computing %s%s; %d more in this job", keys[0], f" to {keys[-1]}" * (len(keys) > 1), len(left))
        reporter.begin(keys)
        root.announce(keys, workspace)
        work = partial(_make, batch, part, root, workspace, reporter)
        try:
            supervisor.run_apart(work) if part["runs_user_code"] else work()
        except Exception as error:
            log.exception("%s failed", keys[0])
            missing = root.lacking(batch)
            if len(batch) > 1:
                single |= {item["key"] for item in missing}
                left = missing + left
                continue
            text = str(error) if isinstance(error, ChildProcessError) else describe(error)
            reporter.failed([item["key"] for item in missing], text)
        if left and supervisor.memory() - before > GROWTH:
            log.info("memory use grew by %.1f GiB; continuing in a new process", GROWTH / 2**30)
            return False
    return True


def _consecutive(items: list[dict], single: set[str]) -> list[dict]:
    """Select the first items to compute as one batch: consecutive chunks of a training run; those in `single` alone."""
    batch = items[:1]
    if batch[0]["stage"] == "train":
        for before, item in pairwise(items):
            follows = grids.bounds(before["chunk"])[1] == grids.bounds(item["chunk"])[0]
            if single & {before["key"], item["key"]} or before["address"] != item["address"] or not follows:
                break
            batch.append(item)
    return batch


def _make(items: list[dict], part: dict, root: Store, workspace: Path, reporter: supervisor.Reporter) -> None:
    """Compute a batch of items, and write each to its folder of the store."""
    first = items[0]
    description, last = part["descriptions"][first["address"]], (time.monotonic(), time.process_time())

    @contextmanager
    def save(item: dict) -> Generator[Path]:
        """Yield a folder for an item's files, which becomes the item; add its cost and its address's description."""
        nonlocal last
        with root.create(item["key"], item["files"], workspace, item.get("old")) as folder:
            yield folder
            if lacking := [file for file in item["files"] if not (folder / file).exists()]:
                raise FileNotFoundError(f"{item['stage']} made no {lacking[0]}")
            before, last = last, (time.monotonic(), time.process_time())
            cost = {
                "seconds": last[0] - before[0],
                "cpu_seconds": last[1] - before[1],
                "realizations": len(grids.realizations(item["chunk"])),
                "system": description.get("system", ""),
                "processor": devices.processor(part["device"]),
            }
            (folder / COST).write_text(json.dumps(cost), encoding="utf-8")
        root.describe(description)

    addressing.check_code(description, part["stamp"])
    if first["stage"] not in GRAPH:
        paths = {name: [str(root.path(path)) for path in paths] for name, paths in first["inputs"].items()}
        with save(first) as folder:
            _job(first["stage"])(description | first["arguments"], paths, folder)
            sealed.seal_folder(folder)
        return
    addressing.check_contents(description, first["outside"])
    inputs = dict(first["outside"])
    for name in first["inputs"]:
        paths = list(dict.fromkeys(str(root.path(path)) for item in items for path in item["inputs"][name]))
        if name in stored.FIELDS:
            inputs[name] = stored.read(name, paths[0], description["upstream"][name])
        else:
            inputs[name] = tables.read(name, paths, description)
    values, span = build_values(description["parameters"]), grids.realizations(first["chunk"])
    task = Task(description["stage"], values, description["variant"], span or None, device=part["device"])

    def write(item: dict, frames: dict) -> None:
        with save(item) as folder:
            for name, content in frames.items():
                to_file = stored.write if name in stored.FIELDS else tables.write
                (file,) = (file for file in item["files"] if file.partition(".")[0] == name)
                to_file(content, name, str(folder / file), description)
        if rest := items[items.index(item) + 1 :]:
            reporter.begin([later["key"] for later in rest])

    if len(items) > 1:
        chunks = {grids.realizations(item["chunk"]): partial(write, item) for item in items}
        spans = [*chunks]
        execution.execute(task._replace(realizations=range(spans[0].start, spans[-1].stop), chunks=chunks), inputs)
    else:
        write(first, execution.execute(task, inputs))


def _job(name: str) -> Callable[[dict, dict, Path], None]:
    """Return the function that computes the audit, or a job of the report, from the stages' tables."""
    if name == AUDIT:
        return _audit
    from pwfl.workflow import reporting  # here: stages and audits would wait for drawing packages

    return reporting.JOBS[name]


def _audit(job: dict, inputs: dict[str, list[str]], folder: Path) -> None:
    """Audit a scenario's schemes."""
    values = build_values(job["parameters"])
    frame = execution.audit_schemes(values, tables.read_schemes(inputs, job, values))
    tables.write_report(with_point({AUDIT: frame}, Point(*job["point"])), folder)
