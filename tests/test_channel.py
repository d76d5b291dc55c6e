"""Channel: geometry, gains, sample counts, random streams."""

import re
from itertools import product
from math import comb, log, pi, sqrt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy import stats

import stage_of
from pipeline import part
from pwfl import streams
from pwfl.learning.datasets import DataError
from pwfl.scenario import resolve
from pwfl.systems.multicell import hexagons

FALSE_ALARM = 1e-6


def run(override: dict, realizations: range) -> dict[str, pl.DataFrame]:
    return stage_of.channel(part(resolve({}, override), "channel"), realizations)


def array(frame: pl.DataFrame, column: str, realizations: int) -> np.ndarray:
    return frame[column].to_numpy().reshape(realizations, -1)


# Geometry


@pytest.mark.parametrize(("rings", "cells"), [(0, 1), (1, 7), (2, 19)])
def test_rings_make_a_hexagonal_grid_with_neighbours_sqrt3_radii_apart(rings, cells):
    station = hexagons.stations(rings, 500.0)
    assert len(station) == hexagons.cells(rings) == cells
    np.testing.assert_allclose(station[0], 0.0, atol=1e-9)
    apart = [np.linalg.norm(a - b) for k, a in enumerate(station) for b in station[:k]]
    assert all(d > sqrt(3) * 500 - 1e-6 for d in apart)
    neighbours = 3 * rings * (3 * rings + 1)  # edges of the triangular lattice within a hexagon
    assert sum(d < sqrt(3) * 500 + 1e-6 for d in apart) == neighbours


@pytest.mark.parametrize("rings", [0, 1, 2])
def test_the_square_bounds_every_corner_and_touches_one(rings):
    angle = pi / 2 + np.arange(6) * pi / 3  # stations lie on a horizontal line, so corners point up
    corners = 500 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    reach = abs(hexagons.stations(rings, 500.0)[:, None] + corners).max()
    assert hexagons.half_side(rings, 500.0) == pytest.approx(reach, rel=1e-12)
    apart = abs(hexagons.corners(500.0)[:, None] - corners).max(axis=2)
    assert sorted(apart.argmin(axis=1)) == list(range(6))
    assert apart.min(axis=1).max() < 1e-9


@pytest.mark.parametrize("rings", [0, 1, 2])
def test_users_belong_to_the_nearest_station(rings):
    tables = run({"network": {"rings": rings, "users": 30}}, range(20))
    station = hexagons.stations(rings, 500.0)
    links = {(r, s, u): d for r, _, s, u, d, *_ in tables["links"].rows()}
    for r, u, x, y, cell in tables["users"].select("realization", "user", "x_m", "y_m", "cell").rows():
        distance = [sqrt((x - a) ** 2 + (y - b) ** 2) for a, b in station]
        assert cell == distance.index(min(distance))
        assert [links[r, s, u] for s in range(len(station))] == pytest.approx(distance, rel=1e-12)


def test_users_are_uniform_in_the_bounding_square():
    users = run({}, range(300))["users"]
    half = 1.5 * sqrt(3) * 500
    count, _, _ = np.histogram2d(users["x_m"], users["y_m"], bins=8, range=[[-half, half]] * 2)
    assert count.sum() == 30000
    assert stats.chisquare(count.ravel()).pvalue > FALSE_ALARM
    disc = users.filter(pl.col("x_m") ** 2 + pl.col("y_m") ** 2 < half**2)  # twin: a disc is not the square
    count, _, _ = np.histogram2d(disc["x_m"], disc["y_m"], bins=8, range=[[-half, half]] * 2)
    assert stats.chisquare(count.ravel()).pvalue < FALSE_ALARM


# Gains (17)


def fading_power(links: pl.DataFrame, cut_m: float, exponent: float = 3.0) -> np.ndarray:
    """l^2, what remains of (17) without the path loss."""
    wavelength_part = (299792458.0 / (4 * pi * 2.45e9)) ** 2
    return links["gain"].to_numpy() / wavelength_part * np.maximum(links["distance_m"].to_numpy(), cut_m) ** exponent


@pytest.mark.parametrize(("scale", "exponent"), [(1.0, 3.0), (0.7, 2.2)])
def test_fading_is_rayleigh_beyond_the_path_loss(scale, exponent):
    links = run({"radio": {"fading_scale": scale, "path_loss_exponent": exponent}}, range(300))["links"]
    power = fading_power(links, 1.0, exponent)
    assert stats.kstest(power, stats.expon(scale=2 * scale**2).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(power, stats.expon(scale=2 * (1.02 * scale) ** 2).cdf).pvalue < FALSE_ALARM


def test_distances_are_cut_below_at_a_metre():
    links = run({"network": {"cell_radius_m": 1.0, "rings": 0}}, range(300))["links"]
    near = (links["distance_m"] < 0.7).to_numpy()
    assert near.sum() > 1000
    assert stats.kstest(fading_power(links, 1.0)[near], stats.expon(scale=2).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(fading_power(links, 0.5)[near], stats.expon(scale=2).cdf).pvalue < FALSE_ALARM


def test_fading_of_a_user_to_different_stations_is_uncorrelated():
    power = fading_power(run({}, range(200))["links"], 1.0).reshape(200, 7, 100).swapaxes(0, 1).reshape(7, -1)
    correlation = np.corrcoef(stats.rankdata(power, axis=1))
    limit = stats.norm.isf(FALSE_ALARM / 2 / comb(7, 2)) / sqrt(power.shape[1])
    assert abs(correlation[np.triu_indices(7, 1)]).max() < limit


# Sample counts


def sample_count_p_value(samples: np.ndarray, sd: float) -> float:
    """Chi-square test of round(50 + lognormal(4, sd)) in 20 bins that end at half-integers."""
    edges = np.unique(np.rint(50 + np.exp(4 + stats.norm.ppf(np.arange(1, 20) / 20)))) + 0.5
    probability = np.diff(stats.norm.cdf((np.log(edges - 50) - 4) / sd), prepend=0, append=1)
    count = np.histogram(samples, bins=[-np.inf, *edges, np.inf])[0]
    return stats.chisquare(count, len(samples) * probability).pvalue


def test_sample_counts_are_rounded_lognormals():
    samples = run({"network": {"rings": 0}}, range(800))["users"]["samples"].to_numpy()
    assert samples.min() >= 50
    assert sample_count_p_value(samples, 1.0) > FALSE_ALARM
    assert sample_count_p_value(samples, 1.03) < FALSE_ALARM


@settings(derandomize=True, deadline=None, max_examples=40)
@given(users=st.integers(1, 60), per_user=st.floats(1, 300), sd=st.floats(0, 3), seed=st.integers(0, 2**40))
def test_a_given_total_is_met_exactly_with_a_sample_for_everyone(users, per_user, sd, seed):
    total = int(users * per_user)
    data = {"samples_total": total, "samples_log_sd": sd}
    override = {"seed": seed, "network": {"users": users, "rings": 0}, "data": data, "privacy": {"min_noise": 1e-3}}
    samples = array(run(override, range(5))["users"], "samples", 5)
    assert (samples.sum(axis=1) == total).all()
    assert (samples >= 1).all()


def test_a_given_total_scales_the_drawn_sizes():
    drawn = array(run({}, range(20))["users"], "samples", 20)
    scaled = array(run({"data": {"samples_total": 50000}}, range(20))["users"], "samples", 20)
    wanted = 50000 * drawn / drawn.sum(axis=1, keepdims=True)
    relative = drawn / drawn.mean(axis=1, keepdims=True)
    # Rounding on both sides costs a sample at the new scale, everyone's first sample another.
    assert (abs(scaled - wanted) <= 2 + 2 * relative + 50000 / drawn.sum(axis=1, keepdims=True)).all()


def test_more_samples_than_the_data_set_has_is_an_error_with_realization_and_numbers():
    override = {"network": {"users": 12}, "data": {"samples_offset": 10}, "privacy": {"min_noise": 1.0}}
    totals = run(override, range(5, 15))["users"].group_by("realization", maintain_order=True).agg(pl.sum("samples"))
    assert totals["samples"][0] < 1437
    with pytest.raises(DataError) as error:
        run(override | {"data": {"samples_offset": 10, "dataset": "digits"}}, range(5, 15))
    found = re.search(r"realization (\d+): .* hold (\d+) samples, .* has only (\d+)", str(error.value))
    realization, held, available = map(int, found.groups())
    assert held > available == 1437
    assert totals.filter(realization=realization)["samples"].item() == held


# A realization is the same in any block


@pytest.mark.parametrize("part", [range(37, 41), range(1), range(99, 100)])
@pytest.mark.parametrize(
    "override",
    [
        {},
        {"network": {"users": 13, "rings": 2}, "data": {"samples_total": 1999}},
        {"radio": {"path_loss": "umi"}},
        {"radio": {"path_loss": "uma"}},
    ],
)
def test_realizations_are_the_same_in_any_block(override, part):
    whole, alone = run(override, range(100)), run(override, part)
    for table, frame in whole.items():
        assert_frame_equal(frame.filter(pl.col("realization").is_in(list(part))), alone[table], check_exact=True)


# Streams


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    seed=st.integers(0, 2**63 - 1),
    start=st.integers(0, 10**6),
    before=st.integers(0, 20),
    count=st.integers(1, 20),
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=3),
)
def test_numbers_are_the_same_in_any_block(seed, start, before, count, shape):
    block = streams.uniforms(seed, "p", range(start, start + before + count), tuple(shape))
    part = streams.uniforms(seed, "p", range(start + before, start + before + count), tuple(shape))
    assert part.shape == (count, *shape)
    np.testing.assert_array_equal(block[before:], part)
    assert ((block > 0) & (block < 1)).all()


def test_numbers_are_never_zero(monkeypatch):
    zeros = type("Zeros", (), {"__init__": lambda self, bits: None, "random": lambda self, shape: np.zeros(shape)})
    monkeypatch.setattr(np.random, "Generator", zeros)
    assert (streams.uniforms(3, "p", range(2), (5,)) == 2.0**-54).all()  # half of the least that is drawn


def test_numbers_are_uniform():
    numbers = streams.uniforms(3, "p", range(1000), (101,)).ravel()
    assert stats.kstest(numbers, "uniform").pvalue > FALSE_ALARM
    assert stats.kstest(numbers**1.05, "uniform").pvalue < FALSE_ALARM


def test_no_number_returns_for_another_seed_purpose_or_realization():
    # 120,000 numbers of 53 bits: a chance repetition has probability 1e-6.
    ids = product((0, 1, 2**62), ("position", "fading", "start/1", "start/11"))
    numbers = np.concatenate([streams.uniforms(*each, range(100), (101,)) for each in ids]).ravel()
    assert len(np.unique(numbers)) == len(numbers)


def correlation_p_value(rows: np.ndarray) -> float:
    """p-value of the largest correlation between rows, Bonferroni."""
    n, pairs = rows.shape[1], comb(len(rows), 2)
    largest = abs(np.corrcoef(rows)[np.triu_indices(len(rows), 1)]).max()
    return min(1.0, 2 * pairs * stats.norm.sf(largest * sqrt(n)))


def test_purposes_seeds_realizations_and_successive_numbers_are_uncorrelated():
    purposes = np.stack([streams.uniforms(s, p, range(200), (100,)).ravel() for s in (1, 2) for p in "abcdefgh"])
    numbers = streams.uniforms(1, "a", range(500), (102,)).ravel()
    lagged = np.stack([numbers[k : len(numbers) - 20 + k] for k in range(20)])
    for rows in (purposes, streams.uniforms(1, "a", range(60), (10000,)), lagged):
        assert correlation_p_value(rows) > FALSE_ALARM
    shared = 0.95 * purposes[:1] + 0.3 * streams.uniforms(9, "x", range(200), (100,)).reshape(1, -1)
    assert correlation_p_value(np.concatenate([purposes, shared])) < FALSE_ALARM


def test_generators_and_keys_differ_by_seed_purpose_and_realization():
    ids = [(s, p, r) for s in (0, 1, 2**62) for p in ("data", "noise") for r in range(50)]
    first = [streams.generator(*i).random() for i in ids]
    keys = [streams.key(*i) for i in ids]
    assert len(set(first)) == len(set(keys)) == len(ids)
    assert all(0 <= key < 2**63 for key in keys)
    assert first == [streams.generator(*i).random() for i in ids]
    assert keys == [streams.key(*i) for i in ids]
    assert log(np.mean(keys), 2) == pytest.approx(62, abs=0.3)  # uses all 63 bits
