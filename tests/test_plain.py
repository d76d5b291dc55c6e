"""The trainer that systems share, under audit, and a system made of it: `pwfl new`."""

import sys

import numpy as np
import polars as pl
import pytest

import pwfl
from pwfl import new, registry, streams
from pwfl.learning import datasets
from pwfl.privacy import audit
from pwfl.privacy.gaussian import exact_epsilon
from pwfl.scenario.values import Values
from pwfl.training import batching, plain, trainable, trainings
from pwfl.training.audit import Audited, Claim, verdicts
from trained import in_turn, tables_of

ROUNDS, RECORDS, CLIP, STEP = 3, 6, 0.3, 0.5
SCENARIO = Values(
    {
        "seed": 1,
        "release": "a test's",
        "data": {"dataset": "digits"},
        "training": {
            "model": "dense",
            "model_reads": [],
            "hidden_layers": [],
            "rounds": ROUNDS,
            "learning_rate": STEP,
            "clip_norm": CLIP,
            "evaluate_every": 2,
        },
    }
)


@pytest.mark.parametrize("parts", [plain.parts, plain.parts_alike])
def test_steps_are_along_the_weighted_sum_of_clipped_gradients(parts):
    generator = np.random.default_rng(1)
    x, y = generator.standard_normal((RECORDS, 64), np.float32), generator.integers(10, size=RECORDS).astype(np.int32)
    weight = generator.uniform(0, 2 / RECORDS, (ROUNDS, RECORDS))
    if parts is plain.parts_alike:
        weight[:] = weight[:, :1]
    weight[:, 0], weight[1] = 0.0, 0.0  # one who never sends, a round without senders
    tables = tables_of([[1] * RECORDS], [weight], [np.zeros(ROUNDS)], 1)
    given = SCENARIO, datasets.Dataset(x, y, x, y), tables
    used = trainings.training(parts(*given), *given, deal=in_turn)
    begun = used.begin(0)
    expected, clipped = [w.astype(float) for w in begun.weights], []
    for t in range(ROUNDS):
        steps = [np.zeros_like(w) for w in expected]
        for i in np.flatnonzero(weight[t]):
            logits = x[i] @ expected[0] + expected[1]
            delta = np.exp(logits) / np.exp(logits).sum() - np.eye(10)[y[i]]
            gradient = [np.outer(x[i], delta), delta]
            norm = np.sqrt(sum((g**2).sum() for g in gradient))
            clipped.append(norm > CLIP)
            factor = weight[t, i] * min(1, CLIP / norm)
            steps = [step + factor * g for step, g in zip(steps, gradient, strict=True)]
        expected = [w - STEP * step for w, step in zip(expected, steps, strict=True)]
    _, weights = used.tap([begun])
    for w, own in zip(expected, weights, strict=True):
        assert own == pytest.approx(w, abs=1e-6)
    (course,) = used.train([begun])
    assert used.parts.stops == [0, 1, 2, 3]
    assert course.sums.sum(axis=0).tolist() == [sum(clipped), 2 * (RECORDS - 1)]


def test_models_are_evaluated_at_their_rounds_and_sizes_are_of_the_largest_round():
    data = datasets.Dataset(*(np.zeros(shape, kind) for shape, kind in 2 * [((9, 64), np.float32), (9, np.int32)]))
    drawn = tables_of([[3, 4], [30, 1]], [np.ones((3, 2))] * 2, [np.zeros(3)] * 2, 1)
    some = drawn["reception"].with_columns(records=pl.lit(2, pl.Int64))
    sizes = [plain.parts(SCENARIO, data, drawn | {"reception": each}).size for each in (drawn["reception"], some)]
    assert sizes == [
        batching.bytes_each((64, 10), largest, (9, 64)) + 4 * largest * ROUNDS for largest in (batching.padded(31), 16)
    ]


def test_what_was_spent_is_counted_up_to_a_round():
    noise = pl.DataFrame({"realization": 0, "interval": [1, 0], "rounds": 3, "seconds": [4.0, 1.0], "joules": None})
    other = noise.with_columns(realization=pl.lit(1), seconds=pl.lit(0.5), joules=pl.lit(2.0))
    spent = trainings.spent_function({"reception_noise": pl.concat([noise.cast({"joules": float}), other])})
    found = spent(0, [0, 1, 3, 5, 6])
    assert list(found["air_seconds_cumulative"]) == pytest.approx([0.0, 1.0, 3.0, 11.0, 15.0])
    assert found["transmit_energy_j_cumulative"].to_list() == [None] * 5
    assert list(spent(1, [0, 6])["transmit_energy_j_cumulative"]) == [0.0, 12.0]


# Under audit.

WEIGHT = np.array([[1.0, 1.0], [0.0, 2.0], [1.5, 0.5]]) / 6
NOISE_STD = np.array([0.05, 0.07, 0.06])


def audited(record: int) -> dict[str, str]:
    """The statuses of tests of what is claimed of one of two users' records."""
    tables = tables_of([[3, 3]], [WEIGHT], [NOISE_STD], 1)
    mu = 2 * CLIP * WEIGHT[:, record] / NOISE_STD
    subject = audit.Subject(0, "the server", 1e-5, float(exact_epsilon((mu**2).sum() / 2, 1e-5)))
    subjected = Audited(plain.parts, SCENARIO, tables, datasets.SIZES["digits"])
    generator = streams.generator(1, "audit", 0)
    return {verdict.test: verdict.status for verdict in verdicts(subjected, subject, Claim(record, mu), generator)}


@pytest.mark.parametrize("record", [0, 1])
def test_what_is_claimed_of_a_record_is_what_is_received(record):
    found = audited(record)
    assert set(found.values()) == {"passed"}
    assert {"sensitivity", "deviation of the noise", audit.RECORD} <= set(found)


@pytest.mark.parametrize(
    ("fault", "seen"),
    [("noise", "deviation of the noise"), ("clip", "sensitivity"), ("counts", audit.RECORD)],
)
def test_a_fault_of_the_code_that_trains_is_seen(fault, seen, monkeypatch):
    normals, clipped_mean = batching.Draws.normals, trainable.Dense.clipped_mean

    def less_noise(draws, key, like):
        return [0.95 * normal for normal in normals(draws, key, like)]

    def looser(weights, x, y, clip_norm, sizes, counts, prepared):
        return clipped_mean(weights, x, y, 1.05 * clip_norm, sizes, counts, prepared)

    def heavier(weights, x, y, clip_norm, sizes, counts, prepared):
        return clipped_mean(weights, x, y, clip_norm, sizes, 1.3 * counts, prepared)

    if fault == "noise":
        monkeypatch.setattr(batching.Draws, "normals", less_noise)
    else:
        wrong = {"clip": looser, "counts": heavier}[fault]
        monkeypatch.setattr(trainable.Dense, "clipped_mean", staticmethod(wrong))
    assert audited(1)[seen] == "failed"


# A system that is just begun.


def test_a_new_system_runs_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = new.write("just_begun")
    text = "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    assert "local_dp_mac" not in text
    assert "local-dp-mac" not in text
    assert {path.name for path in folder.iterdir()} >= {"just_begun", "pyproject.toml", "study.yaml"}
    monkeypatch.syspath_prepend(str(folder))
    known = registry.claims() | {"just_begun": ("just_begun.system:SYSTEM",)}
    monkeypatch.setattr(registry, "claims", lambda: known)
    tiny = {"realizations": 2, "training_realizations": 1}
    study = pwfl.simulate(tiny | {"system": "just_begun"} | registry.system("just_begun").catalog.tiny)
    report = study.scenarios["scenario"].report
    assert set(report["audit"]["status"]) == {"passed"}
    assert report["audit"]["scheme"].n_unique() == 3
    assert report["history"]["round"].to_list() == 3 * [0, 1, 2, 3]
    for name in [name for name in sys.modules if name.partition(".")[0] == "just_begun"]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["Mine", "my-own", "1st", "", "class", "age_aware", "numpy", "../mine"])
def test_names_that_no_system_can_have_are_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(new.NewError):
        new.write(name)
    assert not list(tmp_path.iterdir())
