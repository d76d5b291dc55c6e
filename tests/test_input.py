"""What users write: config files and --config that YAML takes for something else, names, sizes, two runs at once."""

import codecs
import copy
import gzip
import io
import math
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

import conftest
import stage_of
from conftest import PWFL, ROOT, TINY, environment
from pipeline import part
from pwfl import registry, scenario
from pwfl.scenario import size, written
from pwfl.workflow import reports
from test_bounds import SMALL

FEW = "scenarios: {one: {}}\n"


def refused(function, *arguments) -> str:
    """What is said of what cannot be run."""
    with pytest.raises(scenario.ScenarioError) as caught:
        function(*arguments)
    return str(caught.value)


def ran(*command: str, cwd=ROOT) -> tuple[int, str]:
    """The exit status of a command, and what it says, which is no traceback."""
    result = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment(), check=False)
    assert "Traceback" not in result.stdout + result.stderr
    return result.returncode, result.stdout + result.stderr


MERGED = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [*a, *a], z: 4}"
LAUGHS = "a0: &a0 [lol]\n" + "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 12))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{k}: &a{k} {{<<: [{', '.join([f'*a{k - 1}'] * 9)}]}}\n" for k in range(1, 12))
ODDITIES = [  # a text, and its value
    ("0", 0), ("-7", -7), ("+7", 7), ("1000000", 1000000), ("9" * 100, int("9" * 100)), ("9" * 5000, math.inf),
    ("0.5", 0.5), ("-.5", -0.5), ("1.", 1.0), ("1e5", 1e5), ("1e-5", 1e-5), ("1E+5", 1e5), (".5e2", 50.0), ("1.0e+6", 1e6),
    (".inf", math.inf), ("-.INF", -math.inf), ("1e999", math.inf),
    ("010", "010"), ("-012", "-012"), ("00.5", "00.5"), ("0o10", "0o10"), ("0x10", "0x10"), ("0b11", "0b11"),
    ("1_000", "1_000"), ("1_0.5", "1_0.5"), ("1 000", "1 000"), ("1,5", "1,5"), ("1:30", "1:30"), ("1:30:15.5", "1:30:15.5"),
    ("12:30 pm", "12:30 pm"), ("2026-11-21", "2026-11-21"), ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00Z"),
    ("1e", "1e"), ("e5", "e5"), ("inf", "inf"), ("nan", "nan"), ("'10'", "10"), ('"1e5"', "1e5"), ("1.2.3", "1.2.3"),
    ("true", True), ("False", False), ("TRUE", True), ("yes", "yes"), ("No", "No"), ("on", "on"), ("off", "off"), ("y", "y"),
    ("null", None), ("~", None), ("", None), ("none", "none"), ("=", "="), ("'<<'", "<<"),
    ("{on: 1, 010: 2}", {"on": 1, "010": 2}), (MERGED, {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 2, "z": 4}}),
    ('{\n\t"a": [1e3,\ttrue]\n}', {"a": [1000.0, True]}),
]  # fmt: skip
REFUSED = [  # a text, and what is said of it
    ("a: 1\nb: 2\na: 3", "line 3: is not valid YAML: a: appears twice, first in line 1"),
    ('{"a": {},\n\t"b": 1,\n\t"a": 2}', "line 3: is not valid YAML: a: appears twice, first in line 1"),
    ("a: &a {x: 1}\nb: {<<: *a,\n x: 1, x: 2}", "line 3: is not valid YAML: x: appears twice, first in line 3"),
    ("{[1, 2]: 3}", "line 1: is not valid YAML: keys must be text"),
    ("a: 1\n? {b: 1}\n: 2", "line 2: is not valid YAML: keys must be text"),
    ("a: {b: 1\nc: {}", "line 2: is not valid YAML: expected ',' or '}', but got ':'"),
    ("a:\n\tb: 1", "line 2: is not valid YAML: found character '\\t' that cannot start any token"),
    ("a: 1\n---\nb: 1", "line 2: is not valid YAML: but found another document"),
    ("a: *b", "line 1: is not valid YAML: found undefined alias 'b'"),
    ("a: &a [*a]", "line 1: is not valid YAML: Circular reference detected"),
    ("a: !!python/object/apply:os.getcwd []", "line 1: is not valid YAML: tags (!) are not allowed"),
    ("a: 1\nb: !!int x", "line 2: is not valid YAML: tags (!) are not allowed"),
    ("a: {<<: 1}", "line 1: is not valid YAML: expected a mapping or list of mappings for merging"),
    ("a: 1\nb: \x01", "line 2: is not valid YAML: the character 0x0001 is not allowed"),
    ("[" * 100_000, "line 1: is not valid YAML: maximum recursion depth exceeded"),
    (LAUGHS, "line 1: is not valid YAML: more than 1,000,000 characters once its aliases (*) are expanded"),
    (f"a: &a {'x' * 10_000}\nb: [{1000 * '*a, '}]", "line 1: is not valid YAML: more than 1,000,000 characters"),
]


@pytest.mark.parametrize(("text", "value"), ODDITIES)
def test_yaml_is_what_it_seems(text, value):
    found = written.parse(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=lambda text: text[:20])
def test_what_is_no_yaml_is_said_with_its_line(text, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        written.parse(text)


def test_merges_of_merges_take_no_time():
    assert written.parse(MERGES)["a11"] == {"x": 1}


# What is no UTF-8 text, in every kind of file that users write.


def zipped(text: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("study.yaml", text)
    return buffer.getvalue()


NO_TEXT = {
    "UTF-16": (lambda text: text.encode("utf-16"), "is not UTF-8 text (it is UTF-16); save it as UTF-8"),
    "UTF-16 BE": (lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"), "it is UTF-16"),
    "UTF-16 unmarked": (lambda text: text.encode("utf-16-le"), "it is UTF-16"),
    "UTF-16 BE unmarked": (lambda text: text.encode("utf-16-be"), "it is UTF-16"),
    "UTF-32": (lambda text: text.encode("utf-32"), "is not UTF-8 text (it is UTF-32); save it as UTF-8"),
    "UTF-32 BE unmarked": (lambda text: text.encode("utf-32-be"), "it is UTF-32"),
    "Latin-1": (lambda text: text.encode("latin-1"), "is not UTF-8 text (byte 0xe9, as in Latin-1 or Windows-1252); save it"),
    "gzip": (lambda text: gzip.compress(text.encode()), "is not text, but gzip-compressed; unpack it with gunzip"),
    "zip": (zipped, "is not text, but a ZIP archive, or an Excel workbook; unpack it"),
    "PNG": (lambda _: b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is not text, but a PNG image"),
    "bytes": (lambda _: bytes(range(256)), "is not text, but binary data"),
    "a NUL byte": (lambda text: text.encode() + b"\0", "has a NUL byte, which no text has"),
    "nothing": (lambda _: b"", "is empty"),
    "an escape": (lambda text: b"\x1b[31m" + text.encode(), ""),
}  # fmt: skip
TEXTS = {  # files of each kind that are right
    "study.yaml": "# caf\u00e9\nscenarios: {one: {system: age_aware}}\n",
    "study.json": '{"title": "caf\u00e9", "scenarios": {"one": {"system": "age_aware"}}}',
    "links.csv": "realization,station,user,gain\n"
    + "".join(f"{r},0,{u},1e-9\n" for r in range(4) for u in range(12))
    + "# caf\u00e9,,,\n",
    "own.py": "# caf\u00e9\ndef schedule(scenario, users, links, noise):\n    pass\n",
    "users.csv": "realization,user,samples\n"
    + "".join(f"{r},{u},20\n" for r in range(4) for u in range(12))
    + "# caf\u00e9,,\n",
    "figure.rst": "**Caf\u00e9**\n",
}


FITTING = {  # a scenario that the tables of TEXTS fit
    "realizations": 4,
    "training_realizations": 1,
    "network": {"users": 12},
    "data": {"dataset": "digits", "samples_offset": 10, "samples_log_mean": 2.0},
    "schemes": [{"name": "drawn", "scheduler": "random", "noise": "none"}],
}
KEYS = {
    "links.csv": {"channel": {"links": "links.csv"}},
    "users.csv": {"channel": {"links": "right.csv", "users": "users.csv"}},
    "own.py": {"schemes": [{"name": "own", "scheduler": "own.py:schedule", "noise": "none"}]},
}


def read_text(name: str) -> None:
    """Read a file of TEXTS in the working folder, as a study does."""
    if name == "figure.rst":
        reports.caption_text(Path(name))
    elif name in KEYS:
        base = FITTING | KEYS[name]
        study = scenario.load({"base": base, "scenarios": {"one": {}, "two": {"seed": 2}}}, "study.yaml")
        scenario.check_surroundings(study)
    else:
        scenario.load(scenario.read([name]), name)


def right(name: str) -> str:
    """A file of TEXTS without the comment that its format does not have."""
    return "".join(line for line in TEXTS[name].splitlines(keepends=True) if not line.startswith("# caf\u00e9,"))


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A working folder with a right table of links."""
    monkeypatch.chdir(tmp_path)
    Path("right.csv").write_text(right("links.csv"))
    return tmp_path


@pytest.mark.parametrize("what", NO_TEXT)
@pytest.mark.parametrize("name", TEXTS)
def test_a_file_that_is_no_text_is_called_what_it_is(own_folder, name, what):
    if name == "figure.rst" and what in ("nothing", "an escape"):
        pytest.skip("is a caption")
    encode, expected = NO_TEXT[what]
    if name == "own.py" and what == "nothing":
        expected = "defines no function schedule"
    Path(name).write_bytes(encode(TEXTS[name]))
    said = refused(read_text, name)
    assert f"{name}: " in said
    assert expected in said
    assert all(character.isprintable() or character == "\n" for character in said)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("name", TEXTS)
def test_a_byte_order_mark_of_utf_8_is_no_part_of_a_text(own_folder, name, mark):
    Path(name).write_bytes((mark + right(name)).encode())
    read_text(name)


def test_code_may_declare_another_encoding_as_python_has_it(own_folder):
    Path("own.py").write_bytes(("# -*- coding: latin-1 -*-\n" + TEXTS["own.py"]).encode("latin-1"))
    read_text("own.py")


def test_tests_install_packages_only_where_it_is_asked_for_and_say_so_before(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    assert "PWFL_TEST_APT=no" in ran("make", "--dry-run", "test")[1]
    assert "PWFL_TEST_APT=yes" in ran("make", "--dry-run", "test", "APT=yes")[1]
    assert "PWFL_TEST_APT=yes" in ran("make", "--dry-run", "test", "CI=true")[1]
    monkeypatch.setattr(conftest.shutil, "which", lambda program: program if program == "apt-get" else None)
    monkeypatch.setattr(conftest.os, "geteuid", lambda: 0)
    monkeypatch.setattr(conftest.subprocess, "run", lambda *_, **__: pytest.fail("something was installed"))
    monkeypatch.setenv("PWFL_TEST_APT", "yes")
    assert "will install Debian's slurm-wlm, munge, chromium" in conftest.pytest_report_header()
    for value in ("no", ""):
        monkeypatch.setenv("PWFL_TEST_APT", value)
        assert "are skipped; PWFL_TEST_APT=yes" in conftest.pytest_report_header()
        with pytest.raises(pytest.skip.Exception, match="needs chromium"):
            conftest.need("chromium")


def test_files_that_are_missing_or_no_files_are_named(tmp_path):
    said = refused(scenario.read, [tmp_path / "nowhere.yaml", tmp_path])
    assert f"{tmp_path}/nowhere.yaml: cannot be read: No such file or directory" in said
    assert f"{tmp_path}: cannot be read: Is a directory" in said


def test_later_files_are_merged_over_earlier_ones_as_snakemake_does(tmp_path):
    from snakemake.utils import update_config

    paths, expected = [tmp_path / "1.yaml", tmp_path / "2.yaml"], {}
    paths[0].write_text("base: {seed: 1, radio: {resource_blocks: 3}}\n" + FEW)
    paths[1].write_text("base: {seed: 2}\nscenarios: {two: {seed: 3}}\n")
    for path in paths:
        update_config(expected, yaml.safe_load(path.read_text()))
    assert scenario.read(paths) == expected | {"study": "2"}


SIMPLE = {"scenarios": {"one": {"system": "age_aware"}}}


def test_a_study_without_a_name_has_its_files(tmp_path, monkeypatch):
    for file in ("mine.yaml", "other.json", "two words.yaml"):
        (tmp_path / file).write_text(FEW)
    (tmp_path / "named.yaml").write_text("study: named\n" + FEW)
    monkeypatch.chdir(tmp_path)

    def name(*paths):
        return scenario.read(paths)["study"]

    assert name("mine.yaml") == "mine"
    assert name("mine.yaml", tmp_path / "other.json") == "other"
    assert scenario.load(scenario.read(["named.yaml", "mine.yaml"]), "files").name == "named"
    assert scenario.load(SIMPLE, "a mapping").name == "study"
    said = refused(scenario.read, ["two words.yaml"])
    assert said.startswith(
        "two words.yaml: study: is missing, and this file's name is not a valid one; add `study: NAME`"
    )
    assert scenario.read(["two words.yaml"], {"study": "given"})["study"] == "two words"  # which --config replaces


def load(files: dict, command_line: dict) -> scenario.Study:
    from snakemake.utils import update_config

    config = copy.deepcopy(files)
    update_config(config, command_line)
    return scenario.load(config, "file.yaml", files)


@pytest.mark.parametrize(
    ("command_line", "expected"),
    [
        ({"base": {"radio": {"resource_block": "3"}}}, "base.radio.resource_block: unknown key"),
        ({"base": {"realizations": 1}}, "training_realizations: 3 is more than realizations: 1"),
        ({"base": {"schedule": {"gamma": -5}}}, "base.schedule.gamma: -5.0 is below the minimum"),
        (
            {"base": {"shards": {"training": 1}}},
            "base.shards: is a key of version 1",
        ),
        ({"base": {"system": []}}, "base.system: there is no system []"),
        ({"base": {"seed": "010"}}, "base.seed: '010' is wrong: must be a whole number"),
        ({"base": None}, "base: must be a mapping of parameters, is empty"),
        ({"run": []}, "run: names no scenario; leave it out to run all"),
        ({"run": None}, "run: must be a list of scenario names, is empty"),
        ({"run": ["hgih"]}, "run: there is no scenario 'hgih'; did you mean 'high'?"),
        ({"scenarios": None}, "scenarios: must name at least one scenario"),
        ({"scenarios": {"low": None}}, "scenarios.low: must be a mapping of parameters, is empty; write {}"),
        ({"study": 1.1}, "study: 1.1 is not a valid name"),
        ({"nothing": 1}, "nothing: unknown key"),
    ],
)
def test_a_mistake_on_the_command_line_is_blamed_on_it(command_line, expected):
    message = refused(load, TINY, command_line)
    assert message.startswith("--config: ")
    assert expected in message


def test_a_mistake_in_the_file_is_blamed_on_the_file_whatever_the_command_line_adds():
    files = TINY | {"base": TINY["base"] | {"network": {"users": -1}}}
    message = refused(load, files, {"base": {"seed": -1}})
    assert message.startswith("file.yaml: base.network.users: -1 is below the minimum")
    assert "--config: base.seed: -1 is below the minimum" in message


def test_a_value_of_the_base_that_scenarios_replace_is_warned_of_with_their_names():
    given = {"base": {"schedule": {"gamma": 500}}}
    everywhere = {"scenarios": {"low": {"schedule": {"gamma": 200.0}}}}
    for right in ({}, {"base": {"seed": 4}}, given | {"run": ["low"]}):
        assert load(TINY, right).warnings == ()
    [of_given], [of_all] = load(TINY, given).warnings, load(TINY, everywhere).warnings
    no = "has no effect in"
    remedy = "set it by --config 'scenarios={high: {schedule: {gamma: 500}}}'"
    replaced = "scenarios.high.schedule.gamma replaces it"
    assert of_given == f"--config: base.schedule.gamma: 500 {no} high: {replaced}; {remedy}"
    assert of_all == f"base.schedule.gamma: 300.0 {no} low, high: scenarios.low.schedule.gamma replaces it"


def test_a_value_of_the_base_that_every_scenario_replaces_is_validated_all_the_same():
    everywhere = {"scenarios": {"low": {"schedule": {"gamma": 200.0}}}}
    for key, expected in (("gamma", "gamma: -1.0 is below the minimum"), ("gamm", "gamm: unknown key")):
        said = refused(load, TINY, everywhere | {"base": {"schedule": {key: -1}}})
        assert f"base.schedule.{expected}" in said


CONFIGS = sorted([*(ROOT / "config").glob("*.yaml"), *(ROOT / "examples").glob("*/study.yaml")])


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_configs_that_come_along_are_read_strictly_and_without_warnings(path, monkeypatch):
    examples = ("local_dp_mac", "privacy_for_free")
    for name in examples:
        monkeypatch.syspath_prepend(ROOT / "examples" / name)
    claims = registry.claims() | {name: (f"{name}.system:SYSTEM",) for name in examples}
    monkeypatch.setattr(registry, "claims", lambda: claims)
    assert scenario.load(scenario.read([path]), path.name).warnings == ()


def dry_run(*arguments: str, cwd) -> str:
    """What Snakemake says to these arguments, with the default config if none is among them."""
    base = [sys.executable, "-m", "snakemake", "--dry-run", "--cores", "1", "--workflow-profile", "none"]
    return ran(*base, "--snakefile", str(ROOT / "Snakefile"), *arguments, cwd=cwd)[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with the default config, a file of the tiny study, and one with a flaw."""
    path = tmp_path_factory.mktemp("folder")
    (path / "config").symlink_to(ROOT / "config")
    (path / "study.yaml").write_text(yaml.safe_dump(TINY))
    (path / "twice.yaml").write_text("base: {seed: 1, seed: 2}\n" + FEW)
    return path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--config", "base="], "--config: base: must be a mapping of parameters, is empty"),
        (["--config", "base={"], "--config: base: is not valid YAML"),
        (["--config", "base={seed: 010}"], "--config: base.seed: '010' is wrong: must be a whole number"),
        (["--config", "base={seed: 1, seed: 2}"], "--config: base: is not valid YAML: seed: appears twice"),
        (["--config", "run=[]"], "--config: run: names no scenario"),
        (["--config", "base={schedule: {gamma: -1}}"], "--config: base.schedule.gamma: -1.0 is below the minimum"),
        (["--configfile", "twice.yaml"], "twice.yaml: line 1: is not valid YAML: seed: appears twice, first in line 1"),
        (["--config", "base={training: {step_scale: 0.1}}"], "0.1 has no effect in better_learning, single_messages"),
    ],
)
def test_snakemake_says_so_before_any_work(folder, arguments, expected):
    assert expected in dry_run(*arguments, cwd=folder)


def test_scenarios_of_the_command_line_join_those_of_the_default_file(folder):
    values = ("scenarios={more: {radio: {resource_blocks: 3}}}", "run=[more, papers_learning]")
    found = dry_run("--config", *values, cwd=folder)
    (names,) = re.findall(r"schedule 1-\w+: \d+ results for scenarios (.*), about", found)
    assert set(names.split(", ")) == {"'papers_learning'", "'more'"}
    assert re.search(r"channel 1-\w+: \d results for scenario ", found)  # blocks are the schedule's
    assert re.search(r"dataset 1-\w+: 1 result for scenario ", found)


def test_a_default_config_that_is_no_yaml_is_named_with_its_line(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text("base: {seed: 1\n" + FEW)
    assert "config/config.yaml: line 2: is not valid YAML" in dry_run(cwd=tmp_path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [("base: {seed: 1\n" + FEW, ": line 2: is not valid YAML"), (None, ": cannot be read: No such file"), (FEW, None)],
)
def test_a_config_can_be_checked_without_snakemake(tmp_path, content, expected):
    path = tmp_path / "study.yaml"
    if content is not None:
        path.write_text(content)
    status, said = ran(*PWFL, "check", str(path))
    assert status == (0 if expected is None else 1)
    assert (f"{path}{expected}" if expected else "OK: study 'study' is valid (1 scenario: one)") in said


def of(system: str, **changes) -> dict:
    return {"base": {"system": system}, "scenarios": {"one": changes}}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (of("multicell", realizations=10**9), "scenarios.one: the study has about 90,000,0"),
        (of("age_aware", clients={"number": 10**9}, schemes=[{"name": "a", "scheduler": "random", "noise": "constant"}]), "lower clients.number or schedule.horizon"),
        (of("random_orthogonalization", network={"antennas": 10**6, "users": 10**4}, data={"samples_per_user": 6}, training={"batch_size": 1}), "network.users, network.antennas"),
        (of("utility_fair", training={"hidden_layers": [10**5, 10**5]}), "GiB of memory for training"),
        (of("anonymous_oac", training={"rounds": 10**6}, network={"devices": 60000}, data={"samples": 1}), "GiB of memory for tables"),
    ],
)  # fmt: skip
def test_a_study_too_large_to_be_meant_is_refused_with_its_size_unless_allowed(config, expected):
    said = refused(scenario.load, config, "file.yaml")
    assert expected in said
    assert "allow_large: true" in said
    for given in (True, "true"):  # the text is what --config makes of it
        assert scenario.load(config | {"allow_large": given, "print": given}, "file.yaml").print
    for key in ("allow_large", "print"):
        assert f"{key}: must be true or false, is 3" in refused(scenario.load, config | {key: 3}, "file.yaml")
    assert not scenario.load(config | {"allow_large": True}, "file.yaml").print


def test_a_number_of_results_is_said_once_where_there_is_one_scenario():
    huge = {"realizations": 10**8}
    said = refused(scenario.load, {"base": huge, "scenarios": {"one": {}}}, "study.yaml")
    assert re.search(r"one: the study has about [\d,]+ results to compute; at most 1,000,000 are allowed", said)
    said = refused(scenario.load, {"base": huge, "scenarios": {"one": {}, "two": {"seed": 2}}}, "study.yaml")
    assert re.search(r"about [\d,]+ results to compute, [\d,]+ of them here; at most", said)


def test_items_are_counted_about_as_they_are_planned(folder):
    study = scenario.load(TINY, "file.yaml")
    counted = sum(map(size.items, study.scenarios.values()))
    assert counted <= conftest.missing(folder, TINY).total() <= 1.5 * counted


@pytest.mark.parametrize("system", SMALL)
def test_memory_is_estimated_above_what_the_tables_take_and_not_far_above(system, tmp_path):
    few = {"realizations": 10, "training_realizations": 1}
    model = scenario.resolve({"system": system} | few | SMALL[system], {})
    scheme = model.schemes[-1]
    users_and_links = stage_of.channel(part(model, "channel"), range(10))
    scheduled = stage_of.schedule(part(model, "schedule", scheme.scheduler), scheme.scheduler, users_and_links)
    taken = sum(frame.estimated_size() for frame in (users_and_links | scheduled).values())
    estimate, _ = size.memory(model)["tables"]
    assert taken < estimate < 30 * taken


@pytest.mark.parametrize("name", ["OAC, participation known", "OptSched+DP", "I/M (64): 1.5", "größer", "a" * 60])
def test_names_of_schemes_may_hold_what_titles_hold(name):
    assert scenario.resolve({"schemes": [{"name": name, "scheduler": "random", "noise": "random"}]}, {})


@pytest.mark.parametrize("name", ["<b>x</b>", "=1+1", "+1", "-1", "@x", " x", "a\nb", "a\tb", "a\x00", "a&b", 'a"b', "", "a" * 61, "a;b", "a|b"])  # fmt: skip
def test_names_that_browsers_or_spreadsheets_take_for_more_are_refused(name):
    schemes = {"schemes": [{"name": name, "scheduler": "random", "noise": "random"}]}
    chains = {"system": "age_aware", "clients": {"chains": [{"name": name, "up": 0.1, "down": 0.1}]}}
    assert "schemes[1st].name: " in refused(scenario.resolve, schemes, {})
    assert "clients.chains[1st].name: " in refused(scenario.resolve, chains, {})


@pytest.mark.parametrize("name", ["a" * 101, "a" * 300, "<b>", "=a", "a/b", "-a", ".a", "größer", "a b", "a\n", ""])
def test_names_of_scenarios_and_studies_are_names_of_files(name):
    for key, config in (("scenarios", {"scenarios": {name: {}}}), ("study", {"scenarios": {"a": {}}, "study": name})):
        with pytest.raises(scenario.ScenarioError, match=rf"{key}: .* is not a valid name; use letters"):
            scenario.load(config, "file.yaml")


def test_the_longest_names_make_files_that_can_be_written(tmp_path):
    name = "".join(f"{k:02d}x" for k in range(33)) + "y"
    config = conftest.SMALL | {"study": name, "scenarios": {name: {}}}
    conftest.workflow(tmp_path, config, "--config", f"wanted={name}/parameters.*")
    assert (tmp_path / f"results/{name}/{name}/parameters.parquet").exists()
    assert (tmp_path / f"results/{name}/{name}/parameters.csv").exists()


def test_the_limits_that_the_documentation_names_are_those_of_the_code():
    text = (ROOT / "config" / "README.md").read_text(encoding="utf-8")
    assert f"more than {size.MAX_ITEMS:,} items" in " ".join(text.split())
    assert f"more than {size.MAX_BYTES // 2**30} GiB" in " ".join(text.split())
