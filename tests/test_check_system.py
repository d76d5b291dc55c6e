"""What every system owes: the five that come along, the example outside of the package, and systems that fail."""

import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from conftest import ROOT, environment, python
from pwfl import streams, testing
from pwfl.scenario import resolve
from pwfl.systems import registry
from pwfl.systems.age_aware import account, noise, report, schedule

RERUNS = ROOT / "tests" / "reruns"


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_a_system_does_what_every_system_owes(system):
    found = testing.check_system(system)
    known = pl.read_csv(RERUNS / f"{system}.csv", quote_char=None, separator="\t")
    # Which stages compute anew when a parameter changes, as it was looked at and found right.
    assert dict(found.select("parameter", "stages").iter_rows()) == {
        parameter: stages or "" for parameter, stages in known.iter_rows()
    }


@pytest.fixture(
    scope="module", params=sorted(path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml"))
)
def outside(request, tmp_path_factory):
    """A system outside of the package: its name, and the environment in which it is installed."""
    folder = tmp_path_factory.mktemp("outside")
    source = shutil.copytree(ROOT / "examples" / request.param, folder / "source")  # pip builds in the folder
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--target", folder / "site")
    python("-m", "pip", "install", *options, source, check=True)
    return request.param, environment(ROOT, folder / "site")


def test_a_system_outside_of_the_package_does_so_too(outside):
    name, env = outside
    checked = python("-m", "pwfl.testing", name, env=env)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{name}: as every system should be" in checked.stdout


@pytest.mark.slow
def test_a_system_outside_of_the_package_runs_through_the_workflow(outside, tmp_path):
    name, env = outside
    options = ("--workflow-profile", "none", "--configfile", ROOT / "examples" / name / "study.yaml", "--cores", "2")
    run = python("-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--directory", tmp_path, *options, env=env)
    assert run.returncode == 0, run.stdout + run.stderr
    assert list((tmp_path / "results").glob("*/claims.csv"))


def test_an_unknown_system_and_a_package_that_is_not_there_are_named(monkeypatch, capsys):
    assert testing.main(["multicel"]) == 1
    assert "there is no system 'multicel'; known are multicell, " in capsys.readouterr().err
    monkeypatch.setattr(registry, "claims", lambda: {"lost": ("nowhere_to_be_found",)})
    assert testing.main(["lost"]) == 1
    assert "system 'lost' has no module nowhere_to_be_found.catalog" in capsys.readouterr().err


# Systems with a fault, each made of age_aware, whose checks take least.


@pytest.fixture
def aging():
    return scenario("age_aware", schemes=[{"name": "random", "scheduler": "random", "noise": "constant"}])


def scenario(system: str, **changes):
    counts = {"system": system, "realizations": 3, "training_realizations": 2}
    return resolve(registry.system(system).catalog.tiny | counts | changes, {})


def drawing_twice(purpose: str):
    """A change of a stage's tables that changes nothing, and draws."""
    return lambda made, *_: (streams.uniforms(1, purpose, range(2), (1,)), made)[1]


SHARDS, DRAWS, ACCOUNTING = testing._check_shards, testing._check_draws, testing._check_accounting
FAULTS = {  # check, module, its table, and the table with a fault, of the tables that the stage makes and reads
    "mixes realizations": (
        SHARDS, noise, "noise", lambda made, read: made.with_columns(pl.col("noise_scale_wh") * read["schedule"].height),
        "random: realization 0 depends on the others of its shard: table noise",
    ),
    "draws from elsewhere": (
        SHARDS, schedule, "schedule",
        lambda made, _: made.with_columns(required_epsilon=np.random.default_rng().random(made.height)),
        "run twice, it differs",
    ),
    "draws by a seed of its own": (
        DRAWS, noise, "noise", lambda made, _: made.with_columns(noise_scale_wh=made["realization"] + 1.0),
        "though all of `streams` was held fixed",
    ),
    "draws for a purpose of another stage": (
        DRAWS, noise, "noise", drawing_twice("schedule"), "schedule and noise both draw for 'schedule'",
    ),
    "draws what is not used": (
        DRAWS, noise, "noise", drawing_twice("unused"),
        "the draw 'unused' changes nothing of noise from realization",
    ),
    "guarantees without noise": (
        ACCOUNTING, account, "outcome", lambda made, _: made.with_columns(epsilon_exact=pl.lit(1.0)),
        r"epsilon_exact is \[1.0, .* where no noise is added; must be infinite",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_stage_with_a_fault_is_found(aging, monkeypatch, fault):
    check, module, table, change, message = FAULTS[fault]
    original = module.run

    def faulty(*arguments):
        made = original(*arguments)
        return made | {table: change(made[table], arguments[-1])}

    monkeypatch.setattr(module, "run", faulty)
    with pytest.raises(testing.CheckError, match=message):
        check(aging, {})


def test_a_table_that_the_catalog_does_not_let_a_stage_read_is_named(aging, monkeypatch):
    catalog = registry.system("age_aware").catalog
    monkeypatch.setattr("pwfl.systems.age_aware.catalog.CATALOG", replace(catalog, reads={"noise": ("users",)}))
    with pytest.raises(KeyError, match="stage noise uses the table 'schedule', which it is not handed"):
        testing._check_shards(aging, {})


def test_a_stage_that_imports_another_one_is_found(aging, monkeypatch):
    monkeypatch.setattr(testing.fingerprint, "imports", lambda module: {module, "pwfl.systems.age_aware.train"})
    with pytest.raises(testing.CheckError, match=r"age_aware.channel imports pwfl.systems.age_aware.train: what two"):
        testing._check_modules(aging)


def test_a_delta_that_is_not_followed_is_found(monkeypatch):
    from pwfl.systems.multicell import account

    model, original = scenario("multicell"), account.exact_epsilon
    monkeypatch.setattr(account, "exact_epsilon", lambda rho, delta: original(rho, 1e-5))
    with pytest.raises(testing.CheckError, match="epsilon_exact does not grow as delta falls"):
        testing._check_accounting(model, testing._given(model))


def test_a_report_that_differs_from_the_catalog_is_found(aging, monkeypatch):
    original = report.summarize
    monkeypatch.setattr(report, "summarize", lambda *arguments: {"more": pl.DataFrame()} | original(*arguments))
    with pytest.raises(testing.CheckError, match=r"summarize lacks nothing, the catalog lacks \['more'\]"):
        testing._check_report(aging)
