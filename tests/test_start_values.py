"""What schedulers start from: blocks, powers and noise that satisfy (21)-(25), of the stage `schedule` alone."""

from math import sqrt

import numpy as np
import polars as pl
import pytest
from scipy import stats

import stage_of
from pipeline import part
from pwfl import tables
from pwfl.scenario import resolve
from pwfl.systems.multicell import start_values

FALSE_ALARM = 1e-6
KEYS = ("realization", "user")


def drawn(override: dict, realizations: range) -> pl.DataFrame:
    """The tables `users` and `start_values`, side by side."""
    model = resolve({}, override)
    users, links = stage_of.channel(part(model, "channel"), realizations).values()
    cell, samples = (tables.to_array(users, name, *KEYS) for name in ("cell", "samples"))
    values = part(model, "schedule", "random")
    start = start_values.drawn(values, realizations, cell, samples, links["station"].n_unique())
    return users.join(start_values.table(start, realizations), on=KEYS, maintain_order="left")


def array(frame: pl.DataFrame, column: str) -> np.ndarray:
    return tables.to_array(frame, column, *KEYS)


@pytest.mark.parametrize("max_noise_error", [12.0, 8.5])  # at 8.5 most first draws break (21)
def test_start_values_satisfy_21_to_25(max_noise_error):
    users = drawn({"privacy": {"max_noise_error": max_noise_error}}, range(400))
    samples, noise_std = array(users, "samples"), array(users, "noise_std")
    scheduled = ~np.isnan(array(users, "resource_block"))
    error = (scheduled * samples * noise_std**2).sum(axis=1)
    assert (error <= max_noise_error * (scheduled * samples).sum(axis=1)).all()
    assert (samples * noise_std >= 100 * (1 - 1e-12)).all()
    assert (samples * noise_std <= 600 * (1 + 1e-12)).all()
    assert users["power_w"].is_between(0, 0.01).all()
    on_block = users.drop_nulls("resource_block")
    assert on_block["resource_block"].is_between(0, 4).all()
    assert not on_block.select("realization", "cell", "resource_block").is_duplicated().any()
    cells = users.group_by("realization", "cell").agg(users=pl.len(), served=pl.col("resource_block").count())
    assert cells["users"].min() < 5 < cells["users"].max()
    assert (cells["served"] == cells["users"].clip(upper_bound=5)).all()


def test_unconstrained_start_values_are_uniform():
    users = drawn({"privacy": {"max_noise_error": 1e6}}, range(300))
    power = users["power_w"].to_numpy() / 0.01
    noise = (users["samples"] * users["noise_std"]).to_numpy() / 100
    assert stats.kstest(power, stats.uniform(0, 1).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(noise, stats.uniform(1, 5).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(noise, stats.uniform(1, 5.1).cdf).pvalue < FALSE_ALARM
    assert abs(stats.spearmanr(power, noise).statistic) < stats.norm.isf(FALSE_ALARM / 2) / sqrt(len(power))


@pytest.mark.parametrize(("users", "blocks", "allocations"), [(5, 3, 5 * 4 * 3), (2, 4, 4 * 3)])
def test_round_robin_makes_every_allocation_equally_likely(users, blocks, allocations):
    radio, privacy = {"resource_blocks": blocks}, {"max_noise_error": 1e6}
    override = {"network": {"rings": 0, "users": users}, "radio": radio, "privacy": privacy}
    start = drawn(override, range(6000))["resource_block"].fill_null(-1).to_numpy()
    _, count = np.unique(start.reshape(6000, users), axis=0, return_counts=True)
    assert len(count) == allocations
    assert stats.chisquare(count).pvalue > FALSE_ALARM


def test_start_values_that_cannot_meet_21_are_an_error_of_the_schedule():
    model = resolve({}, {"privacy": {"max_noise_error": 2.0}})
    found = stage_of.channel(part(model, "channel"), range(7, 9))
    words = r"realization 7: .*\(21\).*privacy\.min_noise.*max_noise_error"
    with pytest.raises(start_values.StartValueError, match=words):
        stage_of.schedule(part(model, "schedule", "optimal"), "optimal", found)


@pytest.mark.parametrize("part_of", [range(37, 41), range(1), range(99, 100)])
@pytest.mark.parametrize(
    "override",
    [
        {},
        {"privacy": {"max_noise_error": 8.5}},  # redraws
        {"network": {"users": 13, "rings": 2}, "radio": {"resource_blocks": 3}, "data": {"samples_total": 1999}},
    ],
)
def test_start_values_are_the_same_in_any_block_of_realizations(override, part_of):
    whole, alone = drawn(override, range(100)), drawn(override, part_of)
    assert whole.filter(pl.col("realization").is_in(list(part_of))).equals(alone)


def test_all_schedulers_of_a_scenario_start_from_the_same():
    model = resolve({}, {"privacy": {"max_noise_error": 9.0}})
    found, made = stage_of.channel(part(model, "channel"), range(3)), []
    for scheduler in ("random", "optimal", "joint", "joint_noise"):
        schedules = stage_of.schedule(part(model, "schedule", scheduler), scheduler, found)
        made.append(tables.finished(schedules["start_values"], "start_values", "multicell"))
    expected = drawn({"privacy": {"max_noise_error": 9.0}}, range(3)).select(made[0].columns)
    assert all(each.equals(expected) for each in made)
    random = stage_of.schedule(part(model, "schedule", "random"), "random", found)["schedule"]
    assert random["assigned_block"].equals(expected["resource_block"])


DECIDED = {  # parameters of the start values, and other values
    "privacy.max_noise_error": 13.0,
    "privacy.min_noise": 90.0,
    "radio.max_power_dbm": 12.0,
    "radio.resource_blocks": 4,
}


@pytest.mark.parametrize("key", DECIDED)
def test_what_start_values_are_drawn_by_moves_schedules_and_no_channel(key):
    section, name = key.split(".")
    before, after = (stage_of.addresses(resolve({}, other)) for other in ({}, {section: {name: DECIDED[key]}}))
    moved = {stage for stage, *scheme in before if before[stage, *scheme] != after[stage, *scheme]}
    assert "channel" not in moved
    assert {"schedule", "noise", "account", "train"} <= moved
