"""The noise optimizer (36)-(39), in closed form."""

import numpy as np


def optimal_noise(
    samples: np.ndarray, scheduled: np.ndarray, max_error: float, min_noise: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute the noise that minimizes sum_i a_i / (K_i sigma_i)^2 subject to (21) and (22).

    By the KKT conditions sigma_i = max((K_i^3 kappa)^(-1/4), Nmin / K_i), eq. (38). The multiplier kappa is the root of
    (39), where (21) is tight. In x = kappa^(-1/2), the left side of (39) is sum_i max(x / sqrt(K_i), Nmin^2 / K_i). It
    increases, linearly between the points Nmin^2 / sqrt(K_i), so sorting these points gives its root exactly.

    `samples` K_i and `scheduled` a_i have shape (realization, user). Returns sigma_i, of that shape: 0 if not
    scheduled, NaN if even sigma_i = Nmin / K_i violates (21); kappa, shape (realization,), NaN if there is none; and
    whether (21) can hold, shape (realization,).
    """
    samples = np.asarray(samples, float)
    slope = np.where(scheduled, samples**-0.5, 0.0)
    floor = np.where(scheduled, min_noise**2 / samples, 0.0)
    total = max_error * np.where(scheduled, samples, 0.0).sum(axis=1)
    feasible = floor.sum(axis=1) <= total

    # On the k-th stretch between points, the k users with the smallest points are above their floors.
    order = np.argsort(np.where(scheduled, min_noise**2 * samples**-0.5, np.inf), axis=1)
    slope_sorted = np.take_along_axis(slope, order, axis=1)
    floor_sorted = np.take_along_axis(floor, order, axis=1)
    left_floor = slope_sorted.cumsum(axis=1)
    on_floor = floor_sorted[:, ::-1].cumsum(axis=1)[:, ::-1] - floor_sorted
    with np.errstate(divide="ignore", invalid="ignore"):
        candidate = (total[:, None] - on_floor) / left_floor
        point = floor_sorted / slope_sorted
        next_point = np.concatenate([point[:, 1:], np.full((len(point), 1), np.inf)], axis=1)
    next_point = np.where(np.isnan(next_point), np.inf, next_point)
    stretch = (candidate <= next_point).argmax(axis=1)
    x = np.take_along_axis(candidate, stretch[:, None], axis=1)
    some = scheduled.any(axis=1)
    solved = (feasible & some)[:, None]
    x = np.where(solved, x, np.nan)

    noise_std = np.sqrt(np.maximum(x * samples**-1.5, (min_noise / samples) ** 2))
    noise_std = np.where(scheduled, np.where(solved, noise_std, np.nan), 0.0)
    return noise_std, x[:, 0] ** -2, feasible
