"""Every command that README, CONTRIBUTING and docs name: run, dry where it is long, or taken by the program's parser."""

import re
import shlex
import subprocess
import sys
from glob import glob
from types import SimpleNamespace

import click
import numpy as np
import polars as pl
import pytest
import yaml
from click.testing import CliRunner
from snakemake.cli import parse_args
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from conftest import ROOT, TINY, environment
from pwfl import api, cli, scenario
from pwfl.api import StudyTables
from pwfl.scenario.resolution import merge
from pwfl.workflow import options as snakemake_options
from pwfl.workflow import session

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
NAMED = ("pwfl check", "pwfl run", "pwfl new", "pwfl audit", "pwfl test")  # of which prose speaks, without arguments
PROGRAMS = ("pwfl", "snakemake", "make", "pip", "pytest", "docker")
PLACEHOLDERS = {"FILE": "study.yaml", "STUDY": "mine", "POINT": "one,gamma=30"}
PLACEHOLDERS |= dict.fromkeys(("SYSTEM", "NAME"), "age_aware") | {"TABLE": "claims"}
OF_PAGES = ("first", "better")  # studies that a reader of a page writes
SUMMARY = ["scheme", "scheduled_samples_mean", "accuracy_mean", "epsilon_mean"]  # columns that pages name
EFFECTS = ["outcome", "from_scenario", "to_scenario", "from", "to", "difference", "p_corrected"]
SWEPT = {"one": {"sweep": {"schedule.gamma": [30, 300]}}}
STUDY = {"study": "mine", "base": TINY["base"] | {"schedule": {}}, "scenarios": SWEPT}
LONG = ("--report", "--sdm", "--unlock", "--rulegraph", "--workflow-profile", "--executor")  # or of other machines
PLUGINS = ("kubernetes", "cluster-generic")  # whose options only a plugin that is not installed knows


def commands() -> list[list[str]]:
    """The commands of all pages, as words: of blocks of shell, line by line, and of code in prose."""
    found = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^```(?:sh|shell|bash|console)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
            for line in block.replace("\\\n", " ").splitlines():
                found[tuple(shlex.split(line.removeprefix("$ "), comments=True))] = page.name
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        for span in re.findall(r"`([^`]+)`", prose):
            if span.startswith(tuple(f"{program} " for program in PROGRAMS)) and span not in NAMED:
                found[tuple(shlex.split(" ".join(span.split())))] = page.name
    return [list(words) for words in found if words]


def filled(word: str) -> str:
    """A word with names in the place of its placeholders, and what a shell puts in the place of a command."""
    word = word.replace("$(pwfl where)", str(ROOT))
    return re.sub(r"\b(" + "|".join(PLACEHOLDERS) + r")\b", lambda name: PLACEHOLDERS[name[0]], word)


def options(words: list[str], name: str) -> list[str]:
    """The words after an option, up to the next one: what Snakemake takes for its values."""
    if name not in words:
        return []
    after = words[words.index(name) + 1 :]
    return after[: next((k for k, word in enumerate(after) if word.startswith("-")), len(after))]


def kind(words: list[str]) -> str:
    """How a command is tried; empty for one that is of no known kind."""
    if "MARK" in words or words == ["snakemake", "schedule"]:
        return "told"  # tests/test_told.py
    program = words[0].removeprefix(".venv/bin/")
    if program == "snakemake":
        return "parsed by Snakemake" if set(words) & set(LONG) else "dry run"
    kinds = {"pwfl": "pwfl", "make": "make", "pip": "pip", "pytest": "files", "docker": "files", "source": "files"}
    return (kinds | {"tar": "share"}).get(program, "")  # tests/test_share.py


COMMANDS = commands()


def of(*kinds: str) -> list[list[str]]:
    return [words for words in COMMANDS if kind(words) in kinds]


def test_every_command_is_of_a_kind_that_is_tried():
    assert [words for words in COMMANDS if not kind(words)] == []
    assert {kind(words) for words in COMMANDS} >= {"dry run", "parsed by Snakemake", "pwfl", "make", "pip"}
    assert len(of("dry run")) > 15


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder like that of the project, with a study of somebody's, in which commands are run as they are written."""
    path = tmp_path_factory.mktemp("project")
    for name in ("CITATION.cff", "Snakefile", "config", "envs", "pkg", "profiles", "report", "rules", "scripts"):
        (path / name).symlink_to(ROOT / name)
    (path / PLACEHOLDERS["NAME"]).mkdir()
    for study in (path, path / PLACEHOLDERS["NAME"]):
        (study / "study.yaml").write_text(yaml.safe_dump(STUDY))
    for name in OF_PAGES:
        (path / f"{name}.yaml").write_text(yaml.safe_dump(STUDY | {"study": name}))
    return path


def shape(words: list[str]) -> tuple[str, ...]:
    """A Snakemake command without what its config says: the studies are checked one by one, their runs are alike."""
    kept = [word for word in map(filled, words[1:]) if word != "--dry-run"]
    if given := options(kept, "--config"):
        at = kept.index("--config")
        del kept[at : at + 1 + len(given)]
    if len(given := options(kept, "--configfile")) == 1:
        kept[kept.index(given[0])] = "study.yaml"
    return tuple(kept)


@pytest.mark.parametrize("words", sorted({shape(words) for words in of("dry run")}), ids=" ".join)
def test_snakemake_runs_it(words, folder):
    command, env = [sys.executable, "-m", "snakemake", *words, "--dry-run"], environment()
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("words", of("dry run", "parsed by Snakemake"), ids=" ".join)
def test_snakemake_and_the_study_take_its_options(words, folder, monkeypatch):
    monkeypatch.chdir(folder)
    kept = list(map(filled, words[1:]))
    if (executor := options(kept, "--executor")) and executor[0] in PLUGINS:
        kept = kept[: kept.index("--executor")]  # the rest is the plugin's; that of Kubernetes has a test of its own
    if profile := options(kept, "--workflow-profile"):  # whose executor is a plugin, too
        assert (folder / profile[0] / "config.yaml").is_file()
        kept[kept.index(profile[0])] = "none"
    _, given = parse_args(kept)
    files = list(map(str, given.configfile or ["config/config.yaml"]))
    assert all(path.endswith(".yaml") for path in files), "--configfile takes all that follows for files"
    written = scenario.read(files)  # which merges as Snakemake does: tests/test_input.py
    config = merge(written, scenario.command_line(session.study_values(given.config or [])))
    assert scenario.load(config, ", ".join(files), written).warnings == ()


@pytest.mark.parametrize("words", of("pwfl"), ids=" ".join)
def test_pwfl_runs_it(words, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (folder / "store").mkdir(exist_ok=True)
    for study in (PLACEHOLDERS["STUDY"], *OF_PAGES):
        page = folder / "results" / study / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
    did, found = [], {"claims": pl.DataFrame(), "summary": pl.DataFrame(schema=SUMMARY)}
    found |= {"effects": pl.DataFrame(schema=EFFECTS), "outcomes": pl.DataFrame()}
    for slow in (
        "snakemake.cli.main",
        "pwfl.new.write",
        "pwfl.new.write_air",
        "pwfl.testing.report",
        "pwfl.testing.signals.report",
        "pwfl.api.results",
        "webbrowser.open",
    ):  # which have tests of their own
        monkeypatch.setattr(slow, lambda *given, slow=slow: did.append(slow) or StudyTables({}, found, "mine"))
    monkeypatch.setattr("pwfl.workflow.options._profiles", lambda given: ())  # whose plugins need not be there
    arguments = [path for word in map(filled, words[1:]) for path in (sorted(glob(word)) if "*" in word else [word])]
    with pytest.raises(SystemExit, match="0"):
        cli.pwfl(arguments)
    says = {
        "check": "is valid (2 scenarios: one,gamma=30, one,gamma=300)",
        "prune": "in 0 folders",
        "--help": "Usage: ",
    }
    says |= {"where": str(ROOT), "--version": ", version "}
    assert says.get(words[1], "") in capsys.readouterr().out
    assert words[1] in says or did


@pytest.mark.parametrize("words", of("make"), ids=" ".join)
def test_make_knows_it(words):
    result = subprocess.run([*words, "--dry-run"], capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("words", of("pip"), ids=" ".join)
def test_pip_takes_it(words):
    from pip._internal.commands import create_command

    given, _ = create_command(words[1]).parse_args(words[2:])
    assert all((ROOT / path).is_file() for path in given.requirements)
    assert "pwfl" not in [word.partition("=")[0] for word in words[2:]], "no registry has it"


def test_what_pip_is_to_install_is_what_the_tests_of_the_wheel_install():
    own = {tuple(words) for words in of("pip") if "." in words}
    assert own == {("pip", "install", "."), ("pip", "wheel", "--no-deps", ".")}  # tests/test_project.py


@pytest.mark.parametrize("words", of("files"), ids=" ".join)
def test_what_it_names_is_there(words):
    if words[0] == "docker":
        assert (ROOT / "Dockerfile").is_file()
    elif words[:2] == ["pytest", "-m"]:
        assert f'"{words[2]}: ' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")  # among the markers
    elif words[0] == "pytest":
        assert all((ROOT / path).is_file() for path in words[1:])
    else:
        assert words == ["source", ".venv/bin/activate"]


# Python that makes a file of one's own and learns it.


def test_the_lines_about_own_data_make_a_file_that_is_learned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    patients = pl.DataFrame({"clinic": generator.integers(0, 9, 600), "age": generator.uniform(18, 99, 600)})
    patients = patients.with_columns(pulse=60 + pl.col("age") / 2, ill=(pl.col("age") > 55).cast(int))
    patients.write_csv("patients.csv")
    text = (ROOT / "docs/how-to/own_data.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        exec(block, names)
    summary = names["study"].scenarios["clinics"].report["summary"]
    assert summary.filter(scheme="No privacy noise")["accuracy_mean"].item() > 0.8


def test_a_table_that_is_cut_says_so_and_all_claims_are_printed(tmp_path, monkeypatch):
    schema = {f"c{k}": pl.String for k in range(9)}
    rows = pl.DataFrame(
        [[f"row {k} column {c} {'long ' * 30}" for c in range(9)] for k in range(50)], schema=schema, orient="row"
    )
    study = SimpleNamespace(
        comparison={"claims": rows, "outcomes": rows, "few": rows.head(3).select("c0")}, scenarios={}
    )
    monkeypatch.setattr(api, "results", lambda folder: study)
    monkeypatch.setenv("COLUMNS", "200")

    def printed(*arguments: str) -> str:
        return " ".join(CliRunner().invoke(cli.pwfl, ["tables", "results/x", *arguments]).output.split())

    all_of = "all of them: pwfl tables results/x"
    assert f"Shown: 40 of 50 rows, 8 of 9 columns; {all_of} outcomes --csv" in printed("outcomes")
    assert f"Shown: 50 of 50 rows, 8 of 9 columns; {all_of} claims --csv" in printed("claims")
    whole = printed("claims", "c0")
    assert "Shown" not in whole
    assert "…" not in whole
    assert all(f"row {k} column" in whole for k in range(50))
    assert "Shown" not in printed("few")
    assert "Shown" not in printed("outcomes", "--csv")


# Executors of Snakemake without a plugin, which Snakemake answers with its usage.


@pytest.fixture
def only_local(monkeypatch):
    """Snakemake without any executor but its own."""
    registry = ExecutorPluginRegistry()
    own = {name: plugin for name, plugin in registry.plugins.items() if name in ("local", "dryrun", "touch")}
    monkeypatch.setattr(registry, "plugins", own)
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--workflow-profile profiles/slurm", "--require-hashes -r {envs}/slurm.lock"),
        ("--workflow-profile=profiles/slurm/config.yaml --jobs 3", "--require-hashes -r {envs}/slurm.lock"),
        ("--workflow-profile slurm", "--require-hashes -r {envs}/slurm.lock"),
        ("--profile profiles/slurm --cores 2", "--require-hashes -r {envs}/slurm.lock"),
        ("--executor slurm --workflow-profile profiles/gpu", "--require-hashes -r {envs}/slurm.lock"),
        ("-e slurm", "--require-hashes -r {envs}/slurm.lock"),
        ("--executor kubernetes", "--require-hashes -r {envs}/kubernetes.lock"),
        ("--executor google-batch", "snakemake-executor-plugin-google-batch"),
    ],
)
def test_an_executor_without_its_plugin_says_what_to_install(words, expected, only_local):
    with pytest.raises(click.UsageError) as caught:
        cli.pwfl(["run", "config/sums_small.yaml", *words.split()], standalone_mode=False)
    assert caught.value.message.startswith("--executor: invalid choice: ")
    assert caught.value.message.endswith(f": pip install {expected.format(envs=ROOT / 'envs')}")


@pytest.mark.parametrize(
    "words",
    ["--executor local", "--workflow-profile profiles/gpu --cores 2 --config run=[a]", "--workflow-profile none", "-n"],
)
def test_an_executor_that_is_there_or_not_asked_for_is_no_error(words, only_local):
    assert snakemake_options.parse(words.split(), "study.yaml").cores in (None, 2)
