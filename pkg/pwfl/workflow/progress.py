"""Print the progress of a run, at growing intervals while nothing is new, and its result."""

import html
import json
import re
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from pwfl.process import interrupts
from pwfl.report.words import plural
from pwfl.store.items import Store
from pwfl.workflow.costs import duration

LOOK_SECONDS = 2.0  # between checks of the store
LINE_SECONDS, LONGEST_SECONDS = 10.0, 1800.0  # between lines while nothing is new: minimum, maximum
QUIET_SECONDS = 60.0  # without news, after which a line names the running jobs
NAMED = 3  # most jobs that such a line names
executor = "local"  # Snakemake's executor, set by the Snakefile
complete: Path | None = None  # results folder of a study that needs no computation, set by the Snakefile


class _Part:
    """A part that was started, with the number of its items that are computed."""

    def __init__(self, mark: Path) -> None:
        manifest, root = json.loads(mark.with_suffix(".json").read_bytes()), mark.parents[3]
        self.rule, self.seconds, self.mark, self.start = mark.parent.name, manifest["seconds"], mark, time.monotonic()
        self.name, self.store = f"{self.rule} {mark.stem}", Store(root / "store")
        if manifest["again"]:
            self.store.note_old(manifest["items"])
        self.left = self.store.lacking(manifest["items"])
        self.count = len(self.left)
        self.log = root / "logs" / mark.parents[1].name / self.rule / f"{mark.stem}.log"
        self.log_before, self.mark_before = _changed(self.log), _changed(mark)  # an earlier run may have left both

    def waits(self, now: float) -> str:
        """Describe how long the part has been running or, on a cluster until its job begins a log, in the queue."""
        since = duration(now - self.start)
        if executor != "local" and _changed(self.log) in (None, self.log_before):
            return f"{self.name} in the queue for {since}"
        return f"{self.name} running for {since} (log: {self.log})"

    def computed(self) -> int:
        """Count the part's items that are computed."""
        self.left = self.store.lacking(self.left)
        return self.count - len(self.left)


def _changed(path: Path) -> int | None:
    """Return the time in ns at which a file was changed; None: there is none."""
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return None


class Progress:
    """The progress of a run's parts; a thread prints it to standard error."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: list[_Part] = []
        self.ended = self.lost = 0  # items of parts that ended; those of them that failed or were skipped
        self.total: int | None = None
        # Seconds by rule: estimated ones of parts that have not begun; of parts that computed all of their items, the
        # estimated and the measured ones.
        self.waiting, self.estimated, self.took = (defaultdict[str, float](float) for _ in range(3))
        self.start = self.news = time.monotonic()  # news: time of the last new result or change of running parts
        self.printed, self.seen = float("-inf"), None  # time of the last line; state at the last news

    def started(self, mark: Path) -> None:
        """Record that a part starts, by its mark."""
        with self.lock:
            if self.total is None:
                manifests = [json.loads(path.read_bytes()) for path in mark.parents[1].glob("*/*.json")]
                self.total = sum(len(part["items"]) for part in manifests)
                for part in manifests:
                    self.waiting[part["rule"]] += part["seconds"] if part["items"] else 0
                self.start = time.monotonic()
                threading.Thread(target=self._print, daemon=True).start()
            part = _Part(mark)
            if part.count:  # otherwise the store has all items
                self.running.append(part)
                self.waiting[part.rule] -= part.seconds

    def failed(self, mark: Path) -> None:
        """Record that a part's job died: the part waits for another attempt, if there is one."""
        with self.lock:
            for part in [part for part in self.running if part.mark == mark]:
                self.running.remove(part)
                self.waiting[part.rule] += part.seconds

    def line(self, now: float) -> str:
        """Describe the run's progress and the running jobs; after QUIET_SECONDS without news, also for how long."""
        with self.lock:
            for part in [part for part in self.running if _changed(part.mark) not in (None, part.mark_before)]:
                self.running.remove(part)
                self.ended += part.count
                if lost := part.count - part.computed():
                    self.lost += lost
                else:
                    self.took[part.rule] += now - part.start
                    self.estimated[part.rule] += part.seconds
            counts = [(part, part.computed()) for part in self.running]
            computed = self.ended - self.lost + sum(count for _, count in counts)
            if (seen := (computed, self.ended, {part.name for part in self.running})) != self.seen:
                self.seen, self.news = seen, now
            paces = {rule: took / self.estimated[rule] for rule, took in self.took.items()}
            left = sum(seconds * paces.get(rule, 1.0) for rule, seconds in self.waiting.items())
            for part, count in counts:
                share, estimate = count / part.count, part.seconds * paces.get(part.rule, 1.0)
                left += (1 - share) * max(estimate, (now - part.start) / (share or 1))
            lost = f", {self.lost} failed or skipped" if self.lost else ""
            text = f"{computed} of {self.total} results{lost}, about {duration(max(0.0, left), 'core-')} left"
            if now - self.news >= QUIET_SECONDS:
                jobs = ", ".join(part.waits(now) for part in self.running[:NAMED]) or "no job of a stage is running"
                more = len(self.running) - NAMED
                jobs += f" and {plural(more, 'more job')}" if more > 0 else ""
                return f"{text}; no new result for {duration(now - self.news)}; {jobs}"
            names = ", ".join(f"{part.name} ({count} of {part.count})" for part, count in counts)
            return text + (f"; running {names}" if names else "")

    def _print(self) -> None:
        while not interrupts.status():
            self.look()
            time.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Print a line if something is new, or if the last line is old enough: at growing intervals."""
        now = time.monotonic()
        line, quiet = self.line(now), now - self.news
        is_over = self.ended == self.total and quiet < QUIET_SECONDS
        if not quiet or (now - self.printed >= min(max(LINE_SECONDS, quiet / 2), LONGEST_SECONDS) and not is_over):
            print(f"{now - self.start:5.0f} s: {line}", file=sys.stderr, flush=True)
            self.printed = now


def result(folder: str | Path) -> str:
    """Compose the last lines of a run: the report, its answer in two lines, the next step; "" without a report."""
    page = Path(folder, "index.html")
    if not page.exists():
        return ""
    finished = f"\nThe study is finished. Report: {page} (`pwfl open {page.parent.name}`)"
    further = "Next: change a value in the config and run again; only results that depend on it are recomputed."
    return "\n".join([finished, *answer(page), further])


def answer(page: Path) -> list[str]:
    """Read the two lines of a study report's answer: the result, and whether audits and claims agree."""
    head = page.read_text(encoding="utf-8").partition("<title>")[0]
    return [html.unescape(text) for text in re.findall(r'<meta name="(?:description|audit)" content="([^"]*)">', head)]
