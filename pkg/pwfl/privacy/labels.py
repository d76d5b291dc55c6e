"""What an epsilon is: a label that leaves a formula with its value, and is weakened by all that the value rests on.

A kind says in which way a value may miss the truth; beside it stands what the value assumes, and whom it trusts.
"""

from collections.abc import Callable, Iterable
from enum import IntFlag
from typing import Any, Protocol, cast

import numpy as np


class Kind(IntFlag):
    """In which ways a value may miss the truth. A value made of others may miss it in each of their ways: `|`."""

    EXACT = 0
    UPPER = 1  # the truth may be less
    LOWER = 2  # the truth may be more
    UNPROVED = UPPER | LOWER
    CHANCE = 4  # what the kind says holds with a probability of 99.9 % alone
    ESTIMATED = UPPER | CHANCE


# As columns of tables have them.
KINDS = {
    "exact": Kind.EXACT,
    "upper bound": Kind.UPPER,
    "estimated": Kind.ESTIMATED,
    "not proved": Kind.UNPROVED,
    "lower bound": Kind.LOWER,
}
PROVED, CONDITIONAL, NONE = GUARANTEES = ("proved", "conditional", "none")
# What an epsilon may assume of nature and data. Who is trusted not to see, or pass on, more than an observer does.
REALIZED, RECEIVER, MARKOV, MEANS, BATCH_SIZES, PARTICIPATION, OBSERVED, DEVIATIONS = ASSUMPTIONS = (
    *("realized channel known", "receivers' noise", "Markov data", "clipped mean as in (11)", "batch sizes hidden"),
    *("participation hidden", "sensitivity observed but not enforced", "deviations sent clean"),
)
UNENFORCED = {MEANS, OBSERVED}  # of how far a record moves a message
STATIONS, AGGREGATION, SERVER = TRUSTS = ("stations that add up", "secure aggregation", "the server")


class Formula(Protocol):
    """A function whose value is of a kind, if what it is given is exact."""

    kind: Kind

    def __call__(self, *arguments, **more) -> Any:
        """The value."""


def gives(kind: Kind) -> Callable[[Callable], Formula]:
    """A decorator of a formula for epsilon whose values are of a kind."""

    def marked(function: Callable) -> Formula:
        formula = cast("Formula", function)
        formula.kind = kind
        return formula

    return marked


def labeled(formula: Formula, *arguments, **more) -> tuple[Any, Kind]:
    """The value of a formula and its kind, of which no accountant takes one without the other."""
    return formula(*arguments, **more), formula.kind


def words(kinds: np.ndarray) -> np.ndarray:
    """The words of kinds, an array of numbers.

    >>> words(np.array([Kind.EXACT, Kind.LOWER, Kind.UNPROVED | Kind.CHANCE])).tolist()
    ['exact', 'lower bound', 'not proved']
    """
    names = np.full(2 * Kind.CHANCE, "not proved", dtype=object)
    for name, kind in KINDS.items():
        names[kind] = name
    return names[np.asarray(kinds, int)]


def numbers(kinds: np.ndarray) -> np.ndarray:
    """The kinds that words are, an array of numbers."""
    return np.vectorize(KINDS.__getitem__, otypes=[int])(kinds)


def together(names: Iterable[str]) -> str:
    """Names of what is assumed, or trusted, as a column has them: in one order, none twice.

    >>> together(["receivers' noise", "realized channel known", "receivers' noise"])
    "realized channel known, receivers' noise"
    """
    return ", ".join(sorted(set(names) - {""}, key=(*ASSUMPTIONS, *TRUSTS).index))
