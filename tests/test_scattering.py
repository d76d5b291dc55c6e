"""The scattering transform, against kymatio."""

import numpy as np
import pytest
from kymatio.scattering2d import filter_bank as filters
from kymatio.scattering2d.backend.numpy_backend import backend
from kymatio.scattering2d.core.scattering2d import scattering2d

from pwfl.learning.features import ANGLES, GRIDS, paths
from pwfl.learning.scattering import scattering


@pytest.mark.parametrize("grid", GRIDS.values())
def test_coefficients_are_kymatios(grid):
    images = np.random.default_rng(2).random((3, grid.side, grid.side), np.float32)
    bank = filters.filter_bank(grid.side, grid.side, grid.scales, ANGLES)
    same = lambda x: x  # noqa: E731, no padding
    theirs = scattering2d(images, same, same, backend, grid.scales, ANGLES, bank["phi"], bank["psi"], 2, "list")
    theirs.sort(key=lambda path: (len(path["j"]), path["j"], path["theta"]))
    expected = np.stack([path["coef"] for path in theirs], axis=1)
    # Its Gaussians are divided by 2 * 3.1415, which is 3e-5 too little.
    found = scattering(images, grid.scales)
    assert found.shape == (3, paths(grid.scales), *(grid.side >> grid.scales,) * 2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_blocks_do_not_show():
    images = np.random.default_rng(4).random((70, 16, 16), np.float32)
    one = np.concatenate([scattering(image[None], 2) for image in images])
    np.testing.assert_allclose(scattering(images, 2), one, atol=1e-6)


def test_a_side_that_cannot_be_halved_is_refused():
    with pytest.raises(ValueError, match=r"a side of 12 pixels is no multiple of 2\^3"):
        scattering(np.zeros((1, 12, 12), np.float32), 3)
