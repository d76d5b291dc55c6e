"""The network that a config's `training` names: its size and start weights, without TensorFlow but for a user's own."""

import inspect
import re
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pwfl import errors
from pwfl.learning import cnn, datasets, features, mlp
from pwfl.process import user_code
from pwfl.process.tensorflow_import import tensorflow_import

if TYPE_CHECKING:
    import keras

TRIED = 3  # samples that a model of the user's own is tried with
ALIKE = 1e-4  # of the largest output: what outputs of a sample, alone and among others, may differ by in float32
SEED = "seed_generator_state"  # what Keras calls the state of a layer's random numbers


class Network(NamedTuple):
    """A network of records of a `size`.

    Attributes
    ----------
    model, reads
        `dense`, `cnn`, or a function of the user's own, and the files that this reads.
    hidden_layers
        Widths of a dense network's hidden layers.
    zero
        Whether its start weights are zero.
    """

    model: str
    reads: tuple[str, ...]
    hidden_layers: tuple[int, ...]
    size: datasets.Size
    zero: bool = False

    @property
    def is_users(self) -> bool:
        return user_code.is_reference(self.model)

    @property
    def widths(self) -> tuple[int, ...]:
        """Of a dense network's layers, the input's first."""
        return (self.size.features, *self.hidden_layers, self.size.classes)


def network(training, size: datasets.Size, hidden_layers: tuple[int, ...] | None = None, zero: bool = False) -> Network:
    """The network that a section `training` names; `hidden_layers` where it has no such parameter."""
    hidden_layers = training.hidden_layers if hidden_layers is None else hidden_layers
    return Network(training.model, tuple(training.model_reads), tuple(hidden_layers), size, zero)


def is_softmax(training) -> bool:
    """Whether softmax regression is trained: a fully connected network without hidden layers."""
    return training.model == "dense" and not training.hidden_layers


def check(scenario) -> None:
    """Raise ValueError where a scenario's `training.model` is not for its records."""
    training, data = scenario.training, scenario.data
    if training.model != "cnn":
        return
    if training.features != "pixels":
        raise ValueError(
            f"training.features: {training.features} is not available for `model: cnn`, which uses images as they "
            "are; set `pixels`"
        )
    shape = datasets.size(data).shape
    if len(shape) == 1 or min(shape[:2]) < cnn.LEAST:
        raise ValueError(
            f"training.model: cnn requires images of at least {cnn.LEAST} pixels per side, but records of "
            f"{data.file or data.dataset} have shape {shape}; use `dense`"
        )


def problems(scenario, hidden_layers: tuple[int, ...] | None = None) -> list[str]:
    """What is wrong with a model of the user's own, which is built once."""
    if not user_code.is_reference(scenario.training.model):
        return []
    try:
        with tensorflow_import():
            user_model(network(scenario.training, features.size(scenario), hidden_layers))
    except user_code.UserCodeError as error:
        return [f"training.model: {error}"]
    return []


def shapes(network: Network) -> list[tuple[int, ...]]:
    """Shapes of the trained weights; of networks that are not the user's own, kernels and biases in turn."""
    if network.is_users:
        return [tuple(weight.shape) for weight in _built(network)[0].trainable_variables]
    if network.model == "cnn":
        return cnn.shapes(network.size.shape, network.size.classes)
    return mlp.shapes(list(network.widths))


def parameter_count(network: Network) -> int:
    """Number d of trained parameters."""
    return sum(prod(shape) for shape in shapes(network))


def start_weights(network: Network, draws: Callable[[], np.random.Generator]) -> list[np.ndarray]:
    """Arrays of these shapes: kernels Glorot uniform, biases zero; or all zero; or as the user's own model draws them.

    A model of the user's own is built anew, with Keras's seed drawn by the generator that `draws` gives.
    """
    if network.is_users:
        import keras

        keras.utils.set_random_seed(int(draws().integers(2**31)))
        return [weight.numpy() for weight in _built(network)[0].trainable_variables]
    if network.zero:
        return [np.zeros(shape, np.float32) for shape in shapes(network)]
    return mlp.start_weights(shapes(network), draws())


def user_model(network: Network) -> "keras.Model":
    """The Keras model that a function of the user's own returns, of the numbers of features and classes.

    It maps features, shape (sample, feature), to logits, shape (sample, class). Raises UserCodeError for another one,
    and for one whose per-sample gradients would not be those of its cross-entropy: which computes in another precision
    than float32, has state that training changes, weights that are not trained, regularizers, or constraints, or whose
    outputs depend on other samples or on chance.
    """
    size, name = network.size, network.model
    model, samples, together = _built(network)
    shape = tuple(getattr(together, "shape", ())) or type(together).__name__
    if shape != (TRIED, size.classes):
        raise user_code.UserCodeError(
            f"{name}: its model gives the shape {shape} for {TRIED} samples, must be {(TRIED, size.classes)}"
        )
    if fault := _unsupported(model, samples):
        raise user_code.UserCodeError(f"{name}: its model {fault}")
    together = np.asarray(together)
    if (together >= 0).all() and np.allclose(together.sum(axis=1), 1, atol=1e-5):
        raise user_code.UserCodeError(
            f"{name}: its model returns probabilities; must return logits: leave out the softmax"
        )
    alone = np.concatenate([model(samples[[row]]) for row in range(TRIED)])
    if np.abs(alone - together).max() > ALIKE * max(np.abs(together).max(), np.abs(alone).max()):
        raise user_code.UserCodeError(
            f"{name}: its model's outputs for a sample depend on the other samples of a batch, or on random draws; a "
            "sample's gradient must not: leave out layers that do so, such as means over a batch"
        )
    return model


def _built(network: Network) -> tuple["keras.Model", np.ndarray, Any]:
    """The model of a user's function, anew, which was called and so has its weights; samples, and what it gave."""
    features, name = network.size.features, network.model
    model = user_code.call(name, features, network.size.classes, reads=network.reads)
    if not hasattr(model, "stateless_call"):
        raise user_code.UserCodeError(f"{name}: returns {type(model).__name__}; must return a Keras model")
    samples = np.random.default_rng(0).random((TRIED, features), np.float32)
    try:
        return model, samples, model(samples)
    except Exception as error:
        raise user_code.UserCodeError(
            f"{name}: its model does not accept features of shape (sample, {features}): {errors.describe(error)}"
        ) from error


def _unsupported(model: "keras.Model", samples: np.ndarray) -> str | None:
    """What a model, which was called, has that per-sample training would not do; None: nothing."""
    for layer in model._flatten_layers():
        kinds = layer.compute_dtype, layer.variable_dtype
        if precision := next((kind for kind in kinds if "float" in kind and kind != "float32"), None):
            return f"must compute in float32; its layer {_uncounted(layer.name)} computes in {precision}"
    if model.losses:
        return "has regularizers, or losses of its own, which are not trained with; leave them out"
    if bound := [_uncounted(weight.path) for weight in model.trainable_variables if weight.constraint is not None]:
        return f"has constraints, which are not enforced: of {', '.join(bound)}; leave them out"
    # Recurrent layers hold a seed for dropout, also where they have none: then no call changes it.
    state = [weight.numpy() for weight in model.non_trainable_variables]
    weights = [weight.numpy() for weight in model.trainable_variables]
    training = {"training": True} if "training" in inspect.signature(model.call).parameters else {}
    after = model.stateless_call(weights, state, samples, **training)[1]
    changed = [
        weight.path
        for weight, before, now in zip(model.non_trainable_variables, state, after, strict=True)
        if not weight.path.endswith(SEED) or not np.array_equal(before, now)
    ]
    if changed:
        return (
            f"has state other than trained weights: {', '.join(map(_uncounted, changed))}; a sample's gradient must "
            "not depend on other samples or on random draws, so leave out batch normalization and dropout, and "
            "train all layers"
        )
    return None


def _uncounted(name: str) -> str:
    """A layer's or weight's name without the numbers that Keras counts them by."""
    return re.sub(r"_\d+", "", name)
