"""Who of the scheduled gets how much of the leakage that the noise optimizer (36) allows.

A user's leakage rho_i (11) is in proportion to its exposure x_i = 1 / (K_i sigma_i)^2, so each allocation is one of
exposures at the sum or at the maximum of those that (36) leaves. None of them is the paper's.
"""

import numpy as np

ALLOCATIONS = ("equal_sum", "equal_max", "fill_up")
WHOLE = 1e-9  # by which a sum may miss a whole number of maxima, relative


def allocate(name: str, samples: np.ndarray, noise_std: np.ndarray) -> np.ndarray:
    """Noise sigma_i that shares out the exposures of a given noise anew; infinite of those who then do not send.

    `equal_sum`: everyone the same, at the same sum, which gives the average the least noise (Cauchy-Schwarz). Bound
    (22) holds, (21) need not. `equal_max`: everyone at the maximum. Noise only falls, so (21) and (22) hold where they
    did. `fill_up`: as many users as the sum pays for at the maximum, those of most samples; the others do not send.

    `samples` K_i and `noise_std` sigma_i of the noise optimizer, 0 where not scheduled, NaN where infeasible, have
    shape (realization, user), as has the result.
    """
    with np.errstate(divide="ignore"):
        exposure = np.where(noise_std == 0, 0.0, (samples * noise_std) ** -2.0)
    total, most = exposure.sum(axis=1, keepdims=True), exposure.max(axis=1, keepdims=True)
    scheduled = exposure != 0  # NaN among them
    with np.errstate(invalid="ignore", divide="ignore"):
        if name == "equal_sum":
            shared = total / scheduled.sum(axis=1, keepdims=True)
        elif name == "equal_max":
            shared = most
        elif name == "fill_up":
            paid = np.floor(total / most * (1 + WHOLE))
            rank = np.argsort(np.argsort(-np.where(scheduled, samples, 0), axis=1, kind="stable"), axis=1)
            shared = np.where(rank >= paid, 0.0, most)
        else:
            raise ValueError(f"{name}: is no allocation; known: {', '.join(ALLOCATIONS)}")
        return np.where(scheduled, 1 / (samples * np.sqrt(shared)), 0.0)
