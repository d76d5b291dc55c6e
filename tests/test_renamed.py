"""Old names are found wherever they stand."""

import sys

import pytest

from conftest import ROOT
from pwfl.scenario import messages, read, study

sys.path.insert(0, str(ROOT / "docs"))
import renamed


def test_an_old_name_is_found_as_a_whole_word(monkeypatch, tmp_path):
    monkeypatch.setattr(renamed, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text("x = frame['rho_alone']\ny = 'rho_alone_too'\n")
    names = renamed.old_names((ROOT / "docs/upgrading.md").read_text(encoding="utf-8"))
    assert {"rho_alone", "air_seconds_so_far", "link_budget"} <= set(names)
    assert renamed.uses(names, [tmp_path / "a.py"]) == ["a.py:1: rho_alone"]


GONE = "is a key of version 1: "
CHUNKS = f"shards: {GONE}chunks of realizations follow from the network's size; delete it"
FORMER_CONFIGS = {  # of version 1: a scenario's former keys, and what each config is told
    "multicell": (
        {"shards": {"training": 50}, "training": {"weights": "precision"}, "data": {"validation": 10_000}},
        [
            f"base.{CHUNKS}",
            f"base.data.validation: {GONE}write `data.reserved` and `data.evaluate_on: reserved`",
            f"base.training.weights: {GONE}{messages.RECIPE}",
        ],
    ),
    "anonymous_oac": (
        {"radio": {"path_loss_db": 90.0}},
        [f"base.radio.path_loss_db: {GONE}it is a constant now; delete it"],
    ),
    "random_orthogonalization": (
        {"training": {"accuracy_level": 0.9}},
        [f"base.training.accuracy_level: {GONE}it is a constant now; delete it"],
    ),
    "utility_fair": (
        {"training": {"correction": True}},
        [f"base.training.correction: {GONE}it is a constant now; delete it"],
    ),
    "age_aware": (
        {"schedule": {"sweep_clients": [0]}, "shards": {"training": 4}},
        [f"base.schedule.sweep_clients: {GONE}it is a constant now; delete it", f"base.{CHUNKS}"],
    ),
}


@pytest.mark.parametrize("system", FORMER_CONFIGS)
def test_a_config_of_version_1_is_told_each_former_key_once(system):
    keys, expected = FORMER_CONFIGS[system]
    base = {"system": system, "realizations": 1, "training_realizations": 1}
    config = {"base": base | keys, "scenarios": {"one": {}}}
    with pytest.raises(messages.ScenarioError) as error:
        study.load(config, "a test")
    told = [line.strip().removeprefix("a test: ") for line in str(error.value).splitlines() if GONE in line]
    assert sorted(told) == sorted(expected)
    study.load(config | {"base": base}, "a test")


def test_swept_former_keys_are_told_too():
    with pytest.raises(messages.ScenarioError, match=r"training\.weights: is a key of version 1: `training\.recipe`"):
        study.load(
            {"base": {"sweep": {"training.weights": ["records", "precision"]}}, "scenarios": {"one": {}}}, "a test"
        )


def test_the_page_lists_the_keys_that_are_told():
    page = (ROOT / "docs/upgrading.md").read_text(encoding="utf-8")
    assert all(f"`{key}`" in page for key in messages.FORMER)


OLD_CONFIGS = sorted((ROOT / "tests/former").glob("*.yaml"))  # the default study and five others, as they were


def without_former_keys(section: dict) -> dict:
    """A base or scenario as its messages say: without former keys, in sections and as sweeps."""
    kept = {key: value for key, value in section.items() if key not in messages.FORMER}
    for name, content in kept.items():
        if isinstance(content, dict):
            paths = {key: key if name == "sweep" else f"{name}.{key}" for key in content}
            kept[name] = {key: value for key, value in content.items() if paths[key] not in messages.FORMER}
    return kept


@pytest.mark.parametrize("path", OLD_CONFIGS, ids=lambda path: path.stem)
def test_an_old_config_is_told_former_keys_alone_and_runs_without_them(path):
    config = read([path])
    with pytest.raises(messages.ScenarioError) as error:
        study.load(config, path.name)
    lines = str(error.value).removeprefix(f"{path.name}:").strip().splitlines()
    assert all(GONE in line and line.partition(GONE)[2] for line in lines)
    scenarios = {name: without_former_keys(own or {}) for name, own in config["scenarios"].items()}
    loaded = study.load(config | {"base": without_former_keys(config["base"]), "scenarios": scenarios}, path.name)
    assert loaded.scenarios
