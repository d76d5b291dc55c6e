"""Synthetic images: glyphs of random strokes and shapes of random polygons, each with deformed copies.

They resemble real data sets as their authors describe them. Glyphs are pen lines that fill a box of 20 by 20 of 28 by
28 pixels, centred at their centre of mass (MNIST). Shapes are textured, mostly symmetric, and as long as the image
(Fashion-MNIST). Lengths are in pixels of an image of 28 by 28; coordinates are (row, column) from its middle.

`figures`, `copies` and `side` are the number of figures, of deformed copies of each, and pixels per side.
"""

from math import comb

import numpy as np

SIDE = 28
BLOCK = 64  # images drawn at a time, which stay in the cache

# Strokes: Bezier curves.
STROKES, CONTROLS, POINTS = (1, 2), (4, 5, 6), 40  # of a glyph, of a stroke, that a stroke is drawn by
GLYPH = 20  # side of the box that a glyph fills
PEN = (0.9, 1.7)  # half the width of a line
PEN_SPREAD = 0.2  # of its logarithm, from copy to copy

# Shapes: unions of polygons around a centre, painted one over the other.
POLYGONS, CORNERS = (1, 2, 3), 6
SYMMETRIC = 0.6  # share of shapes whose polygons are painted mirrored, too
SHAPE = 27  # longer side of the box that a shape fills
STRIPED, STRIPES, FREQUENCY = 0.6, 0.4, 0.2  # share of polygons with stripes; their largest depth, and per pixel


def strokes(figures: int, copies: int, side: int, generator: np.random.Generator) -> np.ndarray:
    """Draw glyphs of Bezier curves and deformed copies, float32 in [0, 1], shape (figure, copy, side, side)."""
    count = generator.choice(STROKES, figures)
    controls = generator.uniform(-10, 10, (figures, 1, STROKES[-1], CONTROLS[-1], 2))
    kinds = generator.choice(CONTROLS, (figures, 1, STROKES[-1], 1, 1))
    controls = controls + 1.6 * generator.standard_normal((figures, copies, *controls.shape[2:]))
    curves = np.select([kinds == n for n in CONTROLS], [_bezier(controls[..., :n, :]) for n in CONTROLS])
    used = np.arange(STROKES[-1]) < count[:, None]
    points = _deformed(_fitted(curves, used, GLYPH), generator, turn=0.2, shear=0.2, scale=0.1)
    drawn = used[:, None, :, None, None]
    middle = (points * drawn).sum(axis=(2, 3), keepdims=True) / (POINTS * drawn.sum(axis=(2, 3), keepdims=True))
    points = np.where(drawn, points, points[:, :, :1]) - middle  # a stroke that is not there repeats the first
    pen = generator.uniform(*PEN, (figures, 1)) * np.exp(PEN_SPREAD * generator.standard_normal((figures, copies)))
    unit = side / SIDE
    images = _lines((unit * points).reshape(figures * copies, -1, 2), unit * pen.reshape(-1), side)
    return images.reshape(figures, copies, side, side)


def shapes(figures: int, copies: int, side: int, generator: np.random.Generator) -> np.ndarray:
    """Draw shapes of textured polygons and deformed copies, float32 in [0, 1], shape (figure, copy, side, side)."""
    most = POLYGONS[-1]
    count = generator.choice(POLYGONS, figures)
    shape = (figures, 1, most)  # polygon
    angles = np.sort(generator.uniform(0, 2 * np.pi, (*shape, CORNERS)))
    radii = generator.uniform(0.3, 1, (*shape, CORNERS)) * generator.uniform(4, 14, shape)[..., None]
    around = radii[..., None] * np.stack([1.3 * np.sin(angles), np.cos(angles)], axis=-1)
    corners = generator.uniform(-9, 9, (*shape, 1, 2)) + around
    corners = corners + 1.2 * generator.standard_normal((figures, copies, *corners.shape[2:]))
    symmetric = generator.random(figures) < SYMMETRIC
    mirrored = np.where(symmetric[:, None, None, None, None], corners * [1, -1], corners)
    corners, used = np.concatenate([corners, mirrored], axis=2), np.tile(np.arange(most) < count[:, None], 2)
    corners = _deformed(_fitted(corners, used, SHAPE), generator, turn=0.08, shear=0.08, scale=0.06)
    brightness = generator.uniform(0.25, 1, shape) + 0.1 * generator.standard_normal((figures, copies, most))
    frequency, direction = generator.uniform(0, FREQUENCY, shape), generator.uniform(0, np.pi, shape)
    depth = generator.uniform(0, STRIPES, shape) * (generator.random(shape) < STRIPED)
    phase = generator.uniform(0, 2 * np.pi, (figures, copies, most))
    unit = side / SIDE
    wave = 2 * np.pi * frequency / unit
    parts = (np.clip(brightness, 0.1, 1), depth, wave * np.sin(direction), wave * np.cos(direction), phase)
    parts = [np.tile(np.broadcast_to(part, (figures, copies, most)), 2) for part in parts]
    texture = [part.reshape(-1, 2 * most, 1, 1) for part in parts]
    shown = np.broadcast_to(used[:, None], (figures, copies, 2 * most)).reshape(-1, 2 * most)
    images = _painted((unit * corners).reshape(-1, 2 * most, CORNERS, 2), shown, texture, side)
    return images.reshape(figures, copies, side, side)


def _bezier(controls: np.ndarray) -> np.ndarray:
    """Compute points of Bezier curves, shape (..., POINTS, 2), from control points, (..., control, 2)."""
    n, t = controls.shape[-2] - 1, (1 - np.cos(np.linspace(0, np.pi, POINTS)[:, None])) / 2  # denser at the fast ends
    k = np.arange(n + 1)
    basis = np.array([comb(n, i) for i in k]) * t**k * (1 - t) ** (n - k)
    return basis @ controls


def _fitted(points: np.ndarray, used: np.ndarray, box: float) -> np.ndarray:
    """Move and scale figures, points of shape (figure, copy, part, point, 2), so that used parts fill a box.

    `used`, boolean, has shape (figure, part); `box` is the length of the box's longer side.
    """
    used = used[:, None, :, None, None]
    low = np.where(used, points, np.inf).min(axis=(2, 3), keepdims=True)
    high = np.where(used, points, -np.inf).max(axis=(2, 3), keepdims=True)
    return (points - (low + high) / 2) * box / (high - low).max(axis=-1, keepdims=True)


def _deformed(
    points: np.ndarray, generator: np.random.Generator, turn: float, shear: float, scale: float
) -> np.ndarray:
    """Rotate, shear and scale figures, points of shape (figure, copy, part, point, 2), at random.

    `turn` (radians), `shear` and `scale` are the standard deviations.
    """
    copies = points.shape[:2]
    angle, sheared = turn * generator.standard_normal(copies), shear * generator.standard_normal(copies)
    rows, columns = np.moveaxis(1 + scale * generator.standard_normal((*copies, 2)), -1, 0)
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    stretch = np.array([[rows, np.zeros(copies)], [sheared, columns]])
    matrix = np.einsum("ijfc,jkfc->fcik", rotation, stretch)
    return np.einsum("fcik,fcptk->fcpti", matrix, points)


def _lines(points: np.ndarray, pen: np.ndarray, side: int) -> np.ndarray:
    """Draw lines through points by a round pen: images in [0, 1], shape (image, side, side).

    `points`, (image, point, 2), must be so close that the distance to the nearest one approximates that to the line;
    `pen`, (image,), is half the line's width.
    """
    axis = np.arange(side, dtype=np.float32) - (side - 1) / 2
    images = np.empty((len(points), side, side), np.float32)
    for first in range(0, len(points), BLOCK):
        block = slice(first, first + BLOCK)
        squares = (points[block].astype(np.float32).transpose(1, 2, 0)[..., None] - axis) ** 2
        least = np.full((squares.shape[2], side, side), np.inf, np.float32)
        for row, column in squares:
            np.minimum(least, row[:, :, None] + column[:, None, :], out=least)
        images[block] = np.clip(pen[block, None, None] + 0.5 - np.sqrt(least), 0, 1)
    return images


def _painted(corners: np.ndarray, shown: np.ndarray, texture: list[np.ndarray], side: int) -> np.ndarray:
    """Paint polygons, later ones over earlier ones: images in [0, 1], shape (image, side, side).

    `corners` have shape (image, polygon, corner, 2); `shown`, boolean, (image, polygon). `texture` has brightness,
    depth of the stripes, their angular frequency along rows and columns, and phase, (image, polygon, 1, 1) each.
    """
    axis = np.arange(side, dtype=np.float32) - np.float32((side - 1) / 2)
    images = np.zeros((len(corners), side, side), np.float32)
    corners, texture = corners.astype(np.float32), [part.astype(np.float32) for part in texture]
    for first in range(0, len(corners), BLOCK):
        block = slice(first, first + BLOCK)
        for polygon in range(corners.shape[1]):
            brightness, depth, rows, columns, phase = (part[block, polygon] for part in texture)
            covered = _covered(corners[block, polygon], axis) * shown[block, polygon, None, None]
            stripes = 0.5 + 0.5 * np.sin(rows * axis[:, None] + columns * axis + phase)
            images[block] += covered * (brightness * (1 - depth * stripes) - images[block])
    return images


def _covered(corners: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """Approximate the share of each pixel that a polygon, (image, corner, 2), covers: shape (image, side, side).

    On two lines through each row of pixels, the covered part is the sum, over edges that cross the line, of the part to
    one side of the crossing, positive for upward edges and negative for downward ones.
    """
    lines = np.stack([axis - 0.25, axis + 0.25], axis=1).ravel()
    shares = np.float32(0)
    for start, stop in zip(corners.swapaxes(0, 1), np.roll(corners, -1, axis=1).swapaxes(0, 1), strict=True):
        (row, column), (to_row, to_column) = (point.T[:, :, None] for point in (start, stop))
        crosses = (row <= lines).astype(np.float32) - (to_row <= lines)
        along = np.divide(lines - row, to_row - row, where=crosses != 0, out=np.zeros_like(crosses))
        at = column + along * (to_column - column)
        shares = shares + crosses[..., None] * np.clip(at[..., None] - axis + 0.5, 0, 1)
    return np.minimum(np.abs(shares), 1).reshape(len(corners), len(axis), 2, len(axis)).mean(axis=2)
