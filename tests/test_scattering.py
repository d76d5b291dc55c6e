"""The scattering transform: against its definition summed up in float64, against kymatio, and what follows from it."""

from itertools import product

import numpy as np
import pytest
from kymatio.scattering2d import filter_bank as filters
from kymatio.scattering2d.backend.numpy_backend import backend
from kymatio.scattering2d.core.scattering2d import scattering2d

from pwfl.learning.features import GRIDS, paths
from pwfl.learning.scattering import scattering

ANGLES = 8


def gabor(side, width, theta, frequency, slant):
    """A Gaussian, 1 / slant times as wide across the direction theta, times a wave along it; of five periods, summed."""
    row, column = np.mgrid[-2 * side : 3 * side, -2 * side : 3 * side]
    along = row * np.cos(theta) + column * np.sin(theta)
    across = column * np.cos(theta) - row * np.sin(theta)
    value = np.exp(-(along**2 + slant**2 * across**2) / (2 * width**2)) * np.exp(1j * frequency * along)
    found = np.zeros((side, side), complex)
    np.add.at(found, (row % side, column % side), value * slant / (2 * np.pi * width**2))
    return found


def morlet(side, j, angle):
    theta = (3 - angle) * np.pi / ANGLES
    wave = gabor(side, 0.8 * 2**j, theta, 0.75 * np.pi / 2**j, 0.5)
    envelope = gabor(side, 0.8 * 2**j, theta, 0, 0.5)
    return wave - wave.sum() / envelope.sum() * envelope


def coarse(kernel, step):
    """The kernel's frequencies that a grid of every step-th pixel has, as a kernel on that grid."""
    side = len(kernel)
    n = side // step
    if step == 1:
        return kernel
    frequency = np.arange(-n // 2, n // 2)
    there = np.exp(-2j * np.pi * np.outer(frequency, np.arange(side)) / side)
    back = np.exp(2j * np.pi * np.outer(np.arange(n), frequency) / n) / n
    return back @ (there @ kernel @ there.T) @ back.T


def convolved(x, kernel):
    return sum(kernel[place] * np.roll(x, place, (0, 1)) for place in np.ndindex(kernel.shape))


def by_definition(x, scales):
    side = len(x)
    low = gabor(side, 0.8 * 2 ** (scales - 1), 0, 0, 1)
    wavelets = {(j, angle): morlet(side, j, angle) for j in range(scales) for angle in range(ANGLES)}

    def average(signal, j):
        return convolved(signal, coarse(low, 2**j))[:: 2 ** (scales - j), :: 2 ** (scales - j)].real

    def modulus(signal, j, at):
        return np.abs(convolved(signal, coarse(wavelets[j, at[1]], 2 ** at[0])))[
            :: 2 ** (j - at[0]), :: 2 ** (j - at[0])
        ]

    once = {(j, angle): modulus(x, j, (0, angle)) for j, angle in wavelets}
    found = [average(x, 0), *(average(signal, j) for (j, _), signal in once.items())]
    for j1, j2 in product(range(scales), repeat=2):
        if j1 < j2:
            for one, two in product(range(ANGLES), repeat=2):
                found.append(average(modulus(once[j1, one], j2, (j1, two)), j2))
    return np.array(found)


@pytest.mark.parametrize(("side", "scales"), [(8, 1), (12, 2)])
def test_coefficients_are_those_of_the_definition(side, scales):
    image = np.random.default_rng(1).random((side, side), np.float32)
    [found] = scattering(image[None], scales)
    expected = by_definition(image.astype(float), scales)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("grid", GRIDS.values())
def test_coefficients_are_kymatios(grid):
    images = np.random.default_rng(2).random((3, grid.side, grid.side), np.float32)
    bank = filters.filter_bank(grid.side, grid.side, grid.scales, ANGLES)
    same = lambda x: x  # noqa: E731, no padding
    theirs = scattering2d(images, same, same, backend, grid.scales, ANGLES, bank["phi"], bank["psi"], 2, "list")
    theirs.sort(key=lambda path: (len(path["j"]), path["j"], path["theta"]))
    expected = np.stack([path["coef"] for path in theirs], axis=1)
    # Its Gaussians are divided by 2 * 3.1415, which is 3e-5 too little.
    np.testing.assert_allclose(scattering(images, grid.scales), expected, rtol=1e-4, atol=1e-6)


def test_what_is_constant_has_a_mean_and_nothing_else():
    found = scattering(np.full((1, 16, 16), 0.7, np.float32), 2)
    np.testing.assert_allclose(found[:, 0], 0.7, rtol=1e-4)  # phi is a Gaussian, sampled
    np.testing.assert_allclose(found[:, 1:], 0, atol=1e-6)


def test_a_shift_of_a_place_shifts_the_coefficients():
    images = np.random.default_rng(3).random((4, 32, 32), np.float32)
    shifted = scattering(np.roll(images, (8, 16), (1, 2)), 3)
    np.testing.assert_allclose(shifted, np.roll(scattering(images, 3), (1, 2), (2, 3)), atol=1e-6)


def test_blocks_do_not_show():
    images = np.random.default_rng(4).random((70, 16, 16), np.float32)
    one = np.concatenate([scattering(image[None], 2) for image in images])
    np.testing.assert_allclose(scattering(images, 2), one, atol=1e-6)


def test_there_are_as_many_coefficients_as_paths():
    for scales in (1, 2, 3):
        assert scattering(np.zeros((0, 16, 16), np.float32), scales).shape == (0, paths(scales), *(16 >> scales,) * 2)


def test_a_side_that_cannot_be_halved_is_refused():
    with pytest.raises(ValueError, match=r"a side of 12 pixels is no multiple of 2\^3"):
        scattering(np.zeros((1, 12, 12), np.float32), 3)
