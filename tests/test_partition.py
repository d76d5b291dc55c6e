"""Data dealt out to users: nothing twice, by labels as asked, the same for whatever else is asked."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy import stats

import pipeline
from pwfl import registry
from pwfl.learning.partition import deal, deal_out, dirichlet_counts, held, holdings, shard_counts, user_accuracies
from pwfl.report import build, results
from pwfl.scenario import ScenarioError, common, load, resolve

FALSE_ALARM = 1e-6


def test_every_sample_is_as_likely_in_every_hand():
    dealt = np.array([deal(6, np.array([2, 3]), seed=1, realization=r)[1] for r in range(2000)])
    # Drawn without replacement, counts vary less than the test takes them to.
    assert stats.chisquare(np.bincount(dealt.ravel(), minlength=6)).pvalue > FALSE_ALARM


def test_users_who_ask_for_less_take_nothing_from_those_before():
    many, few = (deal(50, np.array([10, last]), seed=3, realization=2) for last in (40, 1))
    assert np.array_equal(many[0], few[0])
    assert np.array_equal(many[1][:1], few[1])


def test_more_than_there_is_cannot_be_dealt():
    with pytest.raises(ValueError, match="users need 11 samples, but only 10 are available"):
        deal(10, np.array([5, 6]), seed=1, realization=0)


# Labels as users have them.

LABELS = np.repeat(np.arange(10), 600)[np.random.default_rng(0).permutation(6000)]
FEW = np.full(20, 70)  # of which there is more than enough of every label
ALL = np.full(20, 300)  # every sample is dealt


def chosen(**data) -> common.DataSource:
    """A section of parameters."""
    return common.DataSource(dataset="digits", **data)


PARTITIONS = [
    chosen(),
    chosen(partition="dirichlet", alpha=0.01),
    chosen(partition="dirichlet", alpha=1.0),
    chosen(partition="shards"),
    chosen(partition="shards", labels_per_user=10),
]


@pytest.mark.parametrize("data", PARTITIONS, ids=lambda data: f"{data.partition}-{data.alpha}-{data.labels_per_user}")
@pytest.mark.parametrize("samples", [FEW, ALL, np.array([1, 5999]), np.array([5, 0, 333, 1])], ids=len)
def test_every_partition_gives_everybody_as_many_as_asked_and_nothing_twice(data, samples):
    found = deal_out(data, LABELS, samples, 1, 0)
    assert [len(mine) for mine in found] == samples.tolist()
    assert len(set(np.concatenate(found))) == samples.sum()


@pytest.mark.parametrize("data", PARTITIONS, ids=lambda data: f"{data.partition}-{data.alpha}-{data.labels_per_user}")
def test_every_partition_deals_the_same_again_and_anew_with_seed_and_realization(data):
    one, again, seed, realization = (
        np.concatenate(deal_out(data, LABELS, ALL, *key)) for key in ((1, 0), (1, 0), (2, 0), (1, 1))
    )
    assert (one == again).all()
    assert (one != seed).any()
    assert (one != realization).any()


@pytest.mark.parametrize("data", [PARTITIONS[0], chosen(partition="iid", alpha=3.0)])
def test_iid_is_the_deal_that_does_not_look_at_labels(data):
    for mine, blind in zip(deal_out(data, LABELS, FEW, 3, 1), deal(6000, FEW, 3, 1), strict=True):
        assert (mine == blind).all()


def test_with_a_large_alpha_labels_are_those_of_a_random_deal():
    # Rows of the table of users and labels are then multinomial of the same proportions.
    data = chosen(partition="dirichlet", alpha=1e6)
    counts = held(LABELS, deal_out(data, LABELS, FEW, 1, 0), 10)
    assert FALSE_ALARM < stats.chi2_contingency(counts).pvalue < 1 - FALSE_ALARM
    uneven = held(LABELS, deal_out(chosen(partition="dirichlet", alpha=3.0), LABELS, FEW, 1, 0), 10)
    assert stats.chi2_contingency(uneven).pvalue < FALSE_ALARM  # the test would notice


def test_with_a_small_alpha_users_have_one_label_as_far_as_there_are_samples():
    data = chosen(partition="dirichlet", alpha=1e-3)
    each = [held(LABELS, deal_out(data, LABELS, FEW, 1, r), 10) for r in range(20)]
    labels = np.count_nonzero(np.concatenate(each), axis=1)
    # The largest of ten proportions of 1e-3 each leaves the others more than a part in 70 with probability 0.04; then
    # there are as many users again for whom a label ran out.
    assert labels.mean() < 1.2
    counts = held(LABELS, deal_out(data, LABELS, ALL, 1, 0), 10)
    ran_out = (counts.cumsum(axis=0) == 600).any(axis=1).argmax()  # the first user who empties a label
    assert (np.count_nonzero(counts[:ran_out], axis=1) <= 2).all()


def test_proportions_of_labels_have_a_dirichlets_mean_and_variance():
    # Of the first user, whom no lack constrains: a Dirichlet-multinomial.
    alpha, size, draws = 0.3, 50, 2000
    data = chosen(partition="dirichlet", alpha=alpha)
    stock = np.array([300, 600, 100])
    labels, total = np.repeat(np.arange(3), stock), 3 * alpha
    found = np.array([held(labels, deal_out(data, labels, np.array([size]), 1, r), 3)[0] for r in range(draws)])
    mean = stock / stock.sum()
    variance = size * mean * (1 - mean) * (size + total) / (1 + total)
    assert np.abs(found.mean(axis=0) - size * mean).max() < (5 * np.sqrt(variance / draws)).min() * 2
    assert found.var(axis=0) == pytest.approx(variance, rel=0.15)  # six standard deviations


def test_of_a_label_that_has_run_out_users_take_others_in_their_proportions():
    class Fixed:
        """A generator whose proportions are known, and whose draws are their means."""

        def dirichlet(self, mean):
            return np.array([0.8, 0.15, 0.05])

        def multinomial(self, count, share):
            whole = np.floor(count * share).astype(int)
            whole[share.argmax()] += count - whole.sum()
            return whole

    counts = dirichlet_counts(Fixed(), 1.0, np.array([100, 100]), np.array([120, 150, 500]))
    assert counts[0].tolist() == [80, 15, 5]
    # Of 80 wanted there are 40; the other 40 go 3 to 1 to the labels that are left.
    assert counts[1].tolist() == [40, 45, 15]


def test_shards_are_as_many_samples_of_as_many_labels():
    for labels_per_user in (1, 2, 3, 10):
        data = chosen(partition="shards", labels_per_user=labels_per_user)
        counts = held(LABELS, deal_out(data, LABELS, FEW, 1, 0), 10)
        assert (np.count_nonzero(counts, axis=1) == labels_per_user).all()
        assert np.ptp(np.where(counts, counts, 70 // labels_per_user), axis=1).max() <= 1
    everything = held(LABELS, deal_out(chosen(partition="shards"), LABELS, ALL, 1, 0), 10)
    # Of equal labels nobody gets more than two; what is left for the last user may be one.
    assert np.bincount(np.count_nonzero(everything, axis=1), minlength=4).tolist() in ([0, 0, 20, 0], [0, 1, 19, 0])


def test_shards_are_of_labels_of_which_enough_is_left_as_long_as_there_are_some():
    for seed in range(50):
        (counts,) = shard_counts(np.random.default_rng(seed), 2, np.array([10]), np.array([9, 3, 9]))
        assert counts.tolist() == [5, 0, 5]
    (counts,) = shard_counts(np.random.default_rng(1), 3, np.array([71]), np.array([60, 60, 60]))
    assert sorted(counts) == [23, 24, 24]
    (counts,) = shard_counts(np.random.default_rng(1), 2, np.array([12]), np.array([7, 2, 4]))
    assert counts.tolist() == [7, 1, 4]  # of both that it takes, all; the rest of the third


def test_shards_fall_on_all_labels_and_all_samples_of_a_label_alike():
    data = chosen(partition="shards", labels_per_user=1)
    first = [held(LABELS, deal_out(data, LABELS, np.array([10]), 1, r), 10)[0].argmax() for r in range(1000)]
    assert stats.chisquare(np.bincount(first, minlength=10)).pvalue > FALSE_ALARM
    data, labels = chosen(partition="shards", labels_per_user=2), np.repeat([0, 1], 5)
    dealt = np.array([deal_out(data, labels, np.array([4]), 1, r)[0] for r in range(2000)])
    assert stats.chisquare(np.bincount(dealt.ravel(), minlength=10)).pvalue > FALSE_ALARM


def test_who_holds_what_adds_up():
    frame = holdings(SimpleNamespace(data=PARTITIONS[1], seed=1), LABELS, FEW, 4)
    assert set(frame["realization"]) == {4}
    assert frame.group_by("user").sum().sort("user")["samples"].to_list() == FEW.tolist()
    mine = deal_out(PARTITIONS[1], LABELS, FEW, 1, 4)[7]
    one = frame.filter(user=7)
    assert dict(zip(one["label"], one["samples"], strict=True)) == Counter(LABELS[mine].tolist())


def test_a_users_accuracy_is_that_on_test_samples_with_its_labels():
    rng = np.random.default_rng(1)
    truth, counts = rng.integers(4, size=4000), rng.integers(1, 9, size=(25, 4))
    hits = rng.random(4000) < np.array([0.2, 0.9, 0.5, 1.0])[truth]
    found = user_accuracies(np.array([hits[truth == label].mean() for label in range(4)]), counts)
    # By hand: test samples weighted so that their labels are the user's.
    weights = counts[:, truth] / np.bincount(truth)[truth]
    each = (weights * hits).sum(axis=1) / weights.sum(axis=1)
    assert found["user_accuracy"] == pytest.approx(each.mean(), rel=1e-12)
    assert found["user_accuracy_std"] == pytest.approx(np.sqrt(((each - each.mean()) ** 2).mean()), rel=1e-12)
    assert found["user_accuracy_bottom_decile"] == pytest.approx(sorted(each)[:3] @ np.full(3, 1 / 3), rel=1e-12)
    assert np.isnan(list(user_accuracies(np.array([0.5, np.nan]), np.array([[1, 1], [1, 0]])).values())).all()


def test_all_schemes_train_on_the_same_deal_and_the_figure_shows_it():
    counts = {"system": "anonymous_oac", "realizations": 2, "training_realizations": 2}
    tiny = registry.system("anonymous_oac").catalog.tiny | counts
    data = tiny["data"] | {"partition": "dirichlet", "alpha": 0.01}
    scenario, tables = pipeline.run(tiny | {"data": data}, audited=False)
    _, blind = pipeline.run(tiny, audited=False)
    one, *others = (part.drop("scheme") for part in tables["holdings"].partition_by("scheme", maintain_order=True))
    assert others
    assert all(one.equals(other) for other in others)
    each = one.group_by("realization", "user").agg(pl.col("samples").sum(), labels=pl.len())
    held_by = each.sort("realization", "user")
    assert held_by["samples"].equals(tables["users"]["samples"])
    assert held_by["labels"].mean() < 3
    skewed, even = (results.realizations(found)["user_accuracy_std"].mean() for found in (tables, blind))
    assert skewed > 2 * even
    drawn = build.figure(scenario, "holdings", {"holdings": tables["holdings"]}).to_dict()
    (rows,) = drawn["datasets"].values()
    assert len(rows) == len(one.filter(realization=0))
    assert sum(row["share"] for row in rows) == pytest.approx(len(held_by) / 2)


@pytest.mark.parametrize(
    ("system", "data", "expected"),
    [
        ("multicell", {"dataset": "digits", "partition": "shards", "labels_per_user": 11},
         r"data\.labels_per_user: 11 is more than the 10 labels of digits"),
        ("multicell", {"partition": "iid"}, r"data\.partition: iid requires the same number .* data\.samples_log_sd: 1 makes"),
        ("utility_fair", {"partition": "dirichlett"}, r"data\.partition: 'dirichlett' is wrong"),
    ],
)  # fmt: skip
def test_what_no_partition_can_be_is_refused(system, data, expected):
    with pytest.raises(ScenarioError, match=expected):
        resolve({"data": data}, {"system": system})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"partition": "dirichlet", "alpha": 0.1}, []),
        ({"alpha": 0.1}, ["data.alpha: 0.1 has no effect with data.partition: iid"]),
        ({"partition": "dirichlet", "labels_per_user": 3}, ["data.labels_per_user: 3 has no effect with data.partition: dirichlet"]),
    ],
)  # fmt: skip
def test_parameters_of_another_partition_have_no_effect_and_a_warning(data, expected):
    warnings = load({"scenarios": {"one": {"system": "anonymous_oac", "data": data}}}, "study.yaml").warnings
    assert [warning.removeprefix("scenarios.one: ") for warning in warnings] == expected
