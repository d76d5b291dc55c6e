"""What every system owes: the five that come along, the example outside of the package, and systems that fail."""

import os
import re
import shutil
import zipfile
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import polars as pl
import pytest

from conftest import PWFL, ROOT, environment, in_turn, python
from pwfl import registry, streams, testing
from pwfl.privacy import accountant, composition
from pwfl.privacy.labels import Kind, gives
from pwfl.scenario import resolve
from pwfl.systems.age_aware import account, noise, report, schedule
from pwfl.tables import contract
from pwfl.testing import audited, declared, draws, repeated, reported, stated, tiny
from pwfl.testing.tiny import CheckError

RERUNS = ROOT / "tests" / "reruns"


@pytest.mark.parametrize("system", in_turn(registry.BUILT_IN, "random_orthogonalization"))
def test_a_system_does_what_every_system_owes(system):
    testing.check_system(system)


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_each_parameter_computes_anew_what_was_found_right(system):
    found = testing.check_system(system, testing.CHEAP)
    known = pl.read_csv(RERUNS / f"{system}.csv", quote_char=None, separator="\t")
    # Which stages compute anew when a parameter changes, as it was looked at and found right.
    assert dict(found.select("parameter", "stages").iter_rows()) == {
        parameter: stages or "" for parameter, stages in known.iter_rows()
    }


EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml"))


@pytest.fixture(scope="module", params=[*EXAMPLES, pytest.param("just_begun", marks=pytest.mark.slow)])
def outside(request, tmp_path_factory):
    """A system outside of the package: its name, the environment in which it is installed, and its study."""
    folder = tmp_path_factory.mktemp("outside")
    source = folder / request.param  # pip builds in the folder
    if request.param in EXAMPLES:
        shutil.copytree(ROOT / "examples" / request.param, source)
    else:
        python(*PWFL[1:], "new", request.param, cwd=folder, check=True)
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--target", folder / "site")
    python("-m", "pip", "install", *options, source, check=True)
    return request.param, environment(ROOT, folder / "site"), source / "study.yaml"


@pytest.mark.parametrize("steps", in_turn([(testing.CHEAP,), ((),)], (testing.CHEAP,)), ids=["cheap", "all"])
def test_a_system_outside_of_the_package_does_so_too(outside, steps):
    name, env, _ = outside
    checked = python(*PWFL[1:], "test", name, *(f"--only={step}" for step in steps), env=env)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{name}: passed " in checked.stdout


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_editable_installation_is_a_path_that_no_folder_of_the_same_name_hides(example, tmp_path):
    source = shutil.copytree(ROOT / "examples" / example, tmp_path / example)
    build = f"from setuptools import build_meta; build_meta.build_editable({str(tmp_path)!r})"
    python("-c", build, cwd=source, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".pth"))
        assert archive.read(name).decode().strip() == str(source)


@pytest.mark.slow
def test_a_system_outside_of_the_package_runs_through_the_workflow(outside, tmp_path):
    _, env, study = outside
    options = ("--workflow-profile", "none", "--configfile", study, "--cores", "2")
    run = python("-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--directory", tmp_path, *options, env=env)
    assert run.returncode == 0, run.stdout + run.stderr
    assert list((tmp_path / "results").glob("*/claims.csv"))


def test_an_unknown_system_and_a_package_that_is_not_there_are_named(monkeypatch, capsys):
    assert not testing.report("multicel")
    assert "there is no system 'multicel'; known: multicell, " in capsys.readouterr().err
    monkeypatch.setattr(registry, "claims", lambda: {"lost": ("nowhere_to_be_found",)})
    assert not testing.report("lost")
    assert "system 'lost' has no module nowhere_to_be_found: " in capsys.readouterr().err


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


SHARDS, DRAWS, ACCOUNTING = repeated.check_chunks, draws.check_draws, stated.check_accounting
FAULTS = {  # check, module, its table, and the table with a fault, of the tables that the stage makes and reads
    "mixes realizations": (
        SHARDS, noise, "noise", lambda made, read: made.with_columns(pl.col("noise_scale_wh") * read["schedule"].height),
        "random: realization 0 depends on other realizations of its chunk: table noise",
    ),
    "draws from elsewhere": (
        SHARDS, schedule, "schedule",
        lambda made, _: made.with_columns(required_epsilon=np.random.default_rng().random(made.height)),
        "two runs differ",
    ),
    "draws by a seed of its own": (
        DRAWS, noise, "noise", lambda made, _: made.with_columns(noise_scale_wh=made["realization"] + 1.0),
        "although all of `pwfl.streams` was held fixed",
    ),
    "draws for a purpose of another stage": (
        DRAWS, noise, "noise", drawing_twice("schedule"), "schedule and noise both use the stream 'schedule'",
    ),
    "draws what is not used": (
        DRAWS, noise, "noise", drawing_twice("unused"),
        "the stream 'unused' of noise has no effect when the realization changes",
    ),
    "guarantees without noise": (
        ACCOUNTING, account, "outcome", lambda made, _: made.with_columns(epsilon=pl.lit(1.0)),
        r"epsilon is \[1.0, .* without noise; must be infinite",
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


def test_a_fault_that_several_steps_meet_is_said_once_with_the_line_that_called_a_library(monkeypatch):
    def faulty(scenario, tables):
        return tables["users"].select("sampels")  # this line

    monkeypatch.setattr(account, "run", faulty)
    with pytest.raises(testing.CheckError) as caught:
        testing.check_system("age_aware", ("accounting", "users", "draws"))
    (fault,) = str(caught.value).splitlines()
    line = Path(__file__).read_text(encoding="utf-8").partition("# this line")[0].count("\n") + 1
    assert re.match(r'accounting, users(, draws)?: ColumnNotFoundError: .*"sampels"', fault)
    assert fault.endswith(f"({__file__}, line {line})")


def test_a_table_that_the_system_does_not_let_a_stage_read_is_named(aging, monkeypatch):
    reads = registry.reads
    monkeypatch.setattr(registry, "reads", lambda *of: ("users",) if of[1] == "noise" else reads(*of))
    with pytest.raises(KeyError, match="stage noise uses the table 'schedule', which is not among its inputs"):
        repeated.check_chunks(aging, {})


def test_a_stage_that_imports_another_one_is_found(aging, monkeypatch):
    monkeypatch.setattr(declared, "_modules_run", lambda module: {module, "pwfl.systems.age_aware.train"})
    with pytest.raises(testing.CheckError, match=r"age_aware.channel imports pwfl.systems.age_aware.train; move code"):
        declared.check_modules(aging, {})


@pytest.mark.parametrize(("table", "name"), [("history", "clipped_share"), ("users", "samples")])
def test_a_column_that_does_not_say_what_it_reveals_is_found_and_withheld(monkeypatch, table, name):
    model, kind = scenario("multicell"), contract.schema("multicell", table)
    declared.check_columns(model, {})
    monkeypatch.setattr(kind.columns()[name], "metadata", None)
    for owner in kind.__mro__:
        if "REVEALS" in vars(owner):
            monkeypatch.delattr(owner, "REVEALS")
    assert name in contract.private("multicell", table)
    with pytest.raises(
        testing.CheckError, match=f"the table {table} does not declare what .*{name}.* of users' records"
    ):
        declared.check_columns(model, {})


def test_a_delta_that_is_not_followed_is_found(monkeypatch):
    model, original = scenario("multicell"), accountant.exact_epsilon
    monkeypatch.setattr(accountant, "exact_epsilon", gives(Kind.EXACT)(lambda rho, delta: original(rho, 1e-5)))
    with pytest.raises(testing.CheckError, match="epsilon must grow as delta falls"):
        stated.check_accounting(model, tiny.prepare(model))


def test_losses_that_are_less_than_the_epsilon_of_a_release_are_found(aging, monkeypatch):
    def halves(_scenario, each):
        return [composition.Loss(pure=epsilon / 2) for epsilon in each["epsilon_server"]]

    monkeypatch.setattr(report, "published", halves)
    with pytest.raises(testing.CheckError, match="random: `published` of report has losses with epsilon "):
        reported.check_report(aging, {})


def test_a_report_that_differs_from_the_catalog_is_found(aging, monkeypatch):
    original = report.summarize
    monkeypatch.setattr(report, "summarize", lambda *arguments: {"more": pl.DataFrame()} | original(*arguments))
    with pytest.raises(testing.CheckError, match=r"summarize lacks nothing, the catalog lacks \['more'\]"):
        reported.check_report(aging, {})


# Faults in what the example states of its privacy, in how it trains and in how it audits.


@pytest.fixture
def example(monkeypatch):
    """The example outside of the package, in this process: its scenario of two schemes, and a function to patch it."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "local_dp_mac")
    monkeypatch.setattr(registry, "claims", lambda: {"local_dp_mac": ("local_dp_mac.system:SYSTEM",)})

    def patch(place, change):
        module, _, name = place.rpartition(".")
        module = import_module(module if module.startswith("pwfl.") else f"local_dp_mac.{module}")
        monkeypatch.setattr(module, name, change(getattr(module, name)))

    schemes = [{"name": way, "scheduler": way, "noise": "gaussian"} for way in ("over_the_air", "orthogonal")]
    return scenario("local_dp_mac", schemes=schemes), patch


def outcome(**columns):
    """A change of `account.run` that states something else in its table `outcome`."""
    return lambda run: lambda *given: (made := run(*given)) | {"outcome": made["outcome"].with_columns(**columns)}


def without(*tests):
    """A change of `audit.verdicts` that leaves out tests whose names begin so."""
    return lambda right: lambda *given: (each for each in right(*given) if not each.test.startswith(tests))


def reversed_users(table, columns, *keys):
    """A change of a stage's `run`, in whose table users have each other's values."""

    def mixed(made):
        return made | {table: made[table].with_columns(pl.col(columns).reverse().over(keys))}

    return lambda right: lambda *given: mixed(right(*given))


def losses_of_half(right):
    """The module `accountant`, by which half a sensitivity is lost."""

    def accounts(tables, claims, *more):
        return right.accounts(tables, [each._replace(sensitivity=each.sensitivity / 2) for each in claims], *more)

    return SimpleNamespace(**(vars(right) | {"accounts": accounts}))


def by_other_streams(right):
    """An audit whose training draws other numbers than training does."""

    def verdicts(*given):
        functions = {name: getattr(streams, name) for name in ("generator", "key")}
        other = {
            name: lambda seed, purpose, run, function=function: function(seed, f"{purpose} alike", run)
            for name, function in functions.items()
        }
        with mock.patch.multiple(streams, **other):
            yield from right(*given)

    return verdicts


def streams_but(**changed):
    """`pwfl.streams` as it is when it is called, with other functions for some."""
    names = ("generator", "key", "name_noise", "name_tested_noise")
    right = {name: lambda *given, name=name: getattr(streams, name)(*given) for name in names}
    return lambda _: SimpleNamespace(**(right | changed))


GUARANTEE, USERS, AUDIT = stated.check_guarantee, stated.check_users, audited.check_audit
OF_PRIVACY = {  # check, what is changed, how, and what is said
    "epsilon 10 % low": (
        AUDIT, "account.run", outcome(epsilon=0.9 * pl.col("epsilon")),
        "audit: epsilon of the losses of .* train and account disagree",
    ),
    "an audit of a weaker claim": (  # as of all noise, where epsilon counts users' alone
        AUDIT, "account.run", outcome(epsilon=2 * pl.col("epsilon")),
        "the epsilon tested is .*, but .* is stated as exact: test what `account` claims",
    ),
    "half the sensitivity": (
        AUDIT, "pwfl.airs.linear.accountant", losses_of_half, "audit: epsilon of the losses of",
    ),
    "half the noise": (
        AUDIT, "pwfl.training.rounds.receive",
        lambda right: lambda messages, weight, std, *a: right(messages, weight, std / 2, *a),
        "audit: deviation of the noise of",
    ),
    "half the visibility": (
        AUDIT, "receive.run",
        lambda right: lambda *a: (made := right(*a)) | {
            "visibility": made["visibility"].with_columns(pl.col("visibility", "visibility_users_only") / 2)
        },
        "audit: signal of a record of",
    ),
    "no audit": (
        AUDIT, "audit.verdicts", lambda _: lambda *_: iter(()), "no test covers the noise for .*: yield the verdict",
    ),
    "no test of the noise": (AUDIT, "audit.verdicts", without("deviation of the noise"), "no test covers the noise"),
    "no test of the sensitivity": (AUDIT, "audit.verdicts", without("sensitivity"), "no test covers the sensitivity"),
    "no test of the signal": (AUDIT, "audit.verdicts", without("signal"), "no test covers the signal"),
    "no test of epsilon": (AUDIT, "audit.verdicts", without("epsilon"), "no test covers the epsilon itself"),
    "no test of the trainer": (AUDIT, "pwfl.training.audit.trained", lambda _: lambda *_: iter(()), "no test covers the trainer"),
    "an audit of another noise": (
        AUDIT, "audit.verdicts", by_other_streams, "uses none of the random streams of train",
    ),
    "a server that sees nothing": (
        GUARANTEE, "account.run", outcome(epsilon_server=pl.lit(0.0)),
        "realization 0: epsilon_server is 0.0 where epsilon is .*: epsilon_server must cover everything",
    ),
    "proved whoever adds noise": (
        GUARANTEE, "account.run", outcome(epsilon_server_kind=pl.lit("exact"), epsilon_server=pl.lit(300.0)),
        "where users add no noise; other noise, such as a receiver's, proves nothing",
    ),
    "proved by the receiver, too": (
        GUARANTEE, "account.run",
        outcome(epsilon_server=pl.when(pl.col("epsilon_server").is_finite()).then("epsilon").otherwise("epsilon_server")),
        "epsilon_server is proved but counts receiver_std, which no user adds; without it, epsilon_server is",
    ),
    "weights of the noise's stream": (
        DRAWS, "pwfl.training.trainings.streams", streams_but(name_noise=lambda scenario, run, *_: (scenario.seed, "weights", run)), "train uses the stream 'weights' of a realization more than once",
    ),
    "leakage of other users": (
        USERS, "account.run", reversed_users("leakage", ["rho", "epsilon"], "realization"),
        "over_the_air|orthogonal: rho of the table leakage does not follow its user",
    ),
    "noise of other users": (
        USERS, "noise.run", reversed_users("noise", ["receiver_std"], "realization", "round"),
        "orthogonal: rho of the table leakage does not follow its user",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", OF_PRIVACY)
def test_a_fault_of_privacy_is_found(example, fault):
    (model, patch), (check, place, change, message) = example, OF_PRIVACY[fault]
    patch(place, change)
    with pytest.raises(testing.CheckError, match=message):
        check(model, tiny.prepare(model))


def test_an_audit_that_sees_too_little_is_told_what_it_takes(aging, monkeypatch):
    monkeypatch.setattr(audited, "MOST_CANARIES", 100)
    few = aging.model_copy(update={"audit": aging.audit.model_copy(update={"canaries": 2})})
    with pytest.raises(
        testing.CheckError, match=r"stated 10% too low, which needs about .* canaries: give the catalog's `tiny`"
    ):
        AUDIT(few, tiny.prepare(few))


def test_all_steps_are_taken_and_all_faults_told_at_the_end(monkeypatch, capsys):
    right = account.run
    monkeypatch.setattr(account, "run", outcome(epsilon_server=pl.lit(0.0))(right))
    monkeypatch.setattr(report, "FIGURES", {})
    assert not testing.report("age_aware", ["guarantee", "catalog", "parameters"])
    said = capsys.readouterr()
    assert [line.split(": ")[2] for line in said.out.splitlines()] == [
        "1 of 3, catalog", "2 of 3, parameters", "3 of 3, guarantee",
    ]  # fmt: skip
    first, other = said.err.splitlines()
    assert first.startswith(
        "age_aware: catalog: FIGURES of report and the catalog's figures differ: aging, loss, noise"
    )
    assert "age_aware: guarantee: random, constant noise: realization 0: epsilon_server is 0.0 where" in other


# Faults in outsiders' own files, which training is made of.

OF_OUTSIDERS = {  # what their module `train` is, and what is said
    "half the noise in its training": (
        """
import polars as pl

from pwfl.training import plain

parts, batch_trainer = plain.parts, plain.batch_trainer


def trainer(scenario, data, tables):
    noise = tables["reception_noise"].with_columns(pl.col("update_noise_std") / 2)
    return plain.trainer(scenario, data, tables | {"reception_noise": noise})
""",
        "audit: loss of what is trained",
    ),
    "messages twice as loud": (
        """
from pwfl.training import plain, trainings
from pwfl.training.gradients import Gradients


class Louder(Gradients):
    def inputs(self, reception, *rest):
        return super().inputs(reception._replace(weight=2 * reception.weight), *rest)


def parts(*given):
    found = plain.parts(*given)
    own = found.learner
    return found._replace(learner=Louder(own.model, own.clip_norm, own.alike, own.compiled))


trainer, batch_trainer = trainings.trainers(parts)
""",
        "audit: sensitivity of",
    ),
    "noise of one layer alone": (
        """
from pwfl.training import rounds
from pwfl.training.plain import batch_trainer, parts, trainer

received = rounds.receive


def of_one_layer(messages, *given):
    return [received(messages, *given)[0], *messages[1:]]


rounds.receive = of_one_layer
""",
        "audit: deviation of each tensor's noise of",
    ),
}


@pytest.mark.parametrize("fault", in_turn(OF_OUTSIDERS, "half the noise in its training"))
def test_a_fault_in_the_training_of_a_system_outside_of_the_package_is_refused(outside, tmp_path, fault):
    (name, env, _), (train, message) = outside, OF_OUTSIDERS[fault]
    if name == "privacy_for_free":
        pytest.skip("it has a learner of its own, whose faults tests/test_privacy_for_free.py has")
    project, site = env["PYTHONPATH"].split(os.pathsep)
    shutil.copytree(site, tmp_path / "site")
    (tmp_path / "site" / name / "train.py").write_text(train)
    own = env | {"PYTHONPATH": os.pathsep.join([project, str(tmp_path / "site")])}
    checked = python(*PWFL[1:], "test", name, "--only=audit", env=own)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert message in checked.stderr


@pytest.mark.parametrize(
    ("text", "title", "error"),
    [
        ("Of ``{{ scenario }}``.", "", "names a scenario, but its figure compares several"),
        ("Of ``a.", "T", "Inline literal start-string without end-string"),
        (None, "T", "the caption one/captions/figure.rst is missing"),
    ],
)
def test_a_caption_that_cannot_be_shown_is_named(tmp_path, text, title, error):
    path = tmp_path / "one/captions/figure.rst"
    path.parent.mkdir(parents=True)
    if text:
        path.write_text(text)
    with pytest.raises(CheckError, match=re.escape(error)):
        declared._check_caption(path, title)
    path.write_text("Of {{x}} {% x %} *it*.")
    declared._check_caption(path, title)


def test_a_paper_that_says_too_little_is_named():
    paper = {"type": "article", "title": "T", "authors": [{"family-names": "D", "given-names": "J."}], "year": 2021}
    declared._check_paper(paper)
    for key in paper:
        with pytest.raises(CheckError, match=f"paper has no {key}"):
            declared._check_paper(paper | {key: None})
    with pytest.raises(CheckError, match="type 'book': use one of article, "):
        declared._check_paper(paper | {"type": "book"})
    with pytest.raises(CheckError, match="given-names"):
        declared._check_paper(paper | {"authors": [{"family-names": "D"}]})
