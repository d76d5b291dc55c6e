"""Check that addresses cover all code that runs, by recording every function that a stage enters.

Neither the rule of `pwfl.store.code` nor this check follows imports.
"""

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from types import FrameType
from unittest import mock

from pwfl import execution, registry
from pwfl.report import build
from pwfl.scenario.common import Scenario
from pwfl.stages import AUDIT, REPORT
from pwfl.store import code

KEEPS = ("pwfl/process/", "pwfl/store/", "pwfl/workflow/in_memory.py")  # files, threads, devices: they change no table
PARTS = {"figure": REPORT, "summarize": REPORT, "compare": "comparison", "comparison_figure": "comparison"}  # of build


class UnnamedCodeError(AssertionError):
    """A stage ran code that its address does not cover."""


@contextmanager
def checked_stages(scenario: Scenario) -> Generator[dict[str, set[str]]]:
    """Check all stages, reports and comparisons of a scenario that `execution` and `build` run in this context.

    Yields the modules of pwfl and of the system's package that were entered, by stage; it fills as stages run. Raises
    UnnamedCodeError at the end of a stage that entered a function of a module that its address does not cover.
    """
    seen: dict[str, set[str]] = {}
    package = registry.system(scenario.system).package
    packages = {__name__.partition(".")[0], package.partition(".")[0]}

    def tracking(call: Callable, stage_of: Callable[..., str]) -> Callable:
        def tracked_call(*arguments, **options):
            stage = stage_of(*arguments)
            named = set(code.files(stage, (package,)))
            _forget(packages, named)
            with executed_functions(packages) as functions:
                made = call(*arguments, **options)
            seen.setdefault(stage, set()).update(module for module, _ in functions)
            if strange := sorted(f"{module}.{name}" for module, name in functions if not _is_named(module, named)):
                raise UnnamedCodeError(
                    f"{stage} runs {', '.join(strange)}, which its address does not cover, so an edit would not "
                    "recompute results; move it to a module of the stage, as a function: parameters have no methods "
                    "(`pwfl.store.code` says which files an address covers)"
                )
            return made

        return tracked_call

    with ExitStack() as stack:
        run_task = tracking(execution.execute, lambda task, *_: task.stage)
        stack.enter_context(mock.patch.object(execution, "execute", run_task))
        stack.enter_context(
            mock.patch.object(execution, "audit_schemes", tracking(execution.audit_schemes, lambda *_: AUDIT))
        )
        for name, stage in PARTS.items():
            run_part = tracking(getattr(build, name), lambda *_, stage=stage: stage)
            stack.enter_context(mock.patch.object(build, name, run_part))
        yield seen


@contextmanager
def executed_functions(packages: set[str]) -> Generator[set[tuple[str, str]]]:
    """Record functions of top-level packages that this thread or a new one enters, as pairs of module and name.

    Functions that are entered while a module is imported do not count.
    """
    functions: set[tuple[str, str]] = set()

    def record(frame: FrameType, event: str, _):
        if event != "call" or frame.f_globals is globals():
            return
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if module.partition(".")[0] not in packages or (module, code.co_qualname) in functions:
            return
        if not _importing(frame):
            functions.add((module, code.co_qualname))

    before, before_of_threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(record)
    sys.setprofile(record)
    try:
        yield functions
    finally:
        sys.setprofile(before)
        threading.setprofile(before_of_threads)


def _is_named(module: str, named: set[str]) -> bool:
    """Return whether a module is one of the named files, or of KEEPS."""
    files = {f"{module.replace('.', '/')}{end}" for end in (".py", "/__init__.py")}
    return not named.isdisjoint(files) or any(file.startswith(KEEPS) for file in files)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


def _forget(packages: set[str], named: set[str]) -> None:
    """Clear the caches of functions that the address does not cover, so that calls enter them."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages and not _is_named(name, named):
            for function in list(vars(module).values()):
                if hasattr(function, "cache_clear") and function.__module__ == name:
                    function.cache_clear()
