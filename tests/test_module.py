"""The workflow as a part of others', from a plain checkout, and with the oldest Snakemake that it says it works with."""

import os
import re
import subprocess

import polars as pl
import pytest
import yaml

from conftest import ONE, ROOT, changed, copy_of_project, environment, python

OUTER = f"""
module wireless:
    snakefile: "{ROOT / "Snakefile"}"
    config: config["wireless"]
    prefix: "radio"

use rule * from wireless as wireless_*

rule count:
    default_target: True
    input: "radio/results/small/one/summary.csv"
    output: "lines.txt"
    shell: "wc -l < {{input}} > {{output}}"
"""


def run(folder, *arguments, env=None) -> subprocess.CompletedProcess:
    options = ("--directory", folder, "--workflow-profile", "none", "--cores", "2")
    return python("-m", "snakemake", *options, *arguments, cwd=folder, env=env)


FEW = ONE | {"base": ONE["base"] | {"realizations": 2, "training_realizations": 1}}


@pytest.mark.slow
def test_another_workflow_imports_this_one_with_a_config_of_its_own(tmp_path):
    (tmp_path / "Snakefile").write_text(OUTER)
    (tmp_path / "outer.yaml").write_text(yaml.safe_dump({"wireless": FEW, "other": 3}))
    result = run(tmp_path, "--configfile", "outer.yaml")
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "lines.txt").read_text().strip() == "8"  # seven targets, and the names of columns
    assert pl.read_csv(tmp_path / "radio/results/small/one/summary.csv")["scheme"].unique().to_list() == ["drawn"]
    assert list(tmp_path.glob("radio/store/train/*/000000-000010/history.parquet"))
    assert {path.name for path in tmp_path.iterdir()} == {
        "Snakefile", "outer.yaml", "lines.txt", "radio", ".snakemake"
    }  # fmt: skip
    assert "Nothing to be done" in run(tmp_path, "--configfile", "outer.yaml", "--dry-run").stdout
    (tmp_path / "outer.yaml").write_text(yaml.safe_dump({"wireless": changed(FEW, "seed", 2)}))
    before = (tmp_path / "radio/results/small/one/summary.csv").read_text()
    again = run(tmp_path, "--configfile", "outer.yaml")
    assert again.returncode == 0, again.stdout + again.stderr
    assert (tmp_path / "radio/results/small/one/summary.csv").read_text() != before


def test_a_modules_rules_and_marks_run_again_as_told_and_a_dry_run_writes_nothing(tmp_path):
    (tmp_path / "Snakefile").write_text(OUTER)
    (tmp_path / "outer.yaml").write_text(yaml.safe_dump({"wireless": FEW}))
    module = ("wireless_channel_all", "--configfile", "outer.yaml")
    assert run(tmp_path, *module, "--dry-run").returncode == 0
    assert not (tmp_path / "radio/store").exists()
    assert not list(tmp_path.glob("radio/.pwfl/**/*.*"))
    assert run(tmp_path, *module).returncode == 0
    (mark,) = tmp_path.glob("radio/.pwfl/small/channel/*.done")
    for forced in ("wireless_channel", str(mark.relative_to(tmp_path))):
        result = run(tmp_path, *module, "-R", forced, "--dry-run")
        assert "(again, as Snakemake was told)" in result.stdout + result.stderr, result.stdout + result.stderr


def test_a_mistake_in_a_modules_config_is_named(tmp_path):
    (tmp_path / "Snakefile").write_text(OUTER)
    wrong = changed(FEW, "schedule.horizont", 3)
    (tmp_path / "outer.yaml").write_text(yaml.safe_dump({"wireless": wrong}))
    result = run(tmp_path, "--configfile", "outer.yaml")
    assert result.returncode == 1
    expected = "the module's config: base.schedule.horizont: unknown key; did you mean 'horizon'?"
    assert expected in result.stdout + result.stderr


def test_a_checkout_runs_its_own_code_whatever_is_installed(tmp_path):
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    module = copy_of_project(checkout) / "pkg/pwfl/systems/age_aware/channel.py"
    module.write_text(module.read_text() + '\n\nraise RuntimeError("the checkout\'s own code runs")\n')
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(FEW))
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    arguments = ("--snakefile", str(checkout / "Snakefile"), "--configfile", "study.yaml", "--until", "channel")
    result = run(tmp_path, *arguments, "--show-failed-logs", env=own)
    assert result.returncode == 1
    assert "the checkout's own code runs" in result.stdout + result.stderr


def test_the_oldest_snakemake_that_is_declared_parses_the_workflow(tmp_path):
    oldest = re.search(r'"snakemake>=([\d.]+)[",]', (ROOT / "pyproject.toml").read_text())[1]
    assert f'min_version("{oldest}")' in (ROOT / "Snakefile").read_text()
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "old")
    result = python(*install, f"snakemake=={oldest}.*")
    if result.returncode:
        pytest.skip(f"Snakemake {oldest} cannot be installed: {result.stderr.strip().splitlines()[-1:]}")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(FEW))
    env = environment(ROOT, tmp_path / "old")
    assert run(tmp_path, "--version", env=env).stdout.startswith(oldest)
    call = ("--snakefile", str(ROOT / "Snakefile"), "--configfile", "study.yaml", "--dry-run")
    result = run(tmp_path, *call, env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"channel +1\n", result.stdout + result.stderr)
    channel = ("--snakefile", str(ROOT / "Snakefile"), "--configfile", "study.yaml", "--until", "channel")
    assert run(tmp_path, *channel, env=env).returncode == 0
    result = run(tmp_path, *channel, "-R", "channel", "--dry-run", env=env)
    assert "(again, as Snakemake was told)" in result.stdout + result.stderr
