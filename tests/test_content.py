"""Content alone decides what runs: not files' times, not Snakemake's memory, not how Snakemake is called.

The study is of `age_aware`, which needs no TensorFlow.
"""

import csv
import hashlib
import os
import random
import shutil
import time
from pathlib import Path

import polars as pl
import pytest

import pwfl
from conftest import ROOT, SMALL, changed, copy_of_project, jobs, missing, planned, snakemake, workflow
from pwfl.store import items, sealed
from pwfl.workflow import publish

RESULTS = "results/small"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project that a test may touch and edit, and put back."""
    return copy_of_project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def own(finished, tmp_path):
    """A copy of the finished run's files, with times of now, and without Snakemake's memory."""
    for name in ("results", "store"):
        shutil.copytree(finished / name, tmp_path / name, copy_function=shutil.copy)
    return tmp_path


def hashes(folder: Path) -> dict[str, str]:
    """The content of every file of results and store."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for name in ("results", "store")
        for path in sorted((folder / name).rglob("*"))
        if path.is_file()
    }


def touch(*folders: Path) -> None:
    """Give every file a time of its own in the last ten years, in no order."""
    paths = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    now, order = time.time(), random.Random(1)
    for path in paths:
        os.utime(path, (now, now - order.uniform(0, 10) * 365 * 86400))


@pytest.mark.parametrize("memory", ["with", "without"])
@pytest.mark.parametrize("triggers", [(), ("--rerun-triggers", "mtime")])
def test_nothing_is_to_do_after_every_file_was_touched(own, finished, project, memory, triggers):
    if memory == "with":
        for name in (".snakemake", ".pwfl"):
            shutil.copytree(finished / name, own / name)
    folders = [path for path in (*project.iterdir(), *own.iterdir()) if path.is_dir() and path.name != ".snakemake"]
    touch(*folders)
    result = snakemake(own, SMALL, "--dry-run", *triggers, project=project)
    assert result.returncode == 0, result.stdout + result.stderr
    if triggers:  # as the profiles have them; else what was published by another checkout is published again
        assert "Nothing to be done" in result.stdout + result.stderr
    assert jobs(result) == {}


def test_profiles_decide_alike(own, project, tmp_path):
    """With the options of both profiles; the executor of one, which needs a plugin, left out."""
    (tmp_path / "profile").mkdir()
    for profile in ("default", "slurm"):
        lines = (ROOT / "profiles" / profile / "config.yaml").read_text().splitlines()
        options = [line for line in lines if not line.startswith(("executor", "slurm"))]
        (tmp_path / "profile" / "config.yaml").write_text("\n".join(options))
        touch(own / "results", own / "store")
        assert planned(own, SMALL, "--workflow-profile", str(tmp_path / "profile"), project=project) == {}


def test_a_table_that_was_touched_does_not_stop_a_new_study(own, project):
    touch(project / "scripts", own / "store")
    found = planned(own, changed(SMALL, "seed", 5), project=project)
    assert {"schedule", "noise", "train", "account", "audit", "report"} <= set(found)


def test_planning_writes_nothing(own, project):
    before = hashes(own)
    calls = [
        ["--dry-run", "--config", "base={seed: 5}"], ["--lint"], ["--rulegraph", "dot"], ["--summary"],
        ["--report", str(own / "report.html")], ["--unlock"],
    ]  # fmt: skip
    for arguments in calls:
        result = snakemake(own, SMALL, *arguments, project=project)
        assert result.returncode == 0, (arguments, result.stdout + result.stderr)
        assert hashes(own) == before, arguments
    assert list(pwfl.results(own / RESULTS).scenarios) == ["one"]


def test_edited_code_computes_anew_what_runs_it_and_comments_nothing(own, project):
    sources = project / "scripts/part.py", project / "pkg/pwfl/systems/age_aware/train.py"
    texts = [source.read_text() for source in sources]
    try:
        for source, text in zip(sources, texts, strict=True):
            source.write_text(text + "# a comment\n")
        assert planned(own, SMALL, project=project) == {}
        sources[1].write_text(texts[1] + "\nMORE = 1\n")
        assert set(planned(own, SMALL, project=project)) == {"train", "audit", "report"}
    finally:
        for source, text in zip(sources, texts, strict=True):
            source.write_text(text)


EDITED = (
    "one/realizations.csv", "one/addresses.csv", "one/parameters.csv", "one/audit.parquet", "one/noise.svg",
    "claims.csv", "index.html",
)  # fmt: skip


def test_report_files_that_were_edited_or_deleted_are_published_again_and_nothing_is_computed(own):
    before = hashes(own)
    (own / RESULTS / "one/mine.txt").write_text("what a user put there stays")
    paths = [own / RESULTS / name for name in EDITED]
    for path in paths[::2]:
        path.write_bytes(path.read_bytes() + b" ")
    for path in paths[1::2]:
        path.unlink()
    assert missing(own, SMALL) == {}
    workflow(own, SMALL)
    after = hashes(own)
    assert after.pop(f"{RESULTS}/one/mine.txt")
    assert stable(after) == stable(before)


def stable(found: dict[str, str]) -> dict[str, str]:
    """Without records of what was published and of plans, which have times and names of their own."""
    return {path: digest for path, digest in found.items() if publish.FOLDER not in path and ".in_use" not in path}


def test_an_edited_file_of_the_same_size_and_time_is_not_noticed_but_refused_where_it_is_read(own):
    """Content is read where size or time differ, or where a file is read."""
    path = own / RESULTS / "one/summary.parquet"
    content, status = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 1
    workflow(own, SMALL)  # so that the record has the times of this copy
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(
        sealed.DamagedError, match=r"summary.parquet: was changed .*publish it again: pwfl run study.yaml"
    ):
        _ = pwfl.results(own / RESULTS).scenarios["one"].report["summary"]
    os.utime(path)
    assert publish.latest(own / RESULTS) is not None
    workflow(own, SMALL)
    assert pwfl.results(own / RESULTS).scenarios["one"].report["summary"].height > 0


def test_an_edited_table_is_refused_where_it_is_read(own):
    path = own / RESULTS / "one" / "realizations.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(epsilon=pl.lit(0.001)).write_parquet(path)
    with pytest.raises(sealed.DamagedError, match=r"realizations.parquet: was changed after .*: pwfl run study.yaml"):
        _ = pwfl.results(own / RESULTS).scenarios["one"].report["realizations"]


def flipped(content: bytes, order: random.Random) -> bytes:
    """Content with one bit changed, or cut there."""
    place = order.randrange(8 * len(content))
    damaged = bytearray(content)
    damaged[place // 8] ^= 1 << place % 8
    return bytes(damaged[: place // 8] if order.random() < 0.1 else damaged)


def test_a_flipped_bit_in_a_report_file_is_refused(own):
    order = random.Random(1)
    names = {"tables": "*", "figures": "*.json", "scenario": "*"}
    files = [path for stage, name in names.items() for path in sorted(own.glob(f"store/{stage}/*/{name}"))]
    files = [path for path in files if path.name not in (items.DESCRIPTION, items.COST, sealed.MANIFEST)]
    for _ in range(300):
        path = order.choice(files)
        content = path.read_bytes()
        path.write_bytes(flipped(content, order))
        with pytest.raises(sealed.DamagedError, match="is corrupt"):
            sealed.read_bytes(path)
        path.write_bytes(content)
        assert sealed.read_bytes(path) == content


def test_a_flipped_bit_in_a_record_publishes_again_or_changes_nothing(own):
    order = random.Random(2)
    record = next((own / RESULTS / publish.FOLDER).iterdir())
    whole, expected = record.read_bytes(), publish.latest(own / RESULTS)
    for _ in range(300):
        record.write_bytes(flipped(whole, order))
        found = publish.latest(own / RESULTS)
        if found is not None and found.files == expected.files:
            assert publish.is_shown(found, {name: stamp[0] for name, stamp in expected.files.items()}, own / RESULTS)
    record.write_bytes(b"")
    assert publish.latest(own / RESULTS) is None
    assert missing(own, SMALL) == {}
    workflow(own, SMALL)
    assert publish.latest(own / RESULTS).files.keys() == expected.files.keys()


def test_what_is_missing_is_found_whatever_snakemake_remembers(own, finished):
    for name in (".snakemake", ".pwfl"):
        shutil.copytree(finished / name, own / name)
    shutil.rmtree(own / "store/page")
    (own / RESULTS / "index.html").unlink()
    for arguments in [(), ("--rerun-incomplete",), ("--rerun-triggers", "mtime")]:
        assert planned(own, SMALL, *arguments) == {"report": 1}


def test_the_addresses_of_a_study_stand_beside_it(finished):
    with open(finished / RESULTS / "one" / "addresses.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    stages = ["channel", "schedule", "noise", "train", "account"]
    assert [(row["scheme"], row["stage"]) for row in rows] == [(n, s) for n in ("drawn", "fixed") for s in stages]
    assert all((finished / row["folder"]).is_dir() for row in rows)
