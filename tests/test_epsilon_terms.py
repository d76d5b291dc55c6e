"""What each system says of its epsilons: of a record and of a user, what they are, and what is guaranteed."""

import itertools
import math

import numpy as np
import polars as pl
import pytest

from pwfl.privacy.gaussian import exact_epsilon
from pwfl.systems.age_aware import age, markov
from pwfl.tables import contract
from pwfl.tables.contract import TableError, finished
from test_delta import gaussian_epsilon
from test_equal_privacy import ENFORCED, tables
from test_sums import TWO_IN_TEN
from test_sums import scenario as of_sums
from test_sums import stages as sums_stages

EXACT, BOUND, ASSUMED, UNPROVED = contract.KINDS
SUMS = {"observer": "cell", "colluders": 0.2}
PER_USER = {"training": {"clipping": "per_user"}}
BLOCKS = {"radio": {"coherence_rounds": 4}}
MULTICELL = {  # privacy, what else, noise: kinds of a record's and a user's epsilon, guaranteed
    "each upload": ({}, {}, "random", (EXACT, EXACT, True)),
    "without noise": ({}, {}, "none", (EXACT, EXACT, False)),
    "means clipped": ({}, PER_USER, "random", (ASSUMED, EXACT, False)),
    "sums, colluders": (SUMS, {}, "random", (EXACT, EXACT, True)),
    "sums, others collude in each block": (SUMS, BLOCKS, "random", (BOUND, BOUND, True)),
    "sums in blocks": ({"observer": "network"}, BLOCKS, "random", (EXACT, EXACT, True)),
    "sums, dropouts": (TWO_IN_TEN, {}, "random", (BOUND, BOUND, True)),
    "uploads, dropouts": ({"dropouts": 0.2}, {}, "random", (BOUND, BOUND, True)),
    "integers": (
        {"observer": "network"},
        {"training": {"hidden_layers": [], "bits": 16}},
        "random",
        (BOUND, BOUND, True),
    ),
}
CASES = {  # system, scheduler, noise, what else
    "antennas' update": ("random_orthogonalization", "all", "fixed", {}, (EXACT, EXACT, False)),
    "no receiver's noise": (
        *("random_orthogonalization", "all", "fixed", {"radio": {"receiver_noise_variance": 0.0}}),
        (EXACT, EXACT, True),
    ),
    "users' dropouts": (
        "random_orthogonalization",
        "all",
        "fixed",
        {"privacy": {"dropouts": 0.1}},
        (BOUND, BOUND, False),
    ),
    "users' colluders": (
        *("random_orthogonalization", "all", "fixed", {"privacy": {"colluders": 0.3}}),
        (BOUND, BOUND, False),
    ),
    "receiver's noise alone": ("random_orthogonalization", "all", "none", {}, (EXACT, EXACT, False)),
    "clean uploads": ("utility_fair", "utility", "fair", {}, (ASSUMED, BOUND, False)),
    "noisy uploads": ("utility_fair", "utility", "fair", {"privacy": {"uploads": "noisy"}}, (ASSUMED, BOUND, False)),
    "clipped uploads": ("utility_fair", "utility", "fair", ENFORCED, (BOUND, BOUND, True)),
    "no noise in copies": ("utility_fair", "benchmark", "none", {}, (EXACT, EXACT, False)),
}


def said(outcome: pl.DataFrame) -> set[tuple]:
    sent = outcome.filter(pl.col("epsilon").is_not_null())
    return set(sent.select("epsilon_is", "epsilon_user_is", "guaranteed").rows())


@pytest.mark.parametrize("case", MULTICELL)
def test_multicell_says_what_its_epsilons_are(case):
    privacy, changes, noise, expected = MULTICELL[case]
    found = sums_stages(of_sums(privacy, **changes), noise=noise)
    assert said(found["outcome"]) == {expected}
    words = set(found["outcome"]["guarantee"])
    assert all(word.startswith("guaranteed") == expected[2] for word in words)
    assert all("a user's guarantee" in word for word in words) == (case == "means clipped")
    assert (found["leakage"]["epsilon_user"] >= found["leakage"]["epsilon"]).all()


@pytest.mark.parametrize("case", CASES)
def test_other_systems_say_what_their_epsilons_are(case):
    *what, expected = CASES[case]
    outcome = tables(*what, {"training": {"rounds": 12}})["outcome"]
    assert said(outcome) == {expected}
    assert outcome["taken_as_public"].str.len_chars().min() > 0
    if what[0] == "random_orthogonalization":
        assert outcome["epsilon_user"].equals(outcome["epsilon"])
        assert outcome["unit"].str.contains("a user's guarantee").all()


def test_without_noise_nothing_is_guaranteed_not_even_where_nobody_sends():
    nobody = of_sums({}, radio={"max_power_dbm": -100.0})
    outcome = sums_stages(nobody, noise="none")["outcome"]
    columns = ["epsilon", "epsilon_is", "epsilon_user", "epsilon_user_is"]
    assert outcome.select(pl.col(columns).is_null().all()).row(0) == (True,) * 4
    assert not outcome["guaranteed"].any()
    assert set(outcome["guarantee"]) == {contract.NO_PRIVACY}
    assert sums_stages(nobody)["outcome"]["guaranteed"].all()
    with pytest.raises(TableError, match="without_noise_nothing_is_guaranteed"):
        finished(outcome.with_columns(guaranteed=pl.lit(True)), "outcome", "multicell")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"epsilon_user": pl.col("epsilon") / 2}, "users_lose_no_less_than_records"),
        ({"epsilon_is": pl.lit(None)}, "said_what_each_epsilon_is"),
        ({"epsilon_user": pl.lit(None)}, "said_what_each_epsilon_is"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(change, rule):
    outcome = sums_stages(of_sums({}))["outcome"]
    with pytest.raises(TableError, match=rule):
        finished(outcome.with_columns(**change), "outcome", "multicell")


# Users' epsilons


@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_all_records_of_multicell_are_a_gaussian_mechanism_of_k_times_a_records_sensitivity(delta):
    """Each upload is a mean of K clipped gradients, which all of them move by 2 L, with noise of sigma."""
    aim = {"privacy": {"delta": delta, "target_epsilon": 2.0}, "training": {"rounds": 9}}
    found = tables("multicell", "random", "target", aim)
    noise = found["noise"].filter(pl.col("noise_std") > 0)
    rows = noise.join(found["leakage"], on=["realization", "user"])
    assert len(rows) > 5
    for row in rows.iter_rows(named=True):
        mu = math.sqrt(9) * 2 * 1.5 / row["noise_std"]
        assert row["epsilon_user"] == pytest.approx(gaussian_epsilon(mu, delta), rel=1e-6)
    worst = found["leakage"].group_by("realization").agg(pl.col("epsilon_user").max()).sort("realization")
    assert found["outcome"].drop_nulls("epsilon").sort("realization")["epsilon_user"].equals(worst["epsilon_user"])


def test_all_records_in_a_sum_are_hidden_by_what_hides_one():
    found = sums_stages(of_sums({"observer": "network"}))
    users = found["users"].join(found["noise"], on=["realization", "user"]).filter(pl.col("noise_std") > 0)
    hiding = (pl.col("samples") * pl.col("noise_std")).pow(2).sum().over("realization").sqrt()
    users = users.with_columns(mu=math.sqrt(12) * 2 * of_sums({}).training.clip_norm * pl.col("samples") / hiding)
    rows = found["leakage"].join(users, on=["realization", "user"])
    expected = [gaussian_epsilon(mu, found["outcome"]["delta"][0]) for mu in rows["mu_right"]]
    np.testing.assert_allclose(rows["epsilon_user"], expected, rtol=1e-6)


def test_a_mean_that_is_clipped_as_a_whole_is_a_users():
    found = sums_stages(of_sums({}, **PER_USER))
    outcome = found["outcome"].drop_nulls("epsilon")
    assert outcome["epsilon_user"].equals(outcome["epsilon_worst_case"])


def test_integers_of_all_records_are_bounded_above_real_numbers():
    real, whole = (sums_stages(of_sums({"observer": "cell"}, training={"hidden_layers": [], "bits": bits}))["leakage"]
                   for bits in (None, 16))  # fmt: skip
    both = real.join(whole, on=["realization", "user"], suffix="_bits")
    assert (both["epsilon_user_bits"] >= both["epsilon_user"]).all()
    # Renyi divergences of so fine a grid are those of real numbers, and convert to little more.
    assert (both["epsilon_user_bits"] < 1.1 * both["epsilon_user"] + 1).all()


@pytest.mark.parametrize("rounds", [3, 12])
def test_all_records_of_a_device_move_its_gradient_by_a_batch_and_its_update_by_one(rounds):
    found = tables("utility_fair", "utility", "fair", ENFORCED, {"training": {"rounds": rounds}})
    batch = 128
    for row in found["noise"].join(found["leakage"], on=["realization", "device"]).iter_rows(named=True):
        mu = math.sqrt(rounds * (batch**2 + 1)) / row["upload_multiplier"]
        assert row["epsilon_user"] == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-6)
    unclipped = tables("utility_fair", "utility", "fair", {"privacy": {"uploads": "noisy"}})["outcome"]
    assert unclipped["epsilon_user"].is_infinite().all()
    assert unclipped["guarantee"].str.contains("no sensitivity is assumed").all()


@pytest.mark.parametrize(("up", "classical", "elapsed"), [(0.3, 0.4, 1), (0.2, 2.0, 3), (0.45, 5.0, 2)])
def test_all_records_of_a_client_lose_at_most_as_often_as_there_are(up, classical, elapsed):
    """Three records, each a chain of its own, by enumeration of their states when collected and at T."""
    records, states = 3, np.array([20.0, 50.0, 200.0])
    transition = markov.birth_death(up, 0.3, len(states))
    kernel = markov.reverse_kernels(transition, markov.stationary(transition), 5)[5 - elapsed]
    stated = records * age.exact_epsilon(np.array([classical]), kernel, states)[0]
    collected = np.array(list(itertools.product(range(3), repeat=records)))
    mean, scale = states[collected].mean(axis=1), np.ptp(states) / records / classical
    y = np.concatenate([np.linspace(20, 200, 2001), [-1e3, 1e3]])
    seen = np.exp(-np.abs(y[:, None] - mean) / scale)
    chance = np.stack([kernel[at][:, collected.T[k]] for k, at in enumerate(collected.T)]).prod(axis=0)
    density = np.log(seen @ chance.T)  # (y, data at T)
    lost = np.ptp(density, axis=1).max()
    assert lost <= stated * (1 + 1e-12)
    assert lost > 0.9 * stated
    # As collected: the whole range of the mean, at the noise for one record.
    assert np.ptp(mean) / scale == pytest.approx(records * classical)


def test_what_is_stated_of_a_client_is_its_records_times_a_records():
    from test_age_aware import TINY, stage_tables

    found, _ = stage_tables(TINY, "random", "adaptive")
    rows = found["leakage"].join(found["users"].select("realization", "user", "samples"), on=["realization", "user"])
    for of_user, of_record in (("epsilon_user", "epsilon"), ("epsilon_user_classical", "epsilon_classical")):
        np.testing.assert_allclose(rows[of_user], rows["samples"] * rows[of_record], rtol=1e-12)
        most = rows.group_by("realization", "case", maintain_order=True).agg(pl.col(of_user).max())
        assert found["outcome"][of_user].equals(most[of_user])
    outcome = found["outcome"]
    assert said(outcome) == {(ASSUMED, ASSUMED, True)}
    assert (outcome["epsilon_server"] == outcome["epsilon_classical"]).all()
    assert outcome["guarantee"].str.contains("assume that each record is a Markov chain").all()


def test_losses_of_users_scale_mu():
    from pwfl.privacy import accountant

    found = accountant.Losses(np.full((2, 3, 2), 0.1), np.array([4, 4, 2]))
    rho = accountant.of_users(found, np.array([[1, 5], [2, 3]])).rho
    np.testing.assert_allclose(rho, 10 * 0.01 / 2 * np.array([[1, 25], [4, 9]]), rtol=1e-12)
    assert accountant.epsilons(found, 1e-5)[0, 0] == float(exact_epsilon(found.rho[0, 0], 1e-5))
