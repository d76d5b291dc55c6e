"""Finite Markov chains: their distributions, reverse kernels, and speed of convergence.

A chain has a transition matrix P, P[a, x] = Pr(X_{s+1} = x | X_s = a), of shape (states, states), and a start
distribution at time 0, of shape (states,).
"""

import numpy as np

from pwfl.systems.age_aware.parameters import Chain

TOLERANCE = 1e-9  # by which a sum of probabilities may differ from 1


def chain_of(chain: Chain, states: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a chain's matrix (`matrix`, or by `up` and `down`) and its start distribution (default: stationary)."""
    if chain.up is not None and chain.down is not None:
        matrix = birth_death(chain.up, chain.down, states)
    else:
        matrix = np.array(chain.matrix, float)
    return matrix, stationary(matrix) if chain.start is None else np.array(chain.start, float)


def birth_death(up: float, down: float, states: int) -> np.ndarray:
    """Return the matrix of a chain that moves up with probability `up`, down with `down`, or stays (Sec. IV-A).

    Does not check the result; see `matrix_flaw`.

    Examples
    --------
    >>> birth_death(0.25, 0.5, states=3)
    array([[0.75, 0.25, 0.  ],
           [0.5 , 0.25, 0.25],
           [0.  , 0.5 , 0.5 ]])
    """
    steps = np.diag(np.full(states - 1, up), 1) + np.diag(np.full(states - 1, down), -1)
    return steps + np.diag(1 - steps.sum(axis=1))


def matrix_flaw(transition: np.ndarray) -> str | None:
    """Describe why a square matrix is not that of an irreducible aperiodic chain; None if it is."""
    states = len(transition)
    for row, law in enumerate(transition):
        if flaw := law_flaw(law):
            return f"row {row} of its transition matrix {flaw}"
    # A power of a boolean matrix shows which states are reached from which in that number of steps.
    step = transition > 0
    reached = np.linalg.matrix_power(step | np.eye(states, dtype=bool), states)
    if not reached.all():
        row, column = np.argwhere(~reached)[0]
        return f"it is reducible: state {column} is never reached from state {row}"
    # Wielandt: an irreducible chain is aperiodic if and only if this power has no zero.
    if not np.linalg.matrix_power(step, (states - 1) ** 2 + 1).all():
        return "it is periodic: it never forgets its start; give some state a positive probability of staying"
    return None


def law_flaw(law: np.ndarray) -> str | None:
    """Describe why probabilities are not a distribution (their sum is not 1); None if they are."""
    return None if abs(law.sum() - 1) <= TOLERANCE else f"sums to {law.sum():.10g}, must sum to 1"


def stationary(transition: np.ndarray) -> np.ndarray:
    """Compute the stationary distribution pi of an irreducible chain."""
    states = len(transition)
    equations = np.vstack([transition.T - np.eye(states), np.ones(states)])
    law = np.linalg.lstsq(equations, np.append(np.zeros(states), 1.0), rcond=None)[0]
    return law / law.sum()


def laws(transition: np.ndarray, start: np.ndarray, horizon: int) -> np.ndarray:
    """Compute the distributions mu_t of X_t, t = 0..horizon, shape (horizon + 1, states)."""
    mu = [np.asarray(start, float)]
    for _ in range(horizon):
        mu.append(mu[-1] @ transition)
    return np.stack(mu)


def reverse_kernels(transition: np.ndarray, start: np.ndarray, horizon: int) -> np.ndarray:
    """Compute Pr(X_t = a | X_T = x) = mu_t(a) P^(T-t)(a, x) / mu_T(x) for t = 0..T = horizon.

    Exact for any start distribution. Shape (T + 1, x, a); x are the states that X_T can have.
    """
    mu = laws(transition, start, horizon)
    powers = [np.eye(len(transition))]
    for _ in range(horizon):
        powers.append(transition @ powers[-1])
    possible = mu[-1] > 0
    joint = mu[:, :, None] * np.stack(powers[::-1])
    return np.swapaxes(joint[:, :, possible] / mu[-1, possible], 1, 2)


def total_variation(kernels: np.ndarray) -> np.ndarray:
    """Compute the largest total variation distance of two rows of each reverse kernel, (T + 1, x, a): (T + 1,).

    Rounded up by the largest possible error of the sums behind the kernels, so that privacy is never overstated.
    """
    difference = np.abs(kernels[:, :, None] - kernels[:, None]).sum(axis=-1) / 2
    times, rows, states = kernels.shape
    return np.minimum(difference.max(axis=(1, 2)) + (rounding(times, states) if rows > 1 else 0), 1.0)


def rounding(times: int, states: int) -> float:
    """Bound the rounding error of a distance from powers of a chain, after `times` steps of sums of `states` terms."""
    return 4 * np.finfo(float).eps * states * (times + 1)


def contraction(transition: np.ndarray) -> float:
    """Compute the norm of P on functions of mean zero in L2(pi): max over i >= 2 of |lambda_i| if P is reversible."""
    root = np.sqrt(stationary(transition))
    centred = root[:, None] * transition / root - np.outer(root, root)
    return float(min(np.linalg.norm(centred, 2), 1.0))


def spectral_gap(transition: np.ndarray) -> float:
    """Compute the absolute spectral gap, 1 - max over i >= 2 of |lambda_i|."""
    return float(1 - np.sort(np.abs(np.linalg.eigvals(transition)))[-2])


def total_variation_bound(transition: np.ndarray, start: np.ndarray, horizon: int) -> np.ndarray:
    """Compute a proved upper bound on `total_variation` of the reverse kernels, t = 0..T = horizon, shape (T + 1,).

    It is 1/2 c^(T-t) sqrt(max_a mu_t(a) / pi_a) max over x != x' of sqrt(pi_x / mu_T(x)^2 + pi_x' / mu_T(x')^2), at
    most 1, with c the `contraction`. For a stationary start it is 1/2 c^(T-t) max sqrt(1/pi_x + 1/pi_x'). Proof:
    docs/explanation/age_aware_proofs.md.
    """
    pi, mu = stationary(transition), laws(transition, start, horizon)
    possible = mu[-1] > 0
    weight = np.sort(pi[possible] / mu[-1, possible] ** 2)[-2:]
    if len(weight) < 2:
        return np.zeros(horizon + 1)
    decay = contraction(transition) ** np.arange(horizon, -1, -1)
    bound = 0.5 * decay * np.sqrt((mu / pi).max(axis=1) * weight.sum())
    return np.minimum(bound + rounding(horizon + 1, len(pi)), 1.0)


def divergence(law: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Compute D(law || other) (Kullback-Leibler), in nats, over the last axis; infinite if `other` lacks a state."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(law > 0, law * np.log(law / other), 0.0)
    return np.maximum(terms.sum(axis=-1), 0.0)
