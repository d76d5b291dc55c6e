"""Path loss of 3GPP TR 38.901: hand-computed values, the tables' formulas written anew, statistics of what is drawn."""

import re
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
HEIGHT = 1.5


def run(radio: dict, realizations: range, **sections: dict) -> dict[str, pl.DataFrame]:
    return stage_of.channel(part(resolve({}, {"radio": radio, **sections}), "channel"), realizations)


# The formulas of Table 7.4.1-1 and Table 7.4.2-1 (version 17.1), scalar, term by term as they are printed.


def printed_loss(name: str, d2: float, ghz: float, los: bool) -> float:
    h, h_e, h_bs = HEIGHT, 1.0, {"uma": 25.0, "umi": 10.0}[name]
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


def printed_probability(name: str, d2: float) -> float:
    if d2 <= 18:
        return 1.0
    return 18 / d2 + exp(-d2 / {"uma": 63, "umi": 36}[name]) * (1 - 18 / d2)  # C is 0 up to 13 m


@pytest.mark.parametrize("name", ["uma", "umi"])
@pytest.mark.parametrize("ghz", [0.5, 2.45, 28.0, 100.0])
def test_path_loss_is_that_of_the_printed_table(ghz, name):
    distance = np.concatenate([np.geomspace(10, 5000, 60), [560.0, 18.0]])
    for los in (True, False):
        found = urban.path_loss_db(urban.ENVIRONMENTS[name], distance, ghz * 1e9, los)
        np.testing.assert_allclose(found, [printed_loss(name, d, ghz, los) for d in distance], rtol=1e-12)


@pytest.mark.parametrize("name", ["uma", "umi"])
def test_line_of_sight_has_the_printed_probability(name):
    distance = np.concatenate([[0.0, 10.0, 18.0, 18.001], np.geomspace(19, 5000, 80)])
    found = urban.los_probability(urban.ENVIRONMENTS[name], distance)
    np.testing.assert_allclose(found, [printed_probability(name, d) for d in distance], rtol=1e-12)
    assert ((found >= 0) & (found <= 1)).all()


# What the channel draws.


@pytest.fixture(scope="module", params=["uma", "umi"])
def drawn(request):
    return request.param, run({"path_loss": request.param}, range(300), network={"cell_radius_m": 200.0})["links"]


def test_links_have_line_of_sight_as_often_as_printed(drawn):
    name, links = drawn
    distance, los = links["distance_m"].to_numpy(), links["line_of_sight"].to_numpy()
    edges = np.array([0, 20, 40, 70, 100, 150, 220, 320, 500, 5000])
    probability = np.array([printed_probability(name, d) for d in distance])
    other = np.array([printed_probability({"uma": "umi", "umi": "uma"}[name], d) for d in distance])
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
    loss = np.array([printed_loss(name, d, 2.45, los) for d in distance])
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
    loss = np.vectorize(lambda d, los: printed_loss("umi", max(d, 10), 2.45, los))(distance, sight)
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


def test_distances_are_cut_below_at_ten_metres():
    sections = {"network": {"cell_radius_m": 4.0, "rings": 0, "users": 50}}
    links = run({"path_loss": "uma"}, range(20), **sections)["links"]
    assert links["distance_m"].max() < 10
    assert links["line_of_sight"].all()
    fading, shadowing = (
        streams.uniforms(1, purpose, range(20), (1, 50)).ravel() for purpose in ("fading", "shadowing")
    )
    loss = printed_loss("uma", 10.0, 2.45, True) + 4 * stats.norm.ppf(shadowing)
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
