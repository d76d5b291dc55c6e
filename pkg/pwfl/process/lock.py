"""Lock a file; the operating system releases the lock when the process that holds it ends, however it ends."""

import fcntl
import os
import socket
import time
from contextlib import suppress
from pathlib import Path


class HeldError(RuntimeError):
    """A lock that another process holds; the message names that process."""


def take(path: Path) -> str | None:
    """Lock a file, which is created if there is none, until this process ends.

    Programs that this process starts do not hold the lock: Python closes their copies of the file. If the file system
    has no locks, returns the reason. Raises HeldError if another process holds the lock, OSError if the file cannot be
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
    with suppress(OSError):  # a full disk: the lock does not need this text
        os.truncate(file, 0)
        os.write(file, f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%F %T')}\n".encode())
    return None


def is_taken(path: Path) -> bool:
    """Return whether a process holds the lock of a file."""
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
