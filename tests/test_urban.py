"""Path loss of 3GPP TR 38.901: hand-computed values, the tables' formulas written anew, statistics of what is drawn."""

import re
from itertools import product
from math import exp, log10, sqrt

import numpy as np
import polars as pl
import pytest
from scipy import stats

import stage_of
from pipeline import part
from pwfl import streams
from pwfl.radio.path_loss import link_gain, rayleigh_power
from pwfl.scenario import ScenarioError, resolve
from pwfl.systems.multicell import hexagons
from pwfl.systems.multicell.beyond import urban

FALSE_ALARM = 1e-6
HEIGHTS = [1.5, 8.0, 13.0, 13.2, 17.0, 22.5]


def run(radio: dict, realizations: range, **sections: dict) -> dict[str, pl.DataFrame]:
    return stage_of.channel(part(resolve({}, {"radio": radio, **sections}), "channel"), realizations)


# The formulas of Table 7.4.1-1 and Table 7.4.2-1 (version 17.1), scalar, term by term as they are printed.


def printed_loss(name: str, d2: float, ghz: float, h: float, los: bool, h_e: float = 1.0) -> float:
    h_bs = {"uma": 25.0, "umi": 10.0}[name]
    d3, breakpoint_ = sqrt(d2**2 + (h_bs - h) ** 2), 4 * (h_bs - h_e) * (h - h_e) * ghz * 1e9 / 3.0e8
    if d2 <= breakpoint_:
        pl_los = {"uma": 28.0 + 22 * log10(d3), "umi": 32.4 + 21 * log10(d3)}[name]
    else:
        bend = log10(breakpoint_**2 + (h_bs - h) ** 2)
        pl_los = {"uma": 28.0 + 40 * log10(d3) - 9 * bend, "umi": 32.4 + 40 * log10(d3) - 9.5 * bend}[name]
    pl_los += 20 * log10(ghz)
    uma = 13.54 + 39.08 * log10(d3) + 20 * log10(ghz) - 0.6 * (h - 1.5)
    umi = 35.3 * log10(d3) + 22.4 + 21.3 * log10(ghz) - 0.3 * (h - 1.5)
    return pl_los if los else max(pl_los, {"uma": uma, "umi": umi}[name])


def printed_probability(name: str, d2: float, h: float) -> float:
    if d2 <= 18:
        return 1.0
    if name == "umi":
        return 18 / d2 + exp(-d2 / 36) * (1 - 18 / d2)
    taller = 0.0 if h <= 13 else ((h - 13) / 10) ** 1.5
    often = (18 / d2 + exp(-d2 / 63) * (1 - 18 / d2)) * (1 + taller * 5 / 4 * (d2 / 100) ** 3 * exp(-d2 / 150))
    return min(often, 1.0)  # beyond 18 m the printed product may exceed 1, by less than 0.6 %


@pytest.mark.parametrize("height", HEIGHTS)
@pytest.mark.parametrize("ghz", [0.5, 2.45, 28.0, 100.0])
def test_path_loss_is_that_of_the_printed_table(ghz, height):
    distance = np.concatenate([np.geomspace(10, 5000, 60), [560.0, 18.0]])
    heights = [("umi", 1.0), *(("uma", h_e) for h_e in (1.0, 12.0, 15.0, 18.0, 21.0) if height - h_e >= 1.0)]
    for los, (name, h_e) in product((True, False), heights):
        found = urban.path_loss_db(urban.ENVIRONMENTS[name], distance, ghz * 1e9, height, los, h_e)
        printed = [printed_loss(name, d, ghz, height, los, h_e) for d in distance]
        np.testing.assert_allclose(found, printed, rtol=1e-12)


@pytest.mark.parametrize("height", HEIGHTS)
@pytest.mark.parametrize("name", ["uma", "umi"])
def test_line_of_sight_has_the_printed_probability(name, height):
    distance = np.concatenate([[0.0, 10.0, 18.0, 18.001], np.geomspace(19, 5000, 80)])
    found = urban.los_probability(urban.ENVIRONMENTS[name], distance, height)
    np.testing.assert_allclose(found, [printed_probability(name, d, height) for d in distance], rtol=1e-12)
    assert ((found >= 0) & (found <= 1)).all()


# Note 1 of Table 7.4.1-1: h_E = 1 m with probability 1 / (1 + C), else uniform over 12, 15, ... up to h_UT - 1.5 m.


@pytest.mark.parametrize(
    ("height", "roofs"), [(22.5, [12, 15, 18, 21]), (22.4, [12, 15, 18]), (16.5, [12, 15]), (13.2, [12])]
)
@pytest.mark.parametrize("distance", [50.0, 300.0, 2000.0])
def test_effective_heights_have_the_printed_probabilities(height, roofs, distance):
    uniform = streams.uniforms(1, "test", range(200), (1000,)).ravel()
    environment = urban.ENVIRONMENTS["uma"]
    found = urban.effective_height(environment, np.full(uniform.shape, distance), height, uniform)
    c = ((height - 13) / 10) ** 1.5 * 1.25 * (distance / 100) ** 3 * exp(-distance / 150)
    expected = {1.0: 1 / (1 + c)} | {float(h): c / (1 + c) / len(roofs) for h in roofs}
    values, count = np.unique(found, return_counts=True)
    assert values.tolist() == list(expected)
    share = np.array(list(expected.values()))
    assert stats.chisquare(count, share * len(uniform)).pvalue > FALSE_ALARM


def test_who_does_not_see_over_roofs_has_reflections_near_the_ground():
    uniform, distance = np.linspace(0.0005, 0.9995, 1000), np.full(1000, 200.0)
    for name, far, height in (("uma", distance, 13.0), ("umi", distance, 22.5), ("uma", np.full(1000, 18.0), 22.5)):
        assert set(urban.effective_height(urban.ENVIRONMENTS[name], far, height, uniform)) == {1}


# What the channel draws.


@pytest.fixture(scope="module", params=["uma", "umi"])
def drawn(request):
    return request.param, run({"path_loss": request.param}, range(300), network={"cell_radius_m": 200.0})["links"]


def test_links_have_line_of_sight_as_often_as_printed(drawn):
    name, links = drawn
    distance, los = links["distance_m"].to_numpy(), links["line_of_sight"].to_numpy()
    edges = np.array([0, 20, 40, 70, 100, 150, 220, 320, 500, 5000])
    probability = np.array([printed_probability(name, d, 1.5) for d in distance])
    other = np.array([printed_probability({"uma": "umi", "umi": "uma"}[name], d, 1.5) for d in distance])
    bins = np.digitize(distance, edges) - 1

    def p_value(p):  # the sum of independent trials in each bin, by its mean and variance
        z = [
            (los[bins == k].sum() - p[bins == k].sum()) / sqrt(max((p * (1 - p))[bins == k].sum(), 1)) for k in range(9)
        ]
        return stats.chi2.sf(np.square(z).sum(), 9)

    assert p_value(probability) > FALSE_ALARM
    assert p_value(other) < FALSE_ALARM


@pytest.mark.parametrize("los", [True, False])
def test_gains_are_path_loss_shadow_fading_and_rayleigh_fading_of_mean_one(drawn, los):
    name, links = drawn
    links = links.filter(line_of_sight=los)
    distance = np.maximum(links["distance_m"].to_numpy(), 10)[:40000]
    loss = np.array([printed_loss(name, d, 2.45, 1.5, los) for d in distance])
    excess = links["gain"].to_numpy()[:40000] * 10 ** (loss / 10)
    sigma = {"uma": {True: 4.0, False: 6.0}, "umi": {True: 4.0, False: 7.82}}[name][los]

    def p_value(sigma, mean=1.0):
        node, weight = np.polynomial.hermite_e.hermegauss(80)  # over the normal shadow fading in dB

        def cdf(x):
            return (weight * -np.expm1(-x[:, None] / (mean * 10 ** (sigma * node / 10)))).sum(axis=1) / sqrt(2 * np.pi)

        return stats.kstest(excess, cdf).pvalue

    assert len(excess) > 8000
    assert p_value(sigma) > FALSE_ALARM
    assert p_value(1.2 * sigma) < FALSE_ALARM
    assert urban.shadowing_db(urban.ENVIRONMENTS[name], los, -1.5) == -1.5 * sigma
    assert p_value(sigma, mean=1.15) < FALSE_ALARM


def test_shadow_fading_of_a_users_links_is_uncorrelated():
    links = run({"path_loss": "umi"}, range(200))["links"]
    level = np.log(links["gain"].to_numpy()).reshape(200, 7, 100)
    sight = links["line_of_sight"].to_numpy().reshape(200, 7, 100)
    distance = links["distance_m"].to_numpy().reshape(200, 7, 100)
    loss = np.vectorize(lambda d, los: printed_loss("umi", max(d, 10), 2.45, 1.5, los))(distance, sight)
    excess = (level + loss * np.log(10) / 10).swapaxes(0, 1).reshape(7, -1)
    found = np.corrcoef(stats.rankdata(excess, axis=1))[np.triu_indices(7, 1)]
    assert abs(found).max() < stats.norm.isf(FALSE_ALARM / 2 / 21) / sqrt(excess.shape[1])


def test_what_was_drawn_before_stays_whatever_the_path_loss():
    law, macro, micro = (run({"path_loss": name}, range(7, 12)) for name in ("power_law", "uma", "umi"))
    for tables in (macro, micro):
        assert tables["users"].equals(law["users"])
        assert tables["links"]["distance_m"].equals(law["links"]["distance_m"])
    assert law["links"]["line_of_sight"].null_count() == len(law["links"])
    fading = rayleigh_power(streams.uniforms(1, "fading", range(7, 12), (7, 100)), 1.0).ravel()
    distance = np.maximum(law["links"]["distance_m"].to_numpy(), 1.0)
    assert (law["links"]["gain"].to_numpy() == link_gain(distance, 2.45e9, 3.0, fading)).all()


def test_tall_users_see_more_and_reflect_over_roofs():
    radio = {"path_loss": "uma", "frequency_hz": 0.5e9}  # where breakpoints lie in the network
    low, high = (run(radio | {"user_height_m": h}, range(20))["links"] for h in (1.5, 22.5))
    assert (low["line_of_sight"] <= high["line_of_sight"]).all()  # of the same draw
    high = high.with_columns(
        fading=stats.expon.ppf(streams.uniforms(1, "fading", range(20), (7, 100)).ravel()),
        normal=stats.norm.ppf(streams.uniforms(1, "shadowing", range(20), (7, 100)).ravel()),
    ).filter("line_of_sight")
    assert len(high) > 1.5 * low["line_of_sight"].sum()
    heights = set()
    for distance, gain, fading, normal in high.select("distance_m", "gain", "fading", "normal").iter_rows():
        loss = -10 * log10(gain / fading) - 4 * normal
        near = [
            h
            for h in (1, 12, 15, 18, 21)
            if abs(loss - printed_loss("uma", max(distance, 10), 0.5, 22.5, True, h)) < 1e-8
        ]
        assert near
        heights |= set(near[:1]) if len(near) == 1 else set()
    assert heights == {1, 12, 15, 18, 21}


def test_distances_are_cut_below_at_ten_metres():
    sections = {"network": {"cell_radius_m": 4.0, "rings": 0, "users": 50}}
    links = run({"path_loss": "uma"}, range(20), **sections)["links"]
    assert links["distance_m"].max() < 10
    assert links["line_of_sight"].all()
    fading, shadowing = (
        streams.uniforms(1, purpose, range(20), (1, 50)).ravel() for purpose in ("fading", "shadowing")
    )
    loss = printed_loss("uma", 10.0, 2.45, 1.5, True) + 4 * stats.norm.ppf(shadowing)
    np.testing.assert_allclose(links["gain"], stats.expon.ppf(fading) * 10 ** (-loss / 10), rtol=1e-9)


# Where the standard holds.


def error_of(override: dict) -> str:
    with pytest.raises(ScenarioError) as caught:
        resolve({}, override)
    return str(caught.value)


@pytest.mark.parametrize("name", ["uma", "umi"])
def test_beyond_the_standards_ranges_a_scenario_is_refused(name):
    for frequency in (0.5e9, 100e9):
        assert resolve({}, {"radio": {"path_loss": name, "frequency_hz": frequency}})
    for frequency in (0.49e9, 101e9):
        found = error_of({"radio": {"path_loss": name, "frequency_hz": frequency}})
        assert (
            f"radio.frequency_hz: {frequency:g} is not between 5e+08 and 1e+11, the range of radio.path_loss: {name}"
            in found
        )
    for height in (1.4, 22.6):
        assert "radio.user_height_m" in error_of({"radio": {"path_loss": name, "user_height_m": height}})
    assert resolve({}, {"radio": {"path_loss": name}, "network": {"rings": 2}})
    found = error_of({"radio": {"path_loss": name}, "network": {"rings": 3}})
    assert re.search(
        r"cell_radius_m: 500 with network.rings: 3 allows a distance of \d+ m between user and base station, .* 5000 m",
        found,
    )
    assert resolve({}, {"network": {"rings": 3}})  # the paper's law has no such range
    half, station = hexagons.half_side(3, 500.0), hexagons.stations(3, 500.0)
    reach = max(np.linalg.norm([x, y] - one) for x in (-half, half) for y in (-half, half) for one in station)
    assert hexagons.farthest(3, 500.0) == pytest.approx(reach, rel=1e-12)
