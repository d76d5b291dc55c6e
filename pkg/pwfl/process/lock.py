"""A lock on a file, which the operating system ends with the process that has it, however that ends."""

import fcntl
import os
import socket
import time
from contextlib import suppress
from pathlib import Path


class HeldError(RuntimeError):
    """Another process has a lock; the message says which."""


def take(path: Path) -> str | None:
    """Take the lock of a file, which is made where there is none, until this process ends.

    Processes that this one starts do not have it: Python closes their copies of the file. Returns why there is no lock
    where the file system has none. Raises HeldError where another process has it, OSError where the file cannot be
    written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # never closed: the lock ends with the process
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(file, 200).decode(errors="replace").strip()
        os.close(file)
        raise HeldError(holder or "another process") from None
    except OSError as error:
        os.close(file)
        return error.strerror or str(error)
    with suppress(OSError):  # a full disk: the lock needs no words
        os.truncate(file, 0)
        os.write(file, f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%F %T')}\n".encode())
    return None


def is_taken(path: Path) -> bool:
    """Whether a process has the lock of a file."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # the file system has no locks
        return False
    finally:
        os.close(file)
    return False
