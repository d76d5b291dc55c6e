"""A full disk: one message with the file and what to do, nothing half-written, an exit code that is not 0."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import PWFL, ROOT, SMALL, environment, python, snakemake

# Each writer of files, in a process that may write files of no more than a byte, as on a disk that is full.
WRITERS = """
import json, resource, sys
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

from pwfl import new, tables
from pwfl.report import theme
from pwfl.store import files
from pwfl.store import sealed
from pwfl.store import addressing
from pwfl.scenario import resolved

frame = pl.DataFrame({"a": range(99)})
chart = alt.Chart(frame).mark_line().encode(x="a", y="a")
writers = {
    "table": lambda path: sealed.write_table(frame, path, {}),
    "arrays": lambda path: sealed.write_arrays({"a": np.zeros(99)}, path, {}),
    "report": lambda path: tables.write_report({path: frame}, Path()),
    **{kind: lambda path, kind=kind: theme.save(chart, {kind: f"{path}.{kind}"}) for kind in ("json", "png", "svg", "pdf")},
    "scenario": lambda path: resolved.save({"a": list(range(99))}, path),
    ".manifest.json": lambda path: sealed.seal_folder("."),
    "addresses": lambda path: addressing.write_addresses({"a": {"b": "c"}}, path),
    "system": lambda path: new.write("of_mine"),
}
chart.to_dict()
said = {}
resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
for name, write in writers.items():
    try:
        write(name)
    except files.NoRoomError as error:
        said[name] = str(error)
    except BaseException as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps([said, [str(path) for path in Path().rglob("*")]]))
"""


def test_every_writer_names_its_file_and_leaves_nothing(tmp_path):
    result = python("-c", WRITERS, cwd=tmp_path, check=True)
    said, left = json.loads(result.stdout.splitlines()[-1])
    assert left == []
    assert len(said) == 11
    for name, text in said.items():
        path = "of_mine" if name == "system" else name
        assert text.startswith(path), text
        assert ": cannot be written: File too large; free disk space or raise your quota, then run again" in text


@pytest.fixture
def full(tmp_path):
    """A folder of which the disk has room for a part of a run."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root, to mount a small disk")
    folder = tmp_path / "full"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", folder], check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_job_on_a_full_disk_says_so_on_the_terminal(full, tmp_path, finished):
    """Snakemake has a disk of its own; its metadata are not what is tested."""
    shutil.copytree(finished / "store", tmp_path / "run/store", copy_function=shutil.copy2)
    (tmp_path / "run/results").symlink_to(full)
    result = snakemake(tmp_path / "run", SMALL)
    assert result.returncode == 1
    text = result.stdout + result.stderr
    assert ": cannot be written: No space left on device; free disk space" in text
    assert "Traceback" not in text
    assert not [path for path in full.rglob(".*.*") if path.is_file()]
    for path in full.rglob("*.json"):
        json.loads(path.read_text())


def test_a_new_system_on_a_full_disk_is_taken_back(full):
    shutil.copytree(ROOT / "examples/local_dp_mac", full / "more")
    filler = full / "filler"
    with open(filler, "wb") as file:
        try:
            file.write(b"0" * 300_000)
            file.flush()
        except OSError:
            pass
    result = subprocess.run(
        [*PWFL, "new", "of_mine"], cwd=full, capture_output=True, text=True, env=environment(), check=False
    )
    assert result.returncode == 1
    assert result.stderr.startswith("of_mine: cannot be written: No space left on device")
    assert not Path(full, "of_mine").exists()
