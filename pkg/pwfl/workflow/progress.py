"""What a person sees of a run: every few seconds a line that says how far it is, and at the end what came out."""

import logging
import re
import sys
import threading
import time
from pathlib import Path

SECONDS = 5.0  # between looks
PATIENCE = 3  # looks without news after which a line is repeated
TRAINED = re.compile(r"(\d+) of (\d+) trained, about (\d+) s left")
RECENT = 120.0  # seconds for which the last line of a training's log counts


class Progress(logging.Handler):
    """Follows Snakemake's log and those of trainings; a thread prints a line to standard error every few seconds."""

    def __init__(self, logs: str | Path, jobs: int) -> None:
        super().__init__()
        self.logs, self.jobs, self.started, self.start = Path(logs), jobs, 0, time.time()

    def emit(self, record: logging.LogRecord) -> None:
        """Count the jobs that a record says are started."""
        if getattr(record, "event", None) == "job_started":
            self.started += len(record.jobs)

    def follow(self, logger: logging.Logger) -> None:
        """Begin."""
        logger.addHandler(self)
        threading.Thread(target=self._print, daemon=True).start()

    def _print(self) -> None:
        last, silent = "", 0
        while True:
            time.sleep(SECONDS)
            trained = training(self.logs, self.start)
            line = f"{self.started} of {self.jobs} jobs started" + (f"; {trained}" if trained else "")
            silent = 0 if line != last else silent + 1
            if silent in (0, PATIENCE):
                print(f"{time.time() - self.start:5.0f} s  {line}", file=sys.stderr, flush=True)
                last, silent = line, 0


def training(logs: Path, start: float) -> str:
    """How far the trainings are that run now: how many jobs, realizations, and about how long they take yet."""
    running = []  # of each job realizations trained, of how many, and seconds left
    for path in logs.glob("train/*/*.log"):
        written = path.stat().st_mtime
        if written < start or written < time.time() - RECENT:
            continue
        lines = TRAINED.findall(path.read_text(encoding="utf-8", errors="replace"))
        if lines and lines[-1][0] != lines[-1][1]:
            running.append([int(number) for number in lines[-1]])
    if not running:
        return ""
    done, total, left = zip(*running, strict=True)
    trainings = f"{len(running)} training{'s' * (len(running) > 1)}"
    return f"{trainings} at {sum(done)} of {sum(total)} realizations, about {max(left)} s left"


def result(folder: str | Path) -> str:
    """What a finished study came to: where its page is, how its statements came out, what to do next; or nothing."""
    page, claims = Path(folder, "index.html"), Path(folder, "claims.parquet")
    if not page.exists():
        return ""
    import polars as pl  # here, as the workflow's start, and that of every job, would wait for it

    from pwfl.report import statements

    judged = statements.summary(pl.read_parquet(claims)) if claims.exists() else []
    lines = [
        f"\nThe study is finished: open {page} in a browser.",
        *(judged or ["No statement can be measured here."]),
        f"Each statement, scenario by scenario: {folder}/claims.csv",
        "Next: change a value of the config and run again; only what depends on it is computed.",
    ]
    return "\n".join(lines)
