"""Clipping by automatic differentiation: against the fused pass, loops over samples, and Keras."""

import keras
import numpy as np
import polars as pl
import pytest
import tensorflow as tf

import own_network
import stage_of
import two_level
from pipeline import digits, part, stages
from pwfl import registry
from pwfl.learning import cnn, datasets
from pwfl.learning.mlp import glorot_uniform, start_weights
from pwfl.process import user_code
from pwfl.scenario import resolve
from pwfl.training import autodiff, dense, models, trainable
from pwfl.training.gradients import UserGradients
from test_train import assert_close
from trained import averaging, summed

SIZE = datasets.Size(30, 10, (64,), 10)
CLIPS = {"all": 0.05, "some": 4.0, "none": 1e6}


def dense_losses(weights, x, y):
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        x = tf.nn.relu(x @ kernel + bias)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ weights[-2] + weights[-1])


@pytest.fixture(params=[2**22, 60_000], ids=["one block", "several blocks"])
def blocks(monkeypatch, request):
    """Of all samples at once; and of some, with fewer in the last one."""
    monkeypatch.setattr(autodiff, "NUMBERS", request.param)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("clip_norm", CLIPS.values(), ids=CLIPS)
@pytest.mark.parametrize("widths", [[64, 10], [64, 12, 10], [64, 9, 7, 10]], ids=str)
def test_it_is_the_fused_engine_and_the_loop_over_samples(widths, clip_norm):
    generator = np.random.default_rng(2)
    weights = [np.float32(w + 0.1 * generator.standard_normal(w.shape)) for w in glorot_uniform(widths, generator)]
    x, y = digits().x_train[:100], digits().y_train[:100]
    counts = generator.uniform(0, 2, 100).astype(np.float32)
    given = [tf.constant(w) for w in weights], tf.constant(x), tf.constant(y)
    rest = clip_norm, tf.constant(100), tf.constant(counts)

    @tf.function(autograph=False)
    def both(weights, x, y):
        fused = dense.clipped_mean(weights, x, y, *rest)
        return autodiff.clipped_mean(dense_losses, weights, x, y, *rest), fused

    (found, clipped), (fused, fused_clipped) = both(*given)
    assert_close(found, fused)
    assert clipped == fused_clipped
    assert {0.05: clipped == 100, 4.0: 0 < clipped < 100, 1e6: clipped == 0}[clip_norm]
    loop = [two_level.mean_clipped_gradient(weights, x[k : k + 1], y[k : k + 1], clip_norm) for k in range(100)]
    assert_close(found, [np.tensordot(counts, parts, axes=1) / 100 for parts in zip(*loop, strict=True)])


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("compiled", [False, True])
def test_records_that_fill_up_count_for_nothing(compiled):
    generator = np.random.default_rng(3)
    weights = [tf.constant(w) for w in glorot_uniform([64, 12, 10], generator)]
    x, y = digits().x_train[:100].copy(), digits().y_train[:100]
    counts, sizes = generator.uniform(0, 2, 100).astype(np.float32), 73
    rest = CLIPS["some"], tf.constant(sizes)

    def filled_up(weights, x, y, counts):
        return autodiff.clipped_mean(dense_losses, weights, x, y, *rest, counts, filled_up=True)

    own = tf.function(filled_up, jit_compile=compiled, autograph=False)
    expected, clipped = autodiff.clipped_mean(
        dense_losses, weights, tf.constant(x[:sizes]), tf.constant(y[:sizes]), *rest, tf.constant(counts[:sizes])
    )
    for anything in (0.0, 5.0):
        x[sizes:] = anything
        found, other = own(weights, tf.constant(x), tf.constant(y), tf.constant(counts))
        assert_close(found, expected)
        assert 0 < other == clipped < sizes


anew = autodiff.convolutional.__wrapped__  # with weights of its own


def convolutional(side, seed=0):
    """The network in Keras, and start weights with biases that are not zero."""
    generator = np.random.default_rng(seed)
    weights = [w + np.float32(0.1) * generator.standard_normal(w.shape, np.float32)
               for w in start_weights(cnn.shapes((side, side), 10), generator)]  # fmt: skip
    return anew((side, side), 10), weights


def images(side, count):
    generator = np.random.default_rng(7)
    return generator.random((count, side**2), np.float32), generator.integers(0, 10, count).astype(np.int32)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("side", [8, 28])
def test_convolutional_networks_samples_are_clipped_one_by_one(side):
    (model, weights), (x, y) = convolutional(side), images(side, 7)
    model.set_weights(weights)
    each = []
    for k in range(7):
        with tf.GradientTape() as tape:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y[k : k + 1], model(x[k : k + 1]))
        each.append([g.numpy() for g in tape.gradient(loss, [v.value for v in model.trainable_variables])])
    clip_norm = float(np.median([two_level.norm(g) for g in each]))
    counts = np.float32([0, 1, 2, 0.5, 1.5, 1, 1])
    expected = [sum(c * g for c, g in zip(counts, layer, strict=True)) / 7 for layer in zip(
        *(two_level.clipped(g, clip_norm) for g in each), strict=True)]  # fmt: skip
    own = trainable.Differentiated(model, SIZE, False, known=True, start=None)
    given = [tf.constant(w) for w in weights], tf.constant(x), tf.constant(y)
    found, clipped = tf.function(
        lambda *given: own.clipped_mean(*given, clip_norm, tf.constant(7), tf.constant(counts), ()), autograph=False
    )(*given)
    assert_close(found, expected, 3e-5)
    assert clipped == 3


@pytest.mark.parametrize("network", ["convolutional", "own"])
def test_users_means_are_clipped_as_wholes(network):
    own = own_network.network(64, 10)
    model, weights = (own, own.get_weights()) if network == "own" else convolutional(8)
    (x, y), samples = images(8, 12), [5, 1, 6]
    model.set_weights(weights)
    means = []
    for x_own, y_own in zip(*(np.split(of_all, np.cumsum(samples)[:-1]) for of_all in (x, y)), strict=True):
        with tf.GradientTape() as tape:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y_own, model(x_own))
        means.append([g.numpy() for g in tape.gradient(loss, [v.value for v in model.trainable_variables])])
    clip_norm = float(np.median([two_level.norm(mean) for mean in means]))
    expected = two_level.average([two_level.clipped(mean, clip_norm) for mean in means], samples)
    learner = UserGradients(
        trainable.Differentiated(model, SIZE, False, known=False, start=lambda draws: weights), clip_norm
    )
    found, measured = tf.function(
        lambda: summed(learner, weights, x, y, averaging(samples, unit=False), samples), autograph=False
    )()
    assert_close(found, expected, 3e-5)
    assert measured[1] == 3
    assert 1 <= measured[0] <= 2  # the median's own norm is the limit


def test_weighted_sums_and_evaluation_of_several_realizations_are_those_of_each():
    model = own_network.network(64, 10)
    own = trainable.Differentiated(model, SIZE, False, known=False, start=None)
    generator, (x, y) = np.random.default_rng(3), images(8, 30)
    several = [[0.3 * generator.standard_normal(shape, np.float32) for shape in own.shapes] for _ in range(2)]
    together = [tf.constant(np.stack(layers)) for layers in zip(*several, strict=True)]
    factor = generator.random((2, 15), np.float32)
    parts = [tf.constant(part.reshape(2, 15, *part.shape[1:])) for part in (x, y)]
    found = own.sums(together, own.passed(together, *parts), tf.constant(factor))
    accuracies, losses = own.evaluate(together, tf.constant(x), tf.constant(y))
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    for b, weights in enumerate(several):
        model.set_weights(weights)
        with tf.GradientTape() as tape:
            loss = cross_entropy(parts[1][b], model(parts[0][b]), sample_weight=factor[b])
        expected = tape.gradient(loss, [v.value for v in model.trainable_variables])
        assert_close([layer[b] for layer in found], [g.numpy() for g in expected], 3e-5)
        logits = model(x)
        assert float(losses[b]) == pytest.approx(float(cross_entropy(y, logits)) / 30, rel=1e-5)
        assert float(accuracies[b, 0]) == pytest.approx(np.mean(np.argmax(logits, axis=1) == y))


@pytest.mark.parametrize(
    ("image", "parameters"), [((8, 8), 10_650), ((28, 28), 26_010), ((32, 32, 3), 37_274), ((7, 13), None), ((13, 40, 2), None)]
)  # fmt: skip
def test_size_and_start_weights_are_those_of_keras(image, parameters):
    model = anew(image, 10)
    assert cnn.shapes(image, 10) == [tuple(v.shape) for v in model.trainable_variables]
    assert cnn.parameter_count(image, 10) == model.count_params() == (parameters or model.count_params())
    start = start_weights(cnn.shapes(image, 10), np.random.default_rng(0))
    for ours, theirs in zip(start, model.get_weights(), strict=True):
        assert np.abs(ours).max() == pytest.approx(np.abs(theirs).max(), rel=0.2)  # both reach out to the limit
        assert ours.std() == pytest.approx(theirs.std(), rel=0.3)


def test_multiplications_are_those_of_the_layers():
    # 14 x 14 places with kernels of 8 x 8 x 1 x 16, then 5 x 5 with 4 x 4 x 16 x 32, then two dense layers.
    expected = 14 * 14 * 8 * 8 * 16 + 5 * 5 * 4 * 4 * 16 * 32 + 4 * 4 * 32 * 32 + 320
    assert cnn.multiplications((28, 28), 10) == expected


def test_evaluation_is_that_of_keras(monkeypatch):
    (model, weights), (x, y) = convolutional(8), images(8, 100)
    model.set_weights(weights)
    monkeypatch.setattr(autodiff, "BATCH", 30)
    (accuracy, *by_label), loss = tf.function(
        lambda *given: autodiff.evaluate(lambda weights, x: model.stateless_call(weights, [], x)[0], *given)
    )([tf.constant(w) for w in weights], x, y)
    logits = model(x)
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    assert float(loss) == pytest.approx(float(cross_entropy(y, logits)), rel=1e-5)
    hits = np.argmax(logits, axis=1) == y
    assert float(accuracy) == pytest.approx(np.mean(hits))
    assert np.array(by_label) == pytest.approx([np.mean(hits[y == label]) for label in range(10)])


def network_of(file, name="network"):
    return models.Network(f"{file}:{name}", (), (), datasets.Size(30, 10, (4,), 3))


DEPENDENT = """
import keras

def network(features, classes):
    layers = [keras.layers.Input([features]), keras.layers.BatchNormalization(), keras.layers.Dense(classes)]
    return keras.Sequential(layers)
"""


def test_a_model_whose_samples_depend_on_each_other_is_refused(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(DEPENDENT)
    with pytest.raises(user_code.UserCodeError, match=r"has state that training changes, in batch_normalization"):
        trainable.model_of(network_of(file)).start(lambda: np.random.default_rng(1))


def test_a_sample_without_gradient_counts_as_zero():
    weights = [tf.zeros((4, 3)), tf.constant([500.0, 0, 0])]
    x, y = tf.ones((3, 4)), tf.constant([0, 0, 1])
    found, clipped = autodiff.clipped_mean(dense_losses, weights, x, y, 0.3, tf.constant(3))
    assert clipped == 1
    assert two_level.norm([g.numpy() for g in found]) == pytest.approx(0.3 / 3, rel=1e-6)


@pytest.mark.parametrize(("coherence", "clipping"), [(None, "per_sample"), (2, "per_sample"), (2, "per_user")], ids=str)
def test_a_convolutional_network_is_trained_through_all_stages(coherence, clipping):
    tiny = registry.system("multicell").catalog.tiny | {"realizations": 1, "training_realizations": 1}
    changes = {"training": {"model": "cnn", "rounds": 4, "learning_rate": 1.0, "clipping": clipping}}
    model = resolve(tiny, changes | {"radio": {"resource_blocks": 2, "coherence_rounds": coherence}})
    (_, found), *_ = stages(model)
    noise = found["reception_noise"].with_columns(pl.col("update_noise_std") * 0.0)
    silent = found | {"reception_noise": noise}
    history = stage_of.train(part(model, "train"), digits(), range(1), silent)["history"]
    assert set(history["status"]) == {"trained"}
    assert history["loss"][-1] < history["loss"][0] < 2.4
    # 32 bits a parameter at the rate of each round
    assert found["outcome"]["channel_uses"][0] > 0
