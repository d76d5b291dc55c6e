"""Sizes of the small convolutional network of TensorFlow Privacy's and Opacus's examples.

An image has the shape (row, column) or (row, column, channel).
"""

from math import prod

FILTERS, KERNELS, STRIDE, POOL, HIDDEN = (16, 32), (8, 4), 2, 2, 32
SMALL = 12  # pixels on the shorter side up to which the second convolution is padded, too
LEAST = 7  # pixels per side, at least: pooling would leave nothing of fewer


def padding(image: tuple[int, ...]) -> tuple[str, str]:
    """Return the argument `padding` of the two convolutions in Keras."""
    return "same", "same" if min(image[:2]) <= SMALL else "valid"


def channels(image: tuple[int, ...]) -> int:
    """Return the number of channels of an image of this shape."""
    return image[2] if len(image) == 3 else 1


def shapes(image: tuple[int, ...], classes: int) -> list[tuple[int, ...]]:
    """Return the shapes of kernels and biases in turn, for images of this shape."""
    return [shape for _, kernel in _layers(image, classes) for shape in (kernel, kernel[-1:])]


def parameter_count(image: tuple[int, ...], classes: int) -> int:
    """Return the number of weights and biases."""
    return sum(prod(shape) for shape in shapes(image, classes))


def multiplications(image: tuple[int, ...], classes: int) -> int:
    """Return the number of multiplications of a record's forward pass."""
    return sum(places * prod(kernel) for places, kernel in _layers(image, classes))


def _layers(image: tuple[int, ...], classes: int) -> list[tuple[int, tuple[int, ...]]]:
    """Return, for each layer, at how many positions its kernel is applied, and the kernel's shape."""
    sides, depth, layers = image[:2], channels(image), []
    for filters, kernel, padded in zip(FILTERS, KERNELS, padding(image), strict=True):
        sides = [-(-(side if padded == "same" else side - kernel + 1) // STRIDE) for side in sides]
        layers.append((prod(sides), (kernel, kernel, depth, filters)))
        sides, depth = [side - POOL + 1 for side in sides], filters
    return [*layers, (1, (prod(sides) * depth, HIDDEN)), (1, (HIDDEN, classes))]
