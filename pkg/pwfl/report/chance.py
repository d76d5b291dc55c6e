"""What accuracies start from: chance level, and the start model's accuracy."""

from typing import NamedTuple

import polars as pl

from pwfl.learning.datasets import SIZES
from pwfl.scenario.values import value_of

LARGEST = {  # share of the test records that the largest class has, by data set
    "digits": 47 / 360,
    "mnist": 1135 / 10000,
    "fashion_mnist": 0.1,
    "cifar10": 0.1,
    "cifar100": 0.01,
}
KNOWN, COUNTED = "largest class", "1/classes"
SAME = 0.02  # by which accuracies of start models may differ that are one line
NAMED = 3  # scenarios that a label names


class Level(NamedTuple):
    """An accuracy that needs no learning, and what it is: the `largest class` of the test data, or `1/classes`."""

    share: float
    source: str


def level(scenario) -> Level | None:
    """The chance level of a scenario: the share of its largest class in the test data, or else 1 / classes.

    None where it learns no classes, or none that its parameters `data.dataset` and `data.content` name.
    """
    dataset, classes = (value_of(scenario, f"data.{key}") for key in ("dataset", "content.classes"))
    if dataset in LARGEST:
        return Level(LARGEST[dataset], KNOWN)
    if dataset in SIZES:
        classes = SIZES[dataset].classes
    return Level(1 / classes, COUNTED) if classes else None


def start(history: pl.DataFrame | None) -> float | None:
    """The mean accuracy of the start model, that of round 0, over a history's realizations; None where it has none."""
    if history is None or not {"round", "accuracy"} <= set(history.columns):
        return None
    return history.filter(pl.col("round") == 0).select(pl.col("accuracy").drop_nulls().mean()).item()


def levels(study: dict[str, dict]) -> pl.DataFrame:
    """The lines of a study's accuracies: `level` and `text`, chance levels first, then start models.

    Each scenario has its `scenario` and `history`. Where chance levels differ, texts name scenarios; where start models
    do, there are lines for the least and the most.
    """
    found: dict[Level, list[str]] = {}
    for name, content in study.items():
        if (one := level(content["scenario"])) is not None:
            found.setdefault(one, []).append(name)
    rows = []
    for one, names in found.items():
        of = f", {', '.join(names[:NAMED])}{', ...' * (len(names) > NAMED)}" if len(found) > 1 else ""
        rows.append((one.share, f"chance {_percent(one.share)} ({one.source}{of})"))
    starts = [first for content in study.values() if (first := start(content.get("history"))) is not None]
    if starts and max(starts) - min(starts) <= SAME:
        texts = list(dict.fromkeys(_percent(end) for end in (min(starts), max(starts))))
        rows.append((sum(starts) / len(starts), f"start model {' to '.join(texts)}"))
    elif starts:
        rows += [
            (end(starts), f"{word} start model {_percent(end(starts))}")
            for end, word in ((min, "worst"), (max, "best"))
        ]
    return pl.DataFrame(rows, schema={"level": pl.Float64, "text": pl.String}, orient="row")


def scenario_levels(scenario, history: pl.DataFrame) -> pl.DataFrame:
    """Compute the `levels` of one scenario."""
    return levels({"": {"scenario": scenario, "history": history}})


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
