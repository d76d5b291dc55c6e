"""What a person sees of a run: every few seconds a line of its progress, and at the end a summary of its results.

After a minute without a new result the lines say, at growing distances, what the run waits for, since when.
"""

import html
import json
import re
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

from pwfl.process import interrupts
from pwfl.report.words import plural
from pwfl.store.items import Store
from pwfl.workflow.costs import duration

LOOK_SECONDS = 2.0  # between looks at the store
LINE_SECONDS = 10.0  # after which a line is printed though nothing is new
QUIET_SECONDS, LONGEST_SECONDS = 60.0, 1800.0  # after which what is waited for is said; between such lines at most
NAMED = 3  # jobs that such a line names
WHERE = {  # executor -> where to look, when nothing happens
    "slurm": "`squeue --me` (jobs), `sinfo` (nodes that are down or drained), .snakemake/slurm_logs/",
}
executor = "local"  # Snakemake's, which the Snakefile says
complete: Path | None = None  # the folder of a study of which the Snakefile finds nothing to do


class _Part:
    """A part that was started: which of what its job computes there is."""

    def __init__(self, mark: Path) -> None:
        held, root = json.loads(mark.with_suffix(".json").read_bytes()), mark.parents[3]
        self.rule, self.seconds, self.mark, self.begun = mark.parent.name, held["seconds"], mark, time.monotonic()
        self.name, self.store = f"{self.rule} {mark.stem}", Store(root / "store")
        if held["again"]:
            self.store.note_old(held["items"])
        self.left = self.store.lacking(held["items"])
        self.count = len(self.left)
        self.log = root / "logs" / mark.parents[1].name / self.rule / f"{mark.stem}.log"
        self.before = [_changed(path) for path in (self.log, self.mark)]  # a run before may have left both

    def is_queued(self) -> bool:
        """Whether its job has not begun, as in the queue of a cluster."""
        return executor != "local" and _changed(self.log) in (None, self.before[0])

    def is_done(self) -> bool:
        """Whether its job has made its mark."""
        return _changed(self.mark) not in (None, self.before[1])

    def computed(self) -> int:
        """How many of the items there are."""
        self.left = self.store.lacking(self.left)
        return self.count - len(self.left)


def _changed(path: Path) -> int | None:
    """When a file was changed; None: there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


class Progress:
    """Follows the parts of a run; a thread prints a line to standard error every few seconds."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: list[_Part] = []
        self.ended = 0  # items of parts that ended, failed or skipped ones included
        self.lost = 0  # items of parts that ended that there are not
        self.total: int | None = None
        # By rule: seconds that parts are to take that have not begun; that those took that computed all of their items;
        # and that these were to take.
        self.waiting: dict[str, float] = defaultdict(float)
        self.took: dict[str, float] = defaultdict(float)
        self.estimated: dict[str, float] = defaultdict(float)
        self.start = self.news = time.monotonic()  # news: when there was a new result, or another part was running
        self.seen: tuple | None = None  # what there was then
        self.last, self.printed, self.told = "", float("-inf"), float("-inf")  # how far it was; when lines were printed

    def started(self, mark: Path) -> None:
        """Take note of a part that starts, by its mark."""
        with self.lock:
            if self.total is None:
                held = {path: json.loads(path.read_bytes()) for path in mark.parents[1].glob("*/*.json")}
                computed = {path: part for path, part in held.items() if part["computes"]}
                self.total = sum(part["computes"] for part in computed.values())
                for path, part in computed.items():
                    self.waiting[path.parent.name] += part["seconds"]
                self.start = time.monotonic()
                threading.Thread(target=self._print, daemon=True).start()
            part = _Part(mark)
            if part.count:  # of others the store has all
                self.running.append(part)
                self.waiting[part.rule] -= part.seconds

    def failed(self, mark: Path) -> None:
        """Take note of a part whose job died: it is to be computed, by another try, if there is one."""
        with self.lock:
            for part in [part for part in self.running if part.mark == mark]:
                self.running.remove(part)
                self.waiting[part.rule] += part.seconds

    def line(self) -> str:
        """How far the run is."""
        with self.lock:
            for part in [part for part in self.running if part.is_done()]:
                self._ended(part)
            counts = [(part, part.computed()) for part in self.running]
            computed = self.ended - self.lost + sum(count for _, count in counts)
            if (seen := (computed, self.ended, self.lost, {part.name for part in self.running})) != self.seen:
                self.seen, self.news = seen, time.monotonic()
            left = sum(seconds * self._pace(rule) for rule, seconds in self.waiting.items())
            left += sum(self._left(part, count / part.count) for part, count in counts)
            now = ", ".join(f"{part.name} ({count} of {part.count})" for part, count in counts)
            running, time_left = f"; running {now}" if now else "", duration(max(0.0, left), "core-")
            lost = f", {self.lost} failed or skipped" if self.lost else ""
            about = "at least" if any(not count and self._is_late(part) for part, count in counts) else "about"
            return f"{computed} of {self.total} results{lost}, {about} {time_left} left{running}"

    def _ended(self, part: _Part) -> None:
        self.running.remove(part)
        self.ended += part.count
        lost = part.count - part.computed()
        self.lost += lost
        if not lost:
            self.took[part.rule] += time.monotonic() - part.begun
            self.estimated[part.rule] += part.seconds

    def _pace(self, rule: str) -> float:
        """How many times longer than estimated a rule's parts took."""
        return self.took[rule] / self.estimated[rule] if self.estimated[rule] else 1.0

    def _is_late(self, part: _Part) -> bool:
        return time.monotonic() - part.begun > part.seconds * self._pace(part.rule)

    def _left(self, part: _Part, share: float) -> float:
        """Seconds that a running part with a share of its items still takes: as estimated, or more by its pace."""
        estimate = part.seconds * self._pace(part.rule)
        return max(estimate, (time.monotonic() - part.begun) / share if share else 0.0) * (1 - share)

    def waits(self) -> str:
        """What the run waits for, since when, and where more is to be seen."""
        with self.lock:
            parts = [f"no new result for {duration(time.monotonic() - self.news)}"]
            begun = "running" if executor == "local" else "begun"  # it may have been queued again
            for what, is_queued in ((begun, False), ("in the queue", True)):
                if jobs := [part for part in self.running if part.is_queued() == is_queued]:
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


def _named(jobs: list[_Part]) -> str:
    """Jobs, with the time since each was started; of many the first ones."""
    now = time.monotonic()
    names = [
        f"{part.name} for {duration(now - part.begun)}" + ("" if part.is_queued() else f" (log: {part.log})")
        for part in jobs[:NAMED]
    ]
    return ", ".join(names) + (f" and {plural(len(jobs) - NAMED, 'more job')}" if len(jobs) > NAMED else "")


def result(folder: str | Path) -> str:
    """The last lines of a run: the page, its answer in two lines, next steps; empty without a page."""
    page = Path(folder, "index.html")
    if not page.exists():
        return ""
    return "\n".join(
        [
            f"\nThe study is finished. Report: {page} (`pwfl open {page.parent.name}`)",
            *answer(page),
            "Next: change a value in the config and run again; only results that depend on it are recomputed.",
        ]
    )


def answer(page: Path) -> list[str]:
    """What a study's page answers, in two lines: what came out, and whether audits and claims agree."""
    head = page.read_text(encoding="utf-8").partition("<title>")[0]
    return [html.unescape(text) for text in re.findall(r'<meta name="(?:description|audit)" content="([^"]*)">', head)]
