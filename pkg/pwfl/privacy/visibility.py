"""How a unit of a user's message shows to who observes a linear air: sqrt(a' C^-1 a) = mu over the sensitivity."""

import numpy as np


def through_gram(products: np.ndarray, noise_std: np.ndarray, receiver_std: float) -> np.ndarray:
    """As `linear` with A'A = `products`, shape (..., user, user), users' noise alike, (...,), receivers' a number.

    With eigenvalues l and eigenvectors v of the products it is the root of the sum of v_k^2 l / (noise_std^2 l +
    receiver_std^2).
    """
    values, vectors = np.linalg.eigh(products)
    # Rounding leaves eigenvalues below this in doubt; more of them means more visibility.
    values = np.maximum(values, values[..., -1:] * values.shape[-1] * np.finfo(float).eps)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratio = values / (np.square(noise_std)[..., None] * values + receiver_std**2)
        seen = np.sqrt((vectors**2 @ ratio[..., None])[..., 0])
    return np.where(np.isnan(seen), np.inf, seen)


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
    spread = heard * noise_std[..., None, :]
    covariance = spread @ np.swapaxes(spread, -1, -2)
    places = np.arange(heard.shape[-2])
    covariance[..., places, places] += np.square(receiver_std)
    values, vectors = np.linalg.eigh(covariance)
    # Rounding leaves eigenvalues below this in doubt; less noise means more visibility.
    least = np.maximum(values[..., -1:], 0) * values.shape[-1] * np.finfo(float).eps
    along = np.square(np.swapaxes(vectors, -1, -2) @ heard)  # (..., eigenvalue, user)
    share = along.sum(axis=-2, keepdims=True) * heard.shape[-2] * np.finfo(float).eps
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = np.where(values > least, 1 / np.where(values > 0, values, 1.0), np.inf)[..., None] * along
    outside = (values <= least)[..., None] & (along > share)
    seen = np.where((values <= least)[..., None], np.where(outside, np.inf, 0.0), seen)
    return np.sqrt(seen.sum(axis=-2))
