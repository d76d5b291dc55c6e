"""Tutorials and examples learn: they end where their pages say, above chance, with a decided comparison."""

import ast
import importlib
import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

import pwfl
from conftest import ROOT
from pwfl import registry
from pwfl.scenario import read

ROW = re.compile(r"^\| (\w+) \| ([^|]+?) \| (0\.\d+) \[(0\.\d+), (0\.\d+)\] \|$", re.MULTILINE)
SEEDS = (1, 2, 3)
# By page: the config's file where it is not in the page.
EXPECTED = {
    "docs/tutorials/1_first_study.md": None,
    "docs/tutorials/2_compare_schedulers.md": None,
    "docs/how-to/own_air.md": "examples/own_air/study.yaml",
    "examples/moving_users/README.md": "examples/moving_users/study.yaml",
    "examples/local_dp_mac/README.md": "examples/local_dp_mac/study.yaml",
    "examples/sionna_links/README.md": "examples/sionna_links/study.yaml",
}


def blocks(text: str, language: str) -> list[str]:
    """A page's blocks of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def config_of(page: str, folder: Path) -> dict:
    """The study of a page, whose functions are written into a folder."""
    if path := EXPECTED[page]:
        return read([ROOT / path])
    text = (ROOT / page).read_text(encoding="utf-8")
    for name, code in zip(re.findall(r"Save this as `(\w+\.py)`", text), blocks(text, "python"), strict=True):
        (folder / name).write_text(code, encoding="utf-8")
    return yaml.safe_load(blocks(text, "yaml")[0])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the examples, and their systems, as if these were installed."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    traced = ROOT / "examples/sionna_links"
    monkeypatch.syspath_prepend(traced)
    tables = [str(tmp_path / f"{name}.parquet") for name in ("links", "users")]
    importlib.import_module("convert").main(str(traced / "paths.npz"), *tables)
    monkeypatch.chdir(tmp_path)
    installed = {name: (f"{name}.system:SYSTEM",) for name in ("local_dp_mac", "privacy_for_free")}
    for name in installed:
        monkeypatch.syspath_prepend(ROOT / "examples" / name)
    known = registry.claims()
    monkeypatch.setattr(registry, "claims", lambda: known | installed)
    yield tmp_path
    for cached in (registry.makes, registry.makers, registry.stages):
        cached.cache_clear()


@pytest.mark.slow
def test_the_notebooks_study_learns_what_its_output_says_with_a_decided_comparison():
    cells = json.loads((ROOT / "docs/how-to/without_snakemake.ipynb").read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    assignment = next(
        re.search(r"^scenario = \{.*?^\}$", text, re.DOTALL | re.MULTILINE) for text in texts if "scenario = {" in text
    )
    scenario = ast.literal_eval(assignment[0].removeprefix("scenario = "))
    shown = next(cell for cell, text in zip(cells, texts, strict=True) if "accuracy_ci_low" in text)
    rows = re.findall(r"│ ([\w+]+) +┆ (0\.\d+) ", "".join(shown["outputs"][0]["data"]["text/plain"]))
    assert len(rows) == 3
    for seed in SEEDS:
        found = pwfl.simulate({"scenarios": {"few": scenario | {"realizations": 16, "seed": seed}}})
        accuracies = found.comparison["outcomes"].filter(outcome="accuracy")
        assert (accuracies["ci_low"] > accuracies["chance"]).all()
        effects = found.comparison["effects"].filter(outcome="accuracy")
        assert effects.height == (effects["p_corrected"] < 0.05).sum() == 2
        for scheme, expected in rows if seed == SEEDS[0] else ():
            assert accuracies.filter(scheme=scheme)["mean"].item() == pytest.approx(float(expected), abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("page", EXPECTED)
def test_a_study_ends_where_its_page_says_with_a_decided_comparison_above_chance(page, folder):
    rows = ROW.findall((ROOT / page).read_text(encoding="utf-8"))
    assert rows
    config = config_of(page, folder)
    for seed in SEEDS:
        config["base"]["seed"] = seed
        found = pwfl.simulate(config).comparison
        accuracies = found["outcomes"].filter(outcome="accuracy")
        ends = [name for name in accuracies.columns if re.fullmatch(r"(ci_)?(low|high)", name)]
        assert (accuracies[ends[0]] > accuracies["chance"]).all()
        effects = found["effects"].filter(pl.col("above_chance"), outcome="accuracy")
        assert effects.filter(pl.col("p_corrected") < 0.05).height
        for scenario, scheme, *expected in rows if seed == SEEDS[0] else ():
            (row,) = accuracies.filter(scenario=scenario, scheme=scheme).select("mean", *ends).rows()
            assert row == pytest.approx([float(number) for number in expected], abs=2e-3)


FREE = ROOT / "examples/privacy_for_free"
GAPS = re.compile(r"^\| (superposed|orthogonal), (adaptive|static) \| (.+) \|$", re.MULTILINE)
GAP = re.compile(r"([\d.]+) \(([\d.]+)–([\d.]+)\)")


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_privacy_for_free_learns_and_adaptive_power_is_better(seed, folder):
    """Gaps end far below the start's, adaptive power's below static power's at small budgets, and where README says."""
    config = read([FREE / "study.yaml"]) | {"run": ["budget"]}
    config["base"]["seed"] = seed
    if seed != SEEDS[0]:
        config["base"] |= {"realizations": 20, "training_realizations": 20}
    study = pwfl.simulate(config)
    gaps = study.comparison["outcomes"].filter(outcome="optimality_gap")
    start = study.scenarios["budget,epsilon=1"].stages["history"].filter(round=0)["optimality_gap"].mean()
    assert gaps["ci_high"].max() < start / 1.5
    pair = {"from": "Superposed, adaptive", "to": "Superposed, static"}
    effects = study.comparison["effects"].filter(outcome="optimality_gap", **pair)
    small = effects.filter(pl.col("from_scenario").str.extract(r"epsilon=(\d+)$").cast(float) <= 10)
    assert small.height == 3
    assert (small["difference"] > 0).all()
    assert (small["p_corrected"] < 0.05).all()
    for access, rule, cells in (
        GAPS.findall((FREE / "README.md").read_text(encoding="utf-8")) if seed == SEEDS[0] else ()
    ):
        scheme = gaps.filter(scheme=f"{access.capitalize()}, {rule}")
        stated = [[float(number) for number in cell] for cell in GAP.findall(cells)]
        np.testing.assert_allclose(stated, scheme.select("mean", "ci_low", "ci_high").to_numpy(), rtol=6e-3)
