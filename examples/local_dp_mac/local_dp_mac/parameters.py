"""Parameters of a scenario of the system `local_dp_mac`."""

from typing import Literal

from pwfl.scenario import common
from pwfl.scenario.fields import ListOf, Section, parameter


class Network(Section):
    """Who takes part."""

    devices: int = parameter(20, "devices K, all of which send in every round", stages="channel report", ge=1, le=10000)


class Radio(Section):
    """The Gaussian multiple-access channel, with Rayleigh fading that is drawn anew in each round."""

    max_power: common.Positive = parameter(1.0, "largest squared factor P of a device's gradient", stages="schedule")
    noise_variance: common.Variance = parameter(1e-4, "variance N0 of the receiver's noise", stages="noise")


class Data(common.DataSource):
    """What the devices hold and learn."""

    samples: common.Count = parameter(70, "records of each device", unit="samples", stages="channel")


class Privacy(Section):
    """The devices' noise, and the delta of the guarantee."""

    noise_std: common.Positive = parameter(
        0.05, "noise standard deviation sigma per coordinate of a device's mean gradient", stages="noise/gaussian"
    )
    delta: float = common.delta(stages="account")


class Training(Section):
    """Gradient descent on all records of all devices."""

    model: common.Model = common.model(stages="receive train audit")
    model_reads: ListOf[str] = common.model_reads(stages="receive train audit")
    hidden_layers: ListOf[common.Width] = common.hidden_layers([], stages="receive train audit")
    rounds: common.Count = parameter(60, "rounds T", stages="channel train account audit")
    learning_rate: common.StepSize = parameter(2.0, "step size", stages="train audit")
    clip_norm: common.Scale = parameter(1.0, "clipping norm L of a record's gradient", stages="train account audit")
    evaluate_every: int = common.evaluate_every(5)


class Scheme(common.Scheme):
    """A way to transmit and the noise that goes with it."""

    scheduler: Literal["over_the_air", "orthogonal"] = parameter(..., "all devices at once, or one after the other")
    noise: Literal["gaussian", "none"] = parameter(..., "noise of each device: Gaussian, or only the receiver's")


class LocalDpMac(common.Scenario):
    """A scenario of the system `local_dp_mac`."""

    system: Literal["local_dp_mac"] = common.system("local_dp_mac")
    network: Network = Network()
    radio: Radio = Radio()
    data: Data = Data()
    privacy: Privacy = Privacy()
    training: Training = Training()
    schemes: ListOf[Scheme] = common.schemes(
        Scheme(name="Over the air", scheduler="over_the_air", noise="gaussian"),
        Scheme(name="Orthogonal", scheduler="orthogonal", noise="gaussian"),
        Scheme(name="Over the air, receiver noise only", scheduler="over_the_air", noise="none"),
    )
