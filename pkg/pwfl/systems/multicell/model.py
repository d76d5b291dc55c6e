"""The model that users train: its size and start weights."""

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from pwfl.learning import cnn, datasets, mlp

if TYPE_CHECKING:
    from pwfl.systems.multicell.parameters import Training


def shapes(training: "Training", size: datasets.Size) -> list[tuple[int, ...]]:
    """Shapes of kernels and biases in turn."""
    if training.model == "cnn":
        return cnn.shapes(size.features, size.classes)
    return mlp.shapes([size.features, *training.hidden_layers, size.classes])


def parameter_count(training: "Training", size: datasets.Size) -> int:
    """Number d of trained parameters."""
    return sum(prod(shape) for shape in shapes(training, size))


def start_weights(training: "Training", size: datasets.Size, generator: np.random.Generator) -> list[np.ndarray]:
    """Arrays of these shapes: kernels Glorot uniform, biases zero; or all zero."""
    if training.initial_weights == "zero":
        return [np.zeros(shape, np.float32) for shape in shapes(training, size)]
    return mlp.start_weights(shapes(training, size), generator)
