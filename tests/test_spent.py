"""What trainings have spent by each round, against plain loops; accuracy over it, against plain step functions."""

from importlib import import_module

import numpy as np
import polars as pl
import pytest

import stage_of
from pipeline import digits, finished, part, stages
from pwfl import registry, testing
from pwfl.report import results
from pwfl.scenario import resolve
from pwfl.stages import REPORT
from pwfl.testing import repeated, tiny

ROUNDS = {"multicell": [0, 1, 2, 4, 5], "anonymous_oac": [0, 1, 2, 4, 5], "utility_fair": [1, 2, 3, 4, 5]}
SECONDS, JOULES = "air_seconds_cumulative", "transmit_energy_j_cumulative"


def trained(system: str, scheduler: str, noise: str, **changes):
    """The scenario and all tables but the audit's of a tiny scenario with one scheme, trained for 5 rounds."""
    config = registry.system(system).catalog.tiny | {"system": system, "realizations": 2, "training_realizations": 2}
    config["training"] = config["training"] | {"rounds": 5, "evaluate_every": 2}
    if system == "random_orthogonalization":
        del config["training"]["evaluate_every"]
    model = resolve(config | {"schemes": [{"name": "only", "scheduler": scheduler, "noise": noise}]}, changes)
    ((_, found),) = stages(model)
    history = stage_of.train(part(model, "train"), digits(), range(2), found)
    return model, found | finished(history, model)


def curve(found: dict[str, pl.DataFrame], realization: int, column: str) -> dict[int, float]:
    """Round -> what has been spent, of one realization."""
    return dict(found["history"].filter(realization=realization).select("round", column).iter_rows())


def outcome(found: dict[str, pl.DataFrame], realization: int) -> dict:
    return found["outcome"].row(by_predicate=pl.col("realization") == realization, named=True)


@pytest.mark.parametrize("scheduler", ["random", "optimal"])
def test_multicell_waits_for_the_slowest_user_and_pays_for_all(scheduler):
    _, found = trained("multicell", scheduler, "random")
    bits = 32 * (64 * 10 + 10)
    for realization in range(2):
        sent = found["schedule"].filter(pl.col("resource_block").is_not_null(), realization=realization)
        uploads = [(bits / rate, power) for rate, power in sent.select("rate_bps", "power_w").iter_rows()]
        assert len(uploads) > 1
        expected = {t: t * max(seconds for seconds, _ in uploads) for t in ROUNDS["multicell"]}
        assert curve(found, realization, SECONDS) == pytest.approx(expected, rel=1e-12)
        expected = {t: t * sum(seconds * power for seconds, power in uploads) for t in ROUNDS["multicell"]}
        assert curve(found, realization, JOULES) == pytest.approx(expected, rel=1e-12)
        after = outcome(found, realization)
        assert curve(found, realization, SECONDS)[5] == after["air_seconds"]  # to the bit
        assert curve(found, realization, JOULES)[5] == after["transmit_energy_j"]
        # Blocks are used side by side, each for as long as its slowest user takes.
        slowest = sent.group_by("resource_block").agg(pl.col("rate_bps").min())["rate_bps"]
        assert after["channel_uses"] == pytest.approx(5 * 180e3 * (bits / slowest).sum(), rel=1e-12)


@pytest.mark.parametrize(
    ("scheduler", "noise"),
    [("over_the_air", "identified"), ("over_the_air", "identified_fixed"), ("orthogonal", "local")],
)
def test_oac_takes_its_symbols_over_the_bandwidth(scheduler, noise):
    radio = {"bandwidth_hz": 20e3, "noise_variance": 1e-4}
    _, found = trained("anonymous_oac", scheduler, noise, radio=radio, network={"participation": 0.3})
    dimension, thermal = 64 * 4 + 4 + 4 * 10 + 10, 10 ** (-17.4 - 3) * 1e10
    for realization in range(2):
        noise_of = {row["round"]: row for row in found["noise"].filter(realization=realization).iter_rows(named=True)}
        seconds, joules, expected = 0.0, 0.0, {0: (0.0, 0.0)}
        for t in range(1, 6):
            there = found["schedule"].filter(realization=realization, round=t).rows(named=True)
            for device in there:
                if scheduler == "orthogonal" and device["batch"]:
                    seconds += dimension * 16 / 20e3
                    joules += dimension * 16 * thermal * 3 / device["fading_gain"]
                elif scheduler == "over_the_air" and (noise.endswith("fixed") or any(d["batch"] for d in there)):
                    row = noise_of[t]
                    amplitude = device["batch"] / row["divisor"]
                    sent = amplitude**2 + dimension * row["update_noise_std"] ** 2 / len(there)
                    joules += sent / device["fading_gain"] * thermal / 1e-4
            seconds += 0.0 if scheduler == "orthogonal" else dimension / 20e3
            expected[t] = (seconds, joules)
        for column, place in ((SECONDS, 0), (JOULES, 1)):
            wanted = {t: expected[t][place] for t in ROUNDS["anonymous_oac"]}
            assert curve(found, realization, column) == pytest.approx(wanted, rel=1e-9)
        after = outcome(found, realization)
        assert curve(found, realization, SECONDS)[5] == after["air_seconds"]  # to the bit
        assert curve(found, realization, JOULES)[5] == after["transmit_energy_j"]
        assert after["air_seconds"] == pytest.approx(after["channel_uses"] / 20e3, rel=1e-12)  # a sum of rounds'


def test_energy_over_the_air_has_no_unit_without_channel_noise():
    _, found = trained("anonymous_oac", "over_the_air", "anonymous_fixed", radio={"noise_variance": 0.0})
    assert found["outcome"]["transmit_energy_j"].null_count() == 2
    sent = found["history"].filter(pl.col("round") > 0)
    assert sent[JOULES].null_count() == len(sent)
    assert sent[SECONDS].null_count() == 0


def test_where_nobody_takes_part_nothing_is_spent():
    _, found = trained("anonymous_oac", "orthogonal", "local", network={"participation": 1e-9})
    assert set(found["history"][SECONDS]) == set(found["history"][JOULES]) == {0.0}
    assert set(found["outcome"]["air_seconds"]) == set(found["outcome"]["transmit_energy_j"]) == {0.0}


def test_random_orthogonalization_takes_a_symbol_a_parameter():
    _, found = trained("random_orthogonalization", "all", "fixed", radio={"bandwidth_hz": 1e3})
    assert curve(found, 1, SECONDS) == pytest.approx({t: 0.65 * t for t in range(6)}, rel=1e-12)
    assert curve(found, 1, SECONDS)[5] == outcome(found, 1)["air_seconds"] == outcome(found, 1)["channel_uses"] / 1e3
    assert found["history"][JOULES].null_count() == len(found["history"])


@pytest.mark.parametrize(("scheduler", "noise"), [("benchmark", "independent"), ("utility", "fair")])
def test_utility_fair_waits_for_the_slowest_device_and_pays_for_all(scheduler, noise):
    model, found = trained("utility_fair", scheduler, noise)
    unit = found["schedule"].select("realization", "round", "device", "unit_power_w").rows()
    unit = {tuple(key): power for *key, power in unit}
    for realization in range(2):
        seconds, joules, expected = 0.0, 0.0, {}
        for t in ROUNDS["utility_fair"]:
            took = found["history"].filter(pl.col("power_w") > 0, realization=realization, round=t)
            uploads = []
            for device, power in took.select("device", "power_w").iter_rows():
                rate = 250e3 * np.log2(1 + power / unit[realization, t, device])
                uploads.append((model.radio.update_bits / rate, power))
            seconds += max(second for second, _ in uploads)
            joules += sum(second * power for second, power in uploads)
            expected[t] = (seconds, joules)
        assert curve(found, realization, SECONDS) == pytest.approx({t: s for t, (s, _) in expected.items()}, rel=1e-9)
        assert curve(found, realization, JOULES) == pytest.approx({t: j for t, (_, j) in expected.items()}, rel=1e-9)
        after = outcome(found, realization)
        stated = (None, None) if scheduler == "utility" else pytest.approx(expected[5], rel=1e-9)
        assert (after["air_seconds"], after["transmit_energy_j"]) == stated
    tables = {name: frame.with_columns(scheme=pl.lit("only")) for name, frame in found.items()}
    each = import_module("pwfl.systems.utility_fair.report").realizations(part(model, REPORT), tables)
    last = [curve(found, realization, SECONDS)[5] for realization in range(2)]
    assert each["air_seconds"].to_list() == pytest.approx(last, rel=1e-12)


def test_age_aware_has_no_radio_model():
    one = {"system": "age_aware", "realizations": 1, "training_realizations": 1}
    model = resolve(registry.system("age_aware").catalog.tiny | one, {})
    _, found = next(stages(model))
    history = finished(stage_of.train(part(model, "train"), None, range(1), found), model)["history"]
    assert history[SECONDS].null_count() == history[JOULES].null_count() == len(history)
    assert found["outcome"]["air_seconds"].null_count() == len(found["outcome"])


def test_a_history_that_does_not_end_at_the_outcome_is_found(monkeypatch):
    from pwfl.training import trainings

    config = registry.system("multicell").catalog.tiny | {"system": "multicell", "realizations": 3}
    model, original = resolve(config | {"training_realizations": 2}, {}), trainings.spent_function

    def late(tables):
        return original({"reception_noise": tables["reception_noise"].with_columns(seconds=pl.col("seconds") * 1.01)})

    monkeypatch.setattr(trainings, "spent_function", late)
    with pytest.raises(testing.CheckError, match=r"air_seconds_cumulative of history is .* air_seconds of outcome is"):
        repeated.check_chunks(model, tiny.prepare(model))


# Accuracy over what is spent.


def histories(generator: np.random.Generator, schemes: int, realizations: int) -> pl.DataFrame:
    """Trainings of several lengths and costs, some of whose rounds cost nothing."""
    rows = []
    for scheme in range(schemes):
        for realization in range(realizations):
            cost = 0.0
            for t in range(generator.integers(2, 9)):
                cost += float(generator.integers(0, 4)) if t else 0.0
                rows.append((f"s{scheme}", realization, t, generator.random(), cost, "trained"))
    return pl.DataFrame(
        rows, schema=["scheme", "realization", "round", "accuracy", SECONDS, "status"], orient="row"
    ).sample(fraction=1.0, shuffle=True, seed=1)


def test_accuracy_is_held_until_the_next_evaluation_and_after_the_last():
    history = histories(np.random.default_rng(0), schemes=3, realizations=7)
    found = results.spent(history, SECONDS)
    for scheme in ("s0", "s1", "s2"):
        own, read = history.filter(scheme=scheme), found.filter(scheme=scheme)
        assert sorted(set(read[SECONDS])) == sorted(set(own[SECONDS]))
        assert len(read) == 7 * own[SECONDS].n_unique()
        for realization, place, accuracy in read.select("realization", SECONDS, "accuracy").iter_rows():
            done = own.filter(pl.col(SECONDS) <= place, realization=realization)
            assert accuracy == done.sort("round")["accuracy"].last()
    # Where the last one has ended, the mean is that of the final accuracies, as tables have it.
    final = history.sort("round").group_by("scheme", "realization").agg(pl.col("accuracy").last())
    ends = found.filter(pl.col(SECONDS) == pl.col(SECONDS).max().over("scheme"))
    means = [dict(f.group_by("scheme").agg(pl.col("accuracy").mean()).iter_rows()) for f in (final, ends)]
    assert means[0] == pytest.approx(means[1])


def test_a_curve_has_so_many_points_and_both_ends(monkeypatch):
    history = histories(np.random.default_rng(2), schemes=1, realizations=30)
    whole = results.spent(history, SECONDS)
    monkeypatch.setattr(results, "CURVE_POINTS", 5)
    thinned = results.spent(history, SECONDS)
    assert thinned[SECONDS].n_unique() == 5
    # It begins where all were evaluated.
    late = history.filter(pl.col("round") > 0)
    first = late.group_by("realization").agg(pl.col(SECONDS).min())[SECONDS].max()
    assert results.spent(late, SECONDS)[SECONDS].min() == first > 0
    assert (thinned[SECONDS].min(), thinned[SECONDS].max()) == (whole[SECONDS].min(), whole[SECONDS].max())
    assert thinned.join(whole, on=thinned.columns, how="anti").is_empty()


def test_what_costs_nothing_or_has_no_unit_has_no_curve():
    history = histories(np.random.default_rng(3), schemes=3, realizations=2).with_columns(
        pl.when(pl.col("scheme") == "s1").then(0.0).when(pl.col("scheme") != "s2").then(SECONDS).alias(SECONDS)
    )
    assert set(results.spent(history, SECONDS)["scheme"]) == {"s0"}
    assert results.spent(history.filter(pl.col("scheme") != "s0"), SECONDS).is_empty()


def figure(history: pl.DataFrame) -> dict:
    names = zip(history["scheme"].unique().sort(), ["random", "optimal"], strict=False)
    schemes = [{"name": name, "scheduler": "optimal", "noise": noise} for name, noise in names]
    scenario = part(resolve({"schemes": schemes}, {}), REPORT)
    return results.accuracy_seconds(scenario, {"history": history}).to_dict()


def test_the_axis_is_logarithmic_where_a_scheme_would_be_squeezed():
    history = histories(np.random.default_rng(4), schemes=2, realizations=5)
    assert "type" not in figure(history)["layer"][0]["encoding"]["x"]["scale"]
    slow = pl.when(pl.col("scheme") == "s1").then(pl.col(SECONDS) * 1000).otherwise(SECONDS)
    chart = figure(history.with_columns(slow.alias(SECONDS)))
    x = chart["layer"][0]["encoding"]["x"]
    assert x["scale"]["type"] == "log"
    assert x["title"] == "Time on air (ks)"
    for rows in (rows for rows in chart["datasets"].values() if SECONDS in rows[0]):  # and levels
        assert all(row[SECONDS] > 0 for row in rows)
        assert all(0 <= row["accuracy_ci_low"] <= row["accuracy_ci_high"] <= 1 for row in rows)


def test_the_figure_says_of_what_it_is_and_what_is_left_out():
    history = histories(np.random.default_rng(5), schemes=2, realizations=5)
    free = pl.when(pl.col("scheme") == "s1").then(None).otherwise(SECONDS)
    lost = pl.when(pl.col("realization") == 4, pl.col("scheme") == "s0").then(pl.lit("diverged")).otherwise("status")
    chart = figure(history.with_columns(free.alias(SECONDS), lost.alias("status")))
    subtitle = " ".join(chart["title"]["subtitle"])
    assert "over 5 realizations; left out: 1 that diverged" in subtitle
    assert "not drawn, as nothing is sent or it has no unit: s1" in subtitle
    nothing = figure(history.filter(pl.col("scheme") == "s1").with_columns(pl.lit(None, pl.Float64).alias(SECONDS)))
    assert "no unit: s1" in " ".join(nothing["title"]["subtitle"])
