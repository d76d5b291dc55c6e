"""Content alone decides what runs: not files' times, not Snakemake's memory, not how Snakemake is called.

The study is of `age_aware`, which needs no TensorFlow.
"""

import base64
import csv
import hashlib
import json
import os
import random
import shutil
import time
from pathlib import Path

import polars as pl
import pytest

import pwfl
from conftest import REPORT, ROOT, SMALL, changed, copy_of_project, planned, snakemake, workflow
from pwfl.runtime import kept, made

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
def test_nothing_is_to_do_after_every_file_was_touched(own, finished, project, memory):
    if memory == "with":
        shutil.copytree(finished / ".snakemake", own / ".snakemake")
    touch(own / "results", own / "store", *(path for path in project.iterdir() if path.is_dir()))
    assert planned(own, SMALL, project=project) == {}


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
    """A job upstream of what is missing that runs again must not hide it."""
    touch(project / "scripts", own / "store")
    found = planned(own, changed(SMALL, "seed", 5), project=project)
    assert {"schedule", "noise", "train", "account", "audit", "tables_age_aware", "page"} <= set(found)


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
    sources = project / "scripts/page.py", project / "pkg/pwfl/systems/age_aware/train.py"
    texts = [source.read_text() for source in sources]
    try:
        for source, text in zip(sources, texts, strict=True):
            source.write_text(text + "# a comment\n")
        assert planned(own, SMALL, project=project) == {}
        sources[1].write_text(texts[1] + "\nMORE = 1\n")
        assert set(planned(own, SMALL, project=project)) == {"train", *REPORT} - {"audit"}
    finally:
        for source, text in zip(sources, texts, strict=True):
            source.write_text(text)


EDITED = (
    "one/realizations.csv", "one/addresses.csv", "one/parameters.csv", "one/audit.parquet", "one/noise.svg",
    "claims.csv", "index.html", ".made/page.json",
)  # fmt: skip


def test_a_report_file_that_was_edited_is_made_anew_and_nothing_else(own):
    before = hashes(own)
    first, *others = (own / RESULTS / name for name in EDITED)
    first.write_bytes(first.read_bytes() + b" ")
    assert planned(own, SMALL) == {"tables_age_aware": 1}
    for path in others:
        path.write_bytes(path.read_bytes() + b" ")
    workflow(own, SMALL)
    assert hashes(own) == before


def test_an_edited_table_is_refused_where_it_is_read(own):
    path = own / RESULTS / "one" / "realizations.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(epsilon_exact=pl.lit(0.001)).write_parquet(path)
    with pytest.raises(
        kept.DamagedError, match=r"realizations.parquet is damaged \(it was changed after .*: `rm .*parquet`"
    ):
        pwfl.results(own / RESULTS)


def flipped(content: bytes, order: random.Random) -> bytes:
    """Content with one bit changed, or cut there."""
    place = order.randrange(8 * len(content))
    damaged = bytearray(content)
    damaged[place // 8] ^= 1 << place % 8
    return bytes(damaged[: place // 8] if order.random() < 0.1 else damaged)


def test_a_flipped_bit_in_a_report_file_is_refused(own):
    order = random.Random(1)
    files = [path for path in sorted((own / RESULTS / "one").iterdir()) if path.is_file()]
    for _ in range(300):
        path = order.choice(files)
        content = path.read_bytes()
        path.write_bytes(flipped(content, order))
        with pytest.raises(kept.DamagedError, match="is damaged"):
            made.content(path)
        path.write_bytes(content)
        assert made.content(path) == content


def test_a_flipped_bit_in_a_record_makes_it_anew(tmp_path):
    file, record = tmp_path / "table.csv", str(tmp_path / made.FOLDER / "tables.json")
    file.write_text("a\n1\n")
    depends = {"stage": "report", "upstream": {"drawn": {"audit": "0123456789ab"}}}
    made.record(record, depends, [str(file)])
    whole = Path(record).read_bytes()
    assert made.is_of(record, depends)
    assert made.is_of(record, dict(reversed(depends.items())))
    assert json.loads(whole)["upstream"] == depends["upstream"]
    order = random.Random(2)
    for _ in range(300):
        damaged = flipped(whole, order)
        Path(record).write_bytes(damaged)
        if made.is_of(record, depends):  # blanks between values may change
            assert json.loads(damaged) == json.loads(whole)
    Path(record).write_bytes(whole)
    assert not made.is_of(record, depends | {"stage": "page"})
    file.write_text("a\n2\n")
    assert not made.is_of(record, depends)
    file.unlink()
    assert made.is_of(record, depends)  # what is missing is made, whatever the record says


def test_a_job_that_was_killed_when_its_file_was_whole_is_not_run_again(own, finished):
    """Snakemake would force it, and leave out the jobs below it that have not run yet."""
    shutil.copytree(finished / ".snakemake", own / ".snakemake")
    for table in (own / "store/noise").rglob("*.parquet"):
        name = base64.urlsafe_b64encode(str(table.relative_to(own)).encode()).decode()
        (own / ".snakemake/incomplete" / name).write_text('{"external_jobid": null}')
    (own / RESULTS / "index.html").unlink()
    for arguments in [(), ("--rerun-incomplete",)]:
        assert planned(own, SMALL, *arguments) == {"page": 1}


def test_exit_0_means_that_every_target_exists(own):
    """Snakemake leaves jobs out below one that is forced; what then lacks is named."""
    (own / RESULTS / "index.html").unlink()
    result = snakemake(own, SMALL, "--forcerun", "channel", "--cores", "2")
    assert result.returncode == 1
    assert f"ended without these files, or with files of another plan: {RESULTS}/index.html" in result.stderr
    workflow(own, SMALL)
    assert (own / RESULTS / "index.html").exists()


def test_the_addresses_of_a_study_stand_beside_it(finished):
    with open(finished / RESULTS / "one" / "addresses.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    stages = ["channel", "schedule", "noise", "train", "account"]
    assert [(row["scheme"], row["stage"]) for row in rows] == [(n, s) for n in ("drawn", "fixed") for s in stages]
    assert all((finished / row["folder"]).is_dir() for row in rows)
