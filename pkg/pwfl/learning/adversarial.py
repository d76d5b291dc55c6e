"""Parameters and pairs of records with opposite gradients, for audits of sensitivity.

`opposed` is for ReLU networks. If hidden layers have no biases, such a network is homogeneous: s x instead of x
multiplies all its outputs by s. If the outputs of x differ, biases of the last layer can make the network certain of
one class at x and of another at s x. With the prediction for each record as the label of the other, the derivatives of
the two losses by the logits are opposite, and so are those by all layers' parameters.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from pwfl.process.tensorflow import tf

SCALE = 0.9  # s: the second record over the first
SURE = 1e3  # difference of outputs; a twentieth of it makes softmax 0 or 1 in float32
DRAWS = 1000  # of parameters, at most, until outputs differ
SCALES = 10.0 ** np.arange(5)  # factors of a network's parameters
STRESS = 100.0  # a layer's parameters are divided by this to make its part of the gradient the largest


class Opposed(NamedTuple):
    """Parameters of a model, and two records whose gradients are opposite there.

    Attributes
    ----------
    weights
        float32, one array per tensor of the model.
    x, y
        Features, float32, shape (2, feature), and classes, int32, shape (2,).
    """

    weights: list[np.ndarray]
    x: np.ndarray
    y: np.ndarray


def opposed(
    logits: Callable, shapes: list[tuple[int, ...]], features: int, clip_norm: float, generator: np.random.Generator
) -> Iterator[Opposed]:
    """Yield, for each layer of a ReLU network, a case in which that layer's part of the gradient is the largest.

    Parameters
    ----------
    logits
        `logits(weights, x)` returns logits, shape (record, class), for features of shape (record, feature).
    shapes
        Shapes of kernels and biases in turn.
    features
        Number of features.
    clip_norm
        L2 norm that the gradients must exceed.
    generator
        Draws kernels and a record.

    Raises
    ------
    ValueError
        If DRAWS networks each have equal outputs for all classes.
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
    """Yield cases for any network: one record with two labels, whose gradients are nearly opposite.

    Parameters are multiplied by each of SCALES. If the last ones are biases of the logits, they are set so that the two
    largest logits are equal and the others small: the derivatives of the losses of the two labels by the logits are
    then opposite. Features are within [0, 1], as pixels are and features scaled by `data.bounds`, since a network may
    be made for such features only.

    Parameters
    ----------
    logits, features
        As in `opposed`.
    weights
        The network's parameters, float32, one array per tensor.
    generator
        Draws the record.
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
    """Compute the logits, shape (class,), of one record, (1, feature), with zero biases."""
    return np.asarray(logits([tf.constant(w) for w in _with_biases(kernels, shapes)], tf.constant(x)))[0]


def _with_biases(kernels: list[np.ndarray], shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Return kernels and zero biases in turn, float32."""
    biases = [np.zeros(shape, np.float32) for shape in shapes[1::2]]
    return [part for kernel, bias in zip(kernels, biases, strict=True) for part in (kernel.astype(np.float32), bias)]
