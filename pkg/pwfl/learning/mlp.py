"""The fully connected network that users train: sizes and start weights."""

from itertools import pairwise

import numpy as np


def parameter_count(widths: list[int]) -> int:
    """Number of weights and biases of a network with these layer widths, input and output included.

    >>> parameter_count([784, 256, 256, 10])
    269322
    """
    return sum(inputs * outputs + outputs for inputs, outputs in pairwise(widths))


def glorot_uniform(widths: list[int], generator: np.random.Generator) -> list[np.ndarray]:
    """Start weights: for each layer a kernel (inputs, outputs), Glorot uniform, and a bias (outputs,), zero."""
    weights = []
    for inputs, outputs in pairwise(widths):
        limit = np.sqrt(6 / (inputs + outputs))
        kernel = (limit * (2 * generator.random((inputs, outputs)) - 1)).astype(np.float32)
        weights += [kernel, np.zeros(outputs, np.float32)]
    return weights
