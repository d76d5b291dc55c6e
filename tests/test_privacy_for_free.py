"""The example `privacy_for_free`, a system outside of the package: powers, air, learner, accounting, audit and claims."""

from functools import cache
from importlib import import_module

import cvxpy as cp
import numpy as np
import polars as pl
import pytest
import tensorflow as tf
from scipy import optimize, special, stats

import stage_of
from conftest import ROOT
from pipeline import part, run, stages
from pwfl import registry, testing
from pwfl.learning.datasets import Dataset
from pwfl.privacy.gaussian import exact_epsilon
from pwfl.scenario import ScenarioError, resolve
from pwfl.scenario.values import replaced
from pwfl.tables.arrays import to_array
from pwfl.tables.reception import receptions
from pwfl.training import batching, rounds

SYSTEM = "privacy_for_free"
ACCESS, RULES = ("superposed", "orthogonal"), ("adaptive", "static", "full")
FALSE_ALARM = 1e-6
LIMIT = stats.norm.isf(FALSE_ALARM / 2)  # standard errors
EXACT = {"rtol": 1e-9, "atol": 1e-12}
SMALL = {
    "system": SYSTEM,
    "realizations": 3,
    "training_realizations": 3,
    "network": {"devices": 4},
    "radio": {"blocks": 12, "coherence_blocks": 5},
    "task": {"samples": 50, "dimension": 7},
    "training": {"clip_norm": 30.0},
}


@pytest.fixture(autouse=True, scope="module")
def example():
    """The example is one of the systems."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "examples" / SYSTEM)
        claims = registry.claims() | {SYSTEM: (f"{SYSTEM}.system:SYSTEM",)}
        patch.setattr(registry, "claims", lambda: claims)
        yield


def module(name: str):
    """A module of the example."""
    return import_module(f"{SYSTEM}.{name}")


def schemes(*names: str) -> list[dict]:
    return [{"name": name, "scheduler": name, "noise": "receiver"} for name in names]


@cache
def small(name: str, epsilon: float = 20.0):
    """A small scenario of one scheme, and the tables of all stages before training."""
    model = resolve(SMALL | {"schemes": schemes(name), "privacy": {"epsilon": epsilon}}, {})
    ((_, tables),) = stages(model)
    return model, tables


EVERY = [f"{access}_{rule}" for access in ACCESS for rule in RULES]


# Powers.


@pytest.mark.parametrize("delta", [1e-5, 1e-2, 0.3])
def test_the_budget_bounds_the_tail_of_the_privacy_loss(delta):
    power = module("power")
    c = power.constant(delta)
    assert np.sqrt(np.pi) * c * np.exp(c**2) == pytest.approx(1 / delta)
    for epsilon in (0.1, 1.0, 20.0):
        rho = power.budget(epsilon, delta)
        assert power.converted(rho, delta) == pytest.approx(epsilon)
        # The privacy loss of a Gaussian mechanism is normal, of mean rho and variance 2 rho.
        assert stats.norm.sf(epsilon, rho, np.sqrt(2 * rho)) <= delta
        assert special.erfc((epsilon - rho) / (2 * np.sqrt(rho))) <= delta
        assert exact_epsilon(rho, delta) < epsilon


@pytest.mark.parametrize("case", range(12))
def test_adaptive_powers_are_the_solution_of_the_convex_program(case):
    generator = np.random.default_rng(case)
    rounds, moved = generator.integers(1, 9), 10 ** generator.uniform(-1, 1)
    least = 10 ** generator.uniform(-1, 1, rounds)
    contraction, rho = generator.uniform(0.2, 0.9), 10 ** generator.uniform(-1.5, 1.5) * moved**2
    weight = contraction ** -np.arange(1.0, rounds + 1)
    noise = cp.Variable(rounds)
    within = cp.sum(moved**2 / 2 * cp.inv_pos(noise)) <= rho
    program = cp.Problem(cp.Minimize(weight / weight[0] @ noise), [within, noise >= least])
    program.solve(solver=cp.CLARABEL)
    found = module("power").adaptive(least[None], moved, rho, contraction)[0]
    assert (found >= least).all()
    assert (moved**2 / (2 * found)).sum() <= rho * (1 + 1e-9)
    assert weight / weight[0] @ found == pytest.approx(program.value, rel=1e-5)
    static = module("power").static(least, moved, rho)
    assert (moved**2 / (2 * static)).sum() <= rho * (1 + 1e-9)
    assert weight @ found <= weight @ static * (1 + 1e-9)


def test_powers_of_thousands_of_rounds_neither_overflow_nor_exceed_the_budget():
    found = module("power").adaptive(np.full((1, 2000), 5.0), 448.0, 9.0, 0.01)
    assert np.isfinite(found).all()
    assert (448.0**2 / (2 * found)).sum() == pytest.approx(9.0)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("epsilon", [0.5, 20.0, 1e4])
def test_the_budget_is_kept_and_used_unless_full_power_costs_less(name, epsilon):
    _, tables = small(name, epsilon)
    leakage, status = tables["leakage"], tables["schedule_status"]["status"].cast(pl.String)
    if name.endswith("full"):
        assert set(status) == {"full_power"}
        return
    assert leakage["epsilon_paper"].max() <= epsilon * (1 + 1e-9)
    assert (leakage["epsilon"] <= leakage["epsilon_paper"]).all()
    worst = leakage.group_by("realization").agg(pl.col("epsilon_paper").max()).sort("realization")["epsilon_paper"]
    free = status == "full_power"
    if name.endswith("adaptive"):
        np.testing.assert_allclose(worst.filter(~free), epsilon, rtol=1e-6)
    full = small(name.replace("adaptive", "full").replace("static", "full"), epsilon)[1]["leakage"]
    assert free.all() == (full["epsilon_paper"].max() <= epsilon) or name.endswith("static")


# The air, by simulated signals.


def play(name: str, messages: np.ndarray, noise: np.ndarray, realization: int, round_: int) -> tuple:
    """One round on air, written from the paper: signals, and what the server receives in each slot over its amplitude.

    Messages have shape (device, symbol), noise (slot, symbol), normal numbers of each slot's receiver.
    """
    _, tables = small(name)
    here = {"realization": realization, "round": round_}
    devices = len(messages)
    amplitude = tables["schedule"].filter(**here).sort("user")["message_amplitude"].to_numpy()
    gain = to_array(tables["links"], "fading_gain", "realization", "block", "user")[realization]
    phase = np.random.default_rng(round_).uniform(0, 2 * np.pi, gain.shape)
    channel = np.sqrt(gain) * np.exp(1j * phase)
    if name.startswith("superposed"):
        (common,), h = set(amplitude), channel[round_]
        signals = common / h[:, None] * messages
        return signals, (h @ signals + noise[0]).real[None] / common
    h = np.array([channel[round_ * devices + k, k] for k in range(devices)])
    signals = (amplitude / h)[:, None] * messages
    return signals, (h[:, None] * signals + noise).real / amplitude[:, None]


def shapes(name: str) -> tuple[int, int]:
    """How many rounds and slots a small scenario has."""
    return (12, 1) if name.startswith("superposed") else (3, 4)


@pytest.mark.parametrize("name", EVERY)
def test_the_air_delivers_what_the_tables_say(name):
    _, tables = small(name)
    generator, (rounds, slots), total = np.random.default_rng(1), shapes(name), 4 * 50
    draws, silence = 20_000, []
    for realization in range(3):
        reception = receptions(tables)(realization)
        assert reception.sends.shape == (rounds, 4)
        for round_ in range(rounds):
            messages = generator.standard_normal((4, 5))
            _, clean = play(name, messages, np.zeros((slots, 5)), realization, round_)
            np.testing.assert_allclose(reception.weight[round_] @ messages, clean.sum(axis=0) / total, **EXACT)
            _, noisy = play(name, np.zeros((4, draws)), generator.standard_normal((slots, draws)), realization, round_)
            silence.append(noisy.sum(axis=0) / total / reception.noise_std[round_])
            # The best test of whether a device's message moves by 0.7, of the noise's covariance as it is simulated.
            covariance = np.atleast_2d(np.cov(noisy))
            for user in range(4):
                moved = play(name, 0.7 * np.eye(4)[:, [user]], np.zeros((slots, 1)), realization, round_)[1][:, 0]
                mu = np.sqrt(moved @ np.linalg.solve(covariance, moved))
                row = (
                    tables["visibility"].filter(realization=realization, interval=round_, user=user).row(0, named=True)
                )
                assert 0.7 * row["visibility"] == pytest.approx(mu, rel=1.5 * LIMIT / np.sqrt(2 * draws))
                assert row["visibility_users_only"] == np.inf
    numbers = np.concatenate(silence)
    assert FALSE_ALARM / 2 < stats.chi2.cdf(np.square(numbers).sum(), numbers.size) < 1 - FALSE_ALARM / 2


@pytest.mark.parametrize("name", EVERY)
def test_the_largest_messages_need_no_more_than_the_power_limit(name):
    model, tables = small(name)
    (rounds, slots), d = shapes(name), model.task.dimension
    largest = np.zeros((4, d))
    largest[:, 0] = model.task.samples * model.training.mean_norm
    used = np.array(
        [
            (np.abs(play(name, largest, np.zeros((slots, d)), realization, round_)[0]) ** 2).sum(axis=1)
            for realization in range(3)
            for round_ in range(rounds)
        ]
    ) / (d * 10 ** (model.radio.snr_db / 10))
    assert used.max() <= 1 + 1e-9
    np.testing.assert_allclose(
        to_array(tables["schedule"], "power_share", "realization", "round", "user").ravel(), used.ravel()
    )
    if name.endswith("full"):
        np.testing.assert_allclose(used.max(axis=1), 1.0)


def test_channels_are_rician():
    model = resolve({"system": SYSTEM, "realizations": 2000, "radio": {"blocks": 10, "coherence_blocks": 10}}, {})
    gain = stage_of.channel(part(model, "channel"), range(2000))["links"].filter(block=0)["fading_gain"].to_numpy()
    factor = 10.0  # 2 (K + 1) |h|^2 is chi-square of 2 degrees, off centre by 2 K
    assert stats.kstest(2 * (factor + 1) * gain, stats.ncx2(2, 2 * factor).cdf).pvalue > FALSE_ALARM


# The learner.


def learner(**changes):
    constants = {"clip_norm": 6.0, "mean_norm": 1.5, "weight_decay": 0.3, "dimension": 5}
    return module("learner").RidgeGradients(**constants | changes)


def message(records: np.ndarray, weights: np.ndarray, own) -> np.ndarray:
    """A device's message, one record's gradient after the other."""
    total = np.zeros(len(weights))
    for *u, v in records.astype(float):
        w = tf.Variable(weights.astype(float))
        with tf.GradientTape() as tape:
            loss = (tf.tensordot(w, u, 1) - v) ** 2 / 2 + own.weight_decay * tf.reduce_sum(w**2)
        gradient = tape.gradient(loss, w).numpy()
        total += gradient * min(1, own.clip_norm / np.linalg.norm(gradient))
    return total * min(1, own.mean_norm * len(records) / np.linalg.norm(total))


def summed(own, weights: np.ndarray, records: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the learner sums up, of records of shape (device, record, d + 1)."""
    devices, count, _ = records.shape
    data = own.tensors(Dataset(records.reshape(devices * count, -1).astype(np.float32), *[np.zeros(1)] * 3))
    rows = module("learner").Fixed(np.arange(devices * count, dtype=np.int32).reshape(devices, count))
    at = module("learner").Varying(factor.astype(np.float32))
    weights = tf.constant(weights, tf.float32)
    if weights.shape.rank == 2:
        rows = rows._replace(rows=np.stack([rows.rows] * len(weights)))
    (found,), counts = own.summed([weights], rows, at, own.gather(rows, at, data), None)
    return found.numpy(), counts.numpy()


def test_messages_are_sums_of_clipped_gradients_within_a_ball():
    generator, own = np.random.default_rng(2), learner(mean_norm=2.0)
    records = generator.standard_normal((3, 8, 6)) * np.array([0.3, 1.0, 8.0])[:, None, None]
    weights, factor = generator.standard_normal(5), generator.standard_normal(3)
    messages = np.stack([message(each, weights, own) for each in records])
    assert np.linalg.norm(messages, axis=1).max() == pytest.approx(own.mean_norm * 8)
    found, counts = summed(own, weights, records, factor)
    np.testing.assert_allclose(found, factor @ messages, rtol=2e-5)
    assert 0 < counts[0] < counts[1] == 24
    assert 0 < counts[2] < counts[3] == 3
    both = np.stack([weights, 2 * weights])
    of_both, _ = summed(own, both, records, np.stack([factor, -factor]))
    np.testing.assert_allclose(of_both[0], found, rtol=1e-5)
    np.testing.assert_allclose(of_both[1], summed(own, both[1], records, -factor)[0], rtol=1e-5)


def test_a_replaced_record_moves_a_message_by_no_more_than_is_claimed():
    generator, largest = np.random.default_rng(3), 0.0
    for trial in range(300):
        own = learner(mean_norm=float(10 ** generator.uniform(0, 1)))
        records = generator.standard_normal((1, 6, 6)) * 10 ** generator.uniform(-2, 2, (1, 6, 1))
        weights = generator.standard_normal(5) * (trial % 2)
        other = records.copy()
        other[0, 0] = generator.standard_normal(6) * 10 ** generator.uniform(-2, 2)
        if trial % 3 == 0:
            other[0, 0] = records[0, 0] * np.array([1, 1, 1, 1, 1, -1])
        moved = summed(own, weights, records, np.ones(1))[0] - summed(own, weights, other, np.ones(1))[0]
        largest = max(largest, np.linalg.norm(moved) / own.sensitivity)
    assert 0.9 < largest <= 1 + 1e-5


def test_opposed_records_move_a_message_as_far_as_is_claimed():
    own = learner(clip_norm=1.4)
    (case,) = own.opposed(np.random.default_rng(4), 8)
    records = np.zeros((2, 1, 8, 6))
    records[:, 0, 0] = case.x
    moved = [summed(own, case.weights[0], each, np.ones(1))[0] for each in records]
    assert np.linalg.norm(moved[0] - moved[1]) == pytest.approx(own.sensitivity, rel=1e-6)


def test_the_learner_refuses_what_it_does_not_honour():
    _, tables = small("superposed_full")
    reception, owned = receptions(tables)(0), list(np.arange(200).reshape(4, 50))
    own = learner()
    own.inputs(reception, owned, 1, 0)
    with pytest.raises(NotImplementedError, match="all of a device's records"):
        own.inputs(reception._replace(records=np.full((12, 4), 3)), owned, 1, 0)
    with pytest.raises(NotImplementedError, match="no integers"):
        own.inputs(reception._replace(group=np.zeros((12, 4), int)), owned, 1, 0)
    with pytest.raises(NotImplementedError, match="equally many"):
        own.inputs(reception, [np.arange(50), *[np.arange(50, 99)] * 3], 1, 0)


# Training.


def test_the_minimum_is_that_of_a_general_optimizer():
    model, _ = small("superposed_full")
    records = module("regression").simulated(part(model, "train"), 4, 50, 0).x_train
    least = module("regression").minimum(records, 0.05)
    x, y = records[:, :-1].astype(float), records[:, -1].astype(float)
    found = optimize.minimize(lambda w: np.mean((x @ w - y) ** 2) / 2 + 0.05 * w @ w, np.zeros(7), tol=1e-12)
    np.testing.assert_allclose(least.objective, found.fun, rtol=1e-9)
    np.testing.assert_allclose(least.weights, found.x, atol=1e-5)
    assert least.at_start == pytest.approx(np.mean(y**2) / 2)


def test_records_are_simulated_as_in_the_papers_experiments():
    model = resolve(SMALL | {"task": {"samples": 5000}}, {})
    records = module("regression").simulated(part(model, "train"), 4, 5000, 0).x_train.astype(float)
    u, v = records[:, :-1], records[:, -1]
    residual = v - u[:, 1] - 3 * u[:, 4]
    assert stats.kstest(u.ravel(), "norm").pvalue > FALSE_ALARM
    assert stats.kstest(residual / 0.2, "norm").pvalue > FALSE_ALARM
    assert np.abs(u.T @ residual).max() < LIMIT * 0.2 * np.sqrt(len(u))


def trained(config: dict, name: str) -> pl.DataFrame:
    """`history` of a scenario of one scheme."""
    model = resolve(config | {"schemes": schemes(name)}, {})
    ((_, tables),) = stages(model)
    return stage_of.train(part(model, "train"), None, range(model.training_realizations), tables)["history"]


def test_without_noise_training_is_gradient_descent():
    loud = {"radio": {"snr_db": 100.0, "blocks": 12}, "training": {"clip_norm": 200.0}, "task": {"samples": 500}}
    history = trained(SMALL | loud | {"training_realizations": 1}, "superposed_full")
    model = resolve(SMALL | loud, {})
    records = module("regression").simulated(part(model, "train"), 4, 500, 0).x_train.astype(float)
    x, y, w, found = records[:, :-1], records[:, -1], np.zeros(10), []
    decay = model.task.weight_decay
    for _ in range(13):
        found.append(np.mean((x @ w - y) ** 2) / 2 + decay * w @ w)
        w = w - (x.T @ (x @ w - y) / len(x) + 2 * decay * w) / model.training.smoothness
    np.testing.assert_allclose(history["ridge_objective"], found, rtol=1e-4)
    assert history["clipped_share"].drop_nulls().max() == 0
    assert history["accuracy"].null_count() == history["loss"].null_count() == len(history)


@pytest.mark.parametrize("name", ["superposed_adaptive", "orthogonal_static"])
def test_the_mean_gap_is_within_the_papers_bound(name):
    config = {"system": SYSTEM, "realizations": 24, "training_realizations": 24}
    history = trained(config, name)
    last = history.filter(round=history["round"].max())
    assert last["clipped_share"].max() == last["limited_share"].max() == 0
    below = (last["optimality_gap_bound"] - last["optimality_gap"]).to_numpy()
    assert below.mean() - stats.t.isf(0.025, 23) * below.std(ddof=1) / np.sqrt(24) > 0
    assert last["optimality_gap"].mean() < 0.02 * history.filter(round=0)["optimality_gap"].mean()


def test_no_step_is_taken_in_rounds_of_noise_only():
    scenario = resolve({"system": SYSTEM}, {})
    found = module("train").steps(part(scenario, "train"), np.array([0.01, 1.1, 1.2, 1e9]))
    np.testing.assert_allclose(found, [1 / 1.1, 1 / 1.1, 0.0, 0.0])  # sqrt(10) 1.1131 / 1.1 = 3.2


# The statement of privacy, and its audit.


@pytest.mark.parametrize("name", EVERY)
def test_epsilon_is_that_of_gaussian_releases_and_nothing_is_guaranteed(name):
    model, tables = small(name)
    std = to_array(tables["noise"], "receiver_noise_std", "realization", "round", "user")
    mu = np.sqrt(((2 * model.training.clip_norm / std) ** 2).sum(axis=1))
    epsilon = to_array(tables["leakage"], "epsilon", "realization", "user")
    # delta of a Gaussian mechanism (Balle and Wang, 2018, Theorem 8)
    high, low = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    delta = stats.norm.cdf(high) - np.exp(epsilon + stats.norm.logcdf(low))
    np.testing.assert_allclose(delta, model.privacy.delta, rtol=1e-6)
    outcome = tables["outcome"].sort("realization")
    np.testing.assert_allclose(outcome["epsilon"], epsilon.max(axis=1))
    assert set(outcome["epsilon_assumes"]) == {"receivers' noise"}
    assert tables["guarantees"].filter(unit="record", noise_from="users")["epsilon"].is_infinite().all()
    assert outcome["epsilon_server"].equals(outcome["epsilon"], null_equal=True)
    assert set(outcome["guarantee"]) == {"conditional"}
    length, slots = shapes(name)
    assert outcome["rounds"].to_list() == 3 * [length]
    assert outcome["channel_uses"].to_list() == 3 * [length * slots * model.task.dimension]


def audited(name: str, config: dict = SMALL) -> dict[str, str]:
    """Status of each test of a scheme's audit."""
    _, found = run(config | {"schemes": schemes(name), "training_realizations": 1})
    return dict(found["audit"].select("test", pl.col("status").cast(pl.String)).iter_rows())


FULL = {
    "system": SYSTEM,
    "realizations": 2,
    "task": {"samples": 100},
    "privacy": {"epsilon": 1.0},
}  # as many rounds as in the paper


@pytest.mark.parametrize("config", [SMALL, FULL], ids=["small", "full"])
@pytest.mark.parametrize("access", ACCESS)
def test_the_audit_finds_what_is_stated(access, config):
    found = audited(f"{access}_adaptive", config)
    assert set(found.values()) == {"passed"}
    assert len(found) > 12


def quieter(right):
    """`receive.run` with less noise in the update than visibilities count."""
    scale = pl.col("update_noise_std", "planned_noise_std") / 1.1
    return lambda *given: (made := right(*given)) | {"reception_noise": made["reception_noise"].with_columns(scale)}


def fainter(right):
    """`receive.run` with messages that are stated 10 % less visible."""
    scale = pl.col("visibility") / 1.1
    return lambda *given: (made := right(*given)) | {"visibility": made["visibility"].with_columns(scale)}


def test_the_audit_finds_faults(monkeypatch):
    def violated() -> set[str]:
        rounds.forget()  # graphs keep to the code that they were traced of
        return {test for test, status in audited("superposed_static").items() if status == "failed"}

    receive, own, train = (module(name) for name in ("receive", "learner", "train"))
    for fault in (quieter, fainter):
        with monkeypatch.context() as patch:
            patch.setattr(receive, "run", fault(receive.run))
            assert violated()

    def larger(right):
        return lambda *given: ([1.02 * message for message in right(*given)[0]], right(*given)[1])

    def softer(right):
        return lambda *given: [0.9 * normal for normal in right(*given)]

    def of_other_steps(right):
        return lambda scenario, *given: right(slower(scenario), *given)

    for place, name, fault in (
        (own.RidgeGradients, "summed", larger),  # messages that are 2 % too large
        (batching.Draws, "normals", softer),  # less noise than is stated
        (train, "with_loss", of_other_steps),  # other steps than the audited ones
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, fault(getattr(place, name)))
            assert violated()
    rounds.forget()


def slower(scenario):
    """A scenario of smaller steps."""
    return replaced(scenario, "training.smoothness", 1.3)


# The package as a whole.


def test_every_claim_can_be_supported_and_refuted():
    claims = module("claims")
    model = resolve({"system": SYSTEM, "privacy": {"epsilon": 100.0}}, {})
    generator = np.random.default_rng(5)

    def verdicts(gaps: dict[str, float]) -> list[str]:
        rows = [
            pl.DataFrame(
                {
                    "scheme": scheme.name,
                    "realization": range(50),
                    "optimality_gap": gaps[scheme.scheduler] * generator.lognormal(0, 0.1, 50),
                    "optimality_gap_bound": 2 * gaps[scheme.scheduler],
                    "epsilon_paper": 297.0 if gaps["superposed_full"] == 1.0 else 200.0,
                    "training": "trained",
                    "no_user_scheduled": False,
                }
            )
            for scheme in model.schemes
        ]
        found = claims.claims({"a": {"scenario": model, "realizations": pl.concat(rows)}})
        assert found["origin"].unique().to_list() == ["paper"]
        assert len(found) == 9
        return found["verdict"].to_list()

    order = ("superposed_full", "superposed_adaptive", "superposed_static", "orthogonal_full", "orthogonal_adaptive")
    gaps = dict(zip((*order, "orthogonal_static"), (1.0, 1.0, 2.0, 4.0, 4.0, 5.0), strict=True))
    assert set(verdicts(gaps)) == {"supported"}
    wrong = dict(zip((*order, "orthogonal_static"), (2.0, 6.0, 3.0, 1.0, 2.0, 1.5), strict=True))
    assert set(verdicts(wrong)) == {"refuted"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"radio": {"blocks": 10}}, "radio.blocks"),
        ({"training": {"clip_norm": 1e3}}, "training.clip_norm"),
        ({"training": {"strong_convexity": 2.0}}, "training.strong_convexity"),
    ],
)
def test_what_would_make_a_statement_wrong_is_refused(changes, said):
    with pytest.raises(ScenarioError, match=said):
        resolve(SMALL | changes, {})


@pytest.mark.slow
def test_the_example_does_what_every_system_owes():
    testing.check_system(SYSTEM)


def test_the_example_states_what_every_system_owes():
    testing.check_system(SYSTEM, only=["modules", "catalog", "parameters", "accounting", "guarantee", "users"])
