"""Schemas of the tables of the system `privacy_for_free`."""

import dataframely as dy

from pwfl.tables import contract
from pwfl.tables.contract import NOISY, PRIVATE, PUBLIC, amount, epsilon_column, key, meaning

SERVER = "server"  # the observer, which receives all outputs of the server's receiver
FREE, SCALED = "full_power", "scaled_down"  # powers as without a privacy budget; some powers lower


class Users(contract.PerUser):
    """The devices (`channel`)."""

    REVEALS = PUBLIC
    samples = dy.Int64(nullable=False, min=1, description=meaning("samples", "the device's"))


class Links(contract.PerRealization):
    """Each device's channel in each block (`channel`)."""

    REVEALS = PUBLIC
    block = key(description="communication block, from 0")
    user = key(description=meaning("user"))
    fading_gain = dy.Float64(nullable=False, min=0, description=meaning("fading_gain", "|h|^2"))


class PerDeviceRound(contract.PerRealization):
    """Keys of quantities of a device in a round."""

    round = key(description=meaning("round", "from 0"))
    user = key(description=meaning("user"))


class Schedule(PerDeviceRound):
    """Slot, received amplitude and power of each device in each round (`schedule`)."""

    REVEALS = PUBLIC
    slot = dy.Int64(nullable=False, min=0, description=meaning("slot", "gradients sent in one slot add up on air"))
    message_amplitude = dy.Float64(
        nullable=False,
        min_exclusive=0,
        description="of a unit of the device's sum of gradients, over the standard deviation of the receiver's noise",
    )
    power_share = dy.Float64(
        nullable=False,
        min=0,
        max=1 + 1e-9,
        description="largest power that the device may need in the block, over its power limit",
    )


class ScheduleStatus(contract.PerRealization):
    """Effect of the privacy budget on powers (`schedule`)."""

    REVEALS = PUBLIC
    status = dy.Enum((FREE, SCALED), nullable=False, description=meaning("status", "the schedule"))


class Noise(PerDeviceRound):
    """The receiver's noise (`noise`)."""

    REVEALS = PUBLIC
    receiver_noise_std = dy.Float64(
        nullable=False,
        min=0,
        description="standard deviation, per coordinate of the device's sum of gradients as it is received",
    )


class NoiseStatus(contract.PerRealization):
    """Sources of noise (`noise`)."""

    REVEALS = PUBLIC
    status = dy.Enum(("receiver_only",), nullable=False, description=meaning("status", "the noise"))


class History(contract.History):
    """Evaluations of the server's model over the rounds (`train`)."""

    round = key(description=meaning("round", "0 is the start"))
    accuracy = amount(description=meaning("accuracy", "null: a regression has none"), max=1, metadata=NOISY)
    loss = amount(description=meaning("loss", "null: a regression has none; see `ridge_objective`"), metadata=NOISY)
    ridge_objective = amount(
        description="half the mean squared error on the training records, plus lambda ||w||^2",
        allow_inf=True,
        allow_nan=True,
        metadata=PRIVATE,
    )
    optimality_gap = dy.Float64(
        nullable=True,
        allow_inf=True,
        allow_nan=True,
        description="(F(w) - F*) / F*, F the ridge_objective, F* its minimum; below 0 by rounding only",
        metadata=PRIVATE,
    )
    optimality_gap_bound = amount(
        description="the paper's bound on the mean of optimality_gap over the receiver's noise", metadata=PRIVATE
    )
    clipped_share = contract.clipped_share()
    limited_share = amount(
        description="share of devices' mean gradients that are scaled down to training.mean_norm, in the rounds since "
        "the row before",
        max=1,
        metadata=PRIVATE,
    )
    status = dy.Enum(
        ("trained", "diverged"), nullable=False, description=meaning("status", "the training"), metadata=NOISY
    )


class Leakage(contract.PerUser):
    """Privacy loss of a record of each device to the server, after all rounds (`account`)."""

    REVEALS = PUBLIC
    rho = epsilon_column(description=meaning("rho"))
    epsilon = epsilon_column(description=meaning("epsilon", "exact"))
    epsilon_paper = epsilon_column(description="epsilon by the paper's conversion of rho: after all rounds")
    epsilon_user = epsilon_column(description=meaning("epsilon_user"))


class Outcome(contract.LinearOutcome):
    """Privacy and cost of each realization (`account`)."""

    REVEALS = PUBLIC
    epsilon_paper = epsilon_column(description="epsilon by the paper's conversion of rho: the most exposed record's")


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
}
