"""The conda environment: what the package needs, at the versions of the lock."""

import os
import re
import subprocess
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from conftest import ROOT
from pwfl import registry
from pwfl.stages import STAGES
from pwfl.store import code

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [
    found[1]
    for line in PROJECT["classifiers"]
    if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
]


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
