"""The engine by automatic differentiation: against the fused one, loops over samples, and Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import stage_of
import two_level
from pipeline import digits, part, stages
from pwfl import registry
from pwfl.learning import autodiff, cnn, engine, network
from pwfl.learning.mlp import glorot_uniform, start_weights
from pwfl.scenario import resolve
from test_train import assert_close

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
    given = [tf.constant(w) for w in weights], tf.constant(x), tf.constant(y), tf.constant(clip_norm)

    @tf.function
    def both(weights, x, y, clip):
        fused = engine.per_sample_gradient(network.backward, x, y, clip, tf.constant(counts))(weights)
        return autodiff.per_sample_gradient(dense_losses, x, y, clip, counts)(weights), fused

    (found, share), (fused, fused_share) = both(*given)
    assert_close(found, fused)
    assert share == fused_share
    assert {0.05: share == 1, 4.0: 0 < share < 1, 1e6: share == 0}[clip_norm]
    loop = [two_level.mean_clipped_gradient(weights, x[k : k + 1], y[k : k + 1], clip_norm) for k in range(100)]
    assert_close(found, [np.tensordot(counts, parts, axes=1) / 100 for parts in zip(*loop, strict=True)])


def convolutional(side, seed=0):
    """The network in Keras, and start weights with biases that are not zero."""
    generator = np.random.default_rng(seed)
    weights = [w + np.float32(0.1) * generator.standard_normal(w.shape, np.float32)
               for w in start_weights(cnn.shapes((side, side), 10), generator)]  # fmt: skip
    return autodiff.convolutional((side, side), 10), weights


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
    gradient = autodiff.per_sample_gradient(autodiff.cross_entropy(model), x, y, tf.constant(clip_norm), counts)
    found, share = tf.function(gradient)([tf.constant(w) for w in weights])
    assert_close(found, expected, 3e-5)
    assert float(share) == pytest.approx(3 / 7)


@pytest.mark.parametrize(
    ("image", "parameters"), [((8, 8), 10_650), ((28, 28), 26_010), ((32, 32, 3), 37_274), ((7, 13), None), ((13, 40, 2), None)]
)  # fmt: skip
def test_size_and_start_weights_are_those_of_keras(image, parameters):
    model = autodiff.convolutional(image, 10)
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
    (accuracy, *by_label), loss = tf.function(lambda *given: autodiff.evaluate_labels(model, *given))(
        [tf.constant(w) for w in weights], x, y
    )
    logits = model(x)
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    assert float(loss) == pytest.approx(float(cross_entropy(y, logits)), rel=1e-5)
    hits = np.argmax(logits, axis=1) == y
    assert float(accuracy) == pytest.approx(np.mean(hits))
    assert np.array(by_label) == pytest.approx([np.mean(hits[y == label]) for label in range(10)])


def test_a_model_whose_samples_depend_on_each_other_is_refused():
    model = keras.Sequential([keras.layers.Input([4]), keras.layers.BatchNormalization(), keras.layers.Dense(3)])
    with pytest.raises(ValueError, match=r"has state beside its weights: .*moving_mean"):
        autodiff.cross_entropy(model)


def test_a_sample_without_gradient_counts_as_zero():
    weights = [tf.zeros((4, 3)), tf.constant([500.0, 0, 0])]
    x, y = np.ones((3, 4), np.float32), np.int32([0, 0, 1])
    found, share = autodiff.per_sample_gradient(dense_losses, x, y, tf.constant(0.3))(weights)
    assert float(share) == pytest.approx(1 / 3)
    assert two_level.norm([g.numpy() for g in found]) == pytest.approx(0.3 / 3, rel=1e-6)


@pytest.mark.parametrize("coherence", [None, 2])
def test_a_convolutional_network_is_trained_through_all_stages(coherence):
    tiny = registry.system("multicell").catalog.tiny | {"realizations": 1, "training_realizations": 1}
    changes = {"training": {"model": "cnn", "rounds": 4, "tail_average": 0.5, "learning_rate": 1.0}}
    model = resolve(tiny, changes | {"radio": {"resource_blocks": 2, "coherence_rounds": coherence}})
    (_, found), *_ = stages(model)
    silent = found | {"noise": found["noise"].with_columns(noise_std=0.0 * found["noise"]["noise_std"])}
    history = stage_of.train(part(model, "train"), digits(), range(1), silent)["history"]
    assert set(history["status"]) == {"trained"}
    assert history["loss"][-1] < history["loss"][0] < 2.4
    # 32 bits a parameter at the rate of each round
    assert found["outcome"]["channel_uses"][0] > 0
