"""Schemas of the tables of the system `template`."""

import dataframely as dy

from pwfl.tables import contract
from pwfl.tables.contract import amount, epsilon, key

SERVER = "server"  # the observer who sees every device's upload


class Users(contract.PerUser):
    """The devices (`channel`)."""

    samples = dy.Int64(nullable=False, min=1, description="training records")


class Links(contract.PerUserRound):
    """Each device's channel in each round (`channel`)."""

    gain = dy.Float64(nullable=False, min=0, description="power gain, mean 1")


class Schedule(contract.PerUserRound):
    """Who sends (`schedule`)."""

    sends = dy.Bool(nullable=False)


class ScheduleStatus(contract.PerRealization):
    """How it went (`schedule`)."""

    status = dy.Enum(["scheduled"], nullable=False)


class Noise(contract.PerUser):
    """Each device's noise (`noise`)."""

    noise_std = dy.Float64(nullable=False, min=0, description="in each coordinate of its mean gradient")


class NoiseStatus(contract.PerRealization):
    """Whether there is any (`noise`)."""

    status = dy.Enum(["noise", "no_noise"], nullable=False)


class History(contract.UserHistory):
    """The server's model over the rounds (`train`)."""

    round = key("rounds that were trained; 0 is the start")
    accuracy = amount("on the test set; null: diverged", max=1)
    loss = amount("mean cross-entropy on the test set, nats; null: diverged")
    clipped_share = contract.clipped_share()
    status = dy.Enum(["trained", "diverged", "no_user_scheduled"], nullable=False)


class Leakage(contract.PerUser):
    """What the server learns of a record of each device that sends, after all rounds (`account`)."""

    rho = epsilon("zCDP parameter")
    epsilon = epsilon("exact epsilon at delta")


class Outcome(contract.Outcome):
    """Guarantee and cost of each realization (`account`)."""

    rho = epsilon("zCDP parameter of the worst record")
