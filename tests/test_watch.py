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

from conftest import ROOT, environment, python
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
    call = [sys.executable, "-c", WORKFLOW, *command]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    run = subprocess.Popen(call, env=environment(), **pipes)
    try:
        yield run
    finally:
        run.kill()
        run.wait()
        run.stdout.close()


@contextmanager
def watched(*command: str):
    """Such a process whose command runs a job that is watched, and the processes of the job."""
    with workflow(*command) as run:
        job = int(run.stdout.readline())
        assert run.stdout.readline() == "watched\n"
        yield run, [job, *(child.pid for child in psutil.Process(job).children(recursive=True))]


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


@pytest.mark.parametrize("doing", DOING)
def test_a_job_ends_with_its_workflow(doing):
    with watched(sys.executable, "-c", f"{WATCHED}{DOING[doing]}") as (run, processes):
        assert len(processes) == 2
        run.kill()
        run.wait()
        assert gone(processes)


@pytest.mark.parametrize(("shell", "victim"), [("exec", "workflow"), ("stays", "workflow"), ("stays", "shell")])
def test_a_job_under_a_shell_ends_with_its_workflow_or_its_shell(tmp_path, shell, victim):
    (tmp_path / "job.py").write_text(f"{WATCHED}{DOING['sleeps']}")
    command = f"{sys.executable} {tmp_path / 'job.py'}" + ("; true" if shell == "stays" else "")
    with watched("bash", "-c", command) as (run, processes):
        if victim == "shell":
            psutil.Process(processes[0]).parent().kill()
        else:
            run.kill()
            run.wait()
        assert gone(processes)


def test_a_job_whose_workflow_ended_before_its_first_line_does_not_begin(tmp_path):
    begun = tmp_path / "begun"
    waiting = "parent = int(os.environ[watch.VARIABLE])\nwhile os.getppid() == parent:\n    time.sleep(0.05)\n"
    code = f"{JOB}{waiting}watch.start()\nPath({str(begun)!r}).touch()\n"
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
    with watched(sys.executable, "-c", f"{WATCHED}{DOING['sleeps']}") as (_, (_, watcher)):
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
    assert python("-c", code, check=True).stdout.strip() == ""
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
    told = python("-c", HOLDING, timeout=SECONDS, check=True)
    assert told.stdout.split() == ["False", "True"]
