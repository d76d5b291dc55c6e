"""Whether an address names all code that is run: every function that a stage enters, seen as it does so.

The fingerprint follows imports; this knows nothing of them.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from unittest import mock

from pwfl.report import build
from pwfl.runtime import fingerprint
from pwfl.scenario import load
from pwfl.scenario.common import Scenario
from pwfl.stages import AUDIT, REPORT
from pwfl.systems import registry
from pwfl.workflow import execution, reports
from pwfl.workflow.plan import plan

# Quiet, which gives every stage one thread of the CPU; what else a training computes on, its address names.
UNNAMED = {"pwfl.workflow.execution", "pwfl.runtime.threads", "pwfl.runtime.devices", "pwfl.runtime.quiet"}
PARTS = {"figure": REPORT, "summarize": REPORT, "compare": "comparison", "comparison_figure": "comparison"}  # of build


class UnnamedCodeError(AssertionError):
    """A stage ran code that its address does not name."""


@contextmanager
def watched(scenario: Scenario) -> Iterator[dict[str, set[str]]]:
    """Watch all stages of a scenario, its report, and comparisons of it, that `execution` and `build` run meanwhile.

    Yields the modules of pwfl and of the system's package that were entered, by stage; it fills as stages run. Raises
    UnnamedCodeError as soon as a stage has entered a function of a module that its description does not name.
    """
    seen: dict[str, set[str]] = {}
    own = {fingerprint.SHARED, registry.system(scenario.system).package.partition(".")[0]}
    named = {stage: fingerprint.imports(*modules) for stage, modules in _described(scenario).items()}

    def watching(call: Callable, stage_of: Callable[..., str]) -> Callable:
        def watched_call(*arguments, **options):
            stage = stage_of(*arguments)
            _forget(own, named[stage])
            with entered(own) as functions:
                made = call(*arguments, **options)
            seen.setdefault(stage, set()).update(module for module, _ in functions)
            known = named[stage] | UNNAMED
            if strange := sorted(f"{module}.{name}" for module, name in functions if module not in known):
                raise UnnamedCodeError(
                    f"{stage} runs {', '.join(strange)}, of which its address says nothing, so that an edit would not "
                    "compute anew: let a module of the stage import it, other than for annotations only"
                )
            return made

        return watched_call

    with ExitStack() as stack:
        of_task = watching(execution.execute, lambda task, *_: task.stage)
        stack.enter_context(mock.patch.object(execution, "execute", of_task))
        stack.enter_context(mock.patch.object(execution, "audit", watching(execution.audit, lambda *_: AUDIT)))
        for name, stage in PARTS.items():
            of_part = watching(getattr(build, name), lambda *_, stage=stage: stage)
            stack.enter_context(mock.patch.object(build, name, of_part))
        yield seen


def _described(scenario: Scenario) -> dict[str, list[str]]:
    """The modules that the description of each stage names, by stage; scripts among them."""
    planned = plan(load({"study": "watched", "scenarios": {"one": scenario.model_dump()}}, "watched"))
    found = [*planned.descriptions.values(), *(reports.of_scenario(planned, "one", job) for job in ("tables", AUDIT))]
    return {description["stage"]: description["modules"] for description in (*found, reports.comparison(planned.study))}


@contextmanager
def entered(packages: set[str]) -> Iterator[set[tuple[str, str]]]:
    """The functions of some top-level packages that are entered meanwhile, in any new thread: pairs of module and name.

    Code of modules while they are imported does not count.
    """
    found: set[tuple[str, str]] = set()

    def told(frame: FrameType, event: str, _):
        if event != "call" or frame.f_globals is globals():
            return
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if module.partition(".")[0] not in packages or (module, code.co_qualname) in found:
            return
        if not _importing(frame):
            found.add((module, code.co_qualname))

    before, before_of_threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(told)
    sys.setprofile(told)
    try:
        yield found
    finally:
        sys.setprofile(before)
        threading.setprofile(before_of_threads)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


def _forget(packages: set[str], named: frozenset[str]) -> None:
    """Empty the caches of functions that the address does not name: they are to be entered, if they are called."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages and name not in named and not name.startswith("pwfl.runtime"):
            for function in list(vars(module).values()):
                if hasattr(function, "cache_clear") and function.__module__ == name:
                    function.cache_clear()
