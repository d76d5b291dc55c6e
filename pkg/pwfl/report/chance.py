"""Reference levels of accuracies: chance level, and the start model's accuracy."""

import polars as pl

from pwfl.scenario.values import value_of

LARGEST = {  # share of the test records that the largest class has, by data set: all of `datasets.SIZES`
    "digits": 47 / 360,
    "mnist": 1135 / 10000,
    "fashion_mnist": 0.1,
    "cifar10": 0.1,
    "cifar100": 0.01,
}


def level(scenario) -> float | None:
    """Return the chance level of a scenario: the share of its largest class in the test data, or else 1 / classes.

    None if it learns no classes, or its parameters `data.dataset` and `data.content` do not determine their number.
    """
    dataset, classes = (value_of(scenario, f"data.{key}") for key in ("dataset", "content.classes"))
    if dataset in LARGEST:
        return LARGEST[dataset]
    return 1 / classes if classes else None


def start(history: pl.DataFrame) -> float | None:
    """Compute the start model's mean accuracy (round 0) over a history's realizations; None if it has none."""
    if not {"round", "accuracy"} <= set(history.columns):
        return None
    return history.filter(pl.col("round") == 0).select(pl.col("accuracy").drop_nulls().mean()).item()


def scenario_levels(scenario, history: pl.DataFrame) -> pl.DataFrame:
    """Return the reference lines of a scenario's accuracies: `level` and `text` of chance and the start model."""
    shares = {"chance": level(scenario), "start model": start(history)}
    rows = [(share, f"{what} {100 * share:.3g}%") for what, share in shares.items() if share is not None]
    return pl.DataFrame(rows, schema={"level": pl.Float64, "text": pl.String}, orient="row")
