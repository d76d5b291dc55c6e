"""Were all of a study published: which releases count, once each, what they cost together, and what is left out."""

import math
from dataclasses import replace

import polars as pl
import pytest

import pwfl
from conftest import TINY
from pipeline import stages
from pwfl import registry
from pwfl.privacy import composition, sampled
from pwfl.privacy.gaussian import exact_epsilon
from pwfl.report import published
from pwfl.scenario import resolve
from pwfl.scenario.resolution import merge
from pwfl.systems.anonymous_oac import batches

DELTA = 1e-5
TERMS = {"unit": "a record of a user", "neighbouring_relation": "replace-one", "delta": DELTA}
LABEL = {"epsilon_server_kind": "exact", "epsilon_server_assumes": ""}
SCHEMES = [{"name": name, "scheduler": by, "noise": "constant"} for name, by in (("A", "random"), ("B", "fresh"))]
FEW = {"realizations": 3, "training_realizations": 2}


def content(config: dict, rows: dict[str, list[dict]], **more) -> dict:
    """A scenario as reports compare it: of each scheme, by name, a row for each realization."""
    each = [
        TERMS | LABEL | {"scheme": scheme, "realization": k} | row
        for scheme, of in rows.items()
        for k, row in enumerate(of)
    ]
    return {"scenario": resolve(config, {}).part(None), "realizations": pl.DataFrame(each)} | more


def cells(rows: dict[str, list[float | None]], noises: dict | None = None, **more) -> dict:
    """A scenario of `multicell` by the rho of each scheme's realizations; null: nobody sends."""
    schemes = [
        {"name": name, "scheduler": scheduler, "noise": (noises or {}).get(name, "random")}
        for name, scheduler in zip(rows, ("random", "optimal", "joint"), strict=False)
    ]
    frames = {
        name: [
            {
                "rho_server": r,
                "order_server": None,
                "epsilon_server": None if r is None else float(exact_epsilon(r, DELTA)),
            }
            for r in values
        ]
        for name, values in rows.items()
    }
    return content(TINY["base"] | FEW | {"schemes": schemes}, frames, **more)


def epsilon_of(*rho: float) -> float:
    return float(exact_epsilon(math.fsum(rho), DELTA))


def test_all_trained_realizations_of_all_schemes_and_scenarios_compose():
    found = published.table(
        {"one": cells({"A": [0.1, 0.2, 9.0], "B": [None, 0.4, 9.0]}), "two": cells({"A": [0.8, 1.6]})}
    )
    (row,) = found.iter_rows(named=True)
    assert row == TERMS | {
        "guarantee": "proved",
        "records": "digits",
        "releases": 5,
        "epsilon": pytest.approx(epsilon_of(0.1, 0.2, 0.4, 0.8, 1.6), rel=1e-9),
        "bound": "upper bound",
        "left_out": None,
    }
    (said,) = published.sentences(found)
    assert (
        f"its 5 training runs with noise on digits would together cost a record of a user ε = {row['epsilon']:.3g}"
        in said
    )


def test_equal_releases_count_once_and_the_one_that_costs_most():
    study = {
        "one": cells({"A": [0.1, 0.2], "B": [0.4, 0.8]}, releases={"A": "a", "B": "b"}),
        "two": cells({"A": [0.3, 0.2]}, releases={"A": "a"}),
    }
    row = published.table(study).row(0, named=True)
    assert row["releases"] == 4
    assert row["epsilon"] == pytest.approx(epsilon_of(0.3, 0.2, 0.4, 0.8), rel=1e-9)


def test_schemes_without_an_epsilon_are_named_with_the_reason():
    inf = math.inf
    study = {
        "one": cells({"A": [0.1, 0.2], "bare": [inf, inf], "open": [0.4, inf]}, {"bare": "none"}),
        "two": cells({"A": [inf, inf]}),
    }
    found = published.table(study)
    row = found.row(0, named=True)
    assert (row["releases"], row["epsilon"]) == (3, pytest.approx(epsilon_of(0.1, 0.2, 0.4), rel=1e-9))
    assert row["left_out"] == f"bare ({published.BARE}). open in one; A in two ({published.OPEN})"
    assert row["left_out"].replace(published.BETWEEN, "; ") in published.sentences(found)[0]


def test_a_study_without_any_noise_says_that_no_epsilon_holds():
    found = published.table({"one": cells({"bare": [math.inf] * 2}, {"bare": "none"})})
    assert found.row(0, named=True) == dict.fromkeys(published.SCHEMA) | {
        "records": "digits",
        "releases": 0,
        "left_out": f"bare ({published.BARE})",
    }
    assert "no epsilon would be known" in published.sentences(found)[0]


def test_a_system_that_states_no_losses_is_named(monkeypatch):
    system = registry.system("multicell")
    without = replace(system, load_report=lambda: replace(system.load_report(), published=None))
    monkeypatch.setattr(registry, "system", lambda _: without)
    row = published.table({"one": cells({"A": [0.1, 0.2]})}).row(0, named=True)
    assert (row["releases"], row["epsilon"], row["left_out"]) == (0, None, f"A ({published.UNKNOWN})")


def test_of_releases_one_that_is_not_guaranteed_and_several_units_are_said():
    one, two = cells({"A": [0.1, 0.2]}), cells({"A": [0.1, 0.2]})
    two["realizations"] = two["realizations"].with_columns(
        epsilon_server_kind=pl.lit("not proved"), unit=pl.lit("all of a user; so many")
    )
    found = published.table({"one": one, "two": two})
    assert found.select("guarantee", "unit").row(0) == ("none", "a record of a user. all of a user; so many")
    assert "cost a record of a user or all of a user ε" in published.sentences(found)[0]
    assert "not guaranteed" in published.sentences(found)[0]


def on_air(rows: dict[str, tuple[str, float, int]], **changes) -> dict:
    """A scenario of `anonymous_oac` by noise, multiplier and silent rounds of each scheme, in two realizations."""
    schemes = [{"name": name, "scheduler": "over_the_air", "noise": noise} for name, (noise, *_) in rows.items()]
    frames = {
        name: [{"epsilon_server": 1.0, "noise_multiplier": multiplier, "empty_rounds": silent, "reading": reading}] * 2
        for name, (reading, multiplier, silent) in rows.items()
    }
    config = {"system": "anonymous_oac", "data": {"dataset": "digits", "samples": 50}, "training": {"rounds": 20}}
    network = {"devices": 10, "participation": 0.3} | changes
    return content(config | FEW | {"network": network, "schemes": schemes}, frames)


def test_schemes_on_the_same_batches_are_one_mechanism_in_each_realization():
    found = published.table({"one": on_air({"A": ("anonymous_fixed", 3.0, 0), "B": ("identified_fixed", 4.0, 0)})})
    # The second scheme's observer sees who takes part, in the first one's rounds, too.
    law = batches.readings(10, 50, 0.3, 0.1, local=False, fixed=True)["identified"]
    (expected,) = sampled.PAIRS["proved"].epsilons(law, 2.4, [40], DELTA, absent=0.5)
    assert found.select("releases", "epsilon").row(0) == (4, pytest.approx(expected, rel=1e-6))


def test_batches_that_may_differ_hide_nothing():
    unsampled = epsilon_of(*(40 / multiplier**2 / 2 for multiplier in (3.0, 4.0)))
    mixed = on_air({"A": ("anonymous_fixed", 3.0, 2), "B": ("identified", 4.0, 2)})  # silent rounds draw in one alone
    swept = {
        "one": on_air({"A": ("anonymous", 3.0, 0)}),
        "two": on_air({"A": ("anonymous", 4.0, 0)}, participation=0.4),
    }
    for study in ({"one": mixed}, swept):
        row = published.table(study).row(0, named=True)
        assert row["epsilon"] == pytest.approx(unsampled, rel=1e-9)
        assert row["bound"] == composition.UNAMPLIFIED


def test_after_a_silent_round_schemes_of_fixed_noise_still_share_their_batches():
    noises = {"A": ("anonymous_fixed", 3.0), "B": ("identified_fixed", 4.0)}
    silent, none = ({name: (*of, count) for name, of in noises.items()} for count in (2, 0))
    assert published.table({"one": on_air(silent)}).equals(published.table({"one": on_air(none)}))


def test_records_that_realizations_draw_for_themselves_are_in_their_releases_alone():
    config = {"system": "age_aware", "schemes": SCHEMES}
    rows = {
        "A": [{"epsilon_server": 0.5}, {"epsilon_server": 0.1}],
        "B": [{"epsilon_server": 0.3}, {"epsilon_server": 0.9}],
    }
    rows = {name: [row | {"delta": 0.0} for row in of] for name, of in rows.items()}
    row = published.table({"one": content(config | FEW, rows)}).row(0, named=True)
    assert row["epsilon"] == pytest.approx(1.0, rel=1e-12)
    assert (row["releases"], row["delta"], row["records"]) == (4, 0.0, "the data of age_aware")


def test_targets_of_a_scheme_are_releases_each():
    config = {"system": "age_aware", "schemes": SCHEMES[:1]}
    one = content(config | FEW, {"A": [{"epsilon_server": 0.5, "delta": 0.0}]})
    one["realizations"] = pl.concat([one["realizations"]] * 2)
    row = published.table({"one": one}).row(0, named=True)
    assert (row["releases"], row["epsilon"], row["left_out"]) == (2, pytest.approx(1.0, rel=1e-12), None)


def test_a_study_says_it_of_what_its_stages_made():
    """Two scenarios that train alike, and whose accounts differ; rho of the table leakage, all composed."""
    base = TINY["base"] | FEW
    found = pwfl.simulate({"base": base, "scenarios": {"a": {}, "b": {"privacy": {"delta": 1e-7}}}})
    rho = found.scenarios["a"].stages["leakage"].filter(pl.col("realization") < 2, pl.col("rho").is_finite())
    rho = rho.group_by("scheme", "realization").agg(pl.col("rho").max())
    row = found.comparison["published"].row(0, named=True)
    assert row["releases"] == len(rho) > 2
    assert row["epsilon"] == pytest.approx(float(exact_epsilon(rho["rho"].sum(), 1e-5)), rel=1e-6)
    assert row["delta"] == 1e-5


SYSTEMS = {
    "multicell": TINY["base"],
    "random_orthogonalization": {"network": {"users": 4, "antennas": 16}, "training": {"rounds": 3}},
    "utility_fair": {
        "network": {"devices": 4},
        "training": {"rounds": 3, "clip_norm": 1.0},
        "privacy": {"uploads": "noisy"},
    },
}
SUMS = {"privacy": {"observer": "cell"}, "training": {"bits": 16, "hidden_layers": []}}
STATED = {  # system, changes, the column that one release comes to, and by how much it may exceed that
    "multicell": ("multicell", {}, "epsilon_server", 1e-9),
    "clipping of means": ("multicell", {"training": {"clipping": "per_user"}}, "epsilon_worst_case", 1e-9),
    "integers": ("multicell", SUMS, "epsilon_server", 0.05),
    "antennas": ("random_orthogonalization", {"privacy": {"noise_variance": 0.3}}, "epsilon_server", 1e-9),
    "uploads": (
        "random_orthogonalization",
        {"privacy": {"observer": "user", "noise_variance": 0.3}},
        "epsilon",
        1e-9,
    ),
    "dropouts": (
        "random_orthogonalization",
        {"privacy": {"dropouts": 0.05, "noise_variance": 0.3}},
        "epsilon_server",
        1e-9,
    ),
    "utility_fair": ("utility_fair", {}, "epsilon_server", 1e-9),
}


@pytest.mark.parametrize("case", STATED)
def test_of_one_release_the_stated_loss_is_worth_its_epsilon(case):
    system, changes, column, more = STATED[case]
    model = resolve(merge({"system": system} | SYSTEMS[system] | FEW, changes), {})
    checked = 0
    for scheme, found in stages(model):
        rows = found["outcome"].filter(pl.col("epsilon_server").is_finite()).with_columns(scheme=pl.lit(scheme.name))
        losses = registry.system(system).load_report().published(model.part(), rows)
        for loss, epsilon, delta in zip(losses, rows[column], rows["delta"], strict=True):
            assert epsilon * (1 - 1e-12) <= composition.compose([loss], delta).epsilon <= epsilon * (1 + more)
            checked += 1
    assert checked > 2
