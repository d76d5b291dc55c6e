"""What each system says of its epsilons: of a record and of a user, what they are, and what is guaranteed."""

import itertools
import math

import numpy as np
import polars as pl
import pytest

import pwfl
from pwfl.privacy import accountant
from pwfl.privacy.accountant import ALL
from pwfl.privacy.gaussian import exact_epsilon
from pwfl.privacy.labels import (
    AGGREGATION,
    ASSUMPTIONS,
    BATCH_SIZES,
    CONDITIONAL,
    DEVIATIONS,
    MARKOV,
    MEANS,
    NONE,
    OBSERVED,
    PARTICIPATION,
    PROVED,
    REALIZED,
    RECEIVER,
    SERVER,
    STATIONS,
    TRUSTS,
)
from pwfl.systems.age_aware import age, markov
from pwfl.tables.contract import TableError, finished
from test_api import AGING
from test_delta import gaussian_epsilon
from test_equal_privacy import ENFORCED, tables
from test_sums import TWO_IN_TEN
from test_sums import scenario as of_sums
from test_sums import stages as sums_stages

EXACT, BOUND = "exact", "upper bound"
SUMS = {"observer": "cell", "colluders": 0.2}
PER_USER = {"training": {"clipping": "per_user"}}
BLOCKS = {"radio": {"coherence_rounds": 4}}
BITS = {"training": {"hidden_layers": [], "bits": 16}}
MULTICELL = {  # privacy, what else, noise: kinds of a record's and a user's epsilon, what it assumes, whom it trusts
    "each upload": ({}, {}, "random", (EXACT, EXACT, "", "", PROVED)),
    "without noise": ({}, {}, "none", (EXACT, EXACT, "", "", NONE)),
    "means clipped": ({}, PER_USER, "random", (EXACT, EXACT, MEANS, "", CONDITIONAL)),
    "sums, colluders": (SUMS, {}, "random", (EXACT, EXACT, "", AGGREGATION, PROVED)),
    "sums, others collude in each block": (SUMS, BLOCKS, "random", (BOUND, BOUND, REALIZED, AGGREGATION, CONDITIONAL)),
    "sums in blocks": ({"observer": "network"}, BLOCKS, "random", (EXACT, EXACT, REALIZED, AGGREGATION, CONDITIONAL)),
    "uploads in blocks": ({}, BLOCKS, "random", (EXACT, EXACT, "", "", PROVED)),
    "sums, dropouts": (TWO_IN_TEN, {}, "random", (BOUND, BOUND, "", AGGREGATION, PROVED)),
    "uploads, dropouts": ({"dropouts": 0.2}, {}, "random", (BOUND, BOUND, "", "", PROVED)),
    "integers": ({"observer": "network"}, BITS, "random", (BOUND, BOUND, "", AGGREGATION, PROVED)),
    "Poisson": ({"target_epsilon": 4.0}, {"data": {"sampling": 0.5}}, "target", (BOUND, BOUND, "", "", PROVED)),
}
ORTHOGONAL = "random_orthogonalization", "all"
BOTH = f"{REALIZED}, {RECEIVER}"
CLEAN = f"{OBSERVED}, {DEVIATIONS}"
CASES = {  # system, scheduler, noise, what else
    "antennas' update": (*ORTHOGONAL, "fixed", {}, (EXACT, EXACT, BOTH, SERVER, CONDITIONAL)),
    "no receiver's noise": (
        *(*ORTHOGONAL, "fixed", {"radio": {"receiver_noise_variance": 0.0}}),
        (EXACT, EXACT, REALIZED, SERVER, CONDITIONAL),
    ),
    "all antennas": (
        *(*ORTHOGONAL, "fixed", {"privacy": {"observer": "antennas"}}),
        (EXACT, EXACT, BOTH, "", CONDITIONAL),
    ),
    "each update": (*ORTHOGONAL, "fixed", {"privacy": {"observer": "user"}}, (EXACT, EXACT, "", "", PROVED)),
    "users' dropouts": (
        *(*ORTHOGONAL, "fixed", {"privacy": {"dropouts": 0.1}}),
        (BOUND, BOUND, BOTH, SERVER, CONDITIONAL),
    ),
    "users' colluders": (
        *(*ORTHOGONAL, "fixed", {"privacy": {"colluders": 0.3}}),
        (BOUND, BOUND, BOTH, SERVER, CONDITIONAL),
    ),
    "receiver's noise alone": (*ORTHOGONAL, "none", {}, (EXACT, EXACT, BOTH, SERVER, CONDITIONAL)),
    "clean uploads": ("utility_fair", "utility", "fair", {}, (EXACT, BOUND, CLEAN, "", CONDITIONAL)),
    "noisy uploads": (
        *("utility_fair", "utility", "fair", {"privacy": {"uploads": "noisy"}}),
        (BOUND, BOUND, OBSERVED, "", CONDITIONAL),
    ),
    "clipped uploads": ("utility_fair", "utility", "fair", ENFORCED, (BOUND, BOUND, "", "", PROVED)),
    "no noise in copies": ("utility_fair", "benchmark", "none", {}, (EXACT, BOUND, "", "", NONE)),
}
LABEL = ("epsilon_kind", "epsilon_user_kind", "epsilon_assumes", "epsilon_trusts", "guarantee")


def said(outcome: pl.DataFrame) -> set[tuple]:
    return set(outcome.filter(pl.col("epsilon").is_not_null()).select(LABEL).rows())


@pytest.mark.parametrize("case", MULTICELL)
def test_multicell_says_what_its_epsilons_are(case):
    privacy, changes, noise, expected = MULTICELL[case]
    schemes = [{"name": noise, "scheduler": "random", "noise": noise}]
    found = sums_stages(of_sums(privacy, schemes=schemes, **changes), noise=noise)
    assert said(found["outcome"]) == {expected}
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


def test_where_nobody_sends_nothing_is_said_of_privacy():
    nobody = of_sums({}, radio={"max_power_dbm": -100.0})
    for noise in ("none", "random"):
        outcome = sums_stages(nobody, noise=noise)["outcome"]
        columns = ["epsilon", "epsilon_user", "epsilon_server", *LABEL, "attack_rate", "observer"]
        assert outcome.select(pl.col(columns).is_null().all()).row(0) == (True,) * len(columns)


def crossing(observer: str, radio: dict, noise: str = "target") -> pl.DataFrame:
    scheme = {"name": "n", "scheduler": "inversion", "noise": noise}
    model = of_sums({"observer": observer, "target_epsilon": 4.0}, radio=radio, schemes=[scheme])
    return sums_stages(model, "inversion", noise)["guarantees"].filter(observer=observer, unit="record")


def guarantees(system: str, *what, observer: str, **changes) -> pl.DataFrame:
    return tables(system, *what, *([changes] if changes else []))["guarantees"].filter(observer=observer, unit="record")


def anonymous(scheme: str, sampling: float) -> pl.DataFrame:
    few = {"data": {"sampling": sampling}, "training": {"rounds": 6}}
    few |= {"privacy": {"curve_rates": [0.5], "estimate_scales": [1.0]}}
    return tables("anonymous_oac", "over_the_air", scheme, few)["guarantees"].filter(unit="record")


def aging(observer: str) -> pl.DataFrame:
    found = pwfl.simulate(AGING, until="account").scenarios["scenario"].stages["guarantees"]
    return found.filter(pl.col("epsilon").is_finite(), observer=observer, unit="record")


def uploads(privacy: dict, **changes) -> pl.DataFrame:
    observer = privacy.get("observer", "user")
    return sums_stages(of_sums(privacy, **changes))["guarantees"].filter(observer=observer, unit="record")


ON_AIR = {"air": "superposed"}
TWINS = {  # what is assumed, or who is trusted: rows of `guarantees` of a study that needs it, and of its twin
    REALIZED: (
        lambda: crossing("server", ON_AIR).filter(noise_from="users"),
        lambda: crossing("user", ON_AIR).filter(noise_from="users"),
    ),
    RECEIVER: (
        lambda: crossing("network", ON_AIR, "none").filter(noise_from=ALL),
        lambda: crossing("network", ON_AIR, "none").filter(noise_from="users"),
    ),
    MARKOV: (
        lambda: aging("record at T"),
        lambda: aging("record as collected"),
    ),
    MEANS: (lambda: uploads({}, **PER_USER), lambda: uploads({})),
    BATCH_SIZES: (lambda: anonymous("identified_fixed", 0.3), lambda: anonymous("identified_fixed", 1.0)),
    PARTICIPATION: (lambda: anonymous("anonymous_fixed", 1.0), lambda: anonymous("identified_fixed", 1.0)),
    OBSERVED: (
        lambda: guarantees("utility_fair", "utility", "fair", observer="uploads", privacy={"uploads": "noisy"}),
        lambda: guarantees("utility_fair", "utility", "fair", observer="uploads", **ENFORCED),
    ),
    DEVIATIONS: (
        lambda: guarantees("utility_fair", "utility", "fair", observer="copies"),
        lambda: guarantees("utility_fair", "utility", "fair", observer="uploads", **ENFORCED),
    ),
    STATIONS: (
        lambda: crossing("network", ON_AIR).filter(noise_from="users"),
        lambda: crossing("server", ON_AIR).filter(noise_from="users"),
    ),
    AGGREGATION: (lambda: uploads({"observer": "network"}), lambda: uploads({})),
    SERVER: (
        lambda: guarantees(*ORTHOGONAL, "fixed", observer="update"),
        lambda: guarantees(*ORTHOGONAL, "fixed", observer="antennas"),
    ),
}


@pytest.mark.parametrize("of", TWINS)
def test_what_stands_behind_an_epsilon_is_said_where_it_is_needed_and_not_of_its_twin(of):
    assert set(TWINS) == {*ASSUMPTIONS, *TRUSTS}
    column = "epsilon_assumes" if of in ASSUMPTIONS else "epsilon_trusts"
    needs, twin = (make() for make in TWINS[of])
    assert needs.height > 0 < twin.height
    assert needs.select(pl.col(column).str.contains(of, literal=True).all()).item()
    assert not twin.select(pl.col(column).str.contains(of, literal=True).any()).item()
    said = [set(each.select(of=accountant.guarantee())["of"]) for each in (needs, twin)]
    if of in ASSUMPTIONS:
        assert said[0] == {CONDITIONAL}
        assert said[1] != {CONDITIONAL} or of == REALIZED


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"epsilon_user": pl.col("epsilon") / 2}, "users_lose_no_less_than_records"),
        ({"epsilon_kind": pl.lit(None)}, "said_what_each_epsilon_is"),
        ({"guarantee": pl.lit(None)}, "said_what_each_epsilon_is"),
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
    assert set(unclipped["epsilon_user_kind"]) == {BOUND}  # none is assumed of all of a device's records


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
    for of_user, record_batches in (("epsilon_user", "epsilon"), ("epsilon_user_classical", "epsilon_classical")):
        np.testing.assert_allclose(rows[of_user], rows["samples"] * rows[record_batches], rtol=1e-12)
        most = rows.group_by("realization", "case", maintain_order=True).agg(pl.col(of_user).max())
        assert found["outcome"][of_user].equals(most[of_user])
    outcome = found["outcome"]
    assert said(outcome) == {(EXACT, BOUND, MARKOV, "", CONDITIONAL)}
    assert (outcome["epsilon_server"] == outcome["epsilon_classical"]).all()
    assert set(outcome.select("epsilon_server_kind", "epsilon_server_assumes").rows()) == {(EXACT, "")}


def test_losses_of_users_scale_mu():
    from pwfl.privacy import accountant

    found = accountant.Losses(np.full((2, 3, 2), 0.1), np.array([4, 4, 2]))
    claim = accountant.Claim("user", accountant.USER, records=np.array([[1, 5], [2, 3]]))
    rho = found.moved(claim.records).rho
    np.testing.assert_allclose(rho, 10 * 0.01 / 2 * np.array([[1, 25], [4, 9]]), rtol=1e-12)
    epsilon, _ = accountant.Gaussian().worth(found, accountant.Claim("user"), 1e-5)
    assert epsilon[0, 0] == float(exact_epsilon(found.rho[0, 0], 1e-5))


def test_a_linear_air_is_accounted_for_from_its_slots():
    from pwfl.airs import linear
    from pwfl.airs.air import Observer
    from pwfl.privacy.accountant import RECORD, USER, Claim, Gaussian

    slots = [(number, user, slot) for number in (0, 1) for user, slot in ((0, 0), (1, 0), (2, 1))]
    rows = pl.DataFrame(slots, schema=["round", "user", "slot"], orient="row").with_columns(
        realization=0, weight=1 / 3, user_noise_std=1.0, update_noise_std=0.5, visibility=0.2, visibility_users_only=0.1
    )
    received = linear.receive_slots(rows, 10, {"server": Observer("all messages", "server")})
    users = pl.DataFrame({"realization": [0, 0, 0], "user": [0, 1, 2], "samples": [5, 6, 7]})

    def account(*units: str) -> dict[str, pl.DataFrame]:
        asked = (Claim("server", unit, 2.0) for unit in units)
        return linear.account(received | {"users": users}, asked, Gaussian(), 1e-5, "server", {"unit": "a record"})

    outcome = account(RECORD, USER)["outcome"].row(0, named=True)
    rho = 2 * (2.0 * 0.1) ** 2 / 2
    assert outcome["rho"] == pytest.approx(rho)
    assert outcome["epsilon"] == pytest.approx(float(exact_epsilon(rho, 1e-5)))
    assert (outcome["channel_uses"], outcome["samples"], outcome["rounds"]) == (2 * 2 * 10, 18, 2)
    assert (outcome["unit"], outcome["guarantee"]) == ("a record", "proved")
    with pytest.raises(ValueError, match="claims: none is on a user against 'server' with noise='users'; add one"):
        account(RECORD)
