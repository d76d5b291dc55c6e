"""What a killed training job had finished, so that the next one goes on from there."""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic

import polars as pl

from pwfl.runtime import kept

log = logging.getLogger(__name__)

SAVE_SECONDS = 5.0  # between two saves: writing must not cost more than what a kill would lose


class Checkpoint:
    """Histories of finished realizations, in a file beside the job's output, with the output's address in its name."""

    def __init__(self, output: str, description: dict):
        self.saved = float("-inf")
        address, shard = description["address"], Path(output).parent.name
        self.path = Path(output).with_suffix(f".checkpoint.{address}")
        self.label = {"table": "checkpoint", "address": address, "realizations": shard}

    def restore(self) -> dict[int, pl.DataFrame]:
        """The histories saved so far, by realization. Raises DamagedError for a file that is not what was saved."""
        if not self.path.exists():
            return {}
        frame = kept.read_table(str(self.path), self.label)
        return {realization: part for (realization,), part in frame.group_by("realization", maintain_order=True)}

    def told(self, finished: Iterable[dict[int, pl.DataFrame]], missing: int) -> Iterator[dict[int, pl.DataFrame]]:
        """Histories as they are finished, some at a time, with lines in the log on how long those that miss take."""
        log.info("%d realizations to train", missing)
        start, done = monotonic(), 0
        for batch in finished:
            done += len(batch)
            left = (monotonic() - start) / done * (missing - done)
            log.info("%d of %d trained, about %.0f s left", done, missing, left)
            yield batch

    def save(self, histories: dict[int, pl.DataFrame]) -> None:
        """Replace what is saved, if that was not just done."""
        if monotonic() - self.saved < SAVE_SECONDS:
            return
        self.saved = monotonic()
        kept.write_table(pl.concat(histories.values()), str(self.path), self.label)

    def remove(self) -> None:
        """Delete this checkpoint, and what a killed job had begun to write of it."""
        for path in (self.path, *self.path.parent.glob(f".*.{self.path.name}")):
            path.unlink(missing_ok=True)
