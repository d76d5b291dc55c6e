"""Accounting: epsilons against mpmath and dp-accounting, the outcome table against loops."""

import math
import statistics

import dp_accounting
import mpmath
import numpy as np
import polars as pl
import pytest
from dp_accounting import pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

import stage_of
from pipeline import on_one_cell, part, stages
from pwfl import tables
from pwfl.privacy import gaussian
from pwfl.scenario import resolve
from pwfl.systems.multicell import objective

DELTA = 1e-5
EPSILONS = [gaussian.exact_epsilon, gaussian.tight_epsilon, gaussian.classic_epsilon]
LINK = ("realization", "interval", "user", "station")
PROPERTY = settings(derandomize=True, deadline=None, max_examples=60)
RHO = st.floats(math.log(1e-6), math.log(1e4)).map(math.exp)
SMALL_DELTA = st.floats(math.log(1e-12), math.log(0.3)).map(math.exp)


def gaussian_delta(epsilon, rho):
    """delta(epsilon) of a Gaussian mechanism, in mpmath (Balle and Wang, 2018, Theorem 8)."""
    mu = mpmath.sqrt(2 * mpmath.mpf(rho))
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def exact_reference(rho, delta):
    """The least epsilon by bisection at 60 digits."""
    with mpmath.workdps(60):
        low, high = mpmath.mpf(0), mpmath.mpf(rho) + 2 * mpmath.sqrt(-mpmath.mpf(rho) * mpmath.log(delta))
        if gaussian_delta(low, rho) <= delta:
            return low
        for _ in range(150):
            middle = (low + high) / 2
            low, high = (middle, high) if gaussian_delta(middle, rho) > delta else (low, middle)
        return high


def tight_reference(rho, delta):
    """The least epsilon of the Renyi conversion over orders alpha = 1 + e^t."""

    def conversion(t):
        log_alpha = np.logaddexp(0, t)
        return rho * (1 + math.exp(t)) + t - log_alpha - (math.log(delta) + log_alpha) * math.exp(-t)

    found = optimize.minimize_scalar(conversion, bounds=(-25, 25), method="bounded", options={"xatol": 1e-12})
    return max(found.fun, 0.0)


@pytest.mark.parametrize("delta", [1e-15, 1e-5, 0.1, 0.9])
@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.5, 4.0, 300.0, 1e4])
def test_epsilons_are_those_of_high_precision(rho, delta):
    assert float(gaussian.exact_epsilon(rho, delta)) == pytest.approx(float(exact_reference(rho, delta)), rel=2e-9)
    assert float(gaussian.tight_epsilon(rho, delta)) == pytest.approx(tight_reference(rho, delta), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("noise", "rounds"), [(100.0, 200), (282.8427, 200), (600.0, 50)])
def test_exact_epsilon_agrees_with_composed_loss_distributions(noise, rounds):
    # The accountant doubles the sensitivity under REPLACE_ONE, so that stands in the multiplier.
    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = pld.PLDAccountant(relation, value_discretization_interval=1e-3)
    accountant.compose(dp_accounting.GaussianDpEvent(noise / (2 * 10)), rounds)
    epsilon = float(gaussian.exact_epsilon(gaussian.zcdp(20.0, noise, rounds), DELTA))
    assert epsilon == pytest.approx(accountant.get_epsilon(DELTA), rel=2e-3)


@PROPERTY
@given(RHO, SMALL_DELTA)
def test_exact_is_at_most_tight_is_at_most_classic(rho, delta):
    exact, tight, classic = (float(f(rho, delta)) for f in EPSILONS)
    assert 0 <= exact <= tight * (1 + 1e-9) <= classic * (1 + 2e-9)


@PROPERTY
@given(RHO, st.floats(1.0, 3.0), SMALL_DELTA, st.floats(1.0, 3.0))
def test_epsilons_grow_with_rho_and_fall_with_delta(rho, more, delta, larger):
    for epsilon in EPSILONS:
        here = float(epsilon(rho, delta))
        assert here <= float(epsilon(rho * more, delta)) * (1 + 1e-9)
        assert here * (1 + 1e-9) >= float(epsilon(rho, delta * larger))


@pytest.mark.parametrize("rho", [1e20, 1e30, 1e100, 1e300, np.inf])
def test_huge_rho_gives_at_least_rho(rho):
    # At epsilon = rho the Gaussian mechanism's delta is nearly 1/2.
    assert all(float(epsilon(rho, DELTA)) >= rho for epsilon in EPSILONS)


@pytest.mark.parametrize("rho", [1e-300, 1e-20, 1e-9, 1e8, 1e12, 1e16])
def test_extreme_tight_epsilon_stands_between_exact_and_classic(rho):
    exact, tight, classic = (float(f(rho, DELTA)) for f in EPSILONS)
    assert exact * (1 - 1e-10) <= tight <= classic * (1 + 1e-10)


def test_nothing_leaked_costs_nothing_and_no_noise_or_an_undefined_rho_is_no_guarantee():
    assert [float(epsilon(0.0, DELTA)) for epsilon in EPSILONS] == [0, 0, 0]
    assert not any(float(epsilon(np.nan, DELTA)) < np.inf for epsilon in EPSILONS)
    assert float(gaussian.zcdp(1.0, np.array(0.0), 1)) == np.inf


def test_arrays_give_what_single_values_give():
    rho = np.array([1e-12, 0.5, 4.0, 1e8, np.inf])
    for epsilon in EPSILONS:
        np.testing.assert_array_equal(epsilon(rho, DELTA), [epsilon(np.array([r]), DELTA)[0] for r in rho])


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_zcdp_is_the_renyi_divergence_over_its_order(order):
    def integrand(x):
        return math.exp(order * stats.norm.logpdf(x, 0.4, 1.3) + (1 - order) * stats.norm.logpdf(x, 0.0, 1.3))

    integral, _ = integrate.quad(integrand, -30, 30)
    divergence = math.log(integral) / (order - 1)
    assert float(gaussian.zcdp(0.4, 1.3, 7)) == pytest.approx(7 * divergence / order, rel=1e-7)


SMALL = {
    "network": {"users": 5},
    "data": {"dataset": "digits"},
    "training": {"rounds": 30, "clip_norm": 3.0, "hidden_layers": [7]},
    "schedule": {"gamma": 2e5},
}
# realization: (K_i, scheduled, sigma_i) of each user
PLAN = {
    4: [(60, True, 2.0), (90, False, 0.0), (75, True, 1.5), (200, True, 0.4), (51, False, 0.0)],
    5: [(52, False, 0.0), (99, False, 0.0), (70, False, 0.0), (80, False, 0.0), (55, False, 0.0)],
    6: [(60, True, None), (90, False, 0.0), (75, True, None), (120, False, 0.0), (51, False, 0.0)],
    7: [(66, True, 1.0), (90, True, 1.1), (75, True, 1.2), (120, True, 1.3), (51, True, 1.4)],
}


def accounted(plan, override):
    rows = [(r, i, *user) for r, users in plan.items() for i, user in enumerate(users)]
    schema = {"realization": int, "user": int, "samples": int, "scheduled": bool, "noise_std": float}
    users = pl.DataFrame(rows, schema, orient="row")
    keys = ("realization", "user")
    sent = users.select(*keys, pl.when("scheduled").then(0).alias("resource_block"), power_w=0.01, rate_bps=1e5)
    frames = {"users": users.select(*keys, "samples"), "schedule": sent, "noise": users.select(*keys, "noise_std")}
    model, frames = resolve(SMALL, override), on_one_cell(frames)
    frames |= stage_of.receive(part(model, "receive"), frames)
    return stage_of.account(part(model, "account"), frames)


def outcome_of(realization, override=None):
    return accounted(PLAN, override or {})["outcome"].row(by_predicate=pl.col("realization") == realization, named=True)


@pytest.mark.parametrize("realization", [4, 7])
def test_outcome_follows_the_papers_formulas(realization):
    row, users = outcome_of(realization), PLAN[realization]
    training, gamma, smoothness = SMALL["training"], SMALL["schedule"]["gamma"], 20.0
    objective = error = scheduled_samples = left_out = noise = 0.0
    rhos = []
    for samples, scheduled, std in users:
        if scheduled:
            objective += gamma / (samples * std) ** 2
            error += samples * std**2
            scheduled_samples += samples
            rhos.append(2 * training["rounds"] * (training["clip_norm"] / (samples * std)) ** 2)
        else:
            objective += samples
            left_out += samples
    total = sum(samples for samples, _, _ in users)
    for samples, scheduled, std in users:
        noise += (samples * scheduled * std / scheduled_samples) ** 2
    d = 64 * 7 + 7 + 7 * 10 + 10
    expected = {
        "scheduled": len(rhos),
        "scheduled_samples": scheduled_samples,
        "samples": total,
        "objective": objective,
        "noise_error": error / scheduled_samples,
        "rho_total": sum(rhos),
        "rho_worst_user": max(rhos),
        "rho_median": statistics.median(rhos),
        "c1": 1 - 1 / smoothness + 4 / total**2 * left_out**2,
        "c2": 2 * training["clip_norm"] ** 2 / (smoothness * total**2) * left_out**2,
        "c3": d / (2 * smoothness) * noise,
        "delta": DELTA,
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    classic = max(rhos) + 2 * math.sqrt(max(rhos) * math.log(1 / DELTA))
    epsilons = exact_reference(max(rhos), DELTA), tight_reference(max(rhos), DELTA), classic
    stated = [row[name] for name in ("epsilon", "epsilon_tight", "epsilon_classic")]
    assert stated == pytest.approx([float(epsilon) for epsilon in epsilons], rel=1e-9)
    assert (row["unit"], row["neighbouring_relation"]) == ("one training record of one user", "replace-one")
    assert (row["guarantee"], row["epsilon_kind"], row["epsilon_assumes"]) == ("proved", "exact", "")


def test_leakage_has_a_row_for_each_scheduled_user_with_noise():
    leakage = accounted(PLAN, {})["leakage"]
    expected = [(r, i) for r in (4, 7) for i, (_, scheduled, _) in enumerate(PLAN[r]) if scheduled]
    assert leakage.select("realization", "user").rows() == expected
    for realization, user, rho, mu in leakage.select("realization", "user", "rho", "mu").rows():
        samples, _, std = PLAN[realization][user]
        assert rho == pytest.approx(2 * 30 * (3 / (samples * std)) ** 2)
        assert mu == pytest.approx(2 * 3 * math.sqrt(30) / (samples * std))
    assert leakage["rho_worst_case"].null_count() == len(leakage)


def test_users_of_one_realization_do_not_touch_another():
    alone = accounted({4: PLAN[4]}, {})["outcome"].row(0)
    among_others = accounted(PLAN, {})["outcome"].row(by_predicate=pl.col("realization") == 4)
    assert among_others == alone


LEAKED = ["rho_total", "rho_worst_user", "rho_median", "epsilon", "epsilon_tight", "epsilon_classic", "noise_error"]


def test_nobody_scheduled_leaks_nothing_to_report():
    row = outcome_of(5)
    assert row["channel_uses"] == row["transmit_energy_j"] == 0
    assert [row[name] for name in [*LEAKED, "c3"]] == [None] * 8
    assert (row["scheduled"], row["scheduled_samples"], row["objective"]) == (0, 0, 356)
    assert row["c1"] == pytest.approx(1 - 1 / 20 + 4)
    assert row["c2"] == pytest.approx(2 * 3.0**2 / 20)


def test_nobody_scheduled_has_the_same_objective_whoever_observes():
    outcomes = [accounted(PLAN, {"privacy": {"observer": observer}})["outcome"] for observer in ("user", "network")]
    rows = [outcome.row(by_predicate=pl.col("realization") == 5, named=True) for outcome in outcomes]
    assert [row["objective"] for row in rows] == [356, 356]


CHOSEN = ["gain_db_median", "noise_variance_median", "lost_share"]


@pytest.mark.parametrize("coherence", [None, 5])
def test_whom_a_schedule_chooses_agrees_with_loops_over_its_users(coherence):
    radio = {"resource_blocks": 2, "coherence_rounds": coherence}
    model = resolve({"realizations": 30, "network": {"users": 20}, "radio": radio, "training": {"rounds": 30}}, {})
    lost_some = 0
    for _, found in stages(model):
        outcome, users = found["outcome"], found["users"]
        station = dict(zip(users.select("realization", "user").rows(), users["cell"], strict=True))
        gain = {tuple(keys): g for *keys, g in found["links"].select(*LINK, "gain").rows()}
        noise = {tuple(keys): n for *keys, n in found["noise"].select(*LINK[:3], "noise_std").rows()}
        seen = {r: ([], [], [0, 0]) for r in range(30)}
        blocks = found["schedule"].select(*LINK[:3], "assigned_block", "resource_block")
        for r, interval, i, assigned, kept in blocks.rows():
            gains, variances, lost = seen[r]
            lost[0] += assigned is not None and kept is None
            lost[1] += assigned is not None
            if kept is not None:
                gains.append(10 * math.log10(gain[r, interval, i, station[r, i]]))
                variances.append(noise[r, interval, i] ** 2)
        for r, (gains, variances, (lost, assigned)) in seen.items():
            row = outcome.row(by_predicate=pl.col("realization") == r, named=True)
            medians = [statistics.median(each) if each else None for each in (gains, variances)]
            expected = [*medians, lost / assigned]
            assert [row[name] for name in CHOSEN] == pytest.approx(expected, rel=1e-12)
            lost_some += 0 < lost < assigned
    assert lost_some > 10


def test_nobody_scheduled_has_no_median_and_nobody_with_a_block_loses_none():
    assert [outcome_of(5)[name] for name in CHOSEN] == [None] * 3
    assert [outcome_of(6)[name] for name in CHOSEN] == [0.0, None, 0.0]  # no noise is feasible; all gains are 1


def test_infeasible_noise_gives_nulls():
    row = outcome_of(6)
    assert [row[name] for name in [*LEAKED, "c3", "objective"]] == [None] * 9
    assert (row["scheduled"], row["scheduled_samples"]) == (2, 135)


def test_clipping_a_users_mean_carries_the_true_worst_case():
    # Claimed rho 4 with K = 100, T = 200, L = 10: one record may turn the whole mean around.
    override = {"training": {"clipping": "per_user", "rounds": 200, "clip_norm": 10.0}}
    frames = accounted({0: [(100, True, 1.0), (50, False, 0.0)]}, override)
    row = frames["leakage"].row(0, named=True)
    assert row["rho"] == pytest.approx(4)
    assert row["rho_worst_case"] == pytest.approx(4 * 100**2)
    assert f"{float(gaussian.exact_epsilon(row['rho_worst_case'], DELTA)):,.0f}" == "41,205"
    outcome = frames["outcome"].row(0, named=True)
    assert (outcome["guarantee"], outcome["epsilon_assumes"]) == ("conditional", "clipped mean as in (11)")
    for name, frame in frames.items():
        assert tables.finished(frame, name, "multicell").rows(named=True) == frame.rows(named=True)


def test_the_objective_of_users_is_what_their_values_take_off_and_the_noise_constraint_what_their_loads_add():
    generator, gamma, limit = np.random.default_rng(6), 300.0, 0.2
    samples, noise = generator.uniform(5, 50, 30), generator.uniform(0.1, 0.6, 30)
    scheduled = generator.uniform(size=30) < 0.5
    frame = pl.DataFrame({"samples": samples, "scheduled": scheduled, "noise_std": noise})
    total, error = frame.select(
        total=objective.total(pl.col("noise_std"), gamma), error=objective.noise_error(pl.col("noise_std"))
    ).row(0)
    terms = [gamma / (k * s) ** 2 if a else k for k, a, s in frame.iter_rows()]  # (20), term by term
    assert total == pytest.approx(sum(terms), rel=1e-12)
    assert total == pytest.approx(samples.sum() - objective.value(samples, noise, gamma)[scheduled].sum(), rel=1e-12)
    left = sum(k * s**2 for k, a, s in frame.iter_rows() if a) - limit * sum(k for k, a, _ in frame.iter_rows() if a)
    assert objective.load(samples, noise, limit)[scheduled].sum() == pytest.approx(left, rel=1e-9)
    assert error == pytest.approx(left / samples[scheduled].sum() + limit, rel=1e-12)
    assert objective.least_load(samples, limit, 3.5) == pytest.approx(objective.load(samples, 3.5 / samples, limit))
