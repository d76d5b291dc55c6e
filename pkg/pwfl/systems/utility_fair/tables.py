"""Schemas of the tables of the system `utility_fair`."""

from functools import partial

import dataframely as dy

from pwfl.systems.utility_fair import meanings
from pwfl.systems.utility_fair.schemes import NOISE_STATUSES, SCHEDULE_STATUSES
from pwfl.tables import contract
from pwfl.tables.contract import NOISY, PRIVATE, PUBLIC, amount, epsilon_column, key, meaning

TRAINING_STATUSES = ("trained", "diverged", "nobody_took_part")

_private = partial(dy.Float64, metadata=PRIVATE)
_device = partial(key, description="number of the device, from 0")


class _PerDevice(contract.PerRealization):
    device = _device()


class _PerDeviceRound(contract.PerRound):
    device = _device()


class Users(_PerDevice):
    """Each device's distance, path loss and number of samples (`channel`)."""

    REVEALS = PUBLIC
    distance_m = dy.Float64(min_exclusive=0, description=meaning("distance_m", "r"))
    path_loss_db = dy.Float64(description=f"{meanings.PATH_LOSS}: r^alpha / kappa")
    samples = dy.Int64(min=1, description=meaning("samples", "of the device"))


class Links(_PerDeviceRound):
    """The link of each device in each round (`channel`)."""

    REVEALS = PUBLIC
    gain = dy.Float64(min_exclusive=0, description=meaning("gain", "kappa |h|^2 r^-alpha"))


class Schedule(_PerDeviceRound):
    """Each device's limits and power in each round (`schedule`).

    Iterations fill the time that the transmission leaves before the deadline.
    """

    REVEALS = PUBLIC
    unit_power_w = dy.Float64(
        min_exclusive=0, description="power for a signal-to-noise ratio of Gamma: sigma^2 Gamma / gain"
    )
    min_power_w = dy.Float64(min=0, allow_inf=True, description="minimum transmit power P_min (20)")
    max_iterations = dy.Int64(
        min=0, description="largest number of local iterations within the deadline, j_max (21) rounded down"
    )
    takes_part = dy.Bool(
        description="whether the device can take part: P_min is at most P_max, and no user-defined function excludes it"
    )
    power_w = dy.Float64(
        nullable=True, min=0, description=meaning("power_w", "0: does not take part; null: chosen during training")
    )
    iterations = dy.Int64(nullable=True, min=0, description=f"{meanings.ITERATIONS}; null: chosen during training")


class ScheduleStatus(_PerDevice):
    """The policy that decides about each device's rounds, and its rounds without participation (`schedule`)."""

    REVEALS = PUBLIC
    status = dy.Enum(SCHEDULE_STATUSES, description=meaning("status", "who decides about the device's rounds"))
    path_loss_db = dy.Float64(description=meanings.PATH_LOSS)
    rounds_out = dy.Int64(min=0, description=f"{meanings.ROUNDS_OUT}: of the device")


class Noise(_PerDevice):
    """The noise of each device's copies of the model, and of each vector that it sends (`noise`)."""

    REVEALS = PUBLIC
    noise_multiplier = dy.Float64(min=0, description=meaning("noise_multiplier", "(14) at deviation 0"))
    copy_std = dy.Float64(min=0, description="standard deviation of a copy's noise at deviation 0, per coordinate")
    theta = dy.Float64(min=0, max_exclusive=1, description="weight theta of the deviation in the noise (14); 0: none")
    noise_vector = dy.Int64(
        min=0, description="number of the noise vector; devices with the same number share one draw"
    )
    upload_multiplier = dy.Float64(
        nullable=True,
        min=0,
        description=f"{meanings.UPLOAD_MULTIPLIER}: by (7) or for the target epsilon; null: no noise",
    )
    upload_std = dy.Float64(
        nullable=True,
        min=0,
        description="standard deviation of the noise of an upload, per coordinate; null: uploads have no noise",
    )


class NoiseStatus(contract.PerRealization):
    """The noise of each realization's copies (`noise`)."""

    REVEALS = PUBLIC
    status = dy.Enum(NOISE_STATUSES, description=meaning("status", "of the copies' noise"))
    noise_multiplier = dy.Float64(min=0, description=meaning("noise_multiplier", "(14) at deviation 0"))
    largest_multiplier = dy.Float64(min=0, description=meanings.LARGEST_MULTIPLIER)


class History(contract.UserHistory):
    """Each device's rounds; cumulative costs and the access point's model, equal for all devices (`train`).

    A device's choice in a round follows from the deviation of its update in the previous round.
    """

    round = key(description=meaning("round", "from 1"))
    device = _device()
    batch_loss = _private(
        min=0, allow_inf=True, allow_nan=True, description="mean cross-entropy of the device's copy on its batch, nats"
    )
    noise_multiplier = _private(
        nullable=True, min=0, description=meaning("noise_multiplier", "of the copy; null: no noise")
    )
    deviation = _private(min=0, max=1, description="deviation E (15) of the device's update")
    iterations = dy.Int64(min=0, description=meanings.ITERATIONS, metadata=PRIVATE)
    power_w = _private(min=0, description=meaning("power_w"))
    transmit_s = _private(min=0, description="transmission time of the device in the round")
    energy_j = _private(min=0, description="energy of the device in the round (13)")
    learning_gain = _private(
        min=0,
        description="learning gain: first two terms of (18), with beta_1 fitted by (17) to this round's deviation",
    )
    utility = _private(description="utility (18) of the device, with the same beta_1; 0: does not take part")
    air_seconds_cumulative = _private(min=0, description="airtime up to this round, s; as decided during training")
    transmit_energy_j_cumulative = _private(
        min=0, description="energy radiated by all users up to this round; as decided during training"
    )
    accuracy = amount(description=meaning("accuracy"), max=1, metadata=NOISY)
    loss = amount(description=meaning("loss"), allow_inf=True, allow_nan=True, metadata=NOISY)
    status = dy.Enum(TRAINING_STATUSES, description=meaning("status", "of the round"), metadata=NOISY)


class Realizations(contract.PerRealization):
    """Columns that the report derives of a training run, in addition to those of `history` and `outcome`."""

    REVEALS = PUBLIC
    batch_loss_std = dy.Float64(
        nullable=True,
        min=0,
        description="standard deviation of the training loss over devices, mean over rounds from the second on",
    )
    energy_std_j = dy.Float64(
        nullable=True, min=0, description="standard deviation over devices of their mean energy per round"
    )
    learning_gain_std = dy.Float64(
        nullable=True, min=0, description="standard deviation over devices of their mean learning gain per round"
    )
    utility_std = dy.Float64(
        nullable=True, min=0, description="standard deviation over devices of their mean utility per round"
    )


class Leakage(_PerDevice):
    """Privacy losses of a record from a device's copies and uploads, if sensitivities hold (`account`)."""

    REVEALS = PUBLIC
    copies = dy.Int64(min=1, description="number of noisy copies of the model in a training run")
    noise_multiplier = dy.Float64(min=0, description=meaning("noise_multiplier", "smallest, at deviation 0"))
    largest_multiplier = dy.Float64(min=0, description=meanings.LARGEST_MULTIPLIER)
    exact_multiplier = dy.Float64(
        min_exclusive=0, description="noise multiplier that exact accounting requires for epsilon_g, at deviation 0"
    )
    exact_largest_multiplier = dy.Float64(
        min_exclusive=0, description="noise multiplier that exact accounting requires for epsilon_g, at deviation 1"
    )
    epsilon_printed = epsilon_column(description=meaning("epsilon_printed", "one copy, epsilon_g"))
    epsilon_copy = epsilon_column(description="exact epsilon of one copy")
    epsilon_device = epsilon_column(description=meanings.OF_COPIES)
    rho = epsilon_column(description=meaning("rho", "against the outcome's observer"))
    epsilon = epsilon_column(description=meaning("epsilon", "against the outcome's observer"))
    upload_multiplier = dy.Float64(nullable=True, min=0, description=f"{meanings.UPLOAD_MULTIPLIER}; null: no noise")
    epsilon_upload = epsilon_column(description=f"{meanings.OF_UPLOAD}: a gradient and an update; infinite: no noise")
    epsilon_user = epsilon_column(description=meaning("epsilon_user", "infinite: nothing is clipped"))


class Outcome(contract.Outcome):
    """Guarantee and cost of each realization (`account`)."""

    REVEALS = PUBLIC
    devices = dy.Int64(min=1, description="number of devices")
    rounds_out = dy.Int64(min=0, description=f"{meanings.ROUNDS_OUT}: sum over devices")
    epsilon_printed = epsilon_column(description=meaning("epsilon_printed", "one copy, epsilon_g"))
    epsilon_copy = epsilon_column(description="exact epsilon of one copy")
    epsilon_round = epsilon_column(description="exact epsilon of the copies for all devices in one round")
    epsilon_device = epsilon_column(description=f"{meanings.OF_COPIES}: of the most exposed device")
    epsilon_upload = epsilon_column(description=f"{meanings.OF_UPLOAD}: of the most exposed device; infinite: no noise")
    rho_server = epsilon_column(description=f"{meaning('rho_server')}: of the most exposed device; infinite: no noise")
    epsilon_worst_case = epsilon_column(description=meaning("epsilon_worst_case"))


SCHEMAS = {
    "users": Users,
    "links": Links,
    "schedule": Schedule,
    "schedule_status": ScheduleStatus,
    "noise": Noise,
    "noise_status": NoiseStatus,
    "history": History,
    "realizations": Realizations,
    "leakage": Leakage,
    "outcome": Outcome,
}
