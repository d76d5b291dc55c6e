"""The stage `imported`: tables from outside, checked."""

from pwfl.execution.stage import Tables, Task, loaded


def run(task: Task, paths: dict[str, str]) -> Tables:
    """The tables that a system's channel may be made of, by the files that hold them."""
    with loaded(task) as read:
        return read(paths)
