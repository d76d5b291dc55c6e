"""Uploads of `multicell` as integers modulo 2^bits: messages, accounts, training, audits, and what is refused."""

import numpy as np
import polars as pl
import pytest
from scipy.linalg import hadamard

import stage_of
from pipeline import digits, part
from pwfl.privacy import discrete
from pwfl.privacy.gaussian import tight_epsilon
from pwfl.scenario import ScenarioError
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.beyond import integers, sums
from pwfl.tables.arrays import to_array
from test_audits import violated
from test_sums import TWO_IN_TEN, scenario, stages

ONE_LAYER = {"hidden_layers": [], "initial_weights": "zero"}


def model_of(privacy, bits, **changes):
    return scenario(privacy, training=ONE_LAYER | {"bits": bits} | changes)


# Messages


@pytest.mark.parametrize("group", [[0, 0, 0, 0, 0], [2, 0, 2, 2, 1], [0, 1, 2, 3, 4]])
def test_the_server_gets_the_weighted_sums_but_for_rounding(group):
    rng, group = np.random.default_rng(1), np.array(group)
    vectors, signs = rng.normal(size=(5, 64)), rng.choice([-1, 1], 64)
    weights, step = np.array([0.5, 2.0, 0.1, 1.0, 3.0])[group], np.array([1e-3, 2e-3, 5e-4, 1e-3, 2e-3])[group]
    found = integers.server_sum(vectors, weights, step, np.zeros(5), group, 16, signs, rng)
    # Each coordinate of a rotated vector is rounded to one of the two next multiples of the step.
    error = np.linalg.norm(found - weights @ vectors)
    assert 0 < error < 4 * np.sqrt(64 * ((weights * step) ** 2).sum())


def test_a_group_s_sum_wraps_around_alone():
    signs, vectors = np.ones(4, int), np.array([[200.0, 0, 0, 0], [200.0, 0, 0, 0], [-3.0, 7, 0, 1]])
    group, ones = np.array([0, 0, 1]), np.ones(3)
    transform = hadamard(4) / 2
    rotated = transform @ (transform @ vectors.T)  # with these signs, the second transform undoes the first
    np.testing.assert_allclose(rotated, vectors.T)
    found = integers.server_sum(vectors, ones, ones, np.zeros(3), group, 8, signs, np.random.default_rng(2))
    np.testing.assert_allclose(found, [400 - 256 - 256 - 3, 7, 0, 1])  # from -128 to 127


@pytest.mark.parametrize("deviation", [1.5, 40.0])
def test_the_noise_in_a_sum_is_that_of_its_senders(deviation):
    rng, step = np.random.default_rng(3), np.array([0.5, 0.5, 0.5, 2.0])
    weights, noise_std, group = np.array([1.0, 1, 1, 3]), deviation * step, np.array([0, 0, 0, 1])
    signs = rng.choice([-1, 1], 4096)
    found = integers.server_sum(np.zeros((4, 4096)), weights, step, noise_std, group, 16, signs, rng)
    expected = ((weights * noise_std) ** 2).sum()
    assert abs((found**2).mean() / expected - 1) < 4.9 * np.sqrt(2 / 4096)


# Grids


def test_a_group_s_grid_follows_from_its_public_numbers():
    model = model_of({"observer": "cell"}, 12)
    frame = assigned(stages(model)).sort(KEYS)
    found = integers.grids(part(model, "train"), frame)
    samples, noise_std, sends, cell = (
        to_array(frame, name, *KEYS) for name in ("samples", "noise_std", "scheduled", "cell")
    )
    for r, t, user in zip(*np.nonzero(sends), strict=True):
        mine = sends[r, t] & (cell[r, t] == cell[r, t, user])
        noise = (samples[r, t, mine] * noise_std[r, t, mine]) ** 2
        expected = 8 * np.sqrt((samples[r, t, mine].sum() * 1.0) ** 2 / 650 + noise.sum()) / 2**12
        assert found[r, t, user] == pytest.approx(expected)
    assert (found[~sends] == 0).all()


def test_noise_of_less_than_one_and_a_half_steps_is_refused_and_the_bits_that_are_named_suffice():
    with pytest.raises(integers.RoundingError, match=r"training.bits: 5 makes noise of 0\.\d+ steps .* take 8 or more"):
        stages(model_of({"observer": "network"}, 5))
    stages(model_of({"observer": "network"}, 8))
    with pytest.raises(integers.RoundingError):
        stages(model_of({"observer": "network"}, 7))
    tables = stages(model_of({"observer": "network"}, 8))
    with pytest.raises(integers.RoundingError):  # before anything is trained
        stage_of.train(part(model_of({"observer": "network"}, 7), "train"), digits(), range(1), tables)
    for wrong in ({"clipping": "per_user"}, {"model": "cnn"}):
        with pytest.raises(ScenarioError, match=r"training\.bits: 12 is for"):
            model_of({}, 12, **{"hidden_layers": [8], "initial_weights": "glorot"} | wrong)


# Accounts


@pytest.mark.parametrize("coherence", [None, 3])
@pytest.mark.parametrize("observer", sums.OBSERVERS)
def test_the_bound_is_little_more_than_that_of_real_numbers(observer, coherence):
    radio = {"coherence_rounds": coherence}
    given = TWO_IN_TEN | {"observer": observer, "min_noise": 30.0, "max_noise_error": 40.0}
    real, found = (
        stages(scenario(given, training=ONE_LAYER | {"bits": bits}, radio=radio))["leakage"] for bits in (None, 14)
    )
    assert (real["epsilon_dithers_known"].is_null()).all()
    assert (found["rho"] == real["rho"]).all()
    tight = tight_epsilon(found["rho"].to_numpy(), 1e-5)
    share = found["epsilon_exact"].to_numpy() / tight
    assert share.min() >= 1
    assert share.max() < 1.02
    assert (found["epsilon_dithers_known"] > tight).all()
    assert (found[f"epsilon_{observer}"] == found["epsilon_exact"]).all()
    assert (found["epsilon_user"] >= found["epsilon_cell"] * (1 - 1e-9)).all()
    # Sums of what the observer sees tell it no more.
    for coarser in sums.OBSERVERS[sums.OBSERVERS.index(observer) :]:
        assert (found[f"epsilon_{coarser}"] == found["epsilon_exact"]).all()


def test_the_bound_is_of_the_honest_senders_of_each_sum():
    model = model_of({"observer": "cell", "colluders": 0.4, "min_noise": 30.0, "max_noise_error": 40.0}, 10)
    tables = stages(model, realizations=range(1))
    frame = assigned(tables).sort(KEYS)
    step = integers.grids(part(model, "train"), frame)[0, 0]
    frame = frame.with_columns(step=pl.Series(step)).filter("scheduled")
    for row in frame.iter_rows(named=True):
        senders = frame.filter(cell=row["cell"]).height
        honest = max(1, senders - min(-(-4 * senders // 10), senders - 1))
        deviation, moved = row["samples"] * row["noise_std"] / row["step"], 2 / row["step"]
        orders = discrete.WHOLE_ORDERS
        cost = discrete.private_dither_cost(orders, np.array(moved), np.array(deviation), np.array(honest), 650)
        expected = discrete.epsilon(orders, 12 * cost, 1e-5)
        found = tables["leakage"].filter(user=row["user"])["epsilon_exact"][0]
        assert found == pytest.approx(float(expected), rel=1e-9)
    nothing = stages(model, noise="none", realizations=range(1))["outcome"]
    assert nothing["epsilon_exact"].is_infinite().all()


# Training


def trained(model, tables, realizations=range(2)):
    return stage_of.train(part(model, "train"), digits(), realizations, tables)["history"]


@pytest.mark.parametrize("changes", [{}, {"privacy": {"dropouts": 0.3}}, {"radio": {"coherence_rounds": 3}}])
@pytest.mark.parametrize("observer", ["cell", "network"])
def test_without_noise_integers_learn_what_real_numbers_do(observer, changes):
    given = {"observer": observer} | changes.get("privacy", {})
    more = {"learning_rate": 0.5, "evaluate_every": 12, "weights": "precision"}
    settings = [
        scenario(given, training=more | {"hidden_layers": [8], "bits": bits}, radio=changes.get("radio", {}))
        for bits in (None, 16)
    ]
    tables = stages(settings[0], noise="none")
    real, found = (trained(model, tables) for model in settings)
    np.testing.assert_allclose(found["loss"], real["loss"], rtol=2e-3)
    assert (found["loss"] != real["loss"]).any()
    np.testing.assert_allclose(found["clipped_share"].drop_nulls(), real["clipped_share"].drop_nulls(), atol=0.01)


def test_with_too_few_bits_noise_vanishes_and_accuracy_rises(monkeypatch):
    # So "the fewest bits that cost no accuracy" is no rule: these are refused, see above.
    given = {"observer": "network", "target_epsilon": 1.0}
    learning = {"learning_rate": 0.5, "clip_norm": 10.0, "evaluate_every": 12}
    where = {"network": {"users": 40}, "radio": {"resource_blocks": 8}, "data": {"samples_total": 1400}}
    enough, few = (scenario(given, training=ONE_LAYER | learning | {"bits": bits}, **where) for bits in (12, 4))
    tables = stages(enough, noise="target")
    with pytest.raises(integers.RoundingError):
        trained(few, tables)
    monkeypatch.setattr(discrete, "LEAST_STEPS", 0.0)
    right, wrong = (trained(model, tables, range(3)).filter(round=12)["accuracy"].mean() for model in (enough, few))
    assert wrong > right + 0.2


# Audits


@pytest.fixture(scope="module")
def audited():
    given = TWO_IN_TEN | {"min_noise": 12.0, "max_noise_error": 9.0}
    model = scenario(given, training=ONE_LAYER | {"bits": 12, "rounds": 6}, audit={"canaries": 300})
    return part(model, "audit"), stages(model)


def test_the_audit_passes_the_code_as_it_is(audited):
    frame = stage_of.audit(*audited)
    assert not violated(frame)
    assert frame["epsilon"][0] == audited[1]["outcome"]["epsilon_exact"].max()
    assert "epsilon of canaries" in frame["test"].to_list()


def test_the_audit_sees_noise_that_vanishes(audited, monkeypatch):
    monkeypatch.setattr(discrete, "LEAST_STEPS", 0.0)
    few = part(model_of(dict(TWO_IN_TEN), 4, rounds=6), "audit")
    assert "deviation of the noise" in violated(stage_of.audit(few, audited[1]))


def test_the_audit_sees_rounded_real_noise_of_half_the_deviation(audited, monkeypatch):
    right = integers.server_sum

    def wrong(vectors, weights, step, noise_std, *rest):
        return right(vectors, weights, step, noise_std / 2, *rest)

    monkeypatch.setattr(integers, "server_sum", wrong)
    assert "deviation of the noise" in violated(stage_of.audit(*audited))
