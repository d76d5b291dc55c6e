"""Records and weights at which a clipped gradient is turned around, layer by layer, in networks of ReLUs.

Without biases in hidden layers such a network is homogeneous: s x in place of x multiplies all that it computes by s.
Where the two largest outputs of x lie apart, a bias of the last layer makes the network sure of another class at
s x than at x. With each one's prediction as the other's label, the derivatives by the outputs are opposite, and so are
those of all layers.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

SCALE = 0.9  # of the second record, over the first
SURE = 1e3  # distance of outputs of which one twentieth makes a softmax 0 or 1 in float32
DRAWS = 1000  # of weights, at most, until outputs differ
SCALES = 10.0 ** np.arange(5)  # of a network's weights
STRESS = 100.0  # a layer's weights are divided by this for its gradient to be most of it


class Opposed(NamedTuple):
    """Weights, and two records, features of shape (2, feature) and classes of shape (2,)."""

    weights: list[np.ndarray]
    x: np.ndarray
    y: np.ndarray


def opposed(
    logits: Callable, shapes: list[tuple[int, ...]], features: int, clip_norm: float, generator: np.random.Generator
) -> Iterator[Opposed]:
    """For each layer, records with opposite gradients, of which the layer's is the largest part.

    Parameters
    ----------
    logits
        `logits(weights, x)` of records of shape (sample, feature).
    shapes
        Of kernels and biases in turn.
    clip_norm
        Which the gradients are to exceed.

    Raises
    ------
    ValueError
        If outputs are alike whatever the weights.
    """
    for _ in range(DRAWS):
        x = generator.standard_normal((1, features))
        x = (1.5 * clip_norm / np.linalg.norm(x) * x).astype(np.float32)
        kernels = [generator.standard_normal(shape) / np.sqrt(np.prod(shape[:-1])) for shape in shapes[::2]]
        if np.ptp(_logits(logits, kernels, shapes, x)) > 0:  # in a narrow layer, all ReLUs may give 0
            break
    else:
        raise ValueError(f"of {DRAWS} networks of layers {shapes}, none has outputs that differ: nothing to test with")
    layers = len(kernels)
    for layer in range(layers):
        scaled = [
            kernel * (1 if layers == 1 else 1 / STRESS if k == layer else STRESS ** (1 / (layers - 1)))
            for k, kernel in enumerate(kernels)
        ]
        outputs = _logits(logits, scaled, shapes, x)
        gain = (SURE / np.ptp(outputs)) ** (1 / layers)
        scaled = [gain * kernel for kernel in scaled]
        outputs = _logits(logits, scaled, shapes, x)
        first, other = int(outputs.argmax()), int(outputs.argmin())
        weights = _with_biases(scaled, shapes)
        weights[-1][:] = -3 * np.ptp(outputs)  # of the other classes, which are never predicted
        weights[-1][[first, other]] = 0.0, (1 + SCALE) / 2 * np.ptp(outputs)
        yield Opposed(weights, np.concatenate([x, np.float32(SCALE) * x]), np.array([other, first], np.int32))


def tied(
    logits: Callable, weights: list[np.ndarray], features: int, generator: np.random.Generator
) -> Iterator[Opposed]:
    """For each of SCALES of the weights, two labels that give a record opposite gradients, in a network of any layers.

    The record's features are from 0 to 1, as pixels and all that is scaled by `data.bounds` are: a network may be made
    for no others. The last weights, if they are biases of the outputs, tie the two largest: then what the labels say of
    the outputs is opposite. Parameters are those of `opposed`; `weights` are the network's.
    """
    x = generator.random((1, features), np.float32)
    for scale in SCALES:
        *scaled, last = (np.float32(scale) * w for w in weights)
        outputs = np.asarray(logits([tf.constant(w) for w in (*scaled, last)], tf.constant(x)))[0]
        if not np.isfinite(outputs).all():
            continue
        pair = np.argsort(outputs)[-2:].astype(np.int32)
        if last.shape == outputs.shape:
            last = last - SURE - outputs
            last[pair] += SURE
        yield Opposed([*scaled, last], np.repeat(x, 2, axis=0), pair)


def _logits(logits: Callable, kernels: list[np.ndarray], shapes: list[tuple[int, ...]], x: np.ndarray) -> np.ndarray:
    return np.asarray(logits([tf.constant(w) for w in _with_biases(kernels, shapes)], tf.constant(x)))[0]


def _with_biases(kernels: list[np.ndarray], shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Kernels and biases in turn, float32, these zero."""
    biases = [np.zeros(shape, np.float32) for shape in shapes[1::2]]
    return [part for kernel, bias in zip(kernels, biases, strict=True) for part in (kernel.astype(np.float32), bias)]
