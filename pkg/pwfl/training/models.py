"""The network that a config's `training` names: its size and start weights, without TensorFlow but for a user's own."""

from collections.abc import Callable
from math import prod
from typing import NamedTuple

import numpy as np

from pwfl.learning import cnn, datasets, features, mlp
from pwfl.process import user_code
from pwfl.process.tensorflow_import import tensorflow_import
from pwfl.training import own_models


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
            own_models.user_model(network(scenario.training, features.size(scenario), hidden_layers))
    except user_code.UserCodeError as error:
        return [f"training.model: {error}"]
    return []


def shapes(network: Network) -> list[tuple[int, ...]]:
    """Shapes of the trained weights; of networks that are not the user's own, kernels and biases in turn."""
    if network.is_users:
        return [tuple(weight.shape) for weight in own_models.built(network)[0].trainable_variables]
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
        return [weight.numpy() for weight in own_models.built(network)[0].trainable_variables]
    if network.zero:
        return [np.zeros(shape, np.float32) for shape in shapes(network)]
    return mlp.start_weights(shapes(network), draws())
