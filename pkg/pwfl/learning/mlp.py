"""The fully connected network that users train: sizes and start weights."""

from itertools import pairwise
from math import prod

import numpy as np


def parameter_count(widths: list[int]) -> int:
    """Number of weights and biases of a network with these layer widths, input and output included."""
    return sum(inputs * outputs + outputs for inputs, outputs in pairwise(widths))


def shapes(widths: list[int]) -> list[tuple[int, ...]]:
    """Shapes of kernels and biases in turn, of a network with these layer widths.

    Examples
    --------
    >>> shapes([784, 10])
    [(784, 10), (10,)]
    """
    return [shape for inputs, outputs in pairwise(widths) for shape in ((inputs, outputs), (outputs,))]


def glorot_uniform(widths: list[int], generator: np.random.Generator) -> list[np.ndarray]:
    """Start weights: for each layer a kernel (inputs, outputs), Glorot uniform, and a bias (outputs,), zero."""
    return start_weights(shapes(widths), generator)


def start_weights(shapes: list[tuple[int, ...]], generator: np.random.Generator) -> list[np.ndarray]:
    """Kernels, Glorot uniform, and biases, zero, of these shapes in turn; a kernel ends on its inputs and outputs."""
    weights = [np.zeros(shape, np.float32) for shape in shapes]
    for kernel in weights[::2]:
        *places, inputs, outputs = kernel.shape
        limit = np.sqrt(6 / (prod(places) * (inputs + outputs)))
        kernel[:] = limit * (2 * generator.random(kernel.shape) - 1)
    return weights
