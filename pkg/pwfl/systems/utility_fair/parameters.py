"""Parameters of the system `utility_fair`: devices of one cell with different costs of a round.

Defaults are Table I of Alvi, Hong and Durrani, "Federated Learning Cost Disparity for IoT Devices". It is interpreted
so that its claims can be supported: a deadline of 0.75 s, a maximum power of 0 dBW, -174 dBm of noise in all.
"""

from typing import TYPE_CHECKING, ClassVar, Literal

from pwfl.scenario import common
from pwfl.scenario.fields import ListOf, OrFunction, Section, describe, parameter
from pwfl.systems.utility_fair.schemes import NOISES, SCHEDULERS

if TYPE_CHECKING:
    Scheduler = Noise = str
else:
    Scheduler, Noise = Literal[tuple(SCHEDULERS)], Literal[tuple(NOISES)]

FULL_POWER = {"schedule/benchmark": None}  # with it, devices compute as much as fits, whatever their energy and utility


class Network(Section):
    """Where the devices are: uniform in distance from the access point."""

    devices: common.Count = parameter(10, "machine-type devices K", stages="channel")
    min_distance_m: common.Distance = parameter(
        50.0, "least distance r of a device", unit="m", stages="channel", usual=common.USUAL_DISTANCE
    )
    max_distance_m: common.Distance = parameter(
        200.0, "greatest distance r of a device", unit="m", stages="channel", usual=common.USUAL_DISTANCE
    )

    savers: int = parameter(
        0,
        "devices that save effort on purpose, the first ones: the power P_min (20), with which the least number of "
        "iterations fits",
        stages="schedule",
        ge=0,
        le=10**6,
    )


class Radio(Section):
    """The uplink, (8)-(9), a channel of its own for each device."""

    frequency_hz: common.Frequency = parameter(
        32e6, "centre frequency f_c", unit="Hz", stages="channel", usual=common.USUAL_FREQUENCY
    )
    path_loss_exponent: common.Exponent = parameter(
        4.0, "exponent alpha of the distance in the path loss", stages="channel"
    )
    fading_scale: common.FadingScale = parameter(1.0, "scale of the Rayleigh fading amplitude |h|", stages="channel")
    bandwidth_hz: common.Bandwidth = parameter(
        250e3,
        "bandwidth B of a device's channel",
        unit="Hz",
        stages="schedule train account audit report",
        usual=common.USUAL_BANDWIDTH,
    )
    noise_density_dbm_hz: common.NoiseDensity = parameter(
        -174.0, "thermal noise power density N0", unit="dBm/Hz", stages="schedule", usual=common.USUAL_NOISE_DENSITY
    )
    noise: Literal["as_printed", "thermal"] = parameter(
        "as_printed",
        "noise power at the receiver",
        values={"as_printed": "N0 of one hertz, with which the paper's claims are supported", "thermal": "N0 B"},
        stages="schedule",
    )
    snr_gap_db: float = parameter(
        9.8, "gap Gamma of modulation and coding", unit="dB", stages="schedule", usual=(0.0, 20.0), ge=0, le=60
    )
    update_bits: float = parameter(
        875e3,
        "size V of an update",
        unit="bit",
        stages="schedule train account audit",
        usual=(1e3, 1e12),
        ge=1,
        le=1e15,
    )


class Device(Section):
    """What a device can do and draws, (5), (10), (13)."""

    deadline_s: float = parameter(
        0.75,
        "time T of a round for computing and transmitting",
        unit="s",
        stages="schedule train audit",
        usual=(1e-3, 300.0),
        ge=1e-9,
        le=1e6,
    )
    batch_size: common.Count = parameter(
        128, "samples d of a round's batch", unit="samples", stages="schedule noise train account audit"
    )
    sample_bits: float = parameter(
        6272.0, "size of a sample", unit="bit", stages="schedule train audit", usual=(8.0, 1e9), ge=1, le=1e12
    )
    seconds_per_bit: float = parameter(
        7.5e-9,
        "time tau to process a bit in an iteration",
        unit="s",
        stages="schedule train audit",
        usual=(1e-12, 1e-4),
        ge=1e-15,
        le=1e3,
    )
    min_iterations: int = parameter(
        10, "least number j_min of local iterations", stages="schedule train audit", ge=1, le=10**9
    )
    max_power_dbm: common.PowerDbm = parameter(
        30.0, "maximum transmit power P_max", unit="dBm", stages="schedule train audit", usual=common.USUAL_POWER
    )
    amplifier_efficiency: float = parameter(
        0.45, "efficiency rho of the power amplifier", stages="train audit", observes=FULL_POWER, ge=1e-6, le=1
    )
    circuit_power_w: float = parameter(
        0.0825,
        "power P_cir of the radio's circuit while it transmits",
        unit="W",
        stages="train audit",
        observes=FULL_POWER,
        usual=(1e-5, 50.0),
        ge=0,
        le=1e6,
    )
    computing_power_w: float = parameter(
        0.096,
        "power P_cp while computing",
        unit="W",
        stages="train audit",
        observes=FULL_POWER,
        usual=(1e-5, 50.0),
        ge=1e-9,
        le=1e6,
    )


class Utility(Section):
    """What a device maximizes, (18), and how it predicts its deviation, (16)."""

    energy_scale_j: common.Positive = parameter(
        0.5,
        "energy varrho beyond which a round costs more than it is worth",
        unit="J",
        stages="train audit",
        observes=FULL_POWER,
        usual=(1e-6, 100.0),
    )
    beta_2_j: common.Positive = parameter(
        0.5,
        "computing energy beta_2 in which the predicted deviation falls by 1/e",
        unit="J",
        stages="train audit",
        observes=FULL_POWER,
        usual=(1e-6, 100.0),
    )
    deviation: Literal["mean_update", "model"] = parameter(
        "mean_update",
        "reference of a device's deviation (15)",
        values={"mean_update": "the mean update", "model": "the model, as printed"},
        stages="train audit",
    )


class Data(common.DataSource):
    """What the devices hold and learn."""

    dataset: common.Dataset = common.dataset(stages="train audit report")
    content: common.Content | None = common.content(stages="train audit report")
    samples_per_device: common.Count = parameter(
        6000, "training samples of each device, dealt at random", unit="samples", stages="channel"
    )


class Privacy(Section):
    """The noise of a device's copy of the model, (14), and of what it sends, and what is accounted for."""

    epsilon: float = parameter(
        0.95,
        "epsilon of a copy at deviation 0 (epsilon_g), and of a noisy upload, unless target_epsilon sets its noise",
        stages="noise account",
        ge=1e-6,
        lt=1,
    )
    target_epsilon: float | None = common.target_epsilon(stages="noise")
    delta: float = parameter(
        1e-5, "delta of a copy (delta_g), and of the whole training", stages="noise account", ge=1e-100, lt=1
    )
    theta: float = parameter(
        0.6, "how much deviation adds noise: epsilon_g times 1 - theta E", stages="noise/fair", ge=0, le=0.999
    )
    sensitivity: common.Positive = parameter(
        0.01,
        "sensitivity S_f of the model, and without training.clip_norm of what devices send; observed, not enforced",
        stages="noise audit",
    )
    uploads: Literal["clean", "noisy"] = parameter(
        "clean",
        "messages of devices",
        values={
            "clean": "gradients and updates without noise",
            "noisy": "with noise of the device, calibrated to epsilon_g and delta_g for each message",
        },
        stages="noise",
    )


class Training(Section):
    """Federated learning, (1)-(4)."""

    device: common.Device = common.device()
    features: common.Features = common.features(stages="train audit")
    model: common.Model = common.model(stages="train audit")
    model_reads: ListOf[str] = common.model_reads(stages="train audit")
    hidden_layers: ListOf[common.Width] = common.hidden_layers([128, 64], stages="train audit")
    rounds: int = parameter(50, "rounds", stages="channel noise account audit", ge=2, le=10**6)
    learning_rate: common.StepSize = parameter(0.01, "step size eta of a local iteration", stages="train audit")
    clip_norm: float | None = parameter(
        None,
        "clipping norm C of a record's gradient; over batch_size, also of an update's distance from what is known of "
        "it: with noisy uploads, a guarantee; null: nothing is clipped, as in the paper",
        stages="noise train account audit",
        ge=1e-6,
        le=1e6,
    )
    evaluate_every: int = common.evaluate_every(5)


class Scheme(common.Scheme):
    """A pair of a device's policy and an access point's noise, and the name it has in figures and tables."""

    scheduler: OrFunction[Scheduler] = parameter(
        ...,
        "policy of a device",
        values=describe(SCHEDULERS, "powers by a user-defined function (docs/how-to/own_functions.md)"),
    )
    noise: OrFunction[Noise] = parameter(
        ...,
        "noise of the devices' copies of the model",
        values=describe(
            NOISES,
            "a user-defined function (docs/how-to/own_functions.md); of uploads where these are noisy, "
            "otherwise of copies",
        ),
    )


class UtilityFair(common.Scenario):
    """A scenario of the system `utility_fair`."""

    lacks: ClassVar = dict.fromkeys(
        ("privacy.observer", "privacy.colluders", "privacy.dropouts"),
        "the vectors of its devices are received one by one, so that nobody's noise hides another's",
    ) | {"training.bits": "the vectors of its devices are received one by one, and no sum of integers is"}

    system: Literal["utility_fair"] = common.system("utility_fair")
    seed: int = common.seed(stages="channel schedule/own noise/own train audit")
    network: Network = Network()
    radio: Radio = Radio()
    device: Device = Device()
    utility: Utility = Utility()
    data: Data = Data()
    privacy: Privacy = Privacy()
    training: Training = Training()
    own: common.Own = common.Own()
    schemes: ListOf[Scheme] = common.schemes(
        Scheme(name="Proposed", scheduler="utility", noise="fair"),
        Scheme(name="Benchmark", scheduler="benchmark", noise="independent"),
        Scheme(name="Benchmark, shared noise", scheduler="benchmark", noise="shared"),
    )
