"""One run at a time: a lock is its process's, whatever is removed, and says whose it is."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from conftest import environment, python
from pwfl.runtime import locks

HOLDER = (
    "import sys; from pwfl.runtime import locks; locks.hold(sys.argv[2:], sys.argv[1]); print(1, flush=True); input()"
)


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the locks `one` and `two`, until its input ends."""
    call = [sys.executable, "-c", HOLDER, str(tmp_path / "locks"), "one", "two"]
    process = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
    assert process.stdout.readline() == b"1\n"
    yield process
    process.stdin.close()
    process.wait()


def test_what_another_process_holds_is_refused_by_its_name(holder, tmp_path):
    locks.hold(["three"], str(tmp_path / "locks"))
    for name in ("one", "two"):
        with pytest.raises(locks.BusyError, match=f"^{name}: process {holder.pid} on .* is at work on it"):
            locks.hold([name], str(tmp_path / "locks"))
    with pytest.raises(locks.BusyError, match=r"^two: "):
        locks.hold(["four", "two"], str(tmp_path / "locks"))


@pytest.mark.parametrize("killed", [False, True])
def test_a_lock_ends_with_its_process(holder, tmp_path, killed):
    lock = tmp_path / "locks" / "one.lock"
    lock.write_text("process 1234567890 on a host of a very long name, which was here before")
    if killed:
        holder.kill()
    holder.stdin.close()
    holder.wait()
    locks.hold(["one", "two"], str(tmp_path / "locks"))
    assert lock.read_text() == f"process {os.getpid()} on {os.uname().nodename}"
    assert oct(lock.stat().st_mode & 0o700) == "0o600"


def test_an_owner_that_has_not_said_who_it_is_is_another_process(holder, tmp_path):
    (tmp_path / "locks" / "one.lock").write_text("")
    with pytest.raises(locks.BusyError, match=r"^one: another process is at work"):
        locks.hold(["one"], str(tmp_path / "locks"))


def test_a_held_lock_stays_when_more_are_taken(tmp_path):
    folder = str(tmp_path / "locks")
    locks.hold(["mine"], folder)
    locks.hold(["other"], folder)
    second = python("-c", HOLDER, folder, "mine")
    assert f"BusyError: mine: process {os.getpid()} on" in second.stderr


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_left_to_snakemake(tmp_path, monkeypatch, number):
    tried = []

    def without(file, operation):
        tried.append(operation)
        raise OSError(number, "no locks")

    monkeypatch.setattr(fcntl, "flock", without)
    locks.hold(["one", "two"], str(tmp_path))
    assert tried == [fcntl.LOCK_EX | fcntl.LOCK_NB] * 2
    assert (tmp_path / "two.lock").read_text() == ""


def test_other_errors_are_errors(tmp_path, monkeypatch):
    def failing(file, operation):
        raise OSError(errno.EIO, "broken")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(fcntl, "flock", failing)
    with pytest.raises(OSError, match="broken"):
        locks.hold(["one"], str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before
