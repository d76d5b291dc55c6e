"""How a data set's training samples are dealt out to users, and what a model is worth to users who hold different ones.

How many samples each user gets is the system's; which ones, `data.partition` says: any (`iid`; `quantity` where numbers
differ), or labels by proportions of its own (`dirichlet`), or few labels (`shards`). Each user in turn takes what is
left, so where all samples are dealt, the last users get labels that they would not have chosen. Or the data say whose
samples are whose (`given`): then each user is another one of theirs.
"""

import numpy as np
import polars as pl

from pwfl import streams

WORST = 10  # one user in so many is among the worst
USER_ACCURACIES = ("user_accuracy", "user_accuracy_std", "user_accuracy_bottom_decile")  # columns of histories


def deal(available: int, samples: np.ndarray, seed: int, realization: int) -> list[np.ndarray]:
    """The numbers of the training samples that each user holds, drawn without replacement; the same for all schemes.

    `samples` says how many each user gets, shape (user,). Raises ValueError if that is more than are `available`.

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
    """As `deal`, by the section `data` of a scenario, of training samples with `labels`, from 0, shape (sample,).

    `users`, which `given` needs, says whose they are (`datasets.Dataset`).
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
    """As `deal`, to each user samples of one of their owners, shape (sample,), drawn among those who have as many.

    Owners are drawn without replacement; raises ValueError if there are not enough. With the numbers of
    `samples_by_user` these are all samples of the owners that it drew.
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
    """How many samples each user has, where owners hold `counts`, in the order in which `deal_by_user` draws these."""
    return counts[_drawn(len(counts), seed, realization)[:users]]


def _drawn(owners: int, seed: int, realization: int) -> np.ndarray:
    """Owners in random order. The channel, which says how much they hold, and training draw it alike."""
    return streams.generator(seed, "owners", realization).permutation(owners)


def dirichlet_counts(generator: np.random.Generator, alpha: float, samples: np.ndarray, stock: np.ndarray):
    """How many samples of each label each user takes, shape (user, label): label after label by its own proportions.

    A user's proportions are Dirichlet with mean `stock`, the samples of each label, shape (label,), and concentration
    `alpha` a label. Of a label that has run out the user takes the others, in their proportions; where these are all
    zero, in those of what is left.
    """
    left, counts = stock.copy(), np.zeros((len(samples), len(stock)), np.int64)
    for wanted, took in zip(samples, counts, strict=True):
        share = generator.dirichlet(alpha * len(stock) * stock / stock.sum())
        while missing := wanted - took.sum():
            share = np.where(took < left, share, 0.0)
            if not share.any():
                share = (left - took).astype(float)
            # Those drawn of a label beyond what is left are drawn again.
            took[:] = np.minimum(took + generator.multinomial(missing, share / share.sum()), left)
        left -= took
    return counts


def shard_counts(generator: np.random.Generator, labels_per_user: int, samples: np.ndarray, stock: np.ndarray):
    """How many samples of each label each user takes, shape (user, label): as many of each of `labels_per_user`.

    These are drawn, in proportion to what is left of them, among labels of which enough is left. Where so many are not,
    a user takes those of which most is left, and what they lack from others.
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
    """How many samples of each label each user holds, shape (user, label).

    >>> held(np.array([0, 2, 2]), [np.array([1, 2]), np.array([0])], 3).tolist()
    [[0, 0, 2], [1, 0, 0]]
    """
    return np.stack([np.bincount(labels[mine], minlength=classes) for mine in owned])


def holdings(
    scenario, labels: np.ndarray, samples: np.ndarray, realization: int, users: np.ndarray | None = None
) -> pl.DataFrame:
    """Who holds what in a realization by `deal_out`: rows (realization, user, label, samples)."""
    owned = deal_out(scenario.data, labels, samples, scenario.seed, realization, users)
    counts = held(labels, owned, labels.max() + 1)
    user, label = counts.nonzero()
    return pl.DataFrame({"user": user, "label": label, "samples": counts[user, label]}).select(
        pl.lit(realization, pl.Int64).alias("realization"), pl.all()
    )


def user_accuracies(by_label: np.ndarray, counts: np.ndarray) -> dict[str, np.ndarray]:
    """Mean, standard deviation and worst tenth, over users, of a model's accuracy to each; columns of a history.

    A user's accuracy is the mean of the accuracies on the test samples of each label, `by_label`, shape (..., label),
    weighted by the user's shares of labels (`counts` as from `held`): what it would be on test samples with the user's
    labels, if samples of a label are alike whoever holds them. Every user counts alike; the worst tenth of users is
    rounded up. NaN where a label has no test sample.

    >>> [float(column) for column in user_accuracies(np.array([0.5, 1.0]), np.array([[3, 0], [1, 1]])).values()]
    [0.625, 0.125, 0.5]
    """
    ranked = np.sort(by_label @ (counts / counts.sum(axis=1, keepdims=True)).T, axis=-1)
    worst = ranked[..., : -(-ranked.shape[-1] // WORST)]
    return dict(zip(USER_ACCURACIES, (ranked.mean(axis=-1), ranked.std(axis=-1), worst.mean(axis=-1)), strict=True))
