"""The workflow on a real SLURM: one node on loopback, in a mount namespace of its own."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from conftest import ONE, ROOT, assert_one_is_as_in_small, environment, need, plugin, write_config

pytestmark = pytest.mark.slurm

NODE = """
set -eu
mount --bind "$1/etc" /etc/slurm
munged --force --key-file="$1/munge.key" --socket="$1/munge.socket" --pid-file="$1/munged.pid" \
  --log-file="$1/munged.log" --seed-file="$1/munge.seed"
slurmctld -c
slurmd -N localhost
exec sleep infinity
"""


@pytest.fixture(scope="module")
def executor(tmp_path_factory):
    """The folder of Snakemake's executor plugin."""
    return plugin("slurm", tmp_path_factory.mktemp("plugin"))


@pytest.fixture(scope="module")
def node():
    """The process in whose mount namespace the node runs."""
    need("slurm-wlm", "munge")
    if os.geteuid() != 0:
        pytest.skip("a mount namespace needs root")
    # SLURM's sockets need short names, which pytest's folders do not have.
    folder = Path(subprocess.check_output(["mktemp", "-d", "/tmp/slurm.XXXXXX"], text=True).strip())
    for name in ("etc", "ctld", "slurmd"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    for name in ("slurm.conf", "cgroup.conf"):
        text = (ROOT / "tests" / "slurm" / name).read_text()
        (folder / "etc" / name).write_text(text.replace("RUNDIR", str(folder)))
    Path("/etc/slurm").mkdir(exist_ok=True)
    holder = subprocess.Popen(["unshare", "--mount", "bash", "-c", NODE, "node", str(folder)])
    try:
        deadline = time.monotonic() + 60
        while "idle" not in inside(holder, "sinfo", "--noheader", "--format=%T", check=False).stdout:
            assert holder.poll() is None, "the SLURM node did not start"
            assert time.monotonic() < deadline, "the SLURM node did not become idle"
            time.sleep(1)
        yield holder
    finally:
        for pid_file in ("slurmd.pid", "slurmctld.pid", "munged.pid"):
            if (folder / pid_file).exists():
                os.kill(int((folder / pid_file).read_text()), signal.SIGTERM)
        holder.kill()
        holder.wait()
        time.sleep(2)
        shutil.rmtree(folder, ignore_errors=True)


def inside(holder, *command, check=True, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", "--", *command],
        capture_output=True, text=True, check=check, **options,
    )  # fmt: skip


def submit(holder, folder, *arguments) -> list[str]:
    """A command line that runs a study on the node."""
    return [
        "nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", "--",
        sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder),
        "--workflow-profile", str(ROOT / "profiles" / "slurm"), "--configfile", str(folder / "study.yaml"),
        "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "10",
        "--default-resources", "slurm_partition=debug", "slurm_account=none", "mem_mb=500", "runtime=5", *arguments,
    ]  # fmt: skip


def test_a_killed_and_resumed_cluster_run_equals_a_local_one(node, executor, finished, tmp_path):
    write_config(tmp_path, ONE)
    with open(tmp_path / "first.log", "w") as log:
        env = environment(ROOT, executor)
        first = subprocess.Popen(submit(node, tmp_path), cwd=tmp_path, env=env, stdout=log, stderr=log)
        deadline = time.monotonic() + 240
        while not list(tmp_path.glob("store/schedule/*/*/schedule.parquet")):
            assert first.poll() is None, (tmp_path / "first.log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "first.log").read_text()
            time.sleep(0.5)
        first.kill()
        first.wait()
    inside(node, "scancel", "--user=root")
    while inside(node, "squeue", "--noheader").stdout.strip():
        time.sleep(1)

    submitted = submit(node, tmp_path)
    resumed = subprocess.run(submitted, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert_one_is_as_in_small(tmp_path, finished)


def test_two_submissions_on_one_store_share_it(node, executor, finished, tmp_path):
    env, runs = environment(ROOT, executor), []
    (tmp_path / "shared").mkdir()
    for name in ("a", "b"):
        write_config(tmp_path / name, ONE)
        (tmp_path / name / "store").symlink_to(tmp_path / "shared")
        call = submit(node, tmp_path / name, "--until", "train", "account")
        with open(tmp_path / f"{name}.log", "w") as log:
            runs.append(subprocess.Popen(call, cwd=tmp_path / name, env=env, stdout=log, stderr=log))
    assert [run.wait(400) for run in runs] == [0, 0], (tmp_path / "a.log").read_text() + (
        tmp_path / "b.log"
    ).read_text()
    for path in sorted(tmp_path.glob("shared/*/*/*/*.parquet")):
        own = pl.read_parquet(path)
        assert own.equals(pl.read_parquet(finished / "store" / path.relative_to(tmp_path / "shared"))), path
    assert list((tmp_path / "shared/.partial").iterdir()) == []
