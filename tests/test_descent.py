"""The trainer and the audit that systems share, and a system made of them: `pwfl new`."""

import sys

import numpy as np
import pytest
import tensorflow as tf

import pwfl
from pwfl import new, registry, streams
from pwfl.learning import descent, engine, network
from pwfl.learning.descent import Received
from pwfl.privacy import audit, received
from pwfl.privacy.gaussian import exact_epsilon
from pwfl.scenario.values import Values

ROUNDS, RECORDS, FEATURES, CLASSES, CLIP, STEP = 3, 6, 4, 3, 0.3, 0.5


def test_steps_are_along_the_counted_mean_of_clipped_gradients():
    generator = np.random.default_rng(1)
    x = generator.standard_normal((RECORDS, FEATURES))
    y = generator.integers(CLASSES, size=RECORDS)
    counts = generator.uniform(0, 2, (ROUNDS, RECORDS))
    counts[:, 0], counts[1] = 0.0, 0.0  # one who never sends, a round without senders
    weights = [generator.standard_normal((FEATURES, CLASSES)), generator.standard_normal(CLASSES)]
    expected = [w.copy() for w in weights]
    for t in range(ROUNDS):
        steps = [np.zeros_like(w) for w in weights]
        for i in range(RECORDS):
            logits = x[i] @ expected[0] + expected[1]
            delta = np.exp(logits) / np.exp(logits).sum() - np.eye(CLASSES)[y[i]]
            gradient = [np.outer(x[i], delta), delta]
            norm = np.sqrt(sum((g**2).sum() for g in gradient))
            counted = counts[t, i] / RECORDS * min(1, CLIP / norm)
            steps = [step + counted * g for step, g in zip(steps, gradient, strict=True)]
        expected = [w - STEP * step for w, step in zip(expected, steps, strict=True)]
    given = (tf.constant(values, tf.float32) for values in (counts, np.zeros(ROUNDS), STEP))

    @tf.function
    def train(weights, x, y):
        advance = descent.advance_function(network.backward, x, y, CLIP, *given, tf.constant(1, tf.int64))
        return advance(weights, tf.constant(0), tf.constant(ROUNDS))[0]

    start = [tf.constant(w, tf.float32) for w in weights]
    found = train(start, tf.constant(x, tf.float32), tf.constant(y, tf.int32))
    for w, own in zip(expected, found, strict=True):
        assert own.numpy() == pytest.approx(w, abs=1e-6)


def test_what_was_spent_is_counted_up_to_a_round():
    assert descent.so_far(np.array([1.0, 0.0, 4.0]), [0, 1, 3]).to_list() == [0.0, 1.0, 5.0]
    assert descent.so_far(None, [0, 1]).to_list() == [None, None]


SCENARIO = Values(
    {
        "seed": 1,
        "scheme": "all/gaussian",
        "audit": {"canaries": 2000},
        "data": {"dataset": "digits"},
        "training": {"hidden_layers": [5], "clip_norm": 2.0},
    }
)
SENT = Received(np.array([[1.0, 1.0], [0.0, 2.0], [1.5, 0.5]]), np.array([0.5, 0.7, 0.6]))


def audited(record: int, stated: Received) -> dict[str, str]:
    """The statuses of tests of what is stated of a record."""
    rho = (received.moved(SCENARIO.training.clip_norm, stated, record) ** 2 / stated.noise_std**2).sum() / 2
    subject = audit.Subject(0, "the server", 1e-5, float(exact_epsilon(rho, 1e-5)))
    generator = streams.generator(1, "canaries", 0)
    verdicts = received.verdicts(SCENARIO, subject, stated, record, generator)
    return {verdict.test: verdict.status for verdict in verdicts}


@pytest.mark.parametrize("record", [0, 1])
def test_what_is_stated_of_a_record_is_what_is_received(record):
    found = audited(record, SENT)
    assert set(found.values()) == {"consistent"}
    assert {"sensitivity", "deviation of the noise", "signal of canaries"} <= set(found)


@pytest.mark.parametrize(
    ("fault", "seen"),
    [("noise", "deviation of the noise"), ("clip", "sensitivity"), ("counts", "signal of canaries")],
)
def test_a_fault_of_the_code_that_trains_is_seen(fault, seen, monkeypatch):
    of_engine = engine.per_sample_gradient
    if fault == "noise":
        normals = engine.normals
        monkeypatch.setattr(engine, "normals", lambda *given: [0.95 * n for n in normals(*given)])
    else:
        factor = {
            "clip": lambda x, y, clip, counts: (x, y, 1.05 * clip, counts),
            "counts": lambda x, y, clip, counts: (x, y, clip, 1.3 * counts),
        }[fault]
        monkeypatch.setattr(
            engine, "per_sample_gradient", lambda backward, *given: of_engine(backward, *factor(*given))
        )
    assert audited(1, SENT)[seen] == "violated"


def test_a_new_system_runs_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = new.write("just_begun")
    assert "template" not in "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    monkeypatch.syspath_prepend(str(folder))
    known = registry.claims() | {"just_begun": ("just_begun",)}
    monkeypatch.setattr(registry, "claims", lambda: known)
    tiny = {"realizations": 2, "training_realizations": 1, "audit": {"canaries": 50}}
    study = pwfl.simulate(tiny | {"system": "just_begun"} | registry.system("just_begun").catalog.tiny)
    report = study.scenarios["scenario"].report
    assert set(report["audit"]["status"]) == {"consistent", "no_noise"}
    assert report["history"]["round"].to_list() == 3 * [0, 1, 2, 3]
    for name in [name for name in sys.modules if name.partition(".")[0] == "just_begun"]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["Mine", "my-own", "1st", "", "class", "age_aware", "numpy", "../mine"])
def test_names_that_no_system_can_have_are_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(new.NewError):
        new.write(name)
    assert not list(tmp_path.iterdir())
