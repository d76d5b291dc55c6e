"""How a data set's training samples are dealt out to users."""

import numpy as np

from pwfl import streams


def deal(available: int, samples: np.ndarray, seed: int, realization: int) -> list[np.ndarray]:
    """The training samples that each user holds, drawn without replacement; the same for all schemes.

    Parameters
    ----------
    available
        Training samples of the data set.
    samples
        How many each user gets, shape (user,).

    Returns
    -------
    list of np.ndarray
        Each user's samples, by their numbers in the data set.

    Raises
    ------
    ValueError
        If users are to get more samples than there are.

    Examples
    --------
    >>> [mine.tolist() for mine in deal(8, np.array([3, 2]), seed=1, realization=0)]
    [[7, 1, 6], [2, 3]]
    """
    if (total := samples.sum()) > available:
        raise ValueError(f"users are to get {total} samples, there are {available}")
    order = streams.generator(seed, "data", realization).permutation(available)
    return np.split(order, samples.cumsum())[:-1]
