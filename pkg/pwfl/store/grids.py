"""Chunks: ranges of realizations that are computed together, on a grid independent of how many are requested."""

from collections.abc import Iterator
from itertools import takewhile
from math import ceil
from typing import NamedTuple

ALL = "all"  # in place of a chunk's name: all realizations; it has no folder
Sizes = tuple[tuple[int, int], ...]
# Pairs of a first realization and the size of chunks from there on: a study of few realizations computes few in vain,
# one of many has few files, and no chunk of training runs lasts very long.
TABLES: Sizes = ((0, 10), (20, 30), (50, 50), (100, 100))
TRAININGS: Sizes = ((0, 1), (5, 5), (10, 10))
SMALLER = (10, 5, 2, 1)  # sizes for all chunks, if those are too large


def fitting(sizes: Sizes, most: float) -> Sizes:
    """Return the sizes, or one of SMALLER for all chunks if a chunk would have more than `most` realizations.

    >>> fitting(TRAININGS, 10), fitting(TRAININGS, 9), fitting(TABLES, 0.5)
    (((0, 1), (5, 5), (10, 10)), ((0, 5),), ((0, 1),))
    """
    largest = next((size for size in SMALLER if size <= most), 1)
    return sizes if sizes[-1][1] <= most else ((0, largest),)


def covering(first: int, stop: int, sizes: Sizes, end: int | None = None) -> list[str]:
    """List the chunks, as FIRST-STOP, that cover the realizations from `first` to before `stop`; none exceeds `end`.

    >>> covering(4, 23, TRAININGS)
    ['000004-000005', '000005-000010', '000010-000020', '000020-000030']
    >>> covering(0, 12, TABLES, end=14)
    ['000000-000010', '000010-000014']
    """
    chunks = takewhile(lambda chunk: chunk[0] < stop, _chunks(sizes, first))
    return [f"{start:06d}-{after if end is None else min(after, end):06d}" for start, after in chunks]


def bounds(chunk: str) -> tuple[int, int]:
    """Return the first realization of a chunk, and the one after its last."""
    first, stop = chunk.split("-")
    return int(first), int(stop)


def realizations(chunk: str) -> range:
    """Return the realizations of a chunk; for ALL, an empty range."""
    return range(0) if chunk == ALL else range(*bounds(chunk))


class Extent(NamedTuple):
    """The number of chunks, the realization before which the last one stops, and the size of the largest one."""

    chunks: int
    stop: int
    largest: int


def extent(count: int, sizes: Sizes) -> Extent:
    """Compute the extent of the chunks of the first `count` realizations, without listing them.

    >>> extent(23, TRAININGS)
    Extent(chunks=8, stop=30, largest=10)
    """
    reach = Extent(0, 0, 0)
    for (begin, size), end in zip(sizes, [*(later for later, _ in sizes[1:]), count], strict=True):
        if begin < count:
            chunks = ceil((min(count, end) - begin) / size)
            reach = Extent(reach.chunks + chunks, begin + chunks * size, size)
    return reach


def _chunks(sizes: Sizes, first: int) -> Iterator[tuple[int, int]]:
    """Yield chunks as (start, stop), without end, from the chunk that contains the realization `first`."""
    begin, size = [pair for pair in sizes if pair[0] <= first][-1]
    start = begin + (first - begin) // size * size
    while True:
        size = [pair for pair in sizes if pair[0] <= start][-1][1]
        yield start, start + size
        start += size
