"""The stage `imported`: reads and checks tables from outside."""

from pwfl.execution.stage import Tables, Task, loaded


def run(task: Task, paths: dict[str, str]) -> Tables:
    """Read the tables that a system's channel may be made from, from their files `paths`."""
    with loaded(task) as read:
        return read(paths)
