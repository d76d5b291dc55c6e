"""Schemas of the tables of the system `anonymous_oac`."""

import dataframely as dy

from pwfl.systems.anonymous_oac.schemes import MECHANISMS, READINGS
from pwfl.tables import contract
from pwfl.tables.contract import NOISY, PUBLIC, epsilon_column, key, meaning

ESTIMATES = ("estimate_scale", "estimate_scale_counting_channel_noise", "estimate_scale_of_one_device")
QUANTITIES = ("rounds", "failed_devices", "failed_devices_one_adds_all", *ESTIMATES)
READING = "reading of what the observer knows"
BATCH_RECORDS = "records in a round's batches: mean of b_t"
EMPTY = "rounds in which no record was in any batch"
OWN = "null: by a function of the user's own"
HIDDEN = "null: who takes part, or how much noise there is, is a function of the user's own"
METHODS = ("advanced_composition", "renyi", "tight", "proved", "opposite_records")


class Users(contract.PerUser):
    """The devices (`channel`)."""

    REVEALS = PUBLIC
    samples = dy.Int64(nullable=False, min=1, description=meaning("samples", "the device's"))


class Links(contract.PerUserRound):
    """Each device's channel, round by round (`channel`)."""

    REVEALS = PUBLIC
    fading_gain = dy.Float64(nullable=False, min=0, description=meaning("fading_gain", "|c|^2, over all devices"))


class Schedule(Links):
    """Who takes part in a round, with how many records (`schedule`)."""

    REVEALS = PUBLIC
    slot = dy.Int64(nullable=True, min=0, description=meaning("slot", "one for each upload; null: all send at once"))
    batch = dy.Int64(nullable=False, min=0, description="records in its batch")


class ScheduleStatus(contract.PerRealization):
    """How rounds turned out (`schedule`)."""

    REVEALS = PUBLIC
    status = dy.Enum(
        ("over_the_air", "orthogonal", "own"), nullable=False, description=meaning("status", "the schedule")
    )
    rounds = dy.Int64(nullable=False, min=1, description=meaning("rounds", "of the training"))
    empty_rounds = dy.Int64(nullable=False, min=0, description=EMPTY)
    participants = dy.Float64(nullable=False, min=0, description="mean of a_t")
    batch_records = dy.Float64(nullable=False, min=0, description=BATCH_RECORDS)


class Noise(contract.PerRound):
    """Privacy noise that each round's update carries (`noise`)."""

    REVEALS = PUBLIC
    update_noise_std = dy.Float64(
        nullable=False, min=0, description=meaning("update_noise_std", "of the users' together; 0 in a silent round")
    )
    divisor = dy.Float64(nullable=False, min=0, description="of the sum of clipped gradients; 0 in a silent round")
    noise_multiplier = dy.Float64(
        nullable=False,
        min=0,
        description=meaning("noise_multiplier", "sigma_t divisor / (2 L), of a device where each protects its own"),
    )
    noise = dy.Enum(list(MECHANISMS), nullable=False, description=meaning("noise"))
    reading = dy.Enum(list(READINGS), nullable=False, description=f"{READING}: under which the noise was set")


class NoiseStatus(contract.PerRealization):
    """How each realization's noise multiplier was found (`noise`)."""

    REVEALS = PUBLIC
    status = dy.Enum(
        ("given", "calibrated", "no_guarantee", "no_noise", "own"),
        nullable=False,
        description=meaning("status", "the noise"),
    )
    noise_multiplier = dy.Float64(nullable=False, min=0, description=meaning("noise_multiplier", "the least"))
    epsilon = epsilon_column(meaning("epsilon", f"to which the multiplier was calibrated; {OWN}"), nullable=True)


class History(contract.UserHistory):
    """Test accuracy and loss over the rounds (`train`)."""

    round = key(meaning("round", "0 is the start"))
    accuracy = dy.Float64(nullable=False, min=0, max=1, description=meaning("accuracy"), metadata=NOISY)
    loss = dy.Float64(min=0, allow_inf=True, allow_nan=True, description=meaning("loss"), metadata=NOISY)
    clipped_share = contract.clipped_share()
    status = dy.Enum(
        ("trained", "diverged", "no_user_scheduled"),
        nullable=False,
        description=meaning("status", "the training"),
        metadata=NOISY,
    )


class Leakage(contract.PerUser):
    """What each device's records are left with, under the scheme's reading (`account`)."""

    REVEALS = PUBLIC
    rho = epsilon_column(meaning("rho", "of a record that is in all of the device's messages"))
    epsilon = epsilon_column(meaning("epsilon", "the device's records'"))


class Curves(contract.PerRealization):
    """epsilon over rounds, failed devices and channel estimates (`account`); of realization 0, alike for all."""

    REVEALS = PUBLIC
    quantity = dy.Enum(QUANTITIES, primary_key=True, description="what `x` is")
    reading = dy.Enum(list(READINGS), primary_key=True, description=READING)
    x = dy.Float64(primary_key=True, min=0)
    participation = dy.Float64(primary_key=True, min_exclusive=0, max=1, description="known to the observer; 1: hidden")
    sampling_rate = dy.Float64(primary_key=True, min_exclusive=0, max=1, description="of a record, beyond that")
    method = dy.Enum(METHODS, primary_key=True)
    noise_multiplier = dy.Float64(primary_key=True, min=0, description=meaning("noise_multiplier"))
    epsilon = epsilon_column(meaning("epsilon", "the scenario's"))


class Outcome(contract.Outcome):
    """Guarantee and cost of each realization's training (`account`)."""

    REVEALS = PUBLIC
    participants = dy.Float64(nullable=False, min=0, description="mean of a_t")
    batch_records = dy.Float64(nullable=False, min=0, description=BATCH_RECORDS)
    empty_rounds = dy.Int64(nullable=False, min=0, description=EMPTY)
    noise_multiplier = dy.Float64(nullable=False, min=0, description=meaning("noise_multiplier"))
    reading = dy.Enum(list(READINGS), nullable=False, description=f"{READING}: epsilon's")
    epsilon_anonymous = epsilon_column(f"usual pair, participation and batch size hidden; {HIDDEN}", nullable=True)
    epsilon_identified = epsilon_column(
        "usual pair, participation known, batch size hidden; null: nobody sends", nullable=True
    )
    epsilon_anonymous_read = epsilon_column(
        "usual pair, participation hidden, with what the strength of the noise tells; "
        "null: each device sends on its own",
        nullable=True,
    )
    epsilon_identified_read = epsilon_column(
        "usual pair, participation known, with what the strength of the noise tells; null: nobody sends", nullable=True
    )
    epsilon_renyi_anonymous = epsilon_column(f"the paper's accountant, participation hidden; {HIDDEN}", nullable=True)
    epsilon_renyi_identified = epsilon_column(f"the same, participation known; {HIDDEN}", nullable=True)
    epsilon_proved = epsilon_column(
        "upper bound for all pairs that differ in a record, under the scheme's reading; null: nobody sends",
        nullable=True,
    )
    epsilon_opposite_records = epsilon_column(
        "at least this is lost, under the scheme's reading; null: nobody sends", nullable=True
    )
    epsilon_theorem_1 = epsilon_column("closed form of Theorem 1; null where its conditions fail", nullable=True)
