"""Airs of users' own: what `pwfl new --air` writes, the test by signals, and a study over one."""

import subprocess

import numpy as np
import pytest
import yaml

import pwfl
from conftest import PWFL, ROOT
from pwfl import new
from pwfl.airs import antennas, superposed
from pwfl.process import user_code
from pwfl.testing import signals
from pwfl.testing.tiny import CheckError

AIR = (ROOT / "examples/own_air/own_air.py").read_text(encoding="utf-8")
FAULTS = {  # what is wrong in `receive`: what stands in its place, and which line of the test says so
    "weight": ("        weight=sent.weight,", "        weight=1.05 * sent.weight,", ": weight: "),
    "receiver": ("receiver_std=receiver_std,", "receiver_std=0.9 * receiver_std,", "receiver_std: "),
    "users' noise": (
        "(np.hypot(sent.noise_std, heard_std), sent.noise_std)",
        "(sent.noise_std, 1.02 * sent.noise_std)",
        "seen['user']",
    ),
    "update": (
        "in_update(sent, sent.weight, receiver_std)",
        "in_update(sent, sent.weight, 0 * receiver_std)",
        "seen['network']",
    ),
    "joules": ("joules=sent.max_power_w *", "joules=0.9 * sent.max_power_w *", "joules: "),
    "power": ("np.sqrt(sent.max_power_w / np.where", "np.sqrt(1.1 * sent.max_power_w / np.where", "power: "),
    "bands": ("        weight=sent.weight,", "        bands=sent.weight[..., None], weight=sent.weight,", "has bands"),
    "draws": (
        "weight=sent.weight,",
        "weight=sent.weight * (1 + 1e-9 * np.random.default_rng().random()),",
        "called again",
    ),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edited(folder, old: str, by: str) -> str:
    assert AIR.count(old) == 1
    (folder / "air.py").write_text(AIR.replace(old, by))
    return "air.py"


def test_the_example_is_what_it_says():
    signals.check(str(ROOT / "examples/own_air/own_air.py"))
    assert AIR.count("\n") <= 100


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault, folder):
    old, by, said = FAULTS[fault]
    with pytest.raises(CheckError) as error:
        signals.check(edited(folder, old, by))
    assert said in str(error.value)


def test_whoever_sends_nothing_has_no_weight(folder):
    path = edited(
        folder, "        weight=sent.weight,", "        weight=sent.weight + ~sent.sends.any(axis=2)[..., None],"
    )
    with pytest.raises(CheckError, match="an interval without active users"):
        signals.check(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "function `receive` is missing"),
        (AIR.replace("return Received(", "return dict("), "returns dict; must return"),
        (AIR.replace("return Received(", "raise ValueError('oops')\n    return Received("), "ValueError: oops"),
        ("import nowhere_to_be_found\n", "nowhere_to_be_found"),
    ],
)
def test_what_is_no_air_is_refused(text, said, folder):
    (folder / "air.py").write_text(text)
    with pytest.raises(CheckError, match=said):
        signals.check("air.py")


@pytest.mark.parametrize("receive", [superposed.receive, antennas.over(4)])
def test_an_interval_alone_is_what_it_is_among_others(receive):
    """What realizations' airs draw is their own."""
    sent = signals.example()
    whole = receive(sent)
    last = sent._replace(
        **{name: getattr(sent, name)[1:] for name in ("sends", "weight", "noise_std", "norm", "gain", "cell")},
        uniforms=lambda purpose, shape: sent.uniforms(purpose, shape)[1:],
    )
    alone = receive(last)
    np.testing.assert_allclose(alone.weight, whole.weight[1:], rtol=1e-12)
    np.testing.assert_allclose(alone.seen["cell"][1], whole.seen["cell"][1][1:], rtol=1e-9)


def test_the_command_line_writes_and_tests_one(folder):
    def run(*words):
        return subprocess.run([*PWFL, *words], capture_output=True, text=True, check=False)

    written = run("new", "--air", "slots")
    assert written.returncode == 0
    assert "pwfl test slots/slots.py" in written.stdout
    assert "own_air" not in (folder / "slots/slots.py").read_text() + (folder / "slots/study.yaml").read_text()
    assert run("test", "slots/slots.py").returncode == 0
    text = (folder / "slots/slots.py").read_text()
    (folder / "slots/slots.py").write_text(text.replace("weight=sent.weight,", "weight=0.5 * sent.weight,"))
    refused = run("test", "slots/slots.py")
    assert refused.returncode == 1
    assert "weight" in refused.stderr
    assert "file not found" in run("test", "elsewhere.py").stderr
    assert "is not a valid" in run("new", "--air", "Slots!").stderr


def test_a_study_runs_over_it(folder):
    """At its target epsilon, audited, and with the update's noise of who inverts nothing."""
    new.write_air("slots")
    study = yaml.safe_load((folder / "slots/study.yaml").read_text())
    study["base"] |= {"realizations": 1, "training_realizations": 1}
    study["base"]["training"]["rounds"] = 2
    made = pwfl.simulate(study)
    report = made.scenarios["own"].report
    assert report["realizations"]["epsilon"].to_list() == pytest.approx([8.0], rel=1e-6)
    assert set(report["audit"]["status"]) == {"passed"}
    assert (
        report["realizations"]["channel_uses"] > made.scenarios["superposed"].report["realizations"]["channel_uses"]
    ).all()


BAD = {
    "shape": ("        weight=sent.weight,", "        weight=sent.weight[0],", "weight must be numbers of shape"),
    "NaN": ("        weight=sent.weight,", "        weight=sent.weight * np.nan,", "with NaN"),
    "negative": ("receiver_std=receiver_std,", "receiver_std=-1 - receiver_std,", "must not be negative"),
    "observer": ('"cell": tuple(shown), ', "", "lacks cell"),
    "type": ("return Received(", "return dict(", "must return pwfl.airs.air.Received"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_study_refuses_what_is_no_air(fault, folder):
    old, by, said = BAD[fault]
    edited(folder, old, by)
    study = yaml.safe_load((ROOT / "examples/own_air/study.yaml").read_text())
    base = study["base"] | {"realizations": 1, "training_realizations": 1}
    with pytest.raises(user_code.UserCodeError, match=said):
        pwfl.simulate({"study": "a", "base": base, "scenarios": {"own": {"radio": {"air": "air.py:receive"}}}})


SERVER = {"base": {"realizations": 1, "training_realizations": 1, "privacy": {"observer": "server"}}}


def declared(air: str) -> str:
    """The example, with an observer `server` that receives each message."""
    text = air.replace("import Received,", "import LINEAR, Received,").replace(
        '"cell": tuple(shown)', '"cell": tuple(shown), "server": tuple(shown)'
    )
    return text.replace("        symbols=symbols,", "        symbols=symbols,\n        observed_by=LINEAR,").replace(
        'Signals(radiated, update, {"user": each,', 'Signals(radiated, update, {"server": each, "user": each,'
    )


def test_noise_is_for_the_server_where_an_air_declares_it(folder):
    study = yaml.safe_load((ROOT / "examples/own_air/study.yaml").read_text())
    base = pwfl.scenario.resolution.merge(study["base"], SERVER["base"])
    config = {"study": "a", "base": base, "scenarios": {"own": {"radio": {"air": "air.py:receive"}}}}
    (folder / "air.py").write_text(AIR)
    with pytest.raises(user_code.UserCodeError, match=r"`seen` lacks 'server', which is privacy.observer; declare it"):
        pwfl.simulate(config)
    (folder / "air.py").write_text(declared(AIR))
    signals.check("air.py")
    outcome = pwfl.simulate(config, until="account").scenarios["own"].stages["outcome"]
    assert outcome["epsilon"].to_list() == outcome["epsilon_server"].to_list() == pytest.approx([8.0], rel=1e-6)
    assert set(outcome["epsilon_trusts"]) == {""}


@pytest.mark.parametrize(
    ("old", "by", "said"),
    [
        (', "server": tuple(shown)', "", "`seen` lacks server; must have cell, network, server, user"),
        ("observed_by=LINEAR", 'observed_by={"user": LINEAR["user"]}', "`observed_by` lacks cell, network, server"),
        (
            "observed_by=LINEAR",
            'observed_by={**LINEAR, "cell": LINEAR["cell"]._replace(trusts=("all stations",))}',
            r"`observed_by\['cell'\]\.trusts` is \('all stations',\); must be a tuple of names among stations that add up",
        ),
        (
            "observed_by=LINEAR",
            'observed_by={**LINEAR, "cell": LINEAR["cell"]._replace(assumes="Markov data")}',
            r"`observed_by\['cell'\]\.assumes` is 'Markov data'; must be a tuple",
        ),
        (
            "observed_by=LINEAR",
            'observed_by={**LINEAR, "network": LINEAR["network"]._replace(trusts=())}',
            r"`observed_by\['network'\]`: its `trusts` name somebody",
        ),
        ('{"server": each, ', "{", r"seen\['server'\]: the signals have no such observer"),
    ],
)
def test_observers_that_an_air_declares_are_all_there(old, by, said, folder):
    text = declared(AIR)
    assert text.count(old) == 1
    (folder / "air.py").write_text(text.replace(old, by))
    with pytest.raises(CheckError, match=said):
        signals.check("air.py")
