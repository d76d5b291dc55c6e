"""The system age_aware through all stages: scenario, schedules, noise, training, accounting, report."""

import json
import re

import numpy as np
import polars as pl
import pytest
import yaml
from scipy.stats import chisquare, entropy
from scipy.stats import t as student

import stage_of
from conftest import ROOT, in_turn
from pipeline import part
from pwfl import scenario
from pwfl.report import claims as engine
from pwfl.scenario.resolution import merge
from pwfl.scenario.values import replaced
from pwfl.systems.age_aware import age, report
from pwfl.systems.age_aware import train as training
from pwfl.systems.age_aware.checks import NEEDED
from pwfl.systems.age_aware.claims import OWN_CLAIMS, PAPER_CLAIMS, claims
from reported import everything_made, reported

TINY = {
    "system": "age_aware",
    "realizations": 4,
    "training_realizations": 3,
    "schedule": {"horizon": 8},
    "privacy": {"target_epsilons": [0.2, 1.0]},
    "training": {"draws": 20},
}
PERIODIC = [[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0, 0, 1, 0]]
CHAIN = {"name": "home", "up": 0.2, "down": 0.3, "start": [0.4, 0.3, 0.2, 0.1]}
KEYS = ["realization", "case"]


def one_chain(**parameters):
    return {"clients": {"chains": [{"name": "home", **parameters}]}}


def scheme(scheduler, rule):
    return {"name": f"{scheduler}, {rule}", "scheduler": scheduler, "noise": rule}


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        (one_chain(up=0.3, down=0.8), "chain 'home': up + down = 1.1 would let a middle state stay with probability -0.1"),
        (one_chain(up=0.0, down=0.2), "chain 'home': it is reducible: state 1 is never reached from state 0"),
        (one_chain(matrix=PERIODIC), "chain 'home': it is periodic"),
        (one_chain(matrix=[[0.5, 0.4, 0, 0], *PERIODIC[1:]]), "chain 'home': row 0 of its transition matrix sums to 0.9, must sum to 1"),
        (one_chain(matrix=[[1, 0], [0, 1]]), "chain 'home': matrix must have 4 rows of 4 entries"),
        (one_chain(up=0.3), "chain 'home': needs either matrix, or both up and down"),
        (one_chain(up=0.3, matrix=PERIODIC), "chain 'home': has a matrix, so up and down must be left out"),
        (one_chain(up=0.3, down=0.3, start=[0.5, 0.5, 0.5, 0]), "chain 'home': start is not a probability distribution: it sums to 1.5, must sum to 1"),
        (one_chain(up=0.3, down=0.3, start=[0.5, 0.5]), "chain 'home': start has 2 entries, but clients.states_wh has 4"),
        ({"clients": {"chains": [{"name": "a", "up": 0.1, "down": 0.1}] * 2}}, "clients.chains: the name 'a' appears twice"),
        ({"clients": {"states_wh": [1.0, 1.0]}}, "clients.states_wh: [1.0, 1.0] contains a value twice"),
        ({"privacy": {"target_epsilons": [1.0, 1.0]}}, "privacy.target_epsilons: [1.0, 1.0] contains a value twice"),
        ({"schedule": {"times": [1, 2, 21]}}, "schedule.times: client 2 would collect at 21, outside 0 to 20"),
        ({"schedule": {"times": [1, -2, 1]}}, "schedule.times[2nd]: -2 is below the minimum, 0"),
        ({"schedule": {"times": [1]}}, "schedule.times: has 1 times for 3 clients; give one time per client"),
        ({"schemes": [scheme("fixed", "adaptive")]}, "schedule.times: has 0 times for 3 clients"),
        ({"clients": {"number": 20}}, "schemes: the schedulers simulated_* would enumerate all 21^20 schedules"),
        ({"schemes": [scheme("bound_constant", "adaptive")]}, "the scheduler bound_constant optimizes collection times for constant noise; it cannot be combined with adaptive"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_the_chain_and_what_would_be_right(base, expected):
    with pytest.raises(scenario.ScenarioError) as caught:
        scenario.load({"base": {"system": "age_aware"} | base, "scenarios": {"one": {}}}, "file.yaml")
    assert expected in str(caught.value)


ALL_PAIRS = [scheme(scheduler, rule) for scheduler, rule in NEEDED.items()]
EDGES = {
    "as it is": {},
    "all pairs of schemes": {"schemes": ALL_PAIRS, "schedule": {"times": [0, 4, 8]}},
    "one client": {"clients": {"number": 1}},
    "one realization": {"realizations": 1, "training_realizations": 1},
    "one step": {"schedule": {"horizon": 1}},
    "one target": {"privacy": {"target_epsilons": [0.5]}},
    "one sample": {"clients": {"chains": [CHAIN | {"samples": 1}]}},
    "stationary": {"clients": {"chains": [{"name": "home", "up": 0.2, "down": 0.3}]}},
    "one start": {"clients": {"chains": [CHAIN | {"start": [0.0, 0.0, 0.0, 1.0]}]}},
    "two states": {"clients": {"states_wh": [-1.0, 1.0], "chains": [{"name": "home", "up": 0.9, "down": 0.8}]}},
    "no reversible chain": {"clients": {"states_wh": [1.0, 2.0, 3.0], "chains": [
        {"name": "home", "matrix": [[0.1, 0.9, 0], [0, 0.1, 0.9], [0.9, 0, 0.1]], "start": [1.0, 0, 0]}]}},
    "no state keeps itself but one": {"clients": {"states_wh": [1.0, 2.0, 3.0], "chains": [
        {"name": "home", "matrix": [[0.5, 0.5, 0], [0, 0, 1.0], [1.0, 0, 0]], "start": [0, 1.0, 0]}]}},
    "forgets at once": {"clients": {"states_wh": [0.0, 5.0], "chains": [{"name": "home", "up": 0.5, "down": 0.5}]}},
    "only a sweep": {"schemes": [scheme("sweep", "adaptive")]},
    "no sweep": {"schemes": [scheme("random", "constant"), scheme("bound_constant", "constant")]},
    "separate bound": {"schedule": {"bound": "separate"}},
    "strict and lax": {"privacy": {"target_epsilons": [1e-3, 50.0]}},
}  # fmt: skip


@pytest.mark.parametrize("edge", in_turn(EDGES, "as it is", "one client", "only a sweep", "no sweep"))
def test_every_figure_and_table_is_made_in_edge_cases(edge):
    _, tables, _, _ = everything_made(merge(TINY, EDGES[edge]))
    outcome, leakage = tables["outcome"], tables["leakage"]
    assert outcome["target_met"].all()
    assert (leakage["epsilon"] <= leakage["epsilon_amplified"]).all()
    for bound in ("epsilon_classical", "epsilon_bound"):
        assert (outcome["epsilon_amplified"] <= outcome[bound] * (1 + 1e-9)).all()
    for form in ("paired", "separate"):
        assert (outcome[f"{form}_bound_wh2"] >= outcome["expected_loss_difference_wh2"] - 1e-9).all()
    if edge == "stationary":  # age costs nothing, so whoever adapts collects as early as possible
        assert set(leakage.filter(scheme="proposed, adaptive noise")["collection_time"]) == {0}
    if edge == "noise is limited":
        chosen = leakage.filter(~pl.col("scheme").is_in(["sweep", "classic DP, fresh data"]))  # whose times are given
        assert (chosen["epsilon_classical"] >= 0.21).all()


@pytest.fixture(scope="module")
def tiny():
    """What comparisons are made of, of the tiny scenario."""
    return reported(TINY)[2]


def stage_tables(config, scheduler, rule):
    """The tables of one scheme up to the account, and the scenario."""
    model = scenario.resolve(config, {})
    tables = stage_of.channel(part(model, "channel"), range(model.realizations))
    tables |= stage_of.schedule(part(model, "schedule", scheduler), scheduler, tables)
    tables |= stage_of.noise(part(model, "noise", rule), rule, tables)
    return tables | account(model, tables), model


def account(model, tables):
    return stage_of.account(part(model, "account"), tables)


def train(model, tables, realizations):
    return stage_of.train(part(model, "train"), None, realizations, tables)["history"]


@pytest.mark.parametrize("rule", ["constant", "adaptive"])
@pytest.mark.parametrize("bound", ["paired", "separate"])
def test_a_bound_schedule_is_the_best_of_all(rule, bound):
    """Every schedule through the stages, as `fixed`, against the one that the search finds."""
    chains = [CHAIN, CHAIN | {"name": "b", "up": 0.6, "samples": 30}]
    small = {"realizations": 1, "schedule": {"horizon": 4, "bound": bound}, "clients": {"number": 2, "chains": chains}}
    base = merge(TINY, small | {"training_realizations": 1})
    every = []
    for times in np.ndindex(5, 5):
        fixed = {"schedule": {"times": list(times)}, "schemes": [scheme("fixed", rule)]}
        every.append(stage_tables(merge(base, fixed), "fixed", rule)[0]["outcome"])
    least = pl.concat(every).group_by("case").agg(pl.col("^.*wh2$").min()).sort("case")
    for search, column in (("bound", f"{bound}_bound_wh2"), ("simulated", "expected_loss_difference_wh2")):
        best, _ = stage_tables(base, f"{search}_{rule}", rule)
        np.testing.assert_allclose(best["outcome"][column], least[column], rtol=1e-9)
        np.testing.assert_allclose(best["schedule_status"]["objective_wh2"], least[column], rtol=1e-9)


def test_clients_take_the_chains_in_turn():
    chains = [CHAIN | {"samples": 30}, CHAIN | {"name": "b", "up": 0.6, "start": [0.1, 0.2, 0.3, 0.4]}]
    model = scenario.resolve(merge(TINY, {"clients": {"number": 3, "chains": chains}}), {})
    users = stage_of.channel(part(model, "channel"), range(1))["users"]
    assert users["chain"].to_list() == ["home", "b", "home"]
    assert users["samples"].to_list() == [30, 100, 30]
    assert users["start"].to_list() == [CHAIN["start"], [0.1, 0.2, 0.3, 0.4], CHAIN["start"]]
    assert [rows[0][:2] for rows in users["transition"].to_list()] == [[0.8, 0.2], [0.4, 0.6], [0.8, 0.2]]


def test_a_hundred_clients_and_horizons_are_scheduled():
    chains = [CHAIN | {"name": str(k), "up": 0.05 + 0.008 * k, "samples": 20 + k} for k in range(60)]
    schemes = [scheme("bound_constant", "constant"), scheme("bound_adaptive", "adaptive")]
    large = {"schedule": {"horizon": 100}, "clients": {"number": 100, "chains": chains}, "schemes": schemes}
    base, values = merge(TINY, large | {"realizations": 2, "training_realizations": 1}), {}
    for rule in ("constant", "adaptive"):
        best, random = (stage_tables(base, scheduler, rule)[0] for scheduler in (f"bound_{rule}", "random"))
        values[rule] = best["outcome"]["paired_bound_wh2"].to_numpy()
        np.testing.assert_allclose(best["schedule_status"]["objective_wh2"], values[rule], rtol=1e-9)
        assert (best["schedule_status"]["evaluations"] <= 100 * 100 * 101).all()
        assert (values[rule] < random["outcome"]["paired_bound_wh2"].to_numpy()).all()
    assert (values["adaptive"] <= values["constant"]).all()


@pytest.mark.parametrize("rule", ["constant", "adaptive"])
def test_noise_rules(rule):
    tables, _ = stage_tables(TINY, "random", rule)
    users = tables["users"].select("realization", "user", "sensitivity_wh")
    joined = tables["schedule"].join(tables["noise"], on=[*KEYS, "user"]).join(users, on=["realization", "user"])
    if rule == "adaptive":
        assert joined["classical_epsilon"].equals(joined["required_epsilon"], check_names=False)
        np.testing.assert_allclose(tables["leakage"]["epsilon_amplified"], tables["leakage"]["target_epsilon"])
    else:
        least = joined.group_by(KEYS).agg(pl.col("classical_epsilon").unique(), pl.col("required_epsilon").min())
        assert least["classical_epsilon"].to_list() == [[epsilon] for epsilon in least["required_epsilon"]]
    scale = joined["sensitivity_wh"] / joined["classical_epsilon"]
    np.testing.assert_allclose(joined["noise_scale_wh"], scale, rtol=1e-12)
    assert tables["users"]["sensitivity_wh"].unique().to_list() == [1.8]


def test_random_times_are_uniform_and_the_same_for_all_targets():
    tables, _ = stage_tables(merge(TINY, {"realizations": 6000, "training_realizations": 1}), "random", "adaptive")
    for user in range(3):
        counts = tables["schedule"].filter(case=0, user=user)["collection_time"].value_counts()["count"]
        assert len(counts) == 9
        assert chisquare(counts).pvalue > 1e-6
        assert chisquare(counts.to_numpy() * np.linspace(0.8, 1.2, 9), sum_check=False).pvalue < 1e-6
    by_case = tables["schedule"].group_by("realization", "user").agg(pl.col("collection_time").n_unique())
    assert (by_case["collection_time"] == 1).all()


def released(tables, model, realization):
    """What clients upload in training, the means of their data at T, and its start."""
    values = part(model, "train")
    start = training.beginnings(values, tables)(realization)
    return *training.released(start, values.schedule.horizon, values.training.draws), start


def test_all_cases_see_the_same_data_and_noise_of_their_own():
    noise, final = [], []
    for scheduler, rule in (("random", "constant"), ("bound_adaptive", "adaptive")):
        tables, model = stage_tables(TINY, scheduler, rule)
        for realization in range(2):
            uploaded, last, start = released(tables, model, realization)
            bare, *_ = released(noiseless(tables), model, realization)
            noise.append((uploaded - bare) / start.scale)
            final.append(last)
    for first, second in zip(noise[:2], noise[2:], strict=True):  # without a scheme's name, of one
        np.testing.assert_allclose(first, second, rtol=1e-9)
    for first, second in zip(final[:2], final[2:], strict=True):
        np.testing.assert_array_equal(first, second)
    assert not (final[0] == final[1]).all()
    assert not np.isclose(noise[0], noise[1]).any()
    cases = noise[0].shape[1]
    assert cases > 1
    assert not np.isclose(noise[0][:, 0], noise[0][:, 1]).any()


def noiseless(tables):
    return tables | {"noise": tables["noise"].with_columns(noise_scale_wh=pl.lit(0.0))}


@pytest.mark.parametrize("rule", ["constant", "adaptive"])
def test_the_account_is_the_formula_of_the_tables(rule):
    tables, _ = stage_tables(TINY, "random", rule)
    leakage, outcome = tables["leakage"], tables["outcome"]
    row = leakage.join(tables["links"], on=["realization", "user", "collection_time"])
    distances = {"amplified": "total_variation", "bound": "total_variation_bound", "unsafe": "spectral_decay"}
    for name, distance in distances.items():
        expected = age.age_epsilon(row["epsilon_classical"].to_numpy(), row[distance].to_numpy())
        np.testing.assert_allclose(row[f"epsilon_{name}"], expected)
    understated = (pl.col("epsilon_amplified") / pl.col("epsilon_unsafe")).max()
    grouped = leakage.group_by(KEYS, maintain_order=True)
    worst = grouped.agg(pl.col("^epsilon(_.*)?$").max(), epsilon_understated=understated)
    for name in ("epsilon", *(f"epsilon_{of}" for of in ("amplified", "bound", "classical", "unsafe"))):
        assert outcome[name].equals(worst[name])
    assert outcome["epsilon_server"].equals(outcome["epsilon_classical"])
    np.testing.assert_allclose(outcome["epsilon_understated"], worst["epsilon_understated"], rtol=1e-12)
    noisy = tables["noise"].join(tables["users"].select("realization", "user", "samples"), on=["realization", "user"])
    power = 2 * (pl.col("samples") / pl.col("samples").sum() * pl.col("noise_scale_wh")) ** 2
    power = noisy.group_by(KEYS, maintain_order=True).agg(power=power.sum())["power"]
    np.testing.assert_allclose(outcome["noise_power_wh2"], power, rtol=1e-12)
    assert set(outcome.select("channel_uses", "rounds", "delta", "local_steps").iter_rows()) == {(3.0, 1, 0.0, 0.0)}
    assert outcome["observer"].str.contains("asks about a record at T").all()


@pytest.mark.parametrize("rule", ["constant", "adaptive"])
def test_the_exact_epsilon_is_the_largest_log_ratio_of_an_upload(rule):
    """By powers of the chain, of the noise in the tables; the largest losses are at one of the states."""
    tables, _ = stage_tables(TINY, "random", rule)
    keys = ["realization", "user"]
    leakage = tables["leakage"].join(tables["noise"], on=[*KEYS, "user"]).join(tables["users"], on=keys)
    for row in leakage.iter_rows(named=True):
        transition, start, states = (np.array(row[name]) for name in ("transition", "start", "states_wh"))
        law = start @ np.linalg.matrix_power(transition, row["collection_time"])
        joint = law[:, None] * np.linalg.matrix_power(transition, row["age"])
        uploads = (states[:, None] - states) / row["samples"] / row["noise_scale_wh"]
        seen = np.exp(-np.abs(uploads)) @ (joint / joint.sum(axis=0))  # (upload, state at T)
        assert row["epsilon"] == pytest.approx(np.log(seen.max(axis=1) / seen.min(axis=1)).max(), abs=1e-11)
    assert (leakage["epsilon"] < 0.9 * leakage["epsilon_amplified"]).any()


@pytest.mark.parametrize(("more", "met"), [(1e-12, True), (1e-7, False), (1.0, False)])
def test_a_target_is_missed_by_more_than_what_is_rounded(more, met):
    tables, model = stage_tables(TINY, "random", "adaptive")
    weak = tables["noise"].with_columns(classical_epsilon=(1 + more * pl.col("case")) * pl.col("classical_epsilon"))
    outcome = account(model, tables | {"noise": weak})["outcome"]
    assert (
        outcome["epsilon_amplified"] >= tables["outcome"]["epsilon_amplified"] * (1 + more / 2 * outcome["case"])
    ).all()
    assert outcome["target_met"].to_list() == (met | (outcome["case"] == 0)).to_list()


def test_the_profiles_of_a_chain_are_what_they_say():
    horizon, count, samples = 6, 3, 7
    transition = np.random.default_rng(3).dirichlet(np.ones(count), count)
    states, start = np.array([2.0, 5.0, 11.0]), np.array([0.0, 0.9, 0.1])
    columns = {"states_wh": states, "start": start, "transition": transition}
    users = pl.DataFrame(
        {"chain": "a", "samples": samples} | {name: [value.tolist()] for name, value in columns.items()}
    )
    profiles = age.profiles(users, horizon)
    assert profiles["collection_time"].to_list() == list(range(horizon + 1))
    moduli = np.sort(abs(np.linalg.eigvals(transition)))
    for row in profiles.iter_rows(named=True):
        steps, law = row["age"], start @ np.linalg.matrix_power(transition, row["collection_time"])
        assert steps == horizon - row["collection_time"]
        joint = law[:, None] * np.linalg.matrix_power(transition, steps)  # of the state at t and the one at T
        given_last = joint / joint.sum(axis=0)
        mean = np.average(states, weights=law)
        expected = {
            "total_variation": max(abs(a - b).sum() / 2 for a in given_last.T for b in given_last.T),
            "spectral_decay": moduli[1] ** steps,
            "divergence_nats": entropy(law, joint.sum(axis=0)),
            "information_nats": np.log(1 + ((law > 0).sum() - 1) / samples),
            "mean_wh": mean,
            "variance_wh2": np.average((states - mean) ** 2, weights=law),
        }
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_realizations_table_and_the_summary(tiny):
    each, summary = tiny["realizations"], tiny["summary"]
    schemes = [own.name for own in tiny["scenario"].schemes if own.scheduler != "sweep"]
    assert each.select("scheme", "realization", "case").n_unique() == len(each) == len(schemes) * 4 * 2
    assert each["loss_difference_wh2"].null_count() == len(schemes) * 2
    assert summary["scheme"].unique(maintain_order=True).to_list() == schemes
    assert summary["target_missed"].sum() == 0
    assert set(summary["trained"]) == {3}
    power = each.filter(scheme=schemes[0], case=1)["noise_power_wh2"].mean()
    assert summary.row(1, named=True)["noise_power_wh2_mean"] == pytest.approx(power)
    assert len(tiny["sweep"]) == 3 * 9


def verdicts(content, *ids):
    """What is said of claims, whether or not the scenario is in the paper's setting."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "in_setting", lambda *_: True)
        return set(claims({"one": content}).filter(pl.col("claim").is_in(ids))["verdict"])


def test_claims_hold_and_are_said_not_to_where_they_do_not(tiny):
    table = claims({"tiny": tiny})
    assert set(table["claim"]) == {claim.id for claim in PAPER_CLAIMS + OWN_CLAIMS if claim.compare is not None} - {
        "X-3"
    }  # needs more realizations
    assert verdicts(tiny, "T1-1", "X-2") == {"supported"}
    assert (table["measured_ci_low"] <= table["measured"] + 1e-12).all()
    assert (table["measured"] <= table["measured_ci_high"] + 1e-12).all()
    names = {"random, constant noise": "proposed, adaptive noise", "proposed, adaptive noise": "random, constant noise"}
    swapped = [replaced(own, "name", names.get(own.name, own.name)) for own in tiny["scenario"].schemes]
    assert "supported" not in verdicts(tiny | {"scenario": replaced(tiny["scenario"], "schemes", swapped)}, "F3-1")
    each = tiny["realizations"].with_columns(pl.col("^.*_bound_wh2$") * 0, pl.col("epsilon_understated") * 0.1)
    assert verdicts(tiny | {"realizations": each}, "X-1", "T1-1", "X-2") == {"refuted"}
    alike = tiny["realizations"].with_columns(noise_power_wh2=1.0)  # constant noise is not larger
    assert verdicts(tiny | {"realizations": alike}, "F3-3", "F3-4") == {"refuted"}
    pair = [own for own in tiny["scenario"].schemes if own.scheduler in ("bound_constant", "bound_adaptive")]
    third = claims({"one": tiny | {"scenario": replaced(tiny["scenario"], "schemes", pair)}})
    third = third.filter(pl.col("claim").is_in(["F3-3", "F3-4"]))
    assert len(third) == 1  # of the pair; nothing is compared across schedules
    assert not third["interpretation"].fill_null("").str.contains("across").any()
    best = pl.when(pl.col("swept_time") == 0).then(-1.0).otherwise(1.0)  # the stalest data
    sweep = tiny["sweep"].with_columns(best.alias("expected_loss_difference_wh2_mean"))
    assert verdicts(tiny | {"sweep": sweep}, "F2-1", "F2-2") == {"refuted"}


def test_claims_that_rest_on_a_bound_say_on_which():
    """A bound that is far looser schedules worse than twice the optimum."""
    config = {"system": "age_aware", "realizations": 3, "training_realizations": 1}
    table = claims({"one": reported(config | {"schedule": {"bound": "separate"}})[2]})
    second = table.filter(pl.col("quantity").str.contains("adaptive"), claim="F3-2")
    assert second.select("origin", "interpretation", "verdict").row(0) == ("paper", None, "refuted")
    ours = claims({"one": reported(config)[2]}).filter(claim="F3-2")
    assert ours["verdict"].is_null().all()


def over_classic(table):
    """Rows of the claim about classic DP, by target; of the closed form, and simulated."""
    rows = table.filter(claim="A-1")
    target = pl.col("quantity").str.extract(r"target ε ([\d.]+)").cast(pl.Float64)
    closed = pl.col("quantity").str.contains("closed form", literal=True)
    parts = (rows.with_columns(target=target).filter(which) for which in (closed, ~closed))
    return [{row["target"]: row for row in part.iter_rows(named=True)} for part in parts]


def test_the_headline_is_judged_at_every_target():
    """Against classic DP: by this project's bound all of it, by the paper's bound only at the strictest target.

    Scheme by scheme from the chains: classic DP has no bias, and noise of variance 2 (1.8 / epsilon)^2 / 3 in the mean.
    """
    config = {"system": "age_aware", "realizations": 6, "training_realizations": 5}
    for bound, gains, judged in (("paired", [True] * 7, False), ("separate", [True] + [False] * 6, True)):
        found = reported(config | {"schedule": {"bound": bound}})[2]
        table, each = claims({"one": found}), found["realizations"]
        closed, simulated = over_classic(table)
        assert list(closed) == list(simulated) == [0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5]
        assert {row["verdict"] is not None for row in (*closed.values(), *simulated.values())} == {judged}
        classic = each.filter(scheme="classic DP, fresh data")
        assert classic["epsilon_classical"].to_list() == pytest.approx(classic["target_epsilon"].to_list(), rel=1e-12)
        power = 2 * (1.8 / classic["target_epsilon"].to_numpy()) ** 2 / 3
        np.testing.assert_allclose(classic["expected_loss_difference_wh2"], power, rtol=1e-12)
        for (target, row), gain in zip(sorted(closed.items()), gains, strict=True):
            proposed = each.filter(scheme="proposed, adaptive noise", target_epsilon=target)
            one = proposed["expected_loss_difference_wh2"][0] - 2 * (1.8 / target) ** 2 / 3
            assert row["measured"] == pytest.approx(one, abs=1e-9)
            assert (row["measured"] < -1e-3) == gain
            assert row["verdict"] == (None if not judged else "supported" if gain else "refuted")
            pair = proposed.join(classic.filter(target_epsilon=target), on="realization")
            differences = (pair["loss_difference_wh2"] - pair["loss_difference_wh2_right"]).drop_nulls()
            half = student.isf(0.025, 4) * differences.std() / np.sqrt(5)
            expected = differences.mean() + np.array([0, -half, half])
            assert [
                simulated[target][name] for name in ("measured", "measured_ci_low", "measured_ci_high")
            ] == pytest.approx(expected)
            assert simulated[target]["realizations"] == 5


def test_by_the_spectral_gap_the_papers_bound_gains_nothing_over_classic_dp():
    """Numbers computed by hand from the chains, with the provable bound on Delta in (4)."""

    def outcome(scheduler, rule, bound="separate"):
        base = {"system": "age_aware", "realizations": 1, "training_realizations": 1, "schedule": {"bound": bound}}
        base |= {"privacy": {"total_variation": "spectral_gap"}, "schemes": [scheme(scheduler, rule)]}
        return stage_tables(base, scheduler, rule)[0]

    classic = outcome("fresh", "constant")["outcome"]["expected_loss_difference_wh2"].to_numpy()
    separate, paired = (outcome("bound_adaptive", "adaptive", bound) for bound in ("separate", "paired"))
    np.testing.assert_allclose(separate["outcome"]["expected_loss_difference_wh2"], classic, rtol=1e-12)
    gained = paired["outcome"]["expected_loss_difference_wh2"].to_numpy()
    np.testing.assert_allclose(gained, [95.6, 29.2, 15.1, 6.6, 3.8, 2.04, 0.96], rtol=0.02)
    assert (gained <= classic * (1 + 1e-12)).all()
    # More noise than the exact Delta asks for at the same times.
    links = stage_of.channel(part(scenario.resolve({"system": "age_aware"}, {}), "channel"), range(1))["links"]
    asked = paired["schedule"].join(links, on=["realization", "user", "collection_time"])
    exact = np.log1p(np.expm1(asked["target_epsilon"]) / asked["total_variation"])
    assert (asked["required_epsilon"] <= exact * (1 + 1e-12)).all()
    assert (asked["required_epsilon"] < exact * 0.999).any()


def test_the_page_says_what_classic_dp_comes_to():
    """The table of docs/explanation/age_aware.md, and its sentence about T = 100, from the stages."""
    page = (ROOT / "docs/explanation/age_aware.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d, ]+) \| ([\d.]+) \|$", page, re.M)
    stated = pl.DataFrame([[float(x) for x in (*line[:4], line[5])] for line in lines], orient="row").to_numpy().T

    def outcome(scheduler, rule, **schedule):
        base = {"system": "age_aware", "realizations": 1, "training_realizations": 1, "schedule": schedule}
        return stage_tables(base | {"schemes": [scheme(scheduler, rule)]}, scheduler, rule)[0]

    classic, expected = outcome("fresh", "constant")["outcome"], "expected_loss_difference_wh2"
    paired, separate = (outcome("bound_adaptive", "adaptive", bound=bound) for bound in ("paired", "separate"))
    measured = [
        classic["target_epsilon"],
        *(each[expected] for each in (classic, paired["outcome"], separate["outcome"])),
    ]
    np.testing.assert_allclose(stated, [*measured, separate["outcome"]["separate_bound_wh2"]], atol=0.0051)
    times = separate["schedule"].group_by("case", maintain_order=True).agg("collection_time")["collection_time"]
    assert [line[4] for line in lines] == [", ".join(map(str, own)) for own in times.to_list()]
    gains = [1 - each["outcome"][expected].to_numpy() / classic[expected].to_numpy() for each in (paired, separate)]
    assert [round(100 * gains[0][k]) for k in (0, -1)] == [58, 7]
    assert [round(100 * gain) for gain in gains[1]] == [14, 0, 0, 0, 0, 0, 0]
    later = outcome("bound_adaptive", "adaptive", bound="separate", horizon=100)["outcome"]
    assert (abs(1 - later[expected] / classic[expected] - 2 / 3) < 0.03).all()


def test_the_claims_about_classic_dp_fail_where_it_is_better(tiny):
    names = {"classic DP, fresh data": "proposed, adaptive noise", "proposed, adaptive noise": "classic DP, fresh data"}
    swapped = [replaced(own, "name", names.get(own.name, own.name)) for own in tiny["scenario"].schemes]
    turned = claims({"one": tiny | {"scenario": replaced(tiny["scenario"], "schemes", swapped)}})
    assert all(row["measured"] >= 0 for row in over_classic(turned)[0].values())
    better = tiny["realizations"].with_columns(
        expected_loss_difference_wh2=pl.col("expected_loss_difference_wh2")
        - (pl.col("scheme") == "proposed, noise fixed first")
    )
    assert verdicts(tiny | {"realizations": better}, "X-5") == {"supported"}


@pytest.mark.parametrize("bound", ["paired", "separate"])
def test_with_the_noise_fixed_first_the_bound_alone_chooses(bound):
    """Every schedule without noise, as `fixed`, against the one that the search finds, of chains for which age pays."""
    # Few values are possible at first, so that a mean of few samples tells less of each.
    early = {"up": 0.5, "down": 0.1, "start": [1.0, 0, 0, 0], "samples": 2}
    chains = [CHAIN | early | {"up": 0.02}, CHAIN | {"name": "b"}]
    small = {"realizations": 1, "schedule": {"horizon": 4, "bound": bound}, "clients": {"number": 2, "chains": chains}}
    base = merge(TINY, small | {"training_realizations": 1})
    every = {}
    for times in np.ndindex(5, 5):
        fixed = {"schedule": {"times": list(times)}, "schemes": [scheme("fixed", "none")]}
        every[times] = stage_tables(merge(base, fixed), "fixed", "none")[0]["outcome"][f"{bound}_bound_wh2"][0]
    best, _ = stage_tables(base, "noise_first", "constant")
    least = min(every, key=every.get)
    assert least != (4, 4)
    for case in (0, 1):
        assert best["schedule"].filter(case=case)["collection_time"].to_list() == list(least)
    np.testing.assert_allclose(best["schedule_status"]["objective_wh2"], every[least], rtol=1e-9)
    assert best["outcome"]["target_met"].all()


@pytest.mark.parametrize("name", ["age_aware", "age_aware_small"])
def test_with_the_noise_fixed_first_the_studies_clients_collect_fresh_data(name):
    """Scheme 3 to the letter is classic DP in every scenario of the studies, by both bounds (docs/explanation/age_aware.md)."""
    config = yaml.safe_load((ROOT / "config" / f"{name}.yaml").read_text())
    for own in config["scenarios"].values():
        own.pop("title")
        for bound in ("paired", "separate"):
            schemes = [scheme("noise_first", "constant")]
            model = scenario.resolve(merge(config["base"], own), {"schedule": {"bound": bound}, "schemes": schemes})
            tables = stage_of.channel(part(model, "channel"), range(1))
            found = stage_of.schedule(part(model, "schedule", "noise_first"), "noise_first", tables)["schedule"]
            assert (found["collection_time"] == model.schedule.horizon).all()


@pytest.mark.parametrize(("bound", "whose"), [("paired", "this project's bound"), ("separate", "the paper's bound")])
@pytest.mark.parametrize("targets", [[0.2, 1.0], [0.2]])
def test_figures_say_whose_bound_proposed_schedules_minimize(bound, whose, targets):
    config = merge(TINY, {"schedule": {"bound": bound}, "privacy": {"target_epsilons": targets}})
    model, tables, _, _ = everything_made(config)
    for figure in ("loss", "noise", "times"):
        text = json.dumps(report.FIGURES[figure](model, tables).to_dict())
        assert f"proposed: minimizes {whose}" in text
        alone = replaced(model, "schemes", [own for own in model.schemes if own.scheduler == "random"])
        random = {name: frame.filter(scheme="random, constant noise") if "scheme" in frame.columns else frame
                  for name, frame in tables.items()}  # fmt: skip
        assert "minimizes" not in json.dumps(report.FIGURES[figure](alone, random).to_dict())


def test_the_defaults_show_both_cases_of_figure_two_and_the_order_of_figure_three(monkeypatch):
    config = {"system": "age_aware", "realizations": 40, "training_realizations": 40}
    table = claims({"three": reported(config)[2]})
    assert set(table["claim"]) == {claim.id for claim in PAPER_CLAIMS + OWN_CLAIMS if claim.compare is not None}
    # Schedules by this project's bound are not the paper's.
    assert table.filter(pl.col("claim").is_in(["A-1", "F3-1", "F3-2", "F3-4"]))["verdict"].is_null().all()
    monkeypatch.setattr(engine, "in_setting", lambda *_: True)
    table = claims({"three": reported(config)[2]})
    # Across schedules it depends on how old a random one's data are (docs/explanation/age_aware.md).
    literal = pl.col("interpretation").fill_null("").str.contains("across schedules")
    # With the noise fixed first, nothing is gained over fresh data.
    first = pl.col("claim") == "X-5"
    assert table.filter(first).select("measured", "verdict", "origin").row(0) == (0.0, "refuted", "project")
    # At lax targets 40 realizations are too few to see the gain in simulation.
    simulated = pl.col("quantity").str.contains("simulated, paired", literal=True)
    assert set(table.filter(simulated)["verdict"]) == {"supported", "inconclusive"}
    # By the paper's own bound the best time is missed by more than the claim allows.
    separate = pl.col("claim") == "S4B-1"
    assert table.filter(separate)["verdict"].to_list() == ["refuted"]
    others = table.filter(~literal & ~separate & ~first & ~simulated)
    assert set(others["verdict"]) == {"supported"}, others.filter(pl.col("verdict") != "supported")
    assert 0.5 < table.filter(literal)["measured"].item() < 1
