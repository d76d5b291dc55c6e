"""Loss of the private model of aged data less that of the fresh model without noise, and bounds on it.

Client k's share is alpha_k = n_k / n. The model is w = sum of alpha_k (mean of n_k samples at t_k + Laplace noise of
scale b_k). The ideal model is the same mean of samples at T without noise. The loss is the squared error at T, averaged
over clients with weights alpha_k (Lin et al., (2a)). Arrays have users on the last axis; losses are in Wh^2. The bounds
use the data's range r in Wh. They also use I_k, the information in nats that a client's mean has about each of its
samples (or a bound on it). D_k in nats is the divergence of the distribution at t_k from that at T. Proofs:
docs/explanation/age_aware_proofs.md.
"""

import numpy as np


def noise_power(share: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Compute each client's part of the variance of the model's noise, 2 alpha_k^2 b_k^2."""
    return 2 * (share * scale) ** 2


def sampling_excess(
    share: np.ndarray, samples: np.ndarray, variance: np.ndarray, final_variance: np.ndarray
) -> np.ndarray:
    """Compute each client's part of the expected loss difference due to its change of variance from T to t_k."""
    return share**2 * (variance - final_variance) / samples


def expected(bias: np.ndarray, excess: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Compute the expected loss difference (2a) exactly, without the axis of users.

    `bias` is alpha_k (mean at t_k - mean at T) in Wh; `excess` and `power` are `sampling_excess` and `noise_power`.
    Biases add before they are squared, so clients' ages interact.

    Examples
    --------
    >>> nothing = np.zeros(2)
    >>> [float(expected(np.array(bias), nothing, nothing)) for bias in ([3.0, 1.0], [3.0, -1.0])]
    [16.0, 4.0]
    """
    return bias.sum(axis=-1) ** 2 + (excess + power).sum(axis=-1)


def paired_penalty(
    share: np.ndarray, value_range: np.ndarray | float, information: np.ndarray, divergence: np.ndarray
) -> np.ndarray:
    """Compute each client's part of the bound due to age: alpha_k r^2 (I_k + D_k) / 2.

    Theorem 1 with its two steps combined, for the difference of the two losses; see `paired_offset`.
    """
    return share * value_range**2 * (information + divergence) / 2


def paired_offset(share: np.ndarray, samples: np.ndarray, final_variance: np.ndarray) -> np.ndarray:
    """Compute each client's part of the ideal model's sampling loss, which the paired bound subtracts."""
    return share**2 * final_variance / samples


def separate_penalty(
    share: np.ndarray, value_range: np.ndarray | float, information: np.ndarray, divergence: np.ndarray
) -> np.ndarray:
    """Compute each client's part of Theorem 1 as in the paper's appendix, for a loss in [0, R], R = r^2.

    alpha_k R (sqrt((I_k + D_k) / 2) + sqrt(D_k / 2)): generalization term and risk term, bounded separately.
    """
    both = np.sqrt((information + divergence) / 2) + np.sqrt(divergence / 2)
    return share * value_range**2 * both
