"""What the report takes of trainings and outcomes: last rounds, no diverged ones, the worst realization."""

import polars as pl
import pytest

from pipeline import part
from pwfl.learning.partition import USER_ACCURACIES
from pwfl.report import columns, results
from pwfl.report.columns import TERMS
from pwfl.scenario import resolve
from pwfl.stages import REPORT
from pwfl.systems.multicell import report as multicell


@pytest.fixture
def made() -> dict[str, pl.DataFrame]:
    """Three realizations of one scheme: one trained, one diverged, one not trained; rounds out of order."""
    history = [
        (0, 2, 0.7, 0.9, "trained"), (0, 0, 0.1, 2.3, "trained"), (0, 1, 0.4, 1.5, "trained"),
        (1, 0, 0.1, 2.3, "diverged"), (1, 1, 0.9, float("inf"), "diverged"),
    ]  # fmt: skip
    keys = {"scheme": "a", "realization": [0, 1, 2]}
    columns = {
        "noise_error": [0.5, 2.0, None],
        "rho_worst_user": [0.5, 4.0, 0.1],
        "scheduled": [2, 3, 0],
        "samples": 100,
    }
    columns |= {"objective": 50.0, "objective_gap": [0.25, None, 0.0], "proven_optimal": [False, None, True]}
    columns |= {"scheduled_samples": 40, "rho_total": 1.0, "delta": 1e-5}
    epsilons = ("tight", "classic", "observer_user", "observer_cell", "observer_network")
    columns |= {name: [3.0, 8.0, 1.0] for name in ("epsilon", *(f"epsilon_{of}" for of in epsilons))}
    columns |= dict.fromkeys(TERMS[1:], "said") | {"epsilon_user": 9.0}
    none = {
        name: pl.lit(None, pl.Float64)
        for name in ("rho_worst_case", "epsilon_worst_case", "rho_own_noise", "epsilon_dithers_known")
    }
    history = pl.DataFrame(history, schema=["realization", "round", "accuracy", "loss", "status"], orient="row")
    users = {column: pl.col("accuracy") for column in USER_ACCURACIES}
    status = pl.DataFrame(keys | {"status": ["x", "x", "y"]})
    return {
        "history": history.select(pl.lit("a").alias("scheme"), pl.all(), processor=pl.lit("cpu"), **users),
        "outcome": pl.DataFrame(keys | columns).with_columns(**none),
        "leakage": pl.DataFrame({"scheme": "a", "realization": [0, 1, 2], "user": 0, "rho": [0.5, 4.0, 0.1]}),
        "schedule_status": status,
        "noise_status": status,
    }


def test_final_accuracies_are_those_of_the_last_round_of_what_did_not_diverge(made):
    each = results.realizations(made)
    assert each["accuracy"].to_list() == [0.7, None, None]
    assert each["loss"].to_list() == [0.9, None, None]
    assert each["training"].to_list() == ["trained", "diverged", None]


def test_means_of_multicell_are_per_sample_and_per_scheduled_user(made):
    each = multicell.realizations(made)
    assert each["objective_per_sample"].to_list() == [0.5] * 3
    assert each["samples_per_scheduled"].to_list() == [20.0, pytest.approx(40 / 3), None]


def test_tables_of_epsilons_carry_their_terms(made):
    each = made["outcome"].with_columns(observer=pl.lit("sees all"))
    bare = pl.DataFrame({"scheme": ["a"], "epsilon_mean": [1.0], "unit": ["its own"]})
    found = columns.with_terms(bare, each)
    assert found.row(0, named=True)["observer"] == "sees all"
    assert found["unit"].to_list() == ["its own"]
    assert set(columns.TERMS) <= set(found.columns)
    assert columns.with_terms(bare.drop("epsilon_mean"), each).columns == ["scheme", "unit"]


def test_the_summary_of_multicell_holds_the_worst_realization_and_counts_exceptions(made):
    model = resolve({}, {"privacy": {"max_noise_error": 1.0, "min_noise": 10.0}})
    row = multicell.summarize(part(model, REPORT), made)["summary"].row(0, named=True)
    expected = {"epsilon_max": 8, "objective_gap_max": 0.25, "objective_gap_mean": 0.125, "proven_optimal": 1}
    expected |= {"rho_worst_overall": 4, "rho_median": 0.5, "noise_error_exceeded": 1, "no_user_scheduled": 1}
    expected |= {"trained": 1, "diverged": 1, "accuracy_mean": 0.7}
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("of_realizations", "expected"),
    [
        (["proved", "proved"], "proved"),
        (["conditional", "proved", None], "conditional"),
        (["proved", "none", "conditional"], "none"),
        ([None, None], None),
    ],
)
def test_of_several_realizations_the_weakest_guarantee_is_said(of_realizations, expected):
    rows = pl.DataFrame({"guarantee": pl.Series(of_realizations, dtype=pl.String)})
    assert rows.select(columns.weakest()).item() == expected


def test_terms_are_those_of_realizations_in_which_somebody_sends():
    rows = pl.DataFrame({"scheme": ["a", "a", "b"], "epsilon_kind": [None, "exact", None]})
    assert columns.terms(rows, ["epsilon_kind"])["epsilon_kind"].to_list() == ["exact", None]
