"""The stage `channel`."""

from pwfl.execution.stage import Tables, Task, checked, module, rows_of


def run(task: Task, found: Tables) -> Tables:
    """The tables `users` and `links`; made of tables from outside where there are any, which may hold more."""
    outside = [{name: rows_of(frame, task.span) for name, frame in found.items()}] if found else []
    with module(task) as own:
        return checked(task, own.run(task.values, task.realizations, *outside))
