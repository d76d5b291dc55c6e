"""The model that users train: its size and start weights."""

import re
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from pwfl.learning import cnn, datasets, mlp
from pwfl.process import user_code
from pwfl.systems.multicell.parameters import Training

if TYPE_CHECKING:
    import keras


def shapes(training: Training, size: datasets.Size) -> list[tuple[int, ...]]:
    """Shapes of the trained weights; of networks that are not the user's own, kernels and biases in turn."""
    if user_code.is_reference(training.model):
        return [tuple(weight.shape) for weight in user_model(training, size).trainable_variables]
    if training.model == "cnn":
        return cnn.shapes(size.shape, size.classes)
    return mlp.shapes([size.features, *training.hidden_layers, size.classes])


def parameter_count(training: Training, size: datasets.Size) -> int:
    """Number d of trained parameters."""
    return sum(prod(shape) for shape in shapes(training, size))


def start_weights(training: Training, size: datasets.Size, generator: np.random.Generator) -> list[np.ndarray]:
    """Arrays of these shapes: kernels Glorot uniform, biases zero; or all zero; or as the user's own model draws them.

    A model of the user's own is built anew, with Keras's seed drawn by the generator.
    """
    if user_code.is_reference(training.model):
        import keras

        keras.utils.set_random_seed(int(generator.integers(2**31)))
        return [weight.numpy() for weight in user_model(training, size).trainable_variables]
    if training.initial_weights == "zero":
        return [np.zeros(shape, np.float32) for shape in shapes(training, size)]
    return mlp.start_weights(shapes(training, size), generator)


def user_model(training: Training, size: datasets.Size) -> "keras.Model":
    """The Keras model that a function of the user's own returns, of the numbers of features and classes.

    It takes features, shape (sample, feature), and gives logits, shape (sample, class). Raises UserCodeError for
    another one, and for one with state, such as batch normalization, dropout, or layers that are not trained: a
    sample's gradient would not be its own, or not the model's.
    """
    model = user_code.call(training.model, size.features, size.classes, reads=training.model_reads)
    if not hasattr(model, "stateless_call"):
        raise user_code.UserCodeError(f"{training.model}: returns {type(model).__name__}; must return a Keras model")
    ends = ("takes", "input_shape", (None, size.features)), ("gives", "output_shape", (None, size.classes))
    for verb, name, wanted in ends:
        if (shape := getattr(model, name, None)) != wanted:
            raise user_code.UserCodeError(f"{training.model}: its model {verb} the shape {shape}, must be {wanted}")
    if state := [re.sub(r"_\d+", "", weight.path) for weight in model.non_trainable_variables]:  # counted by Keras
        raise user_code.UserCodeError(
            f"{training.model}: its model has state beside its trained weights: {', '.join(state)}; a sample's "
            "gradient must depend on no other sample and no draw, so leave out batch normalization and dropout, and "
            "train all layers"
        )
    outputs = np.asarray(model(np.linspace(-1, 1, size.features, dtype=np.float32)[None]))
    if (outputs >= 0).all() and np.isclose(outputs.sum(), 1, atol=1e-5):
        raise user_code.UserCodeError(
            f"{training.model}: its model gives probabilities; must give logits: leave out the softmax"
        )
    return model
