"""Vectors rotated, rounded and added up modulo 2^bits, and masked as secure aggregation masks them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import block_diag, hadamard
from scipy.stats import chi2

from pwfl.learning import modular, rotation

FALSE_ALARM = 1e-6
BITS = 10


@pytest.mark.parametrize(("size", "block"), [(1, 1), (7, 4), (64, 64), (100, 64)])
def test_a_rotation_is_hadamard_transforms_of_the_first_and_the_last_coordinates_after_signs(size, block):
    signs = rotation.random_signs(np.random.default_rng(0), size)
    assert set(signs) <= {-1, 1}
    transform, rest = hadamard(block) / np.sqrt(block), np.eye(size - block)
    matrix = block_diag(rest, transform) * signs @ block_diag(transform, rest) * signs
    assert_allclose(rotation.rotate(np.eye(size), signs), matrix.T, atol=1e-15)
    vectors = np.random.default_rng(1).normal(size=(3, 2, size))
    assert_allclose(rotation.rotate(vectors, signs), vectors @ matrix.T, atol=1e-13)


def test_no_coordinate_stays_large():
    # Neither the last ones, such as a network's biases, which blocks of the binary digits would leave alone.
    spread = np.abs(rotation.rotate(np.eye(1610), rotation.random_signs(np.random.default_rng(2), 1610))).max(axis=1)
    assert spread.max() <= 4.9 / np.sqrt(1024)


def test_rotating_back_undoes_a_rotation_and_keeps_norms_and_precision():
    vectors = np.random.default_rng(2).normal(size=(2, 1600)).astype(np.float32)
    signs = rotation.random_signs(np.random.default_rng(3), 1600)
    rotated = rotation.rotate(vectors, signs)
    assert rotated.dtype == np.float32
    assert_allclose(np.linalg.norm(rotated, axis=-1), np.linalg.norm(vectors, axis=-1), rtol=1e-5)
    assert_allclose(rotation.rotate_back(rotated, signs), vectors, atol=1e-5)


def test_rounding_is_right_in_the_mean_and_moves_by_less_than_a_step():
    values = np.array([-2.75, -1.0, -0.1, 0.0, 0.3, 2.0, 5.5])
    draws = modular.rounded(np.broadcast_to(values, (20_000, len(values))), np.random.default_rng(4))
    assert draws.dtype == np.int64
    assert np.all(np.abs(draws - values) < 1)
    assert_array_equal(draws[:, [1, 3, 5]], np.broadcast_to([-1, 0, 2], (20_000, 3)))
    fraction = values - np.floor(values)
    assert_allclose(draws.mean(axis=0), values, atol=4.9 * np.sqrt(np.max(fraction * (1 - fraction)) / 20_000))


def test_a_sum_beyond_half_of_the_integers_wraps_around():
    assert_array_equal(
        modular.wrapped(np.array([-513, -512, 511, 512, 1024, 5 * 1024 + 3]), BITS), [511, -512, 511, -512, 0, 3]
    )
    signs, vectors = np.ones(4, int), np.full((3, 4), 200.0)  # the transforms undo each other, thrice: 600 - 1024
    sent = modular.integers(vectors, np.zeros((3, 4), int), signs, 1.0, BITS, np.random.default_rng(5))
    assert_array_equal(modular.decoded(sent.sum(axis=0), signs, 1.0, BITS), np.full(4, 600 - 1024))


def test_the_step_lets_four_deviations_of_a_sum_pass():
    rng, size, users = np.random.default_rng(6), 512, 5
    vectors = rng.normal(size=(users, size))
    vectors *= 3 / np.linalg.norm(vectors.sum(axis=0))
    step = modular.grid_step(3.0, 0.2, users, size, BITS)
    assert step * 2**BITS / 8 == pytest.approx(np.sqrt(9 / size + users * 0.04))
    noise = np.round(rng.normal(scale=0.2 / step, size=vectors.shape)).astype(int)
    signs = rotation.random_signs(rng, size)
    sent = modular.integers(vectors, noise, signs, step, BITS, rng)
    assert sent.min() >= -(2 ** (BITS - 1))
    assert sent.max() < 2 ** (BITS - 1)
    error = modular.decoded(sent.sum(axis=0), signs, step, BITS) - vectors.sum(axis=0)
    expected = rotation.rotate_back(noise.sum(axis=0) * step, signs)
    # One wrong by 2^bits would be off by 8 deviations; rounding is by sqrt(users) / 2 steps at most, in the mean square.
    assert np.linalg.norm(error - expected) < step * np.sqrt(users * size) / 2


def masks(rng, users, size):
    """Of each pair one adds what the other subtracts."""
    pairs = np.triu(rng.integers(2**BITS, size=(size, users, users)), 1)
    return (pairs - pairs.swapaxes(1, 2)).sum(axis=2).T


def uniform_looking(values):
    """Chi-square test, in 64 bins."""
    counts = np.bincount((values.ravel() + 2 ** (BITS - 1)) * 64 // 2**BITS, minlength=64)
    expected = counts.sum() / 64
    return ((counts - expected) ** 2).sum() / expected < chi2.isf(FALSE_ALARM, 63)


def test_masked_sums_at_two_levels_are_the_modular_sum_to_the_bit():
    rng, cells, size = np.random.default_rng(7), [5, 1, 4], 2000
    sent = [modular.wrapped(rng.integers(-150, 150, size=(users, size)), BITS) for users in cells]
    masked = [modular.wrapped(own + masks(rng, len(own), size), BITS) for own in sent]
    in_cell = [modular.wrapped(own.sum(axis=0), BITS) for own in masked]
    for own, total in zip(sent, in_cell, strict=True):
        assert_array_equal(total, modular.wrapped(own.sum(axis=0), BITS))
    forwarded = modular.wrapped(np.stack(in_cell) + masks(rng, len(cells), size), BITS)
    plain = np.concatenate(sent).sum(axis=0)
    assert np.abs(plain).max() > 2 ** (BITS - 1)  # some wrap around
    assert_array_equal(modular.wrapped(forwarded.sum(axis=0), BITS), modular.wrapped(plain, BITS))
    assert not uniform_looking(sent[0][0])
    assert all(uniform_looking(vector) for vector in (*masked[0], *masked[2], *forwarded))
