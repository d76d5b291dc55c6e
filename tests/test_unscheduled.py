"""Realizations with no user scheduled are counted beside every mean that they enter, and can be left out."""

import numpy as np
import polars as pl
import pytest

import pwfl
from conftest import TINY
from pipeline import run
from pwfl import registry
from pwfl.report import (
    build,
    claims,
    headline,
    latex,
    overview,
    page_tables,
    points,
    study_figures,
    unscheduled,
)
from pwfl.report.catalog import ACCURACY_FIGURES, scenario_figures
from pwfl.scenario import load, resolve
from pwfl.scenario.resolution import merge
from pwfl.scenario.values import with_others

SAID = "no user scheduled"
FEW = {"realizations": 6, "training_realizations": 6, "network": {"users": 6}, "schedule": {"gamma": 3000.0}}
FEW |= {"training": {"hidden_layers": [], "rounds": 2, "learning_rate": 1.0, "clip_norm": 1.0, "evaluate_every": 1}}
SCHEMES = [
    {"name": "RndSched", "scheduler": "random", "noise": "random"},
    {"name": "OptSched", "scheduler": "optimal", "noise": "random"},
    {"name": "No noise", "scheduler": "random", "noise": "none"},
]
POWERS = {"none": 20.0, "some": -15.0, "all": -80.0}  # dBm at most, and of how many realizations no user has its rate


@pytest.fixture(scope="module", params=POWERS)
def study(request) -> tuple:
    """A study of one scenario, what comparisons are made of, and the realizations in which a scheme schedules nobody."""
    base = merge(TINY["base"], FEW) | {"schemes": SCHEMES}
    config = {"base": base, "scenarios": {"one": {"radio": {"max_power_dbm": POWERS[request.param]}}}}
    found, loaded = pwfl.simulate(config), load(config, "study.yaml")
    one = found.scenarios["one"]
    content = {"scenario": loaded.scenarios["one"].part(), "point": loaded.point("one"), **one.report}
    blocks = one.stages["schedule"].group_by("scheme", "realization").agg(pl.col("resource_block").count())
    nobody = {row[:2] for row in blocks.rows() if row[2] == 0}
    counts = {scheme["name"]: sum(name == scheme["name"] for name, _ in nobody) for scheme in SCHEMES}
    kinds = {"none": [0], "some": range(1, 6), "all": [6]}
    assert all(count in kinds[request.param] for count in counts.values())
    return found, {"one": content}, nobody, counts


def test_tables_count_them_beside_each_mean_and_let_them_be_left_out(study):
    found, _, nobody, counts = study
    report, compared = found.scenarios["one"].report, found.comparison
    each = report["realizations"]
    flagged = each.filter("no_user_scheduled").select("scheme", "realization")
    assert set(flagged.rows()) == nobody
    for row in report["summary"].iter_rows(named=True):
        own = each.filter(scheme=row["scheme"])
        assert row["accuracy_no_user_scheduled"] == row["loss_no_user_scheduled"] == counts[row["scheme"]]
        assert row["accuracy_mean"] == pytest.approx(own["accuracy"].mean())
        for column in ("accuracy", "loss"):
            left = own.filter(~pl.col("no_user_scheduled"))[column].to_list()
            assert row[f"{column}_if_scheduled_mean"] == (pytest.approx(np.mean(left)) if left else None)
    accuracy = compared["outcomes"].filter(outcome="accuracy")
    assert dict(accuracy.select("scheme", "no_user_scheduled").rows()) == counts
    assert accuracy["realizations"].to_list() == [6] * 3
    epsilon = compared["outcomes"].filter(outcome="epsilon")  # of who sends
    assert epsilon["no_user_scheduled"].sum() == 0
    assert dict(compared["systems"].select("scheme", "no_user_scheduled").rows()) == counts
    front = compared["front"].filter(y="accuracy", x="epsilon")
    assert dict(front.select("scheme", "y_no_user_scheduled").rows()).items() <= counts.items()
    assert front["x_no_user_scheduled"].sum() == 0


def test_the_sentence_the_page_and_latex_say_how_many(study):
    found, content, _, counts = study
    rows = points.points(content, found.comparison, {"one": "The only one"})
    shown = {row["scheme"]: row["noted"][1:] for row in page_tables.schemes(rows, set(), failed=False)}
    in_words = {name: [f"{SAID} in {count} of 6 realizations"] if count else [] for name, count in counts.items()}
    assert shown == {name: in_words[name] for name in shown}
    total, lead = sum(counts.values()), headline.lead(rows)
    assert (SAID in overview.caption(rows, lead)) == (total > 0)
    sentence = headline.sentence(lead, headline.Audit(headline.UNTESTED)).striptags()
    assert (lead.kind == headline.NOBODY) == ("no user is scheduled in any realization" in sentence) == (total == 18)
    tex = latex.outcomes(found.comparison["outcomes"])
    assert ("no user scheduled" in tex.replace("\\\\ ", "")) == (total > 0)
    cells = [line.removesuffix(" \\\\").split(" & ")[-1] for line in tex.splitlines() if line.endswith("\\\\")]
    assert not total or [cell for cell in cells if cell.isdigit()] == [str(count) for count in counts.values()]


def test_figures_of_means_say_how_many(study):
    found, content, _, counts = study
    stages = found.scenarios["one"].stages
    scenario = with_others(content["one"]["scenario"], withholds=False)  # as the report's jobs get it
    names = [*ACCURACY_FIGURES, "loss", "tradeoff"]
    needed = scenario_figures(registry.system("multicell").catalog)
    charts = {name: build.figure(scenario, name, {table: stages[table] for table in needed[name]}) for name in names}
    rows = points.points(content, found.comparison, {"one": "The only one"})
    for name in ("result", "rounds"):
        charts[name] = study_figures.chart(name, rows, headline.lead(rows), content, found.comparison["outcomes"])
    for name, chart in charts.items():
        spec = chart.to_dict()
        subtitle = spec["title"]["subtitle"]
        text = subtitle if isinstance(subtitle, str) else " ".join(subtitle)
        lines = [f"{scheme}, {count} of 6" for scheme, count in counts.items() if count]
        assert all(line in text for line in lines), (name, text)
        assert ("user" in text and "scheduled" in text) == bool(lines), (name, text)
        if name not in ("result", "rounds"):
            fields = {key for rows in spec.get("datasets", {}).values() for row in rows for key in row}
            assert unscheduled.COLUMN not in fields, name  # which would alter the files of studies without any


def test_statements_say_in_how_many_of_their_realizations(study):
    found, _, nobody, _ = study
    table = found.comparison["claims"].filter(claim="F4-1")
    of_both = {realization for scheme, realization in nobody if scheme in ("RndSched", "OptSched")}
    valued = found.scenarios["one"].report["realizations"].pivot("scheme", index="realization", values="objective")
    known = set(valued.drop_nulls(["RndSched", "OptSched"])["realization"])
    assert table["no_user_scheduled"].to_list() == ([len(of_both & known)] if known else [])
    assert (SAID in latex.claims(found.comparison["claims"])) == bool(
        found.comparison["claims"]["no_user_scheduled"].sum()
    )


def test_a_claim_counts_realizations_that_it_is_measured_in():
    one, other = ("random", "random"), ("optimal", "random")
    series = {(one, "accuracy"): np.array([0.1, 0.5, np.nan, 0.7]), (other, "accuracy"): np.array([0.1, 0.6, 0.1, 0.1])}
    flags = {one: [True, False, True, False], other: [False, False, True, True]}
    series |= {(scheme, unscheduled.COLUMN): np.array(values) for scheme, values in flags.items()}
    term = claims.scheme(*one, "one") - claims.scheme(*other, "other")
    assert claims.without_users(term, "accuracy", [series]) == 2  # of three: the first and the last


def test_several_points_of_a_scheme_have_their_most_in_a_subtitle():
    columns = {"scheme": ["a", "a", "b", "b", "c"], "realizations": 10, "no_user_scheduled": [1, 3, 2, 2, 0]}
    assert unscheduled.lines(pl.DataFrame(columns)) == [f"{unscheduled.INCLUDED}: a, up to 3 of 10; b, 2 of 10"]
    assert unscheduled.lines(pl.DataFrame(columns).filter(scheme="c")) == []


def test_of_anonymous_oac_it_is_realizations_in_which_no_record_is_sent():
    catalog = registry.system("anonymous_oac").catalog
    config = {"system": "anonymous_oac", "realizations": 4, "training_realizations": 4, "seed": 3}
    config = merge(config | catalog.tiny, {"data": {"sampling": 0.004}})
    scenario, tables = run(config, audited=False)
    sent = tables["schedule"].group_by("scheme", "realization").agg(pl.col("batch").sum()).filter(pl.col("batch") > 0)
    sent = set(sent.select("scheme", "realization").rows())
    every = {(scheme.name, realization) for scheme in scenario.schemes for realization in range(4)}
    assert 0 < len(sent) < len(every)
    each = build.summarize(scenario, tables)["realizations"]
    assert set(each.filter("no_user_scheduled").select("scheme", "realization").rows()) == every - sent
    ended = tables["history"].filter(pl.col("status").cast(pl.String) == "no_user_scheduled")
    assert set(ended.select("scheme", "realization").rows()) == every - sent
    for name in ("accuracy", "accuracy_seconds", "loss", "cost"):
        chart = build.figure(scenario, name, {table: tables[table] for table in catalog.figures[name]})
        assert unscheduled.INCLUDED in " ".join(chart.to_dict()["title"]["subtitle"]), name


def test_of_utility_fair_it_is_realizations_in_which_no_device_takes_part_in_any_round():
    catalog = registry.system("utility_fair").catalog
    config = merge(
        {"system": "utility_fair", "realizations": 2, "training_realizations": 2} | catalog.tiny,
        {"device": {"max_power_dbm": -80.0}},
    )
    scenario, tables = run(config, audited=False)
    content = {"scenario": resolve(config, {}).part(None)} | build.summarize(scenario, tables)
    assert content["realizations"]["no_user_scheduled"].all()
    assert (content["summary"]["accuracy_no_user_scheduled"] == 2).all()
    assert content["summary"]["accuracy_if_scheduled_mean"].null_count() == len(content["summary"])
    charts = [
        build.figure(scenario, name, {table: tables[table] for table in catalog.figures[name]})
        for name in ("loss", "spread", "accuracy", "accuracy_seconds")
    ]
    for chart in charts:
        spec = chart.to_dict()
        assert unscheduled.INCLUDED in " ".join(spec["title"]["subtitle"])
        assert unscheduled.COLUMN not in {key for rows in spec["datasets"].values() for row in rows for key in row}


def test_a_realization_that_was_trained_in_one_round_of_utility_fair_is_not_among_them():
    history = pl.DataFrame(
        {
            "scheme": "a",
            "realization": [0, 0, 1, 1],
            "status": ["nobody_took_part", "trained"] + ["nobody_took_part"] * 2,
        }
    )
    assert unscheduled.find_unscheduled(history).rows() == [("a", 0, False), ("a", 1, True)]
