"""The whole workflow on a tiny study: what comes out, what re-runs, what a mistake says."""

import re
import shutil
from pathlib import Path

import polars as pl
import pytest
import yaml

import pwfl
from conftest import ROOT, jobs, need, plugin, snakemake
from pwfl import tables
from pwfl.report import catalog
from pwfl.runtime import made
from pwfl.stages import STAGES
from pwfl.systems import registry
from pwfl.workflow import reports

pytestmark = pytest.mark.xdist_group("workflow")  # one worker, so that one run serves all these tests


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of a finished run of the tiny study, and its config."""
    from conftest import TINY

    folder = tmp_path_factory.mktemp("tiny")
    keys = {"realization": range(4), "station": range(2), "user": range(20)}
    tables.to_table(keys, gain=1e-9).write_csv(folder / "links.csv")
    result = snakemake(folder, TINY, "--cores", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    return folder, TINY


def changed(config: dict, path: str, value) -> dict:
    """The config with the parameter at a dotted path of its base set."""
    config = yaml.safe_load(yaml.safe_dump(config))
    here = config["base"]
    *sections, key = path.split(".")
    for section in sections:
        here = here.setdefault(section, {})
    here[key] = value
    return config


def stored(folder, config: dict, scenario: str, stage: str, scheme: str = "") -> Path:
    """The folder of a stage's tables, of the first scheme or of a named one."""
    listed = pl.read_csv(folder / "results" / config["study"] / scenario / "addresses.csv")
    rows = listed.filter(pl.col("stage") == stage, pl.col("scheme").str.contains(scheme, literal=True))
    return folder / rows["folder"][0]


def all_rows(home: Path, table: str, count: int) -> pl.DataFrame:
    """A table's rows of the first realizations, of all shards of a folder of the store."""
    frames = pl.concat([pl.read_parquet(path) for path in sorted(home.rglob(f"{table}.parquet"))])
    return frames.filter(pl.col("realization") < count).unique(
        maintain_order=True
    )  # scenarios have shards of their own


def test_everything_the_report_promises_comes_out(done):
    folder, config = done
    shown = registry.system("multicell").catalog
    for name in config["scenarios"]:
        report = folder / "results" / "tiny" / name
        for figure in catalog.scenario_figures(shown):
            assert all((report / f"{figure}.{kind}").stat().st_size > 1000 for kind in ("json", "png", "svg"))
        for table in [*shown.tables, *catalog.COMMON_TABLES, "parameters"]:
            assert (
                pl.read_csv(report / f"{table}.csv").height == pl.read_parquet(report / f"{table}.parquet").height > 0
            )
        assert (report / "scenario.yaml").exists()
    claims = pl.read_csv(folder / "results" / "tiny" / "claims.csv")
    assert set(claims["claim"].str.head(1)) == set("12345")
    assert set(claims["realizations"]) == {3, 4}


def test_every_address_is_described_in_words(done):
    folder, config = done
    home = stored(folder, config, "low", "schedule", "OptSched")
    found = yaml.safe_load((home / "description.yaml").read_text())
    assert found["address"] == home.name
    assert (found["system"], found["stage"], found["variant"]) == ("multicell", "schedule", "optimal")
    assert found["parameters"]["schedule"] == {"gamma": 300.0, "solver": "assignment"}
    assert found["upstream"] == {"channel": stored(folder, config, "low", "channel").name}
    assert {"numpy", "polars", "scipy"} <= set(found["packages"])


def test_logs_tell_progress_and_the_time_left(done):
    address = stored(*done, "low", "train", "OptSched+DP").name
    log = (done[0] / f"logs/train/{address}/000000-000002.log").read_text()
    assert "1 of 2 trained, about" in log
    assert "2 of 2 trained, about 0 s left" in log


def test_a_finished_run_has_nothing_to_do(done):
    assert jobs(snakemake(*done, "--dry-run")) == {}


def test_the_report_builds_and_holds_figures_and_captions(done):
    folder, config = done
    result = snakemake(folder, config, "--report", "report.html")
    assert result.returncode == 0, result.stdout + result.stderr
    page = (folder / "report.html").read_text()
    assert "Empirical distribution over realizations" in page
    figures = 2 * len(catalog.scenario_figures(registry.system("multicell").catalog))
    compared = catalog.compared(registry.system("multicell").catalog, swept=False)
    assert page.count('"data_uri": "data:image/svg') == figures + len(compared)
    assert page.count("data:text/html") == 1  # the study's page
    assert "data:text/csv" not in page


def test_results_leave_out_an_audit_of_other_parameters(done, tmp_path):
    folder, config = done
    for part in ("results", "store"):
        shutil.copytree(folder / part, tmp_path / part)
    record = tmp_path / "results" / "tiny" / "low" / reports.record("audited")  # of a change that did not ask for one
    made.record(str(record), {"upstream": {"OptSched": {"audit": "0123456789ab"}}}, [])
    found = pwfl.results(tmp_path / "results" / config["study"]).scenarios
    assert "audit" in found["high"].stages
    assert "audit" in found["high"].report
    assert "audit" not in found["low"].stages
    assert "audit" not in found["low"].report


REPORT = {"tables_multicell", "figures_multicell", "audited", "comparison", "page"}
AUDIT = {"audit", *REPORT}
ACCOUNT = {"account", *AUDIT}
TRAIN = {"train", *REPORT} - {"audited"}
NOISE = {"noise", "train", *ACCOUNT}
SCHEDULE = {"schedule", *NOISE}
CHANNEL = {"channel", *SCHEDULE}
RERUNS = {  # one of a kind; for every parameter tests/reruns has the stages whose addresses change
    "seed": (2, CHANNEL),
    "realizations": (6, CHANNEL - {"train"}),
    "training_realizations": (4, REPORT),  # shards are whole: the fourth is trained
    "shards.optimization": (3, CHANNEL - {"audited"}),
    "shards.training": (1, TRAIN),
    "radio.bandwidth_hz": (200e3, SCHEDULE),
    "channel.links": ("links.csv", {"imported", *CHANNEL}),
    "data.dataset": ("mnist", {"dataset", *CHANNEL}),
    "data.folder": ("elsewhere", set()),
    "privacy.delta": (1e-6, ACCOUNT),
    "privacy.target_epsilon": (2.0, {"comparison", "page"}),  # no scheme asks for it; a comparison reads everything
    "schedule.gamma": (400.0, SCHEDULE),
    "schedule.solver": ("HIGHS", SCHEDULE),
    "training.features": ("scattering", {"features", *TRAIN, *ACCOUNT}),
    "training.rounds": (5, {*TRAIN, *ACCOUNT}),
    "training.evaluate_every": (3, TRAIN),
    "convergence.xi1": (0.1, ACCOUNT),
    "audit.canaries": (60, AUDIT),
    "schemes": ([{"name": "OptSched", "scheduler": "optimal", "noise": "random"}], REPORT),
}


@pytest.mark.parametrize("parameter", RERUNS)
def test_a_changed_parameter_reruns_only_what_reads_it(done, parameter):
    folder, config = done
    value, expected = RERUNS[parameter]
    found = jobs(snakemake(folder, changed(config, parameter, value), "--dry-run"))
    assert set(found) == expected | {"scenario"}
    if parameter == "schedule.gamma":  # the scenario `high` sets its own, and the random scheduler reads none
        assert found["schedule"] == 2


def test_more_realizations_compute_only_the_new_ones(done):
    folder, config = done
    found = jobs(snakemake(folder, changed(config, "realizations", 6), "--dry-run"))
    assert found["channel"] == 2
    assert found["schedule"] == 4
    assert found["account"] == 6


def test_another_name_of_the_study_only_reports(done):
    folder, config = done
    assert set(jobs(snakemake(folder, config | {"study": "other"}, "--dry-run"))) == {"scenario", *REPORT}


def test_points_of_a_sweep_are_audited_where_it_is_asked_for(done):
    folder, config = done
    swept = config | {"scenarios": {"low": {"sweep": {"privacy.delta": [1e-4, 1e-6]}}}}
    assert {"account", "page"} <= set(plain := jobs(snakemake(folder, swept, "--dry-run")))
    assert not {"audit", "audited"} & set(plain)
    found = jobs(snakemake(folder, swept, "--dry-run", "audits"))
    assert (found["audit"], found["audited"]) == (2 * 3, 2)  # three schemes


@pytest.fixture
def copy_of_project(tmp_path):
    """The project's files in another folder, and Snakemake's environment to run it."""
    import shutil

    for name in ("Snakefile", "rules", "scripts", "pkg", "report", "envs", "config"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("systems/multicell/power.py", "fraction > 1", "fraction >= 1", SCHEDULE),
        ("privacy/gaussian.py", "rounds / 2", "rounds * 0.5", NOISE),  # a scheme of noise calibrates with it
        ("privacy/lower_bounds.py", "tail = false_alarm / 2", "tail = false_alarm / 3", AUDIT),
        ("systems/multicell/power.py", "# ", "#  ", set()),
        ("systems/multicell/power.py", '"""Powers of', '"""The powers of', set()),
    ],
)
def test_edited_code_reruns_only_the_stages_that_run_it(done, copy_of_project, file, old, new, expected):
    folder, config = done
    path = copy_of_project / "pkg" / "pwfl" / file
    text = path.read_text()
    assert old in text or old == "# "
    path.write_text(text.replace(old, new) if old in text else text + "# a comment\n")
    result = snakemake(folder, config, "--dry-run", project=copy_of_project)
    assert set(jobs(result)) == expected


@pytest.mark.slow
def test_shard_sizes_and_cores_do_not_change_a_bit(done, tmp_path):
    folder, config = done
    other = changed(changed(config, "shards.optimization", 3), "shards.training", 1) | {"run": ["low"]}
    result = snakemake(tmp_path, other)
    assert result.returncode == 0, result.stdout + result.stderr
    for stage, declared in STAGES.items():
        for scheme in ("RndSched", "OptSched+DP"):
            one, two = (stored(f, config, "low", stage, scheme) for f in (folder, tmp_path))
            assert one.name == two.name
            for table in declared.makes:
                count = 3 if stage == "train" else 4
                assert all_rows(one, table, count).equals(all_rows(two, table, count)), table
    for table in ("summary", "realizations", "history", "statuses", "audit"):
        path = f"results/tiny/low/{table}.parquet"
        assert pl.read_parquet(tmp_path / path).equals(pl.read_parquet(folder / path)), table


def test_jobs_get_along_with_declared_files_in_a_storage(done, tmp_path):
    need("rsync")
    folder, config = done
    storage = tmp_path / "storage"
    storage.mkdir()
    arguments = ["--default-storage-provider", "fs", "--default-storage-prefix", str(storage), "--shared-fs-usage"]
    arguments += ["source-cache", "--cores", "2"]
    plugins = (plugin("storage", tmp_path / "plugin"),)
    result = snakemake(tmp_path / "run", config | {"run": ["low"]}, *arguments, plugins=plugins)
    assert result.returncode == 0, result.stdout + result.stderr
    assert not (tmp_path / "run" / "store").exists()
    assert (storage / "results" / "tiny" / "claims.csv").exists()
    paths = sorted(path.relative_to(storage) for path in storage.glob("store/**/*.parquet"))
    assert len(paths) > 40
    for path in [*paths, *(f"results/tiny/low/{table}.parquet" for table in ("summary", "history", "audit"))]:
        assert pl.read_parquet(storage / path).equals(pl.read_parquet(folder / path)), path


def test_a_mistake_in_the_config_stops_before_any_job(tmp_path, tiny_config):
    result = snakemake(tmp_path, changed(tiny_config, "radio.resource_block", 3))
    output = result.stdout + result.stderr
    assert result.returncode == 1
    assert "study.yaml:\n  base.radio.resource_block: unknown key; did you mean 'resource_blocks'?" in output
    assert "Traceback" not in output
    assert not (tmp_path / "results").exists()


def test_a_target_of_a_scenario_that_does_not_exist_lists_those_that_do(done):
    folder, config = done
    result = snakemake(folder, config, "results/tiny/lov/accuracy.svg")
    assert result.returncode == 1
    assert "there is no scenario 'lov'; did you mean 'low'?" in result.stdout + result.stderr


def test_a_target_at_an_address_that_the_study_does_not_use_says_so(done):
    folder, config = done
    result = snakemake(folder, config, "store/channel/0123456789ab/000000-000002/users.parquet")
    assert result.returncode == 1
    assert "nothing of the study tiny has the address 0123456789ab" in result.stdout + result.stderr


def test_start_values_that_keep_failing_are_named_by_the_stage(tmp_path, tiny_config):
    config = changed(tiny_config, "privacy.max_noise_error", 0.02)
    result = snakemake(tmp_path, config, "--until", "channel")
    assert result.returncode == 1
    logs = [path.read_text() for path in tmp_path.glob("logs/channel/*/*.log")]
    assert any(re.search(r"realization \d: 1000 draws of start values all violate \(21\)", log) for log in logs)
