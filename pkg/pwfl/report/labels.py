"""Placement of labels in a figure, in pixels: text widths, and positions that avoid lines, dots and other labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

# Advance widths of Helvetica, and so of Arial and Liberation Sans, in thousandths of the size: plain and bold.
_LETTERS = " !%&'()*+,-./:;=?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PLAIN = (
    "278 278 889 667 191 333 333 389 584 278 333 278 278 278 278 584 556 667 667 722 722 667 611 778 722 278 "
    "500 667 556 833 722 778 667 778 722 667 611 722 667 944 667 667 611 556 556 500 556 556 278 556 556 222 "
    "222 500 222 833 556 556 556 556 333 500 278 556 500 722 500 500 500"
)
_BOLD = (
    "278 333 889 722 238 333 333 389 584 278 333 278 278 333 333 584 611 722 722 722 722 667 611 778 722 278 "
    "556 722 611 833 722 778 667 778 722 667 611 722 667 944 667 667 611 556 611 556 611 556 333 611 611 278 "
    "278 556 278 889 611 611 611 611 389 556 333 611 556 778 556 556 500"
)
_WIDTHS = [dict(zip(_LETTERS, map(int, widths.split()), strict=True)) for widths in (_PLAIN, _BOLD)]
_DIGIT, _WIDEST = 556, 1000  # of digits and most other letters; of letters beyond _LAST_NARROW
_LAST_NARROW = "\u2fff"
SIZE, NARROW_SIZE = 12, 11  # of text in figures, and in figures of a phone's width
LEADING = 2  # between lines
ORDERS, SEED = 200, 1  # number of random orders in which labels are placed, and their seed
STEPS = 60  # points of a line at which crossings are tested
# Costs of a position.
OUTSIDE, TOUCHES, OVERLAPS, CROSSES, AMBIGUOUS, NEAR = 4000.0, 80.0, 1.0, 4.0, 45.0, 14.0
FAR, LONGER, LEFT_OUT = 2.5, 1.2, 40.0


class Part(NamedTuple):
    """Some words of a label's line."""

    text: str
    bold: bool = False


Lines = list[list[Part]]
Spot = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass
class Label:
    """A label that is to be placed, and its possible positions."""

    forms: list[Lines]  #: Its lines, in alternative forms, the best first.
    at: list[Spot]  #: The dots next to which it may be placed, the best first.
    colour: str
    size: float = SIZE
    reach: Spot = (4, 4)  #: Half the width and height of its dot's error bars.
    #: Positions relative to a dot, each (alignment, x, y); None: all around it.
    sides: Sequence[tuple[str, float, float]] | None = None
    optional: bool = False  #: Whether it is left out if no position is good.


class Placed(NamedTuple):
    """Words of a placed label: their left end, the middle of their line, and the label's colour and size."""

    x: float
    y: float
    part: Part
    colour: str
    size: float


class _Option(NamedTuple):
    cost: float
    box: Box
    form: Lines
    align: str
    spot: Spot


def width(text: str, size: float = SIZE, bold: bool = False) -> float:
    """Return the width of a text.

    >>> width("accuracy"), width("accuracy", bold=True) > width("accuracy", 12)
    (48.012, True)
    """
    letters = _WIDTHS[bold]
    return sum(letters.get(c, _DIGIT if c <= _LAST_NARROW else _WIDEST) for c in text) * size / 1000


def line_width(line: list[Part], size: float = SIZE) -> float:
    """Return the width of a label's line."""
    return sum(width(part.text, size, part.bold) for part in line)


def named(name: str, more: str = "") -> list[Lines]:
    """Return the forms of a label, a bold name and additional words: in one line, or in two."""
    if not more:
        return [[[Part(name, bold=True)]]]
    return [[[Part(name, bold=True), Part(f", {more}")]], [[Part(name, bold=True)], [Part(more)]]]


def place(labels: list[Label], lines: list[tuple[Spot, Spot]], dots: list[Spot], bounds: Box) -> list[Placed]:
    """Place the words of labels at the positions of least cost; optional ones without a good position are left out.

    Labels are placed one after the other, in ORDERS random orders; the best is returned. The seed is fixed.
    """
    t = np.linspace(0, 1, STEPS)[:, None]
    inked = np.concatenate([np.zeros((0, 2)), *(np.array(a) + (np.array(b) - np.array(a)) * t for a, b in lines)])
    options = [sorted(_options(label, inked, np.array(dots).reshape(-1, 2), bounds)) for label in labels]
    generator = np.random.default_rng(SEED)
    best, least = {}, inf
    for _ in range(ORDERS if len(labels) > 1 else 1):
        chosen: dict[int, _Option] = {}
        total = 0.0
        for k in map(int, generator.permutation(len(labels))):
            cost, option = _cheapest(options[k], [label.box for label in chosen.values()])
            if labels[k].optional and cost > LEFT_OUT:
                total += LEFT_OUT
                continue
            chosen[k], total = option, total + cost
        if total < least:
            best, least = chosen, total
    return [words for k in sorted(best) for words in _placed(labels[k], best[k])]


def _cheapest(options: list[_Option], taken: list[Box]) -> tuple[float, _Option]:
    """Return the total cost of the cheapest option, and the option; `options` are sorted, `taken` are other boxes."""
    cheapest, least = options[0], inf
    for option in options:
        if option.cost >= least:
            break
        cost = option.cost + sum(overlap(option.box, other) for other in taken)
        if cost < least:
            cheapest, least = option, cost
    return least, cheapest


def overlap(one: Box, other: Box) -> float:
    """Compute the cost of an overlap of two boxes; 0 if they do not overlap.

    >>> overlap((0, 0, 2, 2), (1, 1, 3, 3)), overlap((0, 0, 2, 2), (2, 0, 3, 3))
    (81.0, 0.0)
    """
    across, down = min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1])
    return TOUCHES + OVERLAPS * across * down if across > 0 and down > 0 else 0.0


def _options(label: Label, inked: np.ndarray, dots: np.ndarray, bounds: Box) -> list[_Option]:
    options = []
    for (longer, form), (rank, (x, y)) in product(enumerate(label.forms), enumerate(label.at)):
        wide, high = max(line_width(line, label.size) for line in form), len(form) * (label.size + LEADING)
        others = dots[np.abs(dots - (x, y)).sum(axis=1) > 1]
        for k, (align, dx, dy) in enumerate(label.sides or _sides(label.reach, high)):
            left, top = x + dx - {"left": 0, "right": wide, "center": wide / 2}[align], y + dy - high / 2
            box = (left - 4, top - 1, left + wide + 4, top + high + 1)
            beyond = box[0] < bounds[0] or box[1] < bounds[1] or box[2] > bounds[2] or box[3] > bounds[3]
            crossed = ((inked >= box[:2]) & (inked <= box[2:])).all(axis=1).sum()
            aside = np.maximum(box[0] - others[:, 0], others[:, 0] - box[2])
            gaps = np.maximum(aside, np.maximum(box[1] - others[:, 1], others[:, 1] - box[3]))
            mistaken = AMBIGUOUS * (gaps < 3).sum() + NEAR * ((gaps >= 3) & (gaps < 9)).sum()  # for another dot's label
            cost = rank * FAR + k + LONGER * longer + OUTSIDE * beyond + CROSSES * crossed + mistaken
            options.append(_Option(float(cost), box, form, align, (x + dx, y + dy)))
    return options


def _sides(reach: Spot, high: float) -> list[tuple[str, float, float]]:
    """List positions around a dot with error bars, the best first, for a label of height `high`."""
    across, up = reach
    return [
        *(("left", across + 6, 0), ("left", 8, high * 0.75), ("left", 8, -high * 0.75), ("right", -across - 6, 0)),
        *(("center", 0, -up - high / 2 - 4), ("center", 0, up + high / 2 + 4), ("right", -8, high * 0.75)),
        *(("right", -8, -high * 0.75), ("left", 18, high * 1.1), ("left", 18, -high * 1.1), ("right", -18, high * 1.1)),
    ]


def _placed(label: Label, option: _Option) -> list[Placed]:
    words, (x, y), size = [], option.spot, label.size
    for k, line in enumerate(option.form):
        whole = line_width(line, size)
        at = x - {"left": 0, "right": whole, "center": whole / 2}[option.align]
        for part in line:
            down = y + (k - (len(option.form) - 1) / 2) * (size + LEADING)
            words.append(Placed(at, down, part, label.colour, size))
            at += width(part.text, size, part.bold)
    return words


def spread(places: np.ndarray, step: float, limit: float) -> np.ndarray:
    """Spread positions in [0, limit], at least `step` apart, in their order, with the least sum of squared moves.

    >>> spread(np.array([10.0, 0.0, 12.0]), 4, 20).tolist()
    [9.0, 0.0, 13.0]
    """
    order, offset = np.argsort(places, kind="stable"), step * np.arange(len(places))
    moved = np.empty(len(places))
    if len(places):
        moved[order] = isotonic_regression(places[order] - offset).x.clip(0, limit - offset[-1]) + offset
    return moved
