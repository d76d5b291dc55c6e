"""Schemas of the tables of the system `random_orthogonalization`; signals have no units."""

import dataframely as dy

from pwfl.systems.random_orthogonalization import meanings
from pwfl.systems.random_orthogonalization.schemes import NOISE_STATUSES, SCHEDULE_STATUSES
from pwfl.tables import contract
from pwfl.tables.contract import PRIVATE, PUBLIC, amount, epsilon_column, key, meaning

WORST = ["epsilon_printed", "epsilon_gaussian", "epsilon", "epsilon_antennas"]

# Observers of the server's update, of the signals of all antennas, of every user's noisy update.
UPDATE, ANTENNAS, USER = "update", "antennas", "user"


def observer(seen: str, users: int, counted: int) -> str:
    """Return an observer's name in a network of `users` users; in the scenario's, with `counted`, it is `seen`."""
    return seen if users == counted else f"{seen} of {users} users"


def magnitude(**options) -> dy.Float64:
    """Make a column of norms or energies of users' updates, which diverge with a training run; null before round 1."""
    return amount(allow_inf=True, allow_nan=True, metadata=PRIVATE, **options)


class Users(contract.PerUser):
    """What each user holds (`channel`)."""

    REVEALS = PUBLIC
    samples = dy.Int64(min=1, description=meaning("samples", "of the user"))


class Link(contract.PerUserRound):
    """Couplings of each user's channel in each round's update of the server; see `mimo.couplings`."""

    REVEALS = PUBLIC
    energy = dy.Float64(min=0, description="squared norm of the user's channel, ||h_k||^2")
    coupling_real = dy.Float64(description="real part of the coupling with the sum channel, Re(h_s^H h_k)")
    coupling_modulus = dy.Float64(min=0, description="modulus of the coupling with the sum channel, |h_s^H h_k|")
    cross_energy = dy.Float64(min=0, description="sum of squared couplings with all users, sum_j |h_j^H h_k|^2")


class Links(Link):
    """Couplings of channels in networks of several sizes (`channel`)."""

    REVEALS = PUBLIC
    users = dy.Int64(primary_key=True, min=1, description=meaning("users", "in the network, K"))


class Schedule(Link):
    """Each user's amplitude in each round, and its link among active users, zero for other users (`schedule`)."""

    REVEALS = PUBLIC
    amplitude = dy.Float64(
        min=0, description="amplitude alpha, equal for all users who send in a round; 0: does not send"
    )


class ScheduleStatus(contract.PerRealization):
    """Status of the schedule, and smallest number of active users (`schedule`)."""

    REVEALS = PUBLIC
    status = dy.Enum(SCHEDULE_STATUSES, description=meaning("status", "of the schedule"))
    transmitting = dy.Int64(min=1, description="number of users in the round with the fewest users")


class Noise(contract.PerRound):
    """The users' noise and the server's in each round, standard deviations per coordinate (`noise`)."""

    REVEALS = PUBLIC
    noise_std = dy.Float64(min=0, description=meaning("noise_std", "sigma, equal for all users"))
    effective_noise_std = dy.Float64(min=0, description="standard deviation of the noise in the server's update")
    effective_noise_std_modulus = dy.Float64(
        min=0, description="standard deviation of the update's noise by (5), with |h_s^H h_j|"
    )
    effective_noise_std_printed = dy.Float64(
        min=0, description="standard deviation of the update's noise by (5) as printed"
    )


class NoiseStatus(contract.PerRealization):
    """Status of each realization's noise: how it was set (`noise`)."""

    REVEALS = PUBLIC
    status = dy.Enum(NOISE_STATUSES, description=meaning("status", "of the noise"))


class History(contract.Learning):
    """Test accuracy and loss over the rounds, and what the users send (`train`)."""

    update_norm = magnitude(description="norm of a user's update before clipping, mean over users")
    transmit_energy = magnitude(
        description="expected transmit energy E ||x_k||^2 of a user, mean over users, times the share who send"
    )
    status = contract.training_status("trained", "diverged")


class Realizations(contract.PerRealization):
    """Columns that the report derives, in addition to those of `history` and `outcome`."""

    REVEALS = PUBLIC
    user_count = dy.Int64(
        min=0, description="mean number of users whose weight in the update is negative in `negative_rounds` rounds"
    )


class Leakage(contract.PerRealization):
    """Each user's leakage in networks of several sizes (`account`); values of one round are means over the rounds."""

    REVEALS = PUBLIC
    users = dy.Int64(primary_key=True, min=1, description=meaning("users", "in the network, K"))
    user = key(description=meaning("user"))
    epsilon_closed_form = epsilon_column(
        description="epsilon of one round by (6), with ||h_k||^2 = 1 and the closed form of the mean of (5)"
    )
    epsilon_printed = epsilon_column(description=meaning("epsilon_printed", "one round, (6) with (5)"))
    epsilon_modulus = epsilon_column(description="epsilon of one round by (6), with |h_s^H h_j| in (5)")
    epsilon_sensitivity = epsilon_column(
        description="epsilon of one round by the formula of (6), with the sensitivity and noise of the server's update"
    )
    epsilon_gaussian = epsilon_column(description="exact epsilon of one round")
    rho = epsilon_column(description=meaning("rho", "of the user"))
    epsilon = epsilon_column(description=meaning("epsilon", "of a record of the user"))
    epsilon_antennas = epsilon_column(
        description="exact epsilon of one round if all antennas and channels are observed"
    )
    epsilon_antennas_classic = epsilon_column(
        description="epsilon of one round by the formula of (6) if all antennas and channels are observed"
    )
    mu = epsilon_column(description=meaning("mu"))
    understated = dy.Float64(min=0, max=1, description=f"{meanings.UNDERSTATED}: of the user")
    negative_rounds = dy.Int64(
        min=0, description="number of rounds in which the user's weight in the update is negative"
    )


class Outcome(contract.Outcome):
    """Guarantee and cost of each realization (`account`); epsilons are maxima over users."""

    REVEALS = PUBLIC
    users = dy.Int64(min=1, description=meaning("users", "in the network, K"))
    epsilon_printed = epsilon_column(description=meaning("epsilon_printed", "one round, (6) with (5)"))
    epsilon_gaussian = epsilon_column(description="exact epsilon of one round")
    epsilon_antennas = epsilon_column(
        description="exact epsilon of one round if all antennas and channels are observed"
    )
    rho_server = epsilon_column(description=meaning("rho_server", "of the most exposed record"))
    understated = dy.Float64(min=0, max=1, description=f"{meanings.UNDERSTATED}: over all users")
    negative_weights = dy.Float64(
        min=0, max=1, description="share of users and rounds with a negative weight in the update"
    )
    negative_users = dy.Int64(min=0, description="number of users whose weight is negative in all rounds")
    transmit_energy_limit = dy.Float64(min=0, description="power limit of a user in a round, P = alpha^2")
    transmit_energy_bound = dy.Float64(
        min=0, description="bound on the transmit energy of a user in a round, alpha^2 (C^2 + d sigma^2)"
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
    "outcome": Outcome,
    "realizations": Realizations,
}
