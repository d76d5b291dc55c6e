"""Parameters of a scenario of the system `template`."""

from typing import Literal

from pwfl.scenario import common
from pwfl.scenario.fields import Section, parameter


class Network(Section):
    """Who takes part."""

    devices: common.Count = parameter(20, "devices", stages="channel")


class Radio(Section):
    """The channel of each round."""

    senders: common.Count = parameter(5, "devices that send in a round", stages="schedule/strongest")


class Data(common.DataSource):
    """What the devices hold and learn."""

    samples: common.Count = parameter(70, "records of each device", unit="samples", stages="channel")


class Privacy(Section):
    """The devices' noise, and the delta of the guarantee."""

    noise_std: float = parameter(
        0.2,
        "standard deviation of a device's noise in each coordinate of its mean gradient",
        stages="noise/gaussian",
        ge=1e-9,
        le=1e6,
    )
    delta: float = common.delta(stages="account")


class Training(Section):
    """Gradient descent: a step a round."""

    model: common.Model = common.model(stages="receive train audit")
    model_reads: list[str] = common.model_reads(stages="receive train audit")
    hidden_layers: list[common.Width] = common.hidden_layers([], stages="receive train audit")
    rounds: common.Count = parameter(60, "rounds", stages="channel train account audit")
    learning_rate: common.StepSize = parameter(2.0, "step size", stages="train audit")
    clip_norm: common.Scale = parameter(1.0, "clipping norm of a record's gradient", stages="train account audit")
    evaluate_every: int = common.evaluate_every(5)


class Scheme(common.Scheme):
    """Who sends, and with which noise."""

    scheduler: Literal["all", "strongest"] = parameter(..., "who sends in a round: all, or those of strongest channel")
    noise: Literal["gaussian", "none"] = parameter(..., "noise of each device")


MODEL = common.scenario(
    "template",
    sections=[Network, Radio, Data, Privacy, Training],
    schemes=[
        Scheme(name="All", scheduler="all", noise="gaussian"),
        Scheme(name="Strongest", scheduler="strongest", noise="gaussian"),
        Scheme(name="All, no privacy", scheduler="all", noise="none"),
    ],
)
