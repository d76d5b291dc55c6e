"""Schemas of the tables of the system `utility_fair`."""

from functools import partial

import dataframely as dy

from pwfl.tables import contract
from pwfl.tables.contract import NOISY, PRIVATE, PUBLIC, amount, epsilon_column, key, meaning

SCHEDULE_STATUSES = ("chosen_in_training", "full_power", "least_effort", "always_out", "own")
NOISE_STATUSES = ("fair", "independent", "shared", "none", "own")
TRAINING_STATUSES = ("trained", "diverged", "nobody_took_part")
PATH_LOSS, ROUNDS_OUT = "path loss without fading", "rounds sat out"
ITERATIONS = "local iterations: 0: sits the round out"
LARGEST_MULTIPLIER, UPLOAD_MULTIPLIER = "(14) at deviation 1", "noise_multiplier of an upload"
OF_COPIES, OF_UPLOAD = "exact epsilon of all copies of a device", "exact epsilon of what a device sends in a round"


_private = partial(dy.Float64, metadata=PRIVATE)


class _PerDevice(contract.PerRealization):
    device = key("device")


class _PerDeviceRound(contract.PerRound):
    device = key("device")


class Users(_PerDevice):
    """Where each device is, and its samples (`channel`)."""

    REVEALS = PUBLIC
    distance_m = dy.Float64(min_exclusive=0, description=meaning("distance_m", "r"))
    path_loss_db = dy.Float64(description=f"{PATH_LOSS}: r^alpha / kappa")
    samples = dy.Int64(min=1, description=meaning("samples", "the device's"))


class Links(_PerDeviceRound):
    """The link of each device in each round (`channel`)."""

    REVEALS = PUBLIC
    gain = dy.Float64(min_exclusive=0, description=meaning("gain", "kappa |h|^2 r^-alpha"))


class Schedule(_PerDeviceRound):
    """What each device can do in each round, and its power (`schedule`).

    Iterations fill what the power leaves of the deadline.
    """

    REVEALS = PUBLIC
    unit_power_w = dy.Float64(min_exclusive=0, description="sigma^2 Gamma / gain")
    min_power_w = dy.Float64(min=0, allow_inf=True, description="P_min (20)")
    max_iterations = dy.Int64(min=0, description="j_max (21) rounded down")
    takes_part = dy.Bool(description="P_min does not exceed P_max, and no function of the user's own lets it rest")
    power_w = dy.Float64(
        nullable=True, min=0, description=meaning("power_w", "0: sits the round out, null: chosen in training")
    )
    iterations = dy.Int64(nullable=True, min=0, description=f"{ITERATIONS}; null: chosen in training")


class ScheduleStatus(_PerDevice):
    """Who decides over each device's rounds, and how many it sits out (`schedule`)."""

    REVEALS = PUBLIC
    status = dy.Enum(SCHEDULE_STATUSES, description=meaning("status", "the schedule"))
    path_loss_db = dy.Float64(description=PATH_LOSS)
    rounds_out = dy.Int64(min=0, description=f"{ROUNDS_OUT}: by the device")


class Noise(_PerDevice):
    """The noise of each device's copies of the model, and of each vector that it sends (`noise`)."""

    REVEALS = PUBLIC
    noise_multiplier = dy.Float64(min=0, description=meaning("noise_multiplier", "(14) at deviation 0"))
    copy_std = dy.Float64(min=0, description="standard deviation of a copy's noise at deviation 0, per coordinate")
    theta = dy.Float64(min=0, max_exclusive=1, description="0: deviation does not count")
    noise_vector = dy.Int64(min=0, description="devices with the same number share one draw")
    upload_multiplier = dy.Float64(
        nullable=True, min=0, description=f"{UPLOAD_MULTIPLIER}: (7), or for the target; null: clean"
    )
    upload_std = dy.Float64(nullable=True, min=0, description="per coordinate; null: uploads are clean")


class NoiseStatus(contract.PerRealization):
    """Which noise each realization's copies get (`noise`)."""

    REVEALS = PUBLIC
    status = dy.Enum(NOISE_STATUSES, description=meaning("status", "the noise"))
    noise_multiplier = dy.Float64(min=0, description=meaning("noise_multiplier", "(14) at deviation 0"))
    largest_multiplier = dy.Float64(min=0, description=LARGEST_MULTIPLIER)


class History(contract.UserHistory):
    """Each device's round; what all have spent, and the access point's model, after it, the same for all (`train`).

    What a device does in a round follows from how far its update deviated in the round before.
    """

    round = key(meaning("round", "from 1"))
    device = key("device")
    batch_loss = _private(
        min=0, allow_inf=True, allow_nan=True, description="mean cross-entropy of the device's copy on its batch, nats"
    )
    noise_multiplier = _private(
        nullable=True, min=0, description=meaning("noise_multiplier", "of the copy; null: clean")
    )
    deviation = _private(min=0, max=1, description="E (15) of the update")
    iterations = dy.Int64(min=0, description=ITERATIONS, metadata=PRIVATE)
    power_w = _private(min=0, description=meaning("power_w"))
    transmit_s = _private(min=0)
    energy_j = _private(min=0, description="(13)")
    learning_gain = _private(
        min=0, description="first two terms of (18), with beta_1 fitted by (17) to this round's deviation"
    )
    utility = _private(description="(18), with that beta_1; 0: sits the round out")
    air_seconds_cumulative = _private(min=0, description="the part of the outcome's air_seconds: as training decides")
    transmit_energy_j_cumulative = _private(min=0, description="the part of the outcome's transmit_energy_j: likewise")
    accuracy = amount(meaning("accuracy"), max=1, metadata=NOISY)
    loss = amount(meaning("loss"), allow_inf=True, allow_nan=True, metadata=NOISY)
    status = dy.Enum(TRAINING_STATUSES, description=meaning("status", "the round"), metadata=NOISY)


class Realizations(contract.PerRealization):
    """What the report derives of a realization's training, beside columns of `history` and `outcome`."""

    REVEALS = PUBLIC
    batch_loss_std = dy.Float64(nullable=True, min=0, description="over devices, mean over rounds from the second on")
    energy_std_j = dy.Float64(nullable=True, min=0, description="over devices, of their mean energies of a round")
    learning_gain_std = dy.Float64(nullable=True, min=0, description="over devices, of their mean learning gains")
    utility_std = dy.Float64(nullable=True, min=0, description="over devices, of their mean utilities of a round")


class Leakage(_PerDevice):
    """What a device's copies and uploads reveal of a record, if sensitivities hold (`account`)."""

    REVEALS = PUBLIC
    copies = dy.Int64(min=1, description="noisy copies in the training")
    noise_multiplier = dy.Float64(min=0, description=meaning("noise_multiplier", "the least, at deviation 0"))
    largest_multiplier = dy.Float64(min=0, description=LARGEST_MULTIPLIER)
    exact_multiplier = dy.Float64(min_exclusive=0, description="that epsilon_g needs, deviation 0")
    exact_largest_multiplier = dy.Float64(min_exclusive=0, description="that it needs, deviation 1")
    epsilon_printed = epsilon_column(meaning("epsilon_printed", "of one copy, epsilon_g"))
    epsilon_copy = epsilon_column("of one copy, exact")
    epsilon_device = epsilon_column(OF_COPIES)
    rho = epsilon_column(meaning("rho", "of what the outcome's observer sees"))
    epsilon = epsilon_column(meaning("epsilon", "of what the outcome's observer sees"))
    upload_multiplier = dy.Float64(nullable=True, min=0, description=f"{UPLOAD_MULTIPLIER}; null: clean")
    epsilon_upload = epsilon_column(f"{OF_UPLOAD}: a gradient and an update; infinite: clean")
    epsilon_user = epsilon_column(meaning("epsilon_user", "infinite: nothing is clipped"))


class Outcome(contract.Outcome):
    """Guarantee and cost of each realization (`account`)."""

    REVEALS = PUBLIC
    devices = dy.Int64(min=1)
    rounds_out = dy.Int64(min=0, description=f"{ROUNDS_OUT}: by all devices together")
    epsilon_printed = epsilon_column(meaning("epsilon_printed", "of one copy, epsilon_g"))
    epsilon_copy = epsilon_column("of one copy, exact")
    epsilon_round = epsilon_column("of all devices' copies of one round, exact")
    epsilon_device = epsilon_column(f"{OF_COPIES}: the worst device's")
    epsilon_upload = epsilon_column(f"{OF_UPLOAD}: the worst device's; infinite: clean")
    rho_server = epsilon_column(f"{meaning('rho_server')}: the worst device's; infinite: clean")
    epsilon_worst_case = epsilon_column(meaning("epsilon_worst_case"))
