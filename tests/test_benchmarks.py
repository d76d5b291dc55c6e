"""Benchmarks run: what they time is what the package computes, and faults that `make mutants` makes are seen."""

import subprocess
import sys
import tomllib

import numpy as np
import pytest

from conftest import ROOT, environment

sys.path.append(str(ROOT / "benchmarks"))

import gpu
import mutants
import training

PACKAGE = ROOT / mutants.PACKAGE


def test_mutants_that_may_survive_are_of_lines_that_there_are():
    explained = tomllib.loads((ROOT / "benchmarks" / "survivors.toml").read_text(encoding="utf-8"))
    for module, rows in explained.items():
        lines = {line.strip() for line in (PACKAGE / module).read_text(encoding="utf-8").splitlines()}
        assert [row["line"] for row in rows if row["line"] not in lines] == []


@pytest.mark.slow
def test_tests_pass_in_a_copy_of_the_project_and_fail_in_one_with_a_fault():
    module, tests = "privacy/target.py", ["tests/test_target.py"]
    source = (PACKAGE / module).read_text(encoding="utf-8")
    assert tests[0] in mutants.tests_of(module)
    assert mutants.run_tests(tests) == ""
    faulty = next(mutant for mutant in mutants.mutants(source) if mutant.line == "return np.exp(x)")
    assert mutants.run_tests(tests, module, faulty.source).startswith(tests[0])


@pytest.mark.slow
def test_the_gpus_benchmark_trains_the_same_in_a_batch_and_alone():
    case = gpu.Case("tiny", [8, 5, 3], records=40, realizations=3, rounds=2, most_ms=1e6)
    row = gpu.row(case, "/CPU:0")
    assert row["same_bits_twice"]
    assert row["difference"] <= gpu.CLOSE


@pytest.mark.slow
def test_the_round_that_is_timed_is_the_one_that_it_is_compared_with(monkeypatch):
    monkeypatch.setattr(training, "CLIP", 1e6)  # of records' gradients here, of users' there
    weights, x, y, samples, noise = training.workload()
    quiet = np.zeros_like(noise)
    ours, _ = training.fused(weights, x, y, training.tf.constant(training.average_noise(samples, quiet)))()
    one_round = training.user_by_user(weights, x, y, samples, quiet)
    theirs = weights
    for _ in range(training.ROUNDS):
        theirs = one_round(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_workloads_of_all_other_frameworks_are_written(tmp_path):
    code = f"import peers; [peers.save(one.workload, r'{tmp_path / 'workload.npz'}') for one in peers.PEERS]"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benchmarks", env=environment(), check=True)
