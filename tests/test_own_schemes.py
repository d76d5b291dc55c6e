"""Functions of users' own as schedulers and noise of systems other than `multicell`, as the page has them."""

import re

import numpy as np
import polars as pl
import pytest
import yaml

import pwfl
import stage_of
from conftest import ROOT
from pipeline import part, run, stages
from pwfl import registry
from pwfl.privacy import sampled
from pwfl.process import user_code
from pwfl.report import build
from pwfl.scenario import ScenarioError, resolve
from pwfl.scenario.resolution import merge
from pwfl.systems.anonymous_oac import scheduled
from pwfl.workflow.plan import plan, routes

PAGE = (ROOT / "docs/how-to/own_functions.md").read_text(encoding="utf-8")
(OTHERS,) = re.findall(r"^## In other systems\n(.*?)(?=^## )", PAGE, flags=re.DOTALL | re.MULTILINE)
FOUND = re.findall(
    r"^In `(\w+\.py)`,? .*?```python\n(.*?)```\n\n```yaml\n(.*?)```", OTHERS, flags=re.DOTALL | re.MULTILINE
)
EXAMPLES = {(said := yaml.safe_load(text))["system"]: (file, code, said) for file, code, text in FOUND}
MORE = {  # what an example needs for rounds to differ, and for a guarantee
    "utility_fair": {"training": {"rounds": 4, "clip_norm": 1.0}},
    "random_orthogonalization": {"training": {"rounds": 4}, "radio": {"coherence_rounds": 2}},
    "anonymous_oac": {"training": {"rounds": 4}, "privacy": {"target_epsilon": 4.0}},
    "age_aware": {},
}
FEW = {"realizations": 3, "training_realizations": 2}


def write_config(system, **changes):
    """The tiny scenario of a system with the page's schemes; and others."""
    _, _, said = EXAMPLES[system]
    more = merge(registry.system(system).catalog.tiny, MORE[system])
    return merge(FEW | said, merge(more, changes))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The page's files, in the folder that is worked in."""
    for file, code, _ in EXAMPLES.values():
        (tmp_path / file).write_text(code)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_function(folder, system, what, body, **changes):
    """A scenario of one scheme, of which the scheduler or the noise is a function of this body."""
    parameters = {"scheduler": "scenario, uplink, users, now", "noise": "scenario, samples, gain, sent, now"}[what]
    if system == "age_aware":
        parameters = {"scheduler": "scenario, profiles, required, now"}.get(what, parameters)
    (folder / "mine.py").write_text(f"import numpy as np\n\n\ndef function({parameters}):\n    {body}\n")
    scheme = {"name": "a", "scheduler": BUILT_IN[system][0], "noise": BUILT_IN[system][1]} | {what: "mine.py:function"}
    return resolve(write_config(system, **changes) | {"schemes": [scheme]}, {})


def simulated(base):
    """The report's tables of a study of one scenario."""
    return pwfl.simulate({"study": "a", "base": base, "scenarios": {"one": {}}}).scenarios["one"].report


BUILT_IN = {
    "anonymous_oac": ("over_the_air", "identified_fixed"),
    "utility_fair": ("benchmark", "independent"),
    "random_orthogonalization": ("all", "fixed"),
    "age_aware": ("random", "adaptive"),
}


def tables_of(model):
    """The tables of the one scheme of a scenario, up to accounts."""
    ((_, found),) = stages(model)
    return found


def test_the_page_has_an_example_of_each_other_system():
    assert EXAMPLES.keys() == BUILT_IN.keys() == set(registry.BUILT_IN) - {"multicell"}


@pytest.mark.parametrize("system", EXAMPLES)
def test_the_pages_functions_are_accounted_for_and_audited_as_others(system, folder):
    base = write_config(system)
    made = simulated(base)
    each, audit = made["realizations"], made["audit"]
    noisy = pl.col("scheme") != "No noise"
    assert each.filter(noisy)["epsilon"].is_finite().all()
    assert each.filter(~noisy)["epsilon"].is_infinite().all()
    assert set(audit.filter(noisy)["status"]) == {"passed"}
    assert len(audit.filter(noisy)) > 10


@pytest.mark.parametrize("system", EXAMPLES)
def test_a_functions_own_parameters_are_swept(system, folder):
    base = write_config(system)
    what = next(iter(base["own"]))
    (name,) = base["own"][what]
    base["sweep"] = {f"own.{what}.{name}": [1, 2]}
    found = plan(pwfl.scenario.load({"study": "a", "base": base, "scenarios": {"one": {}}}, "a.yaml"))
    scheme = base["schemes"][0]["name"]
    addresses = [routed[scheme] for routed in found.routes.values()]
    assert len({route[what]["address"] for route in addresses}) == 2
    assert len({route["channel"]["address"] for route in addresses}) == 1


@pytest.mark.parametrize("system", BUILT_IN)
def test_built_in_schemes_do_not_read_own(system):
    base = registry.system(system).catalog.tiny | {"system": system}
    before, after = (
        {name: [d["address"] for d in route.values()] for name, route in routes(resolve(base | more, {})).items()}
        for more in ({}, {"own": {"schedule": {"a": 1}, "noise": {"b": 2}}})
    )
    assert before == after


DRAWN = """
    assert len(now.decided) == len(now.sent) == now.interval
    assert now.kept == (now.interval or None)
    chance = np.array([each.random(users.height // len(now.generators)) for each in now.generators])
    sends = chance >= np.median(chance, axis=1, keepdims=True)
    return {sent}, now.interval + 1
"""
SENT = {  # system -> what those who send are returned as, and a column that is above 0 of them
    "utility_fair": ("np.where(sends & uplink.able, uplink.max_power_w, 0.0)", "power_w"),
    "random_orthogonalization": ("np.where(sends, uplink.max_amplitude, 0.0)", "amplitude"),
    "anonymous_oac": ("sends", None),
}


@pytest.mark.parametrize("system", SENT)
def test_random_numbers_of_a_realization_are_the_same_in_every_chunk(system, folder):
    returned, column = SENT[system]
    model = with_function(folder, system, "scheduler", DRAWN.strip().format(sent=returned))
    name, made = "mine.py:function", []
    for realizations in (range(4), range(2), range(2, 4)):
        found = stage_of.channel(part(model, "channel"), realizations)
        made.append(stage_of.schedule(part(model, "schedule", name), name, found)["schedule"])
    keys = made[0].columns[:3]
    assert made[0].sort(keys).equals(pl.concat(made[1:]).sort(keys))
    sent = made[0] if column is None else made[0].filter(pl.col(column) > 0)
    assert 0 < len(sent) < len(found["links"].filter(realization=2)) * 4
    assert sent.group_by("user" if "user" in keys else "device").len()["len"].n_unique() > 1


ALIKE = {  # system -> what its built-in scheduler does, and the tables that are then the same
    "utility_fair": ("np.where(uplink.able, uplink.max_power_w, 0.0)", ("schedule", "noise", "leakage", "outcome")),
    "random_orthogonalization": (
        "np.full(uplink.gain.shape, uplink.max_amplitude)",
        ("schedule", "noise", "reception", "visibility", "leakage", "outcome"),
    ),
    "anonymous_oac": ("uplink.good", ("schedule",)),  # it is not accounted for by a chance to take part
}


@pytest.mark.parametrize("system", ALIKE)
def test_a_function_that_does_what_a_built_in_scheduler_does_is_that_scheduler(system, folder):
    returned, names = ALIKE[system]
    mine = tables_of(with_function(folder, system, "scheduler", f"return {returned}"))
    scheme = dict(zip(("name", "scheduler", "noise"), ("a", *BUILT_IN[system]), strict=True))
    same = tables_of(resolve(write_config(system) | {"schemes": [scheme]}, {}))
    for name in names:
        places = [column for column in same[name].columns if column in PLACES]
        own, other = (frames[name].sort(places) for frames in (mine, same))
        assert own.select(places).equals(other.select(places))
        for column in other.select(pl.selectors.float()).columns:
            np.testing.assert_allclose(own[column].to_numpy(), other[column].to_numpy(), rtol=1e-12)


PLACES = ("realization", "round", "interval", "user", "device", "users", "observer")


WRONG = {  # system, what, what it returns -> what is said
    ("utility_fair", "scheduler", "np.ones(3)"): "must return each device's power in W, 0 for a device that does not take part",
    ("utility_fair", "scheduler", "np.full(uplink.gain.shape, 2 * uplink.max_power_w)"): "in round 1; must be 0, or from",
    ("utility_fair", "scheduler", "-np.ones(uplink.gain.shape)"): "gives device 0 of realization 0 -1 W",
    ("utility_fair", "scheduler", "np.full(uplink.gain.shape, np.nan)"): "gives device 0 of realization 0 nan W",
    ("utility_fair", "noise", "np.ones(gain.shape)"): "must return the standard deviation of each device's noise",
    ("utility_fair", "noise", "np.zeros(samples.shape)"): "above 0; for a non-private baseline, use `noise: none`",
    ("utility_fair", "noise", "np.full(samples.shape, np.inf)"): "returns inf at .0, 0.; .* finite and above 0",
    ("random_orthogonalization", "scheduler", "np.zeros(uplink.gain.shape)"): "at least one user must be active",
    ("random_orthogonalization", "scheduler", "uplink.gain / uplink.gain.max()"): "for all active users, the same amplitude",
    ("random_orthogonalization", "scheduler", "np.full(uplink.gain.shape, 2.0 * uplink.max_amplitude)"): "at most radio.amplitude, 3",
    ("random_orthogonalization", "scheduler", "np.full(uplink.gain.shape, np.nan)"): "the amplitudes nan in round 1",
    ("random_orthogonalization", "noise", "np.ones(gain.shape)"): "must return the standard deviation of the users' noise",
    ("random_orthogonalization", "noise", "-np.ones(gain.shape[:2])"): "returns -1 at .0, 0.; .* not negative",
    ("anonymous_oac", "scheduler", "uplink.gain"): "returns float64 .* must return who takes part, as booleans",
    ("anonymous_oac", "scheduler", "uplink.good[:, 1:]"): "returns bool .* must return who takes part, as booleans",
    ("anonymous_oac", "noise", "np.ones(gain.shape)"): "must return the standard deviation of each round's noise",
    ("anonymous_oac", "noise", "-np.ones(gain.shape[:2])"): "returns -1 at .0, .*not negative",
    ("age_aware", "scheduler", "required"): "returns float64 .*must return collection times, integers from 0 to 5",
    ("age_aware", "noise", "0 * sent"): "above 0",
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_schedule_or_noise_is_refused(case, folder):
    system, what, returned = case
    model = with_function(folder, system, what, f"return {returned}")
    if (system, what) == ("age_aware", "noise"):
        text = (folder / "mine.py").read_text().replace("samples, gain, sent, now", "samples, time, sent")
        (folder / "mine.py").write_text(text)
    with pytest.raises(user_code.UserCodeError, match=f"^mine.py:function: .*{WRONG[case]}"):
        tables_of(model)


def test_a_device_that_rests_sends_nothing(folder):
    """It has neither iterations nor time on air, and what it radiated before counts."""
    found = tables_of(resolve(write_config("utility_fair", schemes=write_config("utility_fair")["schemes"][:1]), {}))
    schedule = found["schedule"].sort("realization", "round", "device")
    power, least = (schedule[name].to_numpy().reshape(3, 4, 3) for name in ("power_w", "min_power_w"))
    limit = 10 ** (30 / 10 - 3)
    for b in range(3):
        used = np.zeros(3)
        for t in range(4):
            able = least[b, t] <= limit
            assert ((power[b, t] == 0) | (power[b, t] == least[b, t])).all()
            expected = np.where(able, least[b, t], 0.0)
            chosen = np.argsort(used if t else expected, kind="stable")[:2]
            assert set(np.flatnonzero(power[b, t])) <= set(chosen)
            used += power[b, t]
    rests = schedule.filter(pl.col("power_w") == 0)
    assert len(rests)
    assert set(rests["iterations"]) == {0}
    assert not rests["takes_part"].any()


def test_the_server_adds_up_the_channels_of_those_who_send(folder):
    """By channels drawn in another way: a network of the two who send has their couplings."""
    model = resolve(
        write_config("random_orthogonalization", schemes=write_config("random_orthogonalization")["schemes"][1:]), {}
    )
    found = tables_of(model)
    sent = found["schedule"].filter(pl.col("amplitude") > 0)
    first = sent.filter(pl.col("user").max().over("realization", "round") == 1)
    links = found["links"].filter(users=2).drop("users")
    pairs = first.join(links, on=("realization", "round", "user"))
    assert len(pairs)
    for name in ("energy", "coupling_real", "cross_energy"):
        np.testing.assert_allclose(pairs[name], pairs[f"{name}_right"], rtol=1e-12)
    silent = found["schedule"].filter(pl.col("amplitude") == 0)
    assert not silent.select("energy", "coupling_real", "cross_energy").to_numpy().any()
    received = found["reception"].group_by("realization", "interval").len()
    assert set(received["len"]) == {2}


REFUSED = {  # scheduler, noise of `anonymous_oac` -> what is said
    ("turns.py:schedule", "anonymous"): "does not have; use noise identified_fixed, none or a",
    ("turns.py:schedule", "anonymous_fixed"): "does not have",
    ("turns.py:schedule", "identified"): "does not have",
    ("turns.py:schedule", "local_fixed"): "does not have",
}


@pytest.mark.parametrize("pair", REFUSED)
def test_noise_that_rests_on_a_chance_to_take_part_goes_with_no_function(pair, folder):
    scheme = dict(zip(("name", "scheduler", "noise"), ("a", *pair), strict=True))
    with pytest.raises(ScenarioError, match=REFUSED[pair]):
        resolve(write_config("anonymous_oac") | {"schemes": [scheme]}, {})


def test_a_rule_of_noise_that_a_scheduler_is_made_for_is_not_replaced(folder):
    scheme = {"name": "a", "scheduler": "bound_adaptive", "noise": "halves.py:noise"}
    with pytest.raises(
        ScenarioError,
        match=r"optimizes collection times for adaptive noise; it cannot be combined with halves\.py:noise",
    ):
        resolve(write_config("age_aware") | {"schemes": [scheme]}, {})


@pytest.mark.parametrize("scheduler", ["turns.py:schedule", "over_the_air", "orthogonal"])
def test_a_record_loses_by_the_rounds_that_its_device_took_part_in(scheduler, folder):
    """By the multiplier and the most rounds of a device; each of its records at most by that of all in its batch."""
    (folder / "mine.py").write_text(
        "import numpy as np\n\n\ndef noise(scenario, samples, gain, takes_part):\n"
        "    return np.full(gain.shape[:2], 3.0)\n"
    )
    scheme = {"name": "a", "scheduler": scheduler, "noise": "mine.py:noise"}
    model = resolve(write_config("anonymous_oac") | {"schemes": [scheme]}, {})
    found = tables_of(model)
    multiplier, rate = 3.0 / (2 * model.training.clip_norm), model.data.sampling
    law = sampled.Rates(np.array([rate]), np.ones(1))
    most = found["schedule"].group_by("realization", "user").len().group_by("realization").agg(pl.col("len").max())
    outcome = found["outcome"].join(most, on="realization")
    for row in outcome.iter_rows(named=True):
        proved = sampled.PAIRS["proved"].epsilons(law, multiplier, [row["len"]], model.privacy.delta, absent=0.5)[0]
        assert row["epsilon"] == row["epsilon_server"] == pytest.approx(proved, rel=1e-9)
        assert row["noise_multiplier"] == pytest.approx(multiplier)
        assert (row["guarantee"], row["epsilon_assumes"]) == ("conditional", "batch sizes hidden")
    together = found["schedule"].group_by("realization", "round").len()
    each = found["noise"].join(together, on=("realization", "round"))
    in_turn = scheduler == "orthogonal"
    std = 3.0 / each["divisor"] * (each["len"].sqrt() if in_turn else 1.0)
    np.testing.assert_allclose(each["update_noise_std"], std, rtol=1e-12)
    np.testing.assert_allclose(each["divisor"], each["len"] * model.data.samples * rate, rtol=1e-12)


def test_noise_meets_the_target_where_a_function_says_who_takes_part(folder):
    schemes = [{"name": "a", "scheduler": "turns.py:schedule", "noise": "identified_fixed"}]
    outcome = tables_of(resolve(write_config("anonymous_oac") | {"schemes": schemes}, {}))["outcome"]
    assert outcome["epsilon"].is_between(4.0 * (1 - 2e-4), 4.0).all()


def test_noise_is_found_where_what_it_is_to_be_as_private_as_has_an_epsilon_of_0(folder, monkeypatch):
    monkeypatch.setattr(sampled, "POINTS", 2000)  # coarse
    schemes = [{"name": "a", "scheduler": "turns.py:schedule", "noise": "identified_fixed"}]
    privacy = {"target_epsilon": None, "noise_multiplier": 100.0, "delta": 0.01}
    base = merge(write_config("anonymous_oac"), {"privacy": privacy, "data": {"sampling": 0.01}})
    outcome = tables_of(resolve(base | {"schemes": schemes}, {}))["outcome"]
    assert outcome["epsilon"].is_between(0.0, sampled.NEGLIGIBLE).all()


def test_a_realization_in_which_nobody_takes_part_has_no_epsilon(folder):
    body = "return np.zeros(uplink.gain.shape, bool)"
    model = with_function(folder, "anonymous_oac", "scheduler", body)
    outcome = tables_of(model)["outcome"]
    assert set(outcome.select(pl.selectors.matches("^epsilon|^guarantee")).null_count().row(0)) == {3}
    scheme = {"name": "a", "scheduler": "mine.py:function", "noise": "identified_fixed"}
    report = simulated(write_config("anonymous_oac") | {"schemes": [scheme]})
    assert set(report["audit"]["reason"]) == {"nobody sends"}


def test_many_levels_of_noise_are_rounded_to_a_bound():
    mu = np.sort(np.random.default_rng(1).uniform(0.5, 2, 100))
    found = scheduled.rounded_up(np.concatenate([np.zeros(3), mu]))
    assert len(np.unique(found)) == scheduled.LEVELS + 1
    assert (found[3:] >= mu).all()
    assert not found[:3].any()


@pytest.mark.parametrize("system", EXAMPLES)
def test_all_figures_are_drawn_of_the_pages_functions(system, folder):
    base = write_config(system)
    scenario, found = run(base | {"realizations": 2, "training_realizations": 1}, audited=False)
    tables = build.summarize(scenario, found)
    assert len(tables["summary"])
    for name in registry.system(system).catalog.figures:
        assert build.figure(scenario, name, found).to_dict()
