"""A study's page: what it says, that all of it can be read, and what a person can do with it in a browser."""

import html
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import any_page
from conftest import ROOT, SMALL, TINY, need
from pwfl import registry
from pwfl.report import (
    build,
    claims,
    glossary,
    headline,
    labels,
    overview,
    page_tables,
    points,
    references,
    statements,
    study_figures,
    study_panels,
)
from pwfl.report.catalog import COMPARISON, STUDY_FIGURES
from pwfl.scenario import load
from pwfl.scenario.sweep import Point
from pwfl.workflow import plan, progress, reports

FEW = {"realizations": 3, "training_realizations": 3}
SWEPT = {
    "study": "swept",
    "title": "What it is about",
    "question": "Is it so?",
    "base": TINY["base"] | FEW,
    "scenarios": {
        "plain": {"title": "The plain one"},
        "twin": {"title": "Its twin"},
        "swept": {
            "title": "Swept, at one epsilon",
            "sweep": {"privacy.target_epsilon": [1.0, 4.0]},
            "schemes": [
                {"name": "RndSched", "scheduler": "random", "noise": "target"},
                {"name": "OptSched", "scheduler": "optimal", "noise": "target"},
            ],
        },
    },
}
# What a person does, one after the other, and what the page shows then.
CLICKS = """
addEventListener("load", () => {
  const seen = { errors: [], wide: document.documentElement.scrollWidth - innerWidth };
  addEventListener("error", (event) => seen.errors.push(event.message));
  try {
    seen.sizes = [...document.querySelectorAll("svg text")].filter((text) => text.checkVisibility()).map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a);
    const shown = (list) => [...list].filter((row) => row.checkVisibility()).length;
    const claims = document.querySelector("#claims table");
    seen.few = shown(claims.tBodies[0].rows);
    document.querySelector("#all-claims").click();
    seen.all = [shown(claims.tBodies[0].rows), claims.tBodies[0].rows.length];
    const table = document.querySelector("#better table.sortable"), head = table.tHead.rows[0].cells[1];
    const values = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[1].dataset.value));
    head.click(); seen.once = values(); head.click(); seen.twice = values();
    const menu = document.querySelector("#better select"), parts = document.querySelector("[data-menu]").children;
    seen.menu = [menu.options.length, shown(parts)];
    menu.value = menu.options[1].value; menu.dispatchEvent(new Event("change"));
    seen.picked = [...parts].map((part) => part.checkVisibility());
    const dot = document.querySelector("figure svg [aria-label]:not(svg)");
    dot.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: 5, clientY: 5 }));
    seen.tip = [document.querySelector("#tip").textContent, dot.getAttribute("aria-label")];
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    for (const box of document.querySelectorAll("input")) if (!box.checked) box.click();
    seen.opened = document.documentElement.scrollWidth - innerWidth;
    seen.links = [...document.querySelectorAll("a[href]")].map((link) => decodeURI(link.getAttribute("href"))).filter((link) => !/^(#|https:)/.test(link));
  } catch (error) { seen.errors.push(String(error)); }
  const result = document.createElement("pre"); result.id = "seen"; result.hidden = true; result.textContent = JSON.stringify(seen); document.body.append(result);
});
"""
PROBE = """<!doctype html><iframe src="index.html" style="border:0;width:390px;height:900px"></iframe>
<script>addEventListener("load", () => { document.body.append(document.querySelector("iframe").contentDocument.querySelector("#seen").cloneNode(true)); });</script>"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study's folder with its page, of two scenarios that are the same and of a sweep, and its contents."""
    contents = changed(any_page.contents_of(SWEPT), accuracy=pl.col("accuracy") * 0.2 + 0.7)  # of so few rounds
    folder = tmp_path_factory.mktemp("page") / "swept"
    return folder, any_page.page_of(SWEPT, folder, contents), contents


def test_the_page_answers_first_and_needs_no_network(made):
    folder, text, _ = made
    assert re.search(r"<h1>What it is about</h1>\s*<p class=\"question\">Is it so\?</p>", text)
    rows = pl.read_parquet(folder / "points.parquet")
    lead, audit = headline.lead(rows), headline.Audit(headline.UNTESTED)
    assert str(headline.sentence(lead, audit)) in text
    assert '<span class="badge none">Not audited</span>' in text
    answer = progress.answer(folder / "index.html")
    assert answer == headline.answer({"multicell": lead}, audit, pl.read_parquet(folder / "claims.parquet"))
    assert len(answer) == 2
    assert all(line in progress.result(folder) for line in answer)
    once = (
        "Counted once, as they have the same parameters: The plain one and Its twin. So 3 of 4 scenarios are different."
    )
    assert once in text
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for term, meaning in glossary.TERMS.items():
        assert f"<dt>{term}</dt><dd>{meaning}</dd>" in html.unescape(text)
        assert f"| {term} | {meaning} |" in readme
    for name in COMPARISON:
        assert f'<a href="{name}.csv"' in text
    assert "numpy 2" in text
    assert "train 2" in text
    assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=[\"']?(?:http|//)", text)
    assert "@import" not in text
    assert len(text.encode()) < 2**20


def test_every_scheme_claim_and_comparison_is_on_the_page_and_what_is_folded_is_behind_a_switch(made):
    folder, text, _ = made
    rows = pl.read_parquet(folder / "points.parquet")
    table = text[text.index("schemes</h3>") :].partition("</tbody>")[0]
    assert table.count('<span class="swatch"') == len(rows)
    claimed = pl.read_parquet(folder / "claims.parquet")
    own = text[text.index('id="claims"') :].partition("</tbody>")[0]
    assert own.count("<tr") - 1 == claimed.n_unique(["system", "origin", "claim"])
    effects = pl.read_parquet(folder / "effects.parquet").filter(outcome="accuracy")
    compared = text[text.index('data-label="Final test accuracy (points)"') :].partition("<details data-label")[0]
    assert compared.count('<td class="num" title="p') == len(effects)
    for part in re.findall(
        r'<div class="wide">(?:(?!<div class="wide">).)*?class="extra"(?:(?!<section).)*', text, re.DOTALL
    ):
        assert 'class="switch"' in part


def test_headers_of_tables_explain_themselves(made):
    _, text, _ = made
    heads = re.findall(r"<thead>(?:(?!</thead>).)*<th (?:(?!</thead>).)*</thead>", text, re.DOTALL)
    cells = [cell for head in heads for cell in re.findall(r"<th[ >][^>]*>?", head) if "colspan" not in cell]
    assert len(cells) > 20
    assert all('title="' in cell for cell in cells), [cell for cell in cells if "title" not in cell]


def test_figures_can_be_read_and_words_are_no_keys(made):
    _, text, _ = made
    assert any_page.check_figures(text) >= 6
    any_page.check_words(text)


def changed(contents: dict, **columns: pl.Expr) -> dict:
    return {name: own | {"realizations": own["realizations"].with_columns(**columns)} for name, own in contents.items()}


BARE = pl.col("scheme") == "No noise"
ODD = {
    "nothing above chance": {"accuracy": pl.lit(0.05)},
    "accuracies missing": {"accuracy": pl.when(pl.col("realization") > 9).then("accuracy")},
    "no attack rate": {"attack_rate": pl.lit(None, pl.Float64)},
    "not guaranteed": {"guarantee": pl.lit("none"), "epsilon_kind": pl.lit("not proved")},
    "conditional": {"guarantee": pl.lit("conditional"), "epsilon_assumes": pl.lit("Markov data")},
    "epsilon of 0": {"epsilon": pl.lit(0.0), "attack_rate": pl.lit(0.01)},
    "infinite epsilon": {"epsilon": pl.lit(np.inf), "epsilon_user": pl.lit(np.inf), "attack_rate": pl.lit(1.0)},
    "one epsilon": {"epsilon": pl.lit(2.0), "attack_rate": pl.lit(0.034)},
    "no energy": {"transmit_energy_j": pl.lit(None, pl.Float64), "air_seconds": pl.lit(0.0)},
    "all alike": {"accuracy": pl.lit(0.5)},
    "one realization": {"accuracy": pl.when(realization=0).then("accuracy")},
}


@pytest.mark.parametrize("odd", ODD)
def test_a_page_of_odd_numbers_says_what_they_are(made, tmp_path, odd):
    _, _, contents = made
    text = any_page.page_of(SWEPT, tmp_path / "odd", changed(contents, **ODD[odd]))
    any_page.check_figures(text)
    any_page.check_words(text)
    said = " ".join(re.search(r'<p class="lead">(.*?)</p>', text, re.DOTALL)[1].split())
    expected = {
        "nothing above chance": "Nothing was learned",
        "accuracies missing": "No model was evaluated.",
        "not guaranteed": "computed, not guaranteed",
        "infinite epsilon": "without a finite ε",
    }
    assert expected.get(odd, "ε = ") in said
    assert ("attacker" in said) == (
        odd in ("one epsilon", "no energy", "all alike", "one realization", "epsilon of 0", "conditional")
    ), said
    assert ("assuming Markov data" in said) == (odd == "conditional")


@pytest.mark.parametrize(("baseline", "beaten"), [(0.0, True), (1.0, False), (None, False)])
def test_it_is_said_that_a_scheme_with_noise_does_better_than_the_baseline(made, baseline, beaten):
    rows = pl.read_parquet(made[0] / "points.parquet")
    rows = rows.with_columns(bare=pl.int_range(pl.len()) == 0)
    rows = rows.with_columns(mean=pl.when("bare").then(pl.lit(baseline, pl.Float64)).otherwise("mean"))
    assert page_tables.prices(rows)["is_beaten"] == beaten


def test_prices_compare_where_points_share_an_epsilon_a_curve_or_a_baseline(made):
    row = pl.read_parquet(made[0] / "points.parquet").filter(~pl.col("bare")).head(1)

    def compares(*points: dict) -> bool:
        frames = [row.with_columns(*(pl.lit(value).alias(name) for name, value in point.items())) for point in points]
        return page_tables.prices(pl.concat(frames))["compares"]

    first, other, again = (
        {"scheme": name, "epsilon": epsilon} for name, epsilon in (("A", 1.0), ("B", 2.0), ("B", 1.0))
    )
    assert not compares(first, other)
    assert compares(first, again)
    assert compares(first, {**other, "scheme": "A"})
    assert compares(first, {**other, "bare": True})


def test_columns_of_prices_say_at_which_of_several_values_they_are(made):
    rows = pl.read_parquet(made[0] / "points.parquet")
    rows = pl.concat([rows.with_columns(pl.lit(gamma).alias("schedule.gamma")) for gamma in (10.0, 100.0)])
    place = rows.columns.index("scheme")  # swept parameters are before it
    rows = rows.select(*rows.columns[:place], "schedule.gamma", *rows.columns[place:-1])
    heads = page_tables.prices(rows)["heads"]
    assert len(set(heads)) == len(heads)
    assert {place.rpartition("γ ")[2] for _, place in heads} == {"10", "100"}


def audit_of(status: str) -> pl.DataFrame:
    rows = {
        "scheme": ["RndSched"] * 2,
        "test": ["sensitivity", "deviation of the noise"],
        "status": ["passed", status],
    }
    numbers = {
        "measured": [1.0, 0.9],
        "expected_min": [0.99, 0.99],
        "expected_max": [1.0, 1.01],
        "detectable": [0.001, 0.014],
    }
    numbers |= {"reason": pl.Series([None, None], dtype=pl.String)}
    return pl.DataFrame(rows | numbers | {"detects": ["a record moves 0.1% too far", "noise 1.4% too low"]})


def test_a_failed_audit_is_on_top_and_takes_the_epsilons_with_it(made, tmp_path):
    _, _, contents = made
    text = any_page.page_of(SWEPT, tmp_path / "failed", contents, plain=audit_of("failed"))
    head = text.partition("</header>")[0]
    assert "Audit failed: do not rely on the ε of this study" in head
    assert head.index("Audit failed") < head.index('class="lead"')
    assert "if the audit had passed" in head
    assert "attacker who" not in re.search(r'<p class="lead">(.*?)</p>', text, re.DOTALL)[1]
    assert "Unknown: the audit contradicts" in text
    assert "✗ 1 of 1 failed" in text
    table = text[text.index("schemes</h3>") :].partition("</tbody>")[0]
    assert table.count("<s title=") == len(pl.read_parquet(tmp_path / "failed/points.parquet").filter(~pl.col("bare")))
    assert progress.answer(tmp_path / "failed/index.html")[1].startswith("AUDIT FAILED (1 of 2 tests).")
    passed = any_page.page_of(SWEPT, tmp_path / "passed", contents, plain=audit_of("passed"))
    assert "✓ Audit passed" in passed.partition("</header>")[0]
    assert "Noise 1.4% too small would have been found." in passed
    assert progress.answer(tmp_path / "passed/index.html")[1].startswith("Audit passed (2 tests).")


def test_one_scheme_and_no_noise_at_all_have_their_page(made, tmp_path):
    _, _, contents = made
    one = {"plain": contents["plain"] | {"scenario": contents["plain"]["scenario"]}}
    config = SWEPT | {"scenarios": {"plain": {}}}
    for name, kept in (("one", pl.col("scheme") == "RndSched"), ("bare", BARE)):
        study = {"plain": one["plain"] | {"realizations": one["plain"]["realizations"].filter(kept)}}
        if not len(study["plain"]["realizations"]):
            continue
        text = any_page.page_of(config, tmp_path / name, study)
        any_page.check_figures(text)
        any_page.check_words(text)
        assert '<div class="factors">' not in text


def claimed(count: int, **values) -> pl.DataFrame:
    """A table of so many claims, each second one a paper's."""
    origins = [claims.PAPER, claims.PROJECT]
    base = {"scenario": "one", "against": None, "source": "Fig. 4", "required_range": "> 0", "realizations": 3}
    base |= {"system": "age_aware", "quantity": "loss: A - B", "interval": "95%"} | values
    rows = [
        base | {"claim": f"F{k}", "statement": f"Statement {k}.", "origin": origins[k % 2], "measured": k / 7}
        for k in range(count)
    ]
    verdicts = [(claims.SUPPORTED, claims.REFUTED, claims.NOT_MEASURED, None)[k % 4] for k in range(count)]
    frame = pl.DataFrame(rows, schema={"system": pl.String} | claims.SCHEMA)
    return frame.with_columns(verdict=pl.Series(verdicts, dtype=pl.String))


def test_claims_are_one_row_each_refuted_first_and_what_is_not_judged_last():
    rows = page_tables.claims(claimed(40), {"one": "The only one"}, {})
    assert len(rows) == 40
    assert [verdict for verdict, _ in itertools.groupby(row["verdict"] for row in rows)] == [
        *("refuted", "not measured", "supported", None),
    ]
    assert {row["verdict"] for row in rows if row["extra"]} == {"supported", None}
    assert statements.count([row["verdict"] for row in rows]) == [
        ("refuted", 10),
        ("not measured", 10),
        ("supported", 10),
    ]
    assert rows[-1]["verdict_words"] == "not the paper’s setting"
    assert rows[0]["cases"][0]["place"] == "The only one"


PAPER = {
    "type": "article", "title": "On <Sums> & Noise", "authors": [{"family-names": "Doe", "given-names": "J. {x}"}],
    "year": 2021, "journal": "J. Sums", "doi": "10.1/x",
}  # fmt: skip


def papers_of(systems: dict[str, str]) -> list[dict]:
    """What the page of a study is given of papers; `systems` are those of its scenarios."""
    base = {"age_aware": SMALL["base"], "multicell": TINY["base"]}
    scenarios = {name: base.get(system, {}) | {"system": system} for name, system in systems.items()}
    parts = reports.plan(plan.plan(load({"scenarios": scenarios}, "study.yaml"))).jobs
    (part,) = (part for item, part in parts.items() if item.stage == reports.PAGE)
    return part.arguments["papers"]


def test_the_page_names_each_paper_and_links_to_it(made, tmp_path):
    papers = papers_of({"one": "age_aware", "two": "multicell"})
    text = any_page.page_of(SWEPT, tmp_path / "papers", made[2], papers)
    cited = {
        "age_aware": (
            "Kuan-Yu Lin, Hsuan-Yin Lin, Yu-Pin Hsu and Yu-Chih Huang, <cite>Age Aware Scheduling for "
            "Differentially-Private Federated Learning</cite>, IEEE International Symposium on Information Theory "
            '(ISIT), 2024, <a href="https://arxiv.org/abs/2405.05962">arXiv:2405.05962</a>. Assumptions, '
            "interpretations and errata: docs/explanation/age_aware.md.</p>"
        ),
        "multicell": (
            "Nima Tavangaran, Mingzhe Chen, Zhaohui Yang, José Mairton B. da Silva Jr. and H. Vincent Poor, <cite>On "
            "Differential Privacy for Federated Learning in Wireless Systems with Multiple Base Stations</cite>, IET "
            'Communications 18(20), 1853-1867, 2024, <a href="https://doi.org/10.1049/cmu2.12722">'
            'doi:10.1049/cmu2.12722</a>, <a href="https://arxiv.org/abs/2208.11848">arXiv:2208.11848</a>. '
            "Assumptions, interpretations and errata: docs/explanation/multicell.md.</p>"
        ),
    }
    for system, said in cited.items():
        assert f'id="paper-{system}">{system}: {said}' in text
    assert 'title="Nima Tavangaran' in text  # of a claim's source
    assert ">Paper: Kuan-Yu Lin, " in any_page.page_of(SWEPT, tmp_path / "paper", made[2], papers[:1])
    assert ">Paper: " not in made[1]


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_every_built_in_system_names_its_paper_and_its_page(system):
    (paper,) = references.cited(ROOT / "CITATION.cff", [system])
    assert (ROOT / paper.page).is_file()
    page_of_system = " ".join((ROOT / paper.page).read_text(encoding="utf-8").split())
    assert paper.title in page_of_system
    for name, address in paper.links:
        assert address.endswith(name.partition(":")[2])
    assert paper.links or system == "random_orthogonalization"  # of which no identifier is known


@pytest.mark.parametrize("paper", [None, PAPER])
def test_a_system_of_a_users_may_have_a_paper(monkeypatch, paper):
    monkeypatch.syspath_prepend(ROOT / "examples/local_dp_mac")
    monkeypatch.setattr(registry, "claims", lambda: {"local_dp_mac": ("local_dp_mac.system:SYSTEM",)})
    own = registry.system("local_dp_mac").catalog
    object.__setattr__(own, "paper", paper)
    try:
        papers = references.cited(ROOT / "CITATION.cff", ["local_dp_mac"])
        entry = references.bibtex(ROOT / "CITATION.cff", ["local_dp_mac"])
    finally:
        object.__setattr__(own, "paper", None)
    assert [paper.title for paper in papers] == (["On <Sums> & Noise"] if paper else [])
    assert ("title = {{On <Sums> \\& Noise}}" in entry) == (paper is not None)
    assert ("% local_dp_mac: no paper" in entry) == (paper is None)


def test_a_papers_claim_links_to_its_paper_or_to_where_the_page_names_it():
    known = {paper["system"]: paper for paper in papers_of({"one": "age_aware"})}
    known |= {"none": references.reference("none", {k: v for k, v in PAPER.items() if k != "doi"})._asdict()}
    frames = [claimed(2, system=system, source="Fig. <4> & (20)") for system in ("age_aware", "none", "other")]
    rows = page_tables.claims(pl.concat(frames), {}, known)
    sources = {(row["system"], row["origin"]): row["source"] for row in rows}
    assert re.fullmatch(
        r'<a href="https://arxiv.org/abs/2405.05962" title="Kuan-Yu Lin, .*Learning; read as in docs/explanation/age_aware.md">'
        r"Fig. &lt;4&gt; &amp; \(20\)</a>",
        sources["age_aware", "paper"],
    )
    assert sources["age_aware", "project"] == "Fig. &lt;4&gt; &amp; (20)"
    assert sources["none", "paper"].startswith('<a href="#paper-none" title="J. {x} Doe: On &lt;Sums&gt; &amp; Noise">')
    assert sources["other", "paper"] == "Fig. &lt;4&gt; &amp; (20)"


def shown(folder, tmp_path, name: str, size: str) -> dict:
    """What a person sees of a page in a browser."""
    need("chromium")
    copy = shutil.copytree(folder, tmp_path / "page")
    index = copy / "index.html"
    index.write_text(index.read_text(encoding="utf-8").replace("<head>", f"<head><script>{CLICKS}</script>", 1))
    (copy / "probe.html").write_text(PROBE)
    command = [
        "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        "--allow-file-access-from-files", f"--window-size={size}", "--virtual-time-budget=30000", "--dump-dom",
        (copy / name).as_uri(),
    ]  # fmt: skip
    dumped = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    return json.loads(html.unescape(re.search(r'<pre id="seen"[^>]*>(.*?)</pre>', dumped, re.DOTALL)[1]))


@pytest.mark.parametrize(
    ("name", "size", "least"),
    [("index.html", "1400,2000", 12), ("index.html", "1241,2000", 12), ("probe.html", "700,1000", 10)],
)
def test_in_a_browser_nothing_is_too_small_or_too_wide_and_tables_sort(made, tmp_path, name, size, least):
    seen = shown(made[0], tmp_path, name, size)
    assert seen["errors"] == []
    assert seen["wide"] <= 0
    assert seen["opened"] <= 0
    assert min(seen["sizes"]) >= least - 0.01
    assert seen["few"] < seen["all"][0] == seen["all"][1]
    assert seen["once"] == sorted(seen["once"])
    assert seen["twice"] == sorted(seen["twice"], reverse=True)
    assert seen["menu"][0] > 1
    assert seen["menu"][1] == 1
    assert seen["picked"].index(True) == 1
    assert sum(seen["picked"]) == 1
    assert seen["tip"][0] == seen["tip"][1] != ""
    assert seen["links"]
    assert all((made[0] / link).is_file() for link in seen["links"])


def test_panels_beyond_the_most_are_counted(made, tmp_path, monkeypatch):
    folder, text, contents = made
    drawn = {name: charts["panels"] for name, charts in _panels(folder).items()}
    assert all(len(panels) > 1 for panels in drawn.values())
    assert "not drawn" not in text
    monkeypatch.setattr(study_panels, "MOST_PANELS", 1)
    fewer = any_page.page_of(SWEPT, tmp_path / "fewer", contents)
    for name, panels in drawn.items():
        part = fewer.partition(f'<section id="{name}-1">')[2].partition("</section>")[0]
        assert part.count("<figure>") == 1
        assert f" {study_figures.undrawn(len(panels) - 1)}." in part
    rows, outcomes = pl.read_parquet(folder / "points.parquet"), pl.read_parquet(folder / "outcomes.parquet")
    for name, panels in drawn.items():
        chart = study_figures.chart(name, rows, headline.lead(rows), contents, outcomes)
        assert chart.title.subtitle[-1] == study_figures.undrawn(len(panels) - 1)


def test_curves_beyond_the_most_of_the_table_of_prices_are_counted(made, tmp_path, monkeypatch):
    curves = page_tables.prices(pl.read_parquet(made[0] / "points.parquet"))["curves"]
    said = f"The best 1 of {curves} curves; outcomes.csv has all."
    assert curves > 1
    assert said not in made[1]
    monkeypatch.setattr(page_tables, "COLUMNS", 1)
    assert said in any_page.page_of(SWEPT, tmp_path / "priced", made[2])


def _panels(folder: Path) -> dict[str, dict]:
    (charts,) = json.loads((folder / "charts.json").read_text()).values()
    return {name: charts[name] for name in ("parameters", "rounds")}


def test_points_have_names_of_their_own_and_equal_ones_are_there_once(made):
    _, _, contents = made
    study = load(SWEPT, "study.yaml")
    frames, rows, _ = any_page.drawn(contents, study.titles)
    assert "twin" not in set(rows["scenario"])
    assert rows.n_unique(["scheme", "place"]) == len(rows)
    assert set(rows.filter(sweep_of="swept")["value"]) == {"ε 1", "ε 4"}
    assert [own["value"].to_list() for own, _ in points.lines(rows)] == [["ε 1", "ε 4"]] * 2
    assert labels.width("x") > 0
    assert set(frames) == set(COMPARISON)
    swept = next(name for name, content in contents.items() if content["point"].of != name)
    equal = {"equal": contents[swept] | {"point": Point("equal", {})}}
    for more in (equal | contents, contents | equal):  # a scenario that equals a point, before it or after it
        assert build.compare(more)["effects"].equals(frames["effects"])


def test_a_study_whose_schemes_are_only_drawn_has_a_page_without_results(tmp_path):
    small = {"schedule": {"horizon": 3}, "training": {"draws": 3}, "realizations": 2, "training_realizations": 1}
    scheme = {"name": "every time", "scheduler": "sweep", "noise": "none"}
    base = small | {"system": "age_aware", "schemes": [scheme]}
    config = {"study": "drawn", "base": base, "scenarios": {"one": {"title": "One"}}}
    contents = any_page.contents_of(config)
    text = any_page.page_of(config, tmp_path / "drawn", contents)
    assert '<p class="lead"><b>No scheme has a result.</b></p>' in text
    assert "Nothing to compare: no scheme has a result." in text
    any_page.check_words(text)
    frames, rows, charts = any_page.drawn(contents, {"one": "One"})
    assert (len(rows), charts) == (0, {})
    for name in STUDY_FIGURES:
        chart = study_figures.chart(name, rows, headline.lead(rows), contents, frames["outcomes"])
        assert "no scheme has a result" in json.dumps(chart.to_dict())


def test_an_observer_has_the_same_dashes_in_all_figures(made):
    frames, rows, _ = any_page.drawn(made[2], load(SWEPT, "study.yaml").titles)
    least = pl.col("scheme") == "OptSched"
    seen = pl.when(least).then(pl.lit("the sum")).otherwise(pl.lit("each message"))
    rows = rows.with_columns(seen=seen, rank=least.cast(pl.Int64))
    assert overview.observed(rows) == ["Solid: the sum; dashed: each message is seen."]
    table = frames["outcomes"].filter(~((pl.col("outcome") == "epsilon_user") & least))
    panels, _ = study_panels.over_parameter(rows, table)
    drawn = {panel.title: panel.chart.to_dict()["layer"] for panel in panels}
    for title, wanted in (("Final test accuracy", [[], [6, 4]]), ("User-level epsilon, scheme's observer", [[6, 4]])):
        marks = [layer["mark"] for layer in drawn[title]]
        assert [mark["strokeDash"] for mark in marks if mark["type"] == "line"] == wanted
