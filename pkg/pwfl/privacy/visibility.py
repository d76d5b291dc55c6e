"""Visibility of users' messages to the observer of a linear air interface.

The observer receives A (m + n) + z, per coordinate of the users' messages m, with the users' independent Gaussian noise
n and the receivers' z. The noise has the covariance C = A diag(noise_std^2) A' + diag(receiver_std^2). With the column
a_k of A, the visibility of user k is

    sqrt(a_k' C^-1 a_k),

which times the sensitivity of m_k is mu of a Gaussian mechanism. It is infinite if no noise hides the message.
"""

import numpy as np


def through_gram(products: np.ndarray, noise_std: np.ndarray, receiver_std: float) -> np.ndarray:
    """Compute the visibility from the Gram matrix A'A if all users' noise is the same: shape (..., user).

    With eigenvalues l_j and eigenvectors v_j of A'A it is sqrt(sum_j v_jk^2 l_j / (noise_std^2 l_j + receiver_std^2)).

    Parameters
    ----------
    products
        A'A, shape (..., user, user).
    noise_std
        Standard deviation of each user's noise, shape (...,).
    receiver_std
        Standard deviation of the receivers' noise.
    """
    values, vectors = np.linalg.eigh(products)
    values = np.maximum(values, _doubtful(values[..., -1:], values.shape[-1]))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratio = values / (np.square(noise_std)[..., None] * values + receiver_std**2)
        seen = np.sqrt((vectors**2 @ ratio[..., None])[..., 0])
    return np.where(np.isnan(seen), np.inf, seen)


def through_few(amplitudes: np.ndarray, noise_std: np.ndarray, receiver_std: float) -> np.ndarray:
    """Compute `through_gram` of A'A from A = `amplitudes`, shape (..., observed, user), with fewer rows than users.

    The time is linear in the number of users: the eigenvalues of A'A are squares of A's singular values, and 0.
    """
    _, singular, vectors = np.linalg.svd(amplitudes, full_matrices=False)
    values, least = np.square(singular), _doubtful(np.square(singular[..., :1]), amplitudes.shape[-1])
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # Eigenvalues of 0, of the remaining directions, are uncertain by rounding like the others.
        values = np.concatenate([np.maximum(values, least), least], axis=-1)
        ratio = values / (np.square(noise_std)[..., None] * values + receiver_std**2)
        share = np.square(vectors)
        share = np.concatenate([share, np.maximum(1 - share.sum(axis=-2, keepdims=True), 0.0)], axis=-2)
        seen = np.sqrt((ratio[..., None, :] @ share)[..., 0, :])
    return np.where(np.isnan(seen), np.inf, seen)


def _doubtful(largest: np.ndarray, users: int) -> np.ndarray:
    """Return the rounding error of eigenvalues, to which smaller ones are raised: that increases the visibility."""
    return largest * users * np.finfo(float).eps


def linear(heard: np.ndarray, noise_std: np.ndarray, receiver_std: np.ndarray) -> np.ndarray:
    """Compute the visibility of each user's message, shape (..., user), for any noise.

    Parameters
    ----------
    heard
        The amplitudes A, shape (..., observed, user).
    noise_std
        Standard deviation of the users' noise n, shape (..., user).
    receiver_std
        Standard deviation of the receivers' noise z, shape (..., observed).
    """
    # C = M M' by the singular values of M. C's eigenvalues are their squares, which lose half of the digits: users who
    # differ by an interference of amplitude 1e-8 would seem to be the same.
    receivers = receiver_std[..., None] * np.eye(heard.shape[-2])
    directions, singular, _ = np.linalg.svd(
        np.concatenate([heard * noise_std[..., None, :], receivers], axis=-1), full_matrices=False
    )
    rounding = sum(heard.shape[-2:]) * np.finfo(float).eps
    doubtful = singular <= singular[..., :1] * rounding  # zero but for rounding
    along = np.abs(np.swapaxes(directions, -1, -2) @ heard)  # (..., direction, user)
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = np.where(doubtful[..., None], 0.0, along / singular[..., None])
        outside = doubtful[..., None] & (along > np.linalg.norm(heard, axis=-2, keepdims=True) * rounding)
        # A message with a component in such a direction is no more visible than alone with its own noise.
        return np.where(outside.any(axis=-2), 1 / noise_std, np.sqrt(np.square(seen).sum(axis=-2)))
