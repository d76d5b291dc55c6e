"""Allocation, to scheduled users, of the leakage that the noise optimizer (36) allows.

A user's leakage rho_i (11) is in proportion to its exposure x_i = 1 / (K_i sigma_i)^2. So each allocation distributes
exposures, at the sum or at the maximum of those of (36). None of them is the paper's.

Arguments are `samples` K_i and `noise_std` sigma_i of the noise optimizer, 0 if not scheduled, NaN if infeasible, of
shape (realization, user). Results are noise of this shape, infinite for users who then do not send.
"""

import numpy as np

WHOLE = 1e-9  # relative amount by which a sum may miss a whole number of maxima


def share_sum(samples: np.ndarray, noise_std: np.ndarray) -> np.ndarray:
    """Give all users the same exposure, at the same sum, which minimizes the average's noise (Cauchy-Schwarz).

    Constraint (22) holds, (21) need not.
    """
    exposure = exposures(samples, noise_std)
    with np.errstate(invalid="ignore", divide="ignore"):
        shared = exposure.sum(axis=1, keepdims=True) / (exposure != 0).sum(axis=1, keepdims=True)
    return noise_at(samples, exposure, shared)


def share_maximum(samples: np.ndarray, noise_std: np.ndarray) -> np.ndarray:
    """Give all users the maximum exposure. Noise does not increase, so (21) holds if it did; (22) holds."""
    exposure = exposures(samples, noise_std)
    return noise_at(samples, exposure, exposure.max(axis=1, keepdims=True))


def fill_up(samples: np.ndarray, noise_std: np.ndarray) -> np.ndarray:
    """Give the maximum exposure to as many users as the sum permits, with most samples; the others do not send."""
    exposure = exposures(samples, noise_std)
    total, most = exposure.sum(axis=1, keepdims=True), exposure.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        paid = np.floor(total / most * (1 + WHOLE))
    rank = np.argsort(np.argsort(-np.where(exposure != 0, samples, 0), axis=1, kind="stable"), axis=1)
    return noise_at(samples, exposure, np.where(rank >= paid, 0.0, most))


def exposures(samples: np.ndarray, noise_std: np.ndarray) -> np.ndarray:
    """Compute the exposures x_i of a given noise: 0 if not scheduled, NaN if infeasible."""
    with np.errstate(divide="ignore"):
        return np.where(noise_std == 0, 0.0, (samples * noise_std) ** -2.0)


def noise_at(samples: np.ndarray, exposure: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """Compute noise with which scheduled users, with `exposure` not 0, have the exposure `shared`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(exposure != 0, 1 / (samples * np.sqrt(shared)), 0.0)
