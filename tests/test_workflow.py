"""The whole workflow on a tiny study: what comes out, what re-runs, what a mistake says."""

import polars as pl
import pytest
import yaml

from conftest import ROOT, jobs, need, plugin, snakemake
from pwfl import tables
from pwfl.report import catalog

pytestmark = pytest.mark.xdist_group("workflow")  # one worker, so that one run serves all these tests


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of a finished run of the tiny study, and its config."""
    from conftest import TINY

    folder = tmp_path_factory.mktemp("tiny")
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


def all_rows(folder, pattern: str) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in sorted(folder.glob(pattern))])


def test_everything_the_report_promises_comes_out(done):
    folder, config = done
    for name in config["scenarios"]:
        report = folder / "results" / name / "report"
        for figure in catalog.FIGURES["multicell"]:
            assert all((report / f"{figure}.{kind}").stat().st_size > 1000 for kind in ("html", "png", "svg"))
        for table in [*catalog.TABLES["multicell"], "parameters"]:
            assert (
                pl.read_csv(report / f"{table}.csv").height == pl.read_parquet(report / f"{table}.parquet").height > 0
            )
        assert (folder / "results" / name / "scenario.yaml").exists()
    claims = pl.read_csv(folder / "results" / "comparison" / "tiny" / "claims.csv")
    assert set(claims["claim"].str.head(1)) == set("12345")
    assert set(claims["realizations"]) == {3, 4}


def test_logs_tell_progress_and_the_time_left(done):
    log = (done[0] / "logs/low/train/optimal-optimal/000000-000002.log").read_text()
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
    assert page.count("data:image/png") == page.count("data:text/html") == 2 * len(catalog.FIGURES["multicell"])


REPORT = {"tables_multicell", "figures_multicell", "comparison"}
AUDIT = {"audit", *REPORT}
ACCOUNT = {"account", *AUDIT}
TRAIN = {"train", *REPORT}
NOISE = {"noise", "train", *ACCOUNT}
SCHEDULE = {"schedule", *NOISE}
CHANNEL = {"channel", *SCHEDULE}
RERUNS = {
    "seed": (2, CHANNEL),
    "realizations": (6, CHANNEL - {"train", "audit"}),  # the first shard is as it was
    "training_realizations": (4, TRAIN),
    "shards.optimization": (4, CHANNEL),
    "shards.training": (3, TRAIN),
    "network.rings": (2, CHANNEL),
    "network.users": (21, CHANNEL),
    "network.cell_radius_m": (600.0, CHANNEL),
    "radio.resource_blocks": (3, CHANNEL),
    "radio.bandwidth_hz": (200e3, SCHEDULE),
    "radio.noise_density_dbm_hz": (-170.0, SCHEDULE),
    "radio.max_power_dbm": (12.0, CHANNEL),
    "radio.min_rate_bps": (120e3, SCHEDULE),
    "radio.frequency_hz": (2e9, CHANNEL),
    "radio.path_loss_exponent": (3.5, CHANNEL),
    "radio.fading_scale": (0.8, CHANNEL),
    "radio.min_distance_m": (2.0, CHANNEL),
    "data.dataset": ("mnist", {"dataset", *CHANNEL}),
    "data.folder": ("elsewhere", set()),
    "data.samples_offset": (11, CHANNEL),
    "data.samples_log_mean": (2.4, CHANNEL),
    "data.samples_log_sd": (0.9, CHANNEL),
    "data.samples_total": (700, CHANNEL),
    "privacy.max_noise_error": (0.5, CHANNEL),
    "privacy.min_noise": (3.4, CHANNEL),
    "privacy.delta": (1e-6, ACCOUNT),
    "schedule.gamma": (400.0, SCHEDULE),
    "schedule.solver": ("HIGHS", SCHEDULE),
    "training.hidden_layers": ([9], {*TRAIN, *ACCOUNT}),
    "training.rounds": (5, {*TRAIN, *ACCOUNT}),
    "training.learning_rate": (0.5, {*TRAIN, *ACCOUNT}),
    "training.clip_norm": (1.1, {*TRAIN, *ACCOUNT}),
    "training.clipping": ("per_user", {*TRAIN, *ACCOUNT}),
    "training.evaluate_every": (3, TRAIN),
    "convergence.smoothness": (10.0, ACCOUNT),
    "convergence.strong_convexity": (0.5, ACCOUNT),
    "convergence.xi1": (0.1, ACCOUNT),
    "convergence.xi2": (1.1, ACCOUNT),
    "audit.canaries": (60, AUDIT),
    "schemes": ([{"name": "OptSched", "scheduler": "optimal", "noise": "random"}], REPORT),
}


def test_the_table_of_reruns_names_every_parameter():
    from pwfl import scenario
    from pwfl.systems.multicell.scenario import Multicell

    known = {".".join(path) for path, _ in scenario.parameters(Multicell)}
    assert set(RERUNS) == known - {"system"}


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


def test_another_name_of_the_study_runs_the_comparison_alone(done):
    folder, config = done
    assert set(jobs(snakemake(folder, config | {"study": "other"}, "--dry-run"))) == {"comparison"}


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
        ("schedule/power.py", "fraction > 1", "fraction >= 1", SCHEDULE),
        ("privacy/gaussian.py", "rounds / 2", "rounds * 0.5", ACCOUNT),
        ("privacy/lower_bounds.py", "tail = false_alarm / 2", "tail = false_alarm / 3", AUDIT),
        ("schedule/power.py", "# ", "#  ", set()),
        ("schedule/power.py", '"""Powers of', '"""The powers of', set()),
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


def test_shard_sizes_and_cores_do_not_change_a_bit(done, tmp_path):
    folder, config = done
    other = changed(changed(config, "shards.optimization", 3), "shards.training", 1) | {"run": ["low"]}
    targets = [f"results/low/account/{pair}/{shard}/outcome.parquet" for pair in ("random-random", "optimal-optimal")
               for shard in ("000000-000003", "000003-000004")]  # fmt: skip
    targets += [f"results/low/train/optimal-optimal/{k:06d}-{k + 1:06d}/history.parquet" for k in range(3)]
    result = snakemake(tmp_path, other, *targets)
    assert result.returncode == 0, result.stdout + result.stderr
    for pattern in ("channel/*/users", "channel/*/links", "schedule/optimal/*/schedule", "account/random-random/*/outcome",
                    "account/optimal-optimal/*/leakage", "train/optimal-optimal/*/history"):  # fmt: skip
        path = f"results/low/{pattern}.parquet"
        assert all_rows(tmp_path, path).equals(all_rows(folder, path)), pattern


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
    assert not (tmp_path / "run" / "results").exists()
    assert (storage / "results" / "comparison" / "tiny" / "claims.csv").exists()
    paths = sorted(path.relative_to(folder) for path in folder.glob("results/low/**/*.parquet"))
    assert len(paths) > 40
    for path in paths:
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
    result = snakemake(folder, config, "results/lov/report/accuracy.html")
    assert result.returncode == 1
    assert "there is no scenario 'lov'; did you mean 'low'?" in result.stdout + result.stderr


def test_start_values_that_keep_failing_are_named_by_the_stage(tmp_path, tiny_config):
    config = changed(tiny_config, "privacy.max_noise_error", 0.02)
    result = snakemake(tmp_path, config, "results/low/channel/000000-000002/users.parquet")
    assert result.returncode == 1
    log = (tmp_path / "logs/low/channel/000000-000002.log").read_text()
    assert "realization 0: 1000 draws of start values all violate (21)" in log.splitlines()[-1]


def test_a_damaged_table_is_named_by_the_stage_that_reads_it(done, tmp_path):
    _, config = done
    target = "results/low/noise/optimal-random/000000-000002/noise.parquet"
    result = snakemake(tmp_path, config, target, "results/low/channel/000000-000002/users.parquet")
    assert result.returncode == 0, result.stdout + result.stderr
    users = tmp_path / "results/low/channel/000000-000002/users.parquet"
    pl.read_parquet(users).with_columns(samples=pl.lit("x")).write_parquet(users)
    result = snakemake(tmp_path, config, target)
    assert result.returncode == 1
    assert "users.parquet: column 'samples' holds String, must hold Int64" in result.stdout + result.stderr


def test_tables_on_disk_satisfy_their_schemas(done):
    folder, _ = done
    for table in ("users", "links", "schedule", "noise", "history", "leakage", "outcome"):
        assert tables.read(
            "multicell", table, [str(p) for p in folder.glob(f"results/low/[!r]*/**/{table}.parquet")]
        ).height
