"""Labels of an epsilon: whether it is exact, a bound or an estimate, what it assumes, and whom it trusts.

A formula returns its value with a `Kind`; each assumption and bound that enters the value later weakens it.
"""

from collections.abc import Callable, Iterable
from enum import IntFlag
from typing import Any, Protocol, cast

import numpy as np


class Kind(IntFlag):
    """In which ways a value may differ from the true one; `|` combines the kinds of the values it is made of."""

    EXACT = 0
    UPPER = 1  # the truth may be less
    LOWER = 2  # the truth may be more
    UNPROVED = UPPER | LOWER
    CHANCE = 4  # the kind holds with a probability of 99.9 %
    ESTIMATED = UPPER | CHANCE


# By their names in columns of tables.
KINDS = {
    "exact": Kind.EXACT,
    "upper bound": Kind.UPPER,
    "estimated": Kind.ESTIMATED,
    "not proved": Kind.UNPROVED,
    "lower bound": Kind.LOWER,
}
PROVED, CONDITIONAL, NONE = GUARANTEES = ("proved", "conditional", "none")
# What an epsilon may assume of channels and data.
REALIZED, RECEIVER, MARKOV, MEANS, BATCH_SIZES, PARTICIPATION, OBSERVED, DEVIATIONS = ASSUMPTIONS = (
    *("realized channel known", "receivers' noise", "Markov data", "clipped mean as in (11)", "batch sizes hidden"),
    *("participation hidden", "sensitivity observed but not enforced", "deviations sent clean"),
)
UNENFORCED = {MEANS, OBSERVED}  # assumptions on the sensitivity that the code does not enforce
# Who is trusted not to receive, or pass on, more than the observer does.
STATIONS, AGGREGATION, SERVER = TRUSTS = ("stations that add up", "secure aggregation", "the server")


class Formula(Protocol):
    """A formula for epsilon whose value is of a `kind` if its arguments are exact."""

    kind: Kind

    def __call__(self, *arguments, **more) -> Any:
        """Compute the value."""


def gives(kind: Kind) -> Callable[[Callable], Formula]:
    """Return a decorator that sets the kind of a formula for epsilon."""

    def marked(function: Callable) -> Formula:
        formula = cast("Formula", function)
        formula.kind = kind
        return formula

    return marked


def labeled(formula: Formula, *arguments, **more) -> tuple[Any, Kind]:
    """Compute a formula's value and return it with its kind; accountants call formulas through this function only."""
    return formula(*arguments, **more), formula.kind


def words(kinds: np.ndarray) -> np.ndarray:
    """Return the names of kinds, an array of numbers, as columns of tables have them.

    >>> words(np.array([Kind.EXACT, Kind.LOWER, Kind.UNPROVED | Kind.CHANCE])).tolist()
    ['exact', 'lower bound', 'not proved']
    """
    names = np.full(2 * Kind.CHANCE, "not proved", dtype=object)
    for name, kind in KINDS.items():
        names[kind] = name
    return names[np.asarray(kinds, int)]


def numbers(kinds: np.ndarray) -> np.ndarray:
    """Return the kinds of an array of names, as an array of numbers; the inverse of `words`."""
    return np.vectorize(KINDS.__getitem__, otypes=[int])(kinds)


def together(names: Iterable[str]) -> str:
    """Join names of ASSUMPTIONS or TRUSTS as a column has them: in a fixed order, without repetition.

    >>> together(["receivers' noise", "realized channel known", "receivers' noise"])
    "realized channel known, receivers' noise"
    """
    return ", ".join(sorted(set(names) - {""}, key=(*ASSUMPTIONS, *TRUSTS).index))
