"""How a unit of a user's message shows to who observes a linear air: sqrt(a' C^-1 a) = mu over the sensitivity."""

import numpy as np


def through_gram(products: np.ndarray, noise_std: np.ndarray, receiver_std: float) -> np.ndarray:
    """As `linear` with A'A = `products`, shape (..., user, user), users' noise alike, (...,), receivers' a number.

    With eigenvalues l and eigenvectors v of the products it is the root of the sum of v_k^2 l / (noise_std^2 l +
    receiver_std^2).
    """
    values, vectors = np.linalg.eigh(products)
    values = np.maximum(values, _doubtful(values[..., -1:], values.shape[-1]))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratio = values / (np.square(noise_std)[..., None] * values + receiver_std**2)
        seen = np.sqrt((vectors**2 @ ratio[..., None])[..., 0])
    return np.where(np.isnan(seen), np.inf, seen)


def through_few(amplitudes: np.ndarray, noise_std: np.ndarray, receiver_std: float) -> np.ndarray:
    """As `through_gram` of A'A with A = `amplitudes`, shape (..., observed, user), of fewer observed than users.

    In time that grows linearly with users: the products' eigenvalues are squares of A's singular values, all others 0.
    """
    _, singular, vectors = np.linalg.svd(amplitudes, full_matrices=False)
    values, least = np.square(singular), _doubtful(np.square(singular[..., :1]), amplitudes.shape[-1])
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # Eigenvalues of 0, in the space that the vectors leave, are in doubt like others.
        values = np.concatenate([np.maximum(values, least), least], axis=-1)
        ratio = values / (np.square(noise_std)[..., None] * values + receiver_std**2)
        share = np.square(vectors)
        share = np.concatenate([share, np.maximum(1 - share.sum(axis=-2, keepdims=True), 0.0)], axis=-2)
        seen = np.sqrt((ratio[..., None, :] @ share)[..., 0, :])
    return np.where(np.isnan(seen), np.inf, seen)


def _doubtful(largest: np.ndarray, users: int) -> np.ndarray:
    """Eigenvalues below which rounding leaves them in doubt, so that they are taken for this; more means visibility."""
    return largest * users * np.finfo(float).eps


def linear(heard: np.ndarray, noise_std: np.ndarray, receiver_std: np.ndarray) -> np.ndarray:
    """Visibility of users' messages in what is observed, shape (..., user); infinite where nothing hides one.

    What is observed is A m + A n + z, by coordinate of the messages m: C = A diag(noise_std^2) A' +
    diag(receiver_std^2).

    Parameters
    ----------
    heard
        A, shape (..., observed, user).
    noise_std, receiver_std
        Of the users' noise n, shape (..., user), and the receivers' z, shape (..., observed), independent.
    """
    # C = M M', by the singular values of M: C's eigenvalues are their squares, in which half of the digits are lost, so
    # that users who differ by a leak of amplitude 1e-8 would be taken to be alike.
    receivers = receiver_std[..., None] * np.eye(heard.shape[-2])
    directions, singular, _ = np.linalg.svd(
        np.concatenate([heard * noise_std[..., None, :], receivers], axis=-1), full_matrices=False
    )
    rounding = sum(heard.shape[-2:]) * np.finfo(float).eps
    doubtful = singular <= singular[..., :1] * rounding  # of which rounding leaves nothing
    along = np.abs(np.swapaxes(directions, -1, -2) @ heard)  # (..., direction, user)
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = np.where(doubtful[..., None], 0.0, along / singular[..., None])
        outside = doubtful[..., None] & (along > np.linalg.norm(heard, axis=-2, keepdims=True) * rounding)
        # What shows in such a direction shows no more than to who sees the message alone.
        return np.where(outside.any(axis=-2), 1 / noise_std, np.sqrt(np.square(seen).sum(axis=-2)))
