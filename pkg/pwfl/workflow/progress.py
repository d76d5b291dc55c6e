"""What a person sees of a run: every few seconds a line of its progress, and at the end a summary of its results.

After a minute without a new result the lines say, at growing distances, what the run waits for, since when.
"""

import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from pwfl.process import interrupts
from pwfl.store.items import Store
from pwfl.workflow.costs import counted, duration

LOOK_SECONDS = 2.0  # between looks at the store
LINE_SECONDS = 10.0  # after which a line is printed though nothing is new
QUIET_SECONDS, LONGEST_SECONDS = 60.0, 1800.0  # after which what is waited for is said; between such lines at most
NAMED = 3  # jobs that such a line names
WHERE = {  # executor -> where to look, when nothing happens
    "slurm": "`squeue --me` (jobs), `sinfo` (nodes that are down or drained), .snakemake/slurm_logs/",
}
executor = "local"  # Snakemake's, which the Snakefile says
complete: Path | None = None  # the folder of a study of which the Snakefile finds nothing to do


class _Batch:
    """A batch that was started: which of its items the store has."""

    def __init__(self, done: Path) -> None:
        held = json.loads((done.parent / "batches" / f"{done.stem}.json").read_bytes())
        self.name, self.seconds, self.done = done.stem, held["seconds"], done
        self.rule, self.begun = rule_of(done), time.monotonic()
        self.store = Store(done.parents[2] / "store")
        self.left = [(item["key"], item["files"]) for item in held["items"]]
        self.count = len(self.left)
        self.log = done.parents[2] / "logs" / done.parent.name / f"{done.stem}.log"

    def is_queued(self) -> bool:
        """Whether its job has not begun, as in the queue of a cluster."""
        return executor != "local" and not self.log.exists()

    def computed(self) -> int:
        """How many of its items there are."""
        self.left = [item for item in self.left if not self.store.has(*item)]
        return self.count - len(self.left)


def rule_of(path: Path) -> str:
    """The rule of a batch, by a file that is named after the batch."""
    return path.stem.rpartition("-")[0]


class Progress:
    """Follows the batches of a run; a thread prints a line to standard error every few seconds."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: list[_Batch] = []
        self.ended = 0  # items of batches that ended, failed or skipped ones included
        self.lost = 0  # items of batches that ended that there are not
        self.total: int | None = None
        self.waiting: Counter[str] = Counter()  # rule -> seconds that batches are to take that have not begun
        self.took: Counter[str] = Counter()  # rule -> seconds that batches took that computed all of their items
        self.estimated: Counter[str] = Counter()  # rule -> seconds that these were to take
        self.start = self.news = time.monotonic()  # news: when there was a new result, or another batch was running
        self.seen: tuple | None = None  # what there was then
        self.last, self.printed, self.told = "", float("-inf"), float("-inf")  # how far it was; when lines were printed

    def started(self, done: Path) -> None:
        """Take note of a batch that starts, by the file that says that it is done."""
        with self.lock:
            if self.total is None:
                paths = list((done.parent / "batches").glob("*.json"))
                batches = [json.loads(path.read_bytes()) for path in paths]
                self.total = sum(len(batch["items"]) for batch in batches)
                for path, held in zip(paths, batches, strict=True):
                    self.waiting[rule_of(path)] += held["seconds"]
                self.start = time.monotonic()
                threading.Thread(target=self._print, daemon=True).start()
            batch = _Batch(done)
            self.running.append(batch)
            self.waiting[batch.rule] -= batch.seconds

    def failed(self, done: Path) -> None:
        """Take note of a batch whose job died: it is to be computed, by another try, if there is one."""
        with self.lock:
            for batch in [batch for batch in self.running if batch.done == done]:
                self.running.remove(batch)
                self.waiting[batch.rule] += batch.seconds

    def line(self) -> str:
        """How far the run is."""
        with self.lock:
            for batch in [batch for batch in self.running if batch.done.exists()]:
                self._ended(batch)
            counts = [(batch, batch.computed()) for batch in self.running]
            computed = self.ended - self.lost + sum(count for _, count in counts)
            if (seen := (computed, self.ended, self.lost, {batch.name for batch in self.running})) != self.seen:
                self.seen, self.news = seen, time.monotonic()
            left = sum(seconds * self._pace(rule) for rule, seconds in self.waiting.items())
            left += sum(self._left(batch, count / batch.count) for batch, count in counts)
            now = ", ".join(f"{batch.name} ({count} of {batch.count})" for batch, count in counts)
            running, time_left = f"; running {now}" if now else "", duration(max(0.0, left), "core-")
            lost = f", {self.lost} failed or skipped" if self.lost else ""
            about = "at least" if any(not count and self._is_late(batch) for batch, count in counts) else "about"
            return f"{computed} of {self.total} results{lost}, {about} {time_left} left{running}"

    def _ended(self, batch: _Batch) -> None:
        self.running.remove(batch)
        self.ended += batch.count
        lost = batch.count - batch.computed()
        self.lost += lost
        if not lost:
            self.took[batch.rule] += time.monotonic() - batch.begun
            self.estimated[batch.rule] += batch.seconds

    def _pace(self, rule: str) -> float:
        """How many times longer than estimated a rule's batches took."""
        return self.took[rule] / self.estimated[rule] if self.estimated[rule] else 1.0

    def _is_late(self, batch: _Batch) -> bool:
        return time.monotonic() - batch.begun > batch.seconds * self._pace(batch.rule)

    def _left(self, batch: _Batch, share: float) -> float:
        """Seconds that a running batch with a share of its items still takes: as estimated, or more by its pace."""
        estimate = batch.seconds * self._pace(batch.rule)
        return max(estimate, (time.monotonic() - batch.begun) / share if share else 0.0) * (1 - share)

    def waits(self) -> str:
        """What the run waits for, since when, and where more is to be seen."""
        with self.lock:
            parts = [f"no new result for {duration(time.monotonic() - self.news)}"]
            begun = "running" if executor == "local" else "begun"  # it may have been queued again
            for what, is_queued in ((begun, False), ("in the queue", True)):
                if jobs := [batch for batch in self.running if batch.is_queued() == is_queued]:
                    parts.append(f"{what}: {_named(jobs)}")
            if not self.running:
                parts.append("no job of a stage is running")
        where = "" if executor == "local" else f". See {WHERE.get(executor, f'the queue of {executor}')}"
        return f"{'; '.join(parts)}{where}"

    def _print(self) -> None:
        while not interrupts.status():
            self.look()
            time.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Print the line that is due, if there is one: how far the run is, or what it waits for."""
        line, now = self.line(), time.monotonic()
        if (quiet := now - self.news) >= QUIET_SECONDS:  # after one minute, two, four and so on; then every half hour
            if now - self.told >= min(quiet / 2, LONGEST_SECONDS):
                self._say(now, f"{line.partition('; running')[0]}; {self.waits()}")
                self.told = now
            return
        self.told, is_over = float("-inf"), self.total is not None and self.ended >= self.total
        is_long_ago = now - self.printed >= LINE_SECONDS - 2 * LOOK_SECONDS  # the next look may take its time
        if line != self.last or (is_long_ago and not is_over):
            self._say(now, line)
            self.last = line

    def _say(self, now: float, text: str) -> None:
        print(f"{now - self.start:5.0f} s: {text}", file=sys.stderr, flush=True)
        self.printed = now


def _named(jobs: list[_Batch]) -> str:
    """Jobs, with the time since each was started; of many the first ones."""
    now = time.monotonic()
    names = [
        f"{batch.name} for {duration(now - batch.begun)}" + ("" if batch.is_queued() else f" (log: {batch.log})")
        for batch in jobs[:NAMED]
    ]
    return ", ".join(names) + (f" and {counted(len(jobs) - NAMED, 'more job')}" if len(jobs) > NAMED else "")


def result(folder: str | Path) -> str:
    """The last lines of a run: the page, the verdicts of claims, next steps; empty without a page."""
    import polars as pl  # here, as the workflow's start would wait for it

    from pwfl.report import statements

    page, claims = Path(folder, "index.html"), Path(folder, "claims.parquet")
    if not page.exists():
        return ""
    judged = statements.summary(pl.read_parquet(claims)) if claims.exists() else []
    lines = [
        f"\nThe study is finished. Report: {page} (`pwfl open {page.parent.name}`)",
        *(
            [*judged, f"All claims, by scenario: {folder}/claims.csv"]
            if judged
            else ["No claim applies to this study."]
        ),
        "Next: change a value in the config and run again; only results that depend on it are recomputed.",
    ]
    return "\n".join(lines)
