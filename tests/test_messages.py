"""What is said of broken configs: file, key, value and remedy, and no text of a library."""

import copy
import re
from collections.abc import Iterator

import pytest
import yaml

from conftest import ROOT
from pwfl import registry, scenario
from pwfl.scenario.fields import parameters

FILE = "mine.yaml"
# Words of pydantic, Polars, NumPy, Snakemake, PyYAML and Python.
RAW = re.compile(
    r"[Ii]nput should|validation|[Ff]ield required|valid (integer|number|string|list|dictionary|boolean)|pydantic|polars"
    r"|numpy|ufunc|snakemake|Traceback|Error\b|NoneType|object has no|not iterable|<class|__\w+__|constrained-|literal_"
)
# One wrong value of each kind; each parameter is tried with one of them.
WRONG = ("many", [[1]], {"a": {"b": 1}}, True, -(10**30), 10**30, None, "", [], float("nan"), 1.5)
SLIPS = {  # what people write, and the parameter or words that answer
    "radio.bandwidth_hz: 180": "radio.bandwidth_hz",
    "network.antennas: 64": "radio.antennas",
    "data.file: mine.csv": "mine.csv",
    "schemes: []": "schemes",
    "schemes: {}": "schemes",
    "network.user: 30": "did you mean 'users'",
    "network: 30": "network",
    "training.hidden_layers: 256": "[256]",
    "training.rounds: many": "whole number",
    "training.rounds: 10.5": "whole number",
    "training.rounds: 0": "0 is below the minimum, 1",
    "privacy.target_epsilon: -1": "minimum",
    "privacy.delta: 1": "must be below 1",
    "privacy.observer: nobody": "'user'",
    "training.model: cnnn": "did you mean 'cnn'",
    "data.dataset: minst": "did you mean 'mnist'",
    "data.file: nowhere.npz": "nowhere.npz",
    "channel.links: nowhere.csv": "nowhere.csv",
    "radio.air: nowhere.py:receive": "nowhere.py",
    "system: multicel": "did you mean 'multicell'",
    "realizations: 1e3": "realizations",
    "seed: -1": "minimum",
    "audit.canaries: yes": "whole number",
    "training.device: tpu": "'cpu'",
    "own.schedule.2x: 1": "own.schedule",
    "sweep: {schedule.gama: [1, 2]}": "gamma",
    "sweep: {schedule.gamma: []}": "schedule.gamma",
    "sweep: {schedule.gamma: 3}": "schedule.gamma",
    "title: [a]": "title",
}


def nested(key: str, value) -> dict:
    """A value at a dotted key."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def broken() -> Iterator[tuple[str, dict, str]]:
    """Names, configs, and a word that their message has."""
    for slip, word in SLIPS.items():
        ((key, value),) = yaml.safe_load(slip).items()
        base = {"system": "multicell"} | (nested(key, value) if key != "sweep" else {"sweep": value})
        yield slip, {"base": base, "scenarios": {"one": {}}}, word
    number = 0
    for system in registry.BUILT_IN:
        for path, _ in parameters(registry.system(system).model):
            if path in {("system",), ("schemes",)}:
                continue
            number += 1
            if number % 2:
                continue
            key, value = ".".join(path), WRONG[number // 2 % len(WRONG)]
            base = {"system": system} | nested(key, copy.deepcopy(value))
            yield f"{system}, {key}: {value}", {"base": base, "scenarios": {"one": {}}}, key


BROKEN = list(broken())


def test_there_are_a_hundred_broken_configs_and_most_are_refused():
    assert len(BROKEN) >= 100
    refused = 0
    for _, config, _ in BROKEN:
        try:
            scenario.load(copy.deepcopy(config), FILE)
        except scenario.ScenarioError:
            refused += 1
    assert refused >= 100


@pytest.mark.parametrize(("config", "word"), [pytest.param(*rest, id=name) for name, *rest in BROKEN])
def test_a_message_names_file_key_and_remedy_in_words_of_pwfl(config, word, monkeypatch):
    monkeypatch.chdir(ROOT)
    try:
        scenario.load(copy.deepcopy(config), FILE)
    except scenario.ScenarioError as error:
        said = str(error)
    else:
        pytest.skip("the value is allowed")
    assert said.startswith(FILE)
    assert word in said, said
    assert not RAW.search(said.replace("snakemake --", "")), said
