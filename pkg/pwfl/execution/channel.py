"""The stage `channel`."""

from pwfl.execution.stage import Tables, Task, checked, loaded, rows_of


def run(task: Task, tables: Tables) -> Tables:
    """Make the tables `users` and `links`, from imported tables if there are any, which may have more realizations."""
    outside = [{name: rows_of(frame, task.span) for name, frame in tables.items()}] if tables else []
    with loaded(task) as run_channel:
        return checked(task, run_channel(task.values, task.realizations, *outside))
