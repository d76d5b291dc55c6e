"""The workflow as a part of others', from a plain checkout, and with the oldest Snakemake that it says it works with."""

import os
import re
import shutil
import subprocess
import sys

import polars as pl
import pytest
import yaml

from conftest import ROOT, TINY, environment

pytestmark = pytest.mark.xdist_group("module")

OUTER = f"""
module wireless:
    snakefile: "{ROOT / "Snakefile"}"
    config: config["wireless"]
    prefix: "radio"

use rule * from wireless as wireless_*

rule count:
    default_target: True
    input: "radio/results/tiny/one/summary.csv"
    output: "lines.txt"
    shell: "wc -l < {{input}} > {{output}}"
"""


def command(folder, *arguments) -> list[str]:
    return [
        sys.executable, "-m", "snakemake", "--directory", str(folder), "--workflow-profile", "none", "--cores", "2",
        *arguments,
    ]  # fmt: skip


def run(folder, *arguments, env=None) -> subprocess.CompletedProcess:
    return subprocess.run(
        command(folder, *arguments), capture_output=True, text=True, cwd=folder, env=env or environment(), check=False
    )


def small() -> dict:
    config = yaml.safe_load(yaml.safe_dump(TINY)) | {"scenarios": {"one": {}}}
    scheme = {"name": "RndSched", "scheduler": "random", "noise": "random"}
    config["base"] |= {"realizations": 2, "training_realizations": 1, "schemes": [scheme]}
    return config


def test_another_workflow_imports_this_one_with_a_config_of_its_own(tmp_path):
    (tmp_path / "Snakefile").write_text(OUTER)
    (tmp_path / "outer.yaml").write_text(yaml.safe_dump({"wireless": small(), "other": 3}))
    result = run(tmp_path, "--configfile", "outer.yaml")
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "lines.txt").read_text().strip() == "2"
    assert pl.read_csv(tmp_path / "radio/results/tiny/one/summary.csv")["scheme"].to_list() == ["RndSched"]
    assert list(tmp_path.glob("radio/store/train/*/000000-000002/history.parquet"))
    assert "Nothing to be done" in run(tmp_path, "--configfile", "outer.yaml", "--dry-run").stdout


def test_a_mistake_in_a_modules_config_is_named(tmp_path):
    (tmp_path / "Snakefile").write_text(OUTER)
    wrong = small()
    wrong["base"]["radio"]["resource_block"] = 3
    (tmp_path / "outer.yaml").write_text(yaml.safe_dump({"wireless": wrong}))
    result = run(tmp_path, "--configfile", "outer.yaml")
    assert result.returncode == 1
    expected = "the module's config:\n  base.radio.resource_block: unknown key; did you mean 'resource_blocks'?"
    assert expected in result.stdout + result.stderr


@pytest.fixture
def checkout(tmp_path):
    """The project's files in another folder, and the config of a small study."""
    (tmp_path / "checkout").mkdir()
    for name in ("Snakefile", "rules", "scripts", "pkg", "report", "envs", "config"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / "checkout" / name)
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(small()))
    return tmp_path / "checkout"


def test_a_checkout_runs_its_own_code_whatever_is_installed(checkout, tmp_path):
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    module = checkout / "pkg/pwfl/systems/multicell/channel.py"
    module.write_text(module.read_text() + '\n\nraise RuntimeError("the checkout\'s own code runs")\n')
    arguments = ("--snakefile", str(checkout / "Snakefile"), "--configfile", "study.yaml", "--until", "channel")
    result = run(tmp_path, *arguments, "--show-failed-logs", env=own)
    assert result.returncode == 1
    assert "the checkout's own code runs" in result.stdout + result.stderr


def test_the_oldest_snakemake_that_is_declared_parses_the_workflow(tmp_path):
    oldest = re.search(r'"snakemake>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert f'min_version("{oldest}")' in (ROOT / "Snakefile").read_text()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "old")]
    result = subprocess.run([*install, f"snakemake=={oldest}.*"], capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(f"Snakemake {oldest} cannot be installed: {result.stderr.strip().splitlines()[-1:]}")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(small()))
    env = environment(ROOT, tmp_path / "old")
    assert run(tmp_path, "--version", env=env).stdout.startswith(oldest)
    result = run(tmp_path, "--snakefile", str(ROOT / "Snakefile"), "--configfile", "study.yaml", "--dry-run", env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"channel +1\n", result.stdout + result.stderr)
