"""What every system owes: the five that come along, the example outside of the package, and systems that fail."""

import shutil
import subprocess
import sys

import polars as pl
import pytest

from conftest import ROOT, environment
from pwfl import testing
from pwfl.scenario import resolve
from pwfl.systems import registry

RERUNS = ROOT / "tests" / "reruns"


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_a_system_does_what_every_system_owes(system):
    found = testing.check_system(system)
    known = pl.read_csv(RERUNS / f"{system}.csv", quote_char=None, separator="\t")
    # Which stages compute anew when a parameter changes, as it was looked at and found right.
    assert dict(found.select("parameter", "stages").iter_rows()) == {
        parameter: stages or "" for parameter, stages in known.iter_rows()
    }


@pytest.mark.parametrize("name", sorted(path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml")))
def test_a_system_outside_of_the_package_does_so_too(name, tmp_path):
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    source = shutil.copytree(ROOT / "examples" / name, tmp_path / "source")  # pip builds in the folder
    subprocess.run([*install, str(tmp_path / "site"), str(source)], check=True, capture_output=True)
    env = environment(ROOT, tmp_path / "site")
    checked = subprocess.run(
        [sys.executable, "-m", "pwfl.testing", name], capture_output=True, text=True, env=env, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{name}: as every system should be" in checked.stdout
    study = ROOT / "examples" / name / "study.yaml"
    run = subprocess.run(
        [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(tmp_path / "run"),
         "--workflow-profile", "none", "--configfile", str(study), "--cores", "2"],
        capture_output=True, text=True, env=env, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert list((tmp_path / "run" / "results").glob("*/claims.csv"))


def test_an_unknown_system_and_a_package_that_is_not_there_are_named(monkeypatch, capsys):
    assert testing.main(["multicel"]) == 1
    assert "there is no system 'multicel'; known are multicell, " in capsys.readouterr().err
    monkeypatch.setattr(registry, "claims", lambda: {"lost": ("nowhere_to_be_found",)})
    assert testing.main(["lost"]) == 1
    assert "system 'lost' has no module nowhere_to_be_found.catalog" in capsys.readouterr().err


# Systems with a fault, each made of age_aware, whose checks take least.


@pytest.fixture
def aging():
    tiny = registry.system("age_aware").catalog.tiny | {"system": "age_aware", "realizations": 3}
    schemes = [{"name": "random", "scheduler": "random", "noise": "constant"}]
    return resolve(tiny | {"training_realizations": 2, "schemes": schemes}, {})


def test_a_stage_that_mixes_realizations_is_found(aging, monkeypatch):
    from pwfl.systems.age_aware import noise

    original = noise.run

    def mixed(scenario, scheme, found):
        made = original(scenario, scheme, found)
        return made | {
            "noise": made["noise"].with_columns(noise_scale_wh=pl.col("noise_scale_wh") * found["schedule"].height)
        }

    monkeypatch.setattr(noise, "run", mixed)
    with pytest.raises(
        testing.CheckError, match="random: realization 0 depends on the others of its shard: table noise"
    ):
        testing._check_shards(aging, {})


def test_a_draw_from_elsewhere_is_found(aging, monkeypatch):
    import numpy as np

    from pwfl.systems.age_aware import schedule

    original = schedule.run

    def drawn(scenario, scheduler, found):
        made = original(scenario, scheduler, found)
        other = np.random.default_rng().random(made["schedule"].height)
        return made | {"schedule": made["schedule"].with_columns(required_epsilon=pl.Series(other))}

    monkeypatch.setattr(schedule, "run", drawn)
    with pytest.raises(testing.CheckError, match="run twice, it differs"):
        testing._check_shards(aging, {})


def test_a_draw_by_a_seed_of_its_own_is_found(aging, monkeypatch):
    from pwfl.systems.age_aware import noise

    original = noise.run

    def drawn(scenario, scheme, found):
        made = original(scenario, scheme, found)
        key = made["noise"]["realization"] + 1.0
        return made | {"noise": made["noise"].with_columns(noise_scale_wh=key)}

    monkeypatch.setattr(noise, "run", drawn)
    with pytest.raises(testing.CheckError, match="though all of `streams` was held fixed"):
        testing._check_draws(aging, {})


def test_a_table_that_the_catalog_does_not_let_a_stage_read_is_named(aging, monkeypatch):
    from dataclasses import replace

    catalog = registry.system("age_aware").catalog
    monkeypatch.setattr("pwfl.systems.age_aware.catalog.CATALOG", replace(catalog, reads={"noise": ("users",)}))
    with pytest.raises(KeyError, match="stage noise uses the table 'schedule', which it is not handed"):
        testing._check_shards(aging, {})


def test_a_stage_that_imports_another_one_is_found(aging, monkeypatch):
    monkeypatch.setattr(testing.fingerprint, "imports", lambda module: {module, "pwfl.systems.age_aware.train"})
    with pytest.raises(testing.CheckError, match=r"age_aware.channel imports pwfl.systems.age_aware.train: what two"):
        testing._check_modules(aging)


def test_a_purpose_that_is_drawn_for_twice_is_found(aging, monkeypatch):
    from pwfl import streams
    from pwfl.systems.age_aware import noise

    original = noise.run

    def drawn(scenario, scheme, found):
        streams.uniforms(1, "schedule", range(2), (1,))
        return original(scenario, scheme, found)

    monkeypatch.setattr(noise, "run", drawn)
    with pytest.raises(testing.CheckError, match="schedule and noise both draw for 'schedule'"):
        testing._check_draws(aging, {})


def test_a_draw_that_is_not_used_is_found(aging, monkeypatch):
    from pwfl import streams
    from pwfl.systems.age_aware import noise

    original = noise.run

    def drawn(scenario, scheme, found):
        streams.uniforms(1, "unused", range(2), (1,))
        return original(scenario, scheme, found)

    monkeypatch.setattr(noise, "run", drawn)
    with pytest.raises(testing.CheckError, match="the draw 'unused' changes nothing of noise from realization"):
        testing._check_draws(aging, {})


def test_a_guarantee_without_noise_is_found(aging, monkeypatch):
    from pwfl.systems.age_aware import account

    original = account.run

    def finite(scenario, found):
        made = original(scenario, found)
        return made | {"outcome": made["outcome"].with_columns(epsilon_exact=pl.lit(1.0))}

    monkeypatch.setattr(account, "run", finite)
    with pytest.raises(
        testing.CheckError, match=r"epsilon_exact is \[1.0, .* where no noise is added; must be infinite"
    ):
        testing._check_accounting(aging, {})


def test_a_delta_that_is_not_followed_is_found(monkeypatch):
    from pwfl.systems.multicell import account

    tiny = registry.system("multicell").catalog.tiny | {"system": "multicell", "realizations": 3}
    model, original = resolve(tiny | {"training_realizations": 2}, {}), account.exact_epsilon
    monkeypatch.setattr(account, "exact_epsilon", lambda rho, delta: original(rho, 1e-5))
    with pytest.raises(testing.CheckError, match="epsilon_exact does not grow as delta falls"):
        testing._check_accounting(model, testing._given(model))


def test_a_report_that_differs_from_the_catalog_is_found(aging, monkeypatch):
    from pwfl.systems.age_aware import report

    original = report.summarize
    monkeypatch.setattr(report, "summarize", lambda *arguments: {"more": pl.DataFrame()} | original(*arguments))
    with pytest.raises(testing.CheckError, match=r"summarize lacks nothing, the catalog lacks \['more'\]"):
        testing._check_report(aging)
