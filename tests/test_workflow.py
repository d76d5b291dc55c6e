"""The whole workflow on a tiny study: what comes out, what re-runs, what a mistake says."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

import conftest
import pwfl
from conftest import SMALL, TINY, changed, missing, planned, publish_view, session_of, snakemake, workflow
from pwfl import registry, tables
from pwfl.report import catalog
from pwfl.store import sealed
from pwfl.store.items import Store


def stored(folder, config: dict, name: str, stage: str, scheme: str = "") -> Path:
    """The folder of a stage's tables, of the first scheme or of a named one."""
    listed = pl.read_csv(folder / "results" / config["study"] / name / "addresses.csv")
    rows = listed.filter(pl.col("stage") == stage, pl.col("scheme").str.contains(scheme, literal=True))
    return folder / rows["folder"][0]


# What a run leaves.


def test_every_address_is_described_in_words(finished):
    home = stored(finished, SMALL, "one", "schedule", "fixed")
    found = json.loads((home / "description.json").read_text())
    assert found["address"] == home.name
    assert (found["system"], found["stage"], found["variant"]) == ("age_aware", "schedule", "fixed")
    assert found["parameters"]["schedule"] == {"times": [1, 2, 3]}
    assert found["upstream"] == {"channel": stored(finished, SMALL, "one", "channel").name}
    assert {"numpy", "polars"} <= set(found["packages"])
    assert all((folder / "description.json").is_file() for folder in (finished / "store").glob("[!.]*/*"))


def test_logs_tell_what_is_computed_and_how_far_trainings_are(finished):
    (log,) = (path.read_text() for path in finished.glob("logs/small/train/1-*.log"))
    address = stored(finished, SMALL, "one", "train").name
    assert f"train/{address}/000000-000010 to train/{address}/000010-000020; 2 more in this job" in log
    assert "trained 20 of 20 realizations" in log


def test_a_run_leaves_no_partial_files(finished):
    assert list((finished / "store/.partial").iterdir()) == []
    assert not [path for path in finished.rglob(".*.parquet") if path.is_file()]


def test_the_report_builds_and_holds_figures_and_captions(own):
    made = snakemake(own, SMALL, "--report", "report.html")
    assert made.returncode == 0, made.stderr
    assert not re.search(r"(WARNING|ERROR|SEVERE)/\d", made.stdout + made.stderr)  # of Docutils
    page = (own / "report.html").read_text()
    assert "scenario <em>one</em>" in page.replace("\\u003c", "<").replace("\\/", "/")
    assert not re.search(r"scenario (``|<em></em>)|snakemake\.wildcards", page)
    assert "Simulated loss difference between the private aged model and the fresh one" in page
    figures = catalog.scenario_figures(registry.system("age_aware").catalog)
    assert page.count('"data_uri": "data:image/svg') == len(figures) + 1  # the result
    assert page.count("data:text/html") == 1  # the study's page
    assert "data:text/csv" not in page


# What a change runs anew.


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder that looks to planning as if the tiny study had run there: empty files, and a published view of them."""
    folder = tmp_path_factory.mktemp("tiny")
    keys = {"realization": range(4), "station": range(2), "user": range(20)}
    tables.to_table(keys, gain=1e-9).write_csv(folder / "links.csv")
    fill(folder, TINY)
    assert missing(folder, TINY) == {}
    return folder


def fill(folder: Path, config: dict) -> None:
    """Let a folder look to planning as if a study had run there."""
    found = session_of(folder, config)
    for item in found.work.items():
        for name in found.work.outputs(item):
            path = folder / "store" / item.key / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        if sealed.MANIFEST in found.work.outputs(item):
            (path.parent / sealed.MANIFEST).unlink()
            sealed.seal_folder(path.parent)
    publish_view(found)


ACCOUNT = {"account", *conftest.REPORT}
TRAIN = {"train", *conftest.REPORT} - {"audit"}
NOISE = {"noise", "receive", "train", *ACCOUNT}
SCHEDULE = {"schedule", *NOISE}
CHANNEL = {"channel", *SCHEDULE}
RERUNS = {  # one of a kind; for every parameter tests/reruns has the stages whose addresses change
    "seed": (2, CHANNEL),
    "realizations": (12, CHANNEL - {"train"}),
    "training_realizations": (4, TRAIN),
    "channel.links": ("links.csv", {"imported", *CHANNEL}),
    "data.dataset": ("mnist", {"dataset", *CHANNEL}),
    "data.folder": ("elsewhere", {"page"}),  # which leads to the resolved scenario
    "privacy.delta": (1e-6, ACCOUNT),
    "privacy.target_epsilon": (2.0, {"comparison", "page"}),  # no scheme asks for it; a comparison reads everything
    "schedule.gamma": (400.0, SCHEDULE),
    "training.features": ("scattering", {"features", "receive", *TRAIN, *ACCOUNT}),
    "training.evaluate_every": (3, {"train", *conftest.REPORT}),
    "audit.canaries": (60, conftest.REPORT - {"tables"}),
    "schemes": ([{"name": "OptSched", "scheduler": "optimal", "noise": "random"}], conftest.REPORT),
}


@pytest.mark.parametrize("parameter", RERUNS)
def test_a_changed_parameter_reruns_only_what_reads_it(done, monkeypatch, parameter):
    monkeypatch.chdir(done)
    value, expected = RERUNS[parameter]
    found = missing(done, changed(TINY, parameter, value))
    assert set(found) == expected | {"scenario"}
    if parameter == "schedule.gamma":  # the scenario `high` sets its own, and the random scheduler reads none
        assert found["schedule"] == 1


SWEPT = SMALL | {"scenarios": {"one": {"sweep": {"audit.canaries": [60, 70]}}}}


def test_points_of_a_sweep_are_audited_where_it_is_asked_for(own):
    assert "audit" not in missing(own, SWEPT)
    assert missing(own, SWEPT, ("*/audit.csv",)) == {"audit": 2}
    assert planned(own, SWEPT, "--config", "wanted=one,canaries=60/audit.csv") == {"audit": 1}


@pytest.mark.slow
def test_figures_of_a_point_are_published_where_they_are_asked_for_and_a_whole_run_leaves_only_its_own(own):
    folder = own / "results/small/one,canaries=60"
    workflow(own, SWEPT, "--config", "wanted=one,canaries=60/noise.*")
    assert sorted(path.name for path in folder.iterdir()) == ["noise.json", "noise.png", "noise.svg"]
    (own / "results/small/one/mine.txt").write_text("kept")
    workflow(own, SWEPT)
    assert not (folder / "noise.svg").exists()
    assert (folder / "summary.csv").exists()
    assert sorted(path.name for path in (own / "results/small/one").iterdir()) == ["mine.txt"]  # of the study before


def test_wanted_files_that_there_are_none_of_are_an_error(own):
    result = snakemake(own, SMALL, "--config", "wanted=on/noise.svg")
    assert result.returncode == 1
    assert "wanted: on/noise.svg: results/small has no such file" in result.stdout + result.stderr


def test_all_that_belongs_into_the_store_is_computed_where_it_is_asked_for(own):
    shutil.rmtree(own / "store/channel")
    assert planned(own, SMALL) == {}
    assert missing(own, SMALL, ("store",)) == {"channel": 2}
    workflow(own, SMALL, "--config", "wanted=store")
    assert Store(own / "store").has(
        next((own / "store/channel").glob("*/*-*")).relative_to(own / "store"), ["users.parquet"]
    )


# Other ways to run it, and what stops it.


@pytest.mark.slow
def test_cores_do_not_change_a_bit(finished, tmp_path):
    result = snakemake(tmp_path, SMALL, "--cores", "1")
    assert result.returncode == 0, result.stdout + result.stderr
    paths = sorted(path.relative_to(finished) for path in finished.glob("store/*/*/*/*.parquet"))
    assert len(paths) > 20
    for path in paths:
        assert pl.read_parquet(tmp_path / path).equals(pl.read_parquet(finished / path)), path


def test_a_mistake_in_the_config_stops_before_any_job(tmp_path):
    result = snakemake(tmp_path, changed(TINY, "radio.resource_block", 3))
    output = result.stdout + result.stderr
    assert result.returncode == 1
    assert "study.yaml: base.radio.resource_block: unknown key; did you mean 'resource_blocks'?" in output
    assert "Traceback" not in output
    assert not (tmp_path / "results").exists()


def test_start_values_that_keep_failing_are_named_before_any_job(tmp_path):
    config = changed(TINY, "privacy.max_noise_error", 0.02)
    result = snakemake(tmp_path, config)
    assert result.returncode == 1
    words = r"privacy\.max_noise_error: realization \d: all 1000 draws of start values violate the constraint \(21\)"
    assert re.search(words, result.stdout + result.stderr)
    assert not list(tmp_path.rglob("logs/**/*.log"))


def test_results_read_what_is_asked_for_and_no_more(own):
    """A study whose store is gone shows its report, and says how to get the rest again."""
    shutil.rmtree(own / "store")
    found = pwfl.results(own / "results/small")
    assert found.comparison["claims"].height > 0
    assert {"summary", "audit"} <= set(found.scenarios["one"].report)
    assert set(found.scenarios["one"].report["summary"]["scheme"]) == {"drawn", "fixed"}
    assert "outcome" in repr(found.scenarios["one"])
    assert "claims" in repr(found.comparison)
    with pytest.raises(
        tables.TableError,
        match=r"small: this copy of the study has no stage tables: .*store does not exist, and the table outcome is read "
        r"from there; copy it from where the study ran, or run the study again, by pwfl run .*study.yaml --config want",
    ):
        _ = found.scenarios["one"].stages["outcome"]
