"""What every figure owes who looks at it: titles that say of how many, names in place of legends; print."""

import json
import re

import altair as alt
import numpy as np
import polars as pl
import pytest
import vl_convert
from altair.utils import schemapi

from conftest import TINY, in_turn
from pipeline import run
from pwfl import registry
from pwfl.report import build, drawing, parameters, results, theme
from pwfl.report.catalog import COMMON_OUTCOMES, scenario_figures
from pwfl.scenario import fields, resolve

COUNTED = re.compile(r"\b\d+ (realization|training|numbers|test|user)|computed, without realizations|nothing drawn")


@pytest.fixture(scope="module")
def charts() -> dict[str, alt.TopLevelMixin]:
    """All figures of all systems' tiny scenarios, by system and name."""
    figures = {}
    for system in registry.BUILT_IN:
        catalog = registry.system(system).catalog
        config = {"system": system, "realizations": 2, "training_realizations": 2} | catalog.tiny
        scenario, tables = run(TINY["base"] | {"system": system} if system == "multicell" else config)
        for name, needed in scenario_figures(catalog).items():
            chart = build.figure(scenario, name, {table: tables[table] for table in needed})
            figures[f"{system}.{name}"] = theme.named(chart, "tiny")
    return figures


@pytest.fixture(scope="module")
def drawn(charts) -> dict[str, dict]:
    """The specifications of `charts`."""
    return {name: chart.to_dict() for name, chart in charts.items()}


def views(node: dict) -> list[dict]:
    """The views of a specification that have a mark."""
    parts = [part for key in ("hconcat", "vconcat", "concat", "layer") for part in node.get(key, [])]
    parts += [node["spec"]] if "spec" in node else []
    return [node] * ("mark" in node and "encoding" in node) + [view for part in parts for view in views(part)]


@pytest.mark.slow
def test_titles_say_of_what_scenario_and_how_many(drawn):
    for name, spec in drawn.items():
        title = spec["title"]
        assert title["text"], name
        assert title["subtitle"][0] == "tiny", name
        assert COUNTED.search(" ".join([title["text"], *title["subtitle"]])), (name, title)


def test_figures_have_no_legend_and_name_every_scheme_that_they_draw(drawn):
    for name, spec in drawn.items():
        svg = vl_convert.vegalite_to_svg(spec, theme.VEGA_LITE)
        assert "role-legend" not in svg, name
        channels = [view["encoding"] for view in views(spec) if view["mark"]["type"] in ("line", "point", "circle")]
        scales = [channel["color"].get("scale") or {} for channel in channels if "field" in channel.get("color", {})]
        drawn_names = {
            scheme for rows in spec.get("datasets", {}).values() for row in rows if (scheme := row.get("scheme"))
        }
        texts = set(re.findall(r">([^<>]+)</(?:text|tspan)>", svg))
        for scale in scales:
            assert {each for each in scale.get("domain", []) if each in drawn_names} <= texts, (name, texts)


def test_marks_show_columns_that_are_there(drawn):
    """Vega draws nothing of a column that is not in its data."""
    for name, spec in drawn.items():
        columns = {key for rows in spec.get("datasets", {}).values() for row in rows for key in row}
        fields = set(re.findall(r"'field': '([^']+)'", str(spec)))
        assert fields <= columns, (name, fields - columns)


def test_no_axis_counts_half_devices(drawn):
    axes = [axis for view in views(drawn["anonymous_oac.failures"]) if (axis := view["encoding"]["x"].get("axis"))]
    assert axes
    for axis in axes:
        assert axis["format"] == "d"
        assert axis["values"] == [int(value) for value in axis["values"]] != []


def test_bands_end_where_values_do():
    frame = pl.DataFrame({"v_mean": [0.1, 0.98], "v_ci_low": [-0.2, 0.9], "v_ci_high": [0.4, 1.1]})
    assert theme.within(frame, "v", 0.0, 1.0).rows() == [(0.1, 0.0, 0.4), (0.98, 0.9, 1.0)]


def test_a_squeezed_scheme_asks_for_a_logarithmic_axis():
    values = [0.1 + step * k for step in (0.1, 0.001) for k in range(100)]
    frame = pl.DataFrame({"scheme": ["a"] * 100 + ["b"] * 100, "v": values, "realization": 0})
    assert theme.is_squeezed(frame, "v")
    assert not theme.is_squeezed(frame.filter(scheme="a"), "v")
    assert not theme.is_squeezed(frame.with_columns(v=pl.col("v") - 0.1), "v")  # no logarithm of 0


def test_a_scheme_has_one_colour_in_all_figures_of_a_study():
    first, second = (resolve({}, TINY["base"]) for _ in range(2))
    own = theme.scenario_colours(first)
    assert len(set(own.values())) == len(own)
    schemes = [("RndSched", "random", "target"), *((s.name, s.scheduler, s.noise) for s in second.schemes)]
    with theme.use_colours("multicell", schemes):
        colours = theme.scenario_colours(second)
    assert colours["RndSched"] == theme.scheme_colours("multicell", schemes[:1])["RndSched"] != own["RndSched"]
    scale = theme.coloured_by(colours)["scale"].to_dict()
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == colours
    assert theme.scenario_colours(second) == own


def test_leakage_is_distributed_over_scheduled_users_alone():
    scenario, tables = run(TINY["base"] | {"system": "multicell"}, audited=False)
    spec = build.figure(scenario, "leakage", {"leakage": tables["leakage"]}).to_dict()
    rows = [row for data in spec["datasets"].values() for row in data if "share" in row]
    sent = tables["schedule"].drop_nulls("resource_block").group_by("scheme").len()
    everyone = len(tables["users"])
    assert 0 < sent["len"].min() <= sent["len"].max() < everyone
    for scheme, count in sent.rows():
        own = [(row["rho"], row["share"]) for row in rows if row["scheme"] == scheme]
        assert min(rho for rho, _ in own) > 0  # who is not scheduled leaks nothing
        assert [share for _, share in own] == pytest.approx(np.arange(1, count + 1) / count)


def test_an_empty_figure_is_a_line_that_says_why():
    spec = theme.empty("no test is defined", "Audit").to_dict()
    assert "no test is defined" in json.dumps(spec["datasets"])
    assert spec["height"] < 50


def test_the_audit_says_what_failed_and_what_is_seen():
    passed = {"scheme": "s", "observer": "o" * 20 + " " + "p" * 20, "test": "noise", "status": "passed", "reason": None}
    numbers = {
        "draws": 9,
        "stated": 1.0,
        "measured": 1.05,
        "expected_min": 0.9,
        "expected_max": 1.1,
        "detectable": 0.0123,
    }
    rows = [passed | numbers | {"detects": "noise 1.2% too low", "false_alarm": 1e-6, "power": 0.99}]
    rows.append(rows[0] | {"scheme": "t", "measured": 1.0, "detectable": 0.04, "detects": "noise 4% too low"})
    rows.append(rows[0] | {"scheme": "t", "test": "signal of one and of others", "status": "failed", "measured": 2.0})
    spec = results.audit(None, {"audit": pl.DataFrame(rows)}).to_dict()
    data = list(spec["datasets"].values())
    drawn = [[row["place"] for row in rows] for rows in data if "place" in rows[0]]
    assert sorted(map(tuple, drawn)) == [pytest.approx((0.5, 0.0)), pytest.approx((results.BEYOND,))]  # passed, failed
    (lines,) = (rows for rows in data if "said" in rows[0] and len(rows) == 2)
    # Of schemes, what the weakest sees; and what is wrong.
    assert [row["said"].replace("\n", " ") for row in lines] == ["noise 4% too low", "t: 2, not 0.9 to 1.1"]
    texts = [part for row in lines for part in (row["line"] + "\n" + row["said"]).split("\n")]
    assert max(map(len, texts)) <= results.LABEL


# Print.


@pytest.mark.parametrize("system", in_turn(registry.BUILT_IN, "multicell"))
def test_figures_for_print_are_a_page_as_wide_as_a_column_without_title_and_embed_their_font(charts, system, tmp_path):
    for name, chart in charts.items():
        if not name.startswith(f"{system}."):
            continue
        assert ">tiny<" not in theme.printed(chart), name
        theme.save(chart, {"pdf": str(tmp_path / "x.pdf")})
        pdf = (tmp_path / "x.pdf").read_bytes()
        assert len(re.findall(rb"/Type ?/Page\b", pdf)) == 1, name
        assert float(re.search(rb"MediaBox ?\[ ?0 0 ([\d.]+) ", pdf)[1]) == pytest.approx(3.5 * 72, abs=0.1), name
        assert set(re.findall(rb"/BaseFont /([\w+-]+)", pdf)) == set(re.findall(rb"/FontName /([\w+-]+)", pdf)), name
        assert {font.partition(b"+")[2] for font in re.findall(rb"/FontName /([\w+-]+)", pdf)} == {b"Tinos"}, name
        assert b"/FontFile" in pdf, name


def test_text_for_print_is_of_8_points_where_a_figure_has_one_view(charts):
    svg = theme.printed(charts["multicell.objective"])
    width = float(re.search(r'viewBox="0 0 ([\d.]+) ', svg)[1])
    sizes = [float(size) * theme.COLUMN / width for size in re.findall(r'font-size="([\d.]+)px"', svg)]
    assert sizes == pytest.approx([8.0] * len(sizes), abs=0.3)


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_built_in_schemes_have_the_colours_of_the_catalog_unless_another_one_of_the_study_has_them(system):
    pairs = registry.system(system).catalog.colours
    schemes = [(f"{scheduler} {noise}", scheduler, noise) for scheduler, noise in pairs]
    assert all(theme.scheme_colours(system, [each]) == {each[0]: pairs[each[1:]]} for each in schemes)
    together = theme.scheme_colours(system, schemes)
    assert theme.scheme_colours(system, reversed(schemes)) == together
    colours = [colour for colour in together.values() if colour != theme.BARE]
    assert len(set(colours)) == min(len(colours), len(theme.PALETTE))


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_schemes_without_noise_are_grey_and_no_others(system):
    pairs = registry.system(system).catalog.colours
    schemes = [("own", "own.py:f", "own.py:g"), ("bare", "own.py:f", "none")]
    schemes += [(f"{scheduler} {noise}", scheduler, noise) for scheduler, noise in pairs]
    colours = theme.scheme_colours(system, schemes)
    bare = [name for name, _, noise in schemes if noise == "none"]
    assert bare == [name for name, colour in colours.items() if colour == theme.BARE]


def test_schemes_of_ones_own_get_what_is_free_whatever_the_order():
    schemes = [(name, "random", f"{name}.py:f") for name in "cab"] + [("RndSched", "random", "random")]
    colours = theme.scheme_colours("multicell", schemes)
    assert theme.scheme_colours("multicell", sorted(schemes)) == colours
    assert len(set(colours.values())) == len(colours)
    twice = [("one", "random", "random"), ("other", "random", "random")]
    assert len(set(theme.scheme_colours("multicell", twice).values())) == 2


def test_an_axis_of_percent_has_no_label_twice():
    data = pl.DataFrame({"x": [0.0, 1.0], "y": [0.960, 0.978]})
    axis = alt.Axis(format=COMMON_OUTCOMES["accuracy"].format)
    chart = alt.Chart(data).mark_point().encode(x="x:Q", y=alt.Y("y:Q", axis=axis, scale=alt.Scale(zero=False)))
    labels = re.findall(r">([\d.]+%)<", vl_convert.vegalite_to_svg(chart.to_dict()))
    assert len(labels) == len(set(labels)) > 3


def test_charts_are_held_to_the_schema_but_in_jobs_which_write_the_same(charts):
    with drawing.unchecked():
        wrong = alt.Chart(pl.DataFrame({"x": [1]})).mark_point(strokeDash="dotted")
        assert drawing.specified(wrong)["mark"]["strokeDash"] == "dotted"
    with pytest.raises(schemapi.SchemaValidationError, match="dotted"):
        drawing.specified(wrong)
    for chart in charts.values():
        checked = drawing.specified(chart)
        with drawing.unchecked():
            assert drawing.specified(chart) == checked


def test_a_figure_has_the_same_bytes_whatever_was_drawn_before_it(tmp_path):
    """Vega counts the gradients of legends through all charts of a process."""
    rows = pl.DataFrame({"x": [1, 2], "shade": [0.1, 0.9]})
    chart = alt.Chart(rows).mark_rect().encode(x="x:O", color="shade:Q")
    paths = [tmp_path / name for name in ("one.svg", "two.svg")]
    for path in paths:
        theme.save(chart, {"svg": str(path)})
    one, two = (path.read_text() for path in paths)
    assert one == two
    assert 'id="gradient_1"' in one
    assert "url(#gradient_1)" in one


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_every_parameter_has_a_title_in_words(system):
    for path, _ in fields.parameters(registry.system(system).model):
        title = parameters.title(system, ".".join(path))
        assert 2 < len(title) <= parameters.LONGEST, title
        assert not re.search(r"[`(),;:]|\b(epsilon|gamma)\b", title), title
        assert title[0] == title[0].upper() or not title[0].isascii(), title
    assert parameters.title(system, "own.schedule.beta") == "β"


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_the_json_of_a_figure_is_what_a_browser_reads(tmp_path, value):
    rows = pl.DataFrame({"a": [1.0, value], "b": [0.123456789, 2.0]})
    chart = alt.Chart(rows).mark_point().encode(x="a:Q", y="b:Q")
    theme.save(chart, {"json": tmp_path / "x.json"})

    def refuse(text):
        raise AssertionError(text)

    spec = json.loads((tmp_path / "x.json").read_text(), parse_constant=refuse)
    (found,) = spec["datasets"].values()
    assert found == [{"a": 1.0, "b": 0.123457}, {"a": None, "b": 2.0}]


def test_no_label_of_an_axis_is_cut():
    names = [f"scheme {k} {'of a long name ' * 4}" for k in range(45)]
    chart = alt.Chart(pl.DataFrame({"scheme": names, "value": range(45)})).mark_point()
    drawn = vl_convert.vegalite_to_svg(chart.encode(x="value:Q", y=alt.Y("scheme:N")).to_dict(), theme.VEGA_LITE)
    assert "…" not in drawn
    assert all(f">{name.strip()}" in drawn for name in names)
