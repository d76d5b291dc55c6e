"""Chunks: ranges of realizations that are computed together, on a grid independent of how many are requested."""

from collections.abc import Iterator
from math import ceil
from typing import Literal, NamedTuple

ALL = "all"  # no folder of its own
Size = int | Literal["auto"]
# With `auto`, of each grid: from which realization on chunks are of which size. A study of few realizations computes
# few in vain, one of many has few files, and no chunk of trainings takes very long.
AUTO = {"optimization": ((0, 10), (20, 30), (50, 50), (100, 100)), "training": ((0, 1), (5, 5), (10, 10))}


def covering(first: int, stop: int, grid: str, size: Size) -> list[str]:
    """Names FIRST-STOP of the chunks of a grid that cover the realizations from `first` to before `stop`.

    >>> covering(3, 5, "training", 2)
    ['000002-000004', '000004-000006']
    >>> covering(4, 23, "training", "auto")
    ['000004-000005', '000005-000010', '000010-000020', '000020-000030']
    """
    chunks = _chunks(AUTO[grid] if size == "auto" else ((0, size),), first)
    found = []
    for start, end in chunks:
        if start >= stop:
            return found
        found.append(f"{start:06d}-{end:06d}")


def bounds(chunk: str) -> tuple[int, int]:
    """First realization of a chunk, and the one after its last."""
    first, stop = chunk.split("-")
    return int(first), int(stop)


class Extent(NamedTuple):
    """How many chunks there are, before which realization the last one stops, how many the largest one has."""

    chunks: int
    stop: int
    largest: int


def extent(count: int, grid: str, size: Size) -> Extent:
    """The extent of the chunks of the first `count` realizations, without listing them.

    >>> extent(23, "training", "auto"), extent(30, "training", 50)
    (Extent(chunks=8, stop=30, largest=10), Extent(chunks=1, stop=50, largest=50))
    """
    sizes = AUTO[grid] if size == "auto" else ((0, size),)
    found = Extent(0, 0, 0)
    for (begin, each), end in zip(sizes, [*(later for later, _ in sizes[1:]), count], strict=True):
        if begin < count:
            chunks = ceil((min(count, end) - begin) / each)
            found = Extent(found.chunks + chunks, begin + chunks * each, each)
    return found


def _chunks(sizes: tuple[tuple[int, int], ...], first: int) -> Iterator[tuple[int, int]]:
    """The chunks, without end, from the one on that has the realization `first`."""
    begin, size = [each for each in sizes if each[0] <= first][-1]
    start = begin + (first - begin) // size * size
    while True:
        size = [each for each in sizes if each[0] <= start][-1][1]
        yield start, start + size
        start += size
