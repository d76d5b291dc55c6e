"""Sizes and start parameters of fully connected networks.

`widths` are the layers' widths, from the number of features to the number of classes.
"""

from itertools import pairwise
from math import prod

import numpy as np


def parameter_count(widths: list[int]) -> int:
    """Return the number of weights and biases of a network."""
    return sum(inputs * outputs + outputs for inputs, outputs in pairwise(widths))


def shapes(widths: list[int]) -> list[tuple[int, ...]]:
    """Return the shapes of kernels, (input, output), and biases, (output,), in turn.

    >>> shapes([784, 10])
    [(784, 10), (10,)]
    """
    return [shape for inputs, outputs in pairwise(widths) for shape in ((inputs, outputs), (outputs,))]


def glorot_uniform(widths: list[int], generator: np.random.Generator) -> list[np.ndarray]:
    """Draw start parameters: for each layer a Glorot uniform kernel, (input, output), and a zero bias, (output,)."""
    return start_weights(shapes(widths), generator)


def start_weights(shapes: list[tuple[int, ...]], generator: np.random.Generator) -> list[np.ndarray]:
    """Draw start parameters of shapes of kernels and biases in turn: Glorot uniform kernels and zero biases, float32.

    The last two axes of a kernel are inputs and outputs; those before, of a convolution, are positions. The uniform
    distribution is on [-l, l] with l = sqrt(6 / (positions (inputs + outputs))).
    """
    weights = [np.zeros(shape, np.float32) for shape in shapes]
    for kernel in weights[::2]:
        *places, inputs, outputs = kernel.shape
        limit = np.sqrt(6 / (prod(places) * (inputs + outputs)))
        kernel[:] = limit * (2 * generator.random(kernel.shape) - 1)
    return weights
