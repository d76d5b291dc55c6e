"""Values that may be in another unit: which are warned of, and what is said of them."""

import re
from math import inf

import numpy as np
import pytest

import pwfl
from pwfl import api, errors, registry, scenario
from pwfl.process import devices
from pwfl.scenario.fields import usual_of
from pwfl.scenario.units import unusual

WITH_USUAL = {"dB", "dBm", "dBm/Hz", "Hz", "m", "s", "W", "J", "bit", "bit/s"}


def of(system: str, key: str, value: float):
    section, last = key.split(".")
    return scenario.resolve({"system": system, section: {last: value}}, {})


SAID = {  # a value in the place of a default -> what is said of it
    ("multicell", "radio.max_power_dbm", 0.01): "0.01 dBm is 1.002 mW; check the unit: 0.01 W would be 10 dBm",
    ("multicell", "radio.max_power_dbm", 0.2): (
        "0.2 dBm is 1.047 mW; check the unit: 0.2 W would be 23.01 dBm, 0.2 mW would be -6.99 dBm"
    ),
    ("utility_fair", "device.max_power_dbm", 100.0): (
        "100 dBm is 10 MW, outside the usual -10 dBm to 50 dBm; check the unit: "
        "100 W would be 50 dBm, 100 mW would be 20 dBm"
    ),
    ("multicell", "radio.max_power_dbm", -20.0): (
        "-20 dBm is 10 µW, outside the usual -10 dBm to 50 dBm; check the unit: -20 dBW would be 10 dBm"
    ),
    ("multicell", "radio.max_power_dbm", -50.0): "-50 dBm is 10 nW, outside the usual -10 dBm to 50 dBm; check the unit",
    ("multicell", "radio.noise_density_dbm_hz", -204.0): (
        "-204 dBm/Hz is 3.981e-24 W/Hz, outside the usual -180 dBm/Hz to -130 dBm/Hz; check the unit: "
        "-204 dBW/Hz would be -174 dBm/Hz"
    ),
    ("utility_fair", "radio.snr_gap_db", 40.0): (
        "40 dB is a ratio of 1e+04, outside the usual 0 dB to 20 dB; check the unit: 40 as a ratio would be 16.02 dB"
    ),
    ("random_orthogonalization", "radio.bandwidth_hz", 180.0): (
        "180 Hz is outside the usual 1 kHz to 10 GHz; check the unit: "
        "180 kHz would be 1.8e+05 Hz, 180 MHz would be 1.8e+08 Hz"
    ),
    ("multicell", "radio.frequency_hz", 2450.0): (
        "2450 Hz is outside the usual 10 MHz to 300 GHz; check the unit: 2450 MHz would be 2.45e+09 Hz"
    ),
    ("multicell", "network.cell_radius_m", 1.0): (
        "1 m is outside the usual 10 m to 100 km; check the unit: 1 km would be 1000 m"
    ),
    ("utility_fair", "network.min_distance_m", 0.05): (
        "0.05 m is outside the usual 1 m to 100 km; check the unit: 0.05 km would be 50 m"
    ),
    ("utility_fair", "device.computing_power_w", 96.0): (
        "96 W is outside the usual 10 µW to 50 W; check the unit: 96 µW would be 9.6e-05 W, 96 mW would be 0.096 W"
    ),
    ("utility_fair", "device.deadline_s", 750.0): (
        "750 s is outside the usual 1 ms to 300 s; check the unit: 750 ms would be 0.75 s"
    ),
    ("utility_fair", "radio.update_bits", 875.0): (
        "875 bit is outside the usual 1 kbit to 1 Tbit; check the unit: "
        "875 kbit would be 8.75e+05 bit, 875 Mbit would be 8.75e+08 bit, 875 Gbit would be 8.75e+11 bit"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("system", "key", "value"), SAID)
def test_a_value_that_may_be_in_another_unit_is_said_with_what_it_would_be_there(system, key, value):
    section, last = key.split(".")
    config = {"base": {"system": system, section: {last: value}}, "scenarios": {"one": {}, "two": {}}}
    assert scenario.load(config, "study.yaml").warnings == (f"base.{key}: {SAID[system, key, value]}",)


@pytest.mark.parametrize("value", [0.0, -10.0, -0.5, 1.0, 10.0, 23.0, 23.5, 50.0])
def test_usual_values_are_not_warned_of(value):
    assert unusual(of("multicell", "radio.max_power_dbm", value)) == []


def test_zero_is_the_same_in_every_unit_and_half_a_decibel_of_a_gap_is_no_ratio():
    assert unusual(of("utility_fair", "device.circuit_power_w", 0.0)) == []
    assert unusual(of("utility_fair", "radio.snr_gap_db", 0.5)) == []


def test_watts_are_converted_as_decibels_are_defined():
    for watts in np.geomspace(1.1e-4, 0.99, 9):
        (line,) = unusual(of("multicell", "radio.max_power_dbm", float(watts)))
        assert f"{watts:g} W would be {10 * np.log10(watts / 1e-3):.4g} dBm" in line
        assert f"{watts:g} dBm is {10 ** (watts / 10):.4g} mW" in line


def test_values_of_a_sweep_are_warned_of_with_their_points():
    base = {"sweep": {"radio.max_power_dbm": [0.1, 10, 0.01], "seed": [1, 2, 3]}}
    tenth, hundredth = scenario.load({"base": base, "scenarios": {"one": {}}}, "study.yaml").warnings
    assert tenth.startswith("base.sweep: radio.max_power_dbm: 0.1 dBm is 1.023 mW; ")
    assert tenth.endswith(" (at one,max_power_dbm=0.1,seed=1 and 2 more points)")
    assert hundredth.startswith("base.sweep: radio.max_power_dbm: 0.01 dBm is 1.002 mW; ")


def test_a_value_of_a_scenario_is_blamed_on_it():
    config = {"scenarios": {"one": {}, "two": {"radio": {"max_power_dbm": 0.01}}}}
    (line,) = scenario.load(config, "study.yaml").warnings
    assert line.startswith("scenarios.two.radio.max_power_dbm: 0.01 dBm is 1.002 mW; ")


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_every_parameter_with_a_physical_unit_declares_a_usual_range_within_its_bounds(system):
    model = registry.system(system).model
    for path, field in scenario.parameters(model):
        key, unit, usual = ".".join(path), field.json_schema_extra["unit"], usual_of(field)
        assert (usual is not None) == (unit in WITH_USUAL), key
        if usual:
            lower = max(getattr(bound, "ge", -inf) for bound in field.metadata)
            upper = min(getattr(bound, "le", inf) for bound in field.metadata)
            assert lower <= usual[0] < usual[1] <= upper, key
    assert unusual(scenario.resolve({"system": system}, {})) == []


# A mistake of units may be what is behind an error: it is said first.

NARROW = {"base": {"radio": {"bandwidth_hz": 180.0}}, "scenarios": {"one": {}}}
MEANT = "study.yaml: base.radio.bandwidth_hz: 180 Hz is outside the usual 1 kHz to 10 GHz; check the unit: 180 kHz would be 1.8e+05 Hz"


def refused(check, *arguments) -> list[str]:
    with pytest.raises(scenario.ScenarioError) as caught:
        check(*arguments)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({}, "study.yaml: scenarios.one: radio.min_rate_bps: 100000 exceeds 3600, .* or raise radio.bandwidth_hz"),
        ({"studie": "x"}, "study.yaml: studie: unknown key; did you mean 'study'?"),
        ({"run": ["two"]}, "study.yaml:"),
        ({"base": {"radio": {"bandwidth_hz": "180", "resource_blocks": 0}}}, "study.yaml: base.radio.resource_blocks: 0"),
    ],
)  # fmt: skip
def test_an_error_comes_after_what_may_be_in_another_unit(more, error):
    said = refused(scenario.load, NARROW | more, "study.yaml")
    assert said[0].startswith(MEANT)
    assert re.match(error, said[1])


def test_points_of_a_sweep_are_warned_of_before_an_error_too():
    base = {"sweep": {"radio.bandwidth_hz": [180, 180e3]}, "network": {"users": 0}}
    said = refused(scenario.load, {"base": base, "scenarios": {"one": {}}}, "study.yaml")
    assert said[0].startswith(MEANT.replace("base.", "base.sweep: "))
    assert said[0].endswith("(at one,bandwidth_hz=180)")
    assert "network.users: 0 is below the minimum" in said[1]


@pytest.mark.parametrize("power", [1e308, inf, -inf, float("nan"), "x", [1.0], True, None])
def test_what_is_no_value_is_not_warned_of_and_is_an_error(power):
    said = refused(scenario.load, {"base": {"radio": {"max_power_dbm": power}}, "scenarios": {"one": {}}}, "study.yaml")
    assert len(said) == 1


def test_what_a_machine_lacks_comes_after_what_may_be_in_another_unit(monkeypatch):
    base = {"radio": {"max_power_dbm": 0.2}, "data": {"folder": "nowhere"}, "training": {"device": "gpu"}}
    study = scenario.load({"base": base, "scenarios": {"one": {}}}, "study.yaml")
    monkeypatch.setattr(devices, "present", lambda: False)
    for check in (scenario.check_surroundings, scenario.check_device):
        said = refused(check, study)
        assert said[0].startswith("study.yaml: base.radio.max_power_dbm: 0.2 dBm is 1.047 mW; check the unit")
        assert len(said) == 2


def test_simulate_warns_of_it(monkeypatch):
    monkeypatch.setattr(api, "check_surroundings", lambda study: 1 / 0)  # before anything is computed
    with pytest.warns(UserWarning, match="base.radio.frequency_hz: 2450 Hz"), pytest.raises(errors.InternalError):
        pwfl.simulate({"base": {"radio": {"frequency_hz": 2450.0}}, "scenarios": {"one": {}}})
