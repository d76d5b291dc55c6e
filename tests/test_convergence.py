"""Theorem 1 of Tavangaran et al.: where it can be checked it holds, and what it says at Table I: nothing."""

import numpy as np
import polars as pl
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import log_softmax

import stage_of
from pipeline import on_one_cell, part
from pwfl.learning import sources
from pwfl.scenario import resolve
from pwfl.systems.multicell.account import Constants, convergence_bound, premise
from pwfl.systems.multicell.parameters import Training

FALSE_ALARM = 1e-6
USERS, ROUNDS, CLASSES = 20, 60, 10


def constants(samples, scheduled, noise_std, dimension, **parameters):
    found = convergence_bound(
        *(each[None, None] for each in (samples, scheduled, noise_std)),
        dimension,
        Constants(**parameters),
    )
    return {name: float(values[0]) for name, values in found.items()}


def test_a_quadratic_attains_the_bound_on_the_noise():
    # f = L / 2 |w|^2: a step of 1 / L goes to the optimum, and what is left is the users' noise.
    rng = np.random.default_rng(0)
    samples, noise_std, smoothness, draws = np.array([60, 90, 75]), np.array([2.0, 1.0, 0.5]), 8.0, 100_000
    found = constants(
        samples, np.ones(3, bool), noise_std, 4, smoothness=smoothness, strong_convexity=smoothness, xi1=0.0, xi2=1.0
    )
    assert found["c1"] == found["c2"] == 0
    w = rng.standard_normal(4)
    gradients = smoothness * w + noise_std[:, None] * rng.standard_normal((draws, 3, 4))
    after = w - (samples[:, None] / samples.sum() * gradients).sum(axis=1) / smoothness
    gap = smoothness / 2 * (after**2).sum(axis=1)
    error = gap.std() / np.sqrt(draws) * stats.norm.isf(FALSE_ALARM / 2)
    assert abs(gap.mean() - found["c3"]) <= error < 0.03 * found["c3"]
    assert found["bound_limit"] == found["c3"]


def test_of_several_intervals_each_constant_is_the_largest():
    scheduled = np.array([[[True, False, True], [True, True, False], [False, False, True]]])
    samples = np.broadcast_to([60, 90, 75], scheduled.shape)
    noise_std = np.where(scheduled, [2.0, 1.0, 0.5], 0.0)
    given = Constants(smoothness=8.0, strong_convexity=0.5, xi1=3.0, xi2=0.7)
    whole = convergence_bound(samples, scheduled, noise_std, 4, given)
    alone = [convergence_bound(samples[:, [k]], scheduled[:, [k]], noise_std[:, [k]], 4, given) for k in range(3)]
    for name in ("c1", "c2", "c3"):
        assert whole[name] == max(each[name] for each in alone) > min(each[name] for each in alone)


def softmax_regression(l2, left_out, least_noise, draws=3):
    """Gaps of Algorithm 1, mean over draws, and the theorem's bound on them, both of shape (ROUNDS + 1,).

    Softmax regression with l2 / 2 |w|^2 on the digits from w = 0, of which `left_out` users send none, at
    K_i sigma_i ~ U(1, 6) least_noise. Lipschitz constant by the bound on the Hessian (Bohning, 1992), xi1
    the largest that training meets, xi2 = 1.
    """
    images, labels, _, _ = sources.load("digits")
    samples = np.random.default_rng(1).integers(40, 96, USERS)
    noise_std = np.random.default_rng(2).uniform(1, 6, USERS) * least_noise / samples
    scheduled = np.arange(USERS) >= left_out
    total, mine = samples.sum(), np.repeat(scheduled, samples)
    x, y = np.append(images[:total] / 255, np.ones((total, 1)), axis=1), np.eye(CLASSES)[labels[:total]]
    shape = x.shape[1], CLASSES
    smoothness = np.linalg.eigvalsh(x.T @ x / total)[-1] / 2 + l2

    def loss(w):
        return -(log_softmax(x @ w, axis=1) * y).sum() / total + l2 / 2 * (w**2).sum()

    def residual(w):
        return np.exp(log_softmax(x @ w, axis=1)) - y

    def value_and_gradient(flat):
        w = flat.reshape(shape)
        return loss(w), (x.T @ residual(w) / total + l2 * w).ravel()

    options = {"maxiter": 3000, "ftol": 1e-15, "gtol": 1e-8}
    best = minimize(value_and_gradient, np.zeros(x.shape[1] * CLASSES), jac=True, method="L-BFGS-B", options=options)
    std = np.sqrt(((samples * noise_std)[scheduled] ** 2).sum()) / samples[scheduled].sum()
    gaps, xi1, rng = np.zeros((draws, ROUNDS + 1)), 0.0, np.random.default_rng(0)
    for draw in gaps:
        w = np.zeros(shape)
        draw[0] = loss(w) - best.fun
        for t in range(ROUNDS):
            r = residual(w)
            # |x r^T + l2 w|^2 of every record, without a matrix for each.
            records = (x**2).sum(1) * (r**2).sum(1) + 2 * l2 * ((x @ w) * r).sum(1) + l2**2 * (w**2).sum()
            xi1 = max(xi1, records.max() - ((x.T @ r / total + l2 * w) ** 2).sum())
            gradient = x[mine].T @ r[mine] / mine.sum() + l2 * w
            w = w - (gradient + std * rng.standard_normal(shape)) / smoothness
            draw[t + 1] = loss(w) - best.fun
    found = constants(
        samples, scheduled, noise_std, w.size, smoothness=smoothness, strong_convexity=l2, xi1=xi1, xi2=1.0
    )
    bound = [gaps[0, 0]]
    for _ in range(ROUNDS):
        bound.append(found["c1"] * bound[-1] + found["c2"] + found["c3"])
    return gaps.mean(axis=0), np.array(bound), found["bound_limit"]


@pytest.mark.parametrize(
    ("l2", "left_out", "least_noise", "start", "end", "limit"),
    [  # docs/explanation/multicell.md shows five of these
        (1.0, 0, 1.0, 0.083, 0.0042, 0.045),
        (1.0, 1, 1.0, 0.083, 0.0047, 0.151),
        (0.1, 0, 1.0, 0.584, 0.022, 0.455),
        (0.1, 1, 1.0, 0.584, 0.023, 2.94),
        (0.1, 2, 1.0, 0.584, 0.024, np.inf),
        (0.1, 0, 10.0, 0.584, 0.42, 45.5),
        (0.01, 0, 1.0, 1.518, 0.43, 4.55),
    ],
)
def test_the_bound_holds_for_a_strongly_convex_loss_and_hardly_says_anything(
    l2, left_out, least_noise, start, end, limit
):
    gaps, bound, tends_to = softmax_regression(l2, left_out, least_noise)
    assert (gaps <= bound * (1 + 1e-9)).all()
    assert (gaps[0], gaps[-1], tends_to) == pytest.approx((start, end, limit), rel=0.03)
    # Less than the gap it starts from only where everybody sends, and the L2 term is nearly all of the loss.
    assert (tends_to < gaps[0]) == (left_out == 0 and least_noise == 1.0 and l2 >= 0.1)


@pytest.mark.parametrize(("blocks", "gamma"), [(5, 1e6), (8, 1e7)])
def test_at_table_i_the_bound_is_vacuous_whatever_the_constants(blocks, gamma):
    model = resolve({"radio": {"resource_blocks": blocks}, "schedule": {"gamma": gamma}}, {})
    users = stage_of.channel(part(model, "channel"), range(10))
    for scheme in model.schemes:
        found = users | stage_of.schedule(part(model, "schedule", scheme.scheduler), scheme.scheduler, users)
        found |= stage_of.noise(part(model, "noise", scheme.noise), scheme.noise, found)
        found |= stage_of.receive(part(model, "receive"), found)
        outcome = stage_of.account(part(model, "account"), found)["outcome"]
        assert outcome["bound"].str.starts_with("vacuous: C1 >= 1").all()
        assert outcome["bound_limit"].is_infinite().all()
        assert (outcome["bound_premise"] == premise(model.training, 20.0)).all()
        # The step size fixes L = 20, and so C3. Alone it is more than the loss of a guess, so that no mu, xi1
        # and xi2 help; nor does softmax regression, which has fewer parameters: C3 is proportional to them.
        assert (outcome["c3"] > 100 * np.log(CLASSES)).all()
        assert (outcome["c3"] * 7850 / 269_322 > np.log(CLASSES)).all()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hidden_layers": []}, "step size 1 / smoothness: met; strongly convex loss: not met (softmax regression has no L2"),
        ({"learning_rate": 0.1}, "step size 1 / smoothness: not met (0.1, not 0.05); strongly convex loss: not met (hidden"),
        ({"step": "snr"}, "step size 1 / smoothness: not met (set by noise); strongly"),
        ({"recipe": "falling_steps"}, "step size 1 / smoothness: not met (falling); strongly"),
        ({"recipe": "inverse_variance"}, "(hidden layers); averages by samples: not met"),
        ({"model": "cnn", "hidden_layers": []}, "not met (hidden layers)"),
    ],
)  # fmt: skip
def test_premises_are_named(changes, says):
    assert says in premise(Training(**changes), 20.0)


@pytest.mark.parametrize(
    ("noise_std", "users", "says"),
    [
        (1e-6, 2, "tends to less than 2.3 nats"),
        (10.0, 2, "vacuous: it tends to 2.3 nats or more"),
        (1.0, 1, "vacuous: C1 >= 1"),
        (1.0, 0, "undefined: nobody is scheduled"),
        (None, 2, "undefined: nobody is scheduled, or no noise is feasible"),
    ],
)
def test_what_the_bound_says_stands_in_words(noise_std, users, says):
    keys = pl.DataFrame({"realization": [0, 0], "user": [0, 1]})
    sends = pl.col("user") < users
    tables = {
        "users": keys.with_columns(samples=pl.lit(100)),
        "schedule": keys.with_columns(resource_block=pl.when(sends).then(0), power_w=0.01, rate_bps=1e5),
        "noise": keys.with_columns(noise_std=pl.when(sends).then(pl.lit(noise_std, pl.Float64)).otherwise(0.0)),
    }
    model, tables = resolve({}, {}), on_one_cell(tables)
    tables |= stage_of.receive(part(model, "receive"), tables)
    outcome = stage_of.account(part(model, "account"), tables)["outcome"]
    assert outcome["bound"][0].startswith(says)
    # Where a gradient is clipped to 10, xi1 = 100 makes Assumption 6 true.
    assert outcome["c2"][0] == pytest.approx(2 * 100 / 20 * (1 - users / 2) ** 2)
