"""What comes from outside: nothing hangs, nothing is taken for more than it says, nothing ends in a raw traceback."""

import math
import os
import re
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from snakemake.cli import parse_config

import pwfl
from conftest import PWFL, ROOT, TINY, python, snakemake
from pwfl import cli, errors, registry, scenario
from pwfl.report import catalog
from pwfl.scenario import checks, parameters, resolve, size
from pwfl.scenario.resolution import merge
from pwfl.scenario.sweep import nested
from pwfl.store import files
from pwfl.workflow import prune

FEW = "scenarios: {one: {}}\n"


@contextmanager
def within(seconds: float):
    """Fail where a block takes longer."""

    def stop(*_):
        pytest.fail(f"takes more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Files that never end.


def test_only_regular_files_are_opened(tmp_path):
    with pytest.raises(OSError, match="embedded null byte"):
        files.content("a\0b.csv")
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for path in ("/dev/zero", str(pipe)):
        with within(5), pytest.raises(OSError, match="is not a regular file"):
            files.content(path)
        with within(5), pytest.raises(scenario.ScenarioError, match="cannot be read: it is not a regular file"):
            scenario.read([path])
        config = {"scenarios": {"one": {"channel": {"links": path}}}}
        with within(5), pytest.raises(scenario.ScenarioError, match=r"channel.links: .*it is not a regular file"):
            scenario.check_surroundings(scenario.load(config, "file.yaml"))


# What is no value.


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ([], "file.yaml: must be a mapping, with `scenarios:` among its keys, is []"),
        (None, "file.yaml: must be a mapping"),
        ({"run": [["one"]], "scenarios": {"one": {}}}, "run: ['one'] is not the name of a scenario"),
        ({"run": [None], "scenarios": {"one": {}}}, "run: empty is not the name of a scenario"),
        ({"base": {"seed": "7" * 5000}, "scenarios": {"one": {}}}, "base.seed: '7777"),
        ({"base": {"seed": 10**5000}, "scenarios": {"one": {}}}, "base.seed: a value too long to show is wrong"),
        ({"base": {"schedule": {"gamma": 10**400}}, "scenarios": {"one": {}}}, "base.schedule.gamma: 1000"),
        ({"base": {"channel": {"links": "a\0b.csv"}}, "scenarios": {"one": {}}}, "base.channel.links: 'a\\x00b.csv' is wrong: it contains the unprintable character 0x0000"),
        ({"system": "age_aware", "scenarios": {"one": {}}}, "file.yaml: system: unknown key; it is of scenarios: write it under `base`"),
        ({"base": {"system": 10**5000}, "scenarios": {"one": {}}}, "base.system: there is no system a value too long"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_named(config, expected):
    with pytest.raises(scenario.ScenarioError, match=re.escape(expected)):
        scenario.load(config, "file.yaml")


@pytest.mark.parametrize("config", [[], None, 3, object()])
def test_simulate_takes_a_path_or_a_mapping(config):
    with pytest.raises(scenario.ScenarioError, match="config: must be a file's path or a mapping, is"):
        pwfl.simulate(config)


ODD = [
    *(None, "", "x", "\0", "a\0b", "\ud800", "=1+1", "null", "true", "1e400", "7" * 5000, True, b"x", object(), 1j),
    *([], [[]], [[[[1]]]], {}, {"a": 1}, {1: 2}, {None: None}, [None], ["x"], [{}], [math.nan], [10**400], (1,), {1}),
    *(0, -1, 1, 0.5, -0.5, math.nan, math.inf, -math.inf, 10**400, -(10**400), 10**5000, 2**63, 2**64, 1e308, 5e-324),
]


def around(field) -> list:
    """Values at a parameter's bounds, and just beyond."""
    limits = [getattr(bound, name, None) for bound in field.metadata for name in ("ge", "gt", "le", "lt")]
    bounds = [limit for limit in limits if limit is not None]
    beside = [(x - 1, x, x + 1, math.nextafter(x, math.inf), math.nextafter(x, -math.inf)) for x in bounds]
    return [value for values in beside for value in values]


@pytest.mark.parametrize("system", registry.systems())
def test_every_parameter_takes_a_value_or_refuses_it_by_name(system):
    model = registry.system(system).model
    known, tried, refused = {".".join(path) for path, _ in parameters(model)}, 0, 0
    for path, field in parameters(model):
        key = ".".join(path)
        for value in [*ODD, *around(field)]:
            tried += 1
            try:
                resolve({"system": system}, nested({key: value}))
            except scenario.ScenarioError as error:
                refused += 1
                for line in str(error).splitlines():
                    # A number can be right by itself and wrong beside another parameter, which is named then.
                    beside = type(value) in (int, float) and line.split(":")[0] in known
                    assert line.startswith((f"{key}:", f"{key}.", f"{key}[")) or beside, (key, line)
    assert tried > 700
    assert tried / 2 < refused < tried


# Text that is a formula to a spreadsheet.


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "a\nb", "\r=1", "\x7f"])
@pytest.mark.parametrize("key", ["data.folder", "channel.users"])
def test_texts_that_spreadsheets_take_for_more_are_refused(key, text):
    with pytest.raises(scenario.ScenarioError, match=rf"^{key}: .* is wrong: "):
        resolve(nested({key: text}), {})


# Values of the command line.


def test_the_command_line_sets_truth_values_and_nulls(tmp_path):
    base = TINY["base"] | {"channel": {"links": "links.csv"}}
    files = TINY | {"base": base}
    given = parse_config(["base={channel: {links: null}, data: {reserved: null}}", "print=true"])
    study = scenario.load(merge(files, given), "file.yaml", files)
    chosen = study.scenarios["low"]
    assert (study.print, chosen.channel.links, chosen.data.reserved) == (True, None, None)


def test_a_file_that_the_command_line_names_is_missed_there(tmp_path):
    there = {"base": TINY["base"], "scenarios": {"one": {}}}
    named = {"base": TINY["base"] | {"channel": {"links": "no.csv"}}, "scenarios": {"one": {}}}
    both = named | {"scenarios": {"one": {}, "two": {"channel": {"links": "neither.csv"}}}}
    one, two = "scenarios.one: channel.links: no.csv", "scenarios.two: channel.links: neither.csv"
    for config, of_files, expected in (
        (named, there, f"^--config: {one}"),
        (named, named, f"^file.yaml: {one}"),
        (named, None, f"^file.yaml: {one}"),
        (both, named, f"^file.yaml: {one}(.*\n)--config: {two}"),
    ):
        with pytest.raises(scenario.ScenarioError, match=expected):
            scenario.check_surroundings(scenario.load(config, "file.yaml", of_files))


@pytest.mark.parametrize("written", [None, [], 3, {"training": []}])
def test_a_base_that_the_command_line_mends_is_no_trouble(written):
    config = {"base": {"training": {"rounds": 3}}, "scenarios": {"one": {}}}
    assert scenario.load(config, "file.yaml", config | {"base": written}).scenarios["one"].training.rounds == 3


# Names of scenarios.


def test_no_scenario_has_the_name_of_a_file_of_its_study():
    figures = []
    for system in registry.systems():
        figures += [(system, figure) for figure in catalog.compared(registry.system(system).catalog, True)]
    names = [f"{system}_{figure}.{kind}" for system, figure in figures for kind in ("json", "png", "svg", "pdf")]
    names += [f"{table}.{kind}" for table in catalog.COMPARISON for kind in ("csv", "parquet", "tex")] + [
        "references.bib"
    ]
    names += ["index.html", "Index.HTML", "comparison.log", "comparison.tsv", "page.log", "page.tsv"]
    for name in names:
        with pytest.raises(scenario.ScenarioError, match=f"scenarios: '{name}' ends like a file of the study"):
            scenario.load({"scenarios": {name: {}}}, "file.yaml")
    for name in ("claims", "index", "csv", "a.csv.b", "gamma_0.5", "html"):
        assert scenario.load({"scenarios": {name: {}}}, "file.yaml").scenarios


# Systems of other packages.


def package(folder, name: str, entry: str, **modules: str) -> None:
    """A package in a folder as if it were installed, with an entry point of the group of systems."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[pwfl.systems]\n{entry}\n")
    (folder / name).mkdir()
    for module, content in {"__init__": f"INTERFACE = {registry.INTERFACE}", **modules}.items():
        (folder / name / f"{module}.py").write_text(content)


MINE = """
from dataclasses import replace
from pwfl.systems.age_aware.parameters import AgeAware
from pwfl.systems.age_aware.system import SYSTEM as OTHER
from pwfl.system import Checks
class Mine(AgeAware):
    system: str = 'mine'
SYSTEM = replace(OTHER, name="mine", package=__package__, model=Mine, load_checks=Checks)
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A folder of packages that the registry finds, and no test after."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    registry.claims.cache_clear()
    yield folder
    registry.claims.cache_clear()
    registry._load.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0].startswith("broken")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("entry", "content", "expected"),
    [
        ("mine = nowhere_at_all", "", "has no module nowhere_at_all: "),
        ("mine = broken_one.system:SYSTEM", None, "has no module broken_one.system"),
        ("mine = broken_one.system:A", "", "'broken_one.system:A' must name a pwfl.system.System, as MODULE:NAME, and names None"),
        ("mine = broken_one", "", "'broken_one' must name a pwfl.system.System, as MODULE:NAME, and names a module"),
        ("mine =", "", "cannot be imported"),
        ("mine = broken_one.system:SYSTEM", "raise RuntimeError('on\\npurpose')", "cannot be imported: RuntimeError: on purpose ("),
        ("mine = broken_one.system:SYSTEM", "import sys; sys.exit('over')", "cannot be imported: SystemExit: over ("),
        ("mine = broken_one.system:SYSTEM", "def (", "cannot be imported: SyntaxError"),
        ("mine = broken_one.system:SYSTEM", "import not_installed", "cannot be imported: ModuleNotFoundError: No module named 'not_in"),
        ("mine = broken_one.system:SYSTEM", "from pwfl.system import System\nSYSTEM = System(name='mine')", "required keyword-only arguments: 'package', "),
        ("mine = broken_one.system:SYSTEM", MINE + "from broken_one import checks", "cannot be imported: ImportError"),
        ("mine = broken_one.system:SYSTEM", MINE.replace("model=Mine", "model=3"), "its model must be a pwfl.scenario.common.Scenario, is 3"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_system_of_another_package_is_said(
    installed, tmp_path, capsys, monkeypatch, entry, content, expected
):
    package(installed, "broken_one", entry, **({} if content is None else {"system": content}))
    path = tmp_path / "study.yaml"
    path.write_text("base: {system: mine}\n" + FEW)
    monkeypatch.setattr(sys, "argv", ["pwfl", "check", str(path)])
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    said = capsys.readouterr().err
    assert said.startswith(f"{path}: base.system: {'' if 'model must' in expected else 'system '}'mine'")
    assert expected in said
    path.write_text(FEW)
    cli.pwfl(["check", str(path)], standalone_mode=False)  # of the system that needs no other package


def test_a_folder_that_hides_a_package_is_named(installed):
    package(installed, "broken_one", "mine = broken_one.system:SYSTEM")
    (installed / "broken_one/__init__.py").unlink()
    with pytest.raises(registry.RegistryError, match=r"the folder .*broken_one hides its package broken_one; run in"):
        registry.system("mine")


@pytest.mark.parametrize(("declared", "said"), [
    ("", "implements version 1 of the system interface, but this pwfl has version 5: .*; a package declares its version"),
    ("INTERFACE = 2", r"implements version 2 .* has version 5: .* epsilons are stated by .* a stage `receive` .* `training.audit`; .*\. See 'Versions"),
    ("INTERFACE = 3", r"implements version 3 .* has version 5: .* epsilons are stated by `accountant.accounts`.* in words is ALWAYS_PUBLIC; .*`report.measures`; .*\. See 'Versions"),
    ("INTERFACE = 4", r"implements version 4 .* has version 5: a system is one object, .* write NAME/system.py .* NAME = 'NAME.system:SYSTEM'.* SCHEMAS, .* has no MODEL; .* `theme.band` has no `form`\. See 'Versions"),
    ("INTERFACE = 1", "implements version 1 .*: .*`deals` and `silent` of its catalog are `uses_dataset` and `zero_noise_values`"),
    ("INTERFACE = 99", "implements version 99 of the system interface, .*: it needs a newer pwfl"),
    ("INTERFACE = 'two'", "implements version two of the system interface, .*: it needs a newer pwfl"),
])  # fmt: skip
def test_a_system_for_another_version_of_the_interface_gets_one_sentence(
    installed, tmp_path, capsys, monkeypatch, declared, said
):
    catalog_of_old = "from pwfl.report.catalog import Catalog\nCATALOG = Catalog(figures={}, tables=(), deals=True)\n"
    modules = {"parameters": "MODEL = None\n", "catalog": catalog_of_old, "__init__": declared}
    package(installed, "broken_old", "mine = broken_old", **modules)
    path = tmp_path / "study.yaml"
    path.write_text("base: {system: mine}\n" + FEW)
    for command in (["check", str(path)], ["run", str(path), "--dry-run"], ["test", "mine"]):
        monkeypatch.setattr(sys, "argv", ["pwfl", *command])
        with pytest.raises(SystemExit, match="1"):
            cli.main()
        shown = capsys.readouterr()
        assert re.search(f"system 'mine': its package broken_old {said}", shown.err + shown.out), shown
        assert "Versions of the interface" in shown.err + shown.out
        assert "Traceback" not in shown.err + shown.out
    with pytest.raises(scenario.ScenarioError, match="its package broken_old implements version"):
        pwfl.simulate({"system": "mine"})
    assert "mine" in registry.systems()  # completion lists it, and all others work
    path.write_text(FEW)
    cli.pwfl(["check", str(path)], standalone_mode=False)


def test_the_page_has_a_section_on_every_version_of_the_interface():
    page = (ROOT / "docs/upgrading.md").read_text(encoding="utf-8").partition("## Versions of the interface")[2]
    assert [int(version) for version in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)] == [
        1,
        *sorted(registry.CHANGED),
    ]
    assert max(registry.CHANGED) == registry.INTERFACE


def test_a_system_may_leave_out_all_checks(installed):
    package(installed, "broken_four", "mine = broken_four.system:SYSTEM", system=MINE)
    chosen = scenario.resolve({"system": "mine", "clients": {"number": 5}}, {})
    assert (checks.problems(chosen), checks.imports(chosen), size.memory(chosen)["training"]) == ([], {}, (0.0, ""))
    assert checks.idle(chosen) == {}
    with pytest.raises(scenario.ScenarioError, match="only realizations that exist can be trained"):
        scenario.resolve({"system": "mine", "realizations": 3}, {})


def test_entry_points_that_cannot_be_read_are_named(installed, tmp_path):
    package(installed, "broken_one", "nothing at all")
    with pytest.raises(scenario.ScenarioError, match="system: entry points of installed packages cannot be read: "):
        resolve({"system": "age_aware"}, {})


def test_two_packages_that_claim_a_name_block_its_studies_alone(installed):
    package(installed, "broken_one", "mine = broken_one")
    package(installed, "broken_two", "mine = broken_two\nage_aware = broken_two")
    for name in ("mine", "age_aware"):
        with pytest.raises(scenario.ScenarioError, match=f"system: system '{name}' is claimed by the packages"):
            resolve({"system": name}, {})
    assert resolve({"system": "multicell"}, {})
    assert {"mine", "age_aware"}.isdisjoint(registry.systems())


# What is said at the entrances.


def test_an_internal_error_says_so_and_where_its_traceback_is(monkeypatch, tmp_path, capsys):
    def fails(*_):
        return {}["missing"]

    monkeypatch.setattr(errors.tempfile, "tempdir", str(tmp_path))
    assert errors.message(FileNotFoundError(2, "gone", "x")) == "x: gone"
    assert errors.message(registry.RegistryError("as it is")) == "as it is"
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("pwfl.api.load", fails)
    with pytest.raises(errors.InternalError) as caught:
        pwfl.simulate({})
    assert isinstance(caught.value.__cause__, KeyError)
    monkeypatch.setattr(sys, "argv", ["command"])
    with pytest.raises(SystemExit, match="1"):
        errors.run_command(fails)
    for said in (str(caught.value), capsys.readouterr().err.strip()):
        assert said.startswith("Internal error: a bug in test_boundary, not in your config: KeyError: 'missing' (")
        assert "test_boundary.py, line" in said
        assert 'return {}["missing"]' in Path(said.rpartition("traceback: ")[2]).read_text(encoding="utf-8")
    assert len(list(tmp_path.iterdir())) == 2


def test_the_workflow_says_what_is_internal(tmp_path):
    fails = MINE.replace("load_checks=Checks", "load_checks=lambda: Checks(consistent=lambda scenario: {}['missing'])")
    package(tmp_path / "site", "broken_three", "mine = broken_three.system:SYSTEM", system=fails)
    config = {"base": {"system": "mine"}, "scenarios": {"one": {}}}
    result = snakemake(tmp_path / "run", config, "--dry-run", plugins=(tmp_path / "site",))
    said = result.stdout + result.stderr
    assert result.returncode == 1
    assert ":\nInternal error: a bug in broken_three, not in your config: KeyError: 'missing'" in said
    assert "Traceback" not in said
    os.remove(said.rpartition("traceback: ")[2].split()[0])


@pytest.mark.parametrize("module", ["pwfl", "pwfl.cli"])
def test_the_command_is_run_by_its_modules_too(module, tmp_path):
    for arguments, status, said in (
        (["check", "nowhere.yaml"], 1, "nowhere.yaml: cannot be read: No such file or directory\n"),
        (
            ["nowhere"],
            2,
            "Usage: pwfl [OPTIONS] COMMAND [ARGS]...\nTry 'pwfl --help' for help.\n\nError: No such command",
        ),
    ):
        result = python("-m", module, *arguments, cwd=tmp_path)
        assert result.returncode == status
        assert result.stderr.startswith(said)
    result = python("-m", module, "--help", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, python(*PWFL[1:], "--help", cwd=tmp_path).stdout)


@pytest.mark.parametrize("part", ["run", "check", "test", "prune", "tables"])
def test_commands_say_what_is_wrong_in_a_line_or_two(part, tmp_path, monkeypatch, capsys):
    (tmp_path / "store").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pwfl", part, "nowhere"])
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    said = capsys.readouterr().err
    assert "nowhere" in said
    assert len(said.splitlines()) <= 2


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda path: None, "cannot be read: No such file or directory"),
        (Path.mkdir, "cannot be read: Is a directory"),
        (os.mkfifo, "cannot be read: it is not a regular file"),
        (lambda path: path.write_bytes(b"\xff\x00"), "is not text, but binary data"),
    ],
)  # fmt: skip
def test_what_is_no_config_is_not_run(make, expected, tmp_path):
    make(path := tmp_path / "study.yaml")
    with within(5), pytest.raises(scenario.ScenarioError) as refused:
        cli.pwfl(["run", str(path)], standalone_mode=False)
    assert str(refused.value) == f"{path}: {expected}"


# What is pruned.


def test_symbolic_links_in_the_store_are_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "0123").mkdir(parents=True)
    (elsewhere / "0123" / "kept.parquet").write_bytes(b"12345")
    links = {"channel/aaaa/links.parquet": elsewhere / "0123" / "kept.parquet", "channel/aaaa/folder": elsewhere}
    links |= {"channel/aaaa/gone.parquet": tmp_path / "nowhere", "train/cccc": tmp_path / "nowhere"}
    links |= {"train/bbbb": elsewhere / "0123", "noise": elsewhere}
    for link, target in links.items():
        (tmp_path / "store" / link).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "store" / link).symlink_to(target)
    (tmp_path / "c.yaml").write_text(FEW)
    later = time.time() + 2 * prune.YOUNG_SECONDS
    monkeypatch.setattr(prune.time, "time", lambda: later)
    prune.prune(["c.yaml"], delete=True)
    said = capsys.readouterr()
    for path in ("store/train/bbbb", "store/train/cccc", "store/noise/0123"):
        assert f"{path}: is a symbolic link, or lies behind one; not deleted" in said.err
    assert "in 1 folders deleted" in said.out
    assert [path.name for path in (tmp_path / "store/channel").iterdir()] == []
    assert sorted(path.name for path in (tmp_path / "store/train").iterdir()) == ["bbbb", "cccc"]
    assert (tmp_path / "store/noise").is_symlink()
    assert (elsewhere / "0123" / "kept.parquet").read_bytes() == b"12345"


# No words of the library that validates.

RAW = re.compile(r"[Ii]nput should|after validation|valid (integer|number|list|dictionary|string|boolean)|instance of")


@pytest.mark.parametrize("system", registry.systems())
def test_no_message_about_a_value_has_the_validators_own_words(system):
    model = registry.system(system).model
    wrong = [
        None,
        "x",
        True,
        1.5,
        -7,
        10**40,
        -1e30,
        1e40,
        [],
        ["x"],
        [[1]],
        [None],
        [1] * 2000,
        {},
        {"a": [1]},
        {1: 2},
        math.nan,
    ]
    wrong += ["\ud800", "x" * 2000, [{"name": "*", "scheduler": 3, "noise": []}], [{"name": "x" * 61}], {"1a": 1}]
    keys = [".".join(path) for path, _ in parameters(model)]
    said = []
    for key in [*keys, *dict.fromkeys(key.partition(".")[0] for key in keys)]:
        for value in wrong:
            try:
                resolve({"system": system}, nested({key: value}))
            except scenario.ScenarioError as error:
                said += str(error).splitlines()
    assert len(said) > 500
    assert not [line for line in said if RAW.search(line)]
    assert any(line.endswith(" is wrong: must be a whole number") for line in said)
    assert any(" is wrong: must be a list" in line for line in said)
    assert any(" is below the minimum, " in line for line in said)
    assert any(" is above the maximum, " in line for line in said)
