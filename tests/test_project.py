"""What stands around the code and could rot unseen: metadata, licences, links, rule graph, site, container image."""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from html import unescape
from importlib.metadata import PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from urllib.parse import unquote

import pytest
import yaml
from packaging.requirements import Requirement

from conftest import ONE, PWFL, ROOT, SMALL, environment, jobs, planned, plugin, python, snakemake
from pwfl import registry, scenario
from pwfl.stages import GRAPH
from pwfl.workflow.plan import plan

sys.path.append(str(ROOT / "docs"))

import rule_graph

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
RUNNING = (ROOT / "docs/how-to/running.md").read_text()
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CODE_OF_CONDUCT", "SECURITY", "CHANGELOG", "paper")),
    *sorted(ROOT.glob("config/*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("examples/*/README.md")),
]


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Where links into a page can lead: its headings, as code hosts name them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def locked(name: str) -> dict[str, str]:
    """The versions of a lock file; those that differ by platform or Python are left out."""
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+) \\$", (ROOT / f"envs/{name}.lock").read_text(), flags=re.MULTILINE))


# The version and the papers.


def test_the_version_is_the_same_everywhere():
    newest = re.search(r"^## \[(\S+)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert (PROJECT["version"],) * 2 == (CITATION["version"], newest[1])
    assert str(CITATION["date-released"]) == newest[2]


def test_every_system_has_its_paper_among_the_references():
    papers = {paper["notes"].removeprefix("The system ").rstrip("."): paper for paper in CITATION["references"]}
    assert sorted(papers) == sorted(registry.BUILT_IN)
    for system, paper in papers.items():
        page = " ".join((ROOT / f"docs/explanation/{system}.md").read_text().split())
        assert paper["title"] in page
        assert [author for author in paper["authors"] if author["family-names"] not in page] == []


def test_snakemake_has_a_ceiling_as_its_internals_are_used():
    (snakemake_,) = (Requirement(text) for text in PROJECT["dependencies"] if text.startswith("snakemake"))
    assert snakemake_.specifier.contains("9.27.1")
    assert not snakemake_.specifier.contains("10.0.0")


# The workflow catalog.


def test_the_catalog_finds_the_workflow_where_it_looks(tmp_path):
    """It wants workflow/Snakefile, and says how to use what it lists."""
    result = snakemake(tmp_path, ONE, "--snakefile", str(ROOT / "workflow/Snakefile"), "--dry-run")
    counts = jobs(result)
    assert counts.pop("study") == 1
    assert counts == planned(tmp_path, ONE)
    listed = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert listed["software-stack-deployment"] == {"conda": False}
    assert "make setup" in listed["mandatory-flags"]["desc"]


def test_snakemake_alone_says_in_a_sentence_what_to_install(tmp_path):
    others = {Requirement(text).name.lower() for text in PROJECT["dependencies"]} - needed(["snakemake"], set())
    names = {"scikit-learn": "sklearn", "vl-convert-python": "vl_convert"}
    blocked = [names.get(name, name.replace("-", "_")) for name in sorted(others)]
    assert {"polars", "threadpoolctl", "tensorflow"} <= set(blocked)
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules |= dict.fromkeys({blocked})\n")
    env = environment() | {"PYTHONPATH": str(tmp_path)}
    command = ("-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--workflow-profile", "none", "-n")
    result = python(*command, "--configfile", ROOT / "config/age_aware_small.yaml", env=env, cwd=tmp_path)
    assert result.returncode == 1
    said = " ".join((result.stdout + result.stderr).split())
    (missing,) = re.findall(r"The package (\w+) is missing in Snakemake's Python environment", said)
    assert missing in blocked
    assert f"-m pip install {ROOT}`" in said
    assert "Traceback" not in said


# Licences.


def needed(names: list[str], seen: set[str]) -> set[str]:
    """The installed distributions that some need, themselves among them."""
    for name in names:
        if name not in seen:
            try:
                requirements = map(Requirement, distribution(name).requires or [])
            except PackageNotFoundError:  # of another platform
                continue
            seen.add(name)
            needed([r.name.lower() for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})], seen)
    return seen


def test_what_the_package_needs_is_not_under_the_gpl_but_what_its_extra_needs_is():
    def licence(name: str) -> str:
        found = distribution(name).metadata
        kinds = [kind for kind in found.get_all("Classifier") or [] if kind.startswith("License")]
        return "; ".join([found.get("License-Expression") or "", (found.get("License") or "")[:1000], *kinds])

    gpl = re.compile(r"GNU General Public|(?<![LA])GPL")
    alone = needed([Requirement(text).name for text in PROJECT["dependencies"]], set())
    assert {"tensorflow", "snakemake", "cvxpy"} <= alone
    # docutils is in the public domain, but for parts that nothing runs.
    assert [name for name in sorted(alone - {"docutils"}) if gpl.search(licence(name))] == []
    (glpk,) = map(Requirement, PROJECT["optional-dependencies"]["glpk"])
    assert glpk.name not in alone
    assert gpl.search(licence(glpk.name))


LOWEST = """
import pwfl
from pwfl.report.page import caption

for tiny in {tiny!r}:
    assert pwfl.simulate(tiny).scenarios["scenario"].report["summary"].height
print(caption("A *caption*."))
"""


@pytest.mark.slow
def test_the_lowest_versions_that_the_metadata_allow_simulate_and_render_a_caption(tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    lowest = [
        f"{need.name}=={next(part.version for part in need.specifier if part.operator == '>=')}"
        for need in map(Requirement, PROJECT["dependencies"])
    ]
    call = [tmp_path / "venv/bin/python", "-m", "pip", "install", "--quiet", "--no-cache-dir", *lowest]
    subprocess.run(call, check=True, capture_output=True, text=True)
    few = {"realizations": 1, "training_realizations": 1}
    tiny = [registry.system(name).catalog.tiny | few | {"system": name} for name in ("age_aware", "multicell")]
    call = [tmp_path / "venv/bin/python", "-c", LOWEST.format(tiny=tiny)]
    done = subprocess.run(call, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "A <em>caption</em>." in done.stdout, done.stderr[-2000:]


def test_without_cvxopt_all_but_glpk_works():
    code = """if True:
        import sys
        sys.modules["cvxopt"] = None  # as if it were not installed
        import numpy as np
        from pwfl.systems.multicell import reference
        cell = np.array([1.0, 2.0]), np.zeros(2), 0.0, np.array([[0.5], [0.5]])
        assert reference.solve(*cell, "HIGHS").tolist() == [-1, 0]
        try:
            reference.solve(*cell, "GLPK_MI")
        except reference.SolverError as error:
            sys.exit(f"refused: {error}")
    """
    result = python("-c", code)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("refused: GLPK_MI failed: The solver GLPK_MI is not installed")


# The lock files.


@pytest.mark.parametrize("name", ["requirements", "slurm", "kubernetes", "docs"])
def test_lock_files_fit_the_metadata_and_each_other(name):
    extras = PROJECT["optional-dependencies"]
    asked = [*PROJECT["dependencies"], *extras["glpk"], *extras["dev"]] if name == "requirements" else extras[name]
    text = (ROOT / f"envs/{name}.lock").read_text()
    for requirement in map(Requirement, asked):
        versions = re.findall(rf"^{requirement.name}==(\S+)", text, flags=re.MULTILINE | re.IGNORECASE)
        assert versions, requirement
        assert all(version in requirement.specifier for version in versions), requirement
    ours = locked("requirements")
    assert {key: at for key, at in locked(name).items() if ours.get(key, at) != at} == {}
    assert "//" not in text  # no address of a registry


# Links, commands and the rule graph.


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere_and_make_has_the_targets_that_are_named(page):
    broken = []
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", prose(page)):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    named = re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), flags=re.MULTILINE)
    assert set(named) <= set(targets)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_functions_that_are_named_are_there(page):
    for name in set(re.findall(r"`(pwfl(?:\.\w+)+)`", page.read_text(encoding="utf-8"))):
        assert resolve_name(name) is not None, name


def test_the_rule_graph_in_the_docs_is_current(tmp_path):
    study = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    result = snakemake(tmp_path, study, "--rulegraph", "dot")
    assert result.returncode == 0, result.stderr
    drawn = rule_graph.BLOCK.search((ROOT / "docs/explanation/caching.md").read_text())[0]
    assert drawn == f"```mermaid\n{rule_graph.mermaid(result.stdout)}```", "`make docs` draws it anew"


# The container image: without Docker, its instructions are followed in a folder.


def sent(path: str) -> bool:
    """Whether .dockerignore lets a file or folder of the repository through: the last pattern that fits decides."""
    through = True
    for line in (ROOT / ".dockerignore").read_text().split():
        if any(fnmatch.fnmatch(part, line.removeprefix("!")) for part in (path, path.partition("/")[0])):
            through = line.startswith("!")
    return through


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The folder that the Dockerfile fills; the package in `site-packages`, other packages only looked for."""
    folder = tmp_path_factory.mktemp("image")
    tools = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    text = re.sub(
        r"^FROM cpu AS gpu\n.*?(?=^FROM)", "", (ROOT / "Dockerfile").read_text(), flags=re.DOTALL | re.MULTILINE
    )
    for line in re.findall(r"^[A-Z].*$", text, flags=re.MULTILINE):
        instruction, _, what = line.partition(" ")
        if instruction == "COPY":
            *sources, to = what.split()
            (folder / to).mkdir(exist_ok=True)
            for source in sources:
                assert sent(source), source
                if (ROOT / source).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                    shutil.copytree(ROOT / source, folder / to, ignore=ignored, dirs_exist_ok=True)
                else:
                    shutil.copy(ROOT / source, folder / to)
        elif instruction == "RUN":
            how = {"PIP_DRY_RUN": "1"} if ".lock" in what else {"PIP_TARGET": str(folder / "site-packages")}
            subprocess.run(["bash", "-euc", what], cwd=folder, env=os.environ | tools | how, check=True)
        else:
            assert instruction in ("FROM", "WORKDIR")
    return folder


def test_the_image_has_the_package_with_its_metadata(image):
    site = image / "site-packages"
    (found,) = (f for f in distributions(path=[str(site)]) if f.name == "pwfl")
    assert (found.version, found.metadata["License-Expression"]) == (PROJECT["version"], "MIT AND OFL-1.1")
    assert found.metadata["Author"] == "the pwfl authors"
    assert any(file.name == "LICENSE" for file in found.files)
    modules = {path.relative_to(ROOT / "pkg") for path in (ROOT / "pkg").rglob("*") if path.suffix in (".py", ".rst")}
    assert modules <= {path.relative_to(site) for path in site.rglob("*")}


def test_what_is_installed_is_the_package_and_the_workflow_and_nothing_else_of_the_repository(image):
    site = image / "site-packages"
    (metadata,) = site.glob("pwfl-*.dist-info")
    assert {path.name for path in site.iterdir()} == {"bin", "pwfl", "snakemake_logger_plugin_pwfl", metadata.name}
    bundled = {path.name for path in (site / "pwfl/bundled").iterdir()}
    folders = {"envs", "examples", "profiles", "report", "rules", "scripts"}
    assert bundled == {"Snakefile", "CITATION.cff", *folders}
    assert {path.name for path in (site / "pwfl/bundled/examples").iterdir()} == {"local_dp_mac", "own_air"}


def test_what_is_installed_plans_the_addresses_of_the_checkout_in_any_folder(image, tmp_path):
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(SMALL))
    env = os.environ | {"PYTHONPATH": str(image / "site-packages")}
    result = python(*PWFL[1:], "run", "study.yaml", "--dry-run", cwd=tmp_path, env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    assert str(image / "site-packages/pwfl/bundled/profiles/default") in result.stderr
    code = """if True:
        import json
        from pwfl import scenario
        from pwfl.workflow.plan import plan
        print(json.dumps(sorted(plan(scenario.load(scenario.read(["study.yaml"]), "a test")).descriptions)))"""
    found = json.loads(python("-c", code, cwd=tmp_path, env=env, check=True).stdout)
    assert found == sorted(plan(scenario.load(SMALL, "a test")).descriptions)


@pytest.mark.slow
def test_a_wheel_made_of_the_sdist_runs_a_study_in_an_empty_folder(tmp_path):
    source, site, run = (tmp_path / name for name in ("source", "site", "run"))
    run.mkdir()
    ignored, made = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info"), {"build", "results", "store", "logs"}
    here = str(ROOT)
    shutil.copytree(ROOT, source, ignore=lambda at, names: ignored(at, names) | (made if at == here else set()))
    build = "from setuptools import build_meta; build_meta.build_sdist('..')"
    python("-c", build, cwd=source, env=dict(os.environ), check=True)
    (sdist,) = tmp_path.glob("pwfl-*.tar.gz")
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-compile", "--target", site)
    python(*pip, sdist, check=True)
    for path in (site, *site.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    (run / "study.yaml").write_text(yaml.safe_dump(ONE))
    env = os.environ | {"PYTHONPATH": str(site)}
    made = subprocess.run(
        [site / "bin/pwfl", "run", "study.yaml"], cwd=run, env=env, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert {path.name for path in run.iterdir()} == {"study.yaml", "results", "store", "logs", ".snakemake", ".pwfl"}
    listed = subprocess.run(
        [site / "bin/pwfl", "tables", "results/small"], cwd=run, env=env, capture_output=True, text=True, check=True
    )
    assert "one/summary" in listed.stdout
    where = subprocess.run([site / "bin/pwfl", "where"], env=env, capture_output=True, text=True, check=True)
    home = Path(where.stdout.strip())
    assert home.is_relative_to(site)
    used = re.findall(r"\b(?:profiles/\w+|envs/\w+\.(?:lock|yaml))", (ROOT / "README.md").read_text() + RUNNING)
    assert {"profiles/slurm", "envs/slurm.lock", "profiles/gpu", "envs/gpu.lock"} <= set(used)
    assert [name for name in set(used) if not (home / name).exists()] == []
    addresses = set(plan(scenario.load(ONE, "a test")).descriptions)
    assert {path.name for stage in GRAPH for path in run.glob(f"store/{stage}/*")} == addresses


def test_snakemake_takes_the_kubernetes_command_of_the_docs(tmp_path):
    (line,) = re.findall(r"^snakemake (--executor kubernetes .*?[^\\])$", RUNNING, flags=re.MULTILINE | re.DOTALL)
    code = """if True:
        import shlex, sys
        from snakemake.cli import parse_args
        from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry
        _, given = parse_args(shlex.split(sys.argv[1]))
        ExecutorPluginRegistry().get_plugin(given.executor)
    """
    result = python("-c", code, line.replace("\\\n", " "), env=environment(ROOT, plugin("kubernetes", tmp_path)))
    assert result.returncode == 0, result.stderr


# The site.


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the documentation's site, made without a warning."""
    folder = tmp_path_factory.mktemp("site")
    tools = () if find_spec("furo") else (plugin("docs", folder / "tools"),)
    result = python(ROOT / "docs/build_site.py", folder, env=environment(ROOT, *tools))
    assert result.returncode == 0, result.stderr
    return folder / "html"


@pytest.mark.slow
@pytest.mark.xdist_group("site")  # made once
def test_the_site_needs_no_network_and_its_links_lead_somewhere(site):
    texts = {path: path.read_text() for path in site.rglob("*.html")}
    assert {site / name for name in ("index.html", "CHANGELOG.html", "docs/how-to/without_snakemake.html")} <= set(
        texts
    )
    broken = []
    for path, text in texts.items():
        shown = re.findall(r'<(?:img|script|link|iframe|object)\b[^>]*?\b(?:src|href|data)="([^"]*)"', text)
        assert [address for address in shown if re.match(r"(?:https?:)?//", address)] == []
        for address in map(unescape, [*shown, *re.findall(r'<a\b[^>]*?\bhref="([^"]*)"', text)]):
            file, _, anchor = unquote(address).partition("#")
            if re.match(r"[a-z]+:", file):
                continue
            to = (path.parent / file.partition("?")[0]).resolve() if file else path
            to = to / "index.html" if to.is_dir() else to
            if not to.exists() or (anchor and to in texts and f'id="{anchor}"' not in texts[to]):
                broken.append((path.name, address))
    assert broken == []


@pytest.mark.slow
@pytest.mark.xdist_group("site")  # made once
def test_the_site_has_the_functions_that_pages_name_the_notebook_and_its_figure(site):
    crossings = (site / "docs/explanation/crossings.html").read_text()
    assert '#pwfl.privacy.sampled.proved_together"' in crossings
    assert 'id="pwfl.api.simulate"' in (site / "api/pwfl.html").read_text()
    notebook = (site / "docs/how-to/without_snakemake.html").read_text()
    assert '<table border="1" class="dataframe' in notebook
    assert ".svg" in notebook or "<svg" in notebook


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900
