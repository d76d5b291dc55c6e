"""Schemas of the tables of the system `local_dp_mac`."""

import dataframely as dy

from pwfl.tables import contract
from pwfl.tables.contract import PUBLIC, key, meaning

SERVER = "server"  # the observer, which receives all symbols


class PerDeviceRound(contract.PerRealization):
    """Keys of quantities of a device in a round."""

    round = key(description=meaning("round", "from 0"))
    user = key(description=meaning("user"))


class Users(contract.PerUser):
    """The devices (`channel`)."""

    REVEALS = PUBLIC
    samples = dy.Int64(nullable=False, min=1, description=meaning("samples", "the device's"))


class Links(PerDeviceRound):
    """Each device's channel in each round (`channel`)."""

    REVEALS = PUBLIC
    fading_gain = dy.Float64(nullable=False, min=0, description=meaning("fading_gain", "|h|^2"))


class Schedule(PerDeviceRound):
    """Slot and received amplitude of each device in each round (`schedule`)."""

    REVEALS = PUBLIC
    slot = dy.Int64(nullable=False, min=0, description=meaning("slot", "gradients sent in one slot add up on air"))
    received_amplitude = dy.Float64(min=0, description="factor of the device's gradient where it is received")


class ScheduleStatus(contract.PerRealization):
    """Status of scheduling, the same for all realizations (`schedule`)."""

    REVEALS = PUBLIC
    status = dy.Enum(["everybody_sends"], nullable=False, description=meaning("status", "the schedule"))


class Noise(PerDeviceRound):
    """Standard deviations of noise, per coordinate of the device's received mean gradient (`noise`)."""

    REVEALS = PUBLIC
    noise_std = dy.Float64(nullable=False, min=0, description=meaning("noise_std", "of its mean gradient"))
    receiver_std = dy.Float64(min=0, description="that of the receiver's noise, over the received amplitude")


class NoiseStatus(contract.PerRealization):
    """Sources of noise (`noise`)."""

    REVEALS = PUBLIC
    status = dy.Enum(("devices_and_receiver", "receiver_only", "nobody"), description=meaning("status", "the noise"))


class History(contract.Learning):
    """Evaluations of the server's model over the rounds (`train`)."""

    status = contract.training_status("trained", "diverged")


SCHEMAS = {
    "users": Users,
    "links": Links,
    "schedule": Schedule,
    "schedule_status": ScheduleStatus,
    "noise": Noise,
    "noise_status": NoiseStatus,
    "history": History,
    "outcome": contract.LinearOutcome,
}
