"""What a person sees of a run: lines of its progress, at growing distances where nothing is new, and what came out."""

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

LOOK_SECONDS = 2.0  # between looks at the store
LINE_SECONDS, LONGEST_SECONDS = 10.0, 1800.0  # between lines where nothing is new: at least, at most
QUIET_SECONDS = 60.0  # after which a line says what is waited for
NAMED = 3  # jobs that such a line names
executor = "local"  # Snakemake's, which the Snakefile says
complete: Path | None = None  # the folder of a study of which the Snakefile finds nothing to do


class _Part:
    """A part that was started: which of what its job computes there is."""

    def __init__(self, mark: Path) -> None:
        manifest, root = json.loads(mark.with_suffix(".json").read_bytes()), mark.parents[3]
        self.rule, self.seconds, self.mark, self.start = mark.parent.name, manifest["seconds"], mark, time.monotonic()
        self.name, self.store = f"{self.rule} {mark.stem}", Store(root / "store")
        if manifest["again"]:
            self.store.note_old(manifest["items"])
        self.left = self.store.lacking(manifest["items"])
        self.count = len(self.left)
        self.log = root / "logs" / mark.parents[1].name / self.rule / f"{mark.stem}.log"
        self.log_before, self.mark_before = _changed(self.log), _changed(mark)  # a run before may have left both

    def waits(self, now: float) -> str:
        """How long it has been running or, on a cluster, in the queue: until its job begins a log."""
        since = duration(now - self.start)
        if executor != "local" and _changed(self.log) in (None, self.log_before):
            return f"{self.name} in the queue for {since}"
        return f"{self.name} running for {since} (log: {self.log})"

    def computed(self) -> int:
        """How many of the items there are."""
        self.left = self.store.lacking(self.left)
        return self.count - len(self.left)


def _changed(path: Path) -> int | None:
    """When a file was changed; None: there is none."""
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return None


class Progress:
    """Follows the parts of a run; a thread prints lines to standard error."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: list[_Part] = []
        self.ended = self.lost = 0  # items of parts that ended; those of them that failed or were skipped
        self.total: int | None = None
        # Seconds by rule: estimated ones of parts that have not begun; of parts that computed all of their items, the
        # estimated ones, and those that they took.
        self.waiting, self.estimated, self.took = (defaultdict[str, float](float) for _ in range(3))
        self.start = self.news = time.monotonic()  # news: when there was a new result, or another part was running
        self.printed, self.seen = float("-inf"), None  # when a line was; what there was at the last news

    def started(self, mark: Path) -> None:
        """Take note of a part that starts, by its mark."""
        with self.lock:
            if self.total is None:
                manifests = [json.loads(path.read_bytes()) for path in mark.parents[1].glob("*/*.json")]
                self.total = sum(len(part["items"]) for part in manifests)
                for part in manifests:
                    self.waiting[part["rule"]] += part["seconds"] if part["items"] else 0
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

    def line(self, now: float) -> str:
        """How far the run is, and what is running: after a while without a new result, since when."""
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
        """Print a line where something is new, or the last one is long ago: at growing distances."""
        now = time.monotonic()
        line, quiet = self.line(now), now - self.news
        is_over = self.ended == self.total and quiet < QUIET_SECONDS
        if not quiet or (now - self.printed >= min(max(LINE_SECONDS, quiet / 2), LONGEST_SECONDS) and not is_over):
            print(f"{now - self.start:5.0f} s: {line}", file=sys.stderr, flush=True)
            self.printed = now


def result(folder: str | Path) -> str:
    """The last lines of a run: the page, its answer in two lines, next steps; empty without a page."""
    page = Path(folder, "index.html")
    if not page.exists():
        return ""
    finished = f"\nThe study is finished. Report: {page} (`pwfl open {page.parent.name}`)"
    further = "Next: change a value in the config and run again; only results that depend on it are recomputed."
    return "\n".join([finished, *answer(page), further])


def answer(page: Path) -> list[str]:
    """What a study's page answers, in two lines: what came out, and whether audits and claims agree."""
    head = page.read_text(encoding="utf-8").partition("<title>")[0]
    return [html.unescape(text) for text in re.findall(r'<meta name="(?:description|audit)" content="([^"]*)">', head)]
