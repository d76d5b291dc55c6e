"""Parameters of the system `anonymous_oac`: anonymous over-the-air computation.

Hasircioglu and Gunduz, "Private Wireless Federated Learning with Anonymous Over-the-Air Computation". The paper trains
nothing; the parameters of training are chosen here.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from pwfl.scenario import common
from pwfl.scenario.fields import ListOf, OrFunction, Section, describe, parameter
from pwfl.systems.anonymous_oac.schemes import NOISES, SCHEDULERS

if TYPE_CHECKING:
    Scheduler = Noise = str
else:
    Scheduler, Noise = Literal[tuple(SCHEDULERS)], Literal[tuple(NOISES)]

Rate = Annotated[float, Field(ge=1e-9, le=1)]


class Network(Section):
    """Who takes part (Sec. III)."""

    devices: common.Count = parameter(
        100, "devices N, with equal numbers of records", stages="channel schedule audit report"
    )
    participation: Rate = parameter(
        0.1,
        "probability p that a device's channel is good enough in a round",
        stages="schedule noise account audit report",
    )


class Radio(Section):
    """The multiple-access channel."""

    noise_variance: float = parameter(
        5e-6,
        "variance N0 of the channel's noise for each coordinate of the update",
        stages="receive account",
        ge=0,
        le=1e6,
    )
    bandwidth_hz: float = common.resource_block_hz(stages="receive", observes=True)


class Data(common.DataSource):
    """What the devices hold and learn."""

    samples: common.Count = parameter(600, "records of each device", unit="samples", stages="channel audit")
    sampling: Rate = parameter(
        0.1,
        "probability q that a participant takes a record into its batch",
        stages="schedule noise receive account audit report",
    )


class Privacy(Section):
    """Differential-privacy noise and what is reported of it."""

    noise_multiplier: float = parameter(
        1.0,
        "noise multiplier of the anonymous scheme: standard deviation over sensitivity, sigma b / (2 L); the others "
        "get what makes them as private; with target_epsilon, that of Fig. 1 alone",
        stages="noise account report",
        ge=1e-2,
        le=1e4,
    )
    target_epsilon: float | None = common.target_epsilon(stages="noise")
    delta: float = common.delta(
        stages="noise account report",
        observes={"noise/anonymous": ("privacy.target_epsilon", None), "noise/none": None},
    )
    curve_rates: ListOf[Rate] = parameter(
        [1.0, 0.5, 0.1, 0.01],
        "sampling rates p q whose epsilon over the rounds is drawn (Fig. 1)",
        stages="account report",
        min_length=1,
        max_length=100,
    )
    estimate_scales: ListOf[Rate] = parameter(
        [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0],
        "factors k by which the server scales the devices' channel estimates, drawn against epsilon",
        stages="account",
        min_length=1,
        max_length=100,
    )


class Training(Section):
    """Stochastic gradient descent (2)."""

    device: common.Device = common.device(stages="audit")
    features: common.Features = common.features(stages="receive train audit")
    hidden_layers: ListOf[common.Width] = common.hidden_layers([64], stages="receive train audit")
    model: common.Model = common.model(stages="receive train audit")
    model_reads: ListOf[str] = common.model_reads(stages="receive train audit")
    rounds: common.Count = parameter(
        1000, "rounds T", stages="channel schedule noise receive train account audit report"
    )
    learning_rate: common.StepSize = parameter(0.5, "step size eta", stages="train audit")
    clip_norm: common.Scale = parameter(
        1.0, "clipping norm L of a record's gradient", stages="noise receive train account audit"
    )
    evaluate_every: int = common.evaluate_every(20)


class Scheme(common.Scheme):
    """A way to transmit, the noise that goes with it, and the name it has in figures and tables."""

    scheduler: OrFunction[Scheduler] = parameter(
        ...,
        "transmission",
        values=describe(SCHEDULERS, "participants by a user-defined function (docs/how-to/own_functions.md)"),
    )
    noise: OrFunction[Noise] = parameter(
        ...,
        "noise mechanism; a user-defined scheduler requires `identified_fixed`, `none` or a function",
        values=describe(
            NOISES, "a user-defined function (docs/how-to/own_functions.md), accounted with participation known"
        ),
    )


class AnonymousOac(common.Scenario):
    """A scenario of the system `anonymous_oac`."""

    lacks: ClassVar = {
        "privacy.observer": "each of its noise schemes is for one observer, who sees the sum or, `local`, each upload",
        "privacy.colluders": "its guarantee rests on hidden participation, and colluders know whether they took part",
        "privacy.dropouts": "who takes part is random already, by network.participation",
        "training.bits": "its receiver adds noise that is a real number, so no sum of integers modulo 2^b is received",
    }

    system: Literal["anonymous_oac"] = common.system("anonymous_oac")
    seed: int = common.seed(stages="channel schedule noise/own train audit")
    realizations: int = common.realizations(10)
    network: Network = Network()
    radio: Radio = Radio()
    data: Data = Data()
    privacy: Privacy = Privacy()
    training: Training = Training()
    own: common.Own = common.Own()
    schemes: ListOf[Scheme] = common.schemes(
        Scheme(name="Anonymous OAC", scheduler="over_the_air", noise="anonymous"),
        Scheme(name="OAC, participation known", scheduler="over_the_air", noise="identified"),
        Scheme(name="Orthogonal", scheduler="orthogonal", noise="local"),
    )
