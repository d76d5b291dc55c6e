"""Supervise a *worker*, the process that does a job's work, and start another one when needed.

So a job ends soon after a signal, or after its Snakemake has ended, whatever the worker is doing. Some solvers hold the
interpreter's lock for minutes, and no thread or signal handler of their process would run. Side effects of a worker end
with it: a crash is an error of its current task, and memory that it does not free returns to the system. Its temporary
files, such as those of TensorFlow's Autograph, are deleted. The processes that it started and left behind are ended,
including daemons.

A job imports this module first, so it imports little.
"""

import ctypes
import io
import json
import logging
import os
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from pwfl.errors import describe
from pwfl.process import interrupts

log = logging.getLogger(__name__)

VARIABLE = "PWFL_WORKFLOW"  # environment variable: the process number of the Snakemake that starts jobs
SECONDS = 0.5  # between checks that it is running
POLL_SECONDS = 0.01  # between checks of processes that are about to end
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PARENT_DEATH_SIGNAL, CHILD_SUBREAPER = 1, 36  # PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER of Linux
ENDINGS = {signal.SIGTERM: 1.0, signal.SIGKILL: 5.0}  # seconds until processes that a worker left must have ended
TEMPORARY = tempfile.gettempdir()  # shared; each worker has a separate folder in it


class Reporter:
    """A worker's messages to its supervisor: current tasks, failed tasks, the end."""

    def __init__(self, pipe: int) -> None:
        self.pipe, self.worker = pipe, os.getpid()

    def begin(self, tasks: list[str]) -> None:
        """Report the tasks that are begun; earlier ones are finished."""
        self._send({"at": tasks})

    def failed(self, tasks: list[str], error: str) -> None:
        """Report that tasks failed, and why."""
        self._send({"failed": tasks, "error": error})

    def end(self, finished: bool) -> None:
        """Report that the worker ends by itself, and whether nothing is left to do."""
        self._send({"end": finished})

    def _send(self, message: dict) -> None:
        if os.getpid() == self.worker:  # a process that it forked, and that returns here, reports nothing
            os.write(self.pipe, json.dumps(message).encode() + b"\n")


Work = Callable[[set[str], Reporter], bool]


def hand_over() -> None:
    """Set the environment variable that contains this process's number, for the jobs that it starts."""
    os.environ[VARIABLE] = str(os.getpid())


def answer_in_a_thread() -> None:
    """Handle SIGTERM in a thread: Snakemake's handler acquires a lock that the main thread may hold.

    Snakemake then waits for the jobs that run; a second SIGTERM ends them as Ctrl-C does.
    """
    handler, received = signal.getsignal(signal.SIGTERM), []
    if not callable(handler):
        return

    def answer(number: int, frame) -> None:
        received.append(number)
        if len(received) > 1:
            interrupts.end(number, frame)
        threading.Thread(target=handler, args=(number, frame)).start()

    signal.signal(signal.SIGTERM, answer)


def supervise(work: Work, cleanup: Callable[[], None] = lambda: None) -> dict[str, str]:
    """Run `work(failed, reporter)` in a worker, and in further ones, until nothing is left to do.

    `work` leaves out failed tasks, and returns whether it is finished; if it is not, another worker continues. Returns
    the errors of failed tasks, by task. If a worker ends unexpectedly, `cleanup` is called, and the first of its
    current tasks has failed. Raises ChildProcessError if it had none. After a signal, exits with the status of the
    signal.
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


def run_apart(function: Callable[[], None]) -> None:
    """Run a function in a separate process, which it may leave in any state. Raises ChildProcessError if it fails.

    The message of the ChildProcessError describes the exception that the function raised.
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
    """The number of the first signal to end this process; 0: none so far.

    Ignored signals stay ignored, such as Ctrl-C in a workflow's jobs: the workflow handles it and ends its jobs.
    """

    def __init__(self) -> None:
        self.number = 0
        for number in _not_ignored():
            signal.signal(number, self._note)

    def _note(self, number: int, _frame) -> None:
        self.number = self.number or number


def _not_ignored() -> list[signal.Signals]:
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def _one_worker(work: Work, failed: dict[str, str], received: _Signals | None) -> tuple[list[str], bool | None, int]:
    """Run a worker; return the tasks that it was at when it ended, whether it finished (None: unknown), its status.

    Errors of tasks are added to `failed`. With `received`, a signal, or the end of the workflow, ends the worker.
    """
    temporary = tempfile.TemporaryDirectory(prefix="pwfl-", ignore_cleanup_errors=True)
    workflow, supervisor = int(os.environ.get(VARIABLE, "0")), os.getpid()
    adopts, others = _adopt(), set(psutil.Process().children())
    leads = received is not None and not adopts
    begin, end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    if not (worker := os.fork()):
        os.close(begin)
        tempfile.tempdir = temporary.name
        if leads:
            os.setsid()  # processes that it leaves are found by its number
        _be_worker(work, set(failed), Reporter(end), supervisor)
    os.close(end)
    at: list[str] = []
    finished = None
    with os.fdopen(begin, "rb", buffering=0) as pipe:
        messages = _Messages(pipe)
        while not (ended := os.waitpid(worker, os.WNOHANG))[0]:
            if received and not received.number and workflow and not descends(supervisor, workflow):
                received.number = signal.SIGTERM
            if received and received.number:
                os.kill(worker, signal.SIGKILL)
            messages.wait()
        _end_descendants(others, worker if leads else None)
        for message in messages.all():
            at = message.get("at", at)
            finished = message.get("end", finished)
            failed |= dict.fromkeys(message.get("failed", ()), message.get("error"))
    temporary.cleanup()
    return [task for task in at if task not in failed], finished, os.waitstatus_to_exitcode(ended[1])


class _Messages:
    """A worker's messages, read from a pipe, which processes that the worker left may keep open after its end."""

    def __init__(self, pipe: io.RawIOBase) -> None:
        os.set_blocking(pipe.fileno(), False)
        self.pipe, self.read, self.is_open = pipe, b"", True
        self.pause = POLL_SECONDS

    def wait(self) -> None:
        """Wait a while for a message, or for the pipe's end, which usually is the worker's end."""
        if not self.is_open:
            time.sleep(self.pause)
            self.pause = min(2 * self.pause, SECONDS)  # the worker closed the pipe, and continues
        elif select.select([self.pipe], [], [], SECONDS)[0]:
            self._take()

    def all(self) -> list[dict]:
        """Return the messages received so far."""
        while self.is_open and self._take():
            pass
        return [json.loads(line) for line in self.read.split(b"\n")[:-1]]

    def _take(self) -> bool:
        chunk = self.pipe.read(2**16)  # None: nothing to read now
        self.read += chunk or b""
        self.is_open = chunk != b""
        return bool(chunk)


def _be_worker(work: Work, failed: set[str], reporter: Reporter, supervisor: int) -> None:
    """Do the work in this process, which dies with its supervisor, and exit."""
    status = 1
    try:
        for number in _not_ignored():
            signal.signal(number, signal.SIG_DFL)
        _die_with(supervisor)
        reporter.end(work(failed, reporter))
        status = 0
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _set(option: int, value: int) -> bool:
    """Set an option of this process by Linux's prctl; return whether that succeeded."""
    with suppress(OSError, AttributeError):
        return ctypes.CDLL(None, use_errno=True).prctl(option, value) == 0
    return False


def _adopt() -> bool:
    """Let orphans among this process's descendants become its children (Linux); return whether they do."""
    return _set(CHILD_SUBREAPER, 1)


def _descendants(others: set[psutil.Process]) -> set[psutil.Process]:
    """Return this process's descendants that still run, except its children `others` and their descendants."""
    children = set(psutil.Process().children()) - others
    pids = set(children)
    for child in children:
        with suppress(psutil.NoSuchProcess):
            pids.update(child.children(recursive=True))
    return {process for process in pids if not _is_over(process)}


def _end_descendants(others: set[psutil.Process], session: int | None) -> None:
    """End this process's descendants, except its children `others`, and the processes of the group `session`.

    They get a moment to clean up, in which Python's processes that own semaphores and shared memory delete these.
    """
    left: set[psutil.Process] = set()
    for number, seconds in ENDINGS.items():
        end, signalled = time.monotonic() + seconds, set()
        if session is not None:
            _signal_group(session, number)
        while (left := _descendants(others)) or (session is not None and _signal_group(session, 0)):
            for process in left - signalled:
                with suppress(psutil.Error):
                    process.send_signal(number)
            signalled |= left
            if time.monotonic() > end:
                break
            time.sleep(POLL_SECONDS)
    if left:
        log.warning("processes that could not be ended: %s", ", ".join(str(process.pid) for process in left))


def _signal_group(group: int, number: int) -> bool:
    """Send a signal (0: none) to a group of processes; return whether the group has any."""
    with suppress(OSError):
        os.killpg(group, number)
        return True
    return False


def _is_over(process: psutil.Process) -> bool:
    """Return whether a descendant of this process has ended; if it is a child, remove it from the process table."""
    with suppress(ChildProcessError):  # it is no child
        return os.waitpid(process.pid, os.WNOHANG)[0] != 0
    with suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True


def _die_with(parent: int) -> None:
    """Let the system kill this process when the thread that forked it ends, however it ends (Linux)."""
    _set(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it has already ended
        os._exit(1)


def descends(process: int, ancestor: int) -> bool:
    """Return whether a process was started, directly or not, by an `ancestor` that still runs."""
    # Orphans get another parent, so start times, which change if the clock is set, need not be compared.
    with suppress(psutil.NoSuchProcess):
        while process > 1:
            process = psutil.Process(process).ppid()
            if process == ancestor:
                return True
    return False


def memory() -> int:
    """Return the bytes of memory that this process uses."""
    return psutil.Process().memory_info().rss


def _words(status: int) -> str:
    """Format an exit status in words."""
    if status >= 0:
        return f"exit status {status}"
    name = signal.Signals(-status).name
    return f"{name} (out of memory?)" if name == "SIGKILL" else name
