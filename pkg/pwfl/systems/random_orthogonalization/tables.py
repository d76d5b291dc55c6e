"""Schemas of the tables of the system `random_orthogonalization`; signals have no units."""

import dataframely as dy

from pwfl.tables import contract
from pwfl.tables.contract import NOISY, PRIVATE, PUBLIC, amount, epsilon_column, key, meaning

WITHOUT_RECEIVER = ["epsilon_without_receiver", "epsilon_antennas_without_receiver"]
WORST = ["epsilon_printed", "epsilon_gaussian", "epsilon", "epsilon_antennas", "epsilon_antennas_rounds"]
WORST += WITHOUT_RECEIVER

UNDERSTATED = "share of rounds in which (6) is below the exact epsilon"

# Observers of the server's update, of the signals of all antennas, of every user's noisy update.
UPDATE, ANTENNAS, USER = "update", "antennas", "user"


def observer(seen: str, users: int, own: int) -> str:
    """The observer's name in a network of some users; in the scenario's `own`, what it sees."""
    return seen if users == own else f"{seen} of {users} users"


def magnitude(description: str) -> dy.Float64:
    """A column of norms or energies of users' updates, which diverge with a training; null before round 1."""
    return amount(description, allow_inf=True, allow_nan=True, metadata=PRIVATE)


class Users(contract.PerUser):
    """What each user holds (`channel`)."""

    REVEALS = PUBLIC
    samples = dy.Int64(nullable=False, min=1, description=meaning("samples", "the user's"))


class Link(contract.PerUserRound):
    """What the server's update takes of each user's channel in each round; see `mimo`."""

    REVEALS = PUBLIC
    energy = dy.Float64(nullable=False, min=0, description="||h_k||^2")
    coupling_real = dy.Float64(nullable=False, description="Re(h_s^H h_k)")
    coupling_modulus = dy.Float64(nullable=False, min=0, description="|h_s^H h_k|")
    cross_energy = dy.Float64(nullable=False, min=0, description="sum over j of |h_j^H h_k|^2")


class Links(Link):
    """The same, in networks of several sizes (`channel`)."""

    REVEALS = PUBLIC
    users = dy.Int64(primary_key=True, min=1, description=meaning("users", "K, of the network"))


class Schedule(Link):
    """Each user's amplitude in each round, and its link among those who send, zeros of others (`schedule`)."""

    REVEALS = PUBLIC
    amplitude = dy.Float64(
        nullable=False, min=0, description="alpha, the same for all who send in a round; 0: does not send"
    )


class ScheduleStatus(contract.PerRealization):
    """Who transmits (`schedule`)."""

    REVEALS = PUBLIC
    status = dy.Enum(("all", "own"), nullable=False, description=meaning("status", "the schedule"))
    transmitting = dy.Int64(nullable=False, min=1, description="users in every round, or in that of the fewest")


class Noise(contract.PerRound):
    """The users' noise and the server's in each round, standard deviations per coordinate (`noise`)."""

    REVEALS = PUBLIC
    noise_std = dy.Float64(nullable=False, min=0, description=meaning("noise_std", "sigma, of every user"))
    effective_noise_std = dy.Float64(nullable=False, min=0, description="of the noise in the server's update")
    effective_noise_std_modulus = dy.Float64(nullable=False, min=0, description="by (5) with |h_s^H h_j|")
    effective_noise_std_printed = dy.Float64(nullable=False, min=0, description="by (5) as printed")


class NoiseStatus(contract.PerRealization):
    """How each realization's noise was set (`noise`)."""

    REVEALS = PUBLIC
    status = dy.Enum(
        ("fixed", "target", "receiver_noise_suffices", "none", "own"),
        nullable=False,
        description=meaning("status", "the noise"),
    )


class History(contract.UserHistory):
    """Test accuracy and loss over the rounds, and what the users send (`train`); round 0: the start."""

    round = key(meaning("round", "0 is the start"))
    accuracy = dy.Float64(nullable=False, min=0, max=1, description=meaning("accuracy"), metadata=NOISY)
    loss = dy.Float64(min=0, allow_inf=True, allow_nan=True, description=meaning("loss"), metadata=NOISY)
    update_norm = magnitude("mean over users, before clipping")
    clipped_share = contract.clipped_share()
    transmit_energy = magnitude("E ||x_k||^2 over the users' noise, mean over users, times the share who send")
    status = dy.Enum(
        ("trained", "diverged"), nullable=False, description=meaning("status", "the training"), metadata=NOISY
    )


class Realizations(contract.PerRealization):
    """What the report derives of a realization, beside columns of `history` and `outcome`."""

    REVEALS = PUBLIC
    user_count = dy.Int64(nullable=False, min=0, description="users with negative weights in so many rounds")


class Leakage(contract.PerRealization):
    """Each user's leakage in networks of several sizes (`account`); those of one round are means over the rounds."""

    REVEALS = PUBLIC
    users = dy.Int64(primary_key=True, min=1, description=meaning("users", "K, of the network"))
    user = key(meaning("user"))
    epsilon_closed_form = epsilon_column("(6) with ||h_k||^2 = 1 and the closed form of (5)'s mean")
    epsilon_printed = epsilon_column(meaning("epsilon_printed", "of one round, (6) with (5)"))
    epsilon_modulus = epsilon_column("one round: (6) with |h_s^H h_j| in (5)")
    epsilon_sensitivity = epsilon_column("one round: formula of (6), sensitivity and noise of the server's update")
    epsilon_gaussian = epsilon_column("one round: exact")
    rho = epsilon_column(meaning("rho", "the user's"))
    epsilon = epsilon_column(meaning("epsilon", "the user's records'"))
    epsilon_antennas = epsilon_column("one round: exact, all antennas and channels seen")
    epsilon_antennas_classic = epsilon_column("one round: formula of (6), all antennas and channels seen")
    epsilon_antennas_rounds = epsilon_column("all rounds: exact, all antennas and channels seen")
    epsilon_without_receiver = epsilon_column(meaning("epsilon_without_receiver"))
    epsilon_antennas_without_receiver = epsilon_column("epsilon_antennas_rounds without the receiver's noise")
    mu = epsilon_column(meaning("mu"))
    understated = dy.Float64(nullable=False, min=0, max=1, description=f"{UNDERSTATED}: the user's")
    negative_rounds = dy.Int64(nullable=False, min=0, description="rounds in which the update's weight is negative")


class Outcome(contract.Outcome):
    """Guarantee and cost of each realization (`account`); epsilons are maxima over users."""

    REVEALS = PUBLIC
    epsilon_without_receiver = epsilon_column(meaning("epsilon_without_receiver", "the worst record's"))
    users = dy.Int64(nullable=False, min=1, description=meaning("users", "K, of the network"))
    epsilon_printed = epsilon_column(meaning("epsilon_printed", "of one round, (6) with (5)"))
    epsilon_gaussian = epsilon_column("one round: exact")
    epsilon_antennas = epsilon_column("one round: exact, all antennas and channels seen")
    epsilon_antennas_rounds = epsilon_column("all rounds: exact, all antennas and channels seen")
    epsilon_antennas_without_receiver = epsilon_column("epsilon_antennas_rounds without the receiver's noise")
    rho_server = epsilon_column(meaning("rho_server", "the worst record's"))
    understated = dy.Float64(nullable=False, min=0, max=1, description=f"{UNDERSTATED}: all users'")
    negative_weights = dy.Float64(
        nullable=False, min=0, max=1, description="share of users and rounds in which an update's weight is negative"
    )
    negative_users = dy.Int64(
        nullable=False, min=0, description="users whose updates' weights are negative in all rounds"
    )
    transmit_energy_limit = dy.Float64(nullable=False, min=0, description="P = alpha^2, of a user in a round")
    transmit_energy_bound = dy.Float64(nullable=False, min=0, description="alpha^2 (C^2 + d sigma^2)")


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
