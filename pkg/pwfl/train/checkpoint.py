"""What a killed training job had finished, so that the next one goes on from there."""

import hashlib
import json
from pathlib import Path
from time import monotonic

import polars as pl

from pwfl import files

SAVE_SECONDS = 5.0  # between two saves: writing must not cost more than what a kill would lose


class Checkpoint:
    """Histories of finished realizations, in a file beside the job's output.

    The file's name holds a digest of all that the histories depend on, so that a job with other
    parameters, code or inputs does not take them for its own.
    """

    def __init__(self, output: str, depends: dict, inputs: dict[str, str | list[str]]):
        digest = hashlib.sha256(json.dumps(depends, sort_keys=True).encode())
        for name, paths in sorted(inputs.items()):
            for path in [paths] if isinstance(paths, str) else paths:
                digest.update(name.encode() + Path(path).read_bytes())
        self.saved = float("-inf")
        self.prefix = Path(output).with_suffix(".checkpoint")
        self.path = self.prefix.with_name(f"{self.prefix.name}.{digest.hexdigest()[:16]}")

    def restore(self) -> dict[int, pl.DataFrame]:
        """The histories saved so far, by realization."""
        if not self.path.exists():
            return {}
        frame = pl.read_parquet(self.path)
        return {realization: part for (realization,), part in frame.group_by("realization", maintain_order=True)}

    def save(self, histories: dict[int, pl.DataFrame]) -> None:
        """Replace what is saved, if that was not just done."""
        if monotonic() - self.saved < SAVE_SECONDS:
            return
        self.saved = monotonic()
        files.write(pl.concat(histories.values()).write_parquet, str(self.path))

    def remove(self) -> None:
        """Delete this checkpoint and those of earlier parameters, code or inputs."""
        for path in self.prefix.parent.glob(f"{self.prefix.name}.*"):
            path.unlink(missing_ok=True)
