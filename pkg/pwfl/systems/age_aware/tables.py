"""Schemas of the tables of the system `age_aware`.

A `case` of a realization is a privacy target or, in a sweep, a client and its collection time.
"""

from functools import partial

import dataframely as dy

from pwfl.systems.age_aware import meanings
from pwfl.systems.age_aware.schemes import NOISE_STATUSES, SCHEDULE_STATUSES
from pwfl.tables import contract
from pwfl.tables.contract import PRIVATE, PUBLIC, epsilon_column, key, meaning

FORMULAS = ("epsilon_amplified", "epsilon_bound", "epsilon_classical", "epsilon_unsafe")  # epsilon_C and values of (1)
_positive = partial(dy.Float64, min_exclusive=0)
_case = partial(
    key, description="number of the case: a privacy target or, in a sweep, a client and its collection time"
)


class _PerCase(contract.PerRealization):
    case = _case()


class _PerClient(_PerCase):
    user = key(description=meaning("user"))


class Users(contract.PerUser):
    """The clients, their Markov chains and numbers of samples (`channel`)."""

    REVEALS = PUBLIC
    chain = dy.String(description="name of the Markov chain that the client's data follow")
    samples = dy.Int64(min=1, description=meaning("samples", "of the client, n_k"))
    sensitivity_wh = dy.Float64(min_exclusive=0, description="l1 sensitivity of the mean of the client's samples")
    states_wh = dy.List(dy.Float64(), description="states of the Markov chain")
    start = dy.List(dy.Float64(min=0, max=1), description="distribution of the state X_0")
    transition = dy.List(
        dy.List(dy.Float64(min=0, max=1)), description="transition matrix of the chain, a list per row"
    )


class Links(contract.PerUser):
    """The profile of each client's data by collection time (`channel`); see `age.profiles`."""

    REVEALS = PUBLIC
    collection_time = key(description=f"{meanings.COLLECTED}: t")
    age = dy.Int64(min=0, description=f"{meanings.AGE}: T - t")
    total_variation = dy.Float64(
        min=0,
        max=1,
        description="Delta(T - t): largest total variation distance of the chain's distributions after T - t steps",
    )
    total_variation_bound = dy.Float64(min=0, max=1, description="proved upper bound on Delta(T - t)")
    spectral_decay = dy.Float64(
        min=0, max=1, description="decay of Delta by the spectral gap, without its constant: no bound"
    )
    divergence_nats = dy.Float64(
        min=0, allow_inf=True, description="Kullback-Leibler divergence of the distribution at t from that at T"
    )
    information_nats = dy.Float64(
        min=0, description="bound ln(1 + (m - 1) / n) on the information in the mean about a sample"
    )
    mean_wh = dy.Float64(description="mean of X_t")
    variance_wh2 = dy.Float64(min=0, description="variance of X_t")


class Schedule(_PerClient):
    """Each client's collection time, and the epsilon_C that it requires (`schedule`)."""

    REVEALS = PUBLIC
    target_epsilon = _positive(description=meanings.TARGET, metadata=PUBLIC)
    collection_time = dy.Int64(min=0, description=f"{meanings.COLLECTED}: t_k")
    required_epsilon = epsilon_column(description="epsilon_C that the classical mechanism must have (4)")


class ScheduleStatus(_PerCase):
    """The search for each schedule, and its objective (`schedule`)."""

    REVEALS = PUBLIC
    target_epsilon = _positive(description=meanings.TARGET, metadata=PUBLIC)
    swept_user = dy.Int64(nullable=True, min=0, description="client whose collection time is swept; null: no sweep")
    swept_time = dy.Int64(nullable=True, min=0, description="collection time of the swept client; null: no sweep")
    status = dy.Enum(SCHEDULE_STATUSES, description=meaning("status", "of the schedule"))
    objective_wh2 = dy.Float64(
        nullable=True, allow_inf=True, description="minimized value of the bound; null: nothing was minimized"
    )
    evaluations = dy.Float64(min=0, description="number of terms that the search evaluated")
    log10_schedules = dy.Float64(min=0, description="log10 of the number of possible schedules")


class Noise(_PerClient):
    """Each client's noise (`noise`)."""

    REVEALS = PUBLIC
    classical_epsilon = epsilon_column(description="epsilon_C of the data at t_k")
    noise_scale_wh = dy.Float64(min=0, description="scale b_k of the Laplace noise")


class NoiseStatus(_PerCase):
    """Each case's noise rule, smallest epsilon_C and largest scale (`noise`)."""

    REVEALS = PUBLIC
    status = dy.Enum(NOISE_STATUSES, description=meaning("status", "of the noise"))
    least_classical_epsilon = epsilon_column(description="smallest epsilon_C of a client")
    largest_scale_wh = dy.Float64(min=0, description="largest scale b_k of a client")


class History(contract.History):
    """Simulated loss difference to a fresh model without noise (`train`); each client uploads once."""

    case = _case()
    target_epsilon = _positive(description=meanings.TARGET, metadata=PUBLIC)
    loss_difference_wh2 = dy.Float64(
        description="simulated loss difference to a fresh model without noise, mean over draws of data and noise",
        metadata=PRIVATE,
    )


class Leakage(_PerClient):
    """Privacy losses of each client's records (`account`)."""

    REVEALS = PUBLIC
    target_epsilon = _positive(description=meanings.TARGET, metadata=PUBLIC)
    collection_time = dy.Int64(min=0, description=f"{meanings.COLLECTED}: t_k")
    age = dy.Int64(min=0, description=f"{meanings.AGE}: T - t_k")
    epsilon_classical = epsilon_column(description=meanings.CLASSICAL)
    epsilon = epsilon_column(description=meaning("epsilon", "of the client's data at T, largest privacy loss"))
    epsilon_amplified = epsilon_column(description=meanings.AMPLIFIED)
    epsilon_bound = epsilon_column(description="bound (1) on epsilon, with the proved bound on Delta")
    epsilon_unsafe = epsilon_column(description=meanings.UNSAFE)
    epsilon_user = epsilon_column(description=meaning("epsilon_user", "an upper bound for all data of the client at T"))
    epsilon_user_classical = epsilon_column(description=meanings.USERS_CLASSICAL)


class Guarantees(contract.Guarantees):
    """Guarantees of the most exposed client of each case (`account`)."""

    case = _case()


class Outcome(contract.Outcome):
    """Guarantee, noise, expected loss difference and bounds of each realization and case (`account`)."""

    REVEALS = PUBLIC
    case = _case()
    target_epsilon = _positive(description=meanings.TARGET, metadata=PUBLIC)
    epsilon_amplified = epsilon_column(description=f"{meanings.AMPLIFIED}: of the most exposed client")
    epsilon_bound = epsilon_column(description="bound (1) on epsilon, with the proved bound on Delta")
    epsilon_classical = epsilon_column(description=f"{meanings.CLASSICAL}: of the most exposed client")
    epsilon_unsafe = epsilon_column(description=f"{meanings.UNSAFE}; of the most exposed client")
    epsilon_user_classical = epsilon_column(description=f"{meanings.USERS_CLASSICAL}: of the most exposed client")
    epsilon_understated = epsilon_column(description="largest ratio epsilon_amplified / epsilon_unsafe of a client")
    target_met = dy.Bool(description="whether epsilon_amplified is at most the target")
    noise_power_wh2 = dy.Float64(min=0, description="variance of the model's noise")
    expected_loss_difference_wh2 = dy.Float64(
        description="expected loss difference to a fresh model without noise, computed exactly"
    )
    paired_bound_wh2 = dy.Float64(
        allow_inf=True,
        description="this project's bound on the expected loss difference, clients paired with their fresh data",
    )
    separate_bound_wh2 = dy.Float64(
        allow_inf=True,
        description="this project's bound on the expected loss difference, both losses bounded separately",
    )


SCHEMAS = {
    "users": Users,
    "links": Links,
    "schedule": Schedule,
    "schedule_status": ScheduleStatus,
    "noise": Noise,
    "noise_status": NoiseStatus,
    "history": History,
    "leakage": Leakage,
    "guarantees": Guarantees,
    "outcome": Outcome,
}
