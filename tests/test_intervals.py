"""Block fading of `multicell`: what is redrawn and what stays, budgets, training with each round's senders, audits."""

import math

import numpy as np
import polars as pl
import pytest
import tensorflow as tf
from polars.testing import assert_frame_equal
from scipy import stats
from scipy.special import log_softmax

import stage_of
from pipeline import digits, finished, part, received
from pwfl import registry, streams
from pwfl.learning.mlp import glorot_uniform
from pwfl.learning.partition import deal
from pwfl.scenario import ScenarioError, resolve
from pwfl.scenario.resolution import merge
from pwfl.systems.multicell.beyond import intervals
from pwfl.systems.multicell.interference import Uplink
from pwfl.training import rounds
from test_audits import violated

FALSE_ALARM = 1e-6
ROUNDS = 12
TINY = merge(
    registry.system("multicell").catalog.tiny,
    {"network": {"users": 15}, "privacy": {"min_noise": 3.5}, "training": {"rounds": ROUNDS}},
)
SCHEMES = [
    *[("random", "random"), ("optimal", "random"), ("optimal", "optimal")],
    *[("joint", "random"), ("joint_noise", "optimal"), ("joint_snr", "equal_max")],
]


def scenario(coherence, share=1.0, **changes):
    fading = {"radio": {"coherence_rounds": coherence}, "privacy": {"planned_share": share}}
    return resolve(merge(merge(TINY, fading), changes), {})


def stages(model, scheduler, noise, realizations=range(4)):
    """The tables of all stages up to account."""
    found = finished(stage_of.channel(part(model, "channel"), realizations), model)
    found |= finished(stage_of.schedule(part(model, "schedule", scheduler), scheduler, found), model)
    found |= finished(stage_of.noise(part(model, "noise", noise), noise, found), model)
    found |= finished(received(model, found), model)
    return found | finished(stage_of.account(part(model, "account"), found), model)


def array(frame, column, intervals, users=15):
    """A column by realization, interval and user."""
    return frame.sort("realization", "interval", "user")[column].to_numpy().reshape(-1, intervals, users)


def cut(tables, interval):
    """The tables before account as if the channel of one interval stayed for all rounds."""
    each = {name: tables[name] for name in ("links", "schedule", "noise", "noise_status")}
    kept = {name: frame.filter(interval=interval).with_columns(interval=pl.lit(0)) for name, frame in each.items()}
    return kept | {name: tables[name] for name in ("users", "start_values")}


# The channel


@pytest.mark.parametrize(("scheduler", "noise"), SCHEMES)
def test_a_coherence_of_all_rounds_and_the_first_interval_are_the_static_channel(scheduler, noise):
    static, whole = (scenario(coherence, 0.5) for coherence in (None, ROUNDS))
    one, other = (stages(model, scheduler, noise) for model in (static, whole))
    assert one.keys() == other.keys()
    for name, frame in one.items():
        assert_frame_equal(frame, other[name], check_exact=True)
    fading = stages(scenario(4), scheduler, noise)
    for name in ("links", "schedule", "schedule_status", "noise", "noise_status"):
        assert_frame_equal(one[name], fading[name].filter(interval=0), check_exact=True)
    histories = [stage_of.train(part(model, "train"), digits(), range(2), one)["history"] for model in (static, whole)]
    assert_frame_equal(*histories, check_exact=True)


@pytest.mark.parametrize("path_loss", ["power_law", "umi"])
def test_positions_stay_and_fading_alone_is_redrawn(path_loss):
    model = scenario(3, radio={"path_loss": path_loss}, network={"users": 100}, data={"dataset": "mnist"})
    links = stage_of.channel(part(model, "channel"), range(60))["links"]
    more = model.model_copy(update={"radio": model.radio.model_copy(update={"coherence_rounds": 2})})
    more = stage_of.channel(part(more, "channel"), range(60))["links"]
    assert_frame_equal(links, more.filter(pl.col("interval") < 4), check_exact=True)
    keys = ["realization", "station", "user"]
    assert links.n_unique("interval") == 4
    assert (links.group_by(keys).agg(pl.col("distance_m", "line_of_sight").n_unique()).drop(keys) == 1).to_numpy().all()
    gain = links.sort(*keys, "interval")["gain"].to_numpy().reshape(-1, 4)
    # The ratio of two independent exponentials has a logistic logarithm; neighbours in time are uncorrelated.
    logarithm = np.log(gain)
    for one, other in ((0, 1), (1, 2), (0, 3)):
        ratio = logarithm[:, one] - logarithm[:, other]
        assert stats.kstest(ratio, "logistic").pvalue > FALSE_ALARM / 8
        assert stats.kstest(1.1 * ratio, "logistic").pvalue < FALSE_ALARM
    steps = np.diff(logarithm, axis=1)  # of independent levels, next steps have correlation -1/2, others none
    limit = stats.norm.isf(FALSE_ALARM / 8) / math.sqrt(len(steps))
    assert abs(np.corrcoef(steps[:, 0], steps[:, 2])[0, 1]) < limit
    assert abs(np.corrcoef(steps[:, 0], steps[:, 1])[0, 1] + 0.5) < limit


@pytest.mark.parametrize(("scheduler", "noise"), SCHEMES)
def test_a_realization_is_the_same_whatever_the_shard(scheduler, noise):
    model = scenario(3, 0.5)
    whole = stages(model, scheduler, noise, range(6))
    shards = [stages(model, scheduler, noise, shard) for shard in (range(1), range(1, 4), range(4, 6))]
    for name, frame in whole.items():
        assert_frame_equal(frame, pl.concat([shard[name] for shard in shards]), check_exact=True)


def test_blocks_to_start_from_are_drawn_anew_and_keep_21():
    rng = np.random.default_rng(3)
    count, users = 400, 15
    cell = rng.integers(0, 3, (count, users))
    uplink = Uplink(np.ones((count, 3, users)), cell, 2, 1.0, 1.0, 1.0, 1.0, list(range(count)))
    load = rng.normal(-0.5, 2, (count, users))
    able = rng.random((count, users)) < 0.6
    block = intervals.redrawn_blocks(1, 5, uplink, np.where(able, load, np.inf))
    assert block.max() == 1
    assert (block[~able] == -1).all()
    given_back = 0
    for row in range(count):
        served = np.flatnonzero(block[row] >= 0)
        assert load[row, served].sum() <= 0
        assert len({(cell[row, user], block[row, user]) for user in served}) == len(served)
        most = sum(min(2, (able[row] & (cell[row] == c)).sum()) for c in range(3))
        given_back += most - len(served)
    free = intervals.redrawn_blocks(1, 5, uplink, np.where(able, -1.0, np.inf))
    filled = sum(min(2, (able[row] & (cell[row] == c)).sum()) for row in range(count) for c in range(3))
    assert 0 < given_back < (free >= 0).sum() == filled
    assert (free[block >= 0] == block[block >= 0]).all()
    other = intervals.redrawn_blocks(1, 6, uplink, np.where(able, -1.0, np.inf))
    assert (other != free).mean() > 0.2


# Schedules, noise and accounts


@pytest.mark.parametrize("share", [1.0, 0.5, 0.3])
@pytest.mark.parametrize(("scheduler", "noise"), SCHEMES)
def test_rho_counts_the_rounds_in_which_a_user_sends_within_its_budget(scheduler, noise, share):
    model = scenario(2, share)
    found = stages(model, scheduler, noise, range(8))
    samples = found["users"]["samples"].to_numpy().reshape(-1, 15)
    start = found["start_values"]["noise_std"].to_numpy().reshape(-1, 15)
    block = array(found["schedule"].with_columns(pl.col("resource_block").fill_null(-1)), "resource_block", 6)
    added = array(found["noise"], "noise_std", 6)
    planned = math.ceil(6 * share - 1e-9)
    leakage = {(r, u): rho for r, u, rho in found["leakage"].select("realization", "user", "rho").rows()}
    stopped = 0
    for r in range(8):
        for u in range(15):
            sent = [k for k in range(6) if block[r, k, u] >= 0]
            assert len(sent) <= planned
            assert (added[r, [k for k in range(6) if k not in sent], u] == 0).all()
            # 2 L / K_i is how far a round's gradient moves; two rounds an interval.
            rho = sum(2 * (2 / samples[r, u]) ** 2 / (2 * added[r, k, u] ** 2) for k in sent)
            assert leakage.get((r, u), 0.0) == pytest.approx(rho, rel=1e-12)
            # What the same noise leaves in all rounds without planning: the largest of the intervals'.
            static = [ROUNDS * 2 / (samples[r, u] * added[r, k, u] / math.sqrt(planned / 6)) ** 2 for k in sent]
            assert rho <= max(static, default=0.0) * (1 + 1e-12)
            if noise == "random":
                assert rho <= ROUNDS * 2 / (samples[r, u] * start[r, u]) ** 2 * (1 + 1e-12)
            assert rho <= ROUNDS * 2 / 3.5**2 * (1 + 1e-12)  # (22)
            stopped += len(sent) == planned and sent[-1] < 5
    assert (stopped > 10) == (share < 1)
    if share < 1:  # who has spent its budget leaves its blocks to others
        unplanned = array(stages(scenario(2), scheduler, noise, range(8))["schedule"], "power_w", 6) > 0
        assert (block >= 0).any(axis=1).sum() > unplanned.any(axis=1).sum()


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize(("scheduler", "noise"), SCHEMES)
def test_each_interval_is_scheduled_and_accounted_for_as_a_static_channel_is(scheduler, noise, share):
    model = scenario(2, share)
    found = stages(model, scheduler, noise, range(6))
    most = math.ceil(6 * share)
    alone, outcome = [], found["outcome"]
    for k in range(6):
        tables = cut(found, k)
        tables["noise"] = tables["noise"].with_columns(pl.col("noise_std") / math.sqrt(most / 6))
        static = scenario(None)
        tables |= received(static, tables)
        alone.append(stage_of.account(part(static, "account"), tables)["outcome"])
    means = ("objective", "objective_bound", "transmit_energy_j", "air_seconds", "channel_uses")
    for name, combine in (("noise_error", np.max), *((name, np.mean) for name in means)):
        each = np.array([frame[name].to_numpy() for frame in alone], float)
        np.testing.assert_allclose(outcome[name].to_numpy().astype(float), combine(each, axis=0), rtol=1e-12)
    if noise in ("random", "optimal"):
        kept = outcome.filter(pl.col("noise_error") <= 0.4 * (1 + 1e-9))
        assert len(kept) > 0
        np.testing.assert_allclose(kept["objective_gap"], kept["objective"] / kept["objective_bound"] - 1, atol=1e-12)
        proven = np.all([frame["proven_optimal"].fill_null(False).to_numpy() for frame in alone], axis=0)
        assert (kept["proven_optimal"].to_numpy() == proven[kept["realization"].to_numpy()]).all()
        assert proven.any() or not scheduler.startswith("joint") or share < 1
        lost = outcome.filter(pl.col("noise_error") > 0.4 * (1 + 1e-9))
        assert lost.select("objective_gap", "proven_optimal").null_count().row(0) == (len(lost),) * 2


# Training


def softmax_gradients(weights, x, y):
    """Each record's gradient of softmax regression's cross-entropy, flat, shape (record, 650)."""
    logits = x @ weights[:640].reshape(64, 10) + weights[640:]
    excess = np.exp(logits - logits.max(axis=1, keepdims=True))
    excess = excess / excess.sum(axis=1, keepdims=True) - np.eye(10)[y]
    return np.concatenate([(x[:, :, None] * excess[:, None]).reshape(len(x), -1), excess], axis=1)


def mean_gradient(gradients, clipping):
    """A user's, with clipping norm 1."""
    if clipping == "per_user":
        gradients = gradients.mean(axis=0, keepdims=True)
    return (gradients / np.maximum(1, np.linalg.norm(gradients, axis=1, keepdims=True))).mean(axis=0)


@pytest.mark.parametrize("clipping", ["per_sample", "per_user"])
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_training_weighs_each_rounds_own_senders(clipping, share):
    model = scenario(4, share, training={"clipping": clipping, "learning_rate": 0.5})
    found = stages(model, "random", "random", range(2))
    if clipping == "per_user":
        leakage = found["leakage"].join(found["users"], on=["realization", "user"])
        np.testing.assert_allclose(leakage["rho_worst_case"], leakage["rho"] * leakage["samples"] ** 2, rtol=1e-12)
    history = stage_of.train(part(model, "train"), digits(), range(2), found)["history"]
    data = digits()
    samples = found["users"]["samples"].to_numpy().reshape(-1, 15)
    sends, added = array(found["schedule"], "power_w", 3) > 0, array(found["noise"], "noise_std", 3)
    rates = np.where(sends, array(found["schedule"], "rate_bps", 3), np.inf).min(axis=2)  # the slowest of each interval
    spent = np.cumsum(32 * 650 / np.repeat(rates, 4, axis=1), axis=1)
    np.testing.assert_allclose(history.filter(pl.col("round") > 0)["air_seconds_cumulative"], spent.ravel(), rtol=1e-12)
    assert (sends[0, 0] != sends[0, 1]).any()
    for r in range(2):
        owned = deal(len(data.y_train), samples[r], 1, r)
        weights = np.concatenate([w.ravel() for w in glorot_uniform([64, 10], streams.generator(1, "weights", r))])
        key = streams.key(*streams.name_noise(part(model, "train"), r))
        for t in range(ROUNDS):
            senders = np.flatnonzero(sends[r, t // 4])
            share_of = samples[r] / samples[r, senders].sum()
            step = np.zeros(650)
            for user in senders:
                own = softmax_gradients(weights, data.x_train[owned[user]].astype(float), data.y_train[owned[user]])
                step += share_of[user] * mean_gradient(own, clipping)
            std = math.sqrt(sum((share_of[user] * added[r, t // 4, user]) ** 2 for user in senders))
            step += std * tf.random.stateless_normal([650], seed=tf.constant([key, t], tf.int64)).numpy()
            weights = weights - 0.5 * step
            logits = data.x_test @ weights[:640].reshape(64, 10) + weights[640:]
            loss = -log_softmax(logits, axis=1)[np.arange(len(logits)), data.y_test].mean()
            assert history.filter(realization=r, round=t + 1)["loss"].item() == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize(("clip", "share"), [(1e-6, 1.0), (1e6, 0.0)])
def test_clipped_shares_are_of_those_who_send(clip, share):
    model = scenario(4, 0.4, training={"clip_norm": clip})
    found = stages(model, "random", "random", range(1))
    shares = stage_of.train(part(model, "train"), digits(), range(1), found)["history"]["clipped_share"]
    assert shares.to_list() == [None] + [share] * 12


# Audit


AUDITED = {"network": {"users": 20}, "training": {"rounds": 20}, "audit": {"canaries": 4000}}


@pytest.fixture(scope="module")
def audited():
    model = scenario(2, 0.5, **AUDITED)
    return model, stages(model, "random", "random", range(2))


def test_the_audit_finds_what_the_account_states(audited):
    model, found = audited
    rows = stage_of.audit(part(model, "audit"), found)
    assert set(rows["status"]) == {"passed"}
    assert rows["epsilon"][0] == found["outcome"]["epsilon"].max()


def test_the_audit_refutes_noise_of_another_interval_than_the_rounds(audited, monkeypatch):
    model, found = audited
    right = rounds.advance_function

    def advance_function(*given, **more):
        advance = right(*given, **more)
        return lambda state, inputs, *rest, **used: advance(
            state, inputs._replace(noise_std=tf.roll(inputs.noise_std, 1, axis=-1)), *rest, **used
        )

    monkeypatch.setattr(rounds, "advance_function", advance_function)
    assert "deviation of the noise" in violated(stage_of.audit(part(model, "audit"), found))


# Input


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"radio": {"coherence_rounds": 24}}, r"radio.coherence_rounds: 24 does not divide training.rounds: 12"),
        ({"radio": {"coherence_rounds": 0}}, r"radio.coherence_rounds: 0"),
        ({"privacy": {"planned_share": 0.0}}, r"privacy.planned_share: 0"),
        ({"privacy": {"planned_share": 1.1}}, r"privacy.planned_share: 1.1"),
    ],
)
def test_what_cannot_be_planned_is_refused(changes, expected):
    with pytest.raises(ScenarioError, match=expected):
        resolve(merge(TINY, changes), {})
