"""docs/how-to/python.md: each example has five lines at most, runs alone, and its value is the one that the page shows."""

import ast
import re

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import pwfl  # noqa: F401  # before Polars, as on the page
from conftest import ROOT, python

PAGE = (ROOT / "docs/how-to/python.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^### (.*?)$.*?^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE))
SHOWN = dict(re.findall(r"^### (.*?)$.*?^```text\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE))
NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"


def value(code: str):
    """The value of an example's last line, in a namespace of its own."""
    *before, last = ast.parse(code).body
    names = {}
    exec(compile(ast.Module(before, []), "example", "exec"), names)
    return eval(compile(ast.Expression(last.value), "example", "eval"), names)


def test_the_five_examples_are_of_five_lines():
    assert len(EXAMPLES) == 5
    assert EXAMPLES.keys() == SHOWN.keys()
    for code in EXAMPLES.values():
        lines = [line for line in code.splitlines() if line]
        assert len(lines) <= 5
        assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_has_the_value_that_the_page_shows(title):
    found, shown = repr(value(EXAMPLES[title])), SHOWN[title]
    assert re.sub(NUMBER, "", found).split() == re.sub(NUMBER, "", shown).split()
    numbers = [[float(number) for number in re.findall(NUMBER, text)] for text in (found, shown)]
    assert numbers[0]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-5, abs=0.003 if "training" in title else 0)  # a test image


@pytest.mark.slow
def test_the_example_of_several_processes_has_a_result_for_each_seed(tmp_path):
    (code,) = re.findall(r"^```py\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "several.py").write_text(code)
    one, two = ast.literal_eval(python(tmp_path / "several.py", check=True).stdout)
    assert one > 0
    assert two > 0
    assert one != two


def delta(epsilon: float, mu: float) -> float:
    """Of a Gaussian mechanism (Balle and Wang, 2018, Theorem 8)."""
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def test_the_epsilon_and_the_calibrated_noise_are_those_of_the_closed_form():
    epsilon = value(EXAMPLES["An epsilon"])
    mu = 0.2 * np.sqrt(200)
    assert epsilon == pytest.approx(brentq(lambda e: delta(e, mu) - 1e-5, 1, 100), rel=1e-6)
    noise_std = value(EXAMPLES["Noise calibrated to a target epsilon"])
    assert delta(2.0, 0.1 * np.sqrt(60) / noise_std) == pytest.approx(1e-5, rel=1e-4)


def test_a_schedule_gives_a_block_of_a_cell_to_one_user_and_the_audit_sees_too_little_noise():
    code = EXAMPLES["A schedule"].replace('.filter(scheme="OptSched")[:4, :6]', "")
    schedule = value(code).drop_nulls("resource_block")
    users = value(code.replace('["schedule"]', '["users"]'))
    keys = ["realization", "user"]
    held = schedule.join(users.select(*keys, "cell"), on=keys).select("scheme", "realization", "cell", "resource_block")
    assert len(held) > 10
    assert not held.is_duplicated().any()
    audited = EXAMPLES["An audit"]
    assert value(audited)["status"].to_list()[0] == "failed"
    assert set(value(audited.replace("0.97", "1.0").replace("[:2]", ""))["status"]) == {"passed"}
