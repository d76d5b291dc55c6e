"""Schemas of the tables of the system `local_dp_mac`."""

import dataframely as dy

from pwfl.tables import contract
from pwfl.tables.contract import amount, epsilon, key

SERVER = "server"  # the observer of all that is received


class PerDeviceRound(contract.PerRealization):
    """Keys of what is told of each device in each round."""

    round = key("round, from 0")
    user = key("device")


class Users(contract.PerUser):
    """The devices (`channel`)."""

    samples = dy.Int64(nullable=False, min=1, description="training records")


class Links(PerDeviceRound):
    """Each device's channel in each round (`channel`)."""

    gain = dy.Float64(nullable=False, min=0, description="power gain |h|^2, mean 1")


class Schedule(PerDeviceRound):
    """When each device sends, and how strongly it arrives (`schedule`)."""

    slot = dy.Int64(nullable=False, min=0, description="slot of the round; gradients sent in one slot add up on air")
    amplitude = dy.Float64(nullable=False, min=0, description="factor of the device's gradient where it is received")


class ScheduleStatus(contract.PerRealization):
    """How it went (`schedule`)."""

    status = dy.Enum(["everybody_sends"], nullable=False)


class Noise(PerDeviceRound):
    """Noise in what is received of each device, for each coordinate of its mean gradient (`noise`)."""

    noise_std = dy.Float64(nullable=False, min=0, description="standard deviation of the device's own")
    receiver_std = dy.Float64(nullable=False, min=0, description="that of the receiver's, over the amplitude")


class NoiseStatus(contract.PerRealization):
    """Who adds noise (`noise`)."""

    status = dy.Enum(["devices_and_receiver", "receiver_only", "nobody"], nullable=False)


class History(contract.UserHistory):
    """The server's model over the rounds (`train`)."""

    round = key("rounds that were trained; 0 is the start")
    accuracy = amount("on the test set; null: diverged", max=1)
    loss = amount("mean cross-entropy on the test set, nats", allow_inf=True, allow_nan=True)
    clipped_share = contract.clipped_share()
    status = dy.Enum(["trained", "diverged"], nullable=False)


class Leakage(contract.PerUser):
    """What the server learns of a record of each device, after all rounds (`account`)."""

    rho = epsilon("zCDP parameter")
    epsilon = epsilon("exact epsilon at delta")


class Outcome(contract.Outcome):
    """Guarantee and cost of each realization (`account`)."""

    rho = epsilon("zCDP parameter of the worst record")
