"""Schemas of the tables of the system `local_dp_mac`."""

import dataframely as dy

from pwfl.tables import contract
from pwfl.tables.contract import epsilon, key


class Users(dy.Schema):
    """The devices (`channel`)."""

    realization = key("realization")
    user = key("device")
    samples = dy.Int64(nullable=False, min=1, description="training records")


class Links(dy.Schema):
    """Each device's channel in each round (`channel`)."""

    realization = key("realization")
    round = key("round, from 0")
    user = key("device")
    gain = dy.Float64(nullable=False, min=0, description="power gain |h|^2, mean 1")


class Schedule(dy.Schema):
    """When each device sends, and how strongly it arrives (`schedule`)."""

    realization = key("realization")
    round = key("round, from 0")
    user = key("device")
    slot = dy.Int64(nullable=False, min=0, description="slot of the round; gradients sent in one slot add up on air")
    amplitude = dy.Float64(nullable=False, min=0, description="factor of the device's gradient where it is received")


class ScheduleStatus(dy.Schema):
    """How it went (`schedule`)."""

    realization = key("realization")
    status = dy.Enum(["everybody_sends"], nullable=False)


class Noise(dy.Schema):
    """Noise in what is received of each device, for each coordinate of its mean gradient (`noise`)."""

    realization = key("realization")
    round = key("round, from 0")
    user = key("device")
    noise_std = dy.Float64(nullable=False, min=0, description="standard deviation of the device's own")
    receiver_std = dy.Float64(nullable=False, min=0, description="that of the receiver's, over the amplitude")


class NoiseStatus(dy.Schema):
    """Who adds noise (`noise`)."""

    realization = key("realization")
    status = dy.Enum(["devices_and_receiver", "receiver_only", "nobody"], nullable=False)


class History(contract.History):
    """The server's model over the rounds (`train`)."""

    round = key("rounds that were trained; 0 is the start")
    accuracy = dy.Float64(nullable=True, min=0, max=1, description="on the test set")
    loss = dy.Float64(nullable=True, min=0, description="mean cross-entropy on the test set, nats")
    status = dy.Enum(["trained", "diverged"], nullable=False)


class Leakage(dy.Schema):
    """What the server learns of a record of each device, after all rounds (`account`)."""

    realization = key("realization")
    user = key("device")
    rho = epsilon("zCDP parameter")
    epsilon = epsilon("exact epsilon at delta")


class Outcome(contract.Outcome):
    """Guarantee and cost of each realization (`account`)."""

    rho = epsilon("zCDP parameter of the worst record")
