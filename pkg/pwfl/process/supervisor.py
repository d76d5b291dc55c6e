"""A job's process does no work itself: it supervises one that does, a *worker*, and starts another one where it must.

So a job ends soon when it is told to, or when its Snakemake is gone, whatever a worker is doing then: some solvers hold
the interpreter's lock for minutes, and no thread or signal handler of their process would run. And what a worker does
to its process ends with it: a crash is an error of the task that it was at, memory that it does not give back is the
system's again, and its temporary files go, such as those that TensorFlow's Autograph writes. So do the processes that
it started and left behind, daemons included.

A job imports this module before all else, so it imports little.
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
SECONDS = 0.5  # between looks at whether it lives
POLL_SECONDS = 0.01  # between looks at processes that are about to end
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PARENT_DEATH_SIGNAL, CHILD_SUBREAPER = 1, 36  # PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER of Linux
ENDINGS = {signal.SIGTERM: 1.0, signal.SIGKILL: 5.0}  # seconds that processes which a worker left have to end
TEMPORARY = tempfile.gettempdir()  # everybody's; a worker has a folder of its own in it


class Reporter:
    """How a worker tells its supervisor which tasks it is at, and which failed."""

    def __init__(self, pipe: int) -> None:
        self.pipe, self.worker = pipe, os.getpid()

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
        if os.getpid() == self.worker:  # a process that it forked and that came back reports nothing
            os.write(self.pipe, json.dumps(message).encode() + b"\n")


Work = Callable[[set[str], Reporter], bool]


def hand_over() -> None:
    """Tell the jobs that this process starts which one it is."""
    os.environ[VARIABLE] = str(os.getpid())


def answer_in_a_thread() -> None:
    """Have a TERM answered by a thread: Snakemake's handler takes a lock that the main thread may hold.

    Snakemake then waits for the jobs that run; a second TERM ends them as Ctrl-C does.
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


def run_apart(function: Callable[[], None]) -> None:
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
    """Takes note of signals that end a process, as long as it lives.

    What is ignored stays so: a workflow's Ctrl-C, which it answers itself before it tells its jobs to end.
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
    """The tasks that a worker was at when it ended, whether it was finished (None: it did not say), its exit status.

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
            os.setsid()  # by whose number what it leaves is found
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
    """A worker's messages, read from a pipe, whose end is not the worker's: processes that it left hold it, too."""

    def __init__(self, pipe: io.RawIOBase) -> None:
        os.set_blocking(pipe.fileno(), False)
        self.pipe, self.read, self.is_open = pipe, b"", True
        self.pause = POLL_SECONDS

    def wait(self) -> None:
        """Wait a while for a message, or for the pipe's end, which is usually that of the worker."""
        if not self.is_open:
            time.sleep(self.pause)
            self.pause = min(2 * self.pause, SECONDS)  # it closed the pipe itself, and goes on
        elif select.select([self.pipe], [], [], SECONDS)[0]:
            self._take()

    def all(self) -> list[dict]:
        """The messages up to now."""
        while self.is_open and self._take():
            pass
        return [json.loads(line) for line in self.read.split(b"\n")[:-1]]

    def _take(self) -> bool:
        chunk = self.pipe.read(2**16)  # None: it has nothing now
        self.read += chunk or b""
        self.is_open = chunk != b""
        return bool(chunk)


def _be_worker(work: Work, failed: set[str], reporter: Reporter, supervisor: int) -> None:
    """Work, in a process that dies with its supervisor, and end."""
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
    """Set what Linux's prctl sets of this process; whether that was done."""
    with suppress(OSError, AttributeError):
        return ctypes.CDLL(None, use_errno=True).prctl(option, value) == 0
    return False


def _adopt() -> bool:
    """Have orphans among the processes that come from this one become its children (Linux); whether they do."""
    return _set(CHILD_SUBREAPER, 1)


def _descendants(others: set[psutil.Process]) -> set[psutil.Process]:
    """The processes that come from this one and still run, except its children `others` and what comes from them."""
    children = set(psutil.Process().children()) - others
    pids = set(children)
    for child in children:
        with suppress(psutil.NoSuchProcess):
            pids.update(child.children(recursive=True))
    return {process for process in pids if not _is_over(process)}


def _end_descendants(others: set[psutil.Process], session: int | None) -> None:
    """End the processes that come from this one, except its children `others`; and those of the group `session`.

    They get a moment to clean up: in it Python's processes that own semaphores and shared memory delete these.
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
    """Send a signal to a group of processes (0: none); whether there are any."""
    with suppress(OSError):
        os.killpg(group, number)
        return True
    return False


def _is_over(process: psutil.Process) -> bool:
    """Whether a process that comes from this one has ended; of one that became its child nothing stays."""
    with suppress(ChildProcessError):  # its parent is another one
        return os.waitpid(process.pid, os.WNOHANG)[0] != 0
    with suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True


def _die_with(parent: int) -> None:
    """Have the system kill this process when the thread that forked it ends, however it does (Linux)."""
    _set(PARENT_DEATH_SIGNAL, signal.SIGKILL)
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
