"""docs/how-to/channels.md: its example runs as written, and what it says of columns and messages is so."""

import re

import polars as pl
import pytest
import yaml

import pwfl
from conftest import ROOT
from pwfl.scenario import ScenarioError, check_surroundings, load, read
from pwfl.systems.multicell import imported
from pwfl.systems.multicell.imported import KEYS, NEEDED, OPTIONAL

PAGE = (ROOT / "docs/how-to/channels.md").read_text(encoding="utf-8")
LINKS, USERS = imported.LINKS, imported.USERS


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


def rows(head: str) -> list[list[str]]:
    """The rows of the page's table whose first head this is."""
    (body,) = re.findall(rf"^\| {head} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the page's files."""
    monkeypatch.chdir(tmp_path)
    for name, text in zip(("links.csv", "users.csv"), blocks("csv"), strict=True):
        (tmp_path / name).write_text(text)
    (tmp_path / "study.yaml").write_text(blocks("yaml")[0])
    return tmp_path


def test_the_example_comes_out_as_the_page_says(folder):
    found = pwfl.simulate("study.yaml").comparison["summary"]
    head, *lines = [line.strip("│").split("┆") for line in blocks("text")[0].splitlines() if line.startswith("│")]
    columns = [name.strip() for name in head]
    (command,) = re.findall(r"^pwfl tables .*$", PAGE.replace("\\\n", ""), flags=re.MULTILINE)
    assert command.split()[2:] == ["results/outside", "summary", *columns]
    assert len(lines) == len(found) == 2
    for line, row in zip(lines, found.select(columns).iter_rows(named=True), strict=True):
        said = dict(zip(columns, map(str.strip, line), strict=True))
        assert said["scheme"] == row["scheme"]
        assert float(said["scheduled_samples_mean"]) == row["scheduled_samples_mean"]
        assert float(said["accuracy_mean"]) == pytest.approx(row["accuracy_mean"], abs=0.003)  # two test images
        assert float(said["epsilon_mean"]) == pytest.approx(row["epsilon_mean"], rel=1e-5)


def test_users_have_the_records_and_positions_of_the_second_file(folder):
    config, more = map(yaml.safe_load, blocks("yaml"))
    config["base"] |= more["base"] | {"training_realizations": 1}
    check_surroundings(load(config, "study.yaml"))
    users = pwfl.simulate(config).scenarios["measured"].stages["users"]
    given = pl.read_csv("users.csv")
    assert users.select(given.columns).equals(given.cast({"x_m": pl.Float64, "y_m": pl.Float64}))


@pytest.mark.parametrize(("head", "table"), [("`channel.links`", LINKS), ("`channel.users`", USERS)])
def test_the_columns_are_those_that_are_read(head, table):
    said = {name: kind.split()[0] for names, kind in rows(head) for name in re.findall(r"`(\w+)`", names)}
    needed = {name for name in (*KEYS[table], *NEEDED[table]) if name != imported.INTERVAL}
    assert set(said) == {*KEYS[table], *NEEDED[table], *OPTIONAL[table]}
    assert {name for name, kind in said.items() if kind.startswith("required")} == needed


def gains(links: pl.DataFrame, row: int, gain: float) -> pl.DataFrame:
    return links.with_columns(gain=pl.when(pl.int_range(pl.len()) == row).then(gain).otherwise("gain"))


def intervals(links: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([links.with_columns(interval=pl.lit(k)) for k in range(2)])


# What is wrong where the page's messages are said: of the links, of the config's base.
MISTAKES = {
    "a power gain as a ratio, not in dB": (lambda f: gains(f, 0, -94.0), {}),
    "column 'gain' is missing": (lambda f: f.rename({"gain": "gain_db"}), {}),
    "column 'delay_s' is unknown": (lambda f: f.with_columns(delay_s=1e-6), {}),
    "has no row for realization 1, station 1, user 3": (lambda f: f.head(-1), {}),
    "appears twice": (lambda f: pl.concat([f, f.head(1)]), {}),
    "does not fit links.csv: must be 4": (None, {"network": {"users": 5}}),
    "3 exceeds the 2 of links.csv": (None, {"realizations": 3}),
    "must be 15, as it has 2 coherence intervals": (intervals, {}),
    "has several positions": (lambda f: f.with_columns(station_x_m=1.0 * pl.col("user"), station_y_m=0.0), {}),
}


def test_every_message_of_the_page_is_tried():
    assert [row[0].strip("`") for row in rows("Message")] == list(MISTAKES)


@pytest.mark.parametrize("message", MISTAKES)
def test_the_message_is_said(folder, message):
    edit, base = MISTAKES[message]
    if edit is not None:
        edit(pl.read_csv("links.csv")).write_csv("links.csv")
    config = read(["study.yaml"])
    config["base"] |= base
    with pytest.raises(ScenarioError, match=re.escape(message)):
        check_surroundings(load(config, "study.yaml"))


def test_a_gain_of_zero_is_refused_and_one_of_no_path_is_not(folder):
    links = pl.read_csv("links.csv")
    gains(links, 3, 1e-20).write_csv("links.csv")
    check_surroundings(load(read(["study.yaml"]), "study.yaml"))
    gains(links, 3, 0.0).write_csv("links.csv")
    with pytest.raises(ScenarioError, match=r"row 4: column 'gain': 0\.0 is wrong"):
        check_surroundings(load(read(["study.yaml"]), "study.yaml"))
