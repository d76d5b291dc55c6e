"""Schemas of the tables of the system `multicell`."""

from functools import partial

import dataframely as dy

from pwfl.systems.multicell.beyond.allocation import ALLOCATIONS
from pwfl.tables import contract
from pwfl.tables.contract import key

PROGRAM_STATUSES = ("random", "assignment", "integer_program", "infeasible_kept", "proven", "searched", "own")
NOISE_STATUSES = ("random", "optimal", *ALLOCATIONS, "target", "none", "own", "infeasible", "no_user_scheduled")
TRAINING_STATUSES = ("trained", "diverged", "no_user_scheduled", "noise_infeasible")
READ = "exact, of the same run, of an observer of"
amount = partial(dy.Float64, nullable=True, min=0)
unlimited = partial(amount, allow_inf=True)


class PerInterval(contract.PerRealization):
    """Keys of what differs between the intervals in which the channel stays."""

    interval = key("interval of rounds in which the channel stays; 0: all rounds, where it is drawn once")


class Users(contract.PerUser):
    """Where each user is, its samples, its start values (`channel`)."""

    x_m = dy.Float64(nullable=True, description="null: from outside, unknown")
    y_m = dy.Float64(nullable=True)
    cell = dy.Int64(nullable=False, min=0, description="nearest station; from outside: as given, or the strongest")
    samples = dy.Int64(nullable=False, min=1, description="training samples K_i")
    start_resource_block = dy.Int64(nullable=True, min=0, description="null: none")
    start_power_w = dy.Float64(nullable=False, min=0)
    start_noise_std = dy.Float64(
        nullable=True,
        min_exclusive=0,
        description="sigma_i, per coordinate, in the units of `privacy.bounds`; null: no scheme uses it",
    )


class Links(PerInterval):
    """The link of each user to each station, in each interval in which the channel stays (`channel`)."""

    station = key("station")
    user = key("user")
    distance_m = amount(description="null: from outside, unknown")
    gain = dy.Float64(nullable=False, min_exclusive=0, description="power gain h_i,s (17)")
    line_of_sight = dy.Bool(nullable=True, description="null: the path loss knows no such thing")


class ImportedLinks(contract.PerRealization):
    """Gains from outside (`imported`)."""

    station = key("station")
    user = key("user")
    gain = dy.Float64(nullable=False, min_exclusive=0, description="power gain h_i,s")


class ImportedUsers(contract.PerUser):
    """Users from outside (`imported`); nulls: not given."""

    x_m = dy.Float64(nullable=True)
    y_m = dy.Float64(nullable=True)
    cell = dy.Int64(nullable=False, min=0)
    samples = dy.Int64(nullable=True, min=1)


class Schedule(PerInterval):
    """Each user's resource block, power and rate (`schedule`); nulls: not scheduled.

    Assigned blocks have powers (35), with which some rates stay below Rmin; those users lose their block.
    """

    user = key("user")
    resource_block = dy.Int64(nullable=True, min=0)
    power_w = dy.Float64(nullable=False, min=0)
    rate_bps = dy.Float64(nullable=False, min=0)
    assigned_block = dy.Int64(nullable=True, min=0, description="resource block before that")
    assigned_power_w = dy.Float64(nullable=False, min=0, description="power (35) on it")


class ScheduleStatus(PerInterval):
    """How each cell's program ended, before powers and unscheduling (`schedule`).

    Of the schedulers of all cells, whether the schedule is proven optimal.
    """

    cell = key("cell")
    status = dy.Enum(PROGRAM_STATUSES, nullable=False)
    users = dy.Int64(nullable=False, min=0, description="users of the cell")
    scheduled = dy.Int64(nullable=False, min=0, description="users with a resource block after the program")
    unscheduled = dy.Int64(nullable=False, min=0, description="of these, users who lost it for their rate (26)")


class Noise(PerInterval):
    """Each user's noise (`noise`): 0 where not scheduled, null where no noise is feasible."""

    user = key("user")
    noise_std = unlimited(description="sigma_i, per coordinate; infinite: has no leakage to spend")


class NoiseStatus(PerInterval):
    """How each interval's noise was found (`noise`)."""

    status = dy.Enum(NOISE_STATUSES, nullable=False)
    noise = dy.String(nullable=False, description="the noise scheme")
    multiplier = dy.Float64(nullable=True, min_exclusive=0, description="kappa of (38), null where there is none")


class History(contract.UserHistory):
    """Test accuracy and loss over the rounds (`train`)."""

    round = key("round")
    accuracy = amount(max=1)
    loss = unlimited(allow_nan=True)
    clipped_share = contract.clipped_share()
    status = dy.Enum(TRAINING_STATUSES, nullable=False)


class Leakage(contract.PerUser):
    """The privacy that each scheduled user's records are left with (`account`)."""

    rho = dy.Float64(nullable=False, min_exclusive=0, allow_inf=True, description="zCDP (11)")
    mu = dy.Float64(nullable=False, min_exclusive=0, allow_inf=True, description="Gaussian DP")
    epsilon_exact = dy.Float64(nullable=False, min=0, allow_inf=True, description="of integers an upper bound")
    epsilon_tight = dy.Float64(nullable=False, min=0, allow_inf=True)
    epsilon_classic = dy.Float64(nullable=False, min=0, allow_inf=True)
    rho_worst_case = unlimited(description="per_user clipping only")
    rho_alone = contract.epsilon("rho if all other senders of the sum collude with the observer")
    epsilon_user = contract.epsilon(f"{READ} each upload")
    epsilon_cell = contract.epsilon(f"{READ} each cell's sum")
    epsilon_network = contract.epsilon(f"{READ} the sum of all")
    epsilon_dithers_known = unlimited(description="integers only: if the observer knows how users rounded")


class Outcome(contract.Outcome):
    """Objective, guarantee and bound of each realization (`account`)."""

    scheduled = dy.Int64(nullable=False, min=0, description="users who send in any round")
    scheduled_samples = dy.Int64(nullable=False, min=0, description="theirs; Ka, where the channel stays")
    senders = dy.Float64(nullable=False, min=0, description="users who send in a round, mean")
    objective = dy.Float64(nullable=True, description="(20), mean over intervals; null: infinite, or not known")
    objective_bound = amount(description="no schedule brings that below; null: no part of problem (20)-(26)")
    objective_gap = unlimited(description="objective over its bound, less 1; null: (21) does not hold")
    proven_optimal = dy.Bool(
        nullable=True, description="whether no schedule is better, to 1e-6 of what it takes off (20)"
    )
    noise_error = amount(description="left side of (21) over its sum of samples, the largest of the intervals")
    rho_total = unlimited(description="(19)")
    rho_max = unlimited()
    rho_median = unlimited()
    epsilon_tight = unlimited()
    epsilon_classic = unlimited()
    rho_worst_case = unlimited(description="per_user clipping only")
    epsilon_worst_case = unlimited(description="exact, per_user clipping only")
    rho_alone = unlimited(description="largest, if all other senders of the sum collude with the observer")
    epsilon_user = unlimited(description="largest, of an observer of each upload of the same run")
    epsilon_cell = unlimited(description="of one of each cell's sum, in which as many collude and drop out")
    epsilon_network = unlimited(description="of one of the sum of all, likewise")
    epsilon_dithers_known = unlimited(description="integers only: largest, if the observer knows how users rounded")
    c1 = dy.Float64(nullable=False, description="C1 of Theorem 1, the largest of the intervals")
    c2 = dy.Float64(nullable=False, min=0, description="C2 of Theorem 1, the largest of the intervals")
    c3 = amount(description="C3 of Theorem 1, the largest of the intervals")
    bound_limit = unlimited(description="what Theorem 1's bound tends to, nats")
    bound = dy.String(nullable=False, description="whether Theorem 1's bound says anything")
    bound_premise = dy.String(nullable=False, description="whether the premises of Theorem 1 hold")
