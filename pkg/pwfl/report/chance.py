"""What accuracies start from: chance level, and the start model's accuracy."""

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


def level(scenario) -> float | None:
    """The chance level of a scenario: the share of its largest class in the test data, or else 1 / classes.

    None where it learns no classes, or none that its parameters `data.dataset` and `data.content` name.
    """
    dataset, classes = (value_of(scenario, f"data.{key}") for key in ("dataset", "content.classes"))
    if dataset in LARGEST:
        return LARGEST[dataset]
    if dataset in SIZES:
        classes = SIZES[dataset].classes
    return 1 / classes if classes else None


def start(history: pl.DataFrame | None) -> float | None:
    """The mean accuracy of the start model, that of round 0, over a history's realizations; None where it has none."""
    if history is None or not {"round", "accuracy"} <= set(history.columns):
        return None
    return history.filter(pl.col("round") == 0).select(pl.col("accuracy").drop_nulls().mean()).item()


def scenario_levels(scenario, history: pl.DataFrame) -> pl.DataFrame:
    """The lines of a scenario's accuracies: `level` and `text` of its chance level and of its start model."""
    shares = {"chance": level(scenario), "start model": start(history)}
    rows = [(share, f"{what} {100 * share:.3g}%") for what, share in shares.items() if share is not None]
    return pl.DataFrame(rows, schema={"level": pl.Float64, "text": pl.String}, orient="row")
