"""Functions of users' own in place of schedulers, noise and models, and the page that says how."""

import re

import numpy as np
import polars as pl
import pytest
import yaml

import pwfl
import stage_of
from conftest import ROOT
from pipeline import part
from pwfl.learning import features
from pwfl.runtime import own, store
from pwfl.scenario import ScenarioError, check_surroundings, load, resolve
from pwfl.systems.multicell.model import start_weights
from pwfl.workflow.plan import plan

PAGE = (ROOT / "docs/own_functions.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.DOTALL)
SCHEDULER, NOISE, NETWORK = (text for kind, text in BLOCKS if kind == "python")
(STUDY,) = (yaml.safe_load(text) for kind, text in BLOCKS if kind == "yaml")
BASE = STUDY["base"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The page's files, in the folder that is worked in."""
    (tmp_path / "greedy.py").write_text(SCHEDULER + "\n\n" + NOISE)
    (tmp_path / "network.py").write_text(NETWORK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_scheme(scheduler="random", noise="optimal", **changes):
    return resolve(BASE | {"schemes": [{"name": "a", "scheduler": scheduler, "noise": noise}]}, changes)


def scheduled(model):
    found = stage_of.channel(part(model, "channel"), range(4))
    (scheme,) = model.schemes
    return found | stage_of.schedule(part(model, "schedule", scheme.scheduler), scheme.scheduler, found)


def test_the_study_of_the_page_runs(folder):
    made = pwfl.simulate(STUDY).scenarios["few_blocks"]
    each = made.report["realizations"]
    assert each.filter(scheme="Greedy")["objective_gap"].min() >= 0
    assert each.filter(pl.col("scheme") != "No noise")["epsilon_exact"].is_finite().all()
    assert each.filter(scheme="No noise")["epsilon_exact"].is_infinite().all()
    assert set(made.report["audit"].filter(scheme="Greedy")["status"]) == {"consistent"}


def test_a_cell_schedules_those_with_the_most_samples(folder):
    found = scheduled(with_scheme("greedy.py:schedule"))
    users = found["users"].join(found["schedule"], on=["realization", "user"])
    for _, cell in users.group_by("realization", "cell"):
        most = cell.sort("samples", descending=True)["samples"][:2].to_list()
        assert cell.drop_nulls("assigned_block")["samples"].sort(descending=True).to_list() == most


def test_the_start_values_as_a_function_are_the_scheduler_random(folder):
    (folder / "start.py").write_text("def schedule(scenario, uplink, users, start):\n    return start\n")
    mine, built_in = scheduled(with_scheme("start.py:schedule")), scheduled(with_scheme("random"))
    assert mine["schedule"].equals(built_in["schedule"])
    assert set(mine["schedule_status"]["status"]) == {"own"}


def test_noise_is_what_the_function_says(folder):
    model = with_scheme("random", "greedy.py:constant")
    found = scheduled(model)
    made = stage_of.noise(part(model, "noise", "greedy.py:constant"), "greedy.py:constant", found)
    sends = found["schedule"]["resource_block"].is_not_null()
    assert set(made["noise"].filter(sends)["noise_std"]) == {0.5}
    assert set(made["noise"].filter(~sends)["noise_std"]) == {0.0}


RETURNED = {  # what a scheduler returns -> what is said
    "start.astype(float)": "returns float64 of shape (4, 20); must return each user's block",
    "start[:, 1:]": "of shape (4, 19)",
    "0 * start + 2": "the block 2; blocks are 0..1",
    "0 * start - 2": "the block -2",
    "0 * start": "a cell's block takes one user",
    "scenario.training.rounds": "fails: UndeclaredError",
    "1 / 0": r"fails: ZeroDivisionError: division by zero \(.*bad.py, line 2\)",
}


@pytest.mark.parametrize("returned", RETURNED)
def test_what_is_no_schedule_is_refused(folder, returned):
    (folder / "bad.py").write_text(f"def schedule(scenario, uplink, users, start):\n    return {returned}\n")
    text = RETURNED[returned] if "\\" in RETURNED[returned] else re.escape(RETURNED[returned])
    with pytest.raises(own.OwnError, match=f"bad.py:schedule.*{text}"):
        scheduled(with_scheme("bad.py:schedule"))


def test_what_is_no_noise_is_refused(folder):
    (folder / "bad.py").write_text("def noise(scenario, samples, scheduled, start):\n    return -start\n")
    model = with_scheme("random", "bad.py:noise")
    with pytest.raises(own.OwnError, match=r"bad.py:noise: must return each scheduled user's standard deviation"):
        stage_of.noise(part(model, "noise", "bad.py:noise"), "bad.py:noise", scheduled(model))


NAMED = {  # what a config says -> what is wrong with it
    "gredy.py:schedule": "gredy.py: there is no such file",
    "greedy.py:shedule": "greedy.py: defines no function shedule; did you mean schedule?",
    "empty.py:schedule": "empty.py: defines no function schedule; it defines none",
    "broken.py:schedule": "broken.py: is not Python: ",
    "bytes.py:schedule": "bytes.py: is not Python: ",
    "folder.py:schedule": "folder.py: there is no such file",
    "nowhere.at_all:schedule": "there is no module nowhere.at_all; a function in a file is named FILE.py:schedule",
}


@pytest.mark.parametrize("named", NAMED)
def test_a_function_that_is_not_there_is_said_before_work_starts(folder, named):
    (folder / "empty.py").write_text("")
    (folder / "broken.py").write_text("def schedule(:\n")
    (folder / "bytes.py").write_bytes(b"\xff\xfe\x00")
    (folder / "folder.py").mkdir()
    schemes = [{"name": "Mine", "scheduler": named, "noise": "optimal"}]
    study = load(STUDY | {"base": BASE | {"schemes": schemes}}, "study.yaml")
    with pytest.raises(ScenarioError, match=re.escape(f"'Mine': scheduler: {NAMED[named]}")):
        check_surroundings(study)


def test_another_word_that_is_no_scheduler_is_refused():
    with pytest.raises(ScenarioError, match=r"schemes.0.scheduler: 'greedy' is wrong: input should be 'random'"):
        with_scheme("greedy")


def addresses(model):
    return {key: description["address"] for key, description in stage_of.addresses(model).items()}


def test_code_decides_about_addresses_and_comments_do_not(folder):
    model = with_scheme("greedy.py:schedule")
    before, path = addresses(model), folder / "greedy.py"
    path.write_text("# A comment.\n" + path.read_text())
    assert addresses(model) == before
    path.write_text(
        path.read_text().replace("block = np.full(samples.shape, -1)", "block = np.full(samples.shape, -1.0)")
    )
    after = addresses(model)
    assert {stage for stage, *_ in before if before[stage, *_] != after[stage, *_]} == {
        "schedule", "noise", "train", "account"
    }  # fmt: skip


def test_a_job_refuses_a_function_that_changed_since_it_was_planned(folder):
    study = load(STUDY, "study.yaml")
    job = next(job for job in plan(study).jobs() if job.description["variant"] == "greedy.py:schedule")
    assert job.outside == {"own": ["greedy.py"]}
    store.check_code(job.description)
    (folder / "greedy.py").write_text("def schedule(*given):\n    return 1\n")
    with pytest.raises(store.StoreError, match="the code of schedule changed after this job was planned"):
        store.check_code(job.description)


def test_a_function_of_an_installed_package_is_found_and_its_code_counts(folder, monkeypatch):
    package = folder / "site/my_schedulers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "start.py").write_text("def schedule(scenario, uplink, users, start):\n    return start\n")
    monkeypatch.syspath_prepend(str(folder / "site"))
    model = with_scheme("my_schedulers.start:schedule")
    assert scheduled(model)["schedule"].equals(scheduled(with_scheme("random"))["schedule"])
    assert (
        "my_schedulers.start" in stage_of.addresses(model)["schedule", "my_schedulers.start:schedule", None]["modules"]
    )


def test_collection_times_of_ones_own(folder):
    (folder / "times.py").write_text(
        "import numpy as np\n\ndef fresh(scenario, profiles, required, allowed):\n"
        "    return np.full(required.shape[:3], required.shape[3] - 1)\n\n"
        "def late(scenario, profiles, required, allowed):\n    return np.full(required.shape[:3], 99)\n"
    )
    base = {"system": "age_aware", "schedule": {"horizon": 4, "times": [4, 4, 4]}}
    made = {}
    for scheduler in ("times.py:fresh", "fixed"):
        model = resolve(base | {"schemes": [{"name": "a", "scheduler": scheduler, "noise": "adaptive"}]}, {})
        found = stage_of.channel(part(model, "channel"), range(2))
        made[scheduler] = stage_of.schedule(part(model, "schedule", scheduler), scheduler, found)["schedule"]
    assert made["times.py:fresh"].equals(made["fixed"])
    with pytest.raises(own.OwnError, match=r"times.py:late: must return collection times, integers of 0..4"):
        stage_of.schedule(part(model, "schedule", "times.py:late"), "times.py:late", found)


ZEROS = """import keras

def network(features, classes):
    layer = keras.layers.Dense(classes, kernel_initializer="zeros")
    return keras.Sequential([keras.layers.Input([features]), layer])
"""


def history(model):
    (scheme,) = model.schemes
    found = scheduled(model)
    found |= stage_of.noise(part(model, "noise", scheme.noise), scheme.noise, found)
    return stage_of.train(part(model, "train"), stage_of.data_of(model), range(1), found)["history"]


def test_softmax_regression_as_a_model_of_ones_own_trains_as_the_built_in_one(folder):
    (folder / "zeros.py").write_text(ZEROS)
    training = BASE["training"] | {"rounds": 10}
    mine = history(with_scheme(training=training | {"model": "zeros.py:network"}))
    built_in = history(with_scheme(training=training | {"initial_weights": "zero"}))
    assert mine["round"].equals(built_in["round"])
    np.testing.assert_allclose(mine["loss"], built_in["loss"], rtol=1e-5)
    np.testing.assert_allclose(mine["clipped_share"][1:], built_in["clipped_share"][1:], atol=1e-3)


MODELS = {  # a Keras model -> what is wrong with it
    "keras.Sequential([keras.layers.Input([features]), keras.layers.BatchNormalization(), keras.layers.Dense(classes)])":
        "has state beside its trained weights: .*moving_mean",
    "keras.Sequential([keras.layers.Input([features]), keras.layers.Dropout(0.5), keras.layers.Dense(classes)])":
        "has state beside its trained weights: .*seed",
    "keras.Sequential([keras.layers.Input([3]), keras.layers.Dense(classes)])": r"takes the shape \(None, 3\), must be \(None, 64\)",
    "keras.Sequential([keras.layers.Input([features]), keras.layers.Dense(3)])": r"gives the shape \(None, 3\), must be \(None, 10\)",
    "keras.Sequential([keras.layers.Input([features]), keras.layers.Dense(classes, activation='softmax')])":
        "gives probabilities; must give logits: leave out the softmax",
    "7": "returns int; must return a Keras model",
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_a_model_whose_gradients_cannot_be_clipped_is_refused_before_work_starts(folder, model):
    (folder / "bad.py").write_text(f"import keras\n\n\ndef network(features, classes):\n    return {model}\n")
    study = load(STUDY | {"base": BASE | {"training": BASE["training"] | {"model": "bad.py:network"}}}, "study.yaml")
    with pytest.raises(ScenarioError, match=f"^study.yaml: .*training.model: bad.py:network: .*{MODELS[model]}"):
        check_surroundings(study)


def test_start_weights_are_drawn_anew_for_each_realization(folder):
    model = with_scheme(training=BASE["training"] | {"model": "network.py:network", "rounds": 2})
    values, size = part(model, "train"), features.size(model)
    drawn = [start_weights(values.training, size, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert all(np.array_equal(a, b) for a, b in zip(drawn[0], drawn[1], strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(drawn[0], drawn[2], strict=True))
