"""How the server weighs users and steps: formulas, the two-level algorithm, and the same leakage for other T and L."""

import math

import numpy as np
import polars as pl
import pytest
import tensorflow as tf
from scipy import stats

import stage_of
import two_level
from pipeline import digits, part, stages
from pwfl import registry
from pwfl.learning import datasets
from pwfl.learning.mlp import glorot_uniform
from pwfl.privacy.gaussian import zcdp
from pwfl.scenario import ScenarioError, checks, resolve
from pwfl.stages import REPORT
from pwfl.systems.multicell import receive, train
from pwfl.systems.multicell.beyond import server, sums
from pwfl.systems.multicell.bounds import leakage_bound
from pwfl.training import models, trainings
from pwfl.training.integers import summed
from trained import drifted, in_turn

FALSE_ALARM = 1e-6
SAMPLES = np.array([12, 7, 20, 1, 16])
SENDS = np.array([[True, True, False, True, True], [False, True, True, False, True]])
NOISE = np.array([[0.5, 0.9, 0.0, 5.0, 0.4], [0.0, 0.2, 0.7, 0.0, 1.5]])


def scenario(**changes):
    settings = {"hidden_layers": [8], "rounds": 6, "learning_rate": 0.5, "clip_norm": 1.0} | changes
    return resolve(registry.system("multicell").catalog.tiny, {"training": settings})


def training(**changes):
    return scenario(**changes).part().training


def counts(rules, samples, sends, noise_std):
    """As how many samples users count if each upload is seen."""
    return server.counts(rules, samples, sends, noise_std, sums.groups("user", sends))


def leakage(samples, noise_std, rules):
    """rho of (11), as accounting has it."""
    return zcdp(2 * rules.clip_norm / samples, noise_std, rules.rounds)


# Weights


def test_users_count_by_the_formula():
    rules = training(recipe="inverse_variance", rounds=60, clip_norm=0.5)
    found = counts(rules, SAMPLES, SENDS, NOISE)
    for interval, sends in enumerate(SENDS):
        weight = np.zeros(5)
        for user in np.flatnonzero(sends):
            rho = leakage(SAMPLES[user], NOISE[interval, user], rules)
            weight[user] = 1 / (0.001 / SAMPLES[user] + 1 / (SAMPLES[user] ** 2 * rho))
        np.testing.assert_allclose(found[interval] / found[interval].sum(), weight / weight.sum(), rtol=1e-12)
        assert found[interval].sum() == pytest.approx(SAMPLES[sends].sum(), rel=1e-12)


def test_users_count_by_their_samples_or_without_noise_or_not_at_all():
    np.testing.assert_array_equal(counts(training(), SAMPLES, SENDS, NOISE), SAMPLES * SENDS)
    rules, everyone = training(recipe="inverse_variance"), np.full((1, 5), True)
    np.testing.assert_allclose(counts(rules, SAMPLES, everyone, np.zeros((1, 5))), SAMPLES[None], rtol=1e-12)
    one = np.array([[0.0, 0.9, 0.7, 5.0, 0.4]])  # only the first adds none
    records = counts(rules, SAMPLES, everyone, one)[0] / SAMPLES
    assert records[0] == records.max() < np.inf  # a record of it counts most
    nobody = counts(rules, SAMPLES, ~everyone, np.zeros((1, 5)))
    np.testing.assert_array_equal(nobody, np.zeros((1, 5)))


def noise_of_average(counts, noise_std):
    return math.sqrt(((counts * noise_std) ** 2).sum()) / counts.sum()


def test_the_averages_noise_is_close_to_the_least():
    rules = training(recipe="inverse_variance")
    generator = np.random.default_rng(1)
    samples = generator.integers(50, 800, 30)
    noise = 100 * generator.uniform(1, 6, 30) / samples
    found = counts(rules, samples, np.full((1, 30), True), noise[None])[0]
    least = (noise**-2.0).sum() ** -0.5
    assert least <= noise_of_average(found, noise) < 1.02 * least
    assert noise_of_average(samples, noise) > 1.3 * least
    # With the least noise, eta T L = c SNR.
    rules = training(step="snr", step_scale=0.12, rounds=60, clip_norm=0.5)
    snr = math.sqrt((samples**2 * leakage(samples, noise, rules)).sum())
    steps = server.step_sizes(rules, np.array([least]), np.array([True]))
    np.testing.assert_allclose(steps * 60 * 0.5, 0.12 * snr, rtol=1e-12)


@pytest.mark.parametrize("clipping", ["per_sample", "per_user"])
@pytest.mark.parametrize("recipe", ["paper", "inverse_variance"])
def test_what_is_received_of_a_user_is_its_share_of_the_average(recipe, clipping):
    model = scenario(recipe=recipe, clipping=clipping)
    found = received(model, SENDS, NOISE)
    rules = training(recipe=recipe)
    for interval, sends in enumerate(SENDS):
        counted = counts(rules, SAMPLES, SENDS, NOISE)[interval]
        share = counted / counted.sum()
        rows = found["reception"].filter(interval=interval).sort("user")
        assert rows["user"].to_list() == np.flatnonzero(sends).tolist()
        of_unit = share / SAMPLES if clipping == "per_sample" else share  # of a sum of gradients, or their mean
        np.testing.assert_allclose(rows["weight"], of_unit[sends], rtol=1e-12)
        np.testing.assert_allclose(rows["user_noise_std"], (share * NOISE[interval])[sends], rtol=1e-12)
        (row,) = found["reception_noise"].filter(interval=interval).rows(named=True)
        assert row["update_noise_std"] == pytest.approx(noise_of_average(counted, NOISE[interval]), rel=1e-12)
        assert (row["rounds"], row["planned_senders"]) == (3, sends.sum())


def received(model, sends, noise_std):
    """What is received of users, one in two of them in each of two cells, who send in some intervals."""
    users = range(len(SAMPLES))
    keys = {"realization": 0, "interval": np.repeat(range(len(sends)), len(users)), "user": [*users] * len(sends)}
    block = [0 if sent else None for sent in sends.ravel()]
    frames = {
        "users": pl.DataFrame({"realization": 0, "user": users, "samples": SAMPLES, "cell": [k % 2 for k in users]}),
        "schedule": pl.DataFrame(keys | {"resource_block": block, "rate_bps": 1e5, "power_w": 1e-3}),
        "noise": pl.DataFrame(keys | {"noise_std": noise_std.ravel()}),
    }
    return frames | receive.run(part(model, "receive"), frames)


# Steps


def noise_at_the_end(rules, noise_std):
    """What the rounds' noise adds up to in each of many weights."""
    steps = server.step_sizes(rules, noise_std, noise_std > 0)
    (found,) = drifted([tf.zeros([200_000])], steps, noise_std, 0, tf.constant(rules.rounds), 0 * noise_std)
    return found.numpy().astype(float)


def has_variance(values, std):
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], len(values))
    return bool(low < (values**2).sum() / std**2 < high)


@pytest.mark.parametrize("noise_std", [[0.7], [0.2, 1.5, 0.7]], ids=["static", "fading"])
@pytest.mark.parametrize("recipe", ["paper", "falling_steps"])
@pytest.mark.parametrize("clip_norm", [0.5, 10.0])
def test_the_noise_adds_up_to_what_the_rule_says(recipe, noise_std, clip_norm):
    rules = training(step="snr", step_scale=0.12, recipe=recipe, rounds=12, clip_norm=clip_norm)
    found = noise_at_the_end(rules, np.array(noise_std))
    assert has_variance(found, math.sqrt(2) * 0.12)
    assert not has_variance(found, math.sqrt(2) * 0.123)


def test_steps_fall_linearly_from_the_first():
    found = server.step_sizes(training(recipe="falling_steps", rounds=4), np.array([0.0]), np.array([True]))
    np.testing.assert_allclose(found, [0.5, 0.375, 0.25, 0.125])
    found = server.step_sizes(training(step="snr", recipe="falling_steps", rounds=4), np.array([0.7]), np.array([True]))
    np.testing.assert_allclose(found / found[0], [1, 0.75, 0.5, 0.25])


def test_steps_of_intervals_follow_their_noise():
    rules = training(step="snr", rounds=6)
    found = server.step_sizes(rules, np.array([0.5, 0.0, 1.0]), np.array([True, False, True]))
    assert found[0] == found[1] == 2 * found[4] == 2 * found[5]
    assert found[2] == found[3] == 0
    with pytest.raises(
        ValueError, match=r"training.step: snr: is set by the noise, but the active users of some rounds add none"
    ):
        server.step_sizes(rules, np.array([0.5, 0.0, 1.0]), np.array([True, True, True]))


def test_the_server_steps_by_the_noise_that_was_planned():
    model = scenario(step="snr")
    rules, tables = train.server(model.part()), received(model, SENDS, NOISE)
    occurred = tables["reception_noise"].with_columns(update_noise_std=pl.col("planned_noise_std") / 2)
    steps = rules.steps(trainings.receptions(tables | {"reception_noise": occurred})(0))
    planned = tables["reception_noise"]["planned_noise_std"].to_numpy()
    np.testing.assert_allclose(
        steps, server.step_sizes(model.part().training, planned, np.array([True, True])), rtol=1e-6
    )
    assert rules.summed is None
    integers = resolve(
        registry.system("multicell").catalog.tiny, {"training": {"bits": 16}, "privacy": {"observer": "cell"}}
    )
    assert train.server(integers.part()).summed is summed(16)


# The two-level algorithm


@pytest.mark.parametrize("clipping", ["per_sample", "per_user"])
@pytest.mark.parametrize("recipe", ["inverse_variance", "inverse_variance_falling"])
@pytest.mark.parametrize("intervals", [1, 2])
def test_training_with_these_weights_and_steps_is_the_two_level_algorithm(intervals, recipe, clipping):
    model = scenario(recipe=recipe, step="snr", step_scale=2.0, clipping=clipping, evaluate_every=3)
    rules, data = model.part().training, digits()
    sends, noise = SENDS[:intervals], NOISE[:intervals]
    tables, values = received(model, sends, noise), part(model, "train")
    own = train.parts(values, data, tables)
    used = trainings.training(own, values, data, tables, deal=in_turn)
    begun = used.begin(0)
    steps = server.step_sizes(rules, begun.noise_std, sends.any(axis=1))
    np.testing.assert_allclose(begun.steps, steps, rtol=1e-6)
    start = glorot_uniform([64, 8, 10], np.random.default_rng(4))
    (course,) = used.train([begun._replace(weights=start, noise_std=np.zeros_like(begun.noise_std))])
    assert own.stops == [0, 1, 3, 6]
    parts = begun.user_records

    clip = {"per_sample": two_level.mean_clipped_gradient, "per_user": two_level.clipped_mean_gradient}[clipping]
    weights, iterates = start, [start]
    for t in range(6):
        interval = t * intervals // 6
        cells = [[], []]
        for user in np.flatnonzero(sends[interval]):
            rho = leakage(SAMPLES[user], noise[interval, user], rules)
            count = 1 / (0.001 / SAMPLES[user] + 1 / (SAMPLES[user] ** 2 * rho))
            mine = parts[user]
            cells[user % 2].append(two_level.User(data.x_train[mine], data.y_train[mine], 0.0, count))
        weights = two_level.train(weights, cells, 1, steps[t], 1.0, np.random.default_rng(0), clip)
        iterates.append(weights)
    for t, loss in zip(own.stops, course.losses, strict=True):
        expected = float(two_level.loss(iterates[t], data.x_test.astype(float), data.y_test))
        assert loss == pytest.approx(expected, rel=1e-5)


# The same leakage for other rounds and clipping norms

FADING = {"coherence_rounds": 20, "resource_blocks": 5}


def leakages(changes):
    model = resolve({"realizations": 3, "training_realizations": 1}, changes)
    return {scheme.name: found for scheme, found in stages(model)}


@pytest.mark.parametrize(("radio", "rounds", "clip_norm"), [({}, 60, 1.0), ({}, 10, 0.3), (FADING, 40, 1.0)])
def test_bounds_in_multipliers_leave_every_users_leakage(radio, rounds, clip_norm):
    schemes = leakages({"radio": radio | ({"coherence_rounds": 100} if radio else {})})  # two intervals
    other = {"training": {"rounds": rounds, "clip_norm": clip_norm}, "privacy": {"bounds": "multiplier"}}
    same = leakages({"radio": radio} | other)
    for name, found in schemes.items():
        keys = ["realization", "user"]
        assert found["leakage"].height > 70
        assert found["leakage"].select(keys).equals(same[name]["leakage"].select(keys))
        np.testing.assert_allclose(same[name]["leakage"]["rho"], found["leakage"]["rho"], rtol=1e-12, atol=0)
        for column in ("objective", "noise_error", "rho_worst_user", "epsilon"):
            np.testing.assert_allclose(same[name]["outcome"][column], found["outcome"][column], rtol=1e-11)
        # The noise itself is another, and where it stays, the leakage does not.
        assert (same[name]["noise"]["noise_std"] < found["noise"]["noise_std"]).sum() >= found["leakage"].height
    unread = leakages({"radio": radio, "training": other["training"]})
    assert unread["RndSched"]["leakage"]["rho"].max() < 0.5 * schemes["RndSched"]["leakage"]["rho"].max()


def test_the_bound_on_leakage_stays_too():
    def bound(bounds, **training):
        return leakage_bound(part(resolve({}, {"training": training, "privacy": {"bounds": bounds}}), REPORT))

    assert bound("noise") == pytest.approx(4.0, rel=1e-12)
    assert bound("multiplier", rounds=60, clip_norm=1.0) == pytest.approx(4.0, rel=1e-12)
    assert bound("noise", rounds=60, clip_norm=1.0) == pytest.approx(0.012, rel=1e-12)


# Configs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model": "cnn", "features": "strokes"},
            "training.features: strokes is not available for `model: cnn`, which uses images",
        ),
        ({"recipe": "zero_start"}, "training.recipe: zero_start requires softmax regression"),
        ({"recipe": "zero_start", "model": "cnn"}, "training.recipe: zero_start requires softmax regression"),
    ],
)
def test_what_makes_no_sense_together_is_refused(changes, message):
    with pytest.raises(ScenarioError, match=message.replace("(", r"\(")):
        resolve({}, {"training": changes})


def test_softmax_regression_can_start_from_nothing():
    given = (
        part(scenario(hidden_layers=[], recipe="zero_start"), "train"),
        digits(),
        received(scenario(), SENDS, NOISE),
    )
    weights = train.parts(*given).learner.start(lambda: np.random.default_rng(1))
    assert [w.shape for w in weights] == [(64, 10), (10,)]
    assert not any(w.any() for w in weights)
    other = models.network(training(), datasets.SIZES["digits"])
    assert any(w.any() for w in models.start_weights(other, lambda: np.random.default_rng(1)))


@pytest.mark.parametrize(
    ("changes", "unread"),
    [
        ({}, {"training.step_scale": "step: constant"}),
        ({"training": {"step": "snr"}}, {"training.learning_rate": "step: snr"}),
        ({"training": {"model": "cnn"}}, {"training.hidden_layers": "model: cnn"}),
        ({"radio": {"path_loss": "uma"}}, {"radio.fading_scale": "path_loss: uma"}),
        ({"radio": {"path_loss": "umi"}}, {"radio.path_loss_exponent": "path_loss: umi"}),
        ({"channel": {"links": "a.csv"}}, dict.fromkeys(["network.rings", "radio.path_loss"], "channel.links")),
    ],
)
def test_what_has_no_effect_is_known(changes, unread):
    idle, usual = checks.idle(resolve({}, changes)), checks.idle(resolve({}, {}))
    assert {key: idle[key].endswith(reason) for key, reason in unread.items()} == dict.fromkeys(unread, True)
    assert not changes or not set(unread) & set(usual)


def test_history_of_every_rule_meets_the_schema():
    changes = {"recipe": "inverse_variance", "step": "snr", "rounds": 4, "evaluate_every": 2}
    one = registry.system("multicell").catalog.tiny | {"realizations": 1, "training_realizations": 1}
    model = resolve(one, {"training": changes})
    (_, found), *_ = stages(model)
    history = stage_of.train(part(model, "train"), digits(), range(1), found)["history"]
    assert history["round"].to_list() == [0, 1, 2, 4]
    assert history.filter(pl.col("loss").is_finite()).height == 4
