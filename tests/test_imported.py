"""Channels from outside: what files may hold, what is refused, by what they are addressed, the example."""

import os
import re
import shutil
import sys

import numpy as np
import polars as pl
import pytest
import yaml

import pwfl
import stage_of
from conftest import ROOT, TINY, missing, snakemake
from pipeline import part
from pwfl import tables
from pwfl.scenario import ScenarioError, check_surroundings, checks, load, resolve
from pwfl.scenario.chunks import chunks_of
from pwfl.stages import IMPORTED, REPORT, STAGES
from pwfl.store import addressing
from pwfl.systems.multicell import imported, report
from pwfl.systems.multicell.start_values import StartValueError
from pwfl.workflow import prune
from pwfl.workflow.plan import plan

sys.path.append(str(ROOT / "examples" / "sionna_links"))

import convert

EXAMPLE = ROOT / "examples" / "sionna_links"
LINKS, USERS = "imported_links", "imported_users"
OPTIMAL = [{"name": "OptSched+DP", "scheduler": "optimal", "noise": "optimal"}]
SMALL = TINY["base"] | {
    "realizations": 4,
    "training_realizations": 1,
    "network": {"users": 12},
    "schemes": OPTIMAL,
}


def scenario(links="links.csv", users=None, **sections) -> dict:
    return SMALL | {"channel": {"links": str(links), "users": users and str(users)}} | sections


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder of a study, with a table of 4 realizations, 3 stations, 12 users, and one of these users."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    keys = {"realization": range(4), "station": range(3), "user": range(12)}
    gain = 10 ** rng.uniform(-12, -8, (4, 3, 12))
    tables.to_table(keys, gain=gain).write_csv("links.csv")
    del keys["station"]
    tables.to_table(keys, samples=rng.integers(20, 60, (4, 12))).write_csv("users.csv")
    return tmp_path


def change(path: str, edit) -> None:
    edit(pl.read_csv(path)).write_csv(path)


def error_of(config: dict) -> str:
    with pytest.raises(ScenarioError) as caught:
        check_surroundings(load({"scenarios": {"one": config}}, "study.yaml"))
    return str(caught.value)


# What is refused before any work.


def with_value(frame: pl.DataFrame, row: int, column: str, value) -> pl.DataFrame:
    values = frame[column].to_list()
    values[row] = value
    return frame.with_columns(pl.Series(column, values, strict=False))


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda f: f.rename({"gain": "gain_db"}), "column 'gain' is missing; found realization, station, user, gain_db"),
        (lambda f: f.with_columns(delay_s=1e-6), "column 'delay_s' is unknown; known: realization, interval, station, user, gain"),
        (lambda f: f.clear(), "has no rows"),
        (lambda f: f.with_columns(pl.col("gain").log10() * 10), "row 1: column 'gain': -.* is wrong, must be from 1e-30 to 1: a power"),
        (lambda f: with_value(f, 4, "gain", 0.0), "row 5: column 'gain': 0.0 is wrong, must be from 1e-30 to 1"),
        (lambda f: with_value(f, 4, "gain", float("nan")), "row 5: column 'gain': nan is wrong"),
        (lambda f: with_value(f, 6, "gain", None), "row 7: column 'gain': is empty, must hold numbers"),
        (lambda f: with_value(f.cast({"gain": str}), 6, "gain", "1e-9 W"), "row 7: column 'gain': '1e-9 W' is wrong, must"),
        (lambda f: with_value(f.cast({"user": float}), 2, "user", 1.5), "column 'user': 1.5 is wrong, must hold whole numbers"),
        (lambda f: f.with_columns(pl.col("user") % 2 == 0), "column 'user': .*must hold whole numbers"),
        (lambda f: with_value(f, 8, "station", -1), "row 9: column 'station': -1 is wrong, must be from 0 to 143: stations"),
        (lambda f: with_value(f, 8, "user", 10**6), "row 9: column 'user': 1000000 is wrong, must be from 0 to 143"),
        (lambda f: with_value(f, 13, "user", 0), r"row 13: realization 0, station 1, user 0 appears twice"),
        (lambda f: f.with_columns(pl.col("user") + 1), "has no row for realization 0, station 0, user 0; all combinations"),
        (lambda f: f.head(-1), "has no row for realization 3, station 2, user 11"),
        (lambda f: f.filter(~((pl.col("station") == 1) & (pl.col("realization") == 2))), "row for realization 2, station 1, user 0"),
        (lambda f: f.filter(pl.col("realization") < 3), "realizations: 4 exceeds the 3 of links.csv"),
        (lambda f: f.filter(pl.col("user") < 11), "network.users: 12 does not fit links.csv: must be 11"),
        (lambda f: f.with_columns(station_x_m=1.0), "has only one of the columns 'station_x_m' and 'station_y_m'; give both"),
        (lambda f: f.with_columns(station_x_m=1.0, station_y_m=1e9), "row 1: column 'station_y_m': 1000000000.0 is wrong, must"),
        (lambda f: f.with_columns(station_x_m=0.0, station_y_m=1.0 * pl.col("user")), "realization 0, station 0 has several pos"),
    ],
)  # fmt: skip
def test_links_that_are_not_what_they_should_be_are_named(folder, edit, expected):
    change("links.csv", edit)
    found = error_of(scenario())
    assert named(expected, found), found
    assert "scenarios.one: " in found
    assert "links.csv" in found


HEADS = {  # what stands in a file of links, and what is said of it
    "# by our ray tracer\nrealization,station,user,gain\n0,0,0,1e-9\n": "line 2 has 4 values, but line 1 has 1: '# by our ray "
    "tracer'; line 1 must be the header, which names the columns",
    "realization,station,user,gain\n0,0,0,1e-9\n0,0,1,1e-9,7\n": "line 3 has 5 values, but line 1 has 4: 'realization, ",
    f"realization,station,user,gain\n0,0,{2**63},1e-9\n": "row 1: column 'user': 9223372036854775808 is wrong, must be below",
    f"realization,station,user,gain\n0,0,{2**64},1e-9\n": "row 1: column 'user': .* is wrong, must be below 2^63",
    "realization,station,user,gain\n0,0,u1,1e-9\n": "row 1: column 'user': 'u1' is wrong, must hold whole numbers",
}


@pytest.mark.parametrize("held", HEADS)
def test_what_is_no_table_of_links_is_said_without_a_librarys_advice(folder, held):
    (folder / "links.csv").write_text(held)
    found = error_of(scenario())
    assert named(HEADS[held], found), found
    assert not re.search("truncate|Schema|infer", found)


def named(expected: str, text: str) -> bool:
    """Whether the parts of a message, with .* between them, follow one another in a text."""
    return re.search(".*".join(map(re.escape, expected.split(".*"))), text) is not None


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum([str(k) for k in range(11, -1, -1)]), pl.String])
def test_numbers_may_be_categories_in_parquet(folder, kind):
    links = pl.read_csv("links.csv").reverse()  # codes of categories follow rows, or the declared order
    links.with_columns(pl.col("user", "station").cast(pl.String).cast(kind)).write_parquet("links.parquet")
    plain, found = (imported.run({LINKS: f"links.{suffix}"}) for suffix in ("csv", "parquet"))
    assert found[LINKS].equals(plain[LINKS])
    assert found[USERS].equals(plain[USERS])


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda f: f.rename({"samples": "sample"}), "column 'sample' is unknown; known: realization, user, x_m"),
        (lambda f: with_value(f, 3, "samples", 0), "row 4: column 'samples': 0 is wrong, must be from 1 to 1e+09"),
        (lambda f: with_value(f, 3, "samples", None), "row 4: column 'samples': is empty, must hold whole numbers"),
        (lambda f: with_value(f, 13, "samples", 2000), "realization 1 has 2.* samples, but digits has 1437"),
        (lambda f: f.with_columns(x_m=1.0), "has only one of the columns 'x_m' and 'y_m'; give both or none"),
        (lambda f: f.with_columns(x_m=1.0, y_m=float("nan")), "row 1: column 'y_m': nan is wrong, must be from -1e+07 to"),
        (lambda f: f.with_columns(cell=3), "row 1: column 'cell': 3 is wrong, must be from 0 to 2: a station of links.csv"),
        (lambda f: f.filter(pl.col("user") < 11), "has 11 users, must have 12 as links.csv"),
        (lambda f: f.filter(pl.col("realization") < 2), "has 2 realizations, must have 4 as links.csv"),
        (lambda f: f.slice(1), "has no row for realization 0, user 0"),
    ],
)  # fmt: skip
def test_users_that_are_not_what_they_should_be_are_named(folder, edit, expected):
    change("users.csv", edit)
    found = error_of(scenario(users="users.csv"))
    assert named(f"channel.users: users.csv: .*{expected}", found), found


def test_files_that_are_none_are_named(folder):
    check_surroundings(load({"scenarios": {"one": scenario(users="users.csv")}}, "study.yaml"))
    assert "channel.links: nowhere.csv: cannot be read: No such file" in error_of(scenario("nowhere.csv"))
    assert "channel.users: nowhere.csv: cannot be read: No such file" in error_of(scenario(users="nowhere.csv"))
    (folder / "links.txt").write_text("x")
    assert "links.txt: must be a .parquet or a .csv file" in error_of(scenario("links.txt"))
    (folder / "links.parquet").write_text("x")
    assert "links.parquet: cannot be read: " in error_of(scenario("links.parquet"))
    (folder / "folder.csv").mkdir()
    assert "folder.csv: cannot be read: Is a directory" in error_of(scenario("folder.csv"))
    alone = SMALL | {"channel": {"users": "users.csv"}}
    assert "channel.users: users.csv: requires the gains of its users; set channel.links" in error_of(alone)
    with pytest.raises(OSError, match=r"nowhere.csv: cannot be read"):
        stage_of.addresses(resolve(scenario("nowhere.csv"), {}))


def test_chunks_end_where_the_file_does(folder):
    one = resolve(scenario(realizations=3), {})
    assert [chunks_of(one, stage) for stage in ("channel", "train")] == [["000000-000004"], ["000000-000001"]]
    six = pl.concat(
        [pl.read_csv("links.csv"), pl.read_csv("links.csv").head(72).with_columns(pl.col("realization") + 4)]
    )
    six.write_csv("links.csv")  # two realizations more
    many = resolve(scenario(realizations=6, training_realizations=6), {})
    assert [chunks_of(many, stage)[-1] for stage in ("channel", "train")] == ["000000-000006", "000005-000006"]


def test_laws_that_files_replace_are_not_checked_and_those_that_they_do_not_are(folder):
    law = {"data": {"dataset": "digits", "samples_offset": 500}}
    with pytest.raises(ScenarioError, match=r"data.samples_offset: 12 users would hold at least 6000"):
        resolve(scenario(**law), {})
    assert checks.problems(resolve(scenario(users="users.csv", **law), {})) == []
    change("users.csv", lambda f: f.drop("samples"))
    assert "data.samples_offset: 12 users would hold at least 6000" in error_of(scenario(users="users.csv", **law))


# What comes out.


def channel(config: dict, realizations: range) -> dict[str, pl.DataFrame]:
    model = resolve(config, {})
    made = stage_of.channel(part(model, "channel"), realizations, stage_of.imported("multicell", checks.imports(model)))
    return {name: tables.finished(frame, name, "multicell") for name, frame in made.items()}


def with_intervals(count: int) -> None:
    """The table of links, with as many intervals of other gains."""
    links = pl.read_csv("links.csv")
    each = [links.with_columns(pl.lit(t).alias("interval"), pl.col("gain") / (1 + t)) for t in range(count)]
    pl.concat(each).sample(fraction=1.0, shuffle=True, seed=1).write_csv("moving.csv")


def test_links_may_be_of_intervals(folder):
    with_intervals(2)
    rounds = SMALL["training"]["rounds"]
    config = scenario("moving.csv", radio=SMALL.get("radio", {}) | {"coherence_rounds": rounds // 2})
    assert not checks.problems(resolve(config, {}))
    found, once = channel(config, range(4)), channel(scenario(), range(4))
    assert found["links"]["interval"].unique().sort().to_list() == [0, 1]
    for interval in range(2):
        gain = found["links"].filter(interval=interval)["gain"]
        np.testing.assert_allclose(gain, once["links"]["gain"] / (1 + interval), rtol=1e-12)
    assert found["users"].equals(once["users"])
    values = part(resolve(config, {}), "schedule", "optimal")
    schedule = stage_of.schedule(values, "optimal", found)["schedule"]
    assert schedule["interval"].unique().sort().to_list() == [0, 1]


@pytest.mark.parametrize(
    ("count", "coherence", "said"),
    [
        (
            2,
            None,
            "radio.coherence_rounds: None does not fit moving.csv: must be {half}, as it has 2 coherence intervals",
        ),
        (1, 1, "radio.coherence_rounds: 1 does not fit moving.csv: must be null, as it has no coherence"),
        (5, None, "training.rounds: {rounds} must be a multiple of the 5 coherence intervals of moving.csv"),
    ],
)
def test_intervals_must_fit_the_rounds(folder, count, coherence, said):
    with_intervals(count)
    rounds = SMALL["training"]["rounds"]
    assert rounds % 5
    config = scenario("moving.csv", radio=SMALL.get("radio", {}) | {"coherence_rounds": coherence})
    assert said.format(half=rounds // 2, rounds=rounds) in error_of(config)


def started(config: dict, realizations: range) -> pl.DataFrame:
    """The table `start_values`, beside that of users."""
    found, values = channel(config, realizations), part(resolve(config, {}), "schedule", "random")
    start = stage_of.schedule(values, "random", found)["start_values"]
    return found["users"].join(start, on=["realization", "user"], maintain_order="left")


@pytest.mark.parametrize("users", [None, "users.csv"])
def test_bounds_that_their_users_cannot_meet_are_refused_before_any_job(folder, users):
    small = scenario(users=users)
    strict = small | {"privacy": {"min_noise": 3.5, "max_noise_error": 0.03}}
    target = [{"name": "Target", "scheduler": "random", "noise": "target"}]
    free = strict | {"privacy": strict["privacy"] | {"target_epsilon": 4.0}, "schemes": target}
    for config in (small, free):
        check_surroundings(load({"scenarios": {"one": config}}, "file.yaml"))
        started(config, range(4))
    with pytest.raises(ScenarioError, match=r"privacy\.max_noise_error: (realization 0: all 1000 draws .*)") as refused:
        check_surroundings(load({"scenarios": {"one": strict}}, "file.yaml"))
    with pytest.raises(StartValueError) as failed:
        started(strict, range(4))
    assert str(failed.value) in str(refused.value)


def test_users_belong_to_their_strongest_station(folder):
    links = pl.read_csv("links.csv")
    change("links.csv", lambda f: f.sample(fraction=1.0, shuffle=True, seed=1))  # in whatever order
    found = channel(scenario(), range(4))
    assert found["links"].select("realization", "station", "user", "gain").equals(links)
    best = {}
    for realization, station, user, gain in links.iter_rows():
        if gain > best.get((realization, user), (0.0, None))[0]:
            best[realization, user] = (gain, station)
    for realization, user, cell in found["users"].select("realization", "user", "cell").iter_rows():
        assert cell == best[realization, user][1]
    assert found["users"].select("x_m", "y_m").null_count().row(0) == (48, 48)
    change("links.csv", lambda f: f.with_columns(gain=1e-9))  # of equal gains the first
    assert set(channel(scenario(), range(4))["users"]["cell"]) == {0}


def test_what_users_give_is_taken_and_the_rest_is_drawn(folder):
    drawn, given = started(scenario(), range(4)), started(scenario(users="users.csv"), range(4))
    assert given["samples"].equals(pl.read_csv("users.csv")["samples"])
    # The same draws: powers, and the noise in multiples of Nmin / K.
    assert given["cell"].equals(drawn["cell"])
    product = [(f["samples"] * f["noise_std"]).to_numpy() for f in (drawn, given)]
    same = (given["power_w"] == drawn["power_w"]).to_numpy()
    np.testing.assert_allclose(product[0][same], product[1][same])
    assert same.mean() > 0.2  # where (21) lets both keep the same attempt
    change("users.csv", lambda f: f.with_columns(cell=pl.col("user") % 3, x_m=1.0 * pl.col("user"), y_m=-2.0))
    located = channel(scenario(users="users.csv"), range(4))["users"]
    assert located["cell"].equals(located["user"] % 3)
    assert located["x_m"].equals(located["user"].cast(pl.Float64))
    assert set(located["y_m"]) == {-2.0}


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_the_projects_own_channel_comes_back_from_outside_to_the_bit(folder, suffix):
    own = SMALL | {"network": {"users": 12}}
    drawn = channel(own, range(4))
    links = drawn["links"].select("realization", "station", "user", "gain")
    users = drawn["users"].select("realization", "user", "x_m", "y_m", "cell", "samples")
    for name, frame in (("own_links", links), ("own_users", users)):
        getattr(frame, f"write_{suffix}")(f"{name}.{suffix}")
    back = channel(scenario(f"own_links.{suffix}", f"own_users.{suffix}"), range(4))
    assert back["users"].equals(drawn["users"])
    assert back["links"].select(links.columns).equals(links)
    alone = channel(scenario(f"own_links.{suffix}", f"own_users.{suffix}"), range(2, 4))
    assert all(back[table].filter(pl.col("realization") >= 2).equals(frame) for table, frame in alone.items())
    for name, frame in (("l*", links), ("l2", links.with_columns(gain=1e-9))):  # a `*` in a path is part of a name
        getattr(frame, f"write_{suffix}")(f"{name}.{suffix}")
    assert imported.run({LINKS: f"l*.{suffix}"})[LINKS].select(links.columns).equals(links)
    # With their stations' positions, distances come back, too.
    located = drawn["links"].drop("interval", "distance_m", "line_of_sight")
    getattr(located, f"write_{suffix}")(f"own_links.{suffix}")
    again = channel(scenario(f"own_links.{suffix}", f"own_users.{suffix}"), range(4))["links"]
    assert again.drop("distance_m").equals(drawn["links"].drop("distance_m"))
    np.testing.assert_allclose(again["distance_m"], drawn["links"]["distance_m"], rtol=1e-12)


@pytest.mark.parametrize(("located", "stations"), [(True, True), (True, False), (False, False)])
def test_the_map_shows_what_is_known(folder, located, stations):
    change("users.csv", lambda f: f.with_columns(x_m=10.0 * pl.col("user"), y_m=50.0))
    if stations:
        change("links.csv", lambda f: f.with_columns(station_x_m=20.0 * pl.col("station"), station_y_m=7.0))
    model = resolve(scenario(users="users.csv" if located else None), {})
    found = channel(model.model_dump(), range(2))
    found |= stage_of.schedule(part(model, "schedule", "optimal"), "optimal", found)
    found["schedule"] = found["schedule"].with_columns(scheme=pl.lit("OptSched+DP"))
    chart = str(report.topology(part(model, REPORT), found).to_dict())
    assert "12 users, 3 stations" in chart
    assert ("triangle" in chart) is stations
    assert "corner" not in chart  # of cells
    if stations:
        first = found["links"].row(0, named=True)
        assert first["distance_m"] == pytest.approx(np.hypot(0.0, 43.0))
    assert ("positions of the users are not known" in chart) is not located


# By what it is addressed.


def addresses(config: dict) -> dict[str, str]:
    return {key[0]: found["address"] for key, found in stage_of.addresses(resolve(config, {})).items()}


def test_the_address_is_of_what_files_hold_not_of_where_they_lie(folder):
    plain, before = addresses(SMALL), addresses(scenario(users="users.csv"))
    assert set(before) == {*STAGES, "dataset", "imported"}
    shutil.copy("links.csv", "elsewhere.csv")
    assert addresses(scenario("elsewhere.csv", "users.csv")) == before
    os.utime("links.csv", (0, 0))
    assert addresses(scenario(users="users.csv")) == before
    assert {name for name in plain if plain[name] != before[name]} == set(STAGES)
    without = addresses(scenario())
    change("links.csv", lambda f: with_value(f, 0, "gain", 1e-9))
    after = addresses(scenario(users="users.csv"))
    assert {name for name in before if before[name] != after[name]} == {*STAGES, "imported"}
    assert without["channel"] not in (before["channel"], after["channel"])
    text = str(stage_of.addresses(resolve(scenario(users="users.csv"), {}))["channel", None, None])
    assert "links.csv" not in text


def test_the_item_whose_job_checks_the_files_is_the_one_that_reads_them(folder):
    planned = plan(load({"scenarios": {"one": scenario(users="users.csv")}}, "a test"))
    read = {item.stage: outside for item in planned.items() if (outside := planned.entry(item)["outside"])}
    assert read == {IMPORTED: {LINKS: "links.csv", USERS: "users.csv"}}


def test_a_file_that_changed_after_a_job_was_planned_is_refused(folder):
    description = stage_of.addresses(resolve(scenario(), {}))["imported", None, None]
    addressing.check_contents(description, {LINKS: "links.csv"})
    change("links.csv", lambda f: with_value(f, 0, "gain", 1e-9))
    with pytest.raises(addressing.StoreError, match=r"links.csv: was changed after this job was planned"):
        addressing.check_contents(description, {LINKS: "links.csv"})


def test_nothing_is_pruned_while_a_file_is_missing(folder):
    (folder / "store" / "train" / "0123456789ab").mkdir(parents=True)
    (folder / "study.yaml").write_text(yaml.safe_dump({"scenarios": {"one": scenario("moved.csv")}}))
    with pytest.raises(OSError, match=r"moved.csv: cannot be read: No such file"):
        prune.prune(["study.yaml"], delete=True)


# The example.


def test_the_example_adds_paths_up_and_takes_time_steps_for_realizations(tmp_path):
    with np.load(EXAMPLE / "paths.npz") as saved:
        a, positions = saved["a"], saved["rx_positions"]
    assert a.shape == (12, 1, 3, 1, 4, 6)
    convert.main(*map(str, (EXAMPLE / "paths.npz", tmp_path / "links.parquet", tmp_path / "users.parquet")))
    found = imported.run({LINKS: str(tmp_path / "links.parquet"), USERS: str(tmp_path / "users.parquet")})
    for realization, station, user, gain in found[LINKS].drop("interval", "^station_.*$").iter_rows():
        coefficient = sum(complex(a[user, 0, station, 0, path, realization]) for path in range(4))
        assert gain == pytest.approx(max(abs(coefficient) ** 2, convert.FLOOR), rel=1e-5)
    assert (found[LINKS]["gain"] == convert.FLOOR).sum() == 2 * 6  # two links without a path
    for _, user, x, y in found[USERS].select("realization", "user", "x_m", "y_m").iter_rows():
        assert (x, y) == tuple(positions[user, :2])


@pytest.mark.slow
def test_the_example_runs_in_the_workflow_as_in_simulate(tmp_path, monkeypatch):
    config = yaml.safe_load((EXAMPLE / "study.yaml").read_text())
    config["base"] |= {"training_realizations": 1, "schemes": OPTIMAL, "audit": {"canaries": 50}}
    config["base"] |= {"privacy": {"min_noise": 3.5, "max_noise_error": 0.4}, "schedule": {"gamma": 300.0}}
    del config["scenarios"]["traced_sum"]
    convert.main(*map(str, (EXAMPLE / "paths.npz", tmp_path / "links.parquet", tmp_path / "users.parquet")))
    result = snakemake(tmp_path, config, "--cores", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    monkeypatch.chdir(tmp_path)
    made, left = pwfl.simulate(config), pwfl.results("results/sionna_links")
    for stages in zip(made.scenarios["traced"].stages.items(), left.scenarios["traced"].stages.items(), strict=True):
        (name, one), (other, two) = stages
        assert name == other
        assert one.equals(two), name
    topology = (tmp_path / "results/sionna_links/traced/topology.json").read_text()
    assert "12 users, 3 stations" in topology
    # The same content under another name is checked again, and nothing after it is computed.
    (tmp_path / "links.parquet").rename(tmp_path / "moved.parquet")
    config["base"]["channel"]["links"] = "moved.parquet"
    assert set(missing(tmp_path, config)) <= {"imported", "scenario", "comparison", "page"}
    convert.links(np.load(EXAMPLE / "paths.npz")["a"][..., ::-1]).write_parquet(tmp_path / "moved.parquet")
    assert {"imported", *STAGES} <= set(missing(tmp_path, config))
