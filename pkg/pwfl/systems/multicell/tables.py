"""Schemas of the tables of the system `multicell`."""

from functools import partial

import dataframely as dy

from pwfl.systems.multicell.beyond.allocation import ALLOCATIONS
from pwfl.tables import contract
from pwfl.tables.contract import NOISY, PUBLIC, key, meaning

PROGRAM_STATUSES = (
    "random",
    "assignment",
    "integer_program",
    "infeasible_kept",
    "proven",
    "searched",
    "inversion",
    "own",
)
NOISE_STATUSES = ("random", "optimal", *ALLOCATIONS, "target", "none", "own", "infeasible", "no_user_scheduled")
TRAINING_STATUSES = ("trained", "diverged", "no_user_scheduled", "noise_infeasible")
READ = "exact epsilon in the same run, against an observer of"
WORST = "the worst user's"
TIGHT, CLASSIC = "epsilon from rho by Renyi DP", "epsilon from rho by the formula of many papers"
RHO_WORST_CASE = "rho if a record can turn its user's clipped mean around: per_user clipping only"
ALONE = "rho if all other senders of the sum collude with the observer"
DITHERS_KNOWN = "epsilon if the observer knows how users rounded: integers only"
amount = partial(dy.Float64, nullable=True, min=0)
unlimited = partial(amount, allow_inf=True)


class Users(contract.PerUser):
    """Where each user is, and its samples (`channel`)."""

    REVEALS = PUBLIC
    x_m = dy.Float64(nullable=True, description="position; null: from outside, unknown")
    y_m = dy.Float64(nullable=True, description="position; null: from outside, unknown")
    cell = dy.Int64(
        nullable=False, min=0, description="cell: of the nearest station; from outside: as given, or of the strongest"
    )
    samples = dy.Int64(nullable=False, min=1, description=meaning("samples", "the user's, K_i"))


class Links(contract.PerInterval):
    """The link of each user to each station (`channel`).

    Intervals are those in which the channel stays: one, where it is drawn once.
    """

    REVEALS = PUBLIC
    station = key("station")
    user = key(meaning("user"))
    distance_m = amount(description=meaning("distance_m", "null: from outside, unknown"))
    gain = dy.Float64(nullable=False, min_exclusive=0, description=meaning("gain", "h_i,s (17)"))
    line_of_sight = dy.Bool(nullable=True, description="null: the path loss knows no such thing")
    station_x_m = dy.Float64(nullable=True, description="position of the station; null: from outside, unknown")
    station_y_m = dy.Float64(nullable=True, description="position of the station; null: from outside, unknown")


class ImportedLinks(contract.PerInterval):
    """Gains from outside (`imported`)."""

    REVEALS = PUBLIC
    station = key("station")
    user = key(meaning("user"))
    gain = dy.Float64(nullable=False, min_exclusive=0, description=meaning("gain", "h_i,s"))
    station_x_m = dy.Float64(nullable=True, description="position of the station; null: unknown")
    station_y_m = dy.Float64(nullable=True, description="position of the station; null: unknown")


class ImportedUsers(contract.PerUser):
    """Users from outside (`imported`); nulls: not given."""

    REVEALS = PUBLIC
    x_m = dy.Float64(nullable=True, description="position")
    y_m = dy.Float64(nullable=True, description="position")
    cell = dy.Int64(nullable=False, min=0, description="cell")
    samples = dy.Int64(nullable=True, min=1, description=meaning("samples", "the user's, K_i"))


class StartValues(contract.PerUser):
    """What the schedulers start from, the same for all of a scenario's schemes (`schedule`)."""

    REVEALS = PUBLIC
    resource_block = dy.Int64(nullable=True, min=0, description="number of the resource block; null: none")
    power_w = dy.Float64(nullable=False, min=0, description=meaning("power_w"))
    noise_std = dy.Float64(
        nullable=True,
        min_exclusive=0,
        description=meaning("noise_std", "sigma_i, in the units of `privacy.bounds`; null: no scheme uses it"),
    )


class Schedule(contract.PerInterval):
    """Each user's resource block, power and rate (`schedule`); nulls: not scheduled.

    Assigned blocks have powers (35), with which some rates stay below Rmin; those users lose their block.
    """

    REVEALS = PUBLIC
    user = key(meaning("user"))
    resource_block = dy.Int64(
        nullable=True, min=0, description="number of the resource block; null: none; on air 0 of all"
    )
    power_w = dy.Float64(nullable=False, min=0, description=meaning("power_w", "on air: not of the schedule, 0"))
    rate_bps = dy.Float64(nullable=False, min=0)
    assigned_block = dy.Int64(nullable=True, min=0, description="resource block before that")
    assigned_power_w = dy.Float64(nullable=False, min=0, description="power (35) on it")


class ScheduleStatus(contract.PerInterval):
    """How each cell's program ended, before powers and unscheduling (`schedule`).

    Of the schedulers of all cells, whether the schedule is proven optimal.
    """

    REVEALS = PUBLIC
    cell = key("cell")
    status = dy.Enum(PROGRAM_STATUSES, nullable=False, description=meaning("status", "the program"))
    users = dy.Int64(nullable=False, min=0, description=meaning("users", "of the cell"))
    assigned = dy.Int64(nullable=False, min=0, description="users with a resource block after the program")
    unscheduled = dy.Int64(nullable=False, min=0, description="of these, users who lost it for their rate (26)")


class Noise(contract.PerInterval):
    """Each user's noise (`noise`): 0 where not scheduled, null where no noise is feasible."""

    REVEALS = PUBLIC
    user = key(meaning("user"))
    noise_std = unlimited(
        description=meaning("noise_std", "sigma_i, of a mean gradient; infinite: has no leakage to spend")
    )


class NoiseStatus(contract.PerInterval):
    """How each interval's noise was found (`noise`)."""

    REVEALS = PUBLIC
    status = dy.Enum(NOISE_STATUSES, nullable=False, description=meaning("status", "the noise"))
    noise = dy.String(nullable=False, description=meaning("noise"))
    multiplier = dy.Float64(nullable=True, min_exclusive=0, description="kappa of (38), null where there is none")


class History(contract.UserHistory):
    """Test accuracy and loss over the rounds (`train`)."""

    round = key(meaning("round", "0 is the start"))
    accuracy = amount(max=1, description=meaning("accuracy"), metadata=NOISY)
    loss = unlimited(allow_nan=True, description=meaning("loss"), metadata=NOISY)
    clipped_share = contract.clipped_share()
    status = dy.Enum(TRAINING_STATUSES, nullable=False, description=meaning("status", "the training"), metadata=NOISY)


class Leakage(contract.PerUser):
    """The privacy that each scheduled user's records are left with (`account`)."""

    REVEALS = PUBLIC
    rho = dy.Float64(
        nullable=False, min=0, allow_inf=True, description=meaning("rho", "(11); 0 of a user whom nobody hears")
    )
    mu = dy.Float64(nullable=False, min=0, allow_inf=True, description=meaning("mu"))
    epsilon = contract.epsilon_column(meaning("epsilon", "the user's records'; of integers an upper bound"))
    epsilon_user = contract.epsilon_column(meaning("epsilon_user"))
    epsilon_tight = contract.epsilon_column(TIGHT)
    epsilon_classic = contract.epsilon_column(CLASSIC)
    rho_worst_case = unlimited(description=RHO_WORST_CASE)
    rho_own_noise = contract.epsilon_column(ALONE)
    epsilon_observer_user = contract.epsilon_column(f"{READ} each upload")
    epsilon_observer_cell = contract.epsilon_column(f"{READ} each cell's sum")
    epsilon_observer_network = contract.epsilon_column(f"{READ} the sum of all")
    epsilon_dithers_known = unlimited(description=DITHERS_KNOWN)


class Outcome(contract.Outcome):
    """Objective, guarantee and bound of each realization (`account`)."""

    REVEALS = PUBLIC
    scheduled = dy.Int64(nullable=False, min=0, description="users who send in any round")
    scheduled_samples = dy.Int64(nullable=False, min=0, description="theirs; Ka, where the channel stays")
    senders = dy.Float64(nullable=False, min=0, description="users who send in a round, mean")
    gain_db_median = dy.Float64(nullable=True, description="gain (17) of a scheduled user to its station, dB: median")
    noise_variance_median = amount(description="sigma_i squared of a scheduled user: median; null: none, or infeasible")
    lost_share = amount(max=1, description="share of users with a resource block who lose it for their rate (26)")
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
    epsilon_tight = unlimited(description=f"{TIGHT}: {WORST}")
    epsilon_classic = unlimited(description=f"{CLASSIC}: {WORST}")
    rho_worst_case = unlimited(description=f"{RHO_WORST_CASE}; {WORST}")
    epsilon_worst_case = unlimited(description=meaning("epsilon_worst_case", "per_user clipping only"))
    rho_own_noise = unlimited(description=f"{ALONE}: {WORST}")
    rho_server = unlimited(description=f"{meaning('rho_server', 'whatever the records')}; {WORST}")
    order_server = amount(description="the Renyi order up to which rho_server holds: integers only; null: any")
    epsilon_observer_user = unlimited(description=f"{READ} each upload: {WORST}")
    epsilon_observer_cell = unlimited(description=f"{READ} each cell's sum: {WORST}; as many collude and drop out")
    epsilon_observer_network = unlimited(description=f"{READ} the sum of all: {WORST}; likewise")
    epsilon_dithers_known = unlimited(description=f"{DITHERS_KNOWN}; {WORST}")
    c1 = dy.Float64(nullable=False, description="C1 of Theorem 1, the largest of the intervals")
    c2 = dy.Float64(nullable=False, min=0, description="C2 of Theorem 1, the largest of the intervals")
    c3 = amount(description="C3 of Theorem 1, the largest of the intervals")
    bound_limit = unlimited(description="what Theorem 1's bound tends to, nats")
    bound = dy.String(nullable=False, description="whether Theorem 1's bound says anything")
    bound_premise = dy.String(nullable=False, description="whether the premises of Theorem 1 hold")
