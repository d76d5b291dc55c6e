"""Observers, colluders and dropouts of `random_orthogonalization`; what the other systems say that lack them."""

from itertools import combinations, product

import numpy as np
import polars as pl
import pytest
from scipy import stats

import stage_of
from pipeline import digits, finished, part
from pwfl import registry, simulate
from pwfl.privacy import accountant, audit, coalition, visibility
from pwfl.scenario import ScenarioError, load, resolve
from pwfl.scenario.resolution import merge
from pwfl.systems.random_orthogonalization import mimo, observers, receive
from pwfl.tables.arrays import to_array
from test_audits import violated
from test_delta import gaussian_epsilon

SYSTEM = "random_orthogonalization"
OBSERVERS = ("update", "antennas", "user")
FALSE_ALARM = 1e-6
TINY = {
    "system": SYSTEM,
    "realizations": 2,
    "training_realizations": 2,
    "network": {"users": 5, "antennas": 6},
    "radio": {"receiver_noise_variance": 0.05, "coherence_rounds": 1},
    "data": {"dataset": "digits", "samples_per_user": 20},
    "privacy": {"user_numbers": [3]},
    "training": {"rounds": 3, "local_steps": 2, "batch_size": 10},
    "schemes": [{"name": "a", "scheduler": "all", "noise": "fixed"}],
    "audit": {"canaries": 50},
}
ONE_CHANNEL = {"radio": {"coherence_rounds": None}}
KEYS = ("realization", "interval", "user")
PLANNED = {"dropouts": 0.3, "delta": 0.5, "dropout_tolerance": 0.3}  # for 2 of 4 others


def scenario(privacy, *changes):
    config = merge(TINY, {"privacy": privacy})
    for change in changes:
        config = merge(config, change)
    return resolve(config, {})


def stages(model, noise="fixed"):
    """The tables of all stages up to account."""
    some = range(model.realizations)
    found = finished(stage_of.channel(part(model, "channel"), some), model)
    found |= finished(stage_of.schedule(part(model, "schedule", "all"), "all", found), model)
    found |= finished(stage_of.noise(part(model, "noise", noise), noise, found), model)
    found |= finished(stage_of.receive(part(model, "receive"), found), model)
    return found | finished(stage_of.account(part(model, "account"), found), model)


def trained(model, found):
    return stage_of.train(part(model, "train"), digits(), range(model.realizations), found)["history"]


# How many are gone


@pytest.mark.parametrize(
    ("chance", "others", "rounds", "tolerance"), [(0.1, 99, 14, 1e-6), (0.3, 4, 3, 0.3), (0.5, 1, 7, 1e-9)]
)
def test_more_are_missing_from_some_round_with_the_tolerated_probability_at_most(chance, others, rounds, tolerance):
    found = coalition.missing(chance, others, rounds, tolerance)
    more = [
        sum(stats.binom.pmf(k, others, chance) for k in range(least + 1, others + 1)) for least in (found - 1, found)
    ]
    assert 1 - (1 - more[1]) ** rounds <= rounds * more[1] <= tolerance < rounds * more[0]


def test_colluders_and_dropouts_are_added_up_to_all_others_at_most():
    rules = scenario(PLANNED | {"colluders": 0.2}).privacy
    assert [observers.gone(rules, users, 3) for users in (1, 2, 5, 9)] == [0, 1, 3, 6]
    nobody = scenario({"dropout_tolerance": 1e-6}).privacy
    assert (observers.gone(nobody, 5, 3), observers.tolerance(nobody), observers.delta(nobody)) == (
        0,
        0.0,
        nobody.delta,
    )
    tenth = scenario({"dropouts": 0.1}).privacy
    assert observers.delta(tenth) == pytest.approx(0.9 * tenth.delta)


@pytest.mark.parametrize("channels", [{}, ONE_CHANNEL], ids=["redrawn", "one"])
@pytest.mark.parametrize("changes", [{"colluders": 0.2}, {"colluders": 0.4}, PLANNED])
def test_no_coalition_sees_more_at_all_antennas_than_is_stated(changes, channels):
    model = scenario(changes, channels)
    found, users, antennas = stages(model), model.network.users, model.network.antennas
    seen = to_array(found["visibility"].filter(observer="antennas"), "visibility", *KEYS)
    sigma, receiver, alpha = np.sqrt(model.privacy.noise_variance), np.sqrt(0.05 / 2), model.radio.amplitude
    several = []
    for realization, t in np.ndindex(2, 3):
        drawn = 1 if channels else t + 1
        channels_of = mimo.channels(model.seed, range(realization, realization + 1), drawn, users, antennas)
        products = mimo.inner_products(channels_of)[0].real
        heard = alpha * np.linalg.cholesky(products + 1e-12 * np.eye(users)).T  # vectors of these products
        for user, size in product(range(users), range(1, users)):
            for gone in combinations([other for other in range(users) if other != user], size):
                std = np.where(np.isin(np.arange(users), gone), 0.0, sigma)
                each = visibility.linear(heard, std, np.full(users, receiver))[user]
                assert each <= seen[realization, t, user] * (1 + 1e-6)
                several.append(each / seen[realization, t, user])
    assert max(several) == pytest.approx(1, rel=1e-6)  # of all others


def test_with_one_channel_what_is_stated_is_one_coalitions_view_of_all_rounds():
    model = scenario({"colluders": 0.4}, ONE_CHANNEL)
    found, users, rounds = stages(model), model.network.users, model.training.rounds
    weights = to_array(found["reception"], "weight", *KEYS)
    sigma, std = (
        np.sqrt(model.privacy.noise_variance),
        to_array(found["noise"], "effective_noise_std", *KEYS[:1], "round"),
    )
    worst = []
    for weight, noise in zip(weights[:, 0], std[:, 0], strict=True):
        for user in range(users):
            others = [other for other in range(users) if other != user]
            left = [noise**2 - sum((weight[k] * sigma) ** 2 for k in gone) for gone in combinations(others, 2)]
            worst.append(rounds * (2 * model.training.clip_norm * weight[user]) ** 2 / min(left))
    stated = found["leakage"].filter(users=users)["mu"].to_numpy() ** 2
    np.testing.assert_allclose(stated, worst, rtol=1e-9)


def test_more_colluders_see_no_less():
    found = [stages(scenario({"colluders": share}))["visibility"] for share in (0.0, 0.2, 0.4, 0.6, 0.8)]
    for column in ("visibility", "visibility_users_only"):
        seen = np.array([frame[column] for frame in found])
        assert (np.diff(seen, axis=0) >= -1e-12 * seen[1:]).all()
        assert (np.diff(seen[:, found[0]["observer"] == "update"], axis=0) > 0).any(axis=1).all()


# Who drops out


def test_users_drop_out_by_themselves_as_often_as_stated():
    chance, shape, realizations = 0.17, (40, 50), range(20)
    heard = receive.sending(scenario({"dropouts": chance}), realizations, shape)
    assert stats.binomtest(int((~heard).sum()), heard.size, chance).pvalue > FALSE_ALARM
    lacking = (~heard).sum(axis=-1).ravel()  # of each round: as independent users lack
    counted = np.bincount(lacking, minlength=shape[1] + 1)
    expected = stats.binom.pmf(range(shape[1] + 1), shape[1], chance) * len(lacking)
    some = expected >= 5
    observed, wanted = (np.append(each[some], each[~some].sum()) for each in (counted, expected))
    assert stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > FALSE_ALARM
    assert not (heard[0] == heard[1]).all()
    assert (heard[3:5] == receive.sending(scenario({"dropouts": chance}), range(3, 5), shape)).all()


def test_who_drops_out_is_the_same_for_all_schemes_and_none_of_the_others_business():
    found = {noise: stages(scenario(PLANNED), noise) for noise in ("fixed", "none")}
    same = [frames["reception"].select(*KEYS, "weight") for frames in found.values()]
    assert same[0].equals(same[1])
    everyone = stages(scenario({}))["reception"].select(*KEYS, "weight")
    assert same[0].equals(everyone.join(same[0], on=KEYS, how="semi", maintain_order="left"))
    assert 0 < len(same[0]) < len(everyone)


def test_without_dropouts_their_tolerance_changes_nothing():
    expected, found = stages(scenario({})), stages(scenario({"dropout_tolerance": 1e-7}))
    assert [name for name in expected if not expected[name].equals(found[name])] == []


@pytest.mark.parametrize("variance", [0.05, 0.0])
@pytest.mark.parametrize("model", ["dense", "cnn"])
def test_of_rounds_in_which_nobody_is_heard_the_receivers_noise_is_left(variance, model):
    radio, data = {"receiver_noise_variance": variance}, {"partition": "iid"}
    lonely = {"network": {"users": 2}, "radio": radio, "data": data, "training": {"model": model}}
    rules = scenario({"dropouts": 0.99, "delta": 0.5, "user_numbers": []}, lonely)
    found = stages(rules)
    silent = found["reception_noise"].join(found["reception"], on=KEYS[:2], how="anti", maintain_order="left")
    assert silent.filter(realization=0).height == 3
    weights = to_array(stages(scenario({"user_numbers": []}, lonely))["reception"], "weight", *KEYS)
    # Re(h_s^H m) / (alpha K), of noise of variance v / 2 in each part, given the channels: ||h_s||^2 = K sum of weights.
    expected = np.sqrt(variance / 2 * weights.sum(axis=-1) / 2) / rules.radio.amplitude
    stated = to_array(found["reception_noise"], "update_noise_std", *KEYS[:2])
    np.testing.assert_allclose(stated[0], expected[0], rtol=1e-9)
    history = trained(rules, found).filter(realization=0)
    assert (history["status"].cast(pl.String) == "trained").all()
    if variance == 0:
        assert history["loss"].n_unique() == 1


# What is stated


@pytest.mark.parametrize("channels", [{}, ONE_CHANNEL], ids=["redrawn", "one"])
@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize("changes", [{}, {"colluders": 0.3}, {"dropouts": 0.01, "dropout_tolerance": 4e-6}])
def test_epsilons_are_of_the_observer_and_of_the_delta_that_dropouts_leave(observer, changes, channels):
    model = scenario({"observer": observer} | changes, channels)
    found = stages(model)
    rows = found["visibility"].filter(observer="update" if observer == "update" else "antennas")
    seen = to_array(rows, "visibility_users_only" if observer == "user" else "visibility", *KEYS)
    mu = 2 * model.training.clip_norm * np.sqrt((seen**2).sum(axis=1))
    left = 6e-6 if "dropouts" in changes else 1e-5
    expected = [max(gaussian_epsilon(each, left) for each in of) for of in mu]
    np.testing.assert_allclose(found["outcome"]["epsilon"], expected, rtol=1e-6)
    outcome = found["outcome"].row(0, named=True)
    assert outcome["delta"] == 1e-5
    assert ("30% of the users" in outcome["observer"]) == ("colluders" in changes)
    assert (outcome["guarantee"] == "proved") == (observer == "user")  # of whom the receiver's noise hides nothing
    assert outcome["epsilon_server"] >= outcome["epsilon"] * (1 - 1e-12)
    if observer == "user":
        np.testing.assert_allclose(mu, 2 * np.sqrt(3 / 0.1), rtol=1e-12)
        quiet = stages(scenario({"observer": "user"}, {"radio": {"receiver_noise_variance": 0.0}}))["outcome"]
        np.testing.assert_allclose(
            quiet["epsilon_server"], stages(scenario({"observer": "user"}))["outcome"]["epsilon_server"]
        )


def test_observers_colluders_dropouts_and_targets_go_together():
    points = list(product(OBSERVERS, (0.0, 0.3), (0.0, 0.2), (None, 4.0)))
    names = ("observer", "colluders", "dropouts", "target_epsilon")
    config = {
        "base": merge(TINY, {"privacy": {"delta": 1e-2}, "training_realizations": 1}),
        "scenarios": {f"s{k}": {"privacy": dict(zip(names, point, strict=True))} for k, point in enumerate(points)},
    }
    scenarios = simulate(config).scenarios
    for k, (observer, colluders, dropouts, target) in enumerate(points):
        found = scenarios[f"s{k}"]
        epsilon = found.stages["outcome"]["epsilon"]
        if target:
            assert ((epsilon <= target * (1 + 1e-9)) & (epsilon > target * (1 - 1e-4))).all()
        assert set(found.stages["history"]["status"].cast(pl.String)) == {"trained"}
        checked = found.report["audit"]
        assert set(checked["status"].cast(pl.String)) == {"passed"}, (observer, colluders, dropouts)
        assert len(checked) > 10


# What the audit sees


AUDITED = {"colluders": 0.4}


def audited(model):
    found = stages(model)
    return stage_of.audit(part(model, "audit"), found)


@pytest.mark.parametrize("channels", [{}, ONE_CHANNEL], ids=["redrawn", "one"])
def test_colluders_that_are_not_accounted_for_are_seen(monkeypatch, channels):
    assert not violated(audited(scenario(AUDITED, channels)))
    monkeypatch.setattr(observers, "gone", lambda *given: 0)
    assert audit.RECORD in violated(audited(scenario(AUDITED, channels)))


def test_dropouts_that_are_not_accounted_for_are_seen(monkeypatch):
    many = scenario({"dropouts": 0.6, "delta": 1e-2})
    assert not violated(audited(many))
    monkeypatch.setattr(observers, "gone", lambda *given: 0)
    assert audit.RECORD in violated(audited(many))


def test_too_little_noise_of_a_user_is_seen_by_who_sees_its_updates(monkeypatch):
    model = scenario({"observer": "user"})
    assert not violated(audited(model))
    right = accountant.accounts

    def accounts(given, *rest):
        visible = given["visibility"].with_columns(pl.col("visibility", "visibility_users_only") * 0.98)
        return right(given | {"visibility": visible}, *rest)

    monkeypatch.setattr(accountant, "accounts", accounts)
    assert audit.LEAST in violated(audited(model))


def test_the_audit_says_what_it_does_not_test():
    model = scenario({"observer": "antennas"} | AUDITED)
    found = stages(model)
    frame = stage_of.audit(part(model, "audit"), found)
    (said,) = frame["observer"].unique()
    assert said == (
        "server's update of every round, channels known; the loudest colluders' noise taken off; not tested: all else "
        "that its antennas show"
    )
    against = found["guarantees"].filter(unit="record", noise_from=accountant.ALL)
    most = {of: against.filter(observer=of)["epsilon"].max() for of in ("update", "antennas")}
    assert frame["epsilon"].unique().to_list() == [most["update"]]  # of who sees what is tested
    assert most["update"] < most["antennas"] == found["outcome"]["epsilon"].max()


# What is refused


@pytest.mark.parametrize("system", registry.BUILT_IN)
@pytest.mark.parametrize(
    ("key", "value"),
    [("privacy.observer", "user"), ("privacy.colluders", 0.1), ("privacy.dropouts", 0.1), ("training.bits", 12)],
)
def test_what_a_system_lacks_is_refused_with_the_reason(system, key, value):
    section, name = key.split(".")
    written = {"base": {"system": system, section: {name: value}}, "scenarios": {"a": {}}}
    swept = {"base": {"system": system, "sweep": {key: [value]}}, "scenarios": {"a": {}}}
    having = ("multicell",) if key == "training.bits" else ("multicell", SYSTEM)
    if system in having:
        assert load(swept, "file.yaml").scenarios
        return
    reason = registry.system(system).model.lacks[key]
    said = f"{key}: {system} has no such parameter: {reason}; systems that have it: {', '.join(having)}"
    for config, place in ((written, "base."), (swept, "base.sweep: ")):
        with pytest.raises(ScenarioError) as error:
            load(config, "file.yaml")
        assert str(error.value) == f"file.yaml: {place}{said}"


@pytest.mark.parametrize("tolerance", [1e-5, 1e-3])
def test_dropouts_are_tolerated_with_a_part_of_delta_alone(tolerance):
    with pytest.raises(ScenarioError, match=r"privacy.dropout_tolerance: .* is part of privacy.delta: 1e-05"):
        scenario({"dropouts": 0.1, "dropout_tolerance": tolerance})
    assert scenario({"dropout_tolerance": tolerance})  # without dropouts, it says nothing
