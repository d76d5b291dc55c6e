"""The audits of all systems: below what is stated, close to it, and above it where the training path is wrong."""

import sys

import numpy as np
import polars as pl
import pytest
import tensorflow as tf

import stage_of
from pipeline import part
from pwfl import scenario
from pwfl.learning import autodiff, engine
from pwfl.privacy import audit
from pwfl.privacy.gaussian import exact_epsilon
from pwfl.scenario.values import replaced
from pwfl.systems import registry
from pwfl.systems.age_aware import rounds as age_aware
from pwfl.systems.anonymous_oac import rounds as anonymous_oac
from pwfl.systems.multicell import rounds as multicell
from pwfl.systems.random_orthogonalization import local_sgd
from pwfl.systems.random_orthogonalization import rounds as random_orthogonalization
from pwfl.systems.utility_fair import rounds as utility_fair

DIGITS = {"dataset": "digits"}
SCENARIOS = {
    "multicell": {
        "network": {"users": 20},
        "radio": {"resource_blocks": 2},
        "data": DIGITS | {"samples_offset": 10, "samples_log_mean": 2.5},
        "privacy": {"min_noise": 3.5, "max_noise_error": 0.4},
        "training": {"hidden_layers": [], "rounds": 20, "clip_norm": 1.0},
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
        "training": {"rounds": 6},
        "audit": {"canaries": 20_000},
    },
    "age_aware": {"schedule": {"horizon": 10}, "privacy": {"target_epsilons": [1.0]}},
    "anonymous_oac": {
        "network": {"devices": 10, "participation": 0.5},
        "data": DIGITS | {"samples": 4, "sampling": 0.5},
        "privacy": {"noise_multiplier": 1.0},
        "training": {"hidden_layers": [], "rounds": 12},
        "audit": {"canaries": 10_000},
    },
}
# Shares of the stated epsilon. Sampling makes scores' laws unknown: the bound is then the one for any law.
CLOSE = {
    "multicell": 0.8,
    "random_orthogonalization": 0.75,
    "utility_fair": 0.8,
    "age_aware": 0.8,
    "anonymous_oac": 0.3,
}
VARIANTS = {"age_aware": ("bound_constant", "constant")}


def stages(system, changes=None, variant=None):
    """The part of the scenario that the audit reads, and the tables that it reads."""
    model = scenario.resolve(
        {"system": system, "realizations": 2, "training_realizations": 1} | SCENARIOS[system], changes or {}
    )
    scheduler, kind = variant or VARIANTS.get(system) or (model.schemes[0].scheduler, model.schemes[0].noise)
    found = stage_of.channel(part(model, "channel"), range(2))
    found |= stage_of.schedule(part(model, "schedule", scheduler), scheduler, found)
    found |= stage_of.noise(part(model, "noise", kind), kind, found)
    found |= stage_of.account(part(model, "account"), found)
    return part(model, "audit"), found


@pytest.fixture(scope="module")
def tables():
    return {system: stages(system) for system in SCENARIOS}


def best(row):
    return max(row["epsilon_lower"], row["epsilon_lower_gaussian"] or 0.0)


@pytest.mark.parametrize("system", SCENARIOS)
def test_what_is_found_is_close_to_what_is_stated_and_not_above(tables, system):
    frame = stage_of.audit(*tables[system])["audit"]
    outcome = tables[system][1]["outcome"]
    assert set(frame["status"]) == {"consistent"}
    assert frame["epsilon_upper"][0] == outcome["epsilon_exact"].max()
    for row in frame.rows(named=True)[-1 if system == "anonymous_oac" else 0 :][:1]:
        assert CLOSE[system] * row["epsilon_upper"] < best(row) <= row["epsilon_upper"]


@pytest.mark.parametrize("system", SCENARIOS)
def test_an_epsilon_stated_too_low_is_refuted(tables, system):
    parameters, found = tables[system]
    low = found["outcome"].with_columns(pl.col("epsilon_exact") * (0.1 if system == "anonymous_oac" else 0.5))
    frame = stage_of.audit(parameters, found | {"outcome": low})["audit"]
    assert frame["status"][0] == "violated"


def test_noisy_uploads_are_audited_for_what_they_are_stated_to_be(monkeypatch):
    parameters, found = stages("utility_fair", {"privacy": {"uploads": "noisy"}})
    (row,) = stage_of.audit(parameters, found)["audit"].rows(named=True)
    upper = found["outcome"]["epsilon_server"].max()
    assert (row["status"], row["epsilon_upper"]) == ("consistent", upper)
    assert 0.8 * upper < best(row) <= upper
    assert "gradients and updates" in row["observer"]
    right = utility_fair.noisy_uploads
    replace(monkeypatch, right, lambda parts, std, seed: right(parts, std / 2, seed))
    assert stage_of.audit(parameters, found)["audit"]["status"][0] == "violated"


def test_clipped_uploads_are_audited_through_their_clipping(monkeypatch):
    clipped = {"privacy": {"uploads": "noisy", "target_epsilon": 8.0}, "training": {"clip_norm": 0.2}}
    parameters, found = stages("utility_fair", clipped)
    assert found["outcome"]["guaranteed"].all()
    (row,) = stage_of.audit(parameters, found)["audit"].rows(named=True)
    assert row["status"] == "consistent"
    assert row["epsilon_upper"] == found["outcome"]["epsilon_exact"].max()
    assert 0.8 * 8 < best(row) <= row["epsilon_upper"] <= 8
    right = utility_fair.clipped
    for wrong in (lambda parts, norm: right(parts, 1.3 * norm), lambda parts, norm: parts):
        with monkeypatch.context() as patched:
            replace(patched, right, wrong)
            assert stage_of.audit(parameters, found)["audit"]["status"][0] == "violated"


@pytest.mark.parametrize("system", SCENARIOS)
def test_the_same_scenario_is_audited_alike_and_another_seed_is_not(tables, system):
    parameters, found = tables[system]
    once, again = (stage_of.audit(parameters, found)["audit"] for _ in range(2))
    assert once.equals(again)
    other = stage_of.audit(replaced(parameters, "seed", 2), found)["audit"]
    assert not once["epsilon_lower"].equals(other["epsilon_lower"])


def replace(monkeypatch, right, wrong):
    """Put a function in the place of another one, in all modules of the package that call it by its name."""
    for system in registry.systems().values():
        for stage in ("train", "audit"):  # imported later, they would keep the wrong one
            system.part(stage)
    for name, module in list(sys.modules.items()):
        if name.startswith("pwfl.") and getattr(module, right.__name__, None) is right:
            monkeypatch.setattr(module, right.__name__, wrong)


def halved_noise_multicell(monkeypatch):
    right = multicell.aggregated_noise_std
    replace(monkeypatch, right, lambda *a: right(*a) / 2)


def doubled_clipping_multicell(monkeypatch):
    right = engine.per_sample_gradient
    replace(monkeypatch, right, lambda b, x, y, clip, *counts: right(b, x, y, 2 * clip, *counts))


def clipped_means_multicell(monkeypatch):
    def wrong(backward, x, y, samples, counts, training):
        return engine.per_user_gradient(backward, x, y, tf.constant(training.clip_norm), samples, counts)

    replace(monkeypatch, multicell.clipped_gradient, wrong)


def halved_noise_random_orthogonalization(monkeypatch):
    right = local_sgd.received
    replace(monkeypatch, right, lambda u, w, std, *a: right(u, w, std / 2, *a))


def unclipped_updates_random_orthogonalization(monkeypatch):
    right = random_orthogonalization.clipped_updates

    def wrong(weights, x, y, batches, training, derivative):
        return right(weights, x, y, batches, replaced(training, "clip_norm", 2.0), derivative)

    replace(monkeypatch, right, wrong)


def halved_noise_utility_fair(monkeypatch):
    right = utility_fair.noisy_copies
    replace(monkeypatch, right, lambda w, std, *a: right(w, std / 2, *a))


def no_sampling_anonymous_oac(monkeypatch):
    # The first records of every device are in all batches, canaries among them.
    def wrong(schedule, samples, rounds, generator):
        frame = schedule.sort("round", "user")
        first = np.concatenate([[0], np.cumsum(samples)])[frame["user"].to_numpy()]
        rows = [np.arange(start, start + size) for start, size in zip(first, frame["batch"], strict=True)]
        counts = np.bincount(frame["round"].to_numpy() - 1, weights=frame["batch"], minlength=rounds).astype(np.int64)
        return np.concatenate([np.empty(0, np.int64), *rows]), np.concatenate([[0], np.cumsum(counts)])

    replace(monkeypatch, anonymous_oac.batches, wrong)


def noise_over_ten_anonymous_oac(monkeypatch):
    right = engine.normals
    replace(monkeypatch, right, lambda *a: [n / 10 for n in right(*a)])


def halved_noise_age_aware(monkeypatch):
    right = age_aware.uploads
    replace(monkeypatch, right, lambda means, scale, noise: right(means, scale / 2, noise))


FAULTS = [halved_noise_multicell, doubled_clipping_multicell, clipped_means_multicell,
          halved_noise_random_orthogonalization, unclipped_updates_random_orthogonalization,
          no_sampling_anonymous_oac, noise_over_ten_anonymous_oac, halved_noise_utility_fair, halved_noise_age_aware]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_the_training_path_is_found(tables, monkeypatch, fault):
    system = next(name for name in SCENARIOS if fault.__name__.endswith(name))
    fault(monkeypatch)
    frame = stage_of.audit(*tables[system])["audit"]
    assert "violated" in set(frame["status"])


def test_users_clipped_as_a_whole_are_held_to_their_worst_case():
    parameters, found = stages("multicell", {"training": {"clipping": "per_user"}, "audit": {"canaries": 300}})
    frame = stage_of.audit(parameters, found)["audit"]
    worst = found["outcome"]["epsilon_worst_case"].max()
    assert frame["epsilon_upper"][0] == worst
    assert frame["status"][0] == "consistent"
    assert 0.5 * worst < frame["epsilon_lower_gaussian"][0] <= worst
    # What is claimed for clipped samples is refuted.
    claimed = found["outcome"].with_columns(epsilon_worst_case="epsilon_exact")
    assert stage_of.audit(parameters, found | {"outcome": claimed})["audit"]["status"][0] == "violated"


def test_nobody_sends_and_nothing_is_hidden():
    parameters, found = stages("multicell", {"radio": {"max_power_dbm": -100.0}})
    (row,) = stage_of.audit(parameters, found)["audit"].rows(named=True)
    assert (row["status"], row["canaries"], row["epsilon_upper"], row["epsilon_lower"]) == (
        "nobody_sends",
        0,
        None,
        None,
    )
    bare = {"radio": {"receiver_noise_variance": 0.0}}
    parameters, found = stages("random_orthogonalization", bare, ("all", "none"))
    (row,) = stage_of.audit(parameters, found)["audit"].rows(named=True)
    assert (row["status"], row["canaries"], row["epsilon_upper"], row["epsilon_lower"]) == ("no_noise", 0, np.inf, None)


def test_the_worst_off_realization_is_audited():
    outcome = pl.DataFrame({"realization": [4, 5, 6, 7], "epsilon_exact": [1.0, None, 3.0, 3.0]})
    assert audit.worst(outcome)["realization"] == 6
    assert audit.worst(outcome.with_columns(epsilon_exact=pl.lit(None, pl.Float64)))["realization"] == 4


def test_more_canaries_bound_more_tightly(tables):
    parameters, found = tables["multicell"]

    def found_with(canaries):
        return stage_of.audit(replaced(parameters, "audit.canaries", canaries), found)["audit"][
            "epsilon_lower_gaussian"
        ][0]

    few, many = found_with(100), found_with(4000)
    assert few < many


SERVER = {"weights": "precision"}
CNN = {"model": "cnn"}


def weights_that_follow_the_data(monkeypatch):
    # A user counts three times as much where its first record lies on the one side.
    right = multicell.clipped_gradient

    def wrong(model, x, y, samples, counts, training):
        first = tf.gather(x, tf.cumsum(samples, exclusive=True))
        return right(model, x, y, samples, counts * tf.where(first[:, 0] > 0, 3.0, 1.0), training)

    replace(monkeypatch, right, wrong)


def unclipped_samples_by_autodiff(monkeypatch):
    right = autodiff.per_sample_gradient
    monkeypatch.setattr(autodiff, "per_sample_gradient", lambda m, x, y, clip, n: right(m, x, y, 2 * clip, n))


@pytest.mark.parametrize(
    ("training", "coherence", "fault"),
    [
        (SERVER, None, weights_that_follow_the_data),
        (SERVER, 10, weights_that_follow_the_data),
        (SERVER, None, halved_noise_multicell),
        (CNN, None, unclipped_samples_by_autodiff),
        (SERVER | CNN, 10, weights_that_follow_the_data),
    ],
    ids=["precision", "precision, fading", "half the noise", "autodiff", "autodiff, precision, fading"],
)
def test_other_weights_and_models_are_audited_on_their_own_path(monkeypatch, training, coherence, fault):
    changes = {"training": training, "radio": {"coherence_rounds": coherence}}
    parameters, found = stages("multicell", changes)
    frame = stage_of.audit(parameters, found)["audit"]
    assert set(frame["status"]) == {"consistent"}
    assert 0.8 * frame["epsilon_upper"][0] < best(frame.row(0, named=True))
    fault(monkeypatch)
    assert "violated" in set(stage_of.audit(parameters, found)["audit"]["status"])


def test_a_users_share_of_the_sum_follows_its_weight():
    # The sum's epsilon is that of its share, over the noise that all add: by hand, from the tables.
    parameters, found = stages("multicell", {"training": SERVER})
    row = stage_of.audit(parameters, found)["audit"].row(1, named=True)
    users = found["users"].join(found["noise"], on=["realization", "user"])
    users = users.filter(realization=row["realization"]).filter(pl.col("noise_std") > 0)
    samples, noise = users["samples"].to_numpy(), users["noise_std"].to_numpy()
    rules = parameters.training
    variance = 0.001 / samples + noise**2 / (2 * rules.rounds * rules.clip_norm**2)
    weight = (1 / variance) / (1 / variance).sum()
    worst = np.argmin(samples * noise)
    rho = 2 * rules.rounds * (rules.clip_norm * weight[worst] / samples[worst]) ** 2 / ((weight * noise) ** 2).sum()
    assert row["epsilon_upper"] == pytest.approx(float(exact_epsilon(rho, row["delta"])), rel=1e-9)
