"""Schemas of the tables of the system `anonymous_oac`."""

import dataframely as dy
import polars as pl

from pwfl.systems.anonymous_oac import meanings
from pwfl.systems.anonymous_oac.schemes import MECHANISMS, NOISE_STATUSES, READINGS, SCHEDULE_STATUSES
from pwfl.tables import contract
from pwfl.tables.contract import PUBLIC, epsilon_column, meaning

ESTIMATES = ("estimate_scale", "estimate_scale_counting_channel_noise", "estimate_scale_of_one_device")
QUANTITIES = ("rounds", "failed_devices", "failed_devices_one_adds_all", *ESTIMATES)
METHODS = ("advanced_composition", "renyi", "tight", "proved", "opposite_records")


class Users(contract.PerUser):
    """The devices (`channel`)."""

    REVEALS = PUBLIC
    samples = dy.Int64(min=1, description=meaning("samples", "of the device"))


class Links(contract.PerUserRound):
    """Each device's channel in each round (`channel`)."""

    REVEALS = PUBLIC
    fading_gain = dy.Float64(min=0, description=meaning("fading_gain", "|c|^2, normalized over all devices"))


class Schedule(Links):
    """Participants of each round, and the sizes of their batches (`schedule`)."""

    REVEALS = PUBLIC
    slot = dy.Int64(nullable=True, min=0, description=meaning("slot", "one per upload; null: all send simultaneously"))
    batch = dy.Int64(min=0, description="number of records in the device's batch")


class ScheduleStatus(contract.PerRealization):
    """Participants, records and empty rounds of each realization (`schedule`)."""

    REVEALS = PUBLIC
    status = dy.Enum(SCHEDULE_STATUSES, description=meaning("status", "of the schedule"))
    rounds = dy.Int64(min=1, description=meaning("rounds", "of the training"))
    empty_rounds = dy.Int64(min=0, description=meanings.EMPTY)
    participants = dy.Float64(min=0, description="mean number of participating devices a_t")
    batch_records = dy.Float64(min=0, description=meanings.BATCH_RECORDS)


class Noise(contract.PerRound):
    """Privacy noise in each round's update (`noise`)."""

    REVEALS = PUBLIC
    update_noise_std = dy.Float64(
        min=0, description=meaning("update_noise_std", "of all users' noise; 0 in a silent round")
    )
    divisor = dy.Float64(
        min=0, description="number by which the sum of clipped gradients is divided; 0 in a silent round"
    )
    noise_multiplier = dy.Float64(
        min=0,
        description=meaning(
            "noise_multiplier", "sigma_t divisor / (2 L), of one device if each protects its own records"
        ),
    )
    noise = dy.Enum(list(MECHANISMS), description=meaning("noise"))
    reading = dy.Enum(list(READINGS), description=f"{meanings.READING}: under which the noise was set")


class NoiseStatus(contract.PerRealization):
    """Status of each realization's noise multiplier: how it was found (`noise`)."""

    REVEALS = PUBLIC
    status = dy.Enum(NOISE_STATUSES, description=meaning("status", "of the noise"))
    noise_multiplier = dy.Float64(min=0, description=meaning("noise_multiplier", "smallest of all rounds"))
    epsilon = epsilon_column(
        description=meaning("epsilon", "target of the calibration; null: set by a user-defined function"), nullable=True
    )


class History(contract.Learning):
    """Test accuracy and loss over the rounds (`train`)."""

    status = contract.training_status("trained", "diverged", "no_user_scheduled")


class Curves(contract.PerRealization):
    """Epsilon over rounds, failed devices and channel estimates (`account`), in realization 0, as equal for all."""

    REVEALS = PUBLIC
    quantity = dy.Enum(QUANTITIES, primary_key=True, description="quantity on the axis x")
    reading = dy.Enum(list(READINGS), primary_key=True, description=meanings.READING)
    x = dy.Float64(primary_key=True, min=0, description="value of `quantity`")
    participation = dy.Float64(
        primary_key=True,
        min_exclusive=0,
        max=1,
        description="participation rate that the observer knows; 1: participation is hidden",
    )
    sampling_rate = dy.Float64(
        primary_key=True,
        min_exclusive=0,
        max=1,
        description="sampling rate of a record in the batch of a participating device",
    )
    method = dy.Enum(METHODS, primary_key=True, description="accountant that computed epsilon")
    noise_multiplier = dy.Float64(primary_key=True, min=0, description=meaning("noise_multiplier"))
    epsilon = epsilon_column(description=meaning("epsilon", "by this method, at this x"))


class Outcome(contract.Outcome):
    """Guarantee and cost of each realization's training run (`account`)."""

    REVEALS = PUBLIC
    participants = dy.Float64(min=0, description="mean number of participating devices a_t")
    batch_records = dy.Float64(min=0, description=meanings.BATCH_RECORDS)
    empty_rounds = dy.Int64(min=0, description=meanings.EMPTY)
    noise_multiplier = dy.Float64(
        check={"only_noise_hides": lambda column: (column > 0) | pl.col("epsilon_server").is_infinite()},
        min=0,
        description=meaning("noise_multiplier"),
    )
    reading = dy.Enum(list(READINGS), description=f"{meanings.READING}: for epsilon")
    epsilon_anonymous = epsilon_column(
        description=f"epsilon of a typical pair of data sets, participation and batch size hidden; {meanings.HIDDEN}",
        nullable=True,
    )
    epsilon_identified = epsilon_column(
        description="epsilon of a typical pair of data sets, participation known, batch size hidden; null: no device "
        "sends",
        nullable=True,
    )
    epsilon_anonymous_read = epsilon_column(
        description="epsilon of a typical pair of data sets, participation hidden, noise strength observed; "
        "null: each device sends separately",
        nullable=True,
    )
    epsilon_identified_read = epsilon_column(
        description="epsilon of a typical pair of data sets, participation known, noise strength observed; null: no "
        "device sends",
        nullable=True,
    )
    epsilon_renyi_anonymous = epsilon_column(
        description=f"epsilon by the paper's Renyi accountant, participation hidden; {meanings.HIDDEN}", nullable=True
    )
    epsilon_renyi_identified = epsilon_column(
        description=f"epsilon by the paper's Renyi accountant, participation known; {meanings.HIDDEN}", nullable=True
    )
    epsilon_proved = epsilon_column(
        description="proved upper bound for all neighbouring data sets, under the scheme's interpretation; null: no "
        "device sends",
        nullable=True,
    )
    epsilon_opposite_records = epsilon_column(
        description="lower bound from a pair of opposite records, under the scheme's interpretation; null: no device "
        "sends",
        nullable=True,
    )
    epsilon_theorem_1 = epsilon_column(
        description="epsilon by the closed form of Theorem 1; null: its conditions do not hold", nullable=True
    )


SCHEMAS = {
    "users": Users,
    "links": Links,
    "schedule": Schedule,
    "schedule_status": ScheduleStatus,
    "noise": Noise,
    "noise_status": NoiseStatus,
    "history": History,
    "curves": Curves,
    "outcome": Outcome,
}
