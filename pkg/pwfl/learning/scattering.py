"""The scattering transform of images: moduli of wavelet coefficients, and of theirs, averaged locally.

    S0 = x * phi,  S1 = |x * psi_1| * phi,  S2 = ||x * psi_1| * psi_2| * phi,

for wavelets of scales 2^j, j < J, and ANGLES angles, j_1 < j_2, and a Gaussian phi of scale 2^J, at every 2^J-th pixel
(Bruna and Mallat, 2013, "Invariant Scattering Convolution Networks"). Convolutions are circular. The wavelets are the
Morlet wavelets of Andreux et al. (2020, "Kymatio: Scattering Transforms in Python"): a plane wave of frequency 3 pi /
(4 2^j) in a Gaussian envelope, .8 2^j wide along the wave and twice as wide across, less as much of the envelope as
makes the sum zero. As there, a signal of scale 2^j is kept at every 2^j-th pixel only.
"""

from functools import cache

import numpy as np
from scipy import fft

from pwfl.learning.features import ANGLES, paths

SLANT = 4 / ANGLES  # width of a wavelet's envelope along the wave over that across
WIDTH = 0.8  # of the envelope of the finest scale along the wave, in pixels
FREQUENCY = 3 * np.pi / 4  # of the finest scale
IMAGES = 32  # in a block, which stays in the cache


def scattering(images: np.ndarray, scales: int) -> np.ndarray:
    """Compute the scattering coefficients of images, float32, shape (image, path, side / 2^J, side / 2^J).

    `images` are float32, shape (image, side, side); J is `scales`. Paths are that of order 0, those of order 1 by (j,
    angle), and those of order 2 by (j_1, j_2, angle_1, angle_2). Raises ValueError if 2^J does not divide the side.
    """
    side = images.shape[-1]
    if side % 2**scales:
        raise ValueError(f"a side of {side} pixels is no multiple of 2^{scales}")
    small = side // 2**scales
    coefficients = np.empty((len(images), paths(scales), small * small), np.float32)
    for first in range(0, len(images), IMAGES):
        block = slice(first, first + IMAGES)
        coefficients[block] = _scatter_block(images[block], scales)
    return coefficients.reshape(-1, paths(scales), small, small)


def _scatter_block(images: np.ndarray, scales: int) -> np.ndarray:
    side = images.shape[-1]
    first, second = [], []
    spectrum = fft.fft2(images)[:, None]
    for j1 in range(scales):
        once = _modulus(spectrum, _wavelets(side, scales, j1, 0), j1)  # (image, angle, side, side)
        first.append(_average(once, side, scales, j1))
        if j1 == scales - 1:
            break
        inner = fft.fft2(once)[:, :, None]
        for j2 in range(j1 + 1, scales):
            twice = _modulus(inner, _wavelets(side, scales, j2, j1), j2 - j1)
            second.append(_average(twice, side, scales, j2))
    return np.concatenate([_average(images[:, None], side, scales, 0), *first, *second], axis=1)


def _modulus(spectrum: np.ndarray, wavelets: np.ndarray, halvings: int) -> np.ndarray:
    """Compute moduli of signals' convolutions with wavelets, given as spectra, at every 2^halvings-th pixel."""
    side = spectrum.shape[-1]
    kept = side // 2**halvings
    # Aliases of a frequency add up. Wavelets are real: their products with (real, imaginary) need no complex ones.
    pairs, twins = spectrum.view(np.float32), wavelets.repeat(2, axis=-1)
    product = np.zeros((), np.float32)
    for row in range(0, side, kept):
        for column in range(0, 2 * side, 2 * kept):
            part = (..., slice(row, row + kept), slice(column, column + 2 * kept))
            product = product + pairs[part] * twins[part]
    signal = fft.ifft2(product.view(np.complex64), norm="forward", overwrite_x=True)
    return np.abs(signal) / side**2


def _average(signals: np.ndarray, side: int, scales: int, halvings: int) -> np.ndarray:
    """Average signals, given at every 2^halvings-th pixel, at every 2^scales-th: shape (image, signal, position)."""
    flat = signals.reshape(len(signals), -1, signals.shape[-1] ** 2)
    return flat @ _averaging(side, scales, halvings)


@cache
def _averaging(side: int, scales: int, halvings: int) -> np.ndarray:
    """Compute the matrix of convolution with phi and subsampling, shape (pixel, position)."""
    kernel = fft.ifft2(_coarse(fft.fft2(_gabor(side, WIDTH * 2 ** (scales - 1), 0, 0, 1)).real, halvings)).real
    pixels = side // 2**halvings
    places = np.arange(0, pixels, 2 ** (scales - halvings))
    shift = (places[None, :] - np.arange(pixels)[:, None]) % pixels  # (pixel, place) along one axis
    matrix = kernel[shift[:, None, :, None], shift[None, :, None, :]]
    return matrix.reshape(pixels**2, -1).astype(np.float32)


@cache
def _wavelets(side: int, scales: int, j: int, halvings: int) -> np.ndarray:
    """Compute the spectra of wavelets of scale 2^j at all angles, for signals at every 2^halvings-th pixel."""
    return np.stack([_coarse(_morlet(side, j, angle), halvings) for angle in range(ANGLES)]).astype(np.float32)


def _morlet(side: int, j: int, angle: int) -> np.ndarray:
    """Compute the real spectrum of the wavelet of scale 2^j at angle number `angle`, shape (side, side)."""
    theta = (ANGLES // 2 - 1 - angle) * np.pi / ANGLES
    width, frequency = WIDTH * 2**j, FREQUENCY / 2**j
    wave, envelope = (_gabor(side, width, theta, f, SLANT) for f in (frequency, 0))
    return fft.fft2(wave - wave.sum() / envelope.sum() * envelope).real


def _gabor(side: int, width: float, theta: float, frequency: float, slant: float) -> np.ndarray:
    """Compute a periodic Gaussian times a plane wave, complex, shape (side, side).

    The wave has the direction `theta` (radians) and the angular `frequency` (radians per pixel). The Gaussian has the
    standard deviation `width` along the wave and `width / slant` across, in pixels.
    """
    x = np.arange(-2 * side, 3 * side)
    along = x[:, None] * np.cos(theta) + x * np.sin(theta)
    across = x * np.cos(theta) - x[:, None] * np.sin(theta)
    values = np.exp(-(along**2 + (slant * across) ** 2) / (2 * width**2) + 1j * frequency * along)
    return values.reshape(5, side, 5, side).sum(axis=(0, 2)) * slant / (2 * np.pi * width**2)


def _coarse(spectrum: np.ndarray, halvings: int) -> np.ndarray:
    """Restrict a filter's spectrum to signals at every 2^halvings-th pixel: to frequencies below their Nyquist one."""
    if halvings == 0:
        return spectrum
    side = len(spectrum)
    kept = side // 2 ** (halvings + 1)
    places = np.r_[0:kept, side - kept : side]
    return spectrum[np.ix_(places, places)]
