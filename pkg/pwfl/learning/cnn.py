"""The small convolutional network of TensorFlow Privacy's and Opacus's examples: its sizes."""

from math import prod

FILTERS, KERNELS, STRIDE, POOL, HIDDEN = (16, 32), (8, 4), 2, 2, 32
SMALL = 12  # pixels on the shorter side, from which down the second convolution is padded, too
LEAST = 7  # pixels on a side: of fewer, pooling leaves nothing


def padding(image: tuple[int, ...]) -> tuple[str, str]:
    """How the convolutions are padded, in Keras's words."""
    return "same", "same" if min(image[:2]) <= SMALL else "valid"


def channels(image: tuple[int, ...]) -> int:
    """How many channels images of a shape (row, column) or (row, column, channel) have."""
    return image[2] if len(image) == 3 else 1


def shapes(image: tuple[int, ...], classes: int) -> list[tuple[int, ...]]:
    """Shapes of kernels and biases in turn, for images of a shape (row, column) or (row, column, channel)."""
    return [shape for _, kernel in _layers(image, classes) for shape in (kernel, kernel[-1:])]


def parameter_count(image: tuple[int, ...], classes: int) -> int:
    """Number of weights and biases."""
    return sum(prod(shape) for shape in shapes(image, classes))


def multiplications(image: tuple[int, ...], classes: int) -> int:
    """How many multiplications a sample takes on its way forward."""
    return sum(places * prod(kernel) for places, kernel in _layers(image, classes))


def _layers(image: tuple[int, ...], classes: int) -> list[tuple[int, tuple[int, ...]]]:
    """At how many places each layer's kernel is applied, and its shape."""
    sides, depth, layers = image[:2], channels(image), []
    for filters, kernel, padded in zip(FILTERS, KERNELS, padding(image), strict=True):
        sides = [-(-(side if padded == "same" else side - kernel + 1) // STRIDE) for side in sides]
        layers.append((prod(sides), (kernel, kernel, depth, filters)))
        sides, depth = [side - POOL + 1 for side in sides], filters
    return [*layers, (1, (prod(sides) * depth, HIDDEN)), (1, (HIDDEN, classes))]
