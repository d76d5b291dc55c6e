"""Figures for print, as wide as a column or a page of IEEE's: serifs of 8 pt, no title, symbols, told apart in grey.

The theme `pwfl_print`, made of CONFIG, sets what themes can. What charts set themselves, and what depends on their
legends and labels, is rewritten in their Vega-Lite specifications. Pixels are points of the page.
"""

import re
import textwrap
from collections.abc import Iterator
from copy import deepcopy
from numbers import Number
from pathlib import Path

import altair as alt
import vl_convert

COLUMN, PAGE, FONT = 252, 515.5, 8  # points; widths of 3.5 in and 7.16 in
FACE = "Tinos, Times New Roman, Times, serif"  # Tinos, in the folder fonts, has the widths of Times New Roman
LETTER = 3.9  # width of a letter in points, on average
TALLEST = 0.6  # of the height of a view, but for maps, however much wider it becomes
PANEL = 126  # the least room for one of several views side by side
BESIDE = 36  # room beside a view for its y axis, in points
LINE = 26  # letters of a panel's title
BESIDE_LABELS = "labels_beside"  # a layer of labels that print has no room for: it gets numbers, and a key below
DASHED = 450  # size of symbols in legends that show dashes
SHRUNK = {"strokeWidth": 0.55, "size": 0.3, "dx": 0.6, "dy": 0.6, "thickness": 0.6}  # what marks say in pixels
# The theme's colours with their hues and the CIE lightness, as far as it goes, evenly apart.
COLOURS = {"#000000": "#000000", "#7F7F7F": "#1D1D1D", "#0072B2": "#003554", "#CC79A7": "#653C53", "#B8A800": "#6B6200"}
COLOURS |= {"#D55E00": "#C85800", "#56B4E9": "#4998C5", "#009E73": "#4EBB9E", "#E69F00": "#EEBC4E"}
SOLID = [1000, 0]  # not in pieces that can be seen
DASHES = [SOLID, [4, 2], [1, 1.5], [6, 1.5, 1, 1.5], [9, 2], [3, 1, 1, 1, 1, 1], [2, 3], [7, 1, 3, 1], [1, 5], [9, 5]]
SHAPES = [
    *("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "triangle-right"),
    "M0,-1L.24,-.32L.95,-.31L.38,.12L.59,.81L0,.4L-.59,.81L-.38,.12L-.95,-.31L-.24,-.32Z",  # star
    "M-1,-.72L-.72,-1L0,-.28L.72,-1L1,-.72L.28,0L1,.72L.72,1L0,.28L-.72,1L-1,.72L-.28,0Z",  # saltire
    *("M-1,-1L1,-1L-1,1L1,1Z", "M-1,-1L1,1L1,-1L-1,1Z"),  # hourglass, upright and lying
    *("M-1,.5A1,1,0,0,1,1,.5Z", "M-1,-.5A1,1,0,0,0,1,-.5Z"),  # upper and lower half of a disc
    *("M-.3,-1L.3,-1L.3,1L-.3,1Z", "M-1,-.3L1,-.3L1,.3L-1,.3Z"),  # bar, upright and lying
    *("arrow", "wedge"),
]
LETTERS = {"epsilon": "ε", "rho": "ρ", "delta": "δ", "gamma": "γ", "alpha": "α", "sigma": "σ", "lambda": "λ", "mu": "μ"}
CAPITALS = {"Delta": "Δ", "Gamma": "Γ"}  # other letters than the small ones; more begin a line
WORD = re.compile(rf"(?<![\w.])({'|'.join(LETTERS)})\b", re.IGNORECASE)  # not the end of a parameter's key
POWER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)e([+\-−]?)0*(\d+)\b")
LEGENDS = ("color", "fill", "size", "shape", "strokeDash", "strokeWidth", "opacity")  # channels that have one
NAMES = {"field", "fields", "groupby", "filter", "as", "type", "name", "param", "views", "$schema", "calculate", "op"}
TEXT = {"fontSize": FONT, "labelFontSize": FONT, "titleFontSize": FONT, "subtitleFontSize": FONT}
BELOW = {"bottom": {"direction": "vertical", "margin": 4, "bounds": "full"}}  # legends
CONFIG = {
    "axis": TEXT
    | {"titlePadding": 4, "labelPadding": 2, "tickSize": 3, "labelFlush": False, "labelLimit": COLUMN}
    | {"gridWidth": 0.5, "domainWidth": 0.6, "tickWidth": 0.6},
    "legend": TEXT
    | {"orient": "bottom", "symbolStrokeWidth": 1.3, "symbolSize": 50, "labelLimit": COLUMN, "titlePadding": 2}
    | {"titleLimit": COLUMN, "symbolLimit": 0}
    | {"rowPadding": 1, "offset": 4, "columnPadding": 6, "layout": BELOW, "titleFontWeight": "normal"},
    "header": TEXT | {"titleFontWeight": "normal"},
    "title": TEXT | {"offset": 3, "fontWeight": "normal"},
    "text": {"fontSize": FONT},
    "line": {"strokeWidth": 1.3},
    "rule": {"strokeWidth": 0.8},
    "point": {"size": 18},
}


vl_convert.register_font_directory(str(Path(__file__).parent / "fonts"))


def specification(chart: alt.TopLevelMixin, width: float = COLUMN) -> dict:
    """The specification of a figure for print, so many points wide."""
    with alt.theme.enable("pwfl_print"):
        spec = _reworded(chart.to_dict())
    if any(view["encoding"].get("y", {}).get("type") == "nominal" for view in _views(spec)):  # whose labels are long
        spec["config"]["legend"]["layout"] = {"bottom": BELOW["bottom"] | {"anchor": "end"}}
    for gone in ("title", "description", "usermeta", "background"):
        spec.pop(gone, None)
    spec = _keyed(spec)
    for node in _nodes(spec):
        _arrange(node, int(width // PANEL))
        _shrink(node, width)
    _tell_apart(spec)
    return _fitted(spec, width)


def pdf(chart: alt.TopLevelMixin, width: float = COLUMN) -> bytes:
    """A figure as a PDF of one page, so many points wide."""
    return vl_convert.svg_to_pdf(svg(chart, width))


def svg(chart: alt.TopLevelMixin, width: float = COLUMN) -> str:
    """A figure as the SVG that is printed."""
    drawn = vl_convert.vegalite_to_svg(specification(chart, width))
    return re.sub(r"(?<=>)[^<>]+(?=</text>|</tspan>)", lambda text: POWER.sub(_power, text[0]), drawn)


def words(text: str) -> str:
    """A text with Greek letters for their names."""
    return WORD.sub(lambda name: CAPITALS.get(name[0]) or LETTERS[name[0].lower()], text).replace("^2", "²")


def _power(number: re.Match) -> str:
    """`2e-05` as SVG of 2·10⁻⁵; few fonts have the raised digits of Unicode."""
    factor, sign, exponent = number.groups()
    minus = "−" if sign in ("-", "−") else ""
    raised = f'<tspan baseline-shift="super" font-size="{0.75 * FONT}px">{minus}{exponent}</tspan>'
    return ("" if factor == "1" else f"{factor}·") + "10" + raised


def _reworded(node, key: str = ""):
    """A specification with other words and colours in all texts, in data, too; names of columns stay."""
    if isinstance(node, dict):
        kept = ((name, value) for name, value in node.items() if name != "tooltip")
        return {name: value if name in NAMES else _reworded(value, name) for name, value in kept}
    if isinstance(node, list):
        return [_reworded(value, key) for value in node]
    if isinstance(node, str) and not key.endswith(("expr", "Expr")):
        return COLOURS.get(node.upper()) or words(node)
    return node


def _keyed(spec: dict) -> dict:
    """The specification with numbers for labels that stand beside a view, and their texts below it."""
    layer = next((layer for layer in spec.get("layer", []) if layer.get("name") == BESIDE_LABELS), None)
    if layer is None:
        return spec
    field, place = layer["encoding"]["text"]["field"], layer["encoding"]["y"]["field"]
    rows = spec["datasets"][(layer.get("data") or spec["data"])["name"]]
    key = []
    for number, row in enumerate(sorted(rows, key=lambda row: -row[place]), 1):
        key.append({"number": number, "text": f"{number}  {row[field]}"})
        row[field] = str(number)
    y = {"field": "number", "type": "ordinal", "axis": None}
    texts = {
        "data": {"values": key},
        "mark": {"type": "text", "align": "left", "fontSize": FONT},
        "encoding": {"x": {"value": -BESIDE}, "y": y, "text": {"field": "text", "type": "nominal"}},
        "height": {"step": 16},
        "width": 1,
    }
    top = {part: spec.pop(part) for part in ("$schema", "config", "datasets", "params") if part in spec}
    return top | {"vconcat": [spec, texts], "spacing": 8}


def _nodes(node: dict) -> Iterator[dict]:
    """All views of a specification and what they are composed of, from above; each may be changed when it comes."""
    yield node
    for key in ("hconcat", "vconcat", "concat", "layer"):
        for child in node.get(key, []):
            yield from _nodes(child)
    if "spec" in node:
        yield from _nodes(node["spec"])


def _views(spec: dict) -> list[dict]:
    return [node for node in _nodes(spec) if "mark" in node and "encoding" in node]


def _arrange(node: dict, most: int) -> None:
    """At most so many panels side by side, titles of several lines."""
    for child in node.get("layer", []):
        child.pop("title", None)
    if isinstance(node.get("title"), dict) and isinstance(node["title"].get("text"), str):
        node["title"]["text"] = textwrap.wrap(node["title"]["text"], 2 * LINE)
    if "hconcat" in node:
        node |= {"concat": node.pop("hconcat"), "columns": most, "spacing": 8}
    if "facet" in node:
        if set(node["facet"]) == {"column"}:
            node["facet"] = node["facet"]["column"]
        if "field" in node["facet"]:
            node |= {"columns": most, "spacing": 8}
            lines = f"split(trim(replace(datum.label, regexp('(.{{1,{LINE}}})( |$)', 'g'), '$1\\n')), '\\n')"
            node["facet"]["header"] = (node["facet"].get("header") or {}) | {"labelExpr": lines}


def _shrink(node: dict, width: float) -> None:
    """Smaller marks and text than the chart itself sets, legends in columns."""
    mark = node.get("mark", {})
    for parts in (mark, mark.get("point")):
        if isinstance(parts, dict):
            small = {key: parts[key] * by for key, by in SHRUNK.items() if isinstance(parts.get(key), Number)}
            parts.update(small | ({"fontSize": FONT} if "fontSize" in parts else {}))
    for channel, encoding in node.get("encoding", {}).items():
        for each in encoding if isinstance(encoding, list) else [encoding]:
            _shrink_channel(channel, each, width)
    facets = node.get("facet", {})
    headers = [facet["header"] for facet in (facets, *facets.values()) if isinstance(facet, dict) and "header" in facet]
    for texts in (node.get("title"), *headers):
        if isinstance(texts, dict):
            texts |= {size: FONT for size in texts if size in TEXT}


def _shrink_channel(channel: str, encoding: dict, width: float) -> None:
    if "field" not in encoding:
        return
    scale, axis = encoding.get("scale") or {}, encoding.get("axis") or {}
    if channel in ("x", "y"):
        if "labelOffset" in axis:
            axis["labelOffset"] *= SHRUNK["dy"]
        axis.pop("minExtent", None)
        if title := encoding.get("title"):
            text = title if isinstance(title, str) else " ".join(title)
            encoding["title"] = textwrap.wrap(text, 44 if channel == "x" else 30, break_long_words=False)
        if encoding.get("type") == "quantitative" and encoding.get("axis", {}) is not None:
            if "values" not in axis:
                axis["tickCount"] = 5
            encoding["axis"] = axis
        if "padding" in scale:
            scale["padding"] *= 0.6
    elif channel in SHRUNK and isinstance(scale.get("range"), list):
        scale["range"] = [size * SHRUNK[channel] for size in scale["range"]]
    elif channel == "strokeDash" and "range" in scale:
        scale["range"] = [[length / 2 for length in dash] for dash in scale["range"]]
    if isinstance(encoding.get("legend", {}), dict) and channel in LEGENDS:
        longest = max((len(str(name)) for name in scale.get("domain", ["a scheme of usual length"])), default=1)
        columns = int(max(1, (width - BESIDE) // (LETTER * longest + 24)))
        size = DASHED if channel in ("strokeDash", "strokeWidth") else CONFIG["legend"]["symbolSize"]
        encoding["legend"] = encoding.get("legend", {}) | {"columns": columns, "symbolSize": size}


def _tell_apart(spec: dict) -> None:
    """Dashes for lines, and shapes for marks, that have only colours."""
    views = _views(spec)
    lined = {_coloured_by(view) for view in views if view["mark"]["type"] == "line"}
    for view in views:
        encoding, kind, field = view["encoding"], view["mark"]["type"], _coloured_by(view)
        if field is None:
            continue
        colour = encoding["color"]
        if kind == "line" and encoding.get("strokeDash", colour)["field"] == field:
            encoding.setdefault("strokeDash", _copied(colour, DASHES))
            colour["legend"] = encoding["strokeDash"]["legend"] = colour["legend"] | {"symbolSize": DASHED}
        elif kind in ("point", "circle") and field not in lined and "shape" not in encoding:
            view["mark"] = ({"filled": kind == "circle"} | view["mark"]) | {"type": "point"}
            colour["legend"].pop("symbolType", None)
            encoding["shape"] = _copied(colour, SHAPES)


def _coloured_by(view: dict) -> str | None:
    """The field that a view's colours stand for, where they tell several things apart."""
    colour = view["encoding"].get("color", {})
    domain = (colour.get("scale") or {}).get("domain") or []
    several = isinstance(domain, list) and len(domain) > 1 and isinstance(colour.get("legend"), dict)
    return colour.get("field") if several and colour.get("type") == "nominal" else None


def _copied(colour: dict, looks: list) -> dict:
    domain = colour["scale"]["domain"]
    copied = {key: deepcopy(colour[key]) for key in ("field", "type", "title", "legend") if key in colour}
    return copied | {"scale": {"domain": domain, "range": [looks[k % len(looks)] for k in range(len(domain))]}}


def _is_map(view: dict) -> bool:
    """Whether both axes of a view have one scale."""
    domains = [(view["encoding"].get(axis, {}).get("scale") or {}).get("domain") for axis in "xy"]
    return domains[0] is not None and domains[0] == domains[1]


def _fitted(spec: dict, width: float) -> dict:
    """The specification with views as wide as the page leaves room for."""
    views = [view for view in _nodes(spec) if isinstance(view.get("width"), Number)]
    sizes = [(view, view["width"], view.get("height"), any(map(_is_map, _views(view)))) for view in views]
    for height in (view["height"] for view in _nodes(spec) if isinstance(view.get("height"), dict)):
        height["step"] *= 0.62
    wide: list[tuple[float, float]] = []  # factor and width of what was rendered
    spec["padding"] = 1

    def rendered(factor: float) -> float:
        for view, across, height, is_map in sizes:
            view["width"] = round(across * factor, 1)
            if isinstance(height, Number):
                view["height"] = round(height * (factor if is_map else min(factor, TALLEST)), 1)
        drawn = re.search(r'<svg[^>]*?width="([\d.]+)"', vl_convert.vegalite_to_svg(spec))
        wide.append((factor, float(drawn[1])))
        return wide[-1][1]

    rendered(0.25)
    factor = 0.4 * width / COLUMN
    for _ in range(6):
        if width - 2 <= rendered(factor) <= width:
            break
        (f0, w0), (f1, w1) = wide[-2:]
        if w0 == w1 or f0 == f1:
            break
        factor = min(max(f1 + (width - 0.5 - w1) * (f1 - f0) / (w1 - w0), 0.08), 1.6)
    spec["padding"] = {"left": 1, "top": 1, "bottom": 1, "right": 1 + max(0, width - wide[-1][1])}
    return spec
