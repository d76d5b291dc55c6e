"""Keras models of users' own: which are trained as they are, and which are refused, with the reason."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import polars as pl
import pytest
import tensorflow as tf

import keras_layers
import two_level
from conftest import ROOT, environment
from pipeline import run
from pwfl import registry
from pwfl.learning.datasets import Size
from pwfl.process.user_code import UserCodeError
from pwfl.stages import AUDIT
from pwfl.training import trainable
from pwfl.training.models import Network
from pwfl.training.own_models import user_model

FEATURES, CLASSES, RECORDS = 64, 3, 5
LAYERS = f"{Path(keras_layers.__file__).parent}/keras_layers.py"


def network_of(reference):
    return Network(reference, (), (), Size(30, 10, (FEATURES,), CLASSES))


def written(folder, text):
    """The network that a file's function `network` returns, with what such files import."""
    path = folder / "own.py"
    path.write_text(f"import keras\nimport tensorflow as tf\nfrom keras import layers as L\n\n{text}")
    return network_of(f"{path}:network")


def sequential(*layers):
    """A function `network` of these layers, as text, and a last one."""
    inside = "".join(f"{layer}, " for layer in layers)
    return f"def network(f, c):\n    return keras.Sequential([L.Input([f]), {inside}L.Dense(c)])\n"


def each_gradient(model, x, y):
    """Each record's gradient, by Keras alone, one record after the other."""
    found = []
    for k in range(len(y)):
        with tf.GradientTape() as tape:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y[k : k + 1], model(x[k : k + 1]))
        slopes = tape.gradient(loss, [v.value for v in model.trainable_variables], unconnected_gradients="zero")
        found.append([tf.convert_to_tensor(slope).numpy() for slope in slopes])
    return found


def check_layer(name):
    """The mean of clipped gradients, of a realization and of two side by side, twice each, against loops."""
    keras.utils.set_random_seed(1)
    own = trainable.model_of(network_of(f"{LAYERS}:{name}"))
    generator = np.random.default_rng(0)
    x, y = generator.random((RECORDS, FEATURES), np.float32), generator.integers(0, CLASSES, RECORDS, np.int32)
    gradients, weights = each_gradient(own.model, x, y), [v.numpy() for v in own.model.trainable_variables]
    clip_norm = float(np.median([two_level.norm(g) for g in gradients]))
    expected = [
        np.mean(layer, axis=0) for layer in zip(*(two_level.clipped(g, clip_norm) for g in gradients), strict=True)
    ]

    @tf.function(autograph=False)
    def mean(weights, x, y, sizes):
        return own.clipped_mean(weights, x, y, clip_norm, sizes, None, ())[0]

    for several in (False, True):
        given = [[tf.constant(np.stack([part] * 2) if several else part) for part in weights]]
        given += [tf.constant(np.stack([part] * 2) if several else part) for part in (x, y, np.int32(RECORDS))]
        for _ in range(2):
            found = [part[1] if several else part for part in mean(*given)]
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["MultiHeadAttention", "EinsumDense", "Embedding"])
def test_records_are_clipped_one_by_one_whatever_the_layer(name):
    check_layer(name)


REST = keras_layers.MADE - keras_layers.REFUSED.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REST))
def test_every_layer_of_keras_is_differentiated_record_by_record(name):
    check_layer(name)


@pytest.mark.parametrize("name", keras_layers.REFUSED)
def test_a_layer_with_state_or_losses_is_refused_with_the_reason(name):
    with pytest.raises(UserCodeError, match=keras_layers.REFUSED[name]):
        user_model(network_of(f"{LAYERS}:{name}"))


def test_every_layer_that_keras_has_is_looked_at():
    kinds = {kind: name for name, kind in vars(keras.layers).items() if inspect.isclass(kind)}  # the last of aliases
    known = [*keras_layers.MADE, *keras_layers.NO_LAYERS, *keras_layers.OTHERS, *keras_layers.AUGMENTATION]
    known += keras_layers.BROKEN
    looked_at = {getattr(keras.layers, name, None) for name in known}  # older Keras lacks some
    layers = [kind for kind in kinds if issubclass(kind, keras.layers.Layer)]
    left = [kinds[kind] for kind in layers if kind not in looked_at]
    assert [name for name in left if not name.startswith("Random")] == []


def test_the_docs_name_the_layers_that_are_slow():
    text = (ROOT / "docs/how-to/own_functions.md").read_text(encoding="utf-8")
    (names,) = re.findall(r"^((?:`\w+`,?\.?\s)+)$", text, re.MULTILINE)
    assert set(re.findall(r"\w+", names)) == set(keras_layers.SLOW) <= REST


REFUSED = {
    "kernel_regularizer": (
        sequential("L.Dense(4, kernel_regularizer=keras.regularizers.L2(1e6))"),
        "has regularizers, or losses of its own, which are not trained with",
    ),
    "activity_regularizer": (sequential("L.Dense(4, activity_regularizer='l2')"), "has regularizers"),
    "bias_constraint": (
        sequential("L.Dense(4, bias_constraint='non_neg')"),
        r"has constraints, which are not enforced: of .*dense.*bias; leave them out",
    ),
    "a mean over the batch": (
        sequential("L.Lambda(lambda x: x - tf.reduce_mean(x, axis=0, keepdims=True))"),
        "outputs for a sample that depend on the other samples of a batch",
    ),
    "random numbers": (
        sequential("L.Lambda(lambda x: x + tf.random.normal(tf.shape(x)))"),
        "or on random draws",
    ),
    "float16": (
        sequential("L.Dense(8, dtype='mixed_float16')"),
        "must compute in float32; its layer dense computes in float16",
    ),
    "bfloat16": (sequential("L.Dense(8, dtype='bfloat16')"), "its layer dense computes in bfloat16"),
    "float64": (sequential("L.Dense(8, dtype='float64')"), "its layer dense computes in float64"),
    "float64 in a wrapper": (
        sequential("L.Reshape([8, 8])", "L.TimeDistributed(L.Dense(2, dtype='float64'))", "L.Flatten()"),
        "its layer dense computes in float64",
    ),
    "frozen": (
        sequential("L.Dense(4, trainable=False)"),
        "has weights that are not trained, in dense; train all layers",
    ),
    "recurrent dropout": (
        sequential("L.Reshape([8, 8])", "L.LSTM(3, dropout=0.2)"),
        "draws random numbers in training, in lstm.*; leave out dropout and noise",
    ),
    "probabilities": (sequential().replace("L.Dense(c)", "L.Dense(c, activation='softmax')"), "returns probabilities"),
    "too few outputs": (
        sequential().replace("L.Dense(c)", "L.Dense(c - 1)"),
        r"gives the shape \(3, 2\) for 3 samples, must give one tensor of shape \(3, 3\)",
    ),
    "another input": (
        sequential().replace("L.Input([f])", "L.Input([f + 1])"),
        r"does not accept features of shape \(sample, 64\); let it begin with Input\(\[64\]\), then Reshape: ",
    ),
    "no tensor": (
        "class Own(keras.Model):\n    def call(self, x):\n        return {'y': x}\n\n\n"
        "def network(f, c):\n    return Own()\n",
        "gives a dict for 3 samples, must give one tensor",
    ),
}


LATE = """class Late(L.Layer):
    def build(self, shape):
        self.w = self.add_weight(shape=(), initializer="zeros")

    def call(self, x):
        return x + self.w * tf.reduce_mean(x, axis=0, keepdims=True)


"""
STEPS = """class Own(keras.Sequential):
    def METHOD(self, *given, **more):
        return 0.0

"""
BRANCHES = """class Own(keras.Model):
    def __init__(self, c):
        super().__init__()
        self.last = L.Dense(c)

    def call(self, x, training=False):
        IN_TRAINING
        return self.last(x)


def network(f, c):
    return Own(c)
"""
REFUSED |= {
    "a mean that counts by a weight": (LATE + sequential("Late()"), "depend on the other samples of a batch"),
    "another output in training": (
        BRANCHES.replace("IN_TRAINING", "x = 2.0 * x if training else x"),
        "computes something else with training=True",
    ),
    "a loss in training": (
        BRANCHES.replace("IN_TRAINING", "self.add_loss(tf.reduce_sum(x)) if training else None"),
        "has regularizers, or losses of its own",
    ),
    **{
        f"its own {method}": (
            STEPS.replace("METHOD", method) + sequential().replace("keras.Sequential", "Own"),
            f"has its own {method}, which training does not call",
        )
        for method in ("compute_loss", "train_step")
    },
    "no weights": (
        "def network(f, c):\n    return keras.Sequential([L.Input([f]), L.Lambda(lambda x: x[:, :c])])\n",
        "has no weights to train",
    ),
    "two outputs": (
        "def network(f, c):\n    x = L.Input([f])\n    return keras.Model(x, [L.Dense(c)(x), L.Dense(c)(x)])\n",
        "gives a list for 3 samples, must give one tensor",
    ),
    "a statistic that is not given": (
        sequential("L.Normalization()"),
        "has weights that are not trained, in normalization; .* give Normalization its mean and variance",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_training_would_not_do_as_keras_does_is_refused_with_the_reason(tmp_path, kind):
    text, reason = REFUSED[kind]
    with pytest.raises(UserCodeError, match=reason):
        user_model(written(tmp_path, text))


BUILT = """class Own(keras.Model):
    def __init__(self, c):
        super().__init__()
        self.last = L.Dense(c)

    def call(self, x):
        return self.last(x)


def network(f, c):
    model = Own(c)
    model.build((None, f))
    return model
"""
UNTRAINED = BUILT.replace("    model.build((None, f))\n", "")
TOKENS = sequential(
    "L.Lambda(lambda x: tf.cast(tf.round(x * 999.0), 'int32'))", "L.Embedding(1000, 4)", "L.GlobalAveragePooling1D()"
)
ROOTS = sequential("L.Lambda(tf.sqrt)")
LSTM = sequential("L.Reshape([8, 8])", "L.LSTM(3)")
WITHOUT_BIASES = sequential("L.Dense(4, activation='tanh')").replace("L.Dense(c)", "L.Dense(c, use_bias=False)")


@pytest.mark.parametrize("text", [BUILT, UNTRAINED, LSTM], ids=["built", "not built", "lstm"])
def test_a_subclass_and_recurrent_layers_without_dropout_are_models(tmp_path, text):
    own = trainable.model_of(written(tmp_path, text))
    x = np.random.default_rng(0).random((4, FEATURES), np.float32)
    weights = [tf.constant(v.numpy()) for v in own.model.trainable_variables]
    np.testing.assert_allclose(own.outputs(weights, tf.constant(x)), own.model(x), rtol=1e-6)


NOT_A_NUMBER = sequential("L.Dense(4)", "L.Lambda(lambda x: tf.math.log(-tf.abs(x)))")
AUDITED = {  # what an audit says of a model's tests
    "tokens": (TOKENS, "passed"),
    "roots": (ROOTS, "passed"),
    "built": (BUILT, "passed"),
    "without biases": (WITHOUT_BIASES, "passed"),
    "not a number": (NOT_A_NUMBER, "not finite"),
    "shifted": (
        sequential("L.Lambda(lambda x: x + 1.0)").replace("L.Dense(c)", "L.Dense(c, use_bias=False)"),
        "gradient never zero",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("system", ["multicell", "utility_fair"])
@pytest.mark.parametrize("kind", AUDITED)
def test_an_audit_keeps_to_the_datas_bounds_or_says_why_it_tests_nothing(tmp_path, kind, system):
    text, status = AUDITED[kind]
    tiny = registry.system(system).catalog.tiny | {"system": system, "realizations": 1, "training_realizations": 1}
    training = {key: value for key, value in tiny["training"].items() if key not in ("hidden_layers", "recipe")}
    step = {"step": "constant", "learning_rate": 0.1} if system == "multicell" else {}
    _, found = run(tiny | {"training": training | step | {"model": written(tmp_path, text).model}})
    ends_of = pl.coalesce("reason", pl.col("status").cast(pl.String)).unique().alias("status")
    found = found[AUDIT].group_by("scheme").agg(ends_of)
    expected = {"passed", status} if system == "multicell" else {status}  # what trains is tested in any case
    ends = {frozenset(each) for each in found["status"] if set(each) != {"no noise"}}
    assert ends == {frozenset(expected)}, found


SCRIPT = """import numpy as np
import pwfl
{before}
print("runs")
tiny = {tiny!r}
print("results", pwfl.simulate(tiny).scenarios["scenario"].report["summary"].height)
{after}
"""
SCHEDULE = """

def schedule(scenario, uplink, users, start):
    block = np.full(uplink.cell.shape, -1)
    block[:, 0] = 0
    return block
"""


@pytest.mark.parametrize("above", [True, False])
def test_a_script_uses_a_model_beside_it_and_a_function_of_its_own_and_runs_once(tmp_path, above):
    (tmp_path / "net.py").write_text("from keras import layers as L\nimport keras\n\n\n" + sequential())
    tiny = registry.system("multicell").catalog.tiny | {"realizations": 1, "training_realizations": 1}
    tiny |= {"system": "multicell", "schemes": [{"name": "A", "scheduler": "script.py:schedule", "noise": "none"}]}
    if above:
        tiny["training"] = {"rounds": 1, "model": "net.py:network", "step": "constant", "learning_rate": 0.1}
    parts = (SCHEDULE, "") if above else ("", SCHEDULE)
    (tmp_path / "script.py").write_text(SCRIPT.format(tiny=tiny, before=parts[0], after=parts[1]))
    call = [sys.executable, "script.py"]
    done = subprocess.run(call, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.stdout.count("runs") == 1
    if above:
        assert "results 1" in done.stdout, done.stderr[-2000:]
    else:
        assert "script.py:schedule: is not defined yet where script.py runs a study; define it above" in done.stderr
