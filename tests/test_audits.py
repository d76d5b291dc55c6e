"""The audits of all systems: they pass the code as it is, and see what is put wrong in it."""

import dataclasses
import re
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import tensorflow as tf
from scipy import stats

import stage_of
from conftest import in_turn
from pipeline import part, received
from pwfl import registry, scenario, streams
from pwfl.errors import speaks
from pwfl.execution.audit import AuditError
from pwfl.learning import adversarial, features, philox
from pwfl.privacy import audit
from pwfl.privacy.gaussian import exact_epsilon
from pwfl.process import devices
from pwfl.scenario.values import replaced
from pwfl.systems.age_aware import markov
from pwfl.systems.age_aware import rounds as age_aware
from pwfl.systems.anonymous_oac import train as anonymous_oac_train
from pwfl.systems.multicell import train as multicell_train
from pwfl.systems.utility_fair import local_steps
from pwfl.systems.utility_fair import rounds as utility_fair
from pwfl.tables.reception import Reception
from pwfl.training import audit as of_training
from pwfl.training import dense, gradients, integers, local_sgd, rounds
from pwfl.training.audits import audited as of_audits
from pwfl.training.audits import model as of_model
from pwfl.training.audits import noise as of_silence
from pwfl.training.audits import signal as of_signal
from pwfl.training.gradients import Gradients

DIGITS = {"dataset": "digits"}
SCENARIOS = {
    "multicell": {
        "network": {"users": 20},
        "radio": {"resource_blocks": 2},
        "data": DIGITS | {"samples_offset": 10, "samples_log_mean": 2.5},
        "privacy": {"min_noise": 3.5, "max_noise_error": 0.4},
        "training": {"hidden_layers": [16, 8], "rounds": 20, "clip_norm": 1.0},
    },
    "random_orthogonalization": {
        "network": {"users": 5, "antennas": 16},
        "data": DIGITS | {"samples_per_user": 20},
        "privacy": {"user_numbers": [5]},
        "training": {"rounds": 6, "local_steps": 3, "batch_size": 10},
    },
    "utility_fair": {
        "network": {"devices": 4},
        "data": DIGITS | {"samples_per_device": 20},
        "device": {"batch_size": 10},
        "training": {"rounds": 6, "hidden_layers": [16, 8]},
    },
    "age_aware": {"schedule": {"horizon": 10}, "privacy": {"target_epsilons": [1.0]}, "audit": {"canaries": 500}},
    "anonymous_oac": {
        "network": {"devices": 10, "participation": 0.5},
        "data": DIGITS | {"samples": 4, "sampling": 0.5},
        "privacy": {"noise_multiplier": 1.0},
        "training": {"hidden_layers": [16], "rounds": 12},
        "audit": {"canaries": 2000},
    },
}
CLIPPED = {"privacy": {"uploads": "noisy", "target_epsilon": 8.0}, "training": {"clip_norm": 0.2}}
PER_USER = {"training": {"clipping": "per_user"}, "audit": {"canaries": 300}}
FADING = {"radio": {"coherence_rounds": 10}, "training": {"recipe": "inverse_variance"}}
CNN = {"training": {"model": "cnn", "recipe": "inverse_variance"}, "radio": {"coherence_rounds": 10}}
VARIANTS = {"age_aware": ("bound_constant", "constant")}
OWN = {"training": {"model": f"{Path(__file__).parent / 'own_network.py'}:network"}}
INTEGERS = {
    "privacy": {"observer": "network", "min_noise": 12.0, "max_noise_error": 9.0},
    "training": {"bits": 12, "rounds": 6, "hidden_layers": [], "recipe": "zero_start"},
}
NO_NOISE = {
    "multicell": ("optimal", "none"),
    "anonymous_oac": ("over_the_air", "none"),
    "utility_fair": ("utility", "none"),
    "utility_fair, clipped": ("utility", "none"),
    "age_aware": ("random", "none"),
}
# Tested records make some users' steps diverge, and rounding errors of others grow to percents of the loss.
MANY_STEPS = {"training": {"model": "cnn", "local_steps": 30}}
WAYS = {  # a system's name, changes of its scenario, and a scheme other than the first
    "multicell": ("multicell", {}, None),
    "multicell, users clipped": ("multicell", PER_USER, None),
    "multicell, fading": ("multicell", FADING, None),
    "multicell, convolutions": ("multicell", CNN, None),
    "multicell, own model": ("multicell", OWN, None),
    "multicell, integers": ("multicell", INTEGERS, None),
    "random_orthogonalization": ("random_orthogonalization", {}, None),
    "random_orthogonalization, convolutions": ("random_orthogonalization", MANY_STEPS, None),
    "utility_fair": ("utility_fair", {}, None),
    "utility_fair, noisy uploads": ("utility_fair", {"privacy": {"uploads": "noisy"}}, None),
    "utility_fair, clipped": ("utility_fair", CLIPPED, None),
    "age_aware": ("age_aware", {}, None),
    "anonymous_oac": ("anonymous_oac", {}, None),
    "anonymous_oac, known": ("anonymous_oac", {}, ("over_the_air", "identified")),
    "anonymous_oac, two": ("anonymous_oac", {"network": {"devices": 2, "participation": 0.2}}, None),
    "anonymous_oac, local": ("anonymous_oac", {"audit": {"canaries": 500}}, ("orthogonal", "local")),
    "anonymous_oac, fixed": ("anonymous_oac", {}, ("over_the_air", "anonymous_fixed")),
}


def stages(system, changes=None, variant=None):
    """The part of the scenario that the audit reads, and the tables that it reads."""
    model = scenario.resolve(
        {"system": system, "realizations": 3, "training_realizations": 2} | SCENARIOS[system], changes or {}
    )
    scheduler, kind = variant or VARIANTS.get(system) or (model.schemes[0].scheduler, model.schemes[0].noise)
    first = int(system == "anonymous_oac")  # its curves over rounds, which take 5 s, come with realization 0
    found = stage_of.channel(part(model, "channel"), range(first, first + 2))
    found |= stage_of.schedule(part(model, "schedule", scheduler), scheduler, found)
    found |= stage_of.noise(part(model, "noise", kind), kind, found)
    found |= received(model, found)
    found |= stage_of.account(part(model, "account"), found)
    return part(model, "audit"), found


@pytest.fixture(scope="module")
def made():
    """A function that gives `stages` of a way, made once."""
    kept = {}

    def of(way):
        if way not in kept:
            kept[way] = stages(*WAYS[way])
        return kept[way]

    return of


def violated(frame):
    return set(frame.filter(status="failed")["test"])


QUICK = ("multicell", "random_orthogonalization", "utility_fair, clipped", "age_aware", "anonymous_oac")
QUICK += ("anonymous_oac, local",)  # where who does not send adds no noise


@pytest.mark.parametrize("way", in_turn(WAYS, *QUICK))
def test_the_code_as_it_is_passes(made, way):
    parameters, found = made(way)
    frame = stage_of.audit(parameters, found)
    assert set(frame["status"]) == {"passed"}
    stated = "epsilon_worst_case" if way == "multicell, users clipped" else "epsilon"
    assert frame["epsilon"][0] == found["outcome"][stated].max()
    # Every system's noise is tested, and a deviation 1.5 % too small is seen.
    assert frame.filter(test="deviation of the noise")["detectable"].max() < 0.015


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_code_as_it_is_passes_with_every_seed(made, way):
    # Some 300 seeds, and 10,000 verdicts of one false alarm in a million.
    parameters, found = made(way)
    parameters = replaced(parameters, "audit.canaries", min(parameters.audit.canaries, 200))
    for seed in range(-(-300 // len(WAYS))):
        assert not violated(stage_of.audit(replaced(parameters, "seed", seed), found)), seed


def replace(monkeypatch, right, wrong):
    """Put a function in the place of another one, in all modules of the package that call it by its name."""
    for system in map(registry.system, registry.systems()):
        for stage in ("train", "audit"):  # imported later, they would keep the wrong one
            system.parts[stage].load()
    for name, module in list(sys.modules.items()):
        if name.startswith("pwfl.") and getattr(module, right.__name__, None) is right:
            monkeypatch.setattr(module, right.__name__, wrong)


def of_noise(module, name, place, change):
    """A function that takes a deviation at one place of its arguments takes another one."""

    def fault(monkeypatch):
        right = getattr(module, name)

        def wrong(*arguments):
            arguments = list(arguments)
            arguments[place] = change(arguments[place])
            return right(*arguments)

        replace(monkeypatch, right, wrong)

    return fault


def of_copies(change):
    """A change of deviations, of those of copies in a round's noise."""
    return lambda noise: noise._replace(copy_std=change(noise.copy_std))


def one_key(monkeypatch):
    right = streams.key
    monkeypatch.setattr(streams, "key", lambda seed, purpose, realization: right(seed, purpose, 0))


def one_stream_for_all_schemes(monkeypatch):
    monkeypatch.setattr(streams, "name_noise", lambda scenario, run, purpose="noise", *_: (scenario.seed, purpose, run))


def unclipped(module, name):
    def fault(monkeypatch):
        right = getattr(module, name)
        replace(monkeypatch, right, lambda parts, norm: right(parts, 1e30))

    return fault


def not_near(monkeypatch):
    replace(monkeypatch, utility_fair.near, lambda update, known, radius: update)


def gradients_not_clipped(monkeypatch):
    right = local_steps.gradients
    monkeypatch.setattr(local_steps, "gradients", lambda weights, x, y, radius=None: right(weights, x, y))


def one_stream_for_both_messages(monkeypatch):
    right, copies, first = utility_fair.noisy_uploads, utility_fair.noisy_copies, []

    def wrong(parts, std, draws, key, devices):
        first.append(key)
        return right(parts, std, draws, first[0], devices)

    def begun(*arguments):  # copies come first in a round
        first.clear()
        return copies(*arguments)

    replace(monkeypatch, right, wrong)
    replace(monkeypatch, copies, begun)


def one_vector_for_all(monkeypatch):
    right = utility_fair.noisy_copies

    def wrong(weights, noise, draws, vectors):
        return right(weights, noise._replace(vectors=tf.zeros_like(noise.vectors)), draws, vectors)

    replace(monkeypatch, right, wrong)


def sums_of_records(monkeypatch):
    right = age_aware.sample_means
    replace(monkeypatch, right, lambda generator, clients, *a: 2 * right(generator, clients, *a))


def another_chain(monkeypatch):
    right = markov.reverse_kernels
    monkeypatch.setattr(
        markov, "reverse_kernels", lambda transition, start, horizon: right(transition.T, start, horizon)
    )


HALF, LOW = (lambda std: std / 2), (lambda std: std * 0.98)
DEVIATION, SENSITIVITY = "deviation of the noise", "sensitivity"
FAULTS = {  # way, fault -> what sees it
    ("utility_fair", "half the noise"): (of_noise(utility_fair, "noisy_copies", 1, of_copies(HALF)), DEVIATION),
    ("utility_fair", "noise 2 % low"): (of_noise(utility_fair, "noisy_copies", 1, of_copies(LOW)), DEVIATION),
    ("utility_fair", "one vector for all"): (one_vector_for_all, "noise of different messages of a round"),
    ("utility_fair, noisy uploads", "half the noise"): (of_noise(utility_fair, "noisy_uploads", 1, HALF), DEVIATION),
    ("utility_fair, clipped", "gradients not clipped"): (gradients_not_clipped, "sensitivity of the gradient"),
    ("utility_fair, clipped", "updates not clipped"): (unclipped(utility_fair, "clipped"), "sensitivity of the update"),
    ("utility_fair, clipped", "updates anywhere"): (not_near, "sensitivity of the update"),
    ("utility_fair, clipped", "one stream for both"): (
        one_stream_for_both_messages,
        "noise of different messages of a round",
    ),
    ("age_aware", "half the noise"): (of_noise(age_aware, "uploads", 1, HALF), "scale of the noise"),
    ("age_aware", "noise 2 % low"): (of_noise(age_aware, "uploads", 1, LOW), "scale of the noise"),
    ("age_aware", "twice the sensitivity"): (sums_of_records, SENSITIVITY),
    **{
        (system, "the same noise in all schemes"): (
            one_stream_for_all_schemes,
            f"noise of different {'schemes' if system == 'age_aware' else 'runs'}",
        )
        for system in ("utility_fair", "age_aware")
    },
}


# Half the noise is seen where 2 % of it is.
LONG = [case for case in FAULTS if case[0] not in QUICK or case[1] == "half the noise"]


@pytest.mark.parametrize(("way", "name"), in_turn(FAULTS, *(case for case in FAULTS if case not in LONG)))
def test_a_fault_is_seen_by_the_test_that_is_for_it(made, monkeypatch, way, name):
    fault, test = FAULTS[way, name]
    parameters, found = made(way)
    fault(monkeypatch)
    assert test in violated(stage_of.audit(parameters, found))


@pytest.mark.parametrize("way", SCENARIOS)
def test_an_epsilon_that_is_stated_too_low_is_refuted(made, way):
    parameters, found = made(way)
    low = found["outcome"].with_columns(pl.col("epsilon") * 0.5)
    assert violated(stage_of.audit(parameters, found | {"outcome": low}))


def test_a_message_left_out_of_the_epsilon_is_seen(made):
    # The access point sees a gradient and an update of each round: half the rho is that of one of them.
    parameters, found = made("utility_fair, clipped")
    rounds, outcome = parameters.training.rounds, found["outcome"]
    multiplier = found["noise"]["upload_multiplier"].min()
    one = float(exact_epsilon(np.array(rounds / (2 * multiplier**2)), outcome["delta"][0]))
    left_out = outcome.with_columns(epsilon=pl.lit(one))
    frame = stage_of.audit(parameters, found | {"outcome": left_out})
    assert {audit.LEAST, audit.RECORD} <= violated(frame)


def test_what_is_claimed_of_clipped_records_is_refuted_where_users_are_clipped(made):
    parameters, found = made("multicell, users clipped")
    claimed = found["outcome"].with_columns(epsilon_worst_case="epsilon")
    frame = stage_of.audit(parameters, found | {"outcome": claimed})
    assert violated(frame) == {audit.LEAST}


def test_another_seed_is_audited_with_other_draws(made):
    parameters, found = made("multicell")
    once, again = (stage_of.audit(parameters, found) for _ in range(2))
    assert once.equals(again)
    other = stage_of.audit(replaced(parameters, "seed", 2), found)
    assert (once["measured"] != other["measured"]).sum() > 10


@pytest.mark.parametrize("way", NO_NOISE)
def test_a_scheme_without_noise_claims_nothing(way):
    system, changes, _ = WAYS[way]
    parameters, found = stages(system, changes, NO_NOISE[way])
    zero = registry.system(system).catalog.zero_noise_values
    assert {name: set(found["noise"][name].drop_nulls()) - {value} for name, value in zero.items()} == {
        name: set() for name in zero
    }
    outcome = found["outcome"]
    assert outcome.select(pl.col("epsilon", "epsilon_server").is_infinite().all()).row(0) == (True, True)
    assert set(outcome["guarantee"]) == {"none"}
    assert stage_of.audit(parameters, found).select("status", "reason").rows() == [("not_tested", "no noise")]


def test_nobody_sends_and_nothing_is_hidden():
    parameters, found = stages("multicell", {"radio": {"max_power_dbm": -100.0}})
    (row,) = stage_of.audit(parameters, found).rows(named=True)
    assert (
        row | {"status": "not_tested", "reason": "nobody sends", "draws": 0, "epsilon": None, "measured": None} == row
    )
    bare = {"radio": {"receiver_noise_variance": 0.0}}
    parameters, found = stages("random_orthogonalization", bare, ("all", "none"))
    (row,) = stage_of.audit(parameters, found).rows(named=True)
    assert row | {"status": "not_tested", "reason": "no noise", "draws": 0, "epsilon": np.inf, "measured": None} == row


def test_the_worst_off_realization_is_audited():
    outcome = pl.DataFrame({"realization": [4, 5, 6, 7], "epsilon": [1.0, None, 3.0, 3.0]})
    assert audit.worst(outcome)["realization"] == 6
    assert audit.worst(outcome.with_columns(epsilon=pl.lit(None, pl.Float64)))["realization"] == 4


def test_a_users_share_of_the_sum_follows_its_weight():
    # Who sees the sum of all reads of a record its share, over the noise that all add: by hand, from the tables.
    parameters, found = stages("multicell", {"training": {"recipe": "inverse_variance"}})
    realization = stage_of.audit(parameters, found)["realization"][0]
    row = found["outcome"].row(by_predicate=pl.col("realization") == realization, named=True)
    users = found["users"].join(found["noise"], on=["realization", "user"])
    users = users.filter(pl.col("noise_std") > 0, realization=realization).sort("user")
    samples, noise = users["samples"].to_numpy(), users["noise_std"].to_numpy()
    rules = parameters.training
    variance = 0.001 / samples + noise**2 / (2 * rules.rounds * rules.clip_norm**2)
    weight = (1 / variance) / (1 / variance).sum()
    most = (weight / samples).max()
    rho = 2 * rules.rounds * (rules.clip_norm * most) ** 2 / ((weight * noise) ** 2).sum()
    of_sum = found["guarantees"].filter(observer="network", unit="record", realization=realization)["epsilon"].item()
    assert of_sum == pytest.approx(float(exact_epsilon(rho, row["delta"])), rel=1e-9)
    delivered = found["reception"].filter(realization=realization).sort("user")
    np.testing.assert_allclose(delivered["weight"], weight / samples, rtol=1e-12)
    np.testing.assert_allclose(delivered["user_noise_std"], weight * noise, rtol=1e-12)


SUBJECT = audit.Subject(0, "a test's", 1e-5, float(exact_epsilon(np.array(0.5), 1e-5)))  # of mu 1
TRIES, SEED = 400, np.random.default_rng
OFTEN = 0.05  # false alarms that can be counted


def each_verdict(generator, size=1.0):
    """What each test makes of normal numbers of a deviation."""
    draws = size * generator.standard_normal((2, 10, 64))
    first = generator.random(1000) < 0.5
    scores = np.where(first, 0.5, -0.5) + size * generator.standard_normal(1000)
    ratios, law = 0.5 + size * generator.standard_normal(1000), stats.norm(0.5, 1).cdf
    tensors = [size * generator.standard_normal((10, 4, *shape)) for shape in ((12, 4), (4,))]
    found = [*audit.noise(SUBJECT, draws, 1.0), *audit.signal(SUBJECT, first, scores)]
    found += of_silence.noise(SUBJECT, tensors, np.ones((10, 4)))
    found += audit.laplace(SUBJECT, size * generator.laplace(size=(2, 1, 640)), 1.0)
    return [*found, audit.distribution(SUBJECT, audit.LOSS, ratios, law, 0.0)]


def test_false_alarms_are_as_often_as_stated(monkeypatch):
    monkeypatch.setattr(audit, "LEVEL", OFTEN)
    monkeypatch.setattr(audit, "LIMIT", stats.norm.isf(OFTEN / 2))
    counted = np.array([[v.status == "failed" for v in each_verdict(SEED(k))] for k in range(TRIES)]).sum(axis=0)
    names = [v.test for v in each_verdict(SEED(0))]
    # One run in a million fails: too many of any, or too few of those whose rate is exact.
    assert counted.max() <= stats.binom.isf(1e-6 / len(names), TRIES, OFTEN)
    # A band holds for every law, and more; so does the share of each of several tensors of one verdict, a little.
    exact = [not name.startswith((audit.LOSS, "distribution")) for name in names]
    assert counted[exact].min() >= stats.binom.ppf(1e-6 / len(names), TRIES, OFTEN)


def test_a_fault_of_the_size_that_is_said_to_be_seen_is_seen():
    generator = SEED(1)
    first = np.ones(1000, bool)

    def share(make):
        """How often what `make` returns of a fault's size is violated."""
        fault = make(0.0).detectable
        return np.mean([make(fault).status == "failed" for _ in range(TRIES)])

    def noise(fault):
        return audit.variance(SUBJECT, "", (1 - fault) * generator.standard_normal(1000))

    def signal(fault):
        scores = 0.5 * (1 + fault) + generator.standard_normal(1000)
        return next(iter(audit.signal(SUBJECT, first, scores)))

    def correlation(fault):
        common, own = generator.standard_normal(1000), generator.standard_normal(1000)
        return audit.correlation(SUBJECT, "", np.array([common, fault * common + np.sqrt(1 - fault**2) * own]))

    def laplace(fault):
        return next(iter(audit.laplace(SUBJECT, (1 - fault) * generator.laplace(size=(1, 1, 1000)), 1.0)))

    least = stats.binom.ppf(1e-6, TRIES, audit.POWER) / TRIES
    for make in (noise, signal, correlation, laplace):
        assert share(make) >= least, make.__name__
        assert np.mean([make(0.3 * make(0.0).detectable).status == "failed" for _ in range(TRIES)]) < 0.5


def test_a_law_that_is_off_by_more_than_its_grain_is_seen():
    generator, law = SEED(2), stats.norm(0.5, 1).cdf
    for shift, status in ((0.0, "passed"), (0.2, "failed"), (-0.2, "failed")):
        losses = 0.5 + shift + generator.standard_normal(10_000)
        assert audit.distribution(SUBJECT, "", losses, law, 0.01).status == status
        assert audit.distribution(SUBJECT, "", losses, law, 0.3).status == "passed"
    counts = generator.binomial(20, 0.3, 10_000)
    assert audit.distribution(SUBJECT, "", counts, stats.binom(20, 0.3).cdf, 0.5).status == "passed"
    assert audit.distribution(SUBJECT, "", counts, stats.binom(20, 0.33).cdf, 0.5).status == "failed"


def test_what_is_wrong_with_few_coordinates_or_at_some_distance_is_seen():
    generator = SEED(3)
    draws = generator.standard_normal((400, 300))
    assert audit.each_coordinate(SUBJECT, "", draws).status == "passed"
    assert audit.lags(SUBJECT, "", draws).status == "passed"
    for size in (0.7, 1.4):
        assert audit.each_coordinate(SUBJECT, "", draws * np.where(np.arange(300) == 17, size, 1.0)).status == "failed"
    # By the sum of products at each lag, as the definition has it.
    terms = 400 * np.arange(299, 0, -1)
    products = [(draws[:, lag:] * draws[:, : 300 - lag]).sum() for lag in range(1, 300)]
    expected = np.abs(products / np.sqrt(terms))[terms >= 1000].max()
    assert audit.lags(SUBJECT, "", draws).measured == pytest.approx(expected, rel=1e-9)
    echo = draws.copy()
    echo[:, 150:] = np.sqrt(1 - 0.05**2) * draws[:, 150:] + 0.05 * draws[:, :150]  # too little for single pairs
    assert audit.lags(SUBJECT, "", echo).status == "failed"
    assert audit.each_coordinate(SUBJECT, "", echo).status == "passed"


def test_what_noisy_vectors_have_in_common_is_found_within_its_error():
    generator, vector = SEED(4), np.full(500, 0.1)
    found = [of_signal.common(vector + generator.standard_normal((40, 500))) for _ in range(200)]
    lengths, errors = np.array(found).T
    whole = np.linalg.norm(vector)
    assert abs(lengths.mean() - whole) < 5 * lengths.std() / np.sqrt(200)
    assert lengths.std() == pytest.approx(errors.mean(), rel=0.3)
    rows = np.concatenate([np.ones((30, 4)), np.full((3, 4), 50.0)])
    np.testing.assert_array_equal(of_signal.unwrapped(rows[:, None]), rows[:30])


def test_noise_of_users_is_all_in_the_update():
    def found(whole, receiver):
        std = np.array(whole)
        reception = Reception(*[np.ones((2, 3))] * 2, np.full((2, 3), 2.0), None, std, std, np.ones(2), np.ones(2))
        return [verdict.status for verdict in of_silence.all_users(SUBJECT, reception, receiver)]

    root = np.sqrt(12)
    assert [found([root, root], receiver) for receiver in (True, False)] == [["passed"]] * 2
    assert [found([root, 2 * root], receiver) for receiver in (True, False)] == [["passed"], ["failed"]]
    assert [found([root, 0.999 * root], receiver) for receiver in (True, False)] == [["failed"]] * 2
    nobody = Reception(*[np.zeros((2, 3))] * 3, None, np.ones(2), np.ones(2), np.ones(2), np.ones(2))
    assert not list(of_silence.all_users(SUBJECT, nobody, False))


@pytest.mark.parametrize(
    ("way", "change", "most"),
    [
        ("multicell", {}, 3),
        ("random_orthogonalization", {"training.batch_size": 4}, 12),
        ("anonymous_oac", {}, None),  # who draws records by chance holds all of them
    ],
)
def test_users_of_an_audit_hold_a_few_records(made, way, change, most):
    parameters, found = made(way)
    for key, value in change.items():
        parameters = replaced(parameters, key, value)
    audited = of_audits.Audited(None, parameters, found, None, few=True)
    assert dataclasses.replace(audited, few=False).audited_tables is found
    held, asked = found["users"]["samples"], audited.audited_tables["users"]["samples"]
    assert held.max() > 3
    assert asked.to_list() == [held_by if most is None else min(held_by, most) for held_by in held]
    assert audited.records == max(
        sum(each) for each in audited.audited_tables["users"].group_by("realization").agg("samples")["samples"]
    )


@pytest.mark.slow
def test_what_is_received_side_by_side_is_what_each_receives_alone(made, monkeypatch):
    parameters, found = made("anonymous_oac")
    audited = of_audits.Audited(anonymous_oac_train.parts, parameters, found, features.size(parameters))
    subject = audit.Subject(found["outcome"]["realization"][0], "the server", 1e-5, 1.0)

    def compared():
        lively = of_audits.random_data(audited.size, audited.records, SEED(0))
        (verdict,) = of_model.side_by_side(audited, subject, None, lively, SEED(0))
        return verdict.status

    assert compared() == "passed"
    right, gather = philox.normals, Gradients.gather
    with monkeypatch.context() as patch:
        patch.setattr(philox, "normals", lambda *given: 0.98 * right(*given))
        rounds.forget()
        assert compared() == "failed"

    def otherwise(self, *given):
        x, *more = gather(self, *given)
        return 1.1 * x if self.compiled else x, *more

    monkeypatch.setattr(Gradients, "gather", otherwise)
    rounds.forget()
    assert compared() == "failed"


@pytest.mark.parametrize(("device", "gpu", "tested"), [("gpu", False, 1), ("auto", True, 1), ("auto", False, 0)])
def test_what_trains_on_a_gpu_is_audited_side_by_side(made, monkeypatch, device, gpu, tested):
    parameters, found = made("random_orthogonalization")
    asked = []
    monkeypatch.setattr(of_training, "side_by_side", lambda *given: asked.append(given) or [])
    monkeypatch.setattr(devices, "present", lambda: gpu)
    assert not violated(stage_of.audit(replaced(parameters, "training.device", device), found))
    assert len(asked) == tested
    assert not violated(stage_of.audit(replaced(parameters, "training.device", "cpu"), found))
    assert len(asked) == tested


def test_where_no_two_realizations_train_at_once_none_are_compared(made):
    parameters, found = made("multicell, integers")
    audited = of_audits.Audited(multicell_train.parts, parameters, found, features.size(parameters))
    lively = of_audits.random_data(audited.size, audited.records, SEED(0))
    subject = audit.Subject(found["outcome"]["realization"][0], "the server", 1e-5, 1.0)
    assert not list(of_model.side_by_side(audited, subject, None, lively, SEED(0)))


def test_records_turn_a_gradient_around_in_layers_so_narrow_that_all_their_units_may_be_silent():
    shapes = [(6, 2), (2,), (2, 1), (1,), (1, 3), (3,)]
    for seed in range(50):
        generator = np.random.default_rng(seed)
        for case in adversarial.opposed(dense.outputs, shapes, 6, 1.0, generator):
            inputs, deltas = dense.backward([tf.constant(w) for w in case.weights], case.x, case.y)
            kernel_gradients = [np.einsum("ni,no->nio", a, d) for a, d in zip(inputs, deltas, strict=True)]
            one, other = (np.concatenate([g[n].ravel() for g in kernel_gradients]) for n in range(2))
            assert one @ other < -0.99 * np.linalg.norm(one) * np.linalg.norm(other)
    with pytest.raises(ValueError, match="none has outputs that differ"):
        list(adversarial.opposed(dense.outputs, [(6, 1), (1,)], 6, 1.0, np.random.default_rng(0)))


def test_an_audit_has_no_more_verdicts_than_its_false_alarms_are_stated_for():
    verdicts = [audit.within(SUBJECT, f"test {k}", 1, 0.0, 0.0, 0.0, 1.0, 1.0) for k in range(audit.VERDICTS)]
    frame = audit.table(verdicts)
    assert set(frame["false_alarm"]) == {1e-6}
    assert audit.LEVEL * len(frame) == pytest.approx(1e-6)
    with pytest.raises(ValueError, match=r"at most 30 verdicts, .*'one more' is one too many"):
        audit.table([*verdicts, audit.within(SUBJECT, "one more", 1, 0.0, 0.0, 0.0, 1.0, 1.0)])


def test_of_many_tensors_the_worst_is_one_verdict():
    generator = SEED(6)
    tensors = [generator.standard_normal((10, 4, size)) for size in [500] * 39 + [10]]
    found = {verdict.test: verdict for verdict in of_silence.noise(SUBJECT, tensors, np.ones((10, 4)))}
    assert len(found) == 12
    assert {verdict.status for verdict in found.values()} == {"passed"}
    for off, test in ((0.6, "deviation"), (1.4, "deviation"), ("mean", "mean"), ("two points", "distribution")):
        last = tensors[-1] * off if isinstance(off, float) else tensors[-1] + 1.0 * (off == "mean")
        last = np.sign(last) if off == "two points" else last
        wrong = {
            verdict.test: verdict for verdict in of_silence.noise(SUBJECT, [*tensors[:-1], last], np.ones((10, 4)))
        }
        assert wrong[f"{test} of each tensor's noise"].status == "failed", off
        assert wrong[f"{test} of the noise"].status == "passed", off  # it is lost among 20,000 others
    of_each = found["deviation of each tensor's noise"]
    alone = audit.variance(SUBJECT, "", tensors[-1], share=1 / 40)
    assert of_each.detectable == alone.detectable > audit.variance(SUBJECT, "", tensors[-1]).detectable
    assert of_each.draws == found["deviation of the noise"].draws == 40 * (39 * 500 + 10)
    assert of_each.detects == f"noise {100 * alone.detectable:.2g}% too low"


BETWEEN = {  # way -> functions between its records and what is released of them
    "multicell": (dense, "_kept"),
    "multicell, integers": (integers, "server_sum"),
    "random_orthogonalization": (local_sgd, "clip"),
    "anonymous_oac": (gradients, "batches"),
    "utility_fair, clipped": (local_steps, "gradients"),
    "age_aware": (age_aware, "uploads"),
}


@pytest.mark.parametrize("way", BETWEEN)
def test_an_audit_that_cannot_run_says_so_and_calls_nothing_consistent(made, monkeypatch, way):
    module, name = BETWEEN[way]
    parameters, found = made(way)

    def broken(*given, **more):
        raise ZeroDivisionError("not today")

    replace(monkeypatch, getattr(module, name), broken)
    scheme = parameters.schemes[0].name
    with pytest.raises(AuditError, match=rf"^{re.escape(scheme)}: the audit could not run: .*not today") as caught:
        stage_of.audit(parameters, found)
    assert speaks(caught.value)  # the job ends with these words
    assert "ZeroDivisionError" in str(caught.value)
    assert caught.value.__cause__


def test_an_epsilon_of_0_is_held_to():
    nothing = SUBJECT._replace(epsilon=0.0)
    assert audit.at_least(nothing, 0.0).status == "passed"
    assert audit.at_least(nothing, 1e-12).status == "failed"


NOTHING_LOST = {  # much noise, and a delta near 1
    "random_orthogonalization": {"privacy": {"delta": 0.9, "noise_variance": 1e4}},
    "utility_fair": CLIPPED | {"privacy": {"delta": 0.99, "epsilon": 0.01, "uploads": "noisy"}},
}


@pytest.mark.parametrize("system", NOTHING_LOST)
def test_a_code_that_keeps_an_epsilon_of_0_passes(system):
    parameters, found = stages(system, NOTHING_LOST[system])
    frame = stage_of.audit(parameters, found)
    assert set(frame["status"]) == {"passed"}
    assert set(frame["epsilon"]) == {0.0}


def test_devices_that_never_take_part_send_no_updates_that_a_record_could_move():
    parameters, found = stages("utility_fair", CLIPPED | {"device": {"max_power_dbm": -88.0}})
    assert not found["schedule"]["takes_part"].any()
    frame = stage_of.audit(parameters, found)
    assert set(frame["status"]) == {"passed"}
    assert frame.filter(test="sensitivity of the update")["measured"].to_list() == [0.0]
    assert frame.filter(test="sensitivity of the gradient")["expected_min"].to_list() == [pytest.approx(0.99)]
