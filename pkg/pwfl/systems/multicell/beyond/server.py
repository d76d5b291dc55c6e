"""The server's aggregation weights and step sizes."""

import numpy as np

from pwfl.systems.multicell.beyond.sums import total
from pwfl.systems.multicell.parameters import Training
from pwfl.systems.multicell.recipes import RECIPES

SAMPLING = 1e-3  # variance of a record's gradient over that of a user's noise with K_i^2 rho_i = 1; see `counts`


def counts(
    training: Training, samples: np.ndarray, scheduled: np.ndarray, noise_std: np.ndarray, group: np.ndarray
) -> np.ndarray:
    """Compute as how many samples a user counts in the server's average, (..., interval, user), 0 if not scheduled.

    The counts of an interval add up to all samples of its active users. In the paper, they are K_i, (8) and (9). With
    inverse-variance weighting, they are in proportion to 1 / (SAMPLING / K_i + 1 / (K_i^2 rho_i)), where rho_i is the
    leakage of a user who sends in all rounds with this noise. So no record counts for more than that of a user without
    noise. If uploads are summed before the server sees them, K_i and 1 / rho_i are those of a group. All its records
    count alike: within it, no weights are better.

    `samples` K_i has shape (user,), or that of the others: `scheduled`, whether a user sends; `noise_std`, sigma_i;
    `group`, the number of the group in which its upload is summed (`sums.groups`).
    """
    active = samples * scheduled
    if not RECIPES[training.recipe].inverse_variance:
        return active
    summed = total(np.broadcast_to(active, scheduled.shape), group)
    share = np.divide(active, summed, where=summed > 0, out=np.zeros(scheduled.shape))
    noise = total((share * np.where(scheduled, noise_std, 0.0)) ** 2, group)
    noise = noise / (2 * training.rounds * training.clip_norm**2)  # 1 / (K_i^2 rho_i)
    with np.errstate(divide="ignore"):
        precision = share * (scheduled / (SAMPLING / summed + noise))
    everyone = precision.sum(axis=-1, keepdims=True)
    scale = np.divide(active.sum(axis=-1, keepdims=True), everyone, where=everyone > 0, out=np.zeros_like(everyone))
    return precision * scale


def step_sizes(training: Training, noise_std: np.ndarray, sending: np.ndarray) -> np.ndarray:
    """Compute each round's step size eta_t, shape (round,): lambda f_t (`constant`, or no noise), or by noise (`snr`).

    With local steps, lambda is part of the updates, and `constant` is f_t.

    With `snr`, the rounds' noise adds up to the standard deviation sqrt(2) c in each of the final model parameters, for
    all T, L and aggregation weights:

        eta_t = sqrt(2) c f_t / (s_t sqrt(sum_t f_t^2)),

    with f_t the ratio of a step size to the first one, and s_t the standard deviation of the round's noise.
    `noise_std`, that of the aggregated noise, and `sending`, whether anybody sends, have shape (interval,). Raises
    ValueError if users send without noise in only some intervals.
    """
    falling = 1 - np.arange(training.rounds) / training.rounds
    shape = falling if RECIPES[training.recipe].falling else np.ones(training.rounds)
    if training.step == "constant" or not noise_std.any():
        return (1.0 if training.learner == "local_steps" else training.learning_rate) * shape
    if (sending & (noise_std == 0)).any():
        raise ValueError(
            "training.step: snr: is set by the noise, but the active users of some rounds add none; use constant"
        )
    std = np.repeat(noise_std, training.rounds // len(noise_std))
    scaled = np.sqrt(2) * training.step_scale / np.linalg.norm(shape) * shape
    return np.divide(scaled, std, where=std > 0, out=np.zeros_like(std))
