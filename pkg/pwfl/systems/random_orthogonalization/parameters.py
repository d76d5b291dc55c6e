"""Parameters of the system `random_orthogonalization`: massive MIMO, no channel knowledge at the users.

Defaults are those of Fig. 2 of ul Zuhra et al., "Random Orthogonalization for Private Wireless Federated Learning",
with M = 256, and for training, of which the paper says little, settings that reach its accuracy. Signals and noise have
no units.
"""

from typing import TYPE_CHECKING, ClassVar, Literal

from pwfl.scenario import common
from pwfl.scenario.fields import ListOf, OrFunction, Section, describe, parameter
from pwfl.systems.random_orthogonalization.schemes import NOISES, SCHEDULERS

if TYPE_CHECKING:
    Scheduler = Noise = str
else:
    Scheduler, Noise = Literal[tuple(SCHEDULERS)], Literal[tuple(NOISES)]

UNAIMED = ("privacy.target_epsilon", None)  # with it, noise is configured


class Network(Section):
    """Users and the server's antennas."""

    users: common.Count = parameter(100, "users K, each with one antenna", stages="channel")
    antennas: common.Count = parameter(
        256, "antennas M of the server", stages="channel schedule/own noise receive account report"
    )


class Radio(Section):
    """The uplink (1)-(4)."""

    amplitude: common.Scale = parameter(
        3.0, "amplitude alpha of every user's signal; the paper sets its square to the power limit P", stages="schedule"
    )
    receiver_noise_variance: common.Variance = parameter(
        1.0, "variance sigma_m^2 of the complex noise of an antenna", stages="noise receive account"
    )
    bandwidth_hz: float = common.resource_block_hz(stages="receive", observes=True)
    normalization: Literal["I/M", "I"] = parameter(
        "I/M",
        "covariance of a user's channel",
        values={"I/M": "as in the paper's analysis", "I": "the server divides (4) by M once more"},
        stages="noise receive account report",
    )
    coherence_rounds: int | None = parameter(
        None,
        "rounds for which all channels stay before they are redrawn, a divisor of training.rounds; null: they stay for "
        "the whole training, as the paper estimates their sum before it",
        unit="rounds",
        stages="channel schedule/own noise/fixed receive report",
        unless={"noise/fixed": UNAIMED},
        ge=1,
        le=10**6,
    )


class Data(common.DataSource):
    """What the users hold and learn."""

    dataset: common.Dataset = common.dataset(stages="receive train account audit report")
    content: common.Content | None = common.content(stages="receive train account audit report")
    samples_per_user: common.Count = parameter(
        600, "training samples of a user, drawn without replacement", unit="samples", stages="channel"
    )


class Privacy(Section):
    """The users' noise, and how its privacy is measured."""

    noise_variance: common.Variance = parameter(
        0.1,
        "variance sigma^2, per coordinate, of the noise a user adds to its update, unless target_epsilon sets it",
        stages="noise/fixed",
    )
    target_epsilon: float | None = common.target_epsilon(stages="noise/fixed")
    delta: float = common.delta(
        stages="noise/fixed receive account report",
        unless={"noise/fixed": UNAIMED, "receive": ("privacy.dropouts", 0.0)},
    )
    user_numbers: ListOf[common.Count] = parameter(
        [10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
        "numbers of users for which leakages are found besides network.users (Fig. 2)",
        unit="users",
        stages="channel receive account",
        observes=True,
        max_length=100,
    )

    # Beyond the paper.
    observer: Literal["update", "antennas", "user"] = parameter(
        "update",
        "observer, by what it sees in each round (docs/explanation/random_orthogonalization.md)",
        values={
            "update": "the server's update",
            "antennas": "the signals of all antennas",
            "user": "every user's noisy update",
        },
        stages="noise/fixed account audit report",
        unless={"noise/fixed": UNAIMED},
    )
    colluders: float = parameter(
        0.0,
        "largest share of the users, rounded up, who take their noise off what the observer sees",
        stages="noise/fixed receive account audit",
        unless={"noise/fixed": UNAIMED},
        ge=0,
        lt=1,
    )
    dropouts: float = parameter(
        0.0,
        "probability that a user drops out of a round, independently of data, which leaves its update and its noise "
        "out of what is received",
        stages="noise/fixed receive account audit",
        ge=0,
        lt=1,
    )
    dropout_tolerance: float | None = parameter(
        None,
        "probability, a part of delta and below it, that some round of the training lacks more users than the "
        "guarantee is planned for; null: a tenth of delta",
        stages="noise/fixed receive account",
        unless=dict.fromkeys(("noise/fixed", "receive", "account"), ("privacy.dropouts", 0.0)),
        ge=1e-100,
        lt=1,
    )


class Training(Section):
    """Federated learning of softmax regression, from zero."""

    device: common.Device = common.device(stages="audit")
    model: common.Model = common.model(stages="receive train account audit")
    model_reads: ListOf[str] = common.model_reads(stages="receive train account audit")
    features: common.Features = common.features(stages="receive train account audit")
    rounds: common.Count = parameter(14, "rounds T", stages="channel receive train account audit report")
    local_steps: common.Count = parameter(100, "mini-batch steps of a user in a round", stages="train account audit")
    batch_size: common.Count = parameter(50, "samples in a mini-batch", unit="samples", stages="train audit")
    learning_rate: common.StepSize = parameter(0.1, "step size eta of the local steps", stages="train audit")
    clip_norm: common.Scale = parameter(
        1.0, "bound C on the norm of a user's update", stages="noise/fixed train account audit"
    )


class Scheme(common.Scheme):
    """A pair of scheduler and noise scheme, and the name it has in figures and tables."""

    scheduler: OrFunction[Scheduler] = parameter(
        ...,
        "scheduler",
        values=describe(SCHEDULERS, "users and amplitudes by a user-defined function (docs/how-to/own_functions.md)"),
    )
    noise: OrFunction[Noise] = parameter(
        ...,
        "noise mechanism",
        values=describe(NOISES, "a user-defined function (docs/how-to/own_functions.md)"),
    )


class RandomOrthogonalization(common.Scenario):
    """A scenario of the system `random_orthogonalization`."""

    lacks: ClassVar = {
        "training.bits": "its receiver adds noise that is a real number, so no sum of integers modulo 2^b is received",
    }

    system: Literal["random_orthogonalization"] = common.system("random_orthogonalization")
    seed: int = common.seed(stages="channel schedule/own noise/fixed noise/own receive train audit")
    network: Network = Network()
    radio: Radio = Radio()
    data: Data = Data()
    privacy: Privacy = Privacy()
    training: Training = Training()
    own: common.Own = common.Own()
    schemes: ListOf[Scheme] = common.schemes(
        Scheme(name="Private", scheduler="all", noise="fixed"),
        Scheme(name="No privacy noise", scheduler="all", noise="none"),
    )
