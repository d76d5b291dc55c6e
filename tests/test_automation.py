"""Workflows, hooks, forms and the conda environment: what they name is there, at the versions that are said elsewhere."""

import os
import re
import shlex
import subprocess
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from snakemake.cli import parse_args

from conftest import ROOT
from pwfl import cli, registry
from pwfl.stages import STAGES
from pwfl.store import code

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE)
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(ROOT.glob(".github/workflows/*.yml"))}
JOBS = {f"{name}: {key}": job for name, workflow in WORKFLOWS.items() for key, job in workflow["jobs"].items()}
STEPS = [(name, step) for name, job in JOBS.items() for step in job["steps"]]
PYTHONS = [
    found[1]
    for line in PROJECT["classifiers"]
    if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
]


def problems(command: str, before: list[str]) -> list[str]:
    """What is wrong with a line of shell of a workflow, as far as can be told without running it."""
    words = shlex.split(command.partition(" > ")[0])
    words = [word for word in words if not re.match(r"[A-Z_]+=", word)]
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program == "docker" and rest[0] == "run":
        rest = rest[rest.index("pwfl") + 1 :]
        program, rest = rest[0], rest[1:]
    if program == "python" and rest[0] == "-m":
        program, rest = rest[1], rest[2:]
    found = [f"{word} is not there" for word in rest if "/" in word and not exists(word, before)]
    if program == "make":
        found += [f"make has no {word}" for word in rest if "=" not in word and word not in TARGETS]
    elif program == "pip":
        given, places = pip(rest)
        found += [f"{extra} is no extra" for extra in given if extra not in PROJECT["optional-dependencies"]]
        found += [f"{place} is not there" for place in places if not exists(place, before)]
    elif program == "pwfl":
        found += [] if rest[0] in cli.pwfl.commands else [f"pwfl has no {rest[0]}"]
    elif program == "snakemake":
        _, given = parse_args(rest)
        found += [f"{path} is not there" for path in given.configfile if not (ROOT / path).is_file()]
    elif program == "pytest":
        found += (
            [] if f'"{rest[-1].removeprefix("not ")}: ' in (ROOT / "pyproject.toml").read_text() else ["no such marker"]
        )
    elif program == "docker":
        found += [] if (ROOT / "Dockerfile").is_file() and rest[0] == "build" else ["docker: neither build nor run"]
    elif program not in ("cp", "grep", "mkdir", "venv"):
        found.append(f"{program} is a program that no test knows")
    return found


def exists(word: str, before: list[str]) -> bool:
    """Whether a file that a line names is in the repository, or named by a line before, or made by the runner."""
    folder, _, name = word.rpartition("/")
    if folder.startswith("$") or (ROOT / word).exists():
        return True
    return folder not in ("config", "envs") and any(part in line for line in before for part in (folder or name, name))


def pip(words: list[str]) -> tuple[list[str], list[str]]:
    """The extras and the files and folders that a pip command names."""
    from pip._internal.commands import create_command

    given, named = create_command(words[0]).parse_args(words[1:])
    places = [
        *named,
        *(place for kind in ("editables", "requirements", "constraints") for place in getattr(given, kind, [])),
    ]
    extras = [extra for place in places for extra in re.findall(r"\[(.*)\]", place)]
    return ",".join(extras).split(",") if extras else [], [place.partition("[")[0] for place in places]


def commands(job: dict) -> list[str]:
    return [line for step in job["steps"] for line in step.get("run", "").splitlines()]


# Workflows.


@pytest.mark.parametrize("name", JOBS)
def test_what_a_workflow_runs_is_there(name):
    lines = commands(JOBS[name])
    assert [problem for k, line in enumerate(lines) for problem in problems(line, lines[:k])] == []


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("make no-such-target", "make has no no-such-target"),
        ("pip install '.[nothing]'", "nothing is no extra"),
        (".venv/bin/pip install --editable '.[dev,nothing]'", "nothing is no extra"),
        ("pip install --requirement envs/nothing.lock", "envs/nothing.lock is not there"),
        ("$RUNNER_TEMP/fresh/bin/pip install dist/pwfl-*.whl", "dist/pwfl-*.whl is not there"),
        ("docker run --rm pwfl pwfl walk study.yaml", "pwfl has no walk"),
        (".venv/bin/snakemake --configfile config/nothing.yaml", "config/nothing.yaml is not there"),
        ("python -m pytest -m 'not quick'", "no such marker"),
        ("curl example", "curl is a program that no test knows"),
    ],
)
def test_a_command_that_would_fail_is_found(command, problem):
    assert problem in problems(command, [])


def test_the_workflows_are_those_that_are_documented_and_need_no_secret():
    assert set(WORKFLOWS) == {"tests", "docs", "newest", "environments"}
    text = "".join(path.read_text() for path in ROOT.glob(".github/workflows/*.yml"))
    assert "secrets" not in text
    for workflow in WORKFLOWS.values():
        assert workflow["permissions"] == {"contents": "read"}
        assert "workflow_dispatch" in workflow[True]  # YAML's reading of the key `on`
    for name, step in STEPS:
        assert ("run" in step) != ("uses" in step), name
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]), name
    for name in ("newest", "environments"):
        ((when,),) = (list(each.values()) for each in WORKFLOWS[name][True]["schedule"])
        assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", when)  # weekly


def test_the_tests_run_on_the_versions_of_python_that_the_package_names():
    assert WORKFLOWS["tests"]["jobs"]["test"]["strategy"]["matrix"]["python-version"] == PYTHONS
    used = {step["with"]["python-version"] for _, step in STEPS if "setup-python" in step.get("uses", "")}
    assert used - {"${{ matrix.python-version }}"} <= set(PYTHONS)
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


def test_the_newest_versions_are_tested_as_make_tests_those_of_the_lock():
    (expected,) = re.findall(r"^test: .*?-m pytest (.*?)$", MAKEFILE, flags=re.MULTILINE | re.DOTALL)
    assert commands(WORKFLOWS["newest"]["jobs"]["test"])[-1] == f".venv/bin/python -m pytest {expected}"


def test_the_site_is_published_from_a_tag_alone():
    site, publish = (WORKFLOWS["docs"]["jobs"][name] for name in ("site", "publish"))
    assert publish["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert "build/docs/html" in MAKEFILE
    assert {step["with"]["path"] for step in site["steps"] if "path" in step.get("with", {})} == {"build/docs/html"}


# The hooks of pre-commit, and the forms of issues.


def test_the_hooks_are_the_commands_of_make_lint():
    (recipe,) = re.findall(r"^lint: .*\n((?:\t.*\n)+)", MAKEFILE, flags=re.MULTILINE)
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = local["hooks"]
    assert [hook["entry"] for hook in hooks] == [
        line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()
    ]
    assert {(hook["language"], hook["pass_filenames"]) for hook in hooks} == {("system", False)}
    for hook in hooks:
        assert "files" not in hook or re.search(hook["files"], "rules/train.smk"), hook["id"]


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/ISSUE_TEMPLATE/[!c]*.yml")), ids=lambda path: path.stem)
def test_forms_have_what_the_platform_asks_for_and_name_what_is_there(path):
    form = yaml.safe_load(path.read_text())
    assert set(form) == {"name", "description", "labels", "body"}
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in asked}) == len(asked) > 3
    assert all(part["attributes"]["label"] for part in asked)
    assert [
        name
        for name in re.findall(r"(?:docs|examples)/[\w/]+(?:\.md)?|\b[A-Z_]+\.md", path.read_text())
        if not (ROOT / name).exists()
    ] == []
    for command in re.findall(r"`pwfl (--?\w+)`", path.read_text()):
        assert command in {name for option in cli.pwfl.params for name in option.opts}


# The conda environment.


def test_the_conda_environment_has_what_the_package_needs_at_the_versions_of_the_lock():
    listed = yaml.safe_load((ROOT / "envs/environment.yaml").read_text())["dependencies"]
    (by_pip,) = (each["pip"] for each in listed if isinstance(each, dict))
    versions = dict(each.split("==") for each in by_pip)
    versions |= dict(each.split(" =", 1) for each in listed if isinstance(each, str) and re.search(r" =\d", each))
    versions["snakemake"] = versions.pop("snakemake-minimal")
    text = (ROOT / "envs/requirements.lock").read_text()
    for name, version in versions.items():
        (at,) = re.findall(rf"^{name}==(\S+)(?: ; python_full_version >= '3.12')? \\$", text, flags=re.MULTILINE)
        assert version == at, name
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["glpk"]]
    assert {canonicalize_name(Requirement(text).name) for text in wanted} - set(versions) == set()
    sources = [(f"pwfl.systems.{system}",) for system in registry.BUILT_IN]
    addressed = {
        name for stage in (*STAGES, "report") for each in sources for name in code.described(stage, each)["packages"]
    }
    of = {canonicalize_name(distribution) for name in addressed for distribution in packages_distributions()[name]}
    assert of - set(versions) == {"pydantic-core"}  # which pydantic pins; the others are in addresses of results
    (python,) = (each for each in listed if isinstance(each, str) and each.startswith("python "))
    assert set(Requirement(python).specifier.filter(PYTHONS)) == set(PYTHONS) - {"3.11"}  # of which the lock has others


def test_the_conda_environment_installs_pwfl_from_its_checkout_and_from_nothing_else(tmp_path):
    script = ROOT / "envs/environment.post-deploy.sh"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text("#!/bin/sh\necho python $@\n")
    (tmp_path / "bin/python").chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def ran(folder: Path) -> subprocess.CompletedProcess:
        return subprocess.run(["bash", script], cwd=folder, env=env, capture_output=True, text=True, check=False)

    assert ran(ROOT).stdout == "python -m pip install --no-deps --no-build-isolation --editable .\n"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "another"\n')
    for folder in (tmp_path, tmp_path / "bin"):
        result = ran(folder)
        assert (result.returncode, result.stdout) == (1, "")
        assert "in a checkout" in result.stderr
