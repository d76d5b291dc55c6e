"""Uploads of `multicell` as integers modulo 2^bits: messages, accounts, training, audits, and what is refused."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy import stats
from scipy.linalg import hadamard

import pwfl
import stage_of
from conftest import in_turn, workflow
from pipeline import digits, part, received
from pwfl import registry, streams
from pwfl.airs import air
from pwfl.api import stage_tables
from pwfl.learning import modular
from pwfl.privacy import accountant, audit, discrete
from pwfl.privacy.gaussian import tight_epsilon
from pwfl.scenario import ScenarioError
from pwfl.scenario.resolution import merge
from pwfl.systems.multicell import account, claims, receive
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.beyond import integers, mechanism, sums
from pwfl.tables.arrays import to_array
from pwfl.training.integers import server_sum
from test_audits import violated
from test_faults import half_the_integers_noise
from test_sums import TWO_IN_TEN, scenario, stages

ONE_LAYER = {"hidden_layers": [], "recipe": "zero_start"}


def model_of(privacy, bits, **changes):
    return scenario(privacy, training=ONE_LAYER | {"bits": bits} | changes)


# Messages


@pytest.mark.parametrize("group", [[0, 0, 0, 0, 0], [2, 0, 2, 2, 1], [0, 1, 2, 3, 4]])
def test_the_server_gets_the_weighted_sums_but_for_rounding(group):
    rng, group = np.random.default_rng(1), np.array(group)
    vectors, signs = rng.normal(size=(5, 64)), rng.choice([-1, 1], 64)
    weights, step = np.array([0.5, 2.0, 0.1, 1.0, 3.0])[group], np.array([1e-3, 2e-3, 5e-4, 1e-3, 2e-3])[group]
    found = server_sum(vectors, weights, step, np.zeros(5), group, 16, signs, rng)
    # Each coordinate of a rotated vector is rounded to one of the two next multiples of the step.
    error = np.linalg.norm(found - weights @ vectors)
    assert 0 < error < 4 * np.sqrt(64 * ((weights * step) ** 2).sum())


def test_a_group_s_sum_wraps_around_alone():
    signs, vectors = np.ones(4, int), np.array([[200.0, 0, 0, 0], [200.0, 0, 0, 0], [-3.0, 7, 0, 1]])
    group, ones = np.array([0, 0, 1]), np.ones(3)
    transform = hadamard(4) / 2
    rotated = transform @ (transform @ vectors.T)  # with these signs, the second transform undoes the first
    np.testing.assert_allclose(rotated, vectors.T)
    found = server_sum(vectors, ones, ones, np.zeros(3), group, 8, signs, np.random.default_rng(2))
    np.testing.assert_allclose(found, [400 - 256 - 256 - 3, 7, 0, 1])  # from -128 to 127


@pytest.mark.parametrize("deviation", [1.5, 40.0])
def test_the_noise_in_a_sum_is_that_of_its_senders(deviation):
    rng, step = np.random.default_rng(3), np.array([0.5, 0.5, 0.5, 2.0])
    weights, noise_std, group = np.array([1.0, 1, 1, 3]), deviation * step, np.array([0, 0, 0, 1])
    signs = rng.choice([-1, 1], 4096)
    found = server_sum(np.zeros((4, 4096)), weights, step, noise_std, group, 16, signs, rng)
    expected = ((weights * noise_std) ** 2).sum()
    assert abs((found**2).mean() / expected - 1) < 4.9 * np.sqrt(2 / 4096)


# Grids


def test_a_group_s_grid_follows_from_its_public_numbers():
    model = model_of({"observer": "cell"}, 12)
    frame = assigned(stages(model)).sort(KEYS)
    found = integers.grids(part(model, "receive"), frame)
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
    with pytest.raises(
        integers.RoundingError, match=r"training.bits: 5 is too few: noise spans 0\.\d+ grid steps .* Use 8 or more"
    ):
        stages(model_of({"observer": "network"}, 5))
    stages(model_of({"observer": "network"}, 8))
    with pytest.raises(integers.RoundingError):
        stages(model_of({"observer": "network"}, 7))
    tables = stages(model_of({"observer": "network"}, 8))
    with pytest.raises(integers.RoundingError):  # before anything is trained
        received(model_of({"observer": "network"}, 7), tables)
    for wrong in ({"clipping": "per_user"}, {"model": "cnn"}):
        with pytest.raises(ScenarioError, match=r"training\.bits: 12 requires"):
            model_of({}, 12, **{"hidden_layers": [8], "recipe": "paper"} | wrong)


# Accounts


@pytest.mark.parametrize("coherence", in_turn([None, 3], None))
@pytest.mark.parametrize("observer", sums.OBSERVERS)
def test_the_bound_is_little_more_than_that_of_real_numbers(observer, coherence):
    radio = {"coherence_rounds": coherence}
    given = TWO_IN_TEN | {"observer": observer, "min_noise": 30.0, "max_noise_error": 40.0}
    of_reals, of_integers = (
        stages(scenario(given, training=ONE_LAYER | {"bits": bits}, radio=radio)) for bits in (None, 14)
    )
    real, found = of_reals["leakage"], of_integers["leakage"]
    assert (real["epsilon_dithers_known"].is_null()).all()
    assert (found["rho"] == real["rho"]).all()
    tight = tight_epsilon(found["rho"].to_numpy(), 1e-5)
    share = found["epsilon"].to_numpy() / tight
    assert share.min() >= 1
    assert share.max() < 1.02
    assert (found["epsilon_dithers_known"] > tight).all()
    stated = of_integers["guarantees"].filter(unit="record", noise_from="users").sort("realization")
    of = {name: stated.filter(observer=name)["epsilon"] for name in sums.OBSERVERS}
    assert of[observer].to_list() == of_integers["outcome"]["epsilon"].drop_nulls().to_list()
    assert (of["user"] >= of["cell"] * (1 - 1e-9)).all()


def test_the_bound_is_of_the_honest_senders_of_each_sum():
    model = model_of({"observer": "cell", "colluders": 0.4, "min_noise": 30.0, "max_noise_error": 40.0}, 10)
    tables = stages(model, realizations=range(1))
    frame = assigned(tables).sort(KEYS)
    step = integers.grids(part(model, "receive"), frame)[0, 0]
    frame = frame.with_columns(step=pl.Series(step)).filter("scheduled")
    for row in frame.iter_rows(named=True):
        senders = frame.filter(cell=row["cell"]).height
        honest = max(1, senders - min(-(-4 * senders // 10), senders - 1))
        deviation, moved = row["samples"] * row["noise_std"] / row["step"], 2 / row["step"]
        orders = discrete.WHOLE_ORDERS
        cost = discrete.private_dither_cost(orders, np.array(moved), np.array(deviation), np.array(honest), 650)
        expected = discrete.epsilon(orders, 12 * cost, 1e-5)
        found = tables["leakage"].filter(user=row["user"])["epsilon"][0]
        assert found == pytest.approx(float(expected), rel=1e-9)
    nothing = stages(model, noise="none", realizations=range(1))["outcome"]
    assert nothing["epsilon"].is_infinite().all()


def networks(rng, count, users, cells):
    """Random networks of equal noise in uploads, as (samples, s_i, sends, cell), each of shape (network, 1, user)."""
    shape = (count, 1, users)
    samples = rng.choice([2.0, 20.0, 200.0], shape)
    return samples, np.full(shape, 60.0), rng.random(shape) < 0.8, rng.integers(cells, size=shape)


def test_the_network_s_coalition_may_all_be_in_the_record_s_cell():
    """Brute force: every coalition of the network's senders and all who drop out of the record's cell, which is opened."""
    rng = np.random.default_rng(11)
    rules, training = (
        scenario({"observer": "cell", "colluders": 0.3, "dropouts": 0.1}).privacy,
        model_of({}, 12).training,
    )
    _, noise_std, sends, cell = networks(rng, 36, 7, 2)
    step = np.full(sends.shape, 2.0)
    group, gone = sums.left_to("network", rules, cell, sends)
    assert (group == cell).all()
    spent = integers.divergences(training, noise_std, step, sends, cell, gone, 650)
    found = discrete.epsilon(discrete.WHOLE_ORDERS, spent, rules.delta)
    worse = 0
    for r, _, user in zip(*np.nonzero(sends), strict=True):
        senders = np.nonzero(sends[r, 0])[0]
        n = len(senders)
        others = [other for other in senders if other != user]
        neighbors = {other for other in senders if cell[r, 0, other] == cell[r, 0, user]}
        lost = min(int(stats.binom.ppf(0.9, len(neighbors), 0.1)), len(neighbors) - 1)
        left = min(
            len(neighbors - set(colluders) - set(dropouts))
            for colluders in combinations(others, min(-(-3 * n // 10), len(others)))
            for dropouts in combinations(neighbors - {user}, lost)
        )
        orders = discrete.WHOLE_ORDERS
        cost = discrete.private_dither_cost(orders, *map(np.array, (1.0, 30.0, left)), 650)
        expected = discrete.epsilon(orders, training.rounds * cost, rules.delta)
        assert found[r, user] == pytest.approx(float(expected), rel=1e-9)
        m = len(neighbors)
        worse += left < max(1, m - min(-(-3 * m // 10), m - 1) - int(stats.binom.ppf(0.9, m, 0.1)))
    assert worse >= 10  # whom the coalition of the cell alone leaves more


@pytest.mark.parametrize("colluders", in_turn([0.2, 0.4]))
def test_who_sees_the_sum_of_all_may_read_more_off_it_than_off_cells_sums(colluders):
    """Where rho of the network is larger than that of cells, so is what integers are said to cost: of random networks."""
    count, users = 200, 24
    samples, noise, sends, cell = networks(np.random.default_rng(12), count, users, 3)
    keys = {"realization": np.repeat(np.arange(count), users), "user": np.tile(np.arange(users), count)}
    flat = {"samples": samples.astype(int), "noise_std": noise / samples, "scheduled": sends, "cell": cell}
    frame = pl.DataFrame(keys | {name: values.ravel() for name, values in flat.items()})
    given = {"observer": "cell", "colluders": colluders}
    frame = frame.with_columns(interval=pl.lit(0), hiding_std=1.0)
    of_users = frame.select("realization", "user", "samples")

    def epsilons(model) -> dict[str, np.ndarray]:
        views = air.table(sums.observed_by(model.privacy, 1), pl.Series(range(count)))
        given = {"users": of_users, "visibility": receive.visible(model, {}, frame), "observers": views}
        rounds, asked = mechanism.mechanism(model, frame), account.claims(model, views, samples.reshape(count, users))
        costs = accountant.accounts(given, asked, rounds, model.privacy.delta)
        of = {name: costs[name, "record", "users"] for name in ("cell", "network")}
        return {name: each.epsilon[each.there] for name, each in of.items()}

    real, found = (epsilons(model_of(given, bits, recipe="inverse_variance")) for bits in (None, 14))
    more = real["network"] > real["cell"] * (1 + 1e-9)
    assert 50 < more.sum() < len(more)
    assert (found["network"] >= real["network"]).all()
    # Renyi divergences of real-valued noise of the same rho are the least that a bound for integers can say.
    orders = discrete.WHOLE_ORDERS
    seen = receive.visible(model_of(given, None, recipe="inverse_variance"), {}, frame, ("network",))[
        "visibility"
    ].to_numpy()
    divergences = orders * (12 * (2.0 * seen)[:, None] ** 2 / 2)
    least = discrete.epsilon(orders, divergences, 1e-5)
    assert (found["network"] >= least * (1 - 1e-9)).all()


def on_mnist(bits, senders, samples):
    """Epsilon of ten rounds on strokes without biases by the bound for private dithers, a fifth colluding (docs/explanation/sums.md)."""
    dimensions, clip, rho = 1600, 0.5, 0.1115
    honest = senders - -(-senders // 5) if senders > 1 else 1
    deviation = np.sqrt(10 * 2 * clip**2 / rho / honest)
    step = modular.grid_step(clip * samples, deviation, senders, dimensions, bits)
    given = (np.array(value) for value in (2 * clip / step, deviation / step, honest))
    cost = discrete.private_dither_cost(discrete.WHOLE_ORDERS, *given, dimensions)
    return float(discrete.epsilon(discrete.WHOLE_ORDERS, 10 * cost, 1e-5))


@pytest.mark.parametrize(
    ("observer", "senders", "samples"), [("user", 1, 231), ("cell", 5, 1157), ("network", 35, 8200)]
)
def test_bits_that_are_called_enough_cost_less_than_a_hundredth_of_epsilon(observer, senders, samples):
    bits = claims.ENOUGH_BITS[observer]
    most = on_mnist(24, senders, samples)
    assert most == pytest.approx(2.033, abs=1e-3)
    assert on_mnist(bits, senders, samples) < 1.01 * most


# Training


def trained(model, tables, realizations=range(2)):
    return stage_of.train(part(model, "train"), digits(), realizations, tables)["history"]


@pytest.mark.parametrize("changes", [{}, {"privacy": {"dropouts": 0.3}}, {"radio": {"coherence_rounds": 3}}])
@pytest.mark.parametrize("observer", ["cell", "network"])
def test_without_noise_integers_learn_what_real_numbers_do(observer, changes):
    given = {"observer": observer} | changes.get("privacy", {})
    more = {"learning_rate": 0.5, "evaluate_every": 12, "recipe": "inverse_variance"}
    settings = [
        scenario(given, training=more | {"hidden_layers": [8], "bits": bits}, radio=changes.get("radio", {}))
        for bits in (None, 16)
    ]
    tables = stages(settings[0], noise="none")
    real, found = (trained(model, tables | received(model, tables)) for model in settings)
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
        received(few, tables)
    monkeypatch.setattr(discrete, "LEAST_STEPS", 0.0)
    right, wrong = (
        trained(model, tables | received(model, tables), range(3)).filter(round=12)["accuracy"].mean()
        for model in (enough, few)
    )
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
    assert frame["epsilon"][0] == audited[1]["outcome"]["epsilon"].max()
    assert audit.LEAST in frame["test"].to_list()


@pytest.mark.slow
def test_the_audit_sees_noise_that_vanishes(audited, monkeypatch):
    monkeypatch.setattr(discrete, "LEAST_STEPS", 0.0)
    few = model_of(dict(TWO_IN_TEN), 4, rounds=6)
    found = audited[1] | received(few, audited[1])
    assert "deviation of the noise" in violated(stage_of.audit(part(few, "audit"), found))


def test_the_audit_sees_rounded_real_noise_of_half_the_deviation(audited, monkeypatch):
    half_the_integers_noise(monkeypatch)
    assert "deviation of the noise" in violated(stage_of.audit(*audited))


# Rounds whose sums are not opened, with all else that a study may ask for


def test_no_messages_are_a_sum_of_zeros():
    nothing = np.zeros((0, 48))
    found = server_sum(nothing, *np.zeros((4, 0)), 16, np.ones(48, int), np.random.default_rng(0))
    np.testing.assert_array_equal(found, np.zeros(48))


UNOPENED = {"observer": "network", "dropouts": 0.4, "dropout_tolerance": 0.49}


@pytest.mark.parametrize("bits", [None, 16])
@pytest.mark.parametrize("coherence", [None, 4])
def test_a_round_whose_sum_is_not_opened_leaves_the_model_as_it_is(bits, coherence):
    """Who is heard is drawn here once more; a round in which nobody is has the loss of the round before."""
    model = scenario(
        UNOPENED, training=ONE_LAYER | {"bits": bits, "evaluate_every": 1}, radio={"coherence_rounds": coherence}
    )
    found = stages(model)
    history = stage_of.train(part(model, "train"), digits(), range(3), found)["history"]
    frame, intervals = assigned(found).sort(KEYS), 12 // coherence if coherence else 1
    silent = 0
    for realization in range(3):
        sends = frame.filter(realization=realization)["scheduled"].to_numpy().reshape(intervals, -1)
        drawn = streams.generator(model.seed, "dropouts", realization)
        heard = sums.rounds_heard(model.privacy, sends, np.zeros(sends.shape, int), 12, drawn).any(axis=1)
        rows = history.filter(realization=realization).sort("round")
        loss = rows["loss"].to_numpy()
        assert rows["round"].to_list() == list(range(13))
        assert ((loss[1:] == loss[:-1]) == ~heard).all()
        silent += (~heard).sum()
    assert 0 < silent < 36


GRID = {
    f"{observer}_{colluders}_{dropouts}_{bits}_{coherence}": {
        "privacy": {"observer": observer, "colluders": colluders, "dropouts": dropouts, "dropout_tolerance": 0.49},
        "training": {"bits": bits, "recipe": "paper" if colluders else "inverse_variance"},
        "radio": {"coherence_rounds": coherence},
    }
    for observer in sums.OBSERVERS
    for colluders in (0.0, 0.2)
    for dropouts in (0.0, 0.4)
    for bits in (None, 16)
    for coherence in (None, 3)
}
SCHEMES = [
    {"name": "target", "scheduler": "random", "noise": "target"},
    {"name": "own", "scheduler": "optimal", "noise": "optimal"},
    {"name": "none", "scheduler": "optimal", "noise": "none"},
]


def grid_study(chosen):
    """A study of some of GRID, of which each scenario is trained and audited."""
    changes = {"realizations": 2, "training_realizations": 2}
    changes |= {"schemes": SCHEMES, "privacy": {"target_epsilon": 8.0, "min_noise": 3.5}, "audit": {"canaries": 50}}
    changes["training"] = ONE_LAYER | {"rounds": 6, "evaluate_every": 3}
    base = merge(registry.system("multicell").catalog.tiny | {"network": {"users": 30}}, changes)
    return {"study": "grid", "base": base | {"system": "multicell"}, "scenarios": {name: GRID[name] for name in chosen}}


def check_grid(names):
    """Simulate a part of the grid; each scenario is trained, accounted for and audited."""
    for name in names:
        found = pwfl.simulate(grid_study([name])).scenarios[name]
        assert found.stages["history"].filter(pl.col("status") == "trained").height > 0, name
        assert found.stages["history"]["clipped_share"].is_nan().sum() == 0, name
        statuses = set(found.report["audit"]["status"])
        assert "failed" not in statuses, name
        assert "passed" in statuses, name


NOISED = ("channel", "schedule", "noise")


def test_who_sees_single_uploads_takes_nobody_else_s_noise_off_them():
    """Whoever colludes or drops out, what noise is set for is an upload alone."""
    target = {"observer": "user", "target_epsilon": 8.0}
    changes = {"schemes": [{"name": "a", "scheduler": "random", "noise": "target"}]}
    changes |= {"realizations": 3, "training_realizations": 1}
    alone, others = (
        stage_tables(scenario(target | gone, training=ONE_LAYER | {"bits": 16}, **changes), NOISED)["noise"]
        for gone in ({}, {"colluders": 0.2, "dropouts": 0.4, "dropout_tolerance": 0.49})
    )
    assert alone.equals(others)


SMALL_GRID = ["network_0.2_0.4_16_3", "network_0.0_0.4_16_None", "cell_0.2_0.4_16_None", "network_0.2_0.4_None_3"]


@pytest.mark.parametrize("name", in_turn(SMALL_GRID, SMALL_GRID[2]))
def test_observers_colluders_dropouts_and_integers_go_together(name):
    check_grid([name])


@pytest.mark.slow
def test_every_combination_of_observers_colluders_dropouts_fading_and_integers_runs():
    check_grid(GRID)


@pytest.mark.slow
def test_a_study_of_combinations_runs_through_the_workflow(tmp_path):
    workflow(tmp_path, grid_study(SMALL_GRID))
    left = pwfl.results(tmp_path / "results/grid")
    assert sorted(left.scenarios) == sorted(SMALL_GRID)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clipping": "per_user"}, "clipping: per_sample"),
        ({"model": "cnn"}, "`model: dense`"),
        ({"model": "network.py:f"}, "`model: dense`"),
    ],
)
@pytest.mark.parametrize("observer", sums.OBSERVERS)
def test_integers_of_other_learning_are_refused_before_any_work(changes, said, observer):
    with pytest.raises(ScenarioError, match=rf"training.bits: 16 requires .*{said}"):
        model_of({"observer": observer}, 16, hidden_layers=[], recipe="paper", **changes)
