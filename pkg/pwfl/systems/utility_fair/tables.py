"""Schemas of the tables of the system `utility_fair`."""

import dataframely as dy

from pwfl.tables import contract
from pwfl.tables.contract import epsilon, key

SCHEDULE_STATUSES = ("chosen_in_training", "full_power", "always_out")
NOISE_STATUSES = ("fair", "independent", "shared", "none")
TRAINING_STATUSES = ("trained", "diverged", "nobody_took_part")


class _PerDevice(contract.PerRealization):
    device = key("device")


class _PerDeviceRound(contract.PerRound):
    device = key("device")


class Users(_PerDevice):
    """Where each device is, and its samples (`channel`)."""

    distance_m = dy.Float64(min_exclusive=0, description="r")
    path_loss_db = dy.Float64(description="r^alpha / kappa, without fading")
    samples = dy.Int64(min=1, description="training samples")


class Links(_PerDeviceRound):
    """The link of each device in each round (`channel`)."""

    gain = dy.Float64(min_exclusive=0, description="power gain kappa |h|^2 r^-alpha")


class Schedule(_PerDeviceRound):
    """What each device can do in each round, and its power (`schedule`).

    Iterations fill what the power leaves of the deadline.
    """

    unit_power_w = dy.Float64(min_exclusive=0, description="sigma^2 Gamma / gain")
    min_power_w = dy.Float64(min=0, allow_inf=True, description="P_min (20)")
    max_iterations = dy.Int64(min=0, description="j_max (21) rounded down")
    takes_part = dy.Bool(description="P_min does not exceed P_max")
    power_w = dy.Float64(nullable=True, min=0, description="0: sits the round out, null: chosen in training")


class ScheduleStatus(_PerDevice):
    """Who decides over each device's rounds, and how many it sits out (`schedule`)."""

    status = dy.Enum(SCHEDULE_STATUSES)
    path_loss_db = dy.Float64()
    rounds_out = dy.Int64(min=0, description="rounds the device sits out")


class Noise(_PerDevice):
    """The noise of each device's copies of the model, and of each vector that it sends (`noise`)."""

    noise_multiplier = dy.Float64(min=0, description="(14) at deviation 0")
    noise_std = dy.Float64(min=0, description="at deviation 0, per coordinate")
    theta = dy.Float64(min=0, max_exclusive=1, description="0: deviation does not count")
    noise_vector = dy.Int64(min=0, description="devices with the same number share one draw")
    upload_multiplier = dy.Float64(nullable=True, min=0, description="(7), or for the target; null: clean")
    upload_std = dy.Float64(nullable=True, min=0, description="per coordinate; null: uploads are clean")


class NoiseStatus(contract.PerRealization):
    """Which noise each realization's copies get (`noise`)."""

    status = dy.Enum(NOISE_STATUSES)
    noise_multiplier = dy.Float64(min=0, description="(14) at deviation 0")
    largest_multiplier = dy.Float64(min=0, description="(14) at deviation 1")


class History(contract.UserHistory):
    """Each device's round; what all have spent, and the access point's model, after it, the same for all (`train`)."""

    round = key("round, from 1")
    device = key("device")
    loss = dy.Float64(min=0, allow_inf=True, allow_nan=True, description="of the copy, own batch")
    noise_multiplier = dy.Float64(nullable=True, min=0, description="of the copy, null: clean")
    deviation = dy.Float64(min=0, max=1, description="E (15) of the update")
    iterations = dy.Int64(min=0, description="0: sits the round out")
    power_w = dy.Float64(min=0)
    transmit_s = dy.Float64(min=0)
    energy_j = dy.Float64(min=0, description="(13)")
    accuracy = dy.Float64(nullable=True, min=0, max=1, description="of the model on the test set")
    test_loss = dy.Float64(nullable=True, min=0, allow_inf=True, allow_nan=True, description="of the model")
    status = dy.Enum(TRAINING_STATUSES, description="of the round")


class Realizations(contract.PerRealization):
    """What the report derives of a realization's training, beside columns of `history` and `outcome`."""

    loss_std = dy.Float64(nullable=True, min=0, description="over devices, mean over rounds from the second on")
    energy_std_j = dy.Float64(nullable=True, min=0, description="over devices, of their mean energies of a round")


class Leakage(_PerDevice):
    """What a device's copies and uploads reveal of a record, if sensitivities hold (`account`)."""

    copies = dy.Int64(min=1, description="noisy copies in the training")
    noise_multiplier = dy.Float64(min=0, description="least, at deviation 0")
    largest_multiplier = dy.Float64(min=0, description="at deviation 1")
    exact_multiplier = dy.Float64(min_exclusive=0, description="that epsilon_g needs, deviation 0")
    exact_largest_multiplier = dy.Float64(min_exclusive=0, description="that it needs, deviation 1")
    epsilon_printed = epsilon("of one copy, as printed: epsilon_g")
    epsilon_copy = epsilon("of one copy, exact")
    epsilon_device = epsilon("of all its copies, exact")
    rho = dy.Float64(min=0, allow_inf=True, description="zCDP of all its copies")
    upload_multiplier = dy.Float64(nullable=True, min=0, description="(7); null: uploads are clean")
    epsilon_upload = epsilon("of the gradient and the update it sends in a round, exact; infinite: clean")
    epsilon_uploads = epsilon("of those of all rounds, exact; infinite: clean")


class Outcome(contract.Outcome):
    """Guarantee and cost of each realization (`account`)."""

    devices = dy.Int64(min=1)
    rounds_out = dy.Int64(min=0, description="rounds that devices sit out, in all")
    epsilon_printed = epsilon("of one copy, as printed: epsilon_g")
    epsilon_copy = epsilon("of one copy, exact")
    epsilon_round = epsilon("of all devices' copies of one round, exact")
    epsilon_device = epsilon("of one device's copies of the whole training, exact")
    epsilon_upload = epsilon("of what one device sends in a round, exact; infinite: clean")
    epsilon_worst_case = epsilon("with no more bounds on sensitivities than are enforced")
