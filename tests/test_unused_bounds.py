"""Bounds (21) and (22) decide only where some scheme uses them, and there they are tried before any job."""

import re

import numpy as np
import polars as pl
import pytest

import pwfl
import stage_of
from pipeline import part
from pwfl.scenario import ScenarioError, check_surroundings, load, resolve
from pwfl.systems.multicell import channel, feasible
from pwfl.systems.multicell.report import leakage

# Users of 40 samples or so, whom Table I's bounds, which are the defaults, ask for far too much noise.
SMALL = {
    "realizations": 3,
    "training_realizations": 1,
    "audit": {"canaries": 50},
    "network": {"users": 30},
    "radio": {"resource_blocks": 2},
    "data": {"dataset": "digits", "samples_offset": 10, "samples_total": 1200},
    "privacy": {"target_epsilon": 8.0},
    "training": {"hidden_layers": [], "rounds": 2, "clip_norm": 1.0, "evaluate_every": 1},
}
FUNCTIONS = """
import numpy as np


def start(scenario, uplink, users, start):
    return start


def bounded(scenario, uplink, users, start):
    privacy = scenario.privacy
    most = privacy.min_noise / privacy.max_noise_error**0.5
    return np.where(users["samples"].to_numpy().reshape(start.shape) < most, -1, start)


def constant(scenario, samples, scheduled, start_noise_std):
    return np.full(scheduled.shape, 0.5)


def doubled(scenario, samples, scheduled, start_noise_std):
    return 2 * start_noise_std
"""
OWN_SCHEDULER, OWN_NOISE = "mine.py:start", "mine.py:constant"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder that is worked in, with functions of one's own."""
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of(*pairs, **changes):
    """The scenario SMALL with schemes of these schedulers and noises, and sections over its own."""
    schemes = [{"name": f"scheme {k}", "scheduler": s, "noise": n} for k, (s, n) in enumerate(pairs)]
    merged = {key: SMALL.get(key, {}) | value if isinstance(value, dict) else value for key, value in changes.items()}
    return SMALL | {"schemes": schemes} | merged


def check(scenario):
    """What is checked before any job."""
    check_surroundings(load({"scenarios": {"one": scenario}}, "study.yaml"))


def untrained(scenario):
    """The tables of channel, schedule and noise, in the first scheme."""
    model = resolve(scenario, {})
    (scheme, *_) = model.schemes
    found = stage_of.channel(part(model, "channel"), range(model.realizations))
    found |= stage_of.schedule(part(model, "schedule", scheme.scheduler), scheme.scheduler, found)
    return found | stage_of.noise(part(model, "noise", scheme.noise), scheme.noise, found)


FREE = [
    ("random", "target"),
    ("random", "none"),
    ("random", OWN_NOISE),
    (OWN_SCHEDULER, "target"),
    (OWN_SCHEDULER, OWN_NOISE),
]
USED = [
    *[("random", noise) for noise in ("random", "optimal", "equal_sum", "equal_max", "fill_up")],
    *[(scheduler, noise) for scheduler in ("optimal", "joint") for noise in ("target", "none", OWN_NOISE)],
    (OWN_SCHEDULER, "random"),
    ("joint_noise", "optimal"),
    ("joint_snr", "equal_max"),
]


def test_small_users_meet_a_target_that_bounds_have_no_part_in():
    found = pwfl.simulate(of(("random", "target"), ("random", "none"))).scenarios["scenario"]
    each = found.report["realizations"].filter(scheme="scheme 0")
    assert each["epsilon"].to_list() == pytest.approx([8.0] * 3, rel=1e-4)
    assert found.stages["noise_status"]["status"].unique(maintain_order=True).to_list() == ["target", "none"]
    assert found.stages["start_values"].filter(scheme="scheme 0")["noise_std"].null_count() == 90


@pytest.mark.parametrize("coherence", [None, 1])
@pytest.mark.parametrize("pair", FREE)
def test_unused_bounds_decide_nothing(pair, coherence):
    radio = {"coherence_rounds": coherence}
    free, bound = of(pair, radio=radio), of(pair, radio=radio, privacy={"max_noise_error": 1e-9})
    check(free)
    made, other = untrained(free), untrained(bound)
    assert all(frame.equals(other[name]) for name, frame in made.items())
    # Blocks and powers are those of bounds that every draw satisfies.
    easy = untrained(of((pair[0], "random"), radio=radio, privacy={"max_noise_error": 1e9}))
    starts = ["resource_block", "power_w"]
    assert made["start_values"].select(starts).equals(easy["start_values"].select(starts))
    assert made["schedule"].equals(easy["schedule"])
    served = made["schedule"].group_by("realization", "interval").agg(pl.col("assigned_block").count())
    assert served["assigned_block"].min() > 0


@pytest.mark.parametrize("pair", USED)
def test_bounds_that_cannot_be_met_are_refused_before_any_job_where_they_are_used(pair):
    with pytest.raises(ScenarioError, match=r"privacy\.max_noise_error: realization 0: all 1000 draws of start values"):
        check(of(pair))
    check(of(pair, privacy={"max_noise_error": 1e4}))


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (
            [("random", "target"), ("optimal", "target")],
            r"Required by scheme 'scheme 1' \(`scheduler: optimal`\), not for the noise: `scheduler: joint_snr` or `random` "
            r"works without$",
        ),
        ([("random", "random")], r"Required by scheme 'scheme 0' \(`noise: random`\)$"),
        (
            [("joint", "none"), ("random", "target"), ("optimal", "optimal"), ("random", "random")],
            r"Required by schemes 'scheme 0' \(`scheduler: joint`\) and 2 more schemes$",
        ),
    ],
)
def test_the_schemes_that_require_bounds_are_named_with_what_to_write_instead(pairs, said):
    with pytest.raises(ScenarioError, match=said):
        check(of(*pairs))
    with pytest.raises(ScenarioError, match=said):
        check(of(*pairs, privacy={"min_noise": 5000.0}))
    for scheduler in ("joint_snr", "random"):
        check(of((scheduler, "target")))


def test_schemes_of_one_scenario_share_the_start_values_that_some_of_them_need():
    mixed = of(("random", "target"), ("optimal", "target"), privacy={"min_noise": 3.5, "max_noise_error": 0.4})
    found, free = untrained(mixed), untrained(of(("random", "target")))["start_values"]
    bounded = found["start_values"].join(found["users"], on=["realization", "user"])
    sent = bounded.filter(pl.col("resource_block").is_not_null())
    error = pl.col("samples") * (pl.col("noise_std") ** 2 - 0.4)
    assert (sent.group_by("realization").agg(error.sum())["samples"] <= 0).all()
    assert bounded["noise_std"].null_count() == 0
    assert free["noise_std"].null_count() == len(free)
    with pytest.raises(ScenarioError, match=r"privacy\.max_noise_error: realization 0"):
        check(of(("random", "target"), ("random", OWN_NOISE), ("joint", "none")))


def noise_error(samples, scenario, rng):
    """(21)'s left side over its weights: two random users of each cell, K sigma uniform in Nmin to 6 Nmin."""
    error = weight = 0.0
    for cell in np.array_split(rng.permutation(samples), 7):
        scheduled = rng.permutation(cell)[:2]
        sigma = scenario["privacy"]["min_noise"] * rng.uniform(1, 6, len(scheduled)) / scheduled
        error, weight = error + (scheduled * sigma**2).sum(), weight + scheduled.sum()
    return error / weight


def test_what_is_refused_says_what_would_be_right():
    scenario = of(("random", "optimal"), privacy={"min_noise": 3.5, "max_noise_error": 0.02})
    with pytest.raises(ScenarioError) as refused:
        check(scenario)
    found = re.search(
        r"whose mean is (\S+) with privacy\.min_noise: 3\.5 and 40 samples per user, above "
        r"privacy\.max_noise_error: 0\.02; set max_noise_error to (\S+) or min_noise to (\S+), or give users more",
        str(refused.value),
    )
    stated, error, noise = map(float, found.groups())
    samples, rng = (
        untrained(of(("random", "target")))["users"].filter(realization=0)["samples"].to_numpy(),
        np.random.default_rng(1),
    )
    drawn = np.mean([noise_error(samples, scenario, rng) for _ in range(4000)])
    assert stated == pytest.approx(drawn, rel=0.15)  # cells have as many users there, and chance has its part
    for changed in ({"max_noise_error": error}, {"min_noise": noise}):
        right = of(("random", "optimal"), privacy=scenario["privacy"] | changed)
        check(right)
        assert (untrained(right)["noise_status"]["status"] == "optimal").all()


@pytest.mark.parametrize("scheduler", ["joint_noise", "joint_snr"])
def test_a_scheduler_by_the_least_noise_is_refused_where_it_would_schedule_nobody(scheduler):
    def served(scenario):
        return untrained(scenario)["schedule"]["assigned_block"].count()

    bad = of((scheduler, "target"), privacy={"min_noise": 1e4})
    assert served(bad) == 0
    with pytest.raises(
        ScenarioError,
        match=r"privacy\.min_noise: 10000 is so large that the schedulers .* can schedule no user.* Required by scheme 'sch",
    ) as refused:
        check(bad)
    error, noise = re.search(r"set max_noise_error to (\S+) or min_noise to (\S+),", str(refused.value)).groups()
    for changed in ({"min_noise": 1e4, "max_noise_error": float(error)}, {"min_noise": float(noise)}):
        right = of((scheduler, "target"), privacy=changed, schedule={"gamma": 0.0})
        check(right)
        assert served(right) > 0


def test_too_many_samples_of_a_realization_are_refused_before_any_job():
    data = {"samples_total": None, "samples_offset": 10, "samples_log_mean": 3.0, "samples_log_sd": 1.0}
    with pytest.raises(
        ScenarioError, match=r"data\.samples_log_mean: realization \d+: the users hold \d+ samples, but"
    ):
        check(of(("random", "target"), data=data, network={"users": 32}, realizations=90))


def test_points_that_draw_the_same_are_drawn_once(monkeypatch):
    drawn, located = [], channel.located
    monkeypatch.setattr(channel, "located", lambda *given: drawn.append(given) or located(*given))
    feasible._check_drawn_users.cache_clear()
    plain = of(("random", "target"))
    check(plain | {"sweep": {"schedule.gamma": [30.0, 300.0, 3000.0]}})
    assert len(drawn) == 1
    check(plain | {"sweep": {"seed": [7, 8]}})
    assert len(drawn) == 3


def test_a_network_that_takes_long_to_draw_is_left_to_its_jobs(monkeypatch):
    monkeypatch.setattr(feasible, "MOST_NUMBERS", 7 * 32 - 1)
    check(of(("random", "optimal")))
    monkeypatch.setattr(feasible, "MOST_NUMBERS", 7 * 32)
    with pytest.raises(ScenarioError, match="realization 0: all 1000 draws"):
        check(of(("random", "optimal")))


def test_all_realizations_of_a_chunk_are_tried():
    # The first to fail is not among the three that are asked for, but its chunk is computed whole.
    privacy = {"min_noise": 3.5, "max_noise_error": 0.07}
    with pytest.raises(ScenarioError, match=r"privacy\.max_noise_error: realization [3-9]: all 1000 draws"):
        check(of(("random", "optimal"), privacy=privacy))


def moved(pair, **privacy):
    """Which of channel, schedule and noise have other addresses with other bounds."""
    before, after = (stage_of.addresses(resolve(of(pair, privacy=given), {})) for given in ({}, privacy))
    return {stage for stage, *scheme in before if before[stage, *scheme] != after[stage, *scheme]} & UNTRAINED


AFTER_CHANNEL = {"schedule", "noise"}
UNTRAINED = {"channel"} | AFTER_CHANNEL
MOVED = {  # what other values of max_noise_error and min_noise move; user-defined functions may read both
    ("random", "target"): (set(), set()),
    ("random", "none"): (set(), set()),
    ("random", OWN_NOISE): ({"noise"}, AFTER_CHANNEL),
    (OWN_SCHEDULER, "none"): (AFTER_CHANNEL, AFTER_CHANNEL),
    ("joint_snr", "target"): (AFTER_CHANNEL, AFTER_CHANNEL),
    ("optimal", "target"): (AFTER_CHANNEL, AFTER_CHANNEL),
    ("random", "optimal"): (AFTER_CHANNEL, AFTER_CHANNEL),
}


@pytest.mark.parametrize("pair", MOVED)
def test_stages_stay_at_their_addresses_with_other_bounds_that_they_do_not_use(pair):
    assert (moved(pair, max_noise_error=20.0), moved(pair, min_noise=90.0)) == MOVED[pair]


def test_user_defined_functions_get_the_start_values_noise_and_may_read_bounds():
    made = untrained(of(("random", "mine.py:doubled"), privacy={"min_noise": 3.5}))
    users = made["users"].join(made["noise"].filter(pl.col("noise_std") > 0), on=["realization", "user"])
    users = users.join(made["start_values"], on=["realization", "user"], suffix="_at_start")
    assert users["noise_std"].to_list() == (2 * users["noise_std_at_start"]).to_list()
    assert (users["samples"] * users["noise_std_at_start"]).is_between(3.5, 21).all()
    chosen = untrained(of(("mine.py:bounded", "target")))
    sends = chosen["users"].join(chosen["schedule"].drop_nulls("assigned_block"), on=["realization", "user"])
    assert sends["samples"].min() >= 100 / 12**0.5
    assert len(sends) < untrained(of(("random", "target")))["schedule"]["assigned_block"].count()


@pytest.mark.parametrize(("pair", "drawn"), [(("random", "target"), False), (("optimal", "target"), False),
                                             (("random", "none"), False), (("random", OWN_NOISE), False),
                                             (("optimal", "equal_sum"), True), (("random", "random"), True)])  # fmt: skip
def test_the_bound_on_the_leakage_is_drawn_where_noise_obeys_it(pair, drawn):
    scenario = of(pair, privacy={"min_noise": 3.5, "max_noise_error": 0.4})
    report = part(resolve(scenario, {}), "report")
    rho = pl.DataFrame({"scheme": ["scheme 0"] * 2, "realization": [0, 1], "user": [0, 0], "rho": [0.5, 1.5]})
    assert ("bound by (22)" in leakage(report, {"leakage": rho}).to_json()) == drawn


def test_a_lower_bound_that_no_scheme_uses_is_warned_of():
    def warnings(*pairs):
        return load({"scenarios": {"one": of(*pairs, privacy={"min_noise": 3.5})}}, "study.yaml").warnings

    expected = "scenarios.one: privacy.min_noise: 3.5 has no effect with schemes that do not use it"
    assert warnings(("random", "target"), ("random", "none")) == (expected,)
    for pair in (("random", OWN_NOISE), ("joint_snr", "target"), ("optimal", "target"), ("random", "optimal")):
        assert warnings(("random", "target"), pair) == ()


def test_gamma_is_weighed_against_the_lower_bound_only_where_that_is_used():
    extreme = {"privacy": {"min_noise": 1e-4}, "schedule": {"gamma": 1e6}}
    resolve(of(("random", "target"), **extreme), {})
    for pair in (("random", "optimal"), ("optimal", "target"), ("joint_noise", "target")):
        with pytest.raises(ScenarioError, match=r"schedule\.gamma: 1e\+06 weights one user's leakage"):
            resolve(of(pair, **extreme), {})
