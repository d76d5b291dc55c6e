"""The network that a config's section `training` names: its shapes and start parameters.

TensorFlow is imported for user-defined models only.
"""

from collections.abc import Callable
from math import prod
from typing import NamedTuple

import numpy as np

from pwfl.learning import cnn, datasets, features, mlp
from pwfl.process import user_code
from pwfl.process.tensorflow_import import tensorflow_import
from pwfl.training import own_models


class Network(NamedTuple):
    """The architecture of a network.

    Attributes
    ----------
    model
        `dense`, `cnn`, or the reference `file.py:function` of a user-defined model.
    reads
        Files that the user's function reads.
    hidden_layers
        Widths of a dense network's hidden layers.
    size
        Size of the data: number of features, shape of a record, number of classes.
    zero
        Whether start parameters are zero.
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
        """Widths of a dense network's layers, from the number of features to the number of classes."""
        return (self.size.features, *self.hidden_layers, self.size.classes)


def network(training, size: datasets.Size, hidden_layers: tuple[int, ...] | None = None, zero: bool = False) -> Network:
    """Return the network that a section `training` names, for data of a `size`.

    `hidden_layers` is for sections without this parameter; None: the section's. `zero`: start parameters are zero.
    """
    hidden_layers = training.hidden_layers if hidden_layers is None else hidden_layers
    return Network(training.model, tuple(training.model_reads), tuple(hidden_layers), size, zero)


def is_softmax(training) -> bool:
    """Return whether a section `training` trains softmax regression: a dense network without hidden layers."""
    return training.model == "dense" and not training.hidden_layers


def check(scenario) -> None:
    """Raise ValueError if a scenario's `training.model` cannot be trained on its records."""
    training, data = scenario.training, scenario.data
    if training.model != "cnn":
        return
    if (kind := features.requested(scenario)) != features.PIXELS:
        raise ValueError(
            f"training.features: {kind} is not available for `model: cnn`, which uses images as they are; set `pixels`"
        )
    shape = datasets.size(data).shape
    if len(shape) == 1 or min(shape[:2]) < cnn.LEAST:
        raise ValueError(
            f"training.model: cnn requires images of at least {cnn.LEAST} pixels per side, but records of "
            f"{data.file or data.dataset} have shape {shape}; use `dense`"
        )


def problems(scenario, hidden_layers: tuple[int, ...] | None = None) -> list[str]:
    """List what is wrong with a scenario's user-defined model, if it has one; the model is built once."""
    if not user_code.is_reference(scenario.training.model):
        return []
    try:
        with tensorflow_import():
            own_models.user_model(network(scenario.training, features.size(scenario), hidden_layers))
    except user_code.UserCodeError as error:
        return [f"training.model: {error}"]
    return []


def shapes(network: Network) -> list[tuple[int, ...]]:
    """Return the shapes of the trained parameters: kernels and biases in turn, unless the model is user-defined."""
    if network.is_users:
        return [tuple(weight.shape) for weight in own_models.built(network)[0].trainable_variables]
    if network.model == "cnn":
        return cnn.shapes(network.size.shape, network.size.classes)
    return mlp.shapes(list(network.widths))


def parameter_count(network: Network) -> int:
    """Return the number d of trained parameters."""
    return sum(prod(shape) for shape in shapes(network))


def start_weights(network: Network, draws: Callable[[], np.random.Generator]) -> list[np.ndarray]:
    """Draw a network's start parameters, float32, one array per tensor of the model.

    Kernels are Glorot uniform and biases zero; or all are zero (`network.zero`). A user-defined model is built again,
    with a seed of Keras drawn from the generator, and has the parameters that Keras then draws. `draws()` returns the
    generator; it is called only if any parameter is random.
    """
    if network.is_users:
        import keras

        keras.utils.set_random_seed(int(draws().integers(2**31)))
        return [weight.numpy() for weight in own_models.built(network)[0].trainable_variables]
    if network.zero:
        return [np.zeros(shape, np.float32) for shape in shapes(network)]
    return mlp.start_weights(shapes(network), draws())
