"""The whole workflow on a tiny study: what comes out, what re-runs, what a mistake says."""

import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
import yaml

import conftest
import pwfl
from conftest import ROOT, SMALL, TINY, changed, planned, snakemake, workflow
from pwfl import tables
from pwfl.report import catalog
from pwfl.runtime import made
from pwfl.scenario import load
from pwfl.stages import STAGES
from pwfl.systems import registry
from pwfl.workflow import reports
from pwfl.workflow.plan import Plan, plan

pytestmark = pytest.mark.xdist_group("workflow")  # one worker, so that fixtures serve all these tests


def stored(folder, config: dict, name: str, stage: str, scheme: str = "") -> Path:
    """The folder of a stage's tables, of the first scheme or of a named one."""
    listed = pl.read_csv(folder / "results" / config["study"] / name / "addresses.csv")
    rows = listed.filter(pl.col("stage") == stage, pl.col("scheme").str.contains(scheme, literal=True))
    return folder / rows["folder"][0]


def all_rows(home: Path, table: str, count: int) -> pl.DataFrame:
    """A table's rows of the first realizations, of all shards of a folder of the store."""
    frames = pl.concat([pl.read_parquet(path) for path in sorted(home.rglob(f"{table}.parquet"))])
    rows = frames.filter(pl.col("realization") < count)
    return rows.unique(maintain_order=True)  # scenarios have shards of their own


# What a run leaves.


def test_every_address_is_described_in_words(finished):
    home = stored(finished, SMALL, "one", "schedule", "fixed")
    found = yaml.safe_load((home / "description.yaml").read_text())
    assert found["address"] == home.name
    assert (found["system"], found["stage"], found["variant"]) == ("age_aware", "schedule", "fixed")
    assert found["parameters"]["schedule"] == {"times": [1, 2, 3]}
    assert found["upstream"] == {"channel": stored(finished, SMALL, "one", "channel").name}
    assert {"numpy", "polars"} <= set(found["packages"])


def test_logs_tell_progress_and_the_time_left(finished):
    address = stored(finished, SMALL, "one", "train").name
    log = (finished / f"logs/train/{address}/000000-000002.log").read_text()
    assert "1 of 2 trained, about" in log
    assert "2 of 2 trained, about 0 s left" in log


def test_the_report_builds_and_holds_figures_and_captions(own):
    workflow(own, SMALL, "--report", "report.html")
    page = (own / "report.html").read_text()
    assert "Simulated loss difference between the private aged model and the fresh one" in page
    figures = catalog.scenario_figures(registry.system("age_aware").catalog)
    assert page.count('"data_uri": "data:image/svg') == len(figures) + 1  # the plane
    assert page.count("data:text/html") == 1  # the study's page
    assert "data:text/csv" not in page


def test_results_leave_out_an_audit_of_other_parameters(own):
    assert "audit" in pwfl.results(own / "results/small").scenarios["one"].report
    record = own / "results/small/one" / reports.record("audit")  # of a change that did not ask for one
    held = made.recorded(str(record))
    for depends in ({"upstream": {"drawn": {"account": "0123456789ab"}}}, {"upstream": held["upstream"]}):
        made.record(str(record), depends, [])
        assert "audit" not in pwfl.results(own / "results/small").scenarios["one"].report


# What a change runs anew.


def planned_jobs(config: dict) -> tuple[Plan, dict]:
    """The plan of a config's study, and that of its report."""
    study = plan(load(config, "a test"))
    return study, reports.plan(study, ROOT / "report")


def due(folder: Path, config: dict) -> Counter:
    """The jobs that a folder lacks, by stage or by job of the report; Snakemake's own word is in test_content.py."""
    study, report = planned_jobs(config)
    made_by = {path: str(folder / "results" / config["study"] / path) for path in report}
    missing = [
        job.description["stage"]
        for job in study.jobs()
        if not all((folder / path).exists() for path in job.outputs.values())
    ]
    return Counter(missing + [Path(path).stem for path in reports.stale(report, made_by)])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder that looks to planning as if the tiny study had run there: empty files, and the report's records."""
    folder = tmp_path_factory.mktemp("tiny")
    keys = {"realization": range(4), "station": range(2), "user": range(20)}
    tables.to_table(keys, gain=1e-9).write_csv(folder / "links.csv")
    study, report = planned_jobs(TINY)
    for path in (folder / path for job in study.jobs() for path in job.outputs.values()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for path, job in report.items():
        place = folder / "results/tiny" / path
        place.parent.parent.mkdir(parents=True, exist_ok=True)
        made.record(str(place), job.description, [])
    assert due(folder, TINY) == {}
    return folder


REPORT = {"tables", "figures", "audit", "comparison", "page"}
ACCOUNT = {"account", *REPORT}
TRAIN = {"train", *REPORT} - {"audit"}
NOISE = {"noise", "train", *ACCOUNT}
SCHEDULE = {"schedule", *NOISE}
CHANNEL = {"channel", *SCHEDULE}
RERUNS = {  # one of a kind; for every parameter tests/reruns has the stages whose addresses change
    "seed": (2, CHANNEL),
    "realizations": (6, CHANNEL - {"train"}),
    "training_realizations": (4, REPORT - {"audit"}),  # shards are whole: the fourth is trained
    "shards.optimization": (3, CHANNEL - {"train", "audit"}),
    "shards.training": (1, TRAIN),
    "channel.links": ("links.csv", {"imported", *CHANNEL}),
    "data.dataset": ("mnist", {"dataset", *CHANNEL}),
    "data.folder": ("elsewhere", {"page"}),  # which leads to the resolved scenario
    "privacy.delta": (1e-6, ACCOUNT),
    "privacy.target_epsilon": (2.0, {"comparison", "page"}),  # no scheme asks for it; a comparison reads everything
    "schedule.gamma": (400.0, SCHEDULE),
    "training.features": ("scattering", {"features", *TRAIN, *ACCOUNT}),
    "training.evaluate_every": (3, TRAIN),
    "audit.canaries": (60, REPORT - {"tables"}),
    "schemes": ([{"name": "OptSched", "scheduler": "optimal", "noise": "random"}], REPORT),
}


@pytest.mark.parametrize("parameter", RERUNS)
def test_a_changed_parameter_reruns_only_what_reads_it(done, monkeypatch, parameter):
    monkeypatch.chdir(done)
    value, expected = RERUNS[parameter]
    found = due(done, changed(TINY, parameter, value))
    assert set(found) == expected | {"scenario"}
    if parameter == "schedule.gamma":  # the scenario `high` sets its own, and the random scheduler reads none
        assert found["schedule"] == 2


def test_snakemake_also_runs_what_reads_tables_of_other_shards(own):
    stages = {*STAGES, "scenario", *conftest.REPORT}
    assert set(planned(own, changed(SMALL, "shards.optimization", 3))) == stages


def test_points_of_a_sweep_are_audited_where_it_is_asked_for(own):
    swept = SMALL | {"scenarios": {"one": {"sweep": {"audit.canaries": [60, 70]}}}}
    assert "page" in (plain := planned(own, swept))
    assert "audit" not in plain
    assert planned(own, swept, "audits")["audit"] == 2


# Other ways to run it, and what stops it.


@pytest.mark.slow
def test_shard_sizes_and_cores_do_not_change_a_bit(finished, tmp_path):
    other = changed(changed(SMALL, "shards.optimization", 3), "shards.training", 1)
    result = snakemake(tmp_path, other, "--cores", "1")
    assert result.returncode == 0, result.stdout + result.stderr
    for stage, declared in STAGES.items():
        for scheme in ("drawn", "fixed"):
            one, two = (stored(folder, SMALL, "one", stage, scheme) for folder in (finished, tmp_path))
            assert one.name == two.name
            for table in declared.makes:
                count = 3 if stage == "train" else 4
                assert all_rows(one, table, count).equals(all_rows(two, table, count)), table
    for table in ("summary", "realizations", "history", "statuses", "audit"):
        path = f"results/small/one/{table}.parquet"
        assert pl.read_parquet(tmp_path / path).equals(pl.read_parquet(finished / path)), table


@pytest.mark.slow
def test_jobs_get_along_with_declared_files_in_a_storage(finished, tmp_path):
    conftest.need("rsync")
    storage = tmp_path / "storage"
    storage.mkdir()
    arguments = ["--default-storage-provider", "fs", "--default-storage-prefix", str(storage), "--shared-fs-usage"]
    plugins = (conftest.plugin("storage", tmp_path / "plugin"),)
    workflow(tmp_path / "run", conftest.ONE, *arguments, "source-cache", plugins=plugins)
    assert not (tmp_path / "run" / "store").exists()
    conftest.assert_one_is_as_in_small(storage, finished)


def test_a_mistake_in_the_config_stops_before_any_job(tmp_path):
    result = snakemake(tmp_path, changed(TINY, "radio.resource_block", 3))
    output = result.stdout + result.stderr
    assert result.returncode == 1
    assert "study.yaml: base.radio.resource_block: unknown key; did you mean 'resource_blocks'?" in output
    assert "Traceback" not in output
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("results/small/on/noise.svg", "there is no scenario 'on'; did you mean 'one'?"),
        (
            "store/channel/0123456789ab/000000-000002/users.parquet",
            "nothing of the study small has the address 0123456789ab",
        ),
    ],
)
def test_a_target_that_the_study_does_not_have_is_named(tmp_path, target, message):
    result = snakemake(tmp_path, SMALL, target)
    assert result.returncode == 1
    assert message in result.stdout + result.stderr


def test_start_values_that_keep_failing_are_named_before_any_job(tmp_path):
    config = changed(TINY, "privacy.max_noise_error", 0.02)
    result = snakemake(tmp_path, config, "--until", "channel")
    assert result.returncode == 1
    words = r"privacy\.max_noise_error: realization \d: 1000 draws of start values all violate \(21\)"
    assert re.search(words, result.stdout + result.stderr)
    assert not list(tmp_path.glob("logs/channel/*/*.log"))
