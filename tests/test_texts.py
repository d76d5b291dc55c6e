"""What users write, titles above all, is shown as it is: on the page, in figures, in LaTeX, in Snakemake's report."""

import html
import json
import re
import shutil
from html.parser import HTMLParser
from xml.etree import ElementTree

import docutils.core
import jinja2
import polars as pl
import pytest
import yaml
from docutils.utils import Reporter
from hypothesis import given, settings
from hypothesis import strategies as st

import any_page
import pwfl
from conftest import ROOT, SMALL, snakemake, workflow
from pwfl import registry, tables
from pwfl.report import build, captions, headline, latex, page, study_figures, theme, words
from pwfl.scenario import ScenarioError, load, read
from pwfl.workflow import reports
from test_paper import assert_balanced

TITLE = r"T \sigma \1 {x} {{x}} {% x %} 'q' `b` 5% $x$ & <b>B</b> </script> a_b ~ γ 😀"
QUESTION = 'Q \\g<0> {# c #} "q" ``c`` <i> %s *a* |c| [d] </script><script>alert(1)</script> ?'
TITLES = {
    "one": r"A \sigma = 1 \1 {{x}} {% x %} {x} `b` ``c`` *d* <b> 😀",
    "two": r"""[x] </script> 5% $x$ _a_ |b| "q" 's' #1 ~^ γ & \\""",
    "three": "*Long* " + "long " * 10 + "\\",
}
SCENARIOS = {"one": {}, "two": {"seed": 2}, "three": {"seed": 3}}
PLAIN = "A plain title"
AGING = SMALL["base"]


class Read(HTMLParser):
    """The elements of an HTML page, and the text of each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.count, self.open, self.texts = {}, [], {}
        self.feed(str(text))
        self.close()

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        for tag in set(self.open):
            self.texts[tag][-1] += data


def config_of(titles: dict[str, str], **texts) -> dict:
    scenarios = {name: own | {"title": titles[name]} for name, own in SCENARIOS.items()}
    return {"study": "texts", **texts, "base": AGING, "scenarios": scenarios}


@pytest.fixture(scope="module")
def simulated() -> dict[str, dict]:
    """The scenarios' tables, by what `build.compare` asks for; titles change nothing in them."""
    config = config_of(dict.fromkeys(SCENARIOS, PLAIN) | {name: f"{PLAIN} {name}" for name in SCENARIOS})
    study, found = load(config, "study.yaml"), pwfl.simulate(config)
    return {
        name: {"scenario": one.part(), "point": study.point(name), **found.scenarios[name].report}
        for name, one in study.scenarios.items()
    }


def test_texts_are_shown_as_they_are_on_the_page(simulated, tmp_path):
    text = any_page.page_of(config_of(TITLES, title=TITLE, question=QUESTION), tmp_path / "hostile", simulated)
    of_plain = config_of({name: f"{PLAIN} {name}" for name in SCENARIOS}, title=PLAIN, question=PLAIN)
    found, plain = Read(text), Read(any_page.page_of(of_plain, tmp_path / "plain", simulated))
    assert found.texts["h1"] == found.texts["title"] == [TITLE]
    assert QUESTION in found.texts["header"][0]
    assert {f"{title} (Age aware)" for title in TITLES.values()} <= set(found.texts["summary"])
    drawn = ("svg", "g", "path", "text", "tspan", "rect", "line", "circle", "defs", "clippath")
    assert {tag: n for tag, n in found.count.items() if tag not in drawn} == {
        tag: n for tag, n in plain.count.items() if tag not in drawn
    }  # no text is an element
    assert all(title in found.texts["section"][-1] for title in TITLES.values())


def test_texts_are_shown_as_they_are_in_figures(simulated, tmp_path):
    study = load(config_of(TITLES), "study.yaml")
    frames, rows, charts = any_page.drawn(simulated, study.titles)
    chart = study_figures.chart("result", rows, headline.lead(rows), simulated, frames["outcomes"])
    for name, title in TITLES.items():
        paths = {kind: str(tmp_path / f"{name}.{kind}") for kind in ("json", "svg", "png", "pdf")}
        theme.save(theme.named(chart, title), paths)
        spec = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        assert spec["title"]["subtitle"][0] == title
        drawn = "\n".join(ElementTree.parse(tmp_path / f"{name}.svg").getroot().itertext())
        assert f"\n{' '.join(title.split())}\n" in re.sub(r" +", " ", drawn)
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert "…" not in drawn
    tips = html.unescape(" ".join(re.findall(r'aria-label="([^"]*)"', charts["age_aware"]["wide"])))
    assert all(words.lower(title) in tips for title in TITLES.values())


def test_texts_are_shown_as_they_are_in_latex(simulated):
    study, frames = load(config_of(TITLES), "study.yaml"), build.compare(simulated)
    for name in ("outcomes", "effects", "claims"):
        found = getattr(latex, name)(latex.titled(frames[name], study.titles))
        plain = getattr(latex, name)(latex.titled(frames[name], {}))
        assert_balanced(found)
        cells = [len(re.findall(r"(?<!\\)&", line)) for line in found.splitlines()]
        assert [n for n in cells if n] == [
            len(re.findall(r"(?<!\\)&", line)) for line in plain.splitlines() if "&" in line
        ]
        assert not re.search(r"(?<!\\)[%#]", re.sub(r"^%.*", "", found, flags=re.MULTILINE))
        assert not re.search(r"^ *[\[*]", found, flags=re.MULTILINE)  # which the end of the row before would take
        assert found.startswith("% Compile with LuaLaTeX or XeLaTeX, and a font that has 😀\n")
        assert not plain.startswith("% Compile")
    assert "$\\gamma$" in found


def test_what_csv_holds_is_what_was_written(tmp_path):
    frame = pl.DataFrame({"text": [*TITLES.values(), TITLE, QUESTION, "a\nb", 'x,"y"'], "number": range(7)})
    tables.write_report({"a": frame}, tmp_path)
    assert pl.read_csv(tmp_path / "a.csv").equals(frame)


def shown_by_snakemake(caption: str) -> str:
    """A caption as Snakemake's report renders it, in plain text. Fails where Docutils has anything to say."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    text = environment.from_string(captions.for_snakemake(caption)).render(snakemake=None, categories={}, files=[])
    strict = {"halt_level": Reporter.WARNING_LEVEL, "warning_stream": False}
    return docutils.core.publish_doctree(text, settings_overrides=strict).astext()


LINE = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=60).filter(str.strip)


@settings(max_examples=60, deadline=None)
@given(LINE)
def test_a_caption_names_its_scenario_by_any_title(title):
    one_line = " ".join(title.split())
    for field in ("``{{ snakemake.wildcards.scenario }}``", "{{ scenario }}"):
        caption = captions.fill(f"**What**, scenario {field}. It {{x}} ``is``.", title)
        end = "" if one_line.endswith((".", "!", "?", "…")) else "."
        expected = f"What, scenario {one_line}{end} It {{x}} is."
        assert shown_by_snakemake(caption) == expected
        found = Read(page.caption(caption))
        assert "".join(found.texts["p"]) == expected
        assert found.texts["em"] == [one_line]


def test_a_captions_other_text_is_no_template():
    text = r"**Of** \{{x}}, {% x %} {# x #} {{ 7 * 7 }} and {{scenario}}, {{ snakemake.wildcards.other }}"
    shown = shown_by_snakemake(captions.fill(text, r"\1"))
    assert shown == r"Of {{x}}, {% x %} {# x #} {{ 7 * 7 }} and \1, {{ snakemake.wildcards.other }}"
    with pytest.raises(ValueError, match="names a scenario, but its figure compares several"):
        captions.fill(text)


STUDIES = [*sorted((ROOT / "config").glob("*_small.yaml")), ROOT / "config/config.yaml"]
EXAMPLES = sorted((ROOT / "examples").glob("*/study.yaml"))


@pytest.fixture
def examples(monkeypatch):
    """The systems of examples, as if they were installed."""
    names = {name: (f"{name}.system:SYSTEM",) for name in ("local_dp_mac", "privacy_for_free")}
    for name in names:
        monkeypatch.syspath_prepend(ROOT / "examples" / name)
    known = registry.claims()
    monkeypatch.setattr(registry, "claims", lambda: known | names)
    yield
    for cached in (registry.makes, registry.makers, registry.stages):
        cached.cache_clear()


@pytest.mark.usefixtures("examples")
def test_every_caption_of_every_small_study_names_its_scenario_and_is_no_template(monkeypatch):
    monkeypatch.chdir(ROOT)
    seen = set()
    for path in (*STUDIES, *EXAMPLES):
        if path.parent.name == "sionna_links":
            monkeypatch.chdir(path.parent)
        study = load(read([path]), path.name)
        for part in reports.page_parts(study):
            for figure, text in part["figures"]:
                kind = text.replace(f"*{captions.plain(part.get('title', 'none'))}*", "*title*")
                if kind not in seen:  # of equal ones one is rendered
                    shown = shown_by_snakemake(text)
                    assert shown
                    assert not re.search(r"{[{%#]|[%#}]}|(?<!\.)\.\.(?!\.)", shown), (path, figure)
                seen.add(kind)
                assert (kind != text) == (part["scenario"] is not None), (path, figure)
                if part["scenario"]:
                    assert part["title"] == study.titles[part["scenario"]]
    assert len(seen) > 50


def test_snakemakes_report_has_the_captions_of_the_page():
    study = load(read([ROOT / "config/random_orthogonalization_small.yaml"]), "small")
    count = 0
    for part in reports.page_parts(study):
        for figure, text in part["figures"]:
            assert reports.shown(study, figure)[0] == text
            count += 1
    assert count > 30


@pytest.mark.parametrize("character", ["\\x1b", "\\t", "\\x85", "\\u2028", "\\0"])
def test_a_title_without_a_shape_on_paper_is_refused(character):
    config = yaml.safe_load(f'{{title: "a{character}b", scenarios: {{one: {{title: "c{character}d"}}}}}}')
    with pytest.raises(ScenarioError) as error:
        load(config | {"base": AGING}, "study.yaml")
    for key in ("title", "scenarios.one.title"):
        assert re.search(
            rf"^  {key}: has the character '\\.*', which is not printed; leave it out$",
            str(error.value),
            re.MULTILINE,
        )


def test_a_titles_swept_texts_are_on_one_line():
    config = {"base": AGING, "scenarios": {"one": {"sweep": {"own.schedule.mode": ["a\nb\x85 c"]}}}}
    try:
        study = load(config, "study.yaml")
    except ScenarioError:
        config["base"] = {"system": "multicell"}
        study = load(config, "study.yaml")
    assert list(study.titles.values())[-1].splitlines() == [list(study.titles.values())[-1]]


# The whole workflow.

FEW = {"realizations": 2, "training_realizations": 2}
WHOLE = [*STUDIES, *(ROOT / f"examples/{name}/study.yaml" for name in ("moving_users", "own_air"))]


def shown_of(page_text: str) -> str:
    """What a page shows."""
    body = page_text[page_text.index("<body>") :]
    return re.sub(r"<script.*?</script>|<style.*?</style>", "", body, flags=re.DOTALL)


def reported(folder, config: dict) -> str:
    """Snakemake's report of a study that has run, without a message of Docutils."""
    made = snakemake(folder, config, "--report", "report.html")
    assert made.returncode == 0, made.stderr
    assert not re.search(r"(WARNING|ERROR|SEVERE)/\d", made.stdout + made.stderr)
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem if path.stem != "study" else path.parent.name)
def test_the_page_and_snakemakes_report_of_a_small_study_show_no_template(tmp_path, path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    config = read([path])
    config["base"] |= FEW | {"audit": {"canaries": 50}}
    config["scenarios"] = {
        name: {key: value for key, value in (own or {}).items() if key not in FEW}
        for name, own in config["scenarios"].items()
    }
    workflow(tmp_path, config)
    page_ = (tmp_path / f"results/{config['study']}/index.html").read_text(encoding="utf-8")
    any_page.check_figures(page_)
    any_page.check_words(page_)
    assert len(page_.encode()) < any_page.MOST
    text = shown_of(page_)
    assert not re.search(r"{[{%#] |``|(?<!\.)\.\.(?!\.)|snakemake\.wildcards", text)
    report = reported(tmp_path, config)
    study = load(config, path.name)
    for name in study.scenarios.keys() - study.points.keys():
        assert f"scenario <em>{study.titles[name]}</em>" in text
        assert f"scenario <em>{study.titles[name]}</em>" in report


@pytest.mark.slow
def test_a_study_of_any_texts_runs_to_its_end(tmp_path):
    config = config_of(TITLES, title=TITLE, question=QUESTION) | {"print": True}
    workflow(tmp_path, config)
    folder = tmp_path / "results/texts"
    found = Read((folder / "index.html").read_text(encoding="utf-8"))
    assert found.texts["h1"] == [TITLE]
    captioned = " ".join(" ".join(found.texts["figcaption"]).split())
    for name, title in TITLES.items():
        assert f"scenario {title}" in captioned
        assert (folder / name / "loss.pdf").read_bytes().startswith(b"%PDF")
    for name in ("outcomes", "effects", "claims"):
        assert_balanced((folder / f"{name}.tex").read_text(encoding="utf-8"))
    report = reported(tmp_path, config)
    assert "<script>alert(1)" not in report
    assert "<b>B</b>" not in report
