"""A job's process does no work itself: it supervises one that does, a *worker*, and starts another one where it must.

So a job ends soon when it is told to, or when its Snakemake is gone, whatever a worker is doing then: some solvers hold
the interpreter's lock for minutes, and no thread or signal handler of their process would run. And what a worker does
to its process ends with it: a crash is an error of the task that it was at, memory that it does not give back is the
system's again, and its temporary files go, such as those that TensorFlow's Autograph writes.

A job imports this module before all else, so it imports little.
"""

import ctypes
import json
import logging
import os
import select
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress

import psutil

from pwfl.errors import describe

log = logging.getLogger(__name__)

VARIABLE = "PWFL_WORKFLOW"  # environment variable: the process number of the Snakemake that starts jobs
SECONDS = 0.5  # between looks at whether it lives
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux
TEMPORARY = tempfile.gettempdir()  # everybody's; a worker has a folder of its own in it


class Reporter:
    """How a worker tells its supervisor which tasks it is at, and which failed."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def begin(self, tasks: list[str]) -> None:
        """Say which tasks are begun, and that those before are finished."""
        self._send({"at": tasks})

    def failed(self, tasks: list[str], error: str) -> None:
        """Say that tasks failed, and why."""
        self._send({"failed": tasks, "error": error})

    def end(self, finished: bool) -> None:
        """Say that the worker ends by itself, and whether nothing is left to do."""
        self._send({"end": finished})

    def _send(self, message: dict) -> None:
        os.write(self.pipe, json.dumps(message).encode() + b"\n")


Work = Callable[[set[str], Reporter], bool]


def hand_over() -> None:
    """Tell the jobs that this process starts which one it is."""
    os.environ[VARIABLE] = str(os.getpid())


def answer_in_a_thread() -> None:
    """Have a TERM answered by a thread: Snakemake's handler takes a lock that the main thread may hold."""
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler):
        signal.signal(signal.SIGTERM, lambda *told: threading.Thread(target=handler, args=told).start())


def supervise(work: Work, cleanup: Callable[[], None] = lambda: None) -> dict[str, str]:
    """Run `work(failed, reporter)` in a worker, and again, in another one, until it says that nothing is left to do.

    `work` leaves out tasks that failed. It returns whether it is finished; where it is not, another worker goes on.
    Returns the errors of the tasks that failed, by task. A worker that ends unexpectedly fails the first task that
    it was at. `cleanup` is called when a worker has ended early. Raises ChildProcessError where one ends without being
    at any.
    """
    failed: dict[str, str] = {}
    received = _Signals()
    while True:
        at, finished, status = _one_worker(work, failed, received)
        if finished:
            return failed
        if finished is False:
            continue
        cleanup()
        if received.number:
            sys.exit(128 + received.number)
        if not at:
            raise ChildProcessError(f"a worker process ended with {_words(status)} before it began")
        failed[at[0]] = f"its process ended with {_words(status)}"


def apart(function: Callable[[], None]) -> None:
    """Run a function in a process of its own, which it may leave in any state. Raises ChildProcessError if it fails.

    The function reports an error by raising it; the error's text is that of the ChildProcessError.
    """

    def work(_: set[str], reporter: Reporter) -> bool:
        try:
            function()
        except Exception as error:
            log.exception("failed")
            reporter.failed([""], describe(error))
        return True

    failed: dict[str, str] = {}
    _, finished, status = _one_worker(work, failed, None)
    if failed or not finished:
        raise ChildProcessError(failed.get("", f"its process ended with {_words(status)}"))


class _Signals:
    """Takes note of signals that end a process, as long as it lives."""

    def __init__(self) -> None:
        self.number = 0
        for number in SIGNALS:
            signal.signal(number, self._note)

    def _note(self, number: int, _frame) -> None:
        self.number = self.number or number


def _one_worker(work: Work, failed: dict[str, str], received: _Signals | None) -> tuple[list[str], bool | None, int]:
    """The tasks that a worker was at when it ended, whether it was finished (None: it did not say), its exit status.

    Errors of tasks are added to `failed`. With `received`, a signal, or the end of the workflow, ends the worker.
    """
    temporary = tempfile.TemporaryDirectory(prefix="pwfl-", ignore_cleanup_errors=True)
    workflow, supervisor = int(os.environ.get(VARIABLE, "0")), os.getpid()
    begin, end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    if not (worker := os.fork()):
        os.close(begin)
        tempfile.tempdir = temporary.name
        _be_worker(work, set(failed), Reporter(end), supervisor)
    os.close(end)
    at: list[str] = []
    finished, rest = None, b""
    with os.fdopen(begin, "rb", buffering=0) as pipe:
        while True:
            if received and not received.number and workflow and not descends(supervisor, workflow):
                received.number = signal.SIGTERM
            if received and received.number:
                os.kill(worker, signal.SIGKILL)
            if select.select([pipe], [], [], SECONDS)[0]:
                if not (chunk := pipe.read(2**16)):
                    break
                *lines, rest = (rest + chunk).split(b"\n")
                for message in map(json.loads, lines):
                    at = message.get("at", at)
                    finished = message.get("end", finished)
                    failed |= dict.fromkeys(message.get("failed", ()), message.get("error"))
    _, status = os.waitpid(worker, 0)
    temporary.cleanup()
    return [task for task in at if task not in failed], finished, os.waitstatus_to_exitcode(status)


def _be_worker(work: Work, failed: set[str], reporter: Reporter, supervisor: int) -> None:
    """Work, in a process that dies with its supervisor, and end."""
    status = 1
    try:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        _die_with(supervisor)
        reporter.end(work(failed, reporter))
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _die_with(parent: int) -> None:
    """Have the system kill this process when the thread that forked it ends, however it does (Linux)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os._exit(1)


def descends(process: int, ancestor: int) -> bool:
    """Whether a process was started by another one, directly or not, that still lives."""
    # Who loses its parent gets another one, so no start times need be compared, which follow a clock that is set.
    with suppress(psutil.NoSuchProcess):
        while process > 1:
            process = psutil.Process(process).ppid()
            if process == ancestor:
                return True
    return False


def memory() -> int:
    """Bytes of memory that this process takes."""
    return psutil.Process().memory_info().rss


def _words(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"exit status {status}"
    name = signal.Signals(-status).name
    return f"{name} (out of memory?)" if name == "SIGKILL" else name
