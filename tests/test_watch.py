"""Jobs end with the Snakemake that started them, whatever they are doing; a process of the test stands in for it."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from conftest import ROOT, environment
from pwfl.runtime import watch

SECONDS = 10.0  # after which a job must be gone
WORKFLOW = """
import subprocess, sys
from pwfl.runtime import watch
watch.hand_over()
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
JOB = """
from pathlib import Path
import os, sys, time
from pwfl.runtime import watch
sys.stdout.write(f"{os.getpid()}\\n")
sys.stdout.flush()
"""
WATCHED = JOB + "watch.start()\nsys.stdout.write('watched\\n')\nsys.stdout.flush()\n"
DOING = {
    "sleeps": "time.sleep(60)",
    "holds the interpreter's lock": "import ctypes\nctypes.PyDLL(None).sleep(60)",
    "imports": "import builtins\nwhile True:\n    for name in list(sys.modules):\n"
    "        if name.startswith('pwfl.') and name != 'pwfl.runtime.watch':\n            del sys.modules[name]\n"
    "    from pwfl import api, tables\n    from pwfl.systems.age_aware import train",
    "ignores signals": "import signal\nfor number in (1, 2, 15):\n    signal.signal(number, signal.SIG_IGN)\n"
    "time.sleep(60)",
    "runs in a session of its own": "os.setsid()\ntime.sleep(60)",
}


@contextmanager
def workflow(*command: str):
    """A process that stands in for Snakemake, which runs a command; killed at the end."""
    run = subprocess.Popen(
        [sys.executable, "-c", WORKFLOW, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    )
    try:
        yield run
    finally:
        run.kill()
        run.wait()
        run.stdout.close()


def gone(processes: list[int], seconds: float = SECONDS) -> bool:
    """Whether no process is left, or soon, but for what its new parent has not seen off."""
    end = time.monotonic() + seconds
    while left := [process for process in processes if alive(process)]:
        if time.monotonic() > end:
            for process in left:
                os.kill(process, signal.SIGKILL)
            return False
        time.sleep(0.05)
    return True


def alive(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def family(job: int) -> list[int]:
    """A job and the processes that it started."""
    return [job, *(child.pid for child in psutil.Process(job).children(recursive=True))]


@pytest.mark.parametrize("doing", DOING)
def test_a_job_ends_with_its_workflow(doing):
    with workflow(sys.executable, "-c", f"{WATCHED}{DOING[doing]}") as run:
        job = int(run.stdout.readline())
        assert run.stdout.readline() == "watched\n"
        processes = family(job)
        assert len(processes) == 2
        run.kill()
        run.wait()
        assert gone(processes)


@pytest.mark.parametrize("shell", ["exec", "stays"])
def test_a_job_under_a_shell_ends_with_its_workflow(tmp_path, shell):
    (tmp_path / "job.py").write_text(f"{WATCHED}{DOING['sleeps']}")
    command = f"{sys.executable} {tmp_path / 'job.py'}" + ("; true" if shell == "stays" else "")
    with workflow("bash", "-c", command) as run:
        job = int(run.stdout.readline())
        assert run.stdout.readline() == "watched\n"
        processes = family(job)
        run.kill()
        run.wait()
        assert gone(processes)


def test_a_job_that_lost_its_shell_ends(tmp_path):
    (tmp_path / "job.py").write_text(f"{WATCHED}{DOING['sleeps']}")
    with workflow("bash", "-c", f"{sys.executable} {tmp_path / 'job.py'}; true") as run:
        job = int(run.stdout.readline())
        assert run.stdout.readline() == "watched\n"
        processes = family(job)
        psutil.Process(job).parent().kill()
        assert gone(processes)


def test_a_job_whose_workflow_ended_before_its_first_line_does_not_begin(tmp_path):
    begun, late = tmp_path / "begun", "time.sleep(0.05)"
    waiting = f"while os.getppid() == {{parent}}:\n    {late}\nwatch.start()\nPath({str(begun)!r}).touch()\n"
    code = JOB + "parent = int(os.environ[watch.VARIABLE])\n" + waiting.replace("{parent}", "parent")
    with workflow(sys.executable, "-c", code) as run:
        job = int(run.stdout.readline())
        run.kill()
        assert f"the workflow that started this job (process {run.pid}) is gone: stopping" in run.stdout.read()
        assert gone([job])
    assert not begun.exists()


@pytest.mark.parametrize("status", [0, 3])
def test_a_job_that_ends_leaves_no_watcher_and_its_status(status):
    start = time.monotonic()
    code = f"{WATCHED}import psutil\nprint(*(c.pid for c in psutil.Process().children()))\nsys.exit({status})"
    with workflow(sys.executable, "-c", code) as run:
        job, _, watcher = run.stdout.read().split()  # until nothing can write any more
        assert run.wait() == status
        assert not psutil.pid_exists(int(job))
        assert not psutil.pid_exists(int(watcher))
    assert time.monotonic() - start < 5


def test_a_watcher_takes_next_to_nothing():
    with workflow(sys.executable, "-c", f"{WATCHED}{DOING['sleeps']}") as run:
        job = int(run.stdout.readline())
        assert run.stdout.readline() == "watched\n"
        _, watcher = family(job)
        time.sleep(3)
        assert sum(psutil.Process(watcher).cpu_times()[:2]) < 0.3


def test_outside_of_a_workflow_nothing_is_watched(monkeypatch):
    monkeypatch.delenv(watch.VARIABLE, raising=False)
    before = psutil.Process().children()
    watch.start()
    assert psutil.Process().children() == before


@pytest.mark.parametrize("script", sorted((ROOT / "scripts").glob("*.py")), ids=lambda path: path.stem)
def test_a_script_is_watched_before_it_imports_anything_else(script):
    assert script.read_text().startswith("from pwfl.runtime import watch\n\nwatch.start()\n")


def test_to_be_watched_takes_no_long_imports():
    code = "import sys; from pwfl.runtime import watch; print(*(m for m in sys.modules if m in ('numpy', 'polars')))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert result.stdout.strip() == ""
    assert Path(watch.__file__).parent == ROOT / "pkg/pwfl/runtime"


HOLDING = """
import signal, threading
from pwfl.runtime import watch
lock, told = threading.Lock(), threading.Event()
def end(*_):
    with lock:
        told.set()
signal.signal(signal.SIGTERM, end)
watch.answer_in_a_thread()
with lock:
    signal.raise_signal(signal.SIGTERM)
    print(told.is_set(), flush=True)
print(told.wait(10))
"""


def test_a_process_that_holds_the_lock_of_its_handler_still_ends():
    told = subprocess.run(
        [sys.executable, "-c", HOLDING], capture_output=True, text=True, env=environment(), timeout=SECONDS, check=True
    )
    assert told.stdout.split() == ["False", "True"]
