"""One run at a time on a scenario: a lock that lives as long as the process that holds it.

Snakemake's own lock is a file, which `--unlock` removes whether its owner is dead or at work. The operating system lets
go of this one when its process ends, however it ends.
"""

import errno
import fcntl
import os
import socket
from pathlib import Path


class BusyError(RuntimeError):
    """Another run is at work; the message says on what, and which process it is."""


def hold(names: list[str], folder: str) -> None:
    """Lock each name for the life of this process, by files in a folder. Raises BusyError where another one does."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names:  # whose files stay open, as closing one would give its lock back
        file = os.open(Path(folder, f"{name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(file, 1000).decode() or "another process"
            os.close(file)
            raise BusyError(
                f"{name}: {owner} is at work on it in this folder, whatever --unlock has removed; wait for its end, or "
                "stop it"
            ) from None
        except OSError as error:
            os.close(file)
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP):
                raise  # else this file system has no such locks, and Snakemake's remains
            continue
        os.truncate(file, 0)
        os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
