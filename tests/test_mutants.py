"""The generator of mutants: what it changes, what it leaves, which tests it asks, and that argued survivors are there."""

import ast
import sys
import tomllib

import pytest

from conftest import ROOT, python

sys.path.append(str(ROOT / "benchmarks"))

import mutants


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b <= c", {("a < b <= c", "(a <= b <= c)"), ("a < b <= c", "(a < b < c)")}),
        ("a in b", {("a in b", "(a not in b)")}),
        ("a is None", {("a is None", "(a is not None)")}),
        ("a + b ** c", {("a + b ** c", "(a - b ** c)"), ("b ** c", "(b * c)")}),
        ("a and b and c", {("a and b and c", "(a or b or c)")}),
        ("not a", {("not a", "(a)")}),
        ("x = -3", {("-3", "(3)"), ("3", "(7)")}),
        ("x = 0.5", {("0.5", "(2.0)")}),
        ("x = True", {("True", "False")}),
        ("x = a if b else c", {("a if b else c", "(c if b else a)")}),
        ("f(a)", {("f(a)", "pass")}),
        ("raise a", {("raise a", "pass")}),
        ("a += b", {("a += b", "pass")}),
        ("def f():\n    return a", {("return a", "return None")}),
        ("for a in b:\n    continue", {("continue", "break")}),
        ("while a:\n    break", {("break", "continue")}),
        # Texts, annotations, decorators and checks of lengths are left.
        ("'text'", set()),
        ("def f(a: int | None) -> int | None:\n    'text'", set()),
        ("x: int | str", set()),
        ("f'{a + 1} of {b}'", set()),
        ("return_ = None", set()),
        ("def f():\n    return None", set()),
        ("@f(1)\ndef g():\n    pass", set()),
        ("x = zip(a, b, strict=True)", set()),
    ],
)
def test_each_kind_of_change_is_made_and_no_other(source, expected):
    assert {(mutant.old, mutant.new) for mutant in mutants.mutants(source)} == expected


def test_a_mutant_is_the_source_but_for_one_place():
    source = "a = 'größer', b < c  # why\nd = [\n    e\n    + f,\n]\n"
    (first, second) = mutants.mutants(source)
    assert first.source == source.replace("b < c", "(b <= c)")
    assert first.line == "a = 'größer', b < c  # why"
    assert second.source == source.replace("e\n    + f", "(e - f)")


def test_every_mutant_of_the_package_is_another_program():
    count = 0
    for path in sorted((ROOT / mutants.PACKAGE).rglob("*.py"))[::16]:
        source = path.read_text(encoding="utf-8")
        original = ast.dump(ast.parse(source))
        for mutant in mutants.mutants(source):
            assert ast.dump(ast.parse(mutant.source)) != original, (path, mutant[:3])
            count += 1
    assert count > 250


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("process/guard.py", ["test_user_code.py"]),
        ("systems/age_aware/noise.py", ["test_age_aware.py"]),
        ("tables/contract.py", ["test_tables.py"]),
        ("systems/multicell/optimal_noise.py", ["test_noise.py"]),
    ],
)
def test_the_tests_of_a_module_are_those_that_import_or_name_it(module, expected):
    assert mutants.tests_of(module)[: len(expected)] == [f"tests/{test}" for test in expected]


def test_every_module_has_tests():
    paths = (ROOT / mutants.PACKAGE).rglob("*.py")
    modules = [str(path.relative_to(ROOT / mutants.PACKAGE)) for path in paths]
    assert [module for module in modules if not mutants.tests_of(module)] == []


def test_argued_survivors_are_mutants_that_there_are():
    argued = tomllib.loads((ROOT / "benchmarks/survivors.toml").read_text(encoding="utf-8"))
    for module, rows in argued.items():
        source = (ROOT / mutants.PACKAGE / module).read_text(encoding="utf-8")
        found = {mutant[:3] for mutant in mutants.mutants(source)}
        for row in rows:
            assert (row["line"], row["old"], row["new"]) in found, (module, row)
            assert row["why"]


def small_project(folder, test: str) -> None:
    """A project of one module, and a test of it."""
    for name in ("pkg/pwfl", "benchmarks", "tests"):
        (folder / name).mkdir(parents=True)
    for name in ("mutants.py", "measure.py"):
        (folder / "benchmarks" / name).write_text((ROOT / "benchmarks" / name).read_text(encoding="utf-8"))
    (folder / "pkg/pwfl/__init__.py").touch()
    (folder / "pkg/pwfl/size.py").write_text("def larger(a, b):\n    return a > b\n")
    (folder / "tests/test_size.py").write_text(f"from pwfl import size\n\n\ndef test_it():\n    {test}\n")
    (folder / "benchmarks/survivors.toml").touch()


def tried_out(folder) -> tuple[int, str]:
    run = python("benchmarks/mutants.py", "size", cwd=folder)
    return run.returncode, run.stdout + run.stderr


def test_what_tests_notice_is_killed_and_what_survives_must_be_argued(tmp_path):
    small_project(tmp_path, "assert size.larger(2, 1)")
    status, said = tried_out(tmp_path)
    assert status == 1
    assert "size.py: 'return a > b': 'a > b' -> '(a >= b)' survives (UNEXPLAINED)" in said
    assert "size.py: 1 of 2 killed, of 2 that there are" in said
    why = '[["size.py"]]\nline = "return a > b"\nold = "a > b"\nnew = "(a >= b)"\nwhy = "it may"\n'
    (tmp_path / "benchmarks/survivors.toml").write_text(why)
    status, said = tried_out(tmp_path)
    assert status == 0
    assert "survives (it may)" in said


def test_tests_that_fail_without_a_fault_tell_nothing(tmp_path):
    small_project(tmp_path, "assert size.larger(1, 2)")
    status, said = tried_out(tmp_path)
    assert status == 1
    assert "size.py: without a fault, too, there fails tests/test_size.py::test_it" in said
