"""Figures of any small study: of a size that can be looked at, all marks in their frames, axes within what can be."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
import vl_convert

import any_study
from conftest import TINY
from pwfl import execution, registry
from pwfl.api import stage_tables
from pwfl.report import theme
from pwfl.scenario import resolve
from pwfl.scenario.common import Scenario
from pwfl.scenario.values import with_others
from pwfl.stages import AUDIT

WIDEST, HIGHEST, LEAST = 1400, 2000, 60  # pixels; the lowest figure says that there is nothing to draw
NARROWEST = 150
SLACK = 2.0  # pixels by which the middle of a mark may be beyond its frame
TICKS = (2, 14), (14, 2)  # width and height of a short line across a point, whose middle is a mark's
DRAWN = ("symbol", "line", "area", "rule", "rect")
QUICK, ALL = range(1), range(1, 40)  # numbers of tables of a system; all of the five systems are 200
AUDITED = "age_aware"  # whose audit is quick


@pytest.fixture(scope="module")
def tiny() -> dict[str, tuple]:
    """The tiny scenario of each system, with all parameters, and the tables of its stages."""
    found = {}
    for system in registry.BUILT_IN:
        own = TINY["base"] if system == "multicell" else registry.system(system).catalog.tiny
        counts = {"realizations": 4, "training_realizations": 4}
        model = resolve({"audit": {"canaries": 50}}, {"system": system} | own | counts)
        tables = stage_tables(model)
        if system == AUDITED:
            tables[AUDIT] = execution.audit_schemes(model.select_stage(AUDIT), tables)
        found[system] = with_others(model.part(None), withholds=False), tables
    return found


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_a_figure_of_any_table_can_be_looked_at(tiny, system):
    for number in QUICK:
        check(*tiny[system], number, others=False)


@pytest.mark.slow
@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_figures_of_many_tables_can_be_looked_at(tiny, system):
    for number in ALL:
        check(*tiny[system], number, others=True)


def check(scenario: Scenario, tables: dict, number: int, others: bool) -> None:
    rng = np.random.default_rng(number)
    for name, chart in any_study.figures(*any_study.changed(scenario, tables, rng), rng, others):
        said, spec = (name, number), chart.to_dict()
        svg = vl_convert.vegalite_to_svg(spec, theme.VEGA_LITE)
        width, height = (float(re.search(rf' {side}="([\d.]+)"', svg)[1]) for side in ("width", "height"))
        assert NARROWEST <= width <= WIDEST, said
        assert LEAST <= height <= HIGHEST, said
        assert not re.search(r' (d|x|y|x2|y2|transform)="[^"]*(NaN|Infinity)', svg), said
        groups = vl_convert.vegalite_to_scenegraph(spec, theme.VEGA_LITE)["scenegraph"]
        assert not [mark for mark in marks(groups) if beyond(*mark)], said
        for title, labels in [each for each in axes(groups) if "difference to" not in each[0]]:
            assert "epsilon" not in title.lower() or min(labels, default=0) >= 0, (*said, title, labels)
            shares = [label for label in labels if "accuracy" in title.lower() and "over" not in title.lower()]
            assert all(0 <= label <= 100 for label in shares), (*said, title, labels)


def marks(group: dict) -> Iterator[tuple]:
    """The kind of each mark of data that is not clipped, the mark, and the width and height of its frame."""
    for frame in group["items"]:
        for part in frame.get("items", []):
            if part["marktype"] == "group" and part.get("role") in ("scope", "cell", "mark", "column", "row", None):
                yield from marks(part)
            elif part["marktype"] in DRAWN and part.get("role") == "mark" and not part.get("clip"):
                yield from ((part["marktype"], item, frame["width"], frame["height"]) for item in part["items"])


def beyond(kind: str, item: dict, width: float, height: float) -> bool:
    """Whether a mark is beyond its frame, or is nowhere."""
    far = {"rule": ("x2", "y2"), "rect": ("width", "height"), "area": ("width", "height")}.get(kind, ())
    if kind == "rect" and (item["width"], item["height"]) in TICKS:
        item, far = item | {"x": item["x"] + item["width"] / 2, "y": item["y"] + item["height"] / 2}, ()
    for near, size in (("x", width), ("y", height)):
        ends = [item.get(near, 0.0)]
        for key in far:
            if item.get(key) is None:
                continue
            if key[0] == ("w" if near == "x" else "h"):
                ends.append((ends[0] or 0.0) + item[key])
            elif key[0] == near:
                ends.append(item[key])
        if any(end is None or not -SLACK <= end <= size + SLACK for end in ends):
            return True
    return False


def axes(group: dict) -> Iterator[tuple[str, list[float]]]:
    """The title of each axis, and its labels, those that are numbers."""
    if group.get("role") == "axis":
        texts = {part["role"]: part["items"] for item in group["items"] for part in item["items"] if "role" in part}
        lines = [item["text"] for item in texts.get("axis-title", [])]
        title = " ".join(part for line in lines for part in (line if isinstance(line, list) else [line]))
        labels = [str(item["text"]) for item in texts.get("axis-label", [])]
        numbers = [re.sub(r"[%,]", "", label.replace("−", "-")) for label in labels]
        yield title, [float(number) for number in numbers if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", number)]
        return
    for frame in group["items"]:
        for part in frame.get("items", []):
            if part["marktype"] == "group":
                yield from axes(part)


def test_a_mark_beyond_its_frame_is_seen():
    assert not beyond("symbol", {"x": 10, "y": 30}, 20, 30)
    assert beyond("symbol", {"x": 10, "y": 33}, 20, 30)
    assert beyond("rule", {"x": 10, "y": 3, "y2": -30}, 20, 30)
    assert beyond("line", {"x": None, "y": 3}, 20, 30)
    assert beyond("rect", {"x": 10, "y": 3, "width": 30, "height": 2}, 20, 30)
    assert not beyond("rect", {"x": 10, "y": -7, "width": 2, "height": 14}, 20, 30)
    assert beyond("rect", {"x": 10, "y": -12, "width": 2, "height": 14}, 20, 30)
