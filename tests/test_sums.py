"""Observers who see sums of `multicell`: who is gone, what hides a record, training with dropouts, audits, edge cases."""

import math
from itertools import combinations, product

import dp_accounting
import numpy as np
import polars as pl
import pytest
from dp_accounting import pld
from polars.testing import assert_frame_equal
from scipy import optimize, stats

import stage_of
import two_level
from conftest import in_turn
from pipeline import digits, finished, part, received
from pwfl import registry
from pwfl.privacy import audit
from pwfl.privacy.gaussian import zcdp
from pwfl.scenario import resolve
from pwfl.scenario.resolution import merge
from pwfl.systems.multicell.assigned import KEYS
from pwfl.systems.multicell.beyond import sums
from pwfl.systems.multicell.train import parts
from pwfl.tables.arrays import to_array
from pwfl.training import trainings
from test_audits import violated
from test_faults import LOW, clipping, deviation, one_vector_for_all_users

FALSE_ALARM = 1e-6
TINY = merge(
    registry.system("multicell").catalog.tiny,
    {"network": {"users": 30}, "privacy": {"min_noise": 3.5}, "training": {"rounds": 12}},
)
ONE_CELL = {"network": {"rings": 0, "users": 4}, "radio": {"resource_blocks": 1}}
TWO_IN_TEN = {"observer": "network", "colluders": 0.2, "dropouts": 0.1}


def scenario(privacy, **changes):
    return resolve(merge(merge(TINY, {"privacy": privacy}), changes), {})


def stages(model, scheduler="random", noise="random", realizations=range(3)):
    """The tables of all stages up to account."""
    found = finished(stage_of.channel(part(model, "channel"), realizations), model)
    found |= finished(stage_of.schedule(part(model, "schedule", scheduler), scheduler, found), model)
    found |= finished(stage_of.noise(part(model, "noise", noise), noise, found), model)
    found |= finished(received(model, found), model)
    return found | finished(stage_of.account(part(model, "account"), found), model)


def privacy(**changes):
    return scenario(changes).privacy


# Who is gone


@pytest.mark.parametrize(("share", "tolerance"), [(0.1, 0.1), (0.3, 0.01), (0.5, 0.45), (0.02, 1e-6)])
def test_as_many_drop_out_as_a_sum_of_binomials_says(share, tolerance):
    rules = privacy(dropouts=share, dropout_tolerance=tolerance)
    for n in range(1, 60):
        tails = [
            sum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(d + 1, n + 1)) for d in range(n)
        ]
        least = next((d for d, tail in enumerate(tails) if tail <= tolerance), n)
        assert sums.dropping(rules, np.array(n)) == least
    assert sums.dropping(privacy(dropouts=0.0), np.array([0, 5])).tolist() == [0, 0]


def test_a_share_of_the_senders_colludes_rounded_up_but_never_all():
    for tenths, n in product(range(10), range(1, 40)):
        expected = min(-(-tenths * n // 10), n - 1)
        assert sums.colluding(privacy(colluders=tenths / 10), np.array(n)) == expected
    assert sums.honest(privacy(colluders=0.9, dropouts=0.5), np.arange(1, 8)).min() == 1


# What hides a record


@pytest.mark.parametrize("seed", range(20))
def test_the_noise_that_hides_a_record_is_what_the_worst_coalition_leaves(seed):
    generator = np.random.default_rng(seed)
    rules = privacy(colluders=generator.choice([0.0, 0.2, 0.5, 0.9]), dropouts=generator.choice([0.0, 0.1, 0.4]))
    shape = (3, 6)
    sends, group = generator.random(shape) < 0.8, generator.integers(0, 3, shape)
    noise, counts = generator.lognormal(0, 2, shape), generator.lognormal(0, 1, shape)
    counts = np.where(sends, counts, 0.0)
    senders = sums.total(sends * 1.0, group).astype(int)
    gone = sums.colluding(rules, senders) + sums.dropping(rules, senders)
    found = sums.hiding_noise(counts, noise, sends, group, gone)
    for row, user in zip(*np.nonzero(sends), strict=True):
        members = [j for j in range(6) if sends[row, j] and group[row, j] == group[row, user] and j != user]
        gone = sums.colluding(rules, np.array(len(members) + 1)) + sums.dropping(rules, np.array(len(members) + 1))
        amount = (counts[row] * noise[row]) ** 2
        left = [
            sum(amount[j] for j in members if j not in lost)
            for k in range(min(gone, len(members)) + 1)
            for lost in combinations(members, k)
        ]
        expected = math.sqrt(amount[user] + min(left)) / counts[row, user]
        assert expected * (1 - 1e-13) <= found[row, user] * (1 + 1e-15) <= expected * (1 + 2e-15)
    assert (found[~sends] == 0).all()


@pytest.mark.parametrize(("n", "gone"), [(5, 0), (5, 2), (6, 4), (4, 3)])
def test_equal_shares_have_the_least_total_noise(n, gone):
    # By a general solver: the least sum of s_i^2 with which no coalition leaves less than V = 1.
    h = n - gone
    rows = [[-1.0 if j in kept else 0.0 for j in range(n)] for kept in combinations(range(n), h)]
    least = optimize.linprog(np.ones(n), A_ub=rows, b_ub=-np.ones(len(rows))).fun
    samples = np.array([[[12.0, 7.0, 20.0, 1.0, 16.0, 3.0][:n]]])
    everyone, group = np.full((1, 1, n), True), np.zeros((1, 1, n), int)
    rules = privacy(observer="network", colluders=gone / n)
    found = sums.shared_noise(rules, samples, 1 / samples, everyone, group)  # alone, each has s_i = 1
    assert ((samples * found) ** 2).sum() == pytest.approx(least, rel=1e-9)
    hiding = sums.hiding_noise(samples, found, everyone, group, np.full(group.shape, gone))
    np.testing.assert_allclose(samples * hiding, 1.0, rtol=1e-12)


@pytest.mark.parametrize("observer", ["cell", "network"])
@pytest.mark.parametrize("scheme", [("random", "random"), ("joint_snr", "equal_max"), ("optimal", "target")])
def test_of_one_sender_all_observers_see_the_same(observer, scheme):
    more = ONE_CELL if observer == "network" else {"radio": {"resource_blocks": 1}}
    more = more | {"training": {"recipe": "inverse_variance", "step": "snr"}}
    given = {"target_epsilon": 3.0, "colluders": 0.9, "dropouts": 0.0}
    alone = scenario({"observer": "user"} | given, **more)
    model = scenario({"observer": observer} | given, **more)
    expected, found = (stages(each, *scheme) for each in (alone, model))
    if observer == "cell" and scheme[1] == "random":  # each has noise of its own
        assert found["outcome"]["rho_worst_user"].to_list() == pytest.approx(
            expected["outcome"]["rho_worst_user"].to_list()
        )
        return
    for table, columns in (("noise", ["noise_std"]), ("leakage", ["rho", "rho_own_noise", "epsilon"])):
        assert_frame_equal(found[table].select(columns), expected[table].select(columns), check_exact=True)
    histories = [
        stage_of.train(part(each, "train"), digits(), range(2), tables)["history"]
        for each, tables in ((alone, expected), (model, found))
    ]
    columns = ["round", "accuracy", "loss"]
    assert_frame_equal(histories[0].select(columns), histories[1].select(columns), check_exact=True)


def test_with_weights_by_inverse_variance_the_network_reads_a_records_share_of_rho():
    generator = np.random.default_rng(1)
    samples, noise = generator.integers(5, 60, (1, 8)), generator.lognormal(0, 1, (1, 8))
    weight = noise**-2 / (noise**-2).sum()
    everyone, one = np.full((1, 8), True), np.zeros((1, 8), int)
    hiding = sums.hiding_noise(weight, noise, everyone, one, 0 * one)
    np.testing.assert_allclose(zcdp(2 / samples, hiding, 10), weight * zcdp(2 / samples, noise, 10), rtol=1e-12)


OF_NOISE = ("samples", "noise_std")


def of_senders(tables, *columns):
    frame = tables["schedule"].select(*KEYS, scheduled=pl.col("resource_block").is_not_null())
    frame = frame.join(tables["noise"], on=KEYS).join(tables["users"], on=["realization", "user"]).sort(KEYS)
    return [to_array(frame, name, *KEYS) for name in ("scheduled", *columns)]


@pytest.mark.parametrize("coherence", [None, 3])
@pytest.mark.parametrize("observer", ["cell", "network"])
def test_everyone_who_sends_most_is_left_with_the_worst_records_leakage(observer, coherence):
    fading = {"radio": {"coherence_rounds": coherence}}
    model = scenario({"observer": observer, "colluders": 0.3, "dropouts": 0.1}, **fading)
    found, alone = stages(model), stages(scenario({}, **fading))
    sends, samples, noise_std, cell = of_senders(found, "samples", "noise_std", "cell")
    _, before = of_senders(alone, "noise_std")
    clip, each = model.training.clip_norm, model.training.rounds // sends.shape[1]
    for r in range(len(sends)):
        least = ((samples * before)[r][sends[r]] ** 2).min()
        rho = 2 * model.training.rounds * clip**2 / least  # of the worst-off record, if it is sent in all rounds
        outcome = found["outcome"].row(r, named=True)
        assert outcome["rho_worst_user"] == pytest.approx(rho, rel=1e-9)
        total = np.zeros(sends.shape[2])
        for t, user in zip(*np.nonzero(sends[r]), strict=True):
            mine = sends[r, t] & ((cell[r, t] == cell[r, t, user]) | (observer == "network"))
            n = mine.sum()
            h = max(1, n - min(math.ceil(0.3 * n - 1e-9), n - 1) - stats.binom.ppf(0.9, n, 0.1))
            shares = (samples[r, t, mine] * noise_std[r, t, mine]) ** 2
            np.testing.assert_allclose(shares, shares[0], rtol=1e-9)
            total[user] += each * 2 * clip**2 / (h * shares[0])
        leakage = found["leakage"].filter(realization=found["outcome"]["realization"][r])
        np.testing.assert_allclose(leakage["rho"], total[total > 0], rtol=1e-9)
    assert (found["leakage"]["rho_own_noise"] >= found["leakage"]["rho"] * (1 - 1e-12)).all()
    if coherence is None:  # at the same maximum, (21) holds wherever it did
        assert (found["outcome"]["noise_error"] <= alone["outcome"]["noise_error"] + 1e-12).all()


def test_epsilons_are_those_of_the_composed_rounds():
    model = scenario(TWO_IN_TEN)
    found = stages(model, realizations=range(1))
    sends, samples, noise_std = of_senders(found, "samples", "noise_std")
    share = (samples * noise_std)[sends] ** 2
    n = len(share)
    left = np.sort(share)[: n - math.ceil(0.2 * n - 1e-9) - int(stats.binom.ppf(0.9, n, 0.1))].sum()
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    event = dp_accounting.GaussianDpEvent(math.sqrt(left) / (2 * model.training.clip_norm))
    epsilon = accountant.compose(event, model.training.rounds).get_epsilon(model.privacy.delta)
    assert found["outcome"]["epsilon"][0] == pytest.approx(epsilon, rel=1e-4)
    of_all = found["guarantees"].filter(observer="network", unit="record")["epsilon"]
    assert of_all.to_list() == found["outcome"]["epsilon"].to_list()


def test_every_observer_reads_the_run_by_its_own_sums():
    for observer in sums.OBSERVERS:
        found = stages(scenario({"observer": observer, "colluders": 0.2}))
        stated = found["guarantees"].filter(unit="record", noise_from="users").sort("realization")
        of = {name: stated.filter(observer=name)["epsilon"] for name in sums.OBSERVERS}
        assert of[observer].to_list() == found["outcome"]["epsilon"].drop_nulls().to_list()
        # What sums hide, single uploads do not.
        assert (of["user"] >= of["cell"]).all()
        assert (of["user"] > of["network"]).any()
    # Cells of two senders each, one of whom colludes: own noise is left.
    found = stages(scenario({"observer": "cell", "colluders": 0.5}))["leakage"]
    assert (found["rho"] == found["rho_own_noise"]).all()


def test_observers_are_told_apart_in_words():
    rows = [stages(scenario(given))["outcome"].row(0, named=True) for given in ({}, {"observer": "cell"}, TWO_IN_TEN)]
    assert len({row["observer"] for row in rows}) == 3
    assert "20% of a sum's senders collude" in rows[2]["observer"]
    assert [row["epsilon_trusts"] for row in rows] == ["", *["secure aggregation"] * 2]
    assert all(row["guarantee"] == "proved" for row in rows)
    nothing = stages(scenario(TWO_IN_TEN), noise="none")
    assert set(nothing["outcome"]["guarantee"]) == {"none"}
    assert nothing["guarantees"].filter(observer="network")["epsilon"].is_infinite().all()


# Schedules and costs


def test_a_sum_is_scheduled_for_its_records():
    most = {}
    for observer in ("user", "network"):
        found = stages(scenario({"observer": observer}), "joint_snr", "equal_max", range(10))
        assert set(found["schedule_status"]["status"]) == {"proven"}
        sends, samples = of_senders(found, "samples")
        most[observer] = [(np.where(sends, samples, 0.0) ** power).sum(axis=(1, 2)) for power in (1, 2)]
    assert (most["network"][0] >= most["user"][0]).all()
    assert (most["network"][1] <= most["user"][1]).all()


def test_secure_aggregation_costs_what_its_messages_take():
    alone, summed = (stages(scenario({"observer": observer}))["outcome"] for observer in ("user", "cell"))
    found = stages(scenario({"observer": "cell"}))
    sent = found["schedule"].drop_nulls("resource_block").join(found["users"], on=["realization", "user"])
    for r in range(3):
        users = sent.filter(realization=r)
        n = [users.filter(cell=cell).height for cell in users["cell"]]
        bytes_each = [64 + 92 * (k - 1) + 32 * k for k in n]  # keys; sealed pairs of shares; shares of survivors
        bits = np.array([12 * (32 * 650 + 8 * more) for more in bytes_each])
        seconds = bits / users["rate_bps"].to_numpy()
        assert summed["air_seconds"][r] == pytest.approx(seconds.max())
        assert summed["transmit_energy_j"][r] == pytest.approx((seconds * users["power_w"].to_numpy()).sum())
    assert (summed["air_seconds"] > alone["air_seconds"]).all()


# Training


def begun(model, tables):
    parameters = part(model, "train")
    return trainings.training(parts(parameters, digits(), tables), parameters, digits(), tables).begin


def test_a_sum_that_lacks_more_than_planned_is_not_opened_and_others_are():
    rules = privacy(observer="cell", dropouts=0.2)
    group = np.repeat(np.arange(4), [1, 5, 5, 9])[None]
    sends = np.arange(20)[None] % 7 != 3
    heard = sums.rounds_heard(rules, sends, group, 20_000, np.random.default_rng(2))
    for g in range(4):
        mine = np.flatnonzero((group[0] == g) & sends[0])
        missing, planned = len(mine) - heard[:, mine].sum(axis=1), int(sums.dropping(rules, np.array(len(mine))))
        opened = missing < len(mine)
        assert missing[opened].max() <= planned
        law = stats.binom.pmf(np.arange(len(mine) + 1), len(mine), 0.2)
        law[planned + 1 :], law[-1] = 0, law[planned + 1 :].sum() + (law[-1] if planned == len(mine) else 0)
        counts = np.bincount(missing, minlength=len(law))
        kept = law > 0
        assert not counts[~kept].any()
        assert stats.chisquare(counts[kept], 20_000 * law[kept] / law[kept].sum()).pvalue > FALSE_ALARM
    assert not heard[:, ~sends[0]].any()


@pytest.mark.parametrize("coherence", in_turn([None, 2], 2))
def test_what_is_missing_counts_as_zero(coherence):
    more = {
        "network": {"users": 15},
        "training": {"rounds": 4, "learning_rate": 0.5, "hidden_layers": [8], "evaluate_every": 4},
        "radio": {"coherence_rounds": coherence},
    }
    model, data = scenario({"observer": "cell", "dropouts": 0.3, "dropout_tolerance": 0.5}, **more), digits()
    tables = stages(model)
    quiet = tables | {"noise": tables["noise"].with_columns(noise_std=pl.col("noise_std") * 0)}
    quiet |= received(model, quiet)
    found = stage_of.train(part(model, "train"), data, range(1), quiet)["history"]
    start, (scheduled, samples) = begun(model, quiet)(0), (part[0] for part in of_senders(tables, "samples"))
    planned, weights = np.repeat(scheduled, 4 // len(scheduled), axis=0), start.weights
    assert 0 < start.reception.sends.sum() < planned.sum()
    for sent, heard in zip(planned, start.reception.sends, strict=True):
        total = [np.zeros(w.shape) for w in weights]
        for user in np.flatnonzero(heard):
            rows = start.user_records[user]
            mean = two_level.mean_clipped_gradient(weights, data.x_train[rows], data.y_train[rows], 1.0)
            total = [a + len(rows) * g for a, g in zip(total, mean, strict=True)]
        weights = [w - 0.5 * a / samples[0, sent].sum() for w, a in zip(weights, total, strict=True)]
    assert found["loss"][-1] == pytest.approx(float(two_level.loss(weights, data.x_test, data.y_test)), rel=1e-4)


def test_noise_is_that_of_the_senders_who_are_heard(monkeypatch):
    model = scenario({"observer": "network", "dropouts": 0.3}, training={"recipe": "inverse_variance", "step": "snr"})
    found = stages(model)
    start, (sends, samples, noise_std) = begun(model, found)(0), (part[0, 0] for part in of_senders(found, *OF_NOISE))
    planned, shares = (samples * sends).sum(), (samples * noise_std) ** 2
    expected = [math.sqrt(shares[heard].sum()) / planned for heard in start.reception.sends]
    np.testing.assert_allclose(start.noise_std, expected, rtol=1e-6)
    assert len(set(start.noise_std.tolist())) > 1
    np.testing.assert_allclose(start.steps, start.steps[0])  # those of the noise as planned
    monkeypatch.setattr(sums, "rounds_heard", lambda privacy, sends, *_: np.zeros((12, sends.shape[1]), bool))
    nobody = begun(model, found | received(model, found))(0)
    assert not nobody.noise_std.any()
    np.testing.assert_array_equal(nobody.steps, start.steps)


# Audits


@pytest.fixture(scope="module")
def audited():
    more = {"training": {"hidden_layers": [8], "rounds": 20}, "audit": {"canaries": 1600}}
    model = scenario(TWO_IN_TEN, **more)
    return part(model, "audit"), stages(model), model


def test_the_audit_passes_the_code_as_it_is(audited):
    frame = stage_of.audit(*audited[:2])
    assert not violated(frame)
    first = frame["observer"][0]
    assert "sum of the network" in first
    assert "the coalition's noise taken off" in first
    assert frame["epsilon"][0] == audited[1]["outcome"]["epsilon"].max()


def test_colluders_left_out_of_noise_and_accounts_are_seen(audited, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(sums, "colluding", lambda privacy, senders: 0 * np.asarray(senders, int))
        found = stages(audited[2])
    assert audit.RECORD in violated(stage_of.audit(audited[0], found))


def test_dropouts_that_noise_was_not_planned_for_are_seen(audited, monkeypatch):
    planned, heard = sums.left_to, sums.rounds_heard
    with monkeypatch.context() as patched:
        nobody = privacy(**(TWO_IN_TEN | {"dropouts": 0.0}))
        patched.setattr(sums, "left_to", lambda observer, privacy, *given: planned(observer, nobody, *given))
        assert audit.RECORD in violated(stage_of.audit(audited[0], stages(audited[2])))
    more = privacy(**(TWO_IN_TEN | {"dropouts": 0.5}))
    monkeypatch.setattr(sums, "rounds_heard", lambda privacy, *given: heard(more, *given))
    assert audit.RECORD in violated(stage_of.audit(audited[0], stages(audited[2])))


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        (one_vector_for_all_users, "noise of all users"),
        (deviation(LOW), "deviation of the noise"),
        (clipping(lambda clip: 2 * clip), "sensitivity"),
    ],
    ids=["one vector for all", "noise 2 % low", "clipped to twice"],
)
def test_faults_in_a_sum_are_seen(audited, monkeypatch, fault, test):
    fault(monkeypatch)
    assert test in violated(stage_of.audit(audited[0], stages(audited[2])))
