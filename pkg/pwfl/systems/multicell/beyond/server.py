"""What the server makes of the gradients: how it weighs users, and how far it steps."""

import numpy as np

from pwfl.systems.multicell.beyond.sums import groups, total
from pwfl.systems.multicell.parameters import Training
from pwfl.systems.multicell.recipes import RECIPES

SAMPLING = 1e-3  # of a record's gradient by sampling, over that of a user's noise with K_i^2 rho_i = 1; see `counts`


def counts(
    training: Training,
    samples: np.ndarray,
    scheduled: np.ndarray,
    noise_std: np.ndarray,
    group: np.ndarray | None = None,
) -> np.ndarray:
    """As how many samples the server's average counts each user, shape (..., interval, user), 0 where not scheduled.

    Those who send in an interval count as all theirs. By the paper as K_i, (8) and (9); by inverse variance in
    proportion to 1 / (SAMPLING / K_i + 1 / (K_i^2 rho_i)), with rho_i what the user would spend if it sent in all
    rounds with this noise, so that no record counts for more than that of a user without noise. Where uploads are
    summed before the server sees them, K_i and 1 / rho_i are those of a group, whose records count alike: within it, no
    weights are better.

    `samples` K_i has shape (user,), or that of the others: `scheduled` and `noise_std`, who sends, and sigma_i, and
    `group`, the number of the group in which a user's upload is summed, None: each user's alone.
    """
    active = samples * scheduled
    if not RECIPES[training.recipe].inverse_variance:
        return active
    group = groups("user", scheduled) if group is None else group
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
    """Each round's step size eta_t, shape (round,): `constant`, lambda, also without noise; or `snr`, from the noise.

    Updates of local steps, in which lambda is, are taken whole with `constant`.

    With `snr`, the rounds' noise adds up to sqrt(2) c in each of the last weights, whatever T, L and the users' weights
    are:

        eta_t = sqrt(2) c f_t / (s_t sqrt(sum_t f_t^2)),

    with f_t a step's share of the first one and s_t the deviation of the round's noise. `noise_std`, the standard
    deviation of the aggregated noise, and `sending`, whether anybody sends, have shape (interval,). Raises ValueError
    if only some send without noise.
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
