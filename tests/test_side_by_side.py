"""The engine over realizations against the one that trains one: the same numbers but for rounding, whatever is chosen."""

import numpy as np
import polars as pl
import pytest
import tensorflow as tf

from conftest import in_turn
from pipeline import digits, part, stages
from pwfl import registry
from pwfl.learning import engine, philox, side_by_side
from pwfl.scenario import resolve
from pwfl.scenario.resolution import merge
from pwfl.systems.multicell import start, together, train

TINY = {
    "realizations": 4,
    "training_realizations": 4,
    "network": {"users": 12},
    "radio": {"resource_blocks": 2},
    "data": {"dataset": "digits", "samples_offset": 10, "samples_log_mean": 2.5},
    "privacy": {"min_noise": 3.5, "max_noise_error": 0.4},
    "training": {"hidden_layers": [], "rounds": 24, "learning_rate": 1.0, "clip_norm": 1.0, "evaluate_every": 5},
    "schemes": [{"name": "RndSched", "scheduler": "random", "noise": "random"}],
}
CHOICES = {
    "softmax regression": {},
    "a network": {"training": {"hidden_layers": [16, 8], "learning_rate": 0.3}},
    "users clipped": {"training": {"clipping": "per_user"}},
    "a network, users clipped": {"training": {"clipping": "per_user", "hidden_layers": [16]}},
    "weights by precision": {"training": {"weights": "precision"}},
    "users clipped, by precision": {"training": {"clipping": "per_user", "weights": "precision"}},
    "steps by noise, falling": {"training": {"step": "snr", "step_scale": 0.1, "step_decay": "linear"}},
    "tail average": {"training": {"tail_average": 0.4}},
    "fading": {"radio": {"coherence_rounds": 8}},
    "fading in each round, users clipped": {"radio": {"coherence_rounds": 1}, "training": {"clipping": "per_user"}},
    "dropouts": {"privacy": {"observer": "cell", "dropouts": 0.2}, "training": {"weights": "precision"}},
    "one diverges, or several": {"training": {"hidden_layers": [64], "learning_rate": 3e18, "clip_norm": 1e5}},
}
LONG = (  # XLA takes seconds for each: those that others hold together with something else
    "dropouts", "softmax regression", "users clipped", "weights by precision", "users clipped, by precision", "tail average",
    "fading", "fading in each round, users clipped", "a network", "steps by noise, falling",
)  # fmt: skip


@pytest.mark.parametrize("choice", in_turn(CHOICES, *(name for name in CHOICES if name not in LONG)))
def test_a_realization_ends_as_it_would_alone(choice):
    model = resolve(merge(TINY, CHOICES[choice]), {})
    ((_, tables),) = stages(model)
    given = part(model, "train"), digits(), tables
    begun = [start.starts(*given)(realization) for realization in range(4)]
    alone = [train.single(*given)(one) for one in begun]
    for one, other in zip(alone, together.together(*given)(begun), strict=True):
        assert len(one.losses) == len(other.losses)
        finite = np.isfinite(one.losses)
        np.testing.assert_allclose(other.losses[finite], one.losses[finite], rtol=1e-5)
        np.testing.assert_allclose(other.accuracies, one.accuracies, atol=0.003)  # a sample of 360
        np.testing.assert_allclose(other.clipped[1:], one.clipped[1:], atol=0.005)
    if choice == "one diverges, or several":
        assert not all(np.isfinite(one.losses).all() for one in alone)


OTHERS = {
    "batches of records": ("anonymous_oac", {"training": {"hidden_layers": [8], "rounds": 30}}),
    "rounds without records": ("anonymous_oac", {"network": {"devices": 2, "participation": 0.2}}),
    "one diverges, or several": ("anonymous_oac", {"training": {"learning_rate": 1e37, "clip_norm": 1e5}}),
    "local SGD": ("random_orthogonalization", {}),
    "several passes": ("random_orthogonalization", {"training": {"local_steps": 23, "batch_size": 5}}),
}


@pytest.mark.parametrize("choice", in_turn(OTHERS, "one diverges, or several", "local SGD"))
def test_another_system_s_realizations_end_as_they_would_alone(choice):
    system, changed = OTHERS[choice]
    tiny = registry.system(system).catalog.tiny | {"system": system, "realizations": 3, "training_realizations": 3}
    model = resolve(merge(tiny, changed), {})
    _, tables = next(stages(model))
    given, own = (part(model, "train"), digits(), tables), registry.system(system).part("train")
    one, (all_of_them, size) = own.trainer(*given), own.batch_trainer(*given)
    together = all_of_them([0, 1, 2])
    assert size > 0
    for realization, found in together.items():
        expected = one(realization)
        assert found.columns == expected.columns
        assert found.select("round", "status").equals(expected.select("round", "status"))
        meant = expected["loss"].is_finite()  # of outputs that are no numbers, classes mean nothing
        for name in found.select(pl.selectors.float()).columns:
            few = 0.01 if "accuracy" in name or name == "clipped_share" else 0.0  # a sample of 360
            both = [frame[name].filter(meant).to_numpy() for frame in (found, expected)]
            finite = np.isfinite(both[1])
            assert (np.isfinite(both[0]) == finite).all()
            np.testing.assert_allclose(both[0][finite], both[1][finite], rtol=2e-5, atol=few + 1e-9, err_msg=name)


def test_uniform_numbers_are_those_that_tensorflow_draws_of_each_seed():
    keys = np.array([0, 1, 2**62 + 12345], np.int64)
    found = philox.uniforms(tf.constant(keys), tf.constant(9), 1001).numpy()
    for key, row in zip(keys, found, strict=True):
        assert np.array_equal(row, tf.random.stateless_uniform([1001], seed=tf.constant([key, 9])))


@pytest.mark.parametrize("compiled", [False, True])
def test_normal_numbers_are_those_that_tensorflow_draws_of_each_seed(compiled):
    keys = np.array([0, 1, 2**62 + 12345, 2**63 - 1, 77], np.int64)
    for number, count in ((0, 1), (3, 650), (1999, 4097)):
        draw = tf.function(lambda keys, number, count=count: philox.normals(keys, number, count), jit_compile=compiled)
        found = draw(tf.constant(keys), tf.constant(number)).numpy()
        for key, row in zip(keys, found, strict=True):
            expected = engine.normals([tf.zeros([count])], tf.constant(key), tf.constant(number))[0]
            np.testing.assert_allclose(row, expected, atol=3e-6)


def test_records_of_nobody_and_shorter_ones_count_for_nothing():
    generator = np.random.default_rng(0)
    data = tf.constant(generator.random((30, 5)), tf.float32), tf.constant(generator.integers(3, size=30), tf.int32)
    weights = side_by_side.stacked_weights([[generator.normal(size=(5, 3)), np.zeros(3)]] * 3)
    places, counts = [[[1, 2]], [[]], [list(range(20))]], [[np.ones(2)], [np.ones(0)], [np.ones(20)]]
    few = side_by_side.stacked(places, counts, (1, 26))
    other = few._replace(rows=np.where(np.arange(few.rows.shape[2]) < few.sizes[..., None], few.rows, 29))

    def trained(records):
        state, clipped = side_by_side.train_rounds(
            (weights, weights), data, side_by_side.Records(*map(tf.constant, records)), tf.constant(0.1),
            tf.ones([3, 4]), tf.zeros(3), tf.constant([1, 2, 3], tf.int64), tf.constant(0), tf.constant(4),
            tf.constant(4),
        )  # fmt: skip
        return [layer.numpy() for layer in state[0]], clipped.numpy()

    (moved, clipped), (again, _) = trained(few), trained(other)
    assert all(np.array_equal(one, two) for one, two in zip(moved, again, strict=True))
    assert np.array_equal(moved[0][1], weights[0][1])  # whose round nobody sends in
    assert clipped.tolist() == [1.0, 0.0, 1.0]
