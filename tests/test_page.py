"""A study's page: what it says, that it needs no network, and what a person can do with it in a browser."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace

import polars as pl
import pytest

from conftest import ROOT, SMALL, TINY, need
from pwfl import registry, tables
from pwfl.report import build, catalog, claims, glossary, page, references, sweeps, theme
from pwfl.report.catalog import COMPARISON, SWEEP_FIGURES, question
from pwfl.report.page import CLAIMS_FIRST
from pwfl.scenario import load
from pwfl.store import sealed
from pwfl.systems.multicell.catalog import CATALOG
from pwfl.workflow import plan, progress, reports
from test_figures import compared

# What a person does, one after the other, and what the page shows then.
CLICKS = """
const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
const until = async (what) => { for (let k = 0; k < 100 && !what(); k++) await wait(0.1); return what(); };
addEventListener("load", async () => {
  const seen = { errors: [] };
  addEventListener("error", (event) => seen.errors.push(event.message));
  try {
    const figures = [...document.querySelectorAll("figure")];
    for (const figure of figures) { figure.scrollIntoView(); await until(() => figure.querySelector("svg .mark-group")); }
    seen.drawn = figures.filter((figure) => figure.querySelector("svg .mark-group")).length;
    const choice = document.querySelector("figure select"), chart = choice.closest("figure");
    const title = () => chart.querySelector("svg").textContent;
    seen.before = title();
    choice.value = String(choice.options.length - 1);
    choice.dispatchEvent(new Event("change"));
    await until(() => title() !== seen.before);
    seen.after = title();
    document.querySelector("#The-study-claims summary").click();
    const heads = () => [...document.querySelectorAll("#The-study-claims table.dataTable thead th")];
    await until(() => heads().length > 1);
    const column = heads().findIndex((head) => head.textContent.startsWith("measured"));
    const values = () => [...document.querySelectorAll("#The-study-claims table.dataTable tbody tr")].map((row) => row.cells[column].textContent);
    heads()[column].click(); await wait(0.5);
    seen.once = values();
    heads()[column].click(); await wait(0.5);
    seen.twice = values();
    seen.legends = document.querySelectorAll("figure svg .role-legend-symbol path").length;
    const summary = document.querySelector("#The-study-summary summary"); summary.click(); await wait(0.2);
    seen.open = document.querySelector("#The-study-summary").open;
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    await wait(0.5);
    seen.wide = document.documentElement.scrollWidth - innerWidth;
    seen.first = heads()[0].textContent;
    seen.links = [...document.querySelectorAll(".files a")].map((link) => decodeURI(link.getAttribute("href")));
  } catch (error) { seen.errors.push(String(error)); }
  const result = document.createElement("pre"); result.id = "seen"; result.textContent = JSON.stringify(seen); document.body.append(result);
});
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study's folder with its page, of a scenario and of a sweep."""
    few = TINY["base"] | {"realizations": 2, "training_realizations": 2}
    config = {"base": few, "scenarios": {"plain": {}, "swept": {"sweep": {"schedule.gamma": [3, 300]}}}}
    folder = tmp_path_factory.mktemp("page")
    contents = compared(config)
    for figure in SWEEP_FIGURES:
        chart = build.comparison_figure("multicell", figure, contents)
        paths = {kind: str(folder / f"multicell_{figure}.{kind}") for kind in ("json", "png", "svg")}
        theme.save(chart, paths, build.choices("multicell", figure, contents))
    for name, frame in build.compare(contents).items():
        tables.write_report(frame, folder / f"{name}.csv", folder / f"{name}.parquet")
    view = {path.name: str(path) for path in folder.iterdir()}
    sealed.seal_folder(folder)
    (folder / "plain").mkdir()
    for file in ("parameters.csv", "scenario.yaml", "addresses.csv"):
        (folder / "plain" / file).touch()
        view[f"plain/{file}"] = str(folder / "plain" / file)
    text = "**A caption** of ``them``."
    figures = [(f"multicell_{figure}", text, question(CATALOG, figure)) for figure in SWEEP_FIGURES]
    part = {
        "scenario": "plain",
        "title": "The plain one",
        "system": "multicell",
        "point": False,
        "without_noise": [],
        "withholds": False,
        "crossed": [],
        "alike": ["The plain one", "Its twin"],
        "figures": [],
        "tables": [],
    }
    parts = [{"scenario": None, "figures": figures, "tables": list(COMPARISON.items())}, part]
    parts += [part | {"scenario": "twin", "title": "Its twin"}, part | {"title": "Another", "alike": ["Another"]}]
    computed = {"addresses": {"channel": ["aaa"], "train": ["abc", "abd"]}, "packages": {"numpy": "2.2.0"}}
    heading = {"title": "What it is about", "question": "Is it so?"}
    text = page.of_files(heading, parts, view, computed)
    (folder / "index.html").write_text(text, encoding="utf-8")
    return folder


def test_the_page_says_what_holds_and_needs_no_network(folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    claims = pl.read_csv(folder / "claims.csv").filter(pl.col("verdict").is_not_null(), origin="paper")
    count = claims["claim"].n_unique()
    assert count < len(claims)
    words = f"{count} claims of the papers tested: "
    assert words in text
    each = pl.read_parquet(folder / "outcomes.parquet").filter(outcome="accuracy")
    assert each.filter(~sweeps.not_above_chance()).is_empty()
    assert "Not above chance (0.131): " in text
    assert "<td>★ " not in text
    assert re.search(r"<h1>What it is about</h1>\s*<p class=\"question\">Is it so\?</p>", text)
    assert "<summary>The plain one (multicell; the same parameters as Its twin)</summary>" in text
    assert "<summary>Another (multicell)</summary>" in text
    once = (
        "Counted once, as they have the same parameters: The plain one and Its twin. So 2 of 3 scenarios are different."
    )
    assert text.count(once) == 2  # below the first table, and where claims are counted
    opened = text.partition("<summary>Another (multicell)</summary>")[2].partition("</details>")[0]
    for file in ("parameters.csv", "scenario.yaml", "addresses.csv"):
        assert f'<a href="plain/{file}">' in opened
    assert "twin/" not in text  # which has no files
    for name in COMPARISON:
        assert f"<summary>{name}</summary>" not in text
        assert f'<a href="{name}.csv">{name}.csv</a>' in text
    assert "<summary>Pareto front</summary>" in text
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for term, meaning in glossary.TERMS.items():
        assert f"<dt>{term}</dt><dd>{meaning}</dd>" in html.unescape(text)
        assert f"| {term} | {meaning} |" in readme
    (row,) = pl.read_parquet(folder / "published.parquet").iter_rows(named=True)
    assert row["releases"] > 2
    said = (
        f"its {row['releases']} training runs with noise on digits would together cost one training record of one user "
    )
    assert text.count(f"{said}ε = {row['epsilon']:.3g} at δ = 1e-05 (upper bound).") == 1
    assert re.search(r"<td>train</td><td[^>]*>2</td>", text)
    assert "numpy 2.2.0" in text
    assert html.unescape(words) in progress.result(folder)
    assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=[\"']?http", text)
    assert len(text) < 5_000_000


def test_constants_stand_beside_a_table_once_and_empty_columns_nowhere():
    frame = pl.DataFrame({"a": [1, 1, 2], "same": ["x"] * 3, "none": [None] * 3, "some": [None, 1.0, 1.0]})
    rest, constant = page.readable(frame)
    assert rest.columns == ["a", "some"]
    assert constant == {"same": "x"}
    assert page.readable(frame.head(1))[1] == {}


def test_counts_of_realizations_are_shown_where_there_are_any():
    frame = pl.DataFrame(
        {"x_mean": [1.0, 2.0], "x_diverged": [0, 0], "y_diverged": [0, 3], "no_user_scheduled": [0, 0]}
    )
    shown, constant = page.readable(frame)
    assert shown.columns == ["x_mean", "y_diverged"]
    assert constant == {}


def claimed(count: int, scenario: str = "one", source: str = "Fig. 4", against: str | None = None) -> pl.DataFrame:
    """A table of so many claims, each second one a paper's."""
    origins = [claims.PAPER, claims.PROJECT]
    values = {"scenario": scenario, "against": against, "source": source, "required_range": "> 0", "realizations": 3}
    rows = [
        values | {"claim": f"claim {k}", "statement": f"Statement {k}.", "origin": origins[k % 2], "measured": k / 7}
        for k in range(count)
    ]
    return pl.DataFrame(rows, schema=claims.SCHEMA).with_columns(verdict=pl.lit(claims.SUPPORTED))


def cells(html: str) -> list[list[str]]:
    """The cells of the rows that a page's table holds for DataTables."""
    rows = json.JSONDecoder().raw_decode(html[html.index('"data_json": ') + len('"data_json": ') :])[0]
    return json.loads(rows)


def test_no_claim_is_cut_and_a_table_that_is_cut_says_so_above_it():
    files = ["claims.csv", "claims.parquet"]
    found = page.table("The study", "claims", "Claims.", claimed(1603), files)
    assert (found["rows"], found["shown"]) == (1603, 1603)
    named = {cell for row in cells(found["html"]) for cell in row if str(cell).startswith("claim ")}
    assert named == {f"claim {k}" for k in range(1603)}
    wide = pl.DataFrame({f"c{k}": [f"text {k} " * 40, "other"] for k in range(260)})
    assert [len(row) for row in cells(page.table("The study", "wide", "", wide, files)["html"])] == [260, 260]
    long = pl.DataFrame({"text": [f"row {k}" for k in range(101)]})
    for count, is_cut in ((101, True), (100, False)):
        table = page.table("The study", "differences", "Their caption.", long.head(count), ["d.csv", "d.parquet"])
        assert len(cells(table["html"])) == 100
        text = rendered([{"id": "a", "title": "t", "text": "", "files": []} | page.section([], [table])])
        head = 'The first 100 of 101 rows; all of them: <a href="d.csv">d.csv</a><a href="d.parquet">d.parquet</a>'
        assert (head in text.partition("Their caption.")[0]) == is_cut
        assert text.count("The first 100 of") == is_cut


def rendered(sections: list[dict], papers=()) -> str:
    """The page of sections."""
    result = {"words": [], "lead": None, "rows": [], "observers": {}, "once": [], "spent": [], "papers": papers}
    made_by = {"stages": {}, "versions": {}, "processors": []}
    return page.render({"title": "T", "question": ""}, result, sections, [], made_by)


def test_sentences_have_one_full_stop():
    frame = pl.DataFrame({"a": [1, 2], "b": ["Said.", "Said."]})
    table = page.table("The study", "systems", "", frame, [])
    text = rendered([{"id": "a", "title": "t", "text": "", "files": []} | page.section([], [table])])
    assert "In all rows: b: Said.</p>" in text


PAPER = {
    "type": "article", "title": "On <Sums> & Noise", "authors": [{"family-names": "Doe", "given-names": "J. {x}"}],
    "year": 2021, "journal": "J. Sums", "doi": "10.1/x",
}  # fmt: skip


def papers_of(systems: dict[str, str]) -> list[dict]:
    """What the page of a study is given of papers; `systems` are those of its scenarios."""
    base = {"age_aware": SMALL["base"], "multicell": TINY["base"]}
    scenarios = {name: base.get(system, {}) | {"system": system} for name, system in systems.items()}
    parts = reports.plan(plan.plan(load({"scenarios": scenarios}, "study.yaml")), ROOT / "report").parts
    (part,) = (part for item, part in parts.items() if item.stage == reports.PAGE)
    return part.given()["papers"]


def test_the_page_names_each_paper_and_links_to_it():
    papers = papers_of({"one": "age_aware", "two": "multicell"})
    text = rendered([{"id": "a", "title": "t", "text": "", "files": []} | page.section([], [])], papers)
    cited = {
        "age_aware": (
            "Kuan-Yu Lin, Hsuan-Yin Lin, Yu-Pin Hsu and Yu-Chih Huang, <cite>Age Aware Scheduling for "
            "Differentially-Private Federated Learning</cite>, IEEE International Symposium on Information Theory "
            '(ISIT), 2024, <a href="https://arxiv.org/abs/2405.05962">arXiv:2405.05962</a>. Assumptions, '
            "interpretations and errata: docs/age_aware.md.</p>"
        ),
        "multicell": (
            "Nima Tavangaran, Mingzhe Chen, Zhaohui Yang, José Mairton B. da Silva Jr. and H. Vincent Poor, <cite>On "
            "Differential Privacy for Federated Learning in Wireless Systems with Multiple Base Stations</cite>, IET "
            'Communications 18(20), 1853-1867, 2024, <a href="https://doi.org/10.1049/cmu2.12722">'
            'doi:10.1049/cmu2.12722</a>, <a href="https://arxiv.org/abs/2208.11848">arXiv:2208.11848</a>. '
            "Assumptions, interpretations and errata: docs/multicell.md.</p>"
        ),
    }
    for system, said in cited.items():
        assert f'<p class="constant" id="paper-{system}">{system}: {said}' in text
    assert ">Paper: Kuan-Yu Lin, " in rendered([{"tables": [], "figures": {}}], papers[:1])
    assert ">Paper: " not in rendered([{"tables": [], "figures": {}}])


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
    monkeypatch.setattr(registry, "claims", lambda: {"local_dp_mac": ("local_dp_mac",)})
    own = registry.system("local_dp_mac").catalog
    object.__setattr__(own, "paper", paper)
    try:
        papers = references.cited(ROOT / "CITATION.cff", ["local_dp_mac"])
        entry = references.bibtex(ROOT / "CITATION.cff", ["local_dp_mac"])
    finally:
        object.__setattr__(own, "paper", None)
    text = rendered([{"tables": [], "figures": {}}], [paper._asdict() for paper in papers])
    said = "Paper: J. {x} Doe, <cite>On &lt;Sums&gt; &amp; Noise</cite>, J. Sums, 2021, "
    assert (f'{said}<a href="https://doi.org/10.1/x">doi:10.1/x</a>.</p>' in text) == (paper is not None)
    assert ("title = {{On <Sums> \\& Noise}}" in entry) == (paper is not None)
    assert ("% local_dp_mac: no paper" in entry) == (paper is None)


def test_a_papers_claim_links_to_its_paper_or_to_where_the_page_names_it():
    known = {paper["system"]: paper for paper in papers_of({"one": "age_aware"})}
    known |= {"none": references.reference("none", {k: v for k, v in PAPER.items() if k != "doi"})._asdict()}
    frame = pl.concat([claimed(2, "two", "Fig. <4> & (20)", against="one"), claimed(2, "three"), claimed(2, "four")])
    of_scenarios = {"one": known["age_aware"], "three": known["none"], "four": None}
    found = page.table("The study", "claims", "", frame, [], of_scenarios)
    sources = [next(cell for cell in row if "Fig." in str(cell)) for row in cells(found["html"])]
    assert re.fullmatch(
        r'<a href="https://arxiv.org/abs/2405.05962" title="Kuan-Yu Lin, .*Learning; read as in docs/age_aware.md">'
        r"Fig. &lt;4&gt; &amp; \(20\)</a>",
        sources[0],
    )
    assert sources[1] == "Fig. &lt;4&gt; &amp; (20)"  # of this project's claim
    assert sources[2] == '<a href="#paper-none" title="J. {x} Doe: On &lt;Sums&gt; &amp; Noise">Fig. 4</a>'
    assert sources[3:] == ["Fig. 4"] * 3


def test_text_of_a_study_cannot_become_markup(folder):
    frame = pl.DataFrame({"scheme": ["</script><b>x"], "value": [1.0]})
    spec = json.loads((folder / "multicell_plane.json").read_text()) | {"title": "</script><b>y"}
    figure, table = page.figure("<a>", "<i>", "", spec, [], "<z>"), page.table("<a>", "<u>", "<s>", frame, [])
    result = {"words": ["<q>"], "lead": None, "rows": [], "observers": {}, "once": [], "spent": []}
    result["papers"] = [references.Reference("<x>", "<y>", "<z>", "<j>", [("<k>", "<m>")], "<w1>")._asdict()]
    made_by = {"stages": {"<v>": ["a"]}, "versions": {}, "processors": []}
    heading = {"title": "<p>", "question": "<o>"}
    part = {"id": "a", "title": "<l>", "text": "<a>", "files": [{"href": "<h>", "text": "<n>"}]}
    text = page.render(heading, result, [part | page.section([figure], [table])] * 2, ["<w>"], made_by)
    for bad in (
        "<o>",
        "<n>",
        "<l>",
        "</script><b>",
        "<title><p>",
        "<i>",
        "<u>",
        "<s>",
        "<q>",
        "<v>",
        "<w>",
        "<x>",
        "<y>",
        "<z>",
        "<j>",
        "<k>",
        "<m>",
        "<w1>",
    ):
        assert bad not in text


def test_what_is_open_is_drawn_before_anybody_scrolls_or_prints(folder, tmp_path):
    need("chromium")
    command = [
        "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        "--window-size=390,300", "--virtual-time-budget=60000", "--dump-dom", (folder / "index.html").as_uri(),
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    figures = re.findall(r"<figure.*?</figure>", shown, re.DOTALL)
    assert len(figures) == len(SWEEP_FIGURES)
    assert all("<svg" in figure for figure in figures)


def test_in_a_browser_figures_draw_choices_change_them_and_tables_sort(folder, tmp_path):
    need("chromium")
    copy = shutil.copytree(folder, tmp_path / "page")
    index = copy / "index.html"
    index.write_text(index.read_text(encoding="utf-8").replace("<head>", f"<head><script>{CLICKS}</script>", 1))
    command = [
        "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        "--window-size=500,3000", "--virtual-time-budget=60000", "--dump-dom", index.as_uri(),
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    seen = json.loads(html.unescape(re.search(r'<pre id="seen">(.*?)</pre>', shown, re.DOTALL)[1]))
    assert seen["errors"] == []
    assert seen["drawn"] == len(SWEEP_FIGURES)
    assert seen["before"] != seen["after"]
    assert seen["legends"] > 0
    once, twice = ([float(value) for value in seen[order]] for order in ("once", "twice"))
    assert len(set(once)) > 1
    assert once == sorted(once)
    assert twice == sorted(twice, reverse=True)
    assert seen["open"]
    assert seen["wide"] <= 0
    assert seen["first"] == CLAIMS_FIRST[0]
    assert seen["links"]
    assert all((folder / link).is_file() for link in seen["links"])


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_every_figure_answers_a_question(system):
    own = registry.system(system).catalog
    figures = [*catalog.scenario_figures(own), *catalog.compared(own, swept=True)]
    assert all(question(own, figure) in catalog.QUESTIONS for figure in figures)


def test_a_figure_is_shown_under_the_question_that_its_catalog_names():
    own = replace(CATALOG, questions={"age_loss": "Who waits?", "plane": "Which is best?"})
    assert question(own, "age_loss") == "Who waits?"
    assert question(own, "plane") == "Which is best?"
    assert question(CATALOG, "age_loss") is None  # though `loss` answers one
    shown = [page.figure("one", name, "", {}, [], question(own, name)) for name in ("age_loss", "plane", "accuracy")]
    asked = page.section(shown, [])["figures"]
    assert {text: [each["name"] for each in figures] for text, figures in asked.items()} == {
        "How fast does it learn?": ["accuracy"],
        "Who waits?": ["age_loss"],
        "Which is best?": ["plane"],
    }
