"""Parameters of scenarios of `privacy_for_free`; defaults are those of the paper's Fig. 3, except L and mu."""

from typing import Annotated, Literal

from pydantic import Field

from pwfl.scenario import common
from pwfl.scenario.fields import ListOf, Section, parameter

ADAPTIVE = "schedule/superposed_adaptive schedule/orthogonal_adaptive"
LIMITED = f"{ADAPTIVE} schedule/superposed_static schedule/orthogonal_static"
Curvature = Annotated[float, Field(ge=1e-3, le=1e3)]


class Network(Section):
    """The devices."""

    devices: int = parameter(10, "devices K, which all send in every round", stages="channel report", ge=1, le=1000)


class Radio(Section):
    """The multiple-access channel with Rician block fading; the receiver's noise has variance 1 per symbol."""

    blocks: int = parameter(
        30,
        "communication blocks T: as many rounds if devices send at once, T / K rounds if each has blocks of its own",
        stages="channel",
        ge=1,
        le=2000,
    )
    snr_db: float = parameter(
        30.0,
        "power limit of a device in a block, over its symbols and the variance of the receiver's noise",
        unit="dB",
        stages="schedule",
        usual=(-10, 50),
        ge=-100,
        le=100,
    )
    rician_factor: float = parameter(
        10.0, "power of the line of sight over that of scattered paths", stages="channel", ge=0, le=1e6
    )
    coherence_blocks: int = parameter(
        30, "blocks in which a channel stays the same; then it is drawn again", stages="channel", ge=1, le=2000
    )


class Task(Section):
    """Ridge regression on simulated records: u standard normal, v = u_2 + 3 u_5 + noise."""

    samples: int = parameter(1000, "records of each device", unit="records", stages="channel", ge=2, le=100_000)
    dimension: int = parameter(
        10, "coordinates d of u and of the model", stages="schedule receive train audit", ge=5, le=1000
    )
    label_noise_std: float = parameter(
        0.2, "standard deviation of the noise in v", stages="train audit", ge=1e-3, le=1e3
    )
    weight_decay: float = parameter(5e-5, "lambda of the regularizer lambda ||w||^2", stages="train audit", ge=0, le=10)


class Privacy(Section):
    """The privacy budget of the schedulers `adaptive` and `static`."""

    epsilon: float = parameter(
        20.0,
        "record-level epsilon at delta that all rounds together may cost by the paper's conversion",
        stages=LIMITED,
        ge=1e-2,
        le=1e6,
    )
    delta: float = parameter(
        1e-2, "delta of the (epsilon, delta) statement", stages=f"{LIMITED} account", ge=1e-100, lt=1
    )


class Training(Section):
    """Gradient descent with step size 1 / L on all records of all devices; all values are public constants."""

    clip_norm: common.Scale = parameter(
        224.0, "clipping norm gamma of a record's gradient", stages=f"{LIMITED} train account audit"
    )
    mean_norm: common.Scale = parameter(
        7.8, "norm G to which a device's mean gradient is scaled down", stages="schedule train account audit"
    )
    smoothness: Curvature = parameter(
        1.1, "L, no less than the largest eigenvalue of the Hessian", stages=f"{ADAPTIVE} train audit"
    )
    strong_convexity: Curvature = parameter(
        0.9, "mu, no more than the least eigenvalue of the Hessian", stages=f"{ADAPTIVE} train audit"
    )
    radius: common.Scale = parameter(
        3.2,
        "W, a norm that the optimum does not exceed; the server takes no step in a round in which noise alone is "
        "expected to move the model further",
        stages="train audit",
    )
    evaluate_every: int = common.evaluate_every(1)


class Scheme(common.Scheme):
    """A kind of access, and a rule for powers."""

    scheduler: Literal[
        "superposed_adaptive",
        "superposed_static",
        "superposed_full",
        "orthogonal_adaptive",
        "orthogonal_static",
        "orthogonal_full",
    ] = parameter(
        ...,
        "superposed: all devices in one block, gradients add up on air; orthogonal: a block per device. Powers: "
        "adaptive, the privacy budget is spent where it lowers the paper's bound most; static, in equal shares; full, "
        "no privacy budget",
    )
    noise: Literal["receiver"] = parameter(..., "only the receiver's; devices add none")


class PrivacyForFree(common.Scenario):
    """A scenario of the system `privacy_for_free`."""

    system: Literal["privacy_for_free"] = common.system("privacy_for_free")
    network: Network = Network()
    radio: Radio = Radio()
    task: Task = Task()
    privacy: Privacy = Privacy()
    training: Training = Training()
    schemes: ListOf[Scheme] = common.schemes(
        Scheme(name="Superposed, adaptive", scheduler="superposed_adaptive", noise="receiver"),
        Scheme(name="Superposed, static", scheduler="superposed_static", noise="receiver"),
        Scheme(name="Superposed, no budget", scheduler="superposed_full", noise="receiver"),
        Scheme(name="Orthogonal, adaptive", scheduler="orthogonal_adaptive", noise="receiver"),
        Scheme(name="Orthogonal, static", scheduler="orthogonal_static", noise="receiver"),
        Scheme(name="Orthogonal, no budget", scheduler="orthogonal_full", noise="receiver"),
    )
