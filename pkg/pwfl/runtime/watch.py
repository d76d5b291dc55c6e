"""A job ends when the Snakemake that started it does, whatever it is doing then.

A killed Snakemake leaves its jobs behind, and they would go on writing where the resumed run writes. So Snakemake tells
its process number, and a job's script, before it imports anything else, has itself watched.
"""

import atexit
import os
import select
import signal
import sys
import threading
from contextlib import suppress

import psutil

VARIABLE = "PWFL_WORKFLOW"  # environment variable: the process number of the Snakemake that starts jobs
SECONDS = 1.0  # between looks


def hand_over() -> None:
    """Tell the jobs that this process starts which one it is."""
    os.environ[VARIABLE] = str(os.getpid())


def start() -> None:
    """End this process now if the Snakemake that started it is gone, and as soon as it will be.

    The watcher is a process: a thread would wait for the interpreter's lock, which some solvers hold for minutes. It
    ends with this process. Outside of a workflow nothing is watched.
    """
    if VARIABLE not in os.environ:
        return
    job, workflow = os.getpid(), int(os.environ[VARIABLE])
    if not _descends(job, workflow):
        sys.exit(f"the workflow that started this job (process {workflow}) is gone: stopping")
    ours, alive = os.pipe()
    if watcher := os.fork():
        os.close(ours)  # the other end stays open as long as this process lives
        atexit.register(_end, watcher, alive)
        return
    try:
        os.close(alive)
        _watch(job, workflow, ours)
    finally:
        os._exit(0)


def answer_in_a_thread() -> None:
    """Have a TERM answered by a thread: Snakemake's handler takes a lock that the main thread may hold."""
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler):
        signal.signal(signal.SIGTERM, lambda *told: threading.Thread(target=handler, args=told).start())


def _watch(job: int, workflow: int, pipe: int) -> None:
    """Wait until the job has ended, and its end of the pipe is closed, or kill it when it has lost its workflow."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the job may take its time to end by them
        signal.signal(number, signal.SIG_IGN)
    while not select.select([pipe], [], [], SECONDS)[0]:
        if not _descends(job, workflow) and not select.select([pipe], [], [], 0)[0]:
            os.kill(job, signal.SIGKILL)


def _end(watcher: int, pipe: int) -> None:
    os.close(pipe)  # so that the watcher ends
    os.waitpid(watcher, 0)  # who becomes its parent may not see it off


def _descends(process: int, ancestor: int) -> bool:
    """Whether a process was started by another one, directly or not, that still lives."""
    # Who loses its parent gets another one, so no start times need be compared, which follow a clock that is set.
    with suppress(psutil.NoSuchProcess):
        while process > 1:
            process = psutil.Process(process).ppid()
            if process == ancestor:
                return True
    return False
