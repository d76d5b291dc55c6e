"""What a person sees of a run: every few seconds a line that says how far it is, and at the end what came out."""

import json
import sys
import threading
import time
from pathlib import Path

from pwfl.store.items import Store

LOOK_SECONDS = 2.0  # between looks at the store
LINE_SECONDS = 10.0  # after which a line is printed though nothing is new


class _Batch:
    """A batch that was started: which of its items the store has."""

    def __init__(self, done: Path) -> None:
        held = json.loads((done.parent / "batches" / f"{done.stem}.json").read_bytes())
        self.name, self.seconds, self.done = done.stem, held["seconds"], done
        self.store = Store(done.parents[2] / "store")
        self.left = [(item["key"], item["files"]) for item in held["items"]]
        self.count = len(self.left)

    def computed(self) -> int:
        """How many of its items there are."""
        self.left = [item for item in self.left if not self.store.has(*item)]
        return self.count - len(self.left)


class Progress:
    """Follows the batches of a run; a thread prints a line to standard error every few seconds."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: list[_Batch] = []
        self.ended = 0  # items of batches that ended, of those that failed, too
        self.total: int | None = None
        self.seconds = 0.0  # that batches are to take that have not begun
        self.start = time.monotonic()

    def started(self, done: Path) -> None:
        """Take note of a batch that starts, by the file that says that it is done."""
        with self.lock:
            if self.total is None:
                batches = [json.loads(path.read_bytes()) for path in (done.parent / "batches").glob("*.json")]
                self.total = sum(len(batch["items"]) for batch in batches)
                self.seconds = sum(batch["seconds"] for batch in batches)
                self.start = time.monotonic()
                threading.Thread(target=self._print, daemon=True).start()
            batch = _Batch(done)
            self.running.append(batch)
            self.seconds -= batch.seconds

    def failed(self, done: Path) -> None:
        """Take note of a batch whose job died: it is to be computed, by another try, if there is one."""
        with self.lock:
            for batch in [batch for batch in self.running if batch.done == done]:
                self.running.remove(batch)
                self.seconds += batch.seconds

    def line(self) -> str:
        """How far the run is."""
        with self.lock:
            for batch in [batch for batch in self.running if batch.done.exists()]:
                self.running.remove(batch)
                self.ended += batch.count
            counts = [(batch, batch.computed()) for batch in self.running]
            computed = self.ended + sum(count for _, count in counts)
            left = max(0.0, self.seconds + sum(batch.seconds * (1 - count / batch.count) for batch, count in counts))
            now = ", ".join(f"{batch.name} {count}/{batch.count}" for batch, count in counts)
            return f"{computed} of {self.total} items, about {left:.0f} core-seconds left" + (f"; {now}" if now else "")

    def _print(self) -> None:
        last, printed = "", float("-inf")
        while self.total is None or self.ended < self.total:
            line, now = self.line(), time.monotonic()
            if line != last or now - printed >= LINE_SECONDS - 2 * LOOK_SECONDS:  # the next look may take its time
                print(f"{now - self.start:5.0f} s  {line}", file=sys.stderr, flush=True)
                last, printed = line, now
            time.sleep(LOOK_SECONDS)


def result(folder: str | Path) -> str:
    """The last lines of a run: the page, the verdicts of claims, next steps; empty without a page."""
    import polars as pl  # here, as the workflow's start would wait for it

    from pwfl.report import statements

    page, claims = Path(folder, "index.html"), Path(folder, "claims.parquet")
    if not page.exists():
        return ""
    judged = statements.summary(pl.read_parquet(claims)) if claims.exists() else []
    lines = [
        f"\nThe study is finished: open {page} in a browser.",
        *(judged or ["No statement can be measured here."]),
        f"Each statement, scenario by scenario: {folder}/claims.csv",
        "Next: change a value of the config and run again; only what depends on it is computed.",
    ]
    return "\n".join(lines)
