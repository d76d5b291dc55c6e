"""Pages of studies that were simulated, and what tests take from their HTML and SVG."""

import html
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import polars as pl

import pwfl
from pwfl import tables
from pwfl.report import build, headline, labels, page, points, study_figures
from pwfl.scenario import load
from pwfl.store import sealed
from pwfl.workflow import reports

LEAST, SEEN = 10.9, 0.5  # pixels of the smallest text; of what two boxes may overlap
MOST = 2**20  # bytes of a page
SVG = "{http://www.w3.org/2000/svg}"


def contents_of(config: dict) -> dict[str, dict]:
    """The scenarios of a config, simulated, as `build.compare` takes them."""
    simulated, study = pwfl.simulate(config).scenarios, load(config, "study.yaml")
    contents = {name: {"scenario": chosen.part(None)} for name, chosen in study.scenarios.items()}
    return {name: own | {"point": study.point(name)} | simulated[name].report for name, own in contents.items()}


def drawn(contents: dict[str, dict], titles: dict[str, str]) -> tuple[dict, pl.DataFrame, dict]:
    """A study's tables, points, and charts of its page, by system."""
    frames = build.compare(contents)
    rows, charts = points.points(contents, frames, titles), {}
    for (system,), own in rows.group_by("system", maintain_order=True):
        lead = headline.lead(own)
        outcomes = frames["outcomes"].filter(system=system)
        charts[system] = study_figures.draw_page(own, lead, contents, outcomes, rows)
    return frames, rows, charts


def page_of(config: dict, folder: Path, contents: dict[str, dict] | None = None, papers=(), **audits) -> str:
    """The page of a study's config, in a folder of its files; `audits` by scenario."""
    study = load(config, "study.yaml")
    frames, rows, charts = drawn(contents or contents_of(config), study.titles)
    folder.mkdir(exist_ok=True)
    tables.write_report(frames | {"points": rows}, folder)
    (folder / "charts.json").write_text(json.dumps(charts), encoding="utf-8")
    sealed.seal_folder(folder)
    for name, frame in audits.items():
        (folder / name).mkdir(exist_ok=True)
        tables.write_report({"audit": frame}, folder / name)
        sealed.seal_folder(folder / name)
    view = {str(path.relative_to(folder)): str(path) for path in folder.rglob("*.*") if path.is_file()}
    parts = reports.page_parts(study)
    for part in parts:
        part["tables"] = [path for path in part["tables"] if f"{path}.parquet" in view]
    heading = {"study": study.name, "title": study.title or study.name, "question": study.question}
    text = page.build_page(
        heading, parts, view, {"addresses": {"train": ["a", "b"]}, "packages": {"numpy": "2"}}, papers
    )
    (folder / "index.html").write_text(text, encoding="utf-8")
    return text


def figures(text: str) -> list[ElementTree.Element]:
    """The figures of a page, as they are drawn."""
    return [ElementTree.fromstring(svg) for svg in re.findall(r'<svg role="img".*?</svg>', text, re.DOTALL)]


def texts(svg: ElementTree.Element) -> Iterator[tuple[str, float, bool, tuple[float, float]]]:
    """The texts of a figure, of those with an outline once: the words, the size, whether bold, and where they stand."""

    def within(element: ElementTree.Element, x: float, y: float) -> Iterator:
        moved = re.match(r"translate\(([-\d.e]+)[, ]([-\d.e]+)\)", element.get("transform", ""))
        x, y = (x + float(moved[1]), y + float(moved[2])) if moved else (x, y)
        if element.tag == f"{SVG}text" and element.get("stroke") is None and element.get("opacity") != "0":
            size = float(element.get("font-size").removesuffix("px"))
            bold = element.get("font-weight") == "bold"
            lines = [(each.text, float(each.get("dy", 0))) for each in element.findall(f"{SVG}tspan")]
            down = 0.0
            for words, dy in lines or [(element.text, 0.0)]:
                down += dy
                wide = labels.width(words or "", size, bold)
                left = x - {"end": wide, "middle": wide / 2}.get(element.get("text-anchor"), 0)
                yield words or "", size, bold, (left, y + down)
        for child in element:
            yield from within(child, x, y)

    yield from within(svg, 0.0, 0.0)


def boxes(svg: ElementTree.Element) -> list[tuple[str, labels.Box]]:
    """Words of a figure and the boxes that they fill: of capitals, from their base line up."""
    return [
        (words, (x, y - 0.72 * size, x + labels.width(words, size, bold), y))
        for words, size, bold, (x, y) in texts(svg)
        if words.strip()
    ]


def check_figures(text: str) -> int:
    """Text of a page's figures is large enough, stands on no other text, and names nothing by keys."""
    svgs = figures(text)
    for svg in svgs:
        assert all(size >= LEAST for _, size, *_ in texts(svg))
        for (one, box), (other, beside) in itertools.combinations(boxes(svg), 2):
            across, down = (min(box[k + 2], beside[k + 2]) - max(box[k], beside[k]) for k in (0, 1))
            assert across <= SEEN or down <= SEEN, (svg.get("aria-label"), one, other)
        words = [words for words, *_ in texts(svg)]
        assert not any(re.search(r"[a-z]_[a-z]|\w\.\w+_|undefined|NaN|\bnull\b|None", each) for each in words), words
        assert not re.search(r"NaN|Infinity", str(svg.attrib))
    return len(svgs)


def check_words(text: str) -> None:
    """What a page shows is no template, has no raw keys, and no value that is missing in words."""
    shown = re.sub(r"<(script|style|code|svg).*?</\1>|<dl>.*?</dl>", "", text[text.index("<body>") :], flags=re.DOTALL)
    shown = html.unescape(re.sub(r"<[^>]+>", " ", shown))
    assert not re.search(r"{[{%#]|[%#}]}|``|snakemake\.wildcards|</?[a-z]+>", shown)
    assert not re.search(r"\b(nan|None|inf|undefined)\b", shown), re.search(
        r".{60}\b(nan|None|inf|undefined)\b.{20}", shown
    )
    kept = re.sub(r"Not shown in .*|\S+\.(csv|yaml|md|json)\b|own\.\S+|In the table.*", "", shown)
    kept = kept[: kept.index("More figures", kept.index("claims hold"))]  # captions may name tables' columns
    assert not re.findall(r"\b(?:privacy|training|schedule|radio|data|network)\.[a-z_]+", kept)
