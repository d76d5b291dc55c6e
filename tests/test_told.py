"""Snakemake's own commands, on a finished study: each does what docs/how-to/running.md says, and accidents do nothing."""

import os
import random
import re
import shutil
from base64 import b64encode
from pathlib import Path

import pytest

from conftest import ROOT, SMALL, changed, jobs, missing, planned, session_of, snakemake, workflow
from pwfl.store.items import Store
from pwfl.workflow import parts

PAGE = (ROOT / "docs/how-to/running.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("### Snakemake's commands")[2].partition("\n\nWith a finished study")[0]
ROWS = re.findall(r"^\| `snakemake ?(.*?)` \| (.*) \|$", TABLE, re.MULTILINE)
OF_SCHEDULE = {"schedule", "noise", "train", "account", "audit", "report"}  # the study's system has no `receive`
RUN = {  # command -> the rules that run, one job each
    "": set(),
    "-R schedule": OF_SCHEDULE,
    "-R report": {"report"},
    "-R publish": set(),
    "--forceall": {"channel", *OF_SCHEDULE},
    "--until schedule": set(),
    "-R channel --until noise": {"channel", "schedule", "noise"},
    "-R schedule --omit-from train": {"schedule", "noise", "account", "audit"},
    "schedule_all": set(),
    "train_all -R schedule": {"schedule", "noise", "train"},
    "MARK": set(),
    "-f": set(),
    "-f MARK": {"schedule"},
    "-R MARK": OF_SCHEDULE,
    "--batch publish=1/2": set(),
    "--batch all=1/2": set(),
    "--touch": set(),
}
SAID = {  # command -> what it prints
    "schedule": "snakemake STAGE_all",
    "--rulegraph": 'label = "schedule"',
    "--dag": 'label = "schedule',
    "--summary": r"\.pwfl/small/schedule/1-\w+\.done\t.*\tschedule\tlogs/small/schedule/1-\w+\.log\tok\tno update",
    "--list-rules": r"train_all",
    "--lint": "Congratulations",
}
QUICK = ("", "-R schedule", "-R MARK", "train_all -R schedule", "--forceall", "schedule", "--rulegraph")


def called(folder: Path, command: str, *more: str):
    mark = next((folder / ".pwfl/small/schedule").glob("*.done")).relative_to(folder)
    return snakemake(folder, SMALL, *command.replace("MARK", str(mark)).split(), *more, "--logger", "pwfl")


def test_each_command_of_the_page_is_tried():
    assert [command for command, _ in ROWS] == [*dict.fromkeys(command for command, _ in ROWS)]
    assert len(ROWS) > 10
    assert {command for command, _ in ROWS} <= RUN.keys() | SAID.keys()


def cases(commands):
    return [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in commands]


@pytest.mark.parametrize("command", cases(RUN))
def test_a_command_runs_what_the_page_says(own, command):
    result = called(own, command, *(() if command == "--touch" else ("--dry-run",)))
    found = jobs(result)
    assert found == dict.fromkeys(RUN[command], 1)
    text = result.stdout + result.stderr
    assert text.count("(again, as Snakemake was told)") == len(found)
    is_published = "\npublish " in text
    assert is_published == (command in ("-R schedule", "-R report", "-R publish", "-R MARK", "--forceall"))
    if command not in QUICK:
        assert "Nothing to be done" in called(own, "", "--dry-run").stdout  # a dry run of it changes nothing


@pytest.mark.parametrize("command", cases(SAID))
def test_a_command_prints_what_the_page_says(own, command):
    result = called(own, command)
    assert result.returncode == (command == "schedule")
    assert re.search(SAID[command], result.stdout + result.stderr)
    if command == "--rulegraph":
        boxes = set(re.findall(r'label = "(\w+)"', result.stdout))
        assert boxes == {"all", "publish", "channel", *OF_SCHEDULE}


def items(folder: Path) -> dict[str, tuple]:
    """The stamps and bits of all items of the study."""
    found, root = session_of(folder, SMALL), Store(folder / "store")
    entries = [found.work.entry(item) for item in found.work.items()]
    return {entry["key"]: (root.stamp(entry["key"]), root.bits(entry)[1]) for entry in entries}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "replaced"),
    [
        ("-R schedule", OF_SCHEDULE),
        ("--forceall", {"channel", *OF_SCHEDULE}),
        ("-R channel --until noise", {"channel", "schedule", "noise"}),
        ("-f MARK", {"schedule"}),
        ("-R report", {"report"}),
    ],
)
def test_what_is_told_is_computed_again_with_equal_bits_and_replaces_what_there_was(own, command, replaced):
    before = items(own)
    result = called(own, command)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "with other bits" not in result.stderr
    after = items(own)
    changed_ = {key for key in before if before[key][0] != after[key][0]}
    of_rule = {key: stage if (stage := key.partition("/")[0]) in parts.ORDER else "report" for key in before}
    assert {of_rule[key] for key in changed_} == replaced
    assert changed_ == {key for key in before if of_rule[key] in replaced}
    assert {key: bits for key, (_, bits) in before.items()} == {key: bits for key, (_, bits) in after.items()}
    assert planned(own, SMALL) == {}


@pytest.mark.slow
def test_told_again_in_a_changed_study_the_old_is_replaced_and_the_new_computed(own):
    config = changed(SMALL, "privacy.target_epsilons", [0.4])
    before = items(own)
    workflow(own, config, "-R", "channel")
    after = {key: Store(own / "store").stamp(key) for key in before}
    assert {key.partition("/")[0] for key in before if before[key][0] != after[key]} >= {"channel"}
    assert missing(own, config) == {}
    assert planned(own, config) == {}


# Accidents.


def touched(folder: Path) -> None:
    draw = random.Random(1)
    for path in folder.rglob("*"):
        time = draw.uniform(1e9, 2e9)
        os.utime(path, (time, time), follow_symlinks=False)


ACCIDENTS = {
    ".pwfl deleted": lambda folder: shutil.rmtree(folder / ".pwfl"),
    ".snakemake deleted": lambda folder: shutil.rmtree(folder / ".snakemake"),
    "both deleted": lambda folder: [shutil.rmtree(folder / name) for name in (".pwfl", ".snakemake")],
    "all files touched": touched,
    "logs deleted": lambda folder: shutil.rmtree(folder / "logs"),
}


@pytest.mark.parametrize(
    "accident", [pytest.param(each, marks=() if each.startswith("all") else pytest.mark.slow) for each in ACCIDENTS]
)
def test_after_an_accident_nothing_is_computed(own, accident):
    ACCIDENTS[accident](own)
    assert planned(own, SMALL) == {}


def test_of_a_deleted_store_what_is_told_fails_by_its_name_and_the_rest_stays(own):
    shutil.rmtree(own / "store/channel")
    assert planned(own, SMALL) == {}
    result = called(own, "-R schedule --until schedule")
    assert result.returncode == 1
    assert "was deleted; `--config wanted=store` computes it" in result.stdout + result.stderr
    assert {path.name for path in (own / "store").iterdir()} >= {"schedule", "noise", "train"}


def test_what_a_killed_run_left_incomplete_in_snakemakes_notes_stops_nothing(own):
    notes = own / ".snakemake/incomplete"
    marks = [str(path.relative_to(own)) for path in own.glob(".pwfl/small/*/*.done")]
    assert len(marks) > 5
    for output in (*marks, "results/small/index.html"):
        (notes / b64encode(output.encode()).decode()).touch()
    result = snakemake(own, SMALL)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Nothing to be done" in result.stdout + result.stderr
    assert list(notes.iterdir()) == []
