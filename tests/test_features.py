"""Features that follow from an image alone: synthetic images, projections, variants, what is stored, what leaks."""

import numpy as np
import polars as pl
import pytest
import yaml
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import stage_of
from conftest import ROOT, TINY, missing, workflow
from pipeline import part, stages
from pwfl import registry
from pwfl.api import stage_tables
from pwfl.learning import datasets, extraction, features, projection, sources, stored, synthetic
from pwfl.learning.partition import deal_out
from pwfl.scenario import ScenarioError, load, resolve
from pwfl.stages import PREPARATIONS
from pwfl.store import sealed
from pwfl.training.models import network, parameter_count

BASE = TINY["base"]
ORIGIN = {"stage": "", "address": "a", "code": "", "packages": {}}


def scenario(**training):
    return resolve(BASE, {"training": training})


def given(model) -> dict[str, dict]:
    """The descriptions of what is made before the stages, and that of training."""
    found = stage_of.addresses(model)
    train = next(description for (stage, *_), description in found.items() if stage == "train")
    return {stage: found[stage, None, None] for stage in PREPARATIONS if (stage, None, None) in found} | {
        "train": train
    }


@pytest.fixture(scope="module")
def digits():
    return sources.load("digits")


@pytest.fixture(scope="module")
def learned():
    """A projection of few figures, for the digits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(projection.RECIPES, "strokes", projection.RECIPES["strokes"]._replace(figures=60, copies=5))
        return projection.learn("strokes", 8)


# Synthetic images.


@pytest.mark.parametrize("kind", projection.RECIPES)
def test_images_are_grey_levels_that_follow_the_generator(kind):
    draw = getattr(synthetic, kind)
    images = draw(12, 3, 28, np.random.default_rng(1))
    assert images.shape == (12, 3, 28, 28)
    assert images.dtype == np.float32
    assert images.min() == 0
    assert 0.2 < images.max() <= 1
    assert (images.max(axis=(2, 3)) > 0.05).all()  # no image is blank
    assert np.array_equal(images, draw(12, 3, 28, np.random.default_rng(1)))
    assert not np.array_equal(images, draw(12, 3, 28, np.random.default_rng(2)))
    copies = draw(40, 8, 28, np.random.default_rng(3)).reshape(40, 8, -1)
    within = copies.var(axis=1).sum(axis=1).mean()
    assert copies.mean(axis=1).var(axis=0).sum() > 0.3 * within > 0  # copies are more alike than figures


def test_strokes_are_bezier_curves():
    controls = np.random.default_rng(4).normal(size=(3, 5, 2))
    found = synthetic._bezier(controls)
    times = (1 - np.cos(np.linspace(0, np.pi, synthetic.POINTS))) / 2
    for curve, points in zip(controls, found, strict=True):
        for t, point in zip(times, points, strict=True):
            between = curve  # de Casteljau
            while len(between) > 1:
                between = (1 - t) * between[:-1] + t * between[1:]
            np.testing.assert_allclose(point, between[0], atol=1e-12)


def test_lines_are_as_wide_as_the_pen():
    points = np.stack([np.linspace(-6, 6, 200), np.full(200, 2.0)], axis=1)  # down one column
    [image] = synthetic._lines(points[None], np.array([1.25]), 21)
    distance = abs(np.arange(-10, 11) - 2.0)
    np.testing.assert_allclose(image[10], np.clip(1.75 - distance, 0, 1), atol=1e-3)
    np.testing.assert_allclose(image[:3], 0, atol=1e-3)  # beyond its end


def test_polygons_cover_what_lies_in_them():
    generator = np.random.default_rng(5)
    angles, radii = np.sort(generator.uniform(0, 2 * np.pi, (20, 6))), generator.uniform(3, 9, (20, 6))
    corners = np.stack([radii * np.sin(angles), radii * np.cos(angles)], axis=-1) + generator.normal(size=(20, 1, 2))
    axis = np.arange(24, dtype=np.float32) - np.float32(11.5)
    found = synthetic._covered(corners.astype(np.float32), axis)
    fine = np.arange(-12 + 1 / 40, 12, 1 / 20)  # 20 by 20 points in a pixel
    for polygon, shares in zip(corners, found, strict=True):
        inside = np.zeros((480, 480), bool)
        for (row, column), (to_row, to_column) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
            crosses = (row <= fine) != (to_row <= fine)
            at = column + (fine - row) * (to_column - column) / (to_row - row)
            inside ^= crosses[:, None] & (fine < at[:, None])
        expected = inside.reshape(24, 20, 24, 20).mean(axis=(1, 3))
        assert abs(shares - expected).max() < 0.5  # corners
        assert abs(shares - expected).mean() < 0.01
        assert shares.sum() == pytest.approx(expected.sum(), rel=0.02)
    other_way = synthetic._covered(corners[:, ::-1].astype(np.float32), axis)  # as a mirrored polygon goes
    np.testing.assert_allclose(other_way, found, atol=1e-4)


@pytest.mark.parametrize(("kind", "box"), [("strokes", synthetic.GLYPH), ("shapes", synthetic.SHAPE)])
def test_figures_fill_their_box(kind, box):
    generator = np.random.default_rng(6)
    points, used = generator.normal(size=(9, 2, 3, 7, 2)), generator.random((9, 3)) < 0.7
    used[:, 0] = True
    fitted = synthetic._fitted(points, used, box)
    for figure in range(9):
        for copy in range(2):
            drawn, before = (part[figure, copy, used[figure]].reshape(-1, 2) for part in (fitted, points))
            assert np.ptp(drawn, axis=0).max() == pytest.approx(box)
            scale = box / np.ptp(before, axis=0).max()
            np.testing.assert_allclose(np.ptp(drawn, axis=0) / np.ptp(before, axis=0), scale)
            np.testing.assert_allclose(drawn.max(axis=0), -drawn.min(axis=0))


def test_deformations_are_as_large_as_they_say():
    generator = np.random.default_rng(7)
    points = np.broadcast_to(np.eye(2), (4000, 1, 1, 2, 2))
    (a, b), (c, d) = synthetic._deformed(points, generator, 0.2, 0.0, 0.0)[:, 0, 0].transpose(2, 1, 0)
    angle = np.arctan2(c, a)
    np.testing.assert_allclose([a, d], [np.cos(angle)] * 2, atol=1e-12)
    np.testing.assert_allclose([-b, c], [np.sin(angle)] * 2, atol=1e-12)
    assert stats.kstest(angle / 0.2, "norm").pvalue > 1e-6
    (a, b), (c, d) = synthetic._deformed(points, generator, 0.0, 0.3, 0.1)[:, 0, 0].transpose(2, 1, 0)
    for numbers in ((a - 1) / 0.1, (d - 1) / 0.1, c / 0.3):
        assert stats.kstest(numbers, "norm").pvalue > 1e-6
    np.testing.assert_allclose(b, 0, atol=1e-12)


# The projection.


def figures(generator, count, copies, width):
    middle = generator.normal(size=(count, 1, width)) * np.linspace(2, 0.1, width)
    copied = generator.normal(size=(count, copies, width)) @ generator.normal(size=(width, width)) / 4
    return (middle + copied).astype("f")


def test_directions_are_those_of_linear_discriminant_analysis():
    sample = figures(np.random.default_rng(8), 40, 30, 6)
    found = projection.discriminants(iter([sample[:25], sample[25:]]), projection.Recipe(40, 30, 0.0, 0.0))
    rows, classes = sample.reshape(-1, 6).astype(float), np.repeat(range(40), 30)
    oracle = LinearDiscriminantAnalysis(solver="eigen").fit(rows, classes)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0), atol=1e-5)
    expected = oracle.scalings_[:, :6]
    ratio = found.directions / expected
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[0], ratio.shape), rtol=1e-2)  # but for their length
    assert abs(ratio[0]) == pytest.approx(1, rel=1e-2)  # which is 1 in the scatter within figures


def test_directions_solve_the_regularized_equation():
    sample, recipe = figures(np.random.default_rng(9), 50, 8, 5), projection.Recipe(50, 8, 0.05, 0.5)
    found = projection.discriminants(iter([sample]), recipe).directions.astype(float)
    means = sample.mean(axis=1).astype(float)
    between = np.cov(means.T, bias=True)
    within = np.cov((sample - sample.mean(axis=1, keepdims=True)).reshape(-1, 5).T.astype(float), bias=True)
    whole = between + np.cov((sample - means[:, None]).reshape(-1, 5).T, bias=True)
    within += 0.05 * np.linalg.eigvalsh(whole)[-1] * np.eye(5)
    value = np.einsum("ik,ij,jk->k", found, between, found) / np.einsum("ik,ij,jk->k", found, within, found)
    np.testing.assert_allclose(between @ found, within @ found * value, rtol=1e-2, atol=1e-3)
    assert (np.diff(value) < 0).all()
    np.testing.assert_allclose(np.einsum("ik,ij,jk->k", found, within, found), value / (1 + value), rtol=1e-2)


def test_a_projection_is_a_constant(learned, monkeypatch, tmp_path):
    monkeypatch.setitem(projection.RECIPES, "strokes", projection.RECIPES["strokes"]._replace(figures=60, copies=5))
    again = projection.learn("strokes", 8)
    assert datasets.content(again) == datasets.content(learned)
    assert learned.directions.shape == (729, max(features.DIRECTIONS.values()))
    path = str(tmp_path / "projection.npz")
    stored.write(learned, "projection", path, ORIGIN)
    assert datasets.content(stored.read("projection", path, "a")) == datasets.content(learned)
    monkeypatch.setattr(projection, "SEED", 2)
    assert datasets.content(projection.learn("strokes", 8)) != datasets.content(learned)


def test_figures_of_chunks_differ(monkeypatch):
    monkeypatch.setitem(projection.RECIPES, "strokes", projection.RECIPES["strokes"]._replace(figures=4, copies=2))
    monkeypatch.setattr(projection, "CHUNK", 2)
    one, other = projection._features("strokes", 8)
    assert one.shape == (2, 2, 729)
    assert not np.array_equal(one, other)


# No data but a record's own enters its features.


@pytest.mark.parametrize("kind", ["scattering", "strokes"])
def test_changed_data_of_users_change_no_other_features(digits, learned, kind):
    own = learned if kind == "strokes" else None
    x_train, y_train, x_test, y_test = digits
    theirs = np.random.default_rng(11).permutation(len(x_train))[:700]
    changed, labels = x_train.copy(), y_train.copy()
    changed[theirs], labels[theirs] = 240 - changed[theirs], 9 - labels[theirs]
    before = extraction.extract(digits, own)
    after = extraction.extract((changed, labels, 240 - x_test, y_test), own)
    others = np.setdiff1d(np.arange(len(x_train)), theirs)
    assert np.array_equal(before[0][others], after[0][others])
    assert (before[0][theirs] != after[0][theirs]).any(axis=1).all()
    before = extraction.extract((changed, labels, x_test, y_test), own)[2]
    assert np.array_equal(before, extraction.extract(digits, own)[2])  # nor those of test images


def test_a_projection_depends_on_no_data_and_no_scenario():
    one = given(scenario(features="strokes"))["projection"]
    assert one["parameters"] == {"side": 8}
    assert one["upstream"] == {}
    other = resolve(BASE, {"seed": 7, "network": {"users": 5}, "training": {"features": "strokes"}})
    assert given(other)["projection"] == one
    large = [
        given(resolve(BASE | {"data": {"dataset": name}, "training": {"features": "strokes"}}, {}))["projection"]
        for name in ("mnist", "fashion_mnist")
    ]
    assert large[0] == large[1]
    assert large[0]["parameters"] == {"side": 28}


# What is stored, and where.


def test_features_are_refused_once_they_are_changed(digits, learned, tmp_path):
    path = str(tmp_path / "features.npz")
    arrays = extraction.extract(digits, learned)
    stored.write(arrays, "features", path, ORIGIN)
    model = scenario(features="strokes")
    data = features.training_data(part(model, "train"), {"features": stored.read("features", path, "a")})
    assert data.x_train.shape == (1437, 160)
    assert data.x_test.shape == (360, 160)
    np.testing.assert_allclose(np.linalg.norm(data.x_train, axis=1), features.NORM, rtol=1e-5)
    used = arrays[0][:, :160]
    np.testing.assert_allclose(data.x_train, features.NORM * used / np.linalg.norm(used, axis=1)[:, None], rtol=1e-5)
    assert np.array_equal(data.y_train, digits[1])
    with pytest.raises(
        sealed.DamagedError, match=r"features.npz is corrupt: its label says address a, expected b. .*rm "
    ):
        stored.read("features", path, "b")


def test_pixels_are_what_they_were():
    model = scenario()
    assert set(given(model)) == {"dataset", "train"}
    assert set(given(model)["train"]["upstream"]) >= {"dataset"}
    for one, other in zip(stage_of.data_of(model), datasets.prepared(sources.load("digits")), strict=True):
        assert np.array_equal(one, other)
        assert one.dtype == other.dtype


def test_what_is_computed_anew():
    one = given(scenario(features="strokes"))
    assert set(one) == {"dataset", "projection", "features", "train"}
    assert "dataset" not in one["train"]["upstream"]
    assert set(given(scenario(features="scattering"))) == {"dataset", "features", "train"}


@pytest.mark.parametrize(
    ("training", "width"),
    [({}, 64), ({"features": "scattering"}, 729), ({"features": "strokes"}, 160), ({"features": "shapes"}, 500)],
)  # fmt: skip
def test_sizes_follow_the_features(training, width):
    model = scenario(**training)
    size = features.size(model)
    assert size._replace(shape=(8, 8)) == datasets.SIZES["digits"]
    assert size.features == width
    size = features.size(part(model, "account"))
    assert (
        parameter_count(network(model.training, size)) == width * 8 + 8 + 8 * 10 + 10
    )  # what users send, and what it costs


# Constants are chosen on images that nobody holds.


@pytest.mark.parametrize("kind", ["pixels", "scattering"])
def test_validation_is_on_training_images_that_nobody_holds(kind):
    plain = stage_of.data_of(scenario(features=kind))
    held = stage_of.data_of(
        resolve(BASE, {"training": {"features": kind}, "data": {"reserved": 300, "evaluate_on": "reserved"}})
    )
    assert np.array_equal(held.x_train, plain.x_train[:-300])
    assert np.array_equal(held.x_test, plain.x_train[-300:])
    assert np.array_equal(np.concatenate([held.y_train, held.y_test]), plain.y_train)


def trained(system: str, **sections) -> dict[str, pl.DataFrame]:
    """What a training of a system's tiny scenario makes."""
    base = {"system": system, "realizations": 1, "training_realizations": 1} | registry.system(system).catalog.tiny
    model = resolve(base, sections)
    _, found = next(stages(model))
    return stage_of.train(part(model, "train"), stage_of.data_of(model), range(1), found)


@pytest.mark.parametrize("system", ["multicell", "anonymous_oac", "random_orthogonalization", "utility_fair"])
def test_no_test_image_enters_a_validation_whose_images_are_dealt_to_nobody(system, monkeypatch):
    held = {"data": {"reserved": 200, "evaluate_on": "reserved", "partition": "dirichlet"}}
    x_train, labels, x_test, y_test = sources.load("digits")
    one, plain = trained(system, **held), trained(system)
    monkeypatch.setattr(sources, "load", lambda *_: (x_train, labels, 240 - x_test, y_test))
    other = trained(system, **held)
    assert one["history"].equals(other["history"])
    assert not one["history"].equals(plain["history"])
    changed = np.append(labels[:-200], np.zeros_like(labels[-200:]))
    monkeypatch.setattr(sources, "load", lambda *_: (x_train, changed, x_test, y_test))
    other = trained(system, **held)
    assert one["holdings"].equals(other["holdings"])
    assert not one["history"].equals(other["history"])


# What constants were chosen on stays with nobody.

SYSTEMS = ["multicell", "anonymous_oac", "random_orthogonalization", "utility_fair"]
DEALS = ["quantity", "dirichlet", "shards"]


def test_more_reserved_images_than_there_are_are_refused_by_their_key():
    with pytest.raises(
        ScenarioError, match=r"data.reserved: 1437 leaves users no training samples: digits has 1437; lower"
    ):
        resolve(BASE, {"data": {"dataset": "digits", "reserved": 1437}})


def test_reserved_images_are_the_last_ones_and_leave_the_test_images():
    plain, kept = (stage_of.data_of(resolve(BASE, {"data": {"reserved": count}})) for count in (None, 300))
    assert np.array_equal(kept.x_train, plain.x_train[:-300])
    assert np.array_equal(kept.y_train, plain.y_train[:-300])
    assert np.array_equal(kept.x_test, plain.x_test)


@pytest.mark.parametrize("kind", DEALS)
def test_in_no_realization_does_anybody_hold_a_reserved_image(kind):
    model = resolve(BASE, {"data": {"reserved": 300, "partition": kind, "samples_total": 600}})
    labels, samples = stage_of.data_of(model).y_train, np.full(20, 30)
    dealt = np.array([np.concatenate(deal_out(model.data, labels, samples, 1, r)) for r in range(100)])
    assert set(dealt.ravel()) == set(range(1137))


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("kind", DEALS)
def test_nothing_that_is_trained_depends_on_reserved_images(system, kind, monkeypatch):
    partition = "iid" if kind == "quantity" and system != "multicell" else kind
    kept = {"data": {"reserved": 200, "partition": partition}}
    x_train, labels, x_test, y_test = sources.load("digits")
    one, plain = trained(system, **kept), trained(system, data={"partition": partition})
    images, others = x_train.copy(), labels.copy()
    images[-200:], others[-200:] = 240 - x_train[-200:], 9 - labels[-200:]
    monkeypatch.setattr(sources, "load", lambda *_: (images, others, x_test, y_test))
    for name, table in trained(system, **kept).items():
        assert table.equals(one[name])
    assert not one["history"].equals(plain["history"])


@pytest.mark.parametrize("system", SYSTEMS)
def test_more_than_is_left_beside_them_is_refused(system):
    base = {"system": system, "realizations": 1, "training_realizations": 1} | registry.system(system).catalog.tiny
    with pytest.raises(ScenarioError, match=r"digits has 7; another 1430 are reserved by data\.reserved; lower data"):
        resolve(base, {"data": {"reserved": 1430}})


def test_studies_reserve_what_their_constants_were_chosen_on():
    seen = 0
    for path in (ROOT / "config").glob("*.yaml"):
        for name, model in load(yaml.safe_load(path.read_text()), path.name).scenarios.items():
            training = vars(model).get("training")
            if getattr(training, "step", None) == "snr" and path.stem != "systems":  # its steps: tests/test_steps.py
                least = 37 if model.data.dataset == "digits" else 10_000
                assert model.data.reserved == least, f"{path.name}: {name}"
                seen += 1
    assert seen > 20


@pytest.mark.parametrize(
    ("training", "data", "expected"),
    [
        ({}, {"reserved": 1400}, r"data.samples_offset: 20 users would hold at least 200 samples, but digits has 37"),
        ({}, {"evaluate_on": "reserved"}, "data.reserved: is missing; data.evaluate_on: reserved requires some"),
        ({"features": "stroke"}, {}, "training.features"),
    ],
)
def test_what_cannot_be_is_named(training, data, expected):
    with pytest.raises(ScenarioError, match=expected):
        resolve(BASE, {"training": training, "data": data})


# What they are good for.


def test_a_few_digits_tell_more_by_what_strokes_know(digits, learned):
    accuracy = {}
    for kind, own in (("pixels", None), ("scattering", None), ("strokes", learned)):
        data = datasets.prepared(digits)
        if kind != "pixels":
            data = features.chosen(extraction.extract(digits, own), kind)
        hits = []
        for draw in range(20):
            generator = np.random.default_rng(draw)
            rows = [generator.choice(np.flatnonzero(data.y_train == digit), 3) for digit in range(10)]
            means = data.x_train[np.array(rows)].mean(axis=1)
            nearest = ((data.x_test[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
            hits.append((nearest == data.y_test).mean())
        accuracy[kind] = np.mean(hits)
    assert accuracy["pixels"] + 0.02 < accuracy["scattering"] < accuracy["strokes"] - 0.01, accuracy


@pytest.mark.slow
def test_the_workflow_trains_on_what_simulate_does(tmp_path):
    config = yaml.safe_load(yaml.safe_dump(TINY))
    schemes = [{"name": "RndSched", "scheduler": "random", "noise": "random"}]
    config["base"] |= {"realizations": 2, "training_realizations": 2, "schemes": schemes}
    config["scenarios"] = {"one": {"training": {"features": "scattering"}}}
    workflow(tmp_path, config, "--until", "train")
    left = pl.concat(map(pl.read_parquet, sorted(tmp_path.glob("store/train/*/*/history.parquet"))))
    again = stage_tables(resolve(config["base"], config["scenarios"]["one"]))
    assert left.equals(again["history"].drop("scheme"))
    config["scenarios"] = {"one": {"sweep": {"training.features": ["scattering", "strokes", "shapes"]}}}
    found = missing(tmp_path, config)
    assert (found["projection"], found["features"], found["train"]) == (2, 2, 4)  # of 3, one was done; two chunks each
    assert "dataset" not in found
