"""Schemas of the tables of the system `age_aware`.

A `case` is what a realization is scheduled for: a privacy target, or in a sweep a client and its time.
"""

import dataframely as dy

from pwfl.tables import contract
from pwfl.tables.contract import PRIVATE, PUBLIC, epsilon_column, key, meaning

SCHEDULE_STATUSES = ("random", "fixed", "fresh", "sweep", "optimal", "own")
FORMULAS = ("epsilon_amplified", "epsilon_bound", "epsilon_classical", "epsilon_unsafe")  # of (1), by what it is of
COLLECTED, AGE = "time at which the client collects its data", "age of these data at T"
AMPLIFIED = "the paper's bound (1) on epsilon, exact Delta"
CLASSICAL, UNSAFE = "epsilon about the data as collected", "(1) with spectral_decay for Delta: no guarantee"
USERS = "an upper bound about all of its data at T"
USERS_CLASSICAL = "epsilon_classical of all of a client's records"
NOISE_STATUSES = ("constant", "adaptive", "none", "own")


def _target() -> dy.Float64:
    return dy.Float64(min_exclusive=0, description="privacy target at T", metadata=PUBLIC)


class _PerCase(contract.PerRealization):
    case = key("case")


class _PerClient(_PerCase):
    user = key(meaning("user"))


class Users(contract.PerUser):
    """The clients: what their data follow, how many samples they take (`channel`)."""

    REVEALS = PUBLIC
    chain = dy.String()
    samples = dy.Int64(min=1, description=meaning("samples", "the client's, n_k"))
    sensitivity_wh = dy.Float64(min_exclusive=0, description="l1 sensitivity of the samples' mean")
    states_wh = dy.List(dy.Float64())
    start = dy.List(dy.Float64(min=0, max=1), description="law of X_0")
    transition = dy.List(dy.List(dy.Float64(min=0, max=1)))


class Links(contract.PerUser):
    """What data collected at each time tell at T, for each client (`channel`); see `age.profiles`."""

    REVEALS = PUBLIC
    collection_time = key(f"{COLLECTED}: t")
    age = dy.Int64(min=0, description=f"{AGE}: T - t")
    total_variation = dy.Float64(min=0, max=1, description="Delta(T - t)")
    total_variation_bound = dy.Float64(min=0, max=1)
    spectral_decay = dy.Float64(min=0, max=1, description="no bound: its constant is lost")
    divergence_nats = dy.Float64(min=0, allow_inf=True, description="of the law at t from that at T")
    information_nats = dy.Float64(min=0)
    mean_wh = dy.Float64(description="of X_t")
    variance_wh2 = dy.Float64(min=0, description="of X_t")


class Schedule(_PerClient):
    """When each client collects, and what that asks of its mechanism (`schedule`)."""

    REVEALS = PUBLIC
    target_epsilon = _target()
    collection_time = dy.Int64(min=0, description=f"{COLLECTED}: t_k")
    required_epsilon = epsilon_column("what the classical mechanism must supply (4)")


class ScheduleStatus(_PerCase):
    """How each schedule was found (`schedule`)."""

    REVEALS = PUBLIC
    target_epsilon = _target()
    swept_user = dy.Int64(nullable=True, min=0, description="client whose time is swept; null: no sweep")
    swept_time = dy.Int64(nullable=True, min=0)
    status = dy.Enum(SCHEDULE_STATUSES, description=meaning("status", "the schedule"))
    objective_wh2 = dy.Float64(nullable=True, allow_inf=True, description="what was minimized; null: nothing")
    evaluations = dy.Float64(min=0, description="terms that the search evaluated")
    log10_schedules = dy.Float64(min=0, description="of how many schedules it chose, log10")


class Noise(_PerClient):
    """Each client's mechanism (`noise`)."""

    REVEALS = PUBLIC
    classical_epsilon = epsilon_column("epsilon_C, about the data at t_k")
    noise_scale_wh = dy.Float64(min=0, description="b_k of the Laplace noise")


class NoiseStatus(_PerCase):
    """Each realization's noise rule and its extremes (`noise`)."""

    REVEALS = PUBLIC
    status = dy.Enum(NOISE_STATUSES, description=meaning("status", "the noise"))
    least_classical_epsilon = epsilon_column("least epsilon_C over clients")
    largest_scale_wh = dy.Float64(min=0)


class History(contract.History):
    """Simulated loss difference (`train`): the model is trained and uploaded once.

    The difference is from a fresh model without noise.
    """

    case = key("case")
    target_epsilon = _target()
    loss_difference_wh2 = dy.Float64(
        description="mean over the realization's draws of data and noise", metadata=PRIVATE
    )


class Leakage(_PerClient):
    """The privacy that each client's records are left with (`account`)."""

    REVEALS = PUBLIC
    target_epsilon = _target()
    collection_time = dy.Int64(min=0, description=f"{COLLECTED}: t_k")
    age = dy.Int64(min=0, description=f"{AGE}: T - t_k")
    epsilon_classical = epsilon_column(CLASSICAL)
    epsilon = epsilon_column(meaning("epsilon", "about the client's data at T, the largest privacy loss"))
    epsilon_amplified = epsilon_column(AMPLIFIED)
    epsilon_bound = epsilon_column("the same, provable bound on Delta")
    epsilon_unsafe = epsilon_column(UNSAFE)
    epsilon_user = epsilon_column(meaning("epsilon_user", USERS))
    epsilon_user_classical = epsilon_column(USERS_CLASSICAL)


class Guarantees(contract.Guarantees):
    """What the worst-off client of each case has (`account`)."""

    case = key("case")


class Outcome(contract.Outcome):
    """Guarantee, noise, expected loss difference and bounds of each realization and case (`account`)."""

    REVEALS = PUBLIC
    case = key("case")
    target_epsilon = _target()
    epsilon_amplified = epsilon_column(f"{AMPLIFIED}: the worst client's")
    epsilon_bound = epsilon_column("the same, provable bound on Delta")
    epsilon_classical = epsilon_column(f"{CLASSICAL}: the worst client's")
    epsilon_unsafe = epsilon_column(f"{UNSAFE}; the worst client's")
    epsilon_user_classical = epsilon_column(f"{USERS_CLASSICAL}: the worst client's")
    epsilon_understated = epsilon_column("largest epsilon_amplified over epsilon_unsafe of a client")
    target_met = dy.Bool(description="by (1): epsilon_amplified is at most the target")
    noise_power_wh2 = dy.Float64(min=0, description="variance of the model's noise")
    expected_loss_difference_wh2 = dy.Float64()
    paired_bound_wh2 = dy.Float64(allow_inf=True)
    separate_bound_wh2 = dy.Float64(allow_inf=True)
