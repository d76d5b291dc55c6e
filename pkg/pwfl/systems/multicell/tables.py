"""Schemas of the tables of the system `multicell`."""

from functools import partial

import dataframely as dy
import polars as pl

from pwfl.systems.multicell import meanings
from pwfl.systems.multicell.schemes import NOISE_STATUSES, PROGRAM_STATUSES
from pwfl.tables import contract
from pwfl.tables.contract import NOISY, PUBLIC, amount, key, meaning

unlimited = partial(amount, allow_inf=True)


class Users(contract.PerUser):
    """Position, cell and samples of each user (`channel`)."""

    REVEALS = PUBLIC
    x_m = dy.Float64(nullable=True, description="x coordinate of the user; null: unknown")
    y_m = dy.Float64(nullable=True, description="y coordinate of the user; null: unknown")
    cell = dy.Int64(
        min=0,
        description="number of the cell: the user's nearest station; imported channels: as given, or strongest station",
    )
    samples = dy.Int64(min=1, description=meaning("samples", "of the user, K_i"))


class Links(contract.PerInterval):
    """The link of each user to each base station (`channel`).

    Intervals are coherence intervals: one if the channel is drawn once.
    """

    REVEALS = PUBLIC
    station = key(description="number of the base station, from 0")
    user = key(description=meaning("user"))
    distance_m = amount(description=meaning("distance_m", "null: unknown"))
    gain = dy.Float64(min_exclusive=0, description=meaning("gain", "h_i,s (17)"))
    line_of_sight = dy.Bool(
        nullable=True, description="whether the link has line of sight; null: not part of the path-loss model"
    )
    station_x_m = dy.Float64(nullable=True, description="x coordinate of the base station; null: unknown")
    station_y_m = dy.Float64(nullable=True, description="y coordinate of the base station; null: unknown")


class ImportedLinks(contract.PerInterval):
    """Imported gains (`imported`)."""

    REVEALS = PUBLIC
    station = key(description="number of the base station, from 0")
    user = key(description=meaning("user"))
    gain = dy.Float64(min_exclusive=0, description=meaning("gain", "h_i,s"))
    station_x_m = dy.Float64(nullable=True, description="x coordinate of the base station; null: unknown")
    station_y_m = dy.Float64(nullable=True, description="y coordinate of the base station; null: unknown")


class ImportedUsers(contract.PerUser):
    """Imported users (`imported`); nulls: not given."""

    REVEALS = PUBLIC
    x_m = dy.Float64(nullable=True, description="x coordinate of the user")
    y_m = dy.Float64(nullable=True, description="y coordinate of the user")
    cell = dy.Int64(min=0, description="number of the cell: of the user")
    samples = dy.Int64(nullable=True, min=1, description=meaning("samples", "of the user, K_i"))


class StartValues(contract.PerUser):
    """Start values of the schedulers, the same for all of a scenario's schemes (`schedule`)."""

    REVEALS = PUBLIC
    resource_block = dy.Int64(nullable=True, min=0, description="number of the resource block; null: none")
    power_w = dy.Float64(min=0, description=meaning("power_w"))
    noise_std = dy.Float64(
        nullable=True,
        min_exclusive=0,
        description=meaning("noise_std", "sigma_i, in the units of `privacy.bounds`; null: no scheme uses it"),
    )


class Schedule(contract.PerInterval):
    """Each user's resource block, power and rate (`schedule`); nulls: not scheduled.

    With powers (35) on the assigned blocks, some rates are below Rmin; those users lose their block.
    """

    REVEALS = PUBLIC
    user = key(description=meaning("user"))
    resource_block = dy.Int64(
        nullable=True,
        min=0,
        description="number of the resource block; null: none; 0 of all users who transmit over the air",
    )
    power_w = dy.Float64(
        min=0, description=meaning("power_w", "0 where users transmit over the air, as the schedule does not set it")
    )
    rate_bps = dy.Float64(min=0, description="uplink rate of the user; 0: not scheduled")
    assigned_block = dy.Int64(
        nullable=True,
        min=0,
        description="number of the assigned block, before users below the minimum rate lose theirs; null: none",
    )
    assigned_power_w = dy.Float64(min=0, description="transmit power (35) on the assigned block")


class ScheduleStatus(contract.PerInterval):
    """Status of each cell's program, before powers and unscheduling (`schedule`).

    For schedulers of all cells together, whether the schedule is proven optimal.
    """

    REVEALS = PUBLIC
    cell = key(description="number of the cell: from 0")
    status = dy.Enum(PROGRAM_STATUSES, description=meaning("status", "of the cell's optimization"))
    users = dy.Int64(min=0, description=meaning("users", "in the cell"))
    assigned = dy.Int64(min=0, description="number of users with a resource block after the optimization")
    unscheduled = dy.Int64(min=0, description="number of these users who lost it because of their rate (26)")


class Noise(contract.PerInterval):
    """Each user's noise (`noise`): 0 if not scheduled, null if no noise is feasible."""

    REVEALS = PUBLIC
    user = key(description=meaning("user"))
    noise_std = unlimited(
        description=meaning("noise_std", "sigma_i, of a mean gradient; infinite: no leakage is permitted")
    )


class NoiseStatus(contract.PerInterval):
    """Status of each interval's noise (`noise`)."""

    REVEALS = PUBLIC
    status = dy.Enum(NOISE_STATUSES, description=meaning("status", "of the noise"))
    noise = dy.String(description=meaning("noise"))
    multiplier = dy.Float64(nullable=True, min_exclusive=0, description="multiplier kappa of (38); null: not used")


class History(contract.UserHistory):
    """Test accuracy and loss over the rounds (`train`)."""

    round = key(description=meaning("round", "0: before training"))
    accuracy = amount(max=1, description=meaning("accuracy"), metadata=NOISY)
    loss = unlimited(allow_nan=True, description=meaning("loss"), metadata=NOISY)
    clipped_share = contract.clipped_share()
    status = contract.training_status("trained", "diverged", "no_user_scheduled", "noise_infeasible")


class Leakage(contract.PerUser):
    """Leakage and epsilon of each scheduled user's records (`account`)."""

    REVEALS = PUBLIC
    rho = dy.Float64(min=0, allow_inf=True, description=meaning("rho", "(11); 0 if no message of the user is received"))
    mu = dy.Float64(min=0, allow_inf=True, description=meaning("mu"))
    epsilon = contract.epsilon_column(
        description=meaning("epsilon", "of a record of the user; an upper bound with integers")
    )
    epsilon_user = contract.epsilon_column(description=meaning("epsilon_user"))
    epsilon_tight = contract.epsilon_column(description=meanings.TIGHT)
    epsilon_classic = contract.epsilon_column(description=meanings.CLASSIC)
    rho_worst_case = unlimited(description=meanings.RHO_WORST_CASE)
    rho_own_noise = contract.epsilon_column(description=meanings.ALONE)
    epsilon_dithers_known = unlimited(description=meanings.DITHERS_KNOWN)


class Outcome(contract.Outcome):
    """Objective, guarantee and bound of each realization (`account`)."""

    REVEALS = PUBLIC
    scheduled = dy.Int64(min=0, description="number of users who send in any round")
    scheduled_samples = dy.Int64(min=0, description="training records of these users; K_a if the channel is constant")
    senders = dy.Float64(min=0, description="mean number of users who send in a round")
    gain_db_median = dy.Float64(
        nullable=True, description="median gain (17) of the scheduled users to their base stations"
    )
    noise_variance_median = amount(
        description="median noise variance sigma_i^2 of the scheduled users; null: none, or infeasible"
    )
    lost_share = amount(
        max=1, description="share of the users with a resource block who lose it because of their rate (26)"
    )
    objective = dy.Float64(
        nullable=True,
        description="value of the objective (20), mean over coherence intervals; null: infinite, or unknown",
    )
    objective_bound = amount(
        description="lower bound on the objective of any schedule; null: outside problem (20)-(26)"
    )
    objective_gap = unlimited(description="objective divided by its lower bound, minus 1; null: (21) is violated")
    proven_optimal = dy.Bool(
        nullable=True, description="whether the schedule is proven optimal, to 1e-6 of the reduction of (20)"
    )
    noise_error = amount(
        description="left side of (21) divided by its sum of samples, largest of the coherence intervals"
    )
    rho_total = unlimited(description="sum of the users' rho (19)")
    rho_worst_user = unlimited(description="largest rho of a user")
    rho_median = unlimited(description="median rho of the users who send")
    epsilon_tight = unlimited(description=f"{meanings.TIGHT}: {meanings.WORST}")
    epsilon_classic = unlimited(description=f"{meanings.CLASSIC}: {meanings.WORST}")
    rho_worst_case = unlimited(description=f"{meanings.RHO_WORST_CASE}; {meanings.WORST}")
    epsilon_worst_case = unlimited(description=meaning("epsilon_worst_case", "per_user clipping only"))
    rho_own_noise = unlimited(description=f"{meanings.ALONE}: {meanings.WORST}")
    rho_server = unlimited(  # the rho for the composition of releases
        check={"every_release_has_a_rho": lambda column: column.is_null() == pl.col("epsilon_server").is_null()},
        description=f"{meaning('rho_server', 'for any data')}; {meanings.WORST}",
    )
    order_server = dy.Float64(
        nullable=True,
        min=2,
        description="largest Renyi order for which rho_server holds (integers only); null: all orders",
    )
    epsilon_dithers_known = unlimited(description=f"{meanings.DITHERS_KNOWN}; {meanings.WORST}")
    c1 = dy.Float64(description="C1 of Theorem 1, largest of the coherence intervals")
    c2 = dy.Float64(min=0, description="C2 of Theorem 1, largest of the coherence intervals")
    c3 = amount(description="C3 of Theorem 1, largest of the coherence intervals")
    bound_limit = unlimited(description="limit of Theorem 1's bound over rounds, nats")
    bound = dy.String(description="whether Theorem 1's bound is below the initial optimality gap, in words")
    bound_premise = dy.String(description="whether the assumptions of Theorem 1 hold, in words")


SCHEMAS = {
    "users": Users,
    "links": Links,
    "imported_links": ImportedLinks,
    "imported_users": ImportedUsers,
    "start_values": StartValues,
    "schedule": Schedule,
    "schedule_status": ScheduleStatus,
    "noise": Noise,
    "noise_status": NoiseStatus,
    "history": History,
    "leakage": Leakage,
    "outcome": Outcome,
}
