"""Assign a data set's training records to users, and compute a model's accuracy for users with different labels.

The system determines how many records each user gets, and `data.partition` which ones:

- `iid`, `quantity`: at random (`quantity`: with different numbers of records);
- `dirichlet`: label proportions per user, from a Dirichlet distribution;
- `shards`: few labels per user;
- `given`: the data set names the user of each record; each user is one of those.

Records are drawn without replacement, one user after the other. If all are assigned, the last users may get other
labels than they drew. "Sample" is a record.
"""

import numpy as np
import polars as pl

from pwfl import streams

WORST = 10  # a tenth of users is the bottom decile
USER_ACCURACIES = ("user_accuracy", "user_accuracy_std", "user_accuracy_bottom_decile")  # columns of histories


def deal(available: int, samples: np.ndarray, seed: int, realization: int) -> list[np.ndarray]:
    """Assign records to users at random: one array of record indices per user, without repetition.

    The result depends on the seed and the realization alone, so it is the same for all schemes.

    Parameters
    ----------
    available
        Number of training records.
    samples
        Number of records of each user, shape (user,).
    seed, realization
        Of the random stream.

    Raises
    ------
    ValueError
        If users need more records than are available.

    Examples
    --------
    >>> [mine.tolist() for mine in deal(8, np.array([3, 2]), seed=1, realization=0)]
    [[7, 1, 6], [2, 3]]
    """
    if (total := samples.sum()) > available:
        raise ValueError(
            f"users need {total} samples, but only {available} are available; lower the users' samples, or "
            "data.reserved and data.validation"
        )
    order = streams.generator(seed, "data", realization).permutation(available)
    return np.split(order, samples.cumsum())[:-1]


def deal_out(
    data, labels: np.ndarray, samples: np.ndarray, seed: int, realization: int, users: np.ndarray | None = None
) -> list[np.ndarray]:
    """Assign records to users by `data.partition`: one array of record indices per user, without repetition.

    Parameters
    ----------
    data
        A scenario's section `data`.
    labels
        Labels of the training records, from 0, shape (record,).
    samples, seed, realization
        As in `deal`.
    users
        The user who holds each record, shape (record,) (`datasets.Dataset.users`); only `given` needs it.
    """
    if data.partition == "given":
        assert users is not None
        return deal_by_user(users, samples, seed, realization)
    taken = deal(len(labels), samples, seed, realization)
    if data.partition in ("iid", "quantity"):
        return taken
    generator, stock = streams.generator(seed, "labels", realization), np.bincount(labels)
    if data.partition == "dirichlet":
        counts = dirichlet_counts(generator, data.alpha, samples, stock)
    else:
        counts = shard_counts(generator, data.labels_per_user, samples, stock)
    (order,) = deal(len(labels), np.array([len(labels)]), seed, realization)
    parts = [np.split(order[labels[order] == label], counts[:, label].cumsum()) for label in range(len(stock))]
    return [np.concatenate([part[user] for part in parts]) for user in range(len(samples))]


def deal_by_user(owners: np.ndarray, samples: np.ndarray, seed: int, realization: int) -> list[np.ndarray]:
    """Assign to each user records of one owner in the data set, drawn without replacement.

    An owner is drawn among those with enough records. If `samples` is from `samples_by_user`, users get all records of
    the owners that it drew. Raises ValueError if there are not enough owners.

    Parameters
    ----------
    owners
        The owner of each training record, shape (record,).
    samples, seed, realization
        As in `deal`.
    """
    names, counts = np.unique(owners, return_counts=True)
    (order,) = deal(len(owners), np.array([len(owners)]), seed, realization)
    left, taken = iter(_drawn(len(names), seed, realization)), []
    for wanted in samples:
        place = next((place for place in left if counts[place] >= wanted), None)
        if place is None:
            raise ValueError(
                f"{len(samples)} users need up to {samples.max()} samples each; too few users of the data hold that "
                "many"
            )
        taken.append(order[owners[order] == names[place]][:wanted])
    return taken


def samples_by_user(counts: np.ndarray, users: int, seed: int, realization: int) -> np.ndarray:
    """Return the number of records of each of `users` users, if each is an owner with all its records.

    `counts`, shape (owner,), are the owners' numbers of records. Owners are in the order in which `deal_by_user` draws
    them.
    """
    return counts[_drawn(len(counts), seed, realization)[:users]]


def _drawn(owners: int, seed: int, realization: int) -> np.ndarray:
    """Draw a random order of owners, the same for the stage that sets numbers of records and for training."""
    return streams.generator(seed, "owners", realization).permutation(owners)


def dirichlet_counts(generator: np.random.Generator, alpha: float, samples: np.ndarray, stock: np.ndarray):
    """Draw the number of records of each label for each user, shape (user, label), from Dirichlet proportions.

    A user's proportions are Dirichlet(alpha L p), with the shares p of the L labels in the data set. If a label has no
    records left, the user gets others in its proportions or, if these are all zero, in the proportions of what is left.

    Parameters
    ----------
    generator
        Draws them.
    alpha
        Concentration per label: the smaller, the fewer labels a user has.
    samples
        Number of records of each user, shape (user,).
    stock
        Number of records of each label in the data set, shape (label,).
    """
    left, counts = stock.copy(), np.zeros((len(samples), len(stock)), np.int64)
    for wanted, took in zip(samples, counts, strict=True):
        share = generator.dirichlet(alpha * len(stock) * stock / stock.sum())
        while missing := wanted - took.sum():
            share = np.where(took < left, share, 0.0)
            if not share.any():
                share = (left - took).astype(float)
            # Records of a label beyond what is left of it are drawn again.
            took[:] = np.minimum(took + generator.multinomial(missing, share / share.sum()), left)
        left -= took
    return counts


def shard_counts(generator: np.random.Generator, labels_per_user: int, samples: np.ndarray, stock: np.ndarray):
    """Draw the number of records of each label for each user, shape (user, label): few labels, equally many of each.

    A user's labels are drawn among those with enough records left, in proportion to what is left. If there are fewer
    than `labels_per_user` of these, the user gets the labels with the most records left, and missing records from
    others. `samples` and `stock` are as in `dirichlet_counts`.
    """
    left, counts = stock.copy(), np.zeros((len(samples), len(stock)), np.int64)
    for wanted, took in zip(samples, counts, strict=True):
        enough = np.where(left >= -(-wanted // labels_per_user), left, 0)
        most_first = np.argsort(-left, kind="stable")
        if np.count_nonzero(enough) >= labels_per_user:
            chosen = generator.choice(len(stock), labels_per_user, replace=False, p=enough / enough.sum())
        else:
            chosen = most_first[:labels_per_user]
        shard = wanted // labels_per_user + (np.arange(labels_per_user) < wanted % labels_per_user)
        took[chosen] = np.minimum(shard, left[chosen])
        for label in most_first:
            took[label] += min(left[label] - took[label], wanted - took.sum())
        left -= took
    return counts


def held(labels: np.ndarray, owned: list[np.ndarray], classes: int) -> np.ndarray:
    """Count the records of each label that each user holds, shape (user, label).

    `labels` has shape (record,); `owned` has one array of record indices per user.

    >>> held(np.array([0, 2, 2]), [np.array([1, 2]), np.array([0])], 3).tolist()
    [[0, 0, 2], [1, 0, 0]]
    """
    return np.stack([np.bincount(labels[mine], minlength=classes) for mine in owned])


def holdings(
    scenario, labels: np.ndarray, samples: np.ndarray, realization: int, users: np.ndarray | None = None
) -> pl.DataFrame:
    """Make the table `holdings` of a realization, by `deal_out`: rows (realization, user, label, samples)."""
    owned = deal_out(scenario.data, labels, samples, scenario.seed, realization, users)
    counts = held(labels, owned, labels.max() + 1)
    user, label = counts.nonzero()
    return pl.DataFrame({"user": user, "label": label, "samples": counts[user, label]}).select(
        pl.lit(realization, pl.Int64).alias("realization"), pl.all()
    )


def user_accuracies(by_label: np.ndarray, counts: np.ndarray) -> dict[str, np.ndarray]:
    """Compute mean, standard deviation and bottom decile of users' accuracies; the columns USER_ACCURACIES, (...).

    A user's accuracy is the mean of the accuracies on each label's test records, weighted by the user's shares of
    labels: the accuracy on test records with the user's labels, if records of a label are alike whoever holds them. All
    users have the same weight; the bottom decile is the mean of the worst tenth of users, rounded up. NaN if a label
    has no test record.

    Parameters
    ----------
    by_label
        Accuracy on the test records of each label, shape (..., label).
    counts
        Number of each user's records of each label, shape (user, label) (`held`).

    Examples
    --------
    >>> [float(column) for column in user_accuracies(np.array([0.5, 1.0]), np.array([[3, 0], [1, 1]])).values()]
    [0.625, 0.125, 0.5]
    """
    ranked = np.sort(by_label @ (counts / counts.sum(axis=1, keepdims=True)).T, axis=-1)
    worst = ranked[..., : -(-ranked.shape[-1] // WORST)]
    return dict(zip(USER_ACCURACIES, (ranked.mean(axis=-1), ranked.std(axis=-1), worst.mean(axis=-1)), strict=True))
