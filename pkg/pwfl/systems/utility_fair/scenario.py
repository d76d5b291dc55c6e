"""Parameters of the system `utility_fair`: devices that differ in what a round costs them, one cell.

Defaults are Table I of Alvi, Hong and Durrani, "Federated Learning Cost Disparity for IoT Devices", read so that
its claims can come out: a deadline of 0.75 s, 0 dBW, -174 dBm of noise in all.
"""

from math import log
from typing import Literal

from pydantic import model_validator

from pwfl.scenario import common
from pwfl.scenario.fields import Section, parameter
from pwfl.scenario.size import COPIES, FLOAT32, LINK_BYTES, layer_bytes, network_bytes, training_operations
from pwfl.systems.utility_fair import link

MAX_ITERATIONS = 1e9  # of a device in a round
MAX_LEARNED = 700  # computing energies beta_2 in a round: exp of more overflows
UNIFORM_BITS = 53  # a fade is never stronger than the uniform numbers it is made of allow


class Network(Section):
    """Where the devices are: uniform in distance from the access point."""

    devices: int = parameter(10, "machine-type devices K", stages="channel", ge=1, le=10**6)
    min_distance_m: float = parameter(50.0, "least distance r of a device", unit="m", stages="channel", ge=1e-3, le=1e6)
    max_distance_m: float = parameter(
        200.0, "greatest distance r of a device", unit="m", stages="channel", ge=1e-3, le=1e6
    )


class Radio(Section):
    """The uplink, (8)-(9), a channel of its own for each device."""

    frequency_hz: float = parameter(32e6, "centre frequency f_c", unit="Hz", stages="channel", ge=1e3, le=1e13)
    path_loss_exponent: float = parameter(
        4.0, "exponent alpha of the distance in the path loss", stages="channel", ge=0, le=6
    )
    fading_scale: float = parameter(
        1.0, "scale of the Rayleigh fading amplitude |h|", stages="channel", ge=1e-3, le=1e3
    )
    bandwidth_hz: float = parameter(
        250e3, "bandwidth B of a device's channel", unit="Hz", stages="schedule train account report", ge=1, le=1e12
    )
    noise_density_dbm_hz: float = parameter(
        -174.0, "thermal noise power density N0", unit="dBm/Hz", stages="schedule", ge=-250, le=0
    )
    noise: Literal["as_printed", "thermal"] = parameter(
        "as_printed",
        "noise power: N0 of one hertz, under which the paper's claims come out, or N0 B",
        stages="schedule",
    )
    snr_gap_db: float = parameter(9.8, "gap Gamma of modulation and coding", unit="dB", stages="schedule", ge=0, le=60)
    update_bits: float = parameter(
        875e3, "size V of an update", unit="bit", stages="schedule train account", ge=1, le=1e15
    )


class Device(Section):
    """What a device can do and draws, (5), (10), (13)."""

    deadline_s: float = parameter(
        0.75, "time T of a round for computing and transmitting", unit="s", stages="schedule train", ge=1e-9, le=1e6
    )
    batch_size: int = parameter(
        128, "samples d of a round's batch", unit="samples", stages="schedule noise train audit", ge=1, le=10**6
    )
    sample_bits: float = parameter(6272.0, "size of a sample", unit="bit", stages="schedule train", ge=1, le=1e12)
    seconds_per_bit: float = parameter(
        7.5e-9, "time tau to process a bit in an iteration", unit="s", stages="schedule train", ge=1e-15, le=1e3
    )
    min_iterations: int = parameter(
        10, "least number j_min of local iterations", stages="schedule train", ge=1, le=10**9
    )
    max_power_dbm: float = parameter(
        30.0, "maximum transmit power P_max", unit="dBm", stages="schedule train", ge=-100, le=100
    )
    amplifier_efficiency: float = parameter(
        0.45, "efficiency rho of the power amplifier", stages="train", ge=1e-6, le=1
    )
    circuit_power_w: float = parameter(
        0.0825, "power P_cir of the radio's circuit while it transmits", unit="W", stages="train", ge=0, le=1e6
    )
    computing_power_w: float = parameter(0.096, "power P_cp while computing", unit="W", stages="train", ge=1e-9, le=1e6)


class Utility(Section):
    """What a device maximizes, (18), and how it predicts its deviation, (16)."""

    energy_scale_j: float = parameter(
        0.5,
        "varrho: the energy beyond which a round costs more than it is worth",
        unit="J",
        stages="train",
        ge=1e-9,
        le=1e9,
    )
    beta_2_j: float = parameter(
        0.5,
        "computing energy beta_2 in which the predicted deviation falls by 1/e",
        unit="J",
        stages="train",
        ge=1e-9,
        le=1e9,
    )
    deviation: Literal["mean_update", "model"] = parameter(
        "mean_update",
        "what a device's update is compared with, (15): the mean update, or, as printed, the model",
        stages="train",
    )


class Data(common.DataSource):
    """What the devices hold and learn."""

    dataset: Literal["digits", "mnist", "fashion_mnist"] = parameter(
        "mnist",
        "data set: MNIST, Fashion-MNIST, or scikit-learn's digits (ships with it, needs no download)",
        stages="train",
    )
    samples_per_device: int = parameter(
        6000, "training samples of each device, dealt at random", unit="samples", stages="channel", ge=1, le=10**6
    )


class Privacy(Section):
    """The noise of a device's copy of the model, (14), and of what it sends, and what is accounted for."""

    epsilon: float = parameter(
        0.95,
        "epsilon_g of a copy at deviation 0, and of a noisy upload, unless target_epsilon sets its noise",
        stages="noise account",
        ge=1e-6,
        lt=1,
    )
    target_epsilon: float | None = common.target_epsilon(stages="noise")
    delta: float = parameter(
        1e-5, "delta_g, of a copy and of the whole training", stages="noise account", ge=1e-100, lt=1
    )
    theta: float = parameter(
        0.6, "how much deviation adds noise: epsilon_g times 1 - theta E", stages="noise/fair", ge=0, le=0.999
    )
    sensitivity: float = parameter(
        0.01,
        "sensitivity S_f of the model, and without training.clip_norm of what devices send; observed, not enforced",
        stages="noise audit",
        ge=1e-9,
        le=1e9,
    )
    uploads: Literal["clean", "noisy"] = parameter(
        "clean",
        "what devices send: gradients and updates as they are, or, in the paper's words, with noise of their "
        "own, here that of epsilon_g and delta_g on each",
        stages="noise",
    )


class Training(Section):
    """Federated learning, (1)-(4)."""

    features: common.Features = common.features(stages="train")
    directions: int | None = common.directions(stages="train")
    hidden_layers: list[common.Width] = common.hidden_layers([128, 64], stages="train")
    rounds: int = parameter(50, "rounds", stages="channel noise account audit", ge=2, le=10**6)
    learning_rate: float = parameter(0.01, "step size eta of a local iteration", stages="train", ge=1e-9, le=1e38)
    correction: float = parameter(
        1.0, "weight xi of the average gradient in a local iteration, (3)", stages="train", ge=1e-9, le=1e6
    )
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

    scheduler: Literal["utility", "benchmark"] = parameter(
        ..., "a device's policy: maximum utility (Theorem 2), or full power and as many iterations as fit"
    )
    noise: Literal["fair", "independent", "shared"] = parameter(
        ...,
        "noise of the devices' copies: by their deviation (14); the same for all, in vectors of their own; "
        "one vector for all, as the paper words its benchmark",
    )


PAPER_SCHEMES = [
    Scheme(name="Proposed", scheduler="utility", noise="fair"),
    Scheme(name="Benchmark", scheduler="benchmark", noise="independent"),
    Scheme(name="Benchmark, shared noise", scheduler="benchmark", noise="shared"),
]


class UtilityFair(common.Scenario):
    """A scenario of the system `utility_fair`."""

    system: Literal["utility_fair"] = parameter("utility_fair", "the system simulated")
    network: Network = Network()
    radio: Radio = Radio()
    device: Device = Device()
    utility: Utility = Utility()
    data: Data = Data()
    privacy: Privacy = Privacy()
    training: Training = Training()
    schemes: list[Scheme] = parameter(
        PAPER_SCHEMES, "the schemes compared; a list replaces the default one", stages="report", min_length=1
    )

    @model_validator(mode="after")
    def _consistent(self):
        """Reject what no realization can satisfy, and what Theorem 2 does not cover."""
        network, device, data = self.network, self.device, self.data
        if network.min_distance_m > network.max_distance_m:
            raise ValueError(
                f"network.min_distance_m: {network.min_distance_m:g} exceeds network.max_distance_m: "
                f"{network.max_distance_m:g}; devices lie between the two"
            )
        if device.computing_power_w < device.circuit_power_w:
            raise ValueError(
                f"device.computing_power_w: {device.computing_power_w:g} is below device.circuit_power_w: "
                f"{device.circuit_power_w:g}; (27) may then have several roots, so computing must draw at least as much"
            )
        if device.batch_size > data.samples_per_device:
            raise ValueError(
                f"device.batch_size: {device.batch_size} exceeds data.samples_per_device: {data.samples_per_device}; "
                "a batch holds no sample twice"
            )
        held, available = network.devices * data.samples_per_device, data.available
        if held > available:
            raise ValueError(
                f"data.samples_per_device: {network.devices} devices would hold {held} samples, {data.dataset} has "
                f"{available}; lower data.samples_per_device or network.devices"
            )
        if self.training.clip_norm is not None and self.privacy.uploads == "clean":
            raise ValueError(
                f"training.clip_norm: {self.training.clip_norm:g} guarantees nothing while what devices send is clean; "
                "set privacy.uploads to noisy, or leave the key out"
            )
        self._check_deadline()
        return self

    def _check_deadline(self):
        """Reject a deadline or a power with which no device could ever take part."""
        radio, device = self.radio, self.device
        limits = link.limits(radio, device)
        least = link.least_z(limits)
        computing_s = limits.min_iterations * limits.iteration_s
        if least == float("inf"):
            raise ValueError(
                f"device.deadline_s: {limits.deadline_s:g} leaves no time to transmit after device.min_iterations: "
                f"{limits.min_iterations} iterations, which take {computing_s:.3g} s; raise the one or lower the other"
            )
        most_iterations = limits.deadline_s / limits.iteration_s
        if most_iterations > MAX_ITERATIONS:
            raise ValueError(
                f"device.deadline_s: {limits.deadline_s:g} leaves time for {most_iterations:.3g} iterations of "
                f"{limits.iteration_s:.3g} s, at most {MAX_ITERATIONS:g}; lower it, or raise device.batch_size, "
                "device.sample_bits or device.seconds_per_bit"
            )
        computing_j = limits.deadline_s * device.computing_power_w
        if computing_j > MAX_LEARNED * self.utility.beta_2_j:
            raise ValueError(
                f"utility.beta_2_j: {self.utility.beta_2_j:g} is nothing beside the {computing_j:.3g} J that computing "
                f"for the whole device.deadline_s takes: exp of their ratio is no number; raise it to "
                f"{computing_j / MAX_LEARNED:.3g} or more"
            )
        strongest_fade = 2 * radio.fading_scale**2 * UNIFORM_BITS * log(2)
        best_gain = strongest_fade * link.path_gain(self.network.min_distance_m, radio)
        if least > link.log_snr(limits.max_power_w, link.unit_power_w(best_gain, radio)):
            raise ValueError(
                f"device.max_power_dbm: {device.max_power_dbm:g} reaches the access point from no distance, even "
                f"in the strongest fade: after device.min_iterations: {limits.min_iterations} no time is left in "
                f"device.deadline_s: {limits.deadline_s:g}; raise the power or the deadline"
            )

    def table_bytes(self) -> tuple[float, float, str]:
        """See `pwfl.scenario.common.Scenario`."""
        return self.training.rounds * self.network.devices * LINK_BYTES, 0, "network.devices or training.rounds"

    def training_bytes(self) -> tuple[float, str]:
        """See `pwfl.scenario.common.Scenario`."""
        samples = self.network.devices * self.device.batch_size
        needed = network_bytes(self, self.training.hidden_layers, self.network.devices) + layer_bytes(self, samples)
        return (
            needed + samples * self.device.batch_size * FLOAT32 * COPIES,
            "network.devices or device.batch_size",
        )

    def training_operations(self) -> float:
        """See `pwfl.scenario.common.Scenario`."""
        samples = self.training.rounds * self.network.devices * self.device.batch_size * self.device.min_iterations
        return training_operations(self, self.training.hidden_layers, samples)


MODEL = UtilityFair
