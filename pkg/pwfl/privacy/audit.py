"""Stage audit: what an attack on the real training path finds, beside what `account` states.

Each system's module runs the code that its training runs, on canary records instead of a data set,
with the schedule and the noise of the realization whose worst record is worst off, and returns
`Attack` tuples: what an observer's best test scores each canary with.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.privacy import lower_bounds
from pwfl.tables import contract

log = logging.getLogger(__name__)

COLUMNS = {name: column.dtype for name, column in contract.Audit.columns().items()}
RUNS = 500  # of the training path, at most


class Attack(NamedTuple):
    """Scores of canaries, and the epsilon that they are held to.

    Attributes
    ----------
    realization
        The one that is attacked.
    observer
        What it sees.
    delta
        At which epsilons are compared.
    epsilon_upper
        What is stated; None: nothing is sent; infinite: no noise is added.
    gaussian
        Whether scores are normal.
    first, scores
        Those of `pwfl.privacy.lower_bounds`, shape (canary,); empty where nothing is sent or no noise is added.
    """

    realization: int
    observer: str
    delta: float
    epsilon_upper: float | None
    gaussian: bool
    first: np.ndarray
    scores: np.ndarray


def table(attacks: Iterable[Attack]) -> pl.DataFrame:
    """The table `audit` of a system's attacks.

    Lower bounds on epsilon at an attack's delta, each above the truth with probability
    `lower_bounds.FALSE_ALARM`: `epsilon_lower` whatever the noise's law is, `epsilon_lower_gaussian`
    if it is normal, as it is where all is right.
    """
    return pl.DataFrame([_row(attack) for attack in attacks], schema=COLUMNS)


def _row(attack: Attack) -> dict:
    tested, delta = len(attack.scores) > 0, attack.delta
    low = lower_bounds.epsilon_lower(attack.first, attack.scores, delta) if tested else None
    gaussian = tested and attack.gaussian
    normal = lower_bounds.gaussian_epsilon_lower(attack.first, attack.scores, delta) if gaussian else None
    found, stated = max(low or 0.0, normal or 0.0), attack.epsilon_upper
    if stated is None:
        status = "nobody_sends"
    elif not tested:
        status = "no_noise"
    else:
        status = "consistent" if found <= stated else "violated"
    log.info("%s: %s; epsilon at delta %g at least %s, stated %s", attack.observer, status, delta, found, stated)
    return {
        "realization": attack.realization,
        "observer": attack.observer,
        "status": status,
        "canaries": len(attack.scores),
        "delta": delta,
        "epsilon_upper": attack.epsilon_upper,
        "epsilon_lower": low,
        "epsilon_lower_gaussian": normal,
        "false_alarm": lower_bounds.FALSE_ALARM,
    }


def worst(outcome: pl.DataFrame, epsilon: str = "epsilon_exact") -> dict:
    """The row of the realization whose worst record is worst off by a column; the first of several, null comes last."""
    order = outcome.sort(pl.col(epsilon).fill_null(-1.0), descending=True, maintain_order=True)
    return order.row(0, named=True)


def coins(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Which of its two records each canary is, boolean."""
    return generator.random(shape) < 0.5


def signs_of(first: np.ndarray) -> np.ndarray:
    """What the canaries' directions are multiplied by: 1 for the first record, -1 for the other; float32."""
    return np.where(first, 1.0, -1.0).astype(np.float32)
