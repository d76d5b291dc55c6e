"""Parameters of the system `age_aware`: scheduling the collection of data that age.

Defaults follow Sec. IV-A of Lin et al., "Age Aware Scheduling for Differentially-Private Federated Learning". The text
lost the chains and start distributions of its three clients. Those here are chosen so that Fig. 2 shows both of its
cases: a client that should collect fresh data, and clients that should not.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from pwfl.scenario import common
from pwfl.scenario.fields import ListOf, OrFunction, Section, describe, parameter
from pwfl.systems.age_aware.schemes import NOISES, SCHEDULERS

if TYPE_CHECKING:
    Scheduler = Noise = str
else:
    Scheduler, Noise = Literal[tuple(SCHEDULERS)], Literal[tuple(NOISES)]

Probability = Annotated[float, Field(ge=0, le=1)]
State = Annotated[float, Field(ge=-1e9, le=1e9)]  # Wh
Time = Annotated[int, Field(ge=0, le=1000)]


class Chain(Section):
    """How one kind of client's data change."""

    name: str = parameter(..., "name of the chain in tables and figures", observes=True, **common.NAME)
    up: Probability | None = parameter(None, "probability p of going to the next higher state")
    down: Probability | None = parameter(None, "probability q of going to the next lower state")
    matrix: ListOf[ListOf[Probability]] | None = parameter(None, "rows of a transition matrix, instead of up and down")
    start: ListOf[Probability] | None = parameter(None, "law of the first state; null: the stationary law")
    samples: int = parameter(100, "samples n_k that a client takes", ge=1, le=10**9)


PAPER_CHAINS = [
    Chain(name="slow", up=0.05, down=0.05, start=[0.7, 0.2, 0.1, 0.0]),
    Chain(name="medium", up=0.3, down=0.3, start=[0.7, 0.2, 0.1, 0.0]),
    Chain(name="fast", up=0.4, down=0.3, start=[0.4, 0.3, 0.2, 0.1]),
]


class Clients(Section):
    """The clients and their data (Sec. IV-A)."""

    number: int = parameter(3, "clients N; client k has chain k modulo their number", stages="channel", ge=1, le=10**9)
    states_wh: ListOf[State] = parameter(
        [20.0, 50.0, 100.0, 200.0],
        "values that the data take",
        unit="Wh",
        stages="channel",
        min_length=2,
        max_length=100,
    )
    chains: ListOf[Chain] = parameter(
        PAPER_CHAINS,
        "clients' Markov chains, each with name, up and down (or matrix, a list of rows), start (null: stationary), "
        "samples n_k; a list replaces the default one",
        stages="channel",
        min_length=1,
        max_length=10**4,
    )


class Schedule(Section):
    """When clients may collect their data."""

    horizon: int = parameter(
        20, "deployment time T; clients collect at t = 0 to T", stages="channel train account audit", ge=1, le=1000
    )
    bound: Literal["paired", "separate"] = parameter(
        "paired",
        "bound that the schedulers `bound_*` and `noise_first` minimize",
        values={
            "paired": "Theorem 1 for the difference of the losses",
            "separate": "the looser bound of the paper's appendix, term by term",
        },
        stages="schedule/bound_constant schedule/bound_adaptive schedule/noise_first report",
    )
    times: ListOf[Time] = parameter(
        [], "collection time of each client, for the scheduler `fixed`", stages="schedule/fixed"
    )


class Privacy(Section):
    """What is asked of the mechanisms."""

    target_epsilons: list[Annotated[float, Field(ge=1e-6, le=100)]] = parameter(
        [0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5],
        "age-dependent epsilons that must be met at T, one case each",
        stages=" ".join(f"schedule/{name}" for name, kind in SCHEDULERS.items() if not kind.sweeps),
        min_length=1,
        max_length=100,
    )
    total_variation: Literal["exact", "spectral_gap"] = parameter(
        "exact",
        "Delta(T - t) in (4), from which the required epsilons follow",
        values={
            "exact": "the exact Delta",
            "spectral_gap": "the proved upper bound by the chain's spectral gap, which requires more noise",
        },
        stages=" ".join(f"schedule/{name}" for name in SCHEDULERS) + " report",
    )


class Training(Section):
    """The simulation of data and noise."""

    draws: common.Count = parameter(100, "draws of all data and noise that a realization averages over", stages="train")


class Scheme(common.Scheme):
    """A pair of scheduler and noise rule, and the name it has in figures and tables."""

    scheduler: OrFunction[Scheduler] = parameter(
        ...,
        "collection times",
        values=describe(SCHEDULERS, "times by a user-defined function (docs/how-to/own_functions.md)"),
    )
    noise: OrFunction[Noise] = parameter(
        ...,
        "noise rule",
        values=describe(NOISES, "Laplace scales by a user-defined function (docs/how-to/own_functions.md)"),
    )


class AgeAware(common.Scenario):
    """A scenario of the system `age_aware`."""

    lacks: ClassVar = dict.fromkeys(
        ("privacy.observer", "privacy.colluders", "privacy.dropouts", "training.bits"),
        "its clients send means one by one; there are neither rounds nor sums",
    )

    system: Literal["age_aware"] = common.system("age_aware")
    seed: int = common.seed(stages="schedule/random schedule/own noise/own train audit")
    clients: Clients = Clients()
    schedule: Schedule = Schedule()
    privacy: Privacy = Privacy()
    training: Training = Training()
    own: common.Own = common.Own()
    schemes: ListOf[Scheme] = common.schemes(
        Scheme(name="random, constant noise", scheduler="random", noise="constant"),
        Scheme(name="random, adaptive noise", scheduler="random", noise="adaptive"),
        Scheme(name="proposed, constant noise", scheduler="bound_constant", noise="constant"),
        Scheme(name="proposed, adaptive noise", scheduler="bound_adaptive", noise="adaptive"),
        Scheme(name="proposed, noise fixed first", scheduler="noise_first", noise="constant"),
        Scheme(name="classic DP, fresh data", scheduler="fresh", noise="constant"),
        Scheme(name="simulated optimum, constant noise", scheduler="simulated_constant", noise="constant"),
        Scheme(name="simulated optimum, adaptive noise", scheduler="simulated_adaptive", noise="adaptive"),
        Scheme(name="sweep", scheduler="sweep", noise="adaptive"),
    )
