"""What every figure owes who looks at it: titles that say of how many, tooltips in words, nothing hidden; print."""

import json
import re
from collections import Counter

import altair as alt
import numpy as np
import polars as pl
import pytest
import vl_convert

import pwfl
from conftest import TINY, in_turn
from pipeline import run
from pwfl import registry
from pwfl.report import build, differences, finding, parameters, results, sweep_figures, sweeps, systems, theme
from pwfl.report.catalog import COMMON_OUTCOMES, scenario_figures
from pwfl.scenario import fields, load, resolve
from pwfl.scenario.sweep import Point
from pwfl.systems.multicell import hexagons
from pwfl.systems.multicell.report import CELL_COLOURS, cell_colours

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


WITH_MARKS = ("utility_fair.energy", "utility_fair.utility")  # their legends show marks, not the regression lines


def views(node: dict) -> list[dict]:
    """The views of a specification that have a mark."""
    parts = [part for key in ("hconcat", "vconcat", "concat", "layer") for part in node.get(key, [])]
    parts += [node["spec"]] if "spec" in node else []
    return [node] * ("mark" in node and "encoding" in node) + [view for part in parts for view in views(part)]


@pytest.mark.slow
def test_titles_say_of_what_scenario_and_how_many_and_tooltips_are_in_words(drawn):
    for name, spec in drawn.items():
        title = spec["title"]
        assert title["text"], name
        assert title["subtitle"][0] == "tiny", name
        assert COUNTED.search(" ".join([title["text"], *title["subtitle"]])), (name, title)
        tips = [tip for view in views(spec) for tip in view["encoding"].get("tooltip", [])]
        assert all(tip.get("title") for tip in tips), (name, tips)
        assert not any("_" in tip["title"] for tip in tips), (name, tips)


def test_legends_of_lines_show_lines(drawn):
    lines = 0
    for name, spec in drawn.items():
        for view in views(spec):
            legend = view["encoding"].get("color", {}).get("legend")
            if view["mark"]["type"] == "line" and legend is not None and name not in WITH_MARKS:
                assert legend.get("symbolType") == "stroke", name
                lines += 1
    assert lines > 20


def test_no_axis_counts_half_devices(drawn):
    for view in views(drawn["anonymous_oac.failures"]):
        axis = view["encoding"]["x"]["axis"]
        assert axis["format"] == "d"
        assert axis["values"] == [int(value) for value in axis["values"]] != []


def test_bands_end_where_values_do():
    frame = pl.DataFrame({"v_mean": [0.1, 0.98], "v_low": [-0.2, 0.9], "v_high": [0.4, 1.1]})
    assert theme.within(frame, "v", 0.0, 1.0).rows() == [(0.1, 0.0, 0.4), (0.98, 0.9, 1.0)]


def test_a_squeezed_scheme_asks_for_a_logarithmic_axis():
    values = [0.1 + step * k for step in (0.1, 0.001) for k in range(100)]
    frame = pl.DataFrame({"scheme": ["a"] * 100 + ["b"] * 100, "v": values, "realization": 0})
    assert theme.is_squeezed(frame, "v")
    assert not theme.is_squeezed(frame.filter(scheme="a"), "v")
    assert not theme.is_squeezed(frame.with_columns(v=pl.col("v") - 0.1), "v")  # no logarithm of 0


def test_a_scheme_looks_the_same_in_all_figures_of_a_study():
    first, second = (resolve({}, TINY["base"]) for _ in range(2))
    own = theme.scheme_looks(first)
    assert len({str(look) for look in own.values()}) == len(own)
    assert len({str(look.dash) for look in own.values()}) == len(own)  # so no line hides another one
    assert len({look.shape for look in own.values()}) == len(own)
    schemes = [("RndSched", "random", "target"), *((s.name, s.scheduler, s.noise) for s in second.schemes)]
    with theme.of_study("multicell", schemes):
        looks = theme.scheme_looks(second)
        scale = theme.scheme_colour(second)[0]["scale"].to_dict()
    assert looks["RndSched"] == theme.looks("multicell", schemes[:1])["RndSched"] != own["RndSched"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        name: look.colour for name, look in looks.items()
    }
    assert theme.scheme_looks(second) == own


def test_ringed_points_close_to_each_other_share_a_label_that_says_what_it_is_of():
    places, names = [0.0, 0.5, 0.505, 1.0], ["s,1", "s,2", "s,3", "s,4"]
    columns = {"swept": [1.0, 2.0, 5.5, 7.0], "x_mean": places, "y_mean": places, "best": [True] * 3 + [False]}
    frame = pl.DataFrame(columns | {"scenario": names, "sweep_of": "s"})

    def labels(frame: pl.DataFrame, several: bool = False) -> list[str]:
        return sweep_figures._labels(frame, "swept", "schedule.gamma", several)[0].to_list()

    assert labels(frame) == ["γ = 1", "2; 5.5", None, None]
    assert labels(frame, several=True) == ["s, 1", "s, 2; s, 5.5", None, None]
    apart = frame.with_columns(y_mean=pl.Series([0.0, 0.5, 0.6, 1.0]))
    assert labels(apart) == ["γ = 1", "2", "5.5", None]
    assert sweep_figures._labels(apart, "swept", "gamma", False)[1].to_list() == [1, 0, 1, None]
    decades = frame.with_columns(pl.Series("x_mean", [1.0, 1e3, 2.5e3, 1e4]))  # 0.1 of a logarithmic axis
    assert labels(decades) == ["γ = 1", "2", "5.5", None]


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


def test_cells_have_colours_that_no_scheme_has(drawn):
    assert not set(CELL_COLOURS) & {*theme.PALETTE, *registry.system("multicell").catalog.colours.values()}
    spec = json.dumps(drawn["multicell.topology"])
    assert all(colour in spec for colour in CELL_COLOURS)
    assert "Scheduled by" in spec


@pytest.mark.parametrize("rings", [1, 2, 5])
def test_cells_that_touch_have_different_colours(rings):
    radius = 500.0
    station = hexagons.stations(rings, radius)
    colours = np.array(cell_colours(station, radius))
    distance = np.linalg.norm(station[:, None] - station, axis=-1)
    touching = (distance > 0) & (distance < 1.1 * np.sqrt(3) * radius)
    assert touching.sum(axis=1).max() == 6
    assert not (touching & (colours[:, None] == colours)).any()


def test_an_empty_figure_is_a_line_that_says_why():
    spec = theme.empty("no test is defined", "Audit").to_dict()
    assert "no test is defined" in json.dumps(spec["datasets"])
    assert spec["height"] < 50


def test_the_audit_says_what_failed_and_what_is_seen():
    passed = {"scheme": "s", "observer": "o" * 20 + " " + "p" * 20, "test": "noise", "status": "passed"}
    numbers = {"draws": 9, "stated": 1.0, "measured": 1.05, "low": 0.9, "high": 1.1, "detectable": 0.0123}
    rows = [passed | numbers | {"detects": "noise 1.2% too low", "false_alarm": 1e-6, "power": 0.99}]
    rows.append(rows[0] | {"scheme": "t", "measured": 1.0, "detectable": 0.04, "detects": "noise 4% too low"})
    rows.append(rows[0] | {"scheme": "t", "test": "signal of one and of others", "status": "failed", "measured": 2.0})
    spec = results.audit(None, {"audit": pl.DataFrame(rows)}).to_dict()
    lines, drawn = sorted(spec["datasets"].values(), key=len)
    assert [row["place"] for row in drawn] == pytest.approx([0.5, 0.0, results.BEYOND])
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
    svg = theme.printed(charts["multicell.tradeoff"])
    width = float(re.search(r'viewBox="0 0 ([\d.]+) ', svg)[1])
    sizes = [float(size) * theme.COLUMN / width for size in re.findall(r'font-size="([\d.]+)px"', svg)]
    assert sizes == pytest.approx([8.0] * len(sizes), abs=0.3)


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_a_built_in_scheme_looks_the_same_whatever_is_beside_it(system):
    pairs = registry.system(system).catalog.colours
    schemes = [(f"{scheduler} {noise}", scheduler, noise) for scheduler, noise in pairs]
    together = theme.looks(system, schemes)
    assert theme.looks(system, reversed(schemes)) == together
    assert all(theme.looks(system, [scheme]) == {scheme[0]: together[scheme[0]]} for scheme in schemes)
    for part in ("dash", "shape"):  # where colours are alike
        seen = [(look.colour, str(getattr(look, part))) for look in together.values()]
        assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_schemes_without_noise_are_grey_and_no_others(system):
    pairs = registry.system(system).catalog.colours
    schemes = [("own", "own.py:f", "own.py:g"), ("bare", "own.py:f", "none")]
    schemes += [(f"{scheduler} {noise}", scheduler, noise) for scheduler, noise in pairs]
    looks = theme.looks(system, schemes)
    assert [name for name, _, noise in schemes if noise == "none"] == [
        name for name, look in looks.items() if look.colour == theme.BARE
    ]


def test_schemes_of_ones_own_get_what_is_free_whatever_the_order():
    schemes = [(name, "random", f"{name}.py:f") for name in "cab"] + [("RndSched", "random", "random")]
    looks = theme.looks("multicell", schemes)
    assert theme.looks("multicell", sorted(schemes)) == looks
    for part in theme.Look._fields:
        assert len({str(getattr(look, part)) for look in looks.values()}) == len(looks)
    twice = [("one", "random", "random"), ("other", "random", "random")]
    assert len(set(map(str, theme.looks("multicell", twice).values()))) == 2


def compared(config: dict) -> dict[str, dict]:
    """The scenarios of a config, simulated, as `build.compare` takes them."""
    simulated, study = pwfl.simulate(config).scenarios, load(config, "study.yaml")
    contents = {name: {"scenario": chosen.part(None)} for name, chosen in study.scenarios.items()}
    return {name: own | {"point": study.point(name)} | simulated[name].report for name, own in contents.items()}


def test_sweeps_of_several_scenarios_are_told_apart_by_shapes():
    sweep = {"schedule.gamma": [3.0, 300.0]}
    few = TINY["base"] | {"realizations": 2, "training_realizations": 2}
    config = {"base": few, "scenarios": {"b": {"sweep": sweep}, "a": {"sweep": sweep, "training": {"rounds": 2}}}}
    contents = compared(config)
    for figure in ("plane", "outcomes"):
        spec = build.comparison_figure("multicell", figure, contents).to_dict()
        encoded = [one for view in views(spec) if "field" in (one := view["encoding"].get("shape", {}))]
        assert encoded
        assert all((one["field"], one["sort"]) == ("sweep_of", ["b", "a"]) for one in encoded)
    schemes = [scheme.name for scheme in contents["b,gamma=3"]["scenario"].schemes]
    panels = build.comparison_figure("multicell", "rounds", contents).to_dict()["facet"]["sort"]
    assert panels == [f"{scenario}, {scheme}" for scenario in ("b", "a") for scheme in schemes]
    alone = {name: content for name, content in contents.items() if name.startswith("b")}
    assert build.comparison_figure("multicell", "rounds", alone).to_dict()["facet"]["sort"] == schemes


def test_a_study_that_is_swept_in_part_is_in_one_figure_and_what_is_left_out_is_named():
    few = {"realizations": 2, "training_realizations": 2}
    config = {"base": TINY["base"] | few, "scenarios": {"a": {}, "b": {"sweep": {"schedule.gamma": [3, 4]}}}}
    contents = compared(config)

    def drawn(system: str, figure: str) -> tuple[list[dict], str]:
        spec = build.comparison_figure(system, figure, contents).to_dict()
        rows = [
            view | {"rows": spec["datasets"][(view.get("data") or spec["data"])["name"]]}
            for view in (spec["layer"] if figure == "tradeoff" else ())
        ]
        return rows, " ".join(spec["title"]["subtitle"])

    layers, subtitle = drawn("systems", "tradeoff")
    rows = {view["mark"]["type"]: view["rows"] for view in layers if view["mark"]["type"] in ("point", "line", "text")}
    schemes = [scheme.name for scheme in contents["a"]["scenario"].schemes]
    assert Counter(row["scenario"] for row in rows["point"]) == dict.fromkeys(contents, len(schemes))
    assert {row["sweep_of"] for row in rows["line"]} == {"b"}
    named = [f"multicell (a), {scheme}" for scheme in schemes] + [f"multicell (b), {s}, 2 points" for s in schemes]
    assert sorted(row["label"] for row in rows["text"]) == sorted(named)
    assert "line: the points of a sweep of γ (3.0, 4.0): b" in subtitle
    each = contents["b,gamma=4"]["realizations"]
    lost = pl.when(scheme=schemes[0]).then(np.inf).otherwise("epsilon_server").alias("epsilon_server")
    contents["b,gamma=4"]["realizations"] = each.with_columns(lost)
    _, subtitle = drawn("systems", "tradeoff")
    assert f"infinite epsilon against its own server: multicell (b, 1 of 2 points), {schemes[0]}" in subtitle
    for system, figure in (("systems", "epsilon"), ("multicell", "outcomes")):
        assert "not here, as they are not swept: a" in drawn(system, figure)[1]
    assert "not here, as they are swept: b" in drawn("multicell", "rounds")[1]


@pytest.mark.parametrize(
    ("values", "alike"),
    [([1.38783, 1.38783 + 1e-9], True), ([1.0, 1.01], False), ([2, 2], True), ([np.inf, 1.0, None], True), ([], False)],
)
def test_an_axis_does_not_show_last_digits_of_one_value(values, alike):
    assert theme.alike(pl.Series(values, strict=False)) is alike


def at_one_epsilon(contents: dict[str, dict]) -> dict[str, dict]:
    """The same, of which all points have epsilon 4, but those without noise."""
    found = {}
    for name, content in contents.items():
        columns = [pl.when(pl.col(key).is_finite()).then(4.0).otherwise(key).alias(key) for key in EPSILONS]
        found[name] = content | {"realizations": content["realizations"].with_columns(columns)}
    return found


EPSILONS = ("epsilon", "epsilon_server")


def test_points_that_have_one_epsilon_have_a_row_each_and_others_do_not():
    few = {"realizations": 2, "training_realizations": 2}
    config = {"base": TINY["base"] | few, "scenarios": {"a": {}, "b": {"sweep": {"schedule.gamma": [3, 4]}}}}
    contents = compared(config)
    assert all("y" in view["encoding"] and "point" not in str(view["encoding"]["y"]) for view in planes(contents))
    alike = at_one_epsilon(contents)
    dots = [view for view in planes(alike) if view["mark"]["type"] == "point"]
    assert [view["encoding"]["y"]["field"] for view in dots] == ["point"]
    spec = build.comparison_figure("multicell", "plane", alike).to_dict()
    assert "delta = 1e-05: 4" in spec["title"]["subtitle"][0]
    [rows] = [held for held in spec["datasets"].values() if "scheme" in held[0]]
    accuracy = [row["y_mean"] for row in rows]
    assert accuracy == sorted(accuracy, reverse=True)
    schemes = [scheme.name for scheme in contents["a"]["scenario"].schemes]
    assert {row["point"] for row in rows} == {f"{name.replace(',', ', ')}, {s}" for name in contents for s in schemes}


def planes(contents: dict[str, dict]) -> list[dict]:
    """The marks of points and intervals of the first plane."""
    drawn = views(build.comparison_figure("multicell", "plane", contents).to_dict())
    return [view for view in drawn if view["mark"]["type"] in ("point", "rule") and "y" in view["encoding"]]


def test_each_observer_has_a_panel_where_observers_are_swept():
    few = {"realizations": 2, "training_realizations": 2}
    sweep = {"privacy.target_epsilon": [2.0, 4.0], "privacy.observer": ["user", "network"]}
    scheme = {"name": "Target", "scheduler": "random", "noise": "target"}
    own = {"sweep": sweep, "schemes": [scheme]}
    contents = compared({"base": TINY["base"] | few, "scenarios": {"swept": own}})
    spec = build.comparison_figure("systems", "epsilon", contents).to_dict()
    assert spec["facet"]["column"]["sort"] == ["user", "network"]
    [rows] = [held for held in spec["datasets"].values() if "scheme" in held[0]]
    assert sorted((row["panel"], round(row["mean_epsilon"])) for row in rows) == [
        *(("network", 2), ("network", 4)),
        *(("user", 2), ("user", 4)),
    ]
    said = " ".join(spec["title"]["subtitle"])
    assert "observer network of multicell (Target): sees the sum of all noisy gradients" in said
    assert "observer user of multicell (Target): sees each scheduled user's noisy gradient" in said


def plane(contents: dict[str, dict]) -> tuple[list[dict], list[dict], dict[str, dict]]:
    """The points of the first plane, the names of its levels, and its encodings by channel."""
    spec = build.comparison_figure("multicell", "plane", contents).to_dict()
    drawn = views(spec) if "layer" in spec else []
    rows = [spec["datasets"][(view.get("data") or spec["data"])["name"]] for view in drawn]
    named = [view["encoding"].get("text", {}).get("field") == "text" for view in drawn]
    levels = [held for held, is_named in zip(rows, named, strict=True) if is_named and "level" not in held[0]]
    channels = {name: one for view in drawn for name, one in view["encoding"].items()}
    return (rows[0] if rows else []), (levels[0] if levels else []), channels


def test_a_plane_has_all_scenarios_once_and_schemes_without_noise_as_levels():
    few = {"realizations": 2, "training_realizations": 2}
    config = {"base": TINY["base"] | few, "scenarios": {"a": {}, "b": {"sweep": {"schedule.gamma": [3, 4]}}}}
    contents = compared(config)
    rows, levels, channels = plane(contents)
    assert {row["scenario"] for row in rows} == set(contents)
    assert channels["shape"]["field"] == "sweep_of"
    assert not levels
    assert 1 < len(build.choices("multicell", "plane", contents)) < 7  # entries of a menu
    many = {f"a{k}": contents["a"] | {"point": Point(f"a{k}", {"schedule.gamma": 1.0 + k})} for k in range(9)}
    assert plane(many)[2]["shape"]["field"] in ("shape", "scheme")
    same = contents | {"again": contents["b,gamma=3"] | {"point": Point("again", {})}}
    assert {row["scenario"] for row in plane(same)[0]} == set(contents)  # it is that point
    for figure in ("plane", "differences"):
        subtitles = [
            " ".join(build.comparison_figure("multicell", figure, study).to_dict()["title"]["subtitle"])
            for study in (contents, same)
        ]
        said = "drawn once, as they have the same parameters: again and b,gamma=3"
        assert [said in subtitle for subtitle in subtitles] == [False, True], figure

    class Bare:
        system, schemes = (
            "multicell",
            tuple(
                type("Scheme", (), {"name": scheme.name, "scheduler": scheme.scheduler, "noise": noise})
                for scheme, noise in zip(contents["a"]["scenario"].schemes, ("none", "random", "optimal"), strict=True)
            ),
        )

    lost = pl.col("scheme") == Bare.schemes[0].name
    for value in (np.inf, None):
        each = contents["a"]["realizations"]
        epsilons = [pl.when(lost).then(value).otherwise(name).alias(name) for name in ("epsilon", "epsilon_server")]
        bare = {"a": contents["a"] | {"scenario": Bare, "realizations": each.with_columns(epsilons)}}
        rows, [level], _ = plane(bare)
        assert {row["scheme"] for row in rows} == {scheme.name for scheme in Bare.schemes[1:]}
        assert level["text"] == "without noise"
        assert level["y_mean"] == pytest.approx(each.filter(lost)["accuracy"].mean())
        table = sweeps.outcomes(bare)
        assert Bare.schemes[0].name not in sweeps.front(table)["scheme"]
        tables = {"outcomes": table, "front": sweeps.front(table), "systems": systems.table(bare)}
        found = finding.points(tables, {"a": [Bare.schemes[0].name]}, {"a": "A title"})
        said = finding.sentences(found, differences.table(bare, table))
        assert sum(f"best non-private baseline: {level['y_mean']:.1%}" in each.lower() for each in said) == 1
        assert found.filter(scheme=Bare.schemes[0].name)["best"].to_list() == [False]


def test_an_axis_of_percent_has_no_label_twice():
    data = pl.DataFrame({"x": [0.0, 1.0], "y": [0.960, 0.978]})
    axis = alt.Axis(format=COMMON_OUTCOMES["accuracy"].format)
    chart = alt.Chart(data).mark_point().encode(x="x:Q", y=alt.Y("y:Q", axis=axis, scale=alt.Scale(zero=False)))
    labels = re.findall(r">([\d.]+%)<", vl_convert.vegalite_to_svg(chart.to_dict()))
    assert len(labels) == len(set(labels)) > 3


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


def test_axes_panels_and_legends_name_swept_parameters_in_words():
    few = {"realizations": 2, "training_realizations": 2}
    grid = {"schedule.gamma": [3.0, 300.0], "training.clip_norm": [0.5, 1.0], "radio.resource_blocks": [1, 2]}
    contents = compared({"base": TINY["base"] | few, "scenarios": {"b": {"sweep": grid}}})
    titles = [parameters.title("multicell", key) for key in grid]
    for figure, shown in (("outcomes", titles), ("rounds", titles[:2])):
        spec = build.comparison_figure("multicell", figure, contents).to_dict()
        spec.pop("title")
        found = [" ".join(title) for title in titles_in(spec)]
        assert set(shown) <= set(found), figure
        assert not any(key in found for key in grid), figure


def titles_in(node) -> list[list[str]]:
    """All titles of several lines in a specification."""
    if isinstance(node, list):
        return [title for part in node for title in titles_in(part)]
    if not isinstance(node, dict):
        return []
    own = [node["title"]] if isinstance(node.get("title"), list) else []
    return own + [title for part in node.values() for title in titles_in(part)]


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_every_parameter_has_a_title_in_words(system):
    for path, field in fields.parameters(registry.system(system).model):
        key, unit = ".".join(path), field.json_schema_extra["unit"]
        title = parameters.title(system, key)
        words, _, rest = title.partition(" (")
        assert rest == (f"{unit}; {key})" if unit else f"{key})")
        assert 2 < len(words) <= parameters.LONGEST, title
        assert not re.search(r"[`(),;:]|\b(epsilon|gamma)\b", words), title
        assert words[0] == words[0].upper() or not words[0].isascii(), title
    assert parameters.title(system, "own.schedule.beta") == "own.schedule.beta"


def test_an_axis_of_words_shows_them_as_they_are():
    """A format of numbers would make NaN of each."""
    words, numbers = (
        sweep_figures._parameter_axis(pl.Series(values), "swept_0", "a").to_dict()["axis"]
        for values in (["user", "cell", None], ["10", "1e6", None])
    )
    assert "format" not in words
    assert numbers["format"] == "~g"


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_the_json_of_a_figure_is_what_a_browser_reads(tmp_path, value):
    rows = pl.DataFrame({"a": [1.0, value], "b": [0.123456789, 2.0]})
    chart = alt.Chart(rows).mark_point().encode(x="a:Q", y="b:Q")
    theme.save(chart, {"json": tmp_path / "x.json"}, {"other": chart})

    def refuse(text):
        raise AssertionError(text)

    spec = json.loads((tmp_path / "x.json").read_text(), parse_constant=refuse)
    for each in (spec, spec["usermeta"]["choices"]["other"]):
        (found,) = each["datasets"].values()
        assert found == [{"a": 1.0, "b": 0.123457}, {"a": None, "b": 2.0}]


def test_no_entry_of_a_legend_and_no_label_of_an_axis_is_cut():
    names = [f"scheme {k} {'of a long name ' * 4}" for k in range(45)]
    chart = alt.Chart(pl.DataFrame({"scheme": names, "value": range(45)})).mark_point()
    colour, *_ = theme.named_colours(dict.fromkeys(names, "#000"), title="a legend's title " * 4)
    chart = chart.encode(x="value:Q", y=alt.Y("scheme:N"), color=colour)
    drawn = vl_convert.vegalite_to_svg(chart.to_dict(), theme.VEGA_LITE)
    assert "…" not in drawn
    assert all(drawn.count(f">{name.strip()}") >= 2 for name in names)
    assert f">{('a legend&#39;s title ' * 4).strip()}" in drawn.replace("'", "&#39;")
    with alt.theme.enable("pwfl_print"):
        printed_one = vl_convert.vegalite_to_svg(chart.to_dict(), theme.VEGA_LITE)
    assert "entries" not in printed_one
