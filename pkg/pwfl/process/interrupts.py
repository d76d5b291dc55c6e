"""End a command, or a run with its jobs, at the first Ctrl-C, with one line that contains the command to go on.

Snakemake by itself would answer the second Ctrl-C with tracebacks of the code that is ending.
"""

import atexit
import os
import shlex
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

SCRIPTS = f"{os.sep}.snakemake{os.sep}scripts{os.sep}"  # where Snakemake stores the scripts of jobs
AGAIN_SECONDS = 0.2  # between searches for jobs that still run
CTRL_C = 128 + signal.SIGINT  # the exit status
PATIENCE_SECONDS = 5.0  # after which another Ctrl-C ends the process at once, whatever it is doing

ENDED, STOPPED = "To start again", "What was computed is in the store; to go on with the rest"

_told: list[tuple[int, float]] = []  # the signal that ended this process, and when; empty so far
_meaning = [ENDED]  # the text before the command


def answer(meaning: str) -> None:
    """Let the first Ctrl-C print `meaning` and the command of this process, and raise KeyboardInterrupt.

    If Ctrl-C is ignored, as in the background, it stays so. Call this again before a long wait: once Polars is
    imported, Ctrl-C would not end a wait for a lock, since Polars has the system restart interrupted calls.
    """
    _meaning[:] = [meaning]
    before = signal.getsignal(signal.SIGINT)
    if before in (signal.default_int_handler, end):
        signal.signal(signal.SIGINT, end)
    if before is signal.default_int_handler:
        excepthook = sys.excepthook
        sys.excepthook = lambda kind, *error: None if kind is KeyboardInterrupt else excepthook(kind, *error)


def end(number: int, _frame) -> None:
    """Print how to go on, end this process's jobs, and raise KeyboardInterrupt, if this is the first signal.

    A later one is ignored, or ends the process if it still runs after PATIENCE_SECONDS.
    """
    if _told:
        if time.monotonic() - _told[0][1] > PATIENCE_SECONDS:
            os._exit(status())
        return
    _told.append((number, time.monotonic()))
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # otherwise one at Python's very end sets the status
    with suppress(OSError):
        # Without a buffer, which the interrupted code may be using.
        os.write(2, f"\nInterrupted. {_meaning[0]}: {command()}\n".encode())
    threading.Thread(target=_end_jobs, daemon=True).start()
    raise KeyboardInterrupt


def status() -> int:
    """Return the exit status of a process that a signal ended; 0: none did."""
    return 128 + _told[0][0] if _told else 0


def command() -> str:
    """Return the command of this process, to be typed again."""
    program = Path(sys.argv[0])
    module = program.parent.name if program.name == "__main__.py" else ""
    return shlex.join(["python", "-m", module, *sys.argv[1:]] if module else [program.name, *sys.argv[1:]])


def _end_jobs() -> None:
    """Terminate the jobs that run on this machine, including those that were about to start."""
    import psutil  # here: all commands import this module

    while True:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                line = process.cmdline()
                if len(line) == 2 and SCRIPTS in line[1] and line != process.parent().cmdline():  # not its worker
                    process.terminate()
        time.sleep(AGAIN_SECONDS)
