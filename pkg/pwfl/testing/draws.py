"""Conformance test of random draws: each has one use and follows seed and realization; nothing else is random."""

import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from pwfl import streams
from pwfl.execution.stage import Tables
from pwfl.learning import partition
from pwfl.scenario.common import Scenario
from pwfl.testing import tiny
from pwfl.testing.tiny import CheckError

DRAWING = ("channel", "schedule", "noise", "receive", "train")  # stages that draw separately for each realization
AGAIN = {("channel", "receive")}  # the second may repeat draws of the first that are too large for tables


def check_draws(model: Scenario, inputs: dict) -> None:
    """Check that each draw is of one stage, follows seed and realization, and has an effect; the rest is not random."""
    reseeded = model.model_copy(update={"seed": model.seed + 1})
    for scheme in model.schemes:
        purposes: dict[str, str] = {}
        with loosened(set()) as asked:
            fixed = drawn(model, scheme, inputs, asked, purposes)
        for stage, made in fixed.items():
            if differing := tiny.find_differing(tiny.select_realization(made, 0), tiny.select_realization(made, 1)):
                raise CheckError(
                    f"{scheme.name}: table {differing[0]} of {stage} differs between realizations although all of "
                    "`pwfl.streams` was held fixed; use `pwfl.streams` for all random numbers"
                )
        stage_inputs = inputs | {name: frame for made in fixed.values() for name, frame in made.items()}
        for purpose, stage in purposes.items():
            with loosened({purpose}):
                made, other = (
                    tiny.make_tables(scenario, scheme, stage_inputs, range(tiny.TRAINED), [stage])
                    for scenario in (model, reseeded)
                )
            first = tiny.select_realization(made, 0)
            for what, changed in (
                ("realization", tiny.select_realization(made, 1)),
                ("seed", tiny.select_realization(other, 0)),
            ):
                if not tiny.find_differing(first, changed):
                    raise CheckError(
                        f"{scheme.name}: the stream {purpose!r} of {stage} has no effect when the {what} changes: "
                        f"its numbers do not depend on the {what}, or are not used"
                    )


class Draw(NamedTuple):
    """A request to `pwfl.streams`, and the module that made it."""

    purpose: str
    realizations: range
    caller: str

    @property
    def kind(self) -> str:
        """The purpose, without numbers after a slash (such as those of rounds)."""
        return re.sub(r"/\d+", "", self.purpose)


def drawn(model: Scenario, scheme, inputs: dict, asked: list[Draw], purposes: dict[str, str]) -> dict[str, Tables]:
    """Return the tables of each stage that draws, and add the first stage of each purpose to `purposes`."""
    tables = {}
    for stage, made in tiny.run_stages(model, scheme, inputs, range(tiny.TRAINED), DRAWING):
        tables[stage] = made
        _check_apart(f"{scheme.name}: {stage}", asked)
        for purpose in sorted({draw.kind for draw in asked}):
            first = purposes.setdefault(purpose, stage)
            if first != stage and (first, stage) not in AGAIN:
                raise CheckError(
                    f"{scheme.name}: {first} and {stage} both use the stream {purpose!r}, so they get the same "
                    "numbers and are not independent; choose another purpose"
                )
        asked.clear()
    return tables


def _check_apart(stage: str, asked: list[Draw]) -> None:
    """Check that no stream is requested twice, except to partition records, which `holdings` repeats."""
    streams_of = [
        (draw.purpose, realization)
        for draw in asked
        if draw.caller != partition.__name__
        for realization in draw.realizations
    ]
    if twice := {purpose for purpose, realization in streams_of if streams_of.count((purpose, realization)) > 1}:
        raise CheckError(
            f"{stage} uses the stream {min(twice)!r} of a realization more than once, so everything drawn from it, "
            "such as initial weights and noise, shares the same numbers; use one purpose per use"
        )


@contextmanager
def loosened(loose: set[str] | None) -> Generator[list[Draw]]:
    """Hold all draws fixed except those of the purposes `loose` (`Draw.kind`; None: all), and yield the requests."""
    asked: list[Draw] = []

    def held(draw: Callable) -> Callable:
        def drawn(seed, purpose, which, *shape):
            block = which if isinstance(which, range) else range(which, which + 1)
            asked.append(Draw(purpose, block, sys._getframe(1).f_globals["__name__"]))
            if loose is None or asked[-1].kind in loose:
                return draw(seed, purpose, which, *shape)
            if isinstance(which, range):
                return np.repeat(draw(1, purpose, range(1), *shape), len(which), axis=0)
            return draw(1, purpose, 0)

        return drawn

    fixed: dict[str, Any] = {name: held(getattr(streams, name)) for name in ("uniforms", "generator", "key")}
    with mock.patch.multiple(streams, **fixed):
        yield asked
