"""The hexagonal grid of cells."""

import numpy as np


def cells(rings: int) -> int:
    """Return the number of cells: one in the centre, and 6k in ring k."""
    return 3 * rings * (rings + 1) + 1


def stations(rings: int, cell_radius_m: float) -> np.ndarray:
    """Compute the positions of base stations on a hexagonal grid, in metres, shape (cells, 2).

    The first is at the origin; ring k adds 6k cells around it. Neighbours are sqrt(3) cell_radius_m apart (Sec. VI-A).
    """
    q, r = np.mgrid[-rings : rings + 1, -rings : rings + 1].reshape(2, -1)
    ring = np.maximum.reduce([abs(q), abs(r), abs(q + r)])
    x, y = np.sqrt(3) * (q + r / 2), 1.5 * r
    inside = np.flatnonzero(ring <= rings)
    angle = np.round(np.arctan2(y, x) % (2 * np.pi), 9)
    order = inside[np.lexsort((angle[inside], ring[inside]))]
    return cell_radius_m * np.stack([x, y], axis=1)[order]


def corners(cell_radius_m: float) -> np.ndarray:
    """Compute the six corners of a cell relative to its base station, in metres, shape (6, 2)."""
    angle = np.pi / 6 + np.pi / 3 * np.arange(6)
    return cell_radius_m * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def half_side(rings: int, cell_radius_m: float) -> float:
    """Compute half the side, in metres, of the square around the origin that bounds all cells."""
    grid = stations(rings, cell_radius_m)[:, None] + corners(cell_radius_m)
    return float(abs(grid).max())


def farthest(rings: int, cell_radius_m: float) -> float:
    """Compute the largest distance, in metres, from a point of that square (`half_side`) to a base station."""
    half = half_side(rings, cell_radius_m)
    return float(np.hypot(*(half + abs(stations(rings, cell_radius_m).T))).max())
