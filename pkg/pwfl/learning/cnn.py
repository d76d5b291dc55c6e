"""The small convolutional network of TensorFlow Privacy's and Opacus's examples: its sizes."""

from math import isqrt, prod

FILTERS, KERNELS, STRIDE, POOL, HIDDEN = (16, 32), (8, 4), 2, 2, 32
SMALL = 8  # pixels on a side, from which down the second convolution is padded, too


def padding(side: int) -> tuple[str, str]:
    """How the convolutions of an image of `side` by `side` pixels are padded, in Keras's words."""
    return "same", "same" if side <= SMALL else "valid"


def shapes(features: int, classes: int) -> list[tuple[int, ...]]:
    """Shapes of kernels and biases in turn, for square images of one channel with `features` pixels."""
    return [shape for _, kernel in _layers(features, classes) for shape in (kernel, kernel[-1:])]


def parameter_count(features: int, classes: int) -> int:
    """Number of weights and biases."""
    return sum(prod(shape) for shape in shapes(features, classes))


def multiplications(features: int, classes: int) -> int:
    """How many multiplications a sample takes on its way forward."""
    return sum(places * prod(kernel) for places, kernel in _layers(features, classes))


def _layers(features: int, classes: int) -> list[tuple[int, tuple[int, ...]]]:
    """At how many places each layer's kernel is applied, and its shape."""
    side, channels, layers = isqrt(features), 1, []
    for filters, kernel, padded in zip(FILTERS, KERNELS, padding(side), strict=True):
        side = -(-(side if padded == "same" else side - kernel + 1) // STRIDE)
        layers.append((side**2, (kernel, kernel, channels, filters)))
        side, channels = side - POOL + 1, filters
    return [*layers, (1, (side**2 * channels, HIDDEN)), (1, (HIDDEN, classes))]
