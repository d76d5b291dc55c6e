"""Meanings of columns, in words: of those that tables of several systems have, and of kinds of columns.

No stage's address includes this module: it contains descriptions of columns, and nothing computes with them.
"""

# The meaning of each column that tables of several systems have; see `meaning`.
MEANINGS = {
    "accuracy": "share of the test set that the model classifies correctly",
    "clipped_share": "share of all gradients or updates that are clipped, in the rounds since the row before",
    "delta": "delta of the epsilons",
    "distance_m": "distance between user and base station or access point",
    "epsilon": "epsilon at delta, after all rounds",
    "epsilon_printed": "epsilon by the paper's formula as printed",
    "epsilon_server": "epsilon against an observer of everything that the system's server receives",
    "epsilon_user": "epsilon at delta if all records of one user are replaced, against epsilon's observer",
    "epsilon_worst_case": "exact epsilon if sensitivities have only the bounds that are enforced",
    "fading_gain": "power gain of the fading alone, mean 1",
    "gain": "power gain of the link, path loss included",
    "loss": "mean cross-entropy of the model on the test set, nats",
    "mu": "mu of Gaussian differential privacy, after all rounds",
    "neighbouring_relation": "which data sets count as neighbours",
    "noise": "noise mechanism of the scheme",
    "noise_multiplier": "standard deviation of the noise, divided by the sensitivity of the protected message",
    "noise_std": "standard deviation of the noise that a user adds to its upload, per coordinate",
    "observer": "adversary against whom epsilon is stated",
    "power_w": "transmit power",
    "realization": "number of the realization, from 0",
    "rho": "rho of zero-concentrated differential privacy (zCDP), after all rounds",
    "rho_server": "rho of zCDP against an observer of everything that the system's server receives; composes releases",
    "round": "number of the training round",
    "rounds": "number of rounds",
    "samples": "number of training records",
    "sampling": "sampling of records or users that the epsilons account for",
    "slot": "time slot of the round",
    "status": "outcome in one word",
    "unit": "unit of privacy: what neighbouring data sets differ in",
    "update_noise_std": "standard deviation of noise in the update, per coordinate",
    "user": "number of the user, device or client, from 0",
    "users": "number of users",
}
CLIPPED_SHARE = f"{MEANINGS['clipped_share']}: null: none sent"
TRAINING_STATUS = f"{MEANINGS['status']}: of the training run"
USER_ACCURACY = "{}, with each user's label distribution; null: not evaluated, or a label has no test sample"
KIND = (
    "kind of number that {} is: exact: reached by the worst data; upper bound: proved for all data; estimated: an "
    "upper "
    "bound with probability 99.9 %; not proved: of typical data, others may lose more; null: no user sends"
)
ASSUMES = "assumptions of {} about nature and data; empty: none; null: no user sends"
TRUSTED = "parties whom {} trusts to see and pass on no more than the observer; empty: none; null: no user sends"
ATTACK = (
    "largest true-positive rate of any attack at 1 % false positives: on the most exposed {}; of the same kind as "
    "epsilon; null: no user sends, or only epsilon at delta is known"
)


def meaning(column: str, detail: str = "") -> str:
    """Return a column's description: the meaning that its name has in all tables, and a table's additional detail.

    Raises ValueError for names without a shared meaning.
    """
    if column not in MEANINGS:
        raise ValueError(f"{column!r} has no meaning that all tables share; write the column's own description")
    return f"{MEANINGS[column]}: {detail}" if detail else MEANINGS[column]
