"""Parameters of the system `age_aware`: when clients whose data age should collect them.

Defaults follow Sec. IV-A of Lin et al., "Age Aware Scheduling for Differentially-Private Federated Learning".
The chains and start laws of its three clients are lost; those here are chosen so that Fig. 2 shows both of its
cases, a client that had better collect fresh data and clients that had better not.
"""

from math import log10, prod
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from pwfl.scenario import common
from pwfl.scenario.fields import Section, parameter
from pwfl.scenario.size import COPIES, FLOAT, LINK_BYTES
from pwfl.systems.age_aware import age, markov

AGE_BYTES = 540  # a row of `users` over its times and what the stages make of it; see `LINK_BYTES`
MAX_SCHEDULES = 10**7  # that the schedulers simulated_* enumerate

Probability = Annotated[float, Field(ge=0, le=1)]
State = Annotated[float, Field(ge=-1e9, le=1e9)]  # Wh
Time = Annotated[int, Field(ge=0, le=1000)]


class Chain(Section):
    """How one kind of client's data change."""

    name: str = parameter(..., "name of the chain in tables and figures", **common.NAME)
    up: Probability | None = parameter(None, "probability p of going to the next higher state")
    down: Probability | None = parameter(None, "probability q of going to the next lower state")
    matrix: list[list[Probability]] | None = parameter(None, "rows of a transition matrix, instead of up and down")
    start: list[Probability] | None = parameter(None, "law of the first state; null: the stationary law")
    samples: int = parameter(100, "samples n_k that a client takes", ge=1, le=10**9)


PAPER_CHAINS = [
    Chain(name="slow", up=0.05, down=0.05, start=[0.7, 0.2, 0.1, 0.0]),
    Chain(name="medium", up=0.3, down=0.3, start=[0.7, 0.2, 0.1, 0.0]),
    Chain(name="fast", up=0.4, down=0.3, start=[0.4, 0.3, 0.2, 0.1]),
]


class Clients(Section):
    """The clients and their data (Sec. IV-A)."""

    number: int = parameter(3, "clients N; client k has chain k modulo their number", stages="channel", ge=1, le=10**9)
    states_wh: list[State] = parameter(
        [20.0, 50.0, 100.0, 200.0],
        "values that the data take",
        unit="Wh",
        stages="channel",
        min_length=2,
        max_length=100,
    )
    chains: list[Chain] = parameter(
        PAPER_CHAINS,
        "the chains, each with name, up and down (or matrix, a list of rows), start (null: stationary), "
        "samples n_k; a list replaces the default one",
        stages="channel",
        min_length=1,
        max_length=10**4,
    )


class Schedule(Section):
    """When clients may collect their data."""

    horizon: int = parameter(
        20, "deployment time T; clients collect at t = 0..T", stages="channel train account audit", ge=1, le=1000
    )
    bound: Literal["paired", "separate"] = parameter(
        "paired",
        "what the schedulers bound_* minimize: Theorem 1 for the difference of the losses, or the looser one "
        "of the paper's appendix, term by term",
        stages="schedule/bound_constant schedule/bound_adaptive",
    )
    times: list[Time] = parameter(
        [], "collection time of each client, for the scheduler `fixed`", stages="schedule/fixed"
    )
    sweep_epsilon: float = parameter(
        0.3, "privacy target of the scheduler `sweep` (Fig. 2)", stages="schedule/sweep", ge=1e-6, le=100
    )
    sweep_clients: int = parameter(
        3,
        "how many clients, from the first on, are swept, one after the other",
        stages="schedule/sweep",
        ge=1,
        le=10**6,
    )


TARGETED = " ".join(
    f"schedule/{scheduler}"
    for scheduler in ("random", "bound_constant", "bound_adaptive", "simulated_constant", "simulated_adaptive")
)


class Privacy(Section):
    """What is asked of the mechanisms."""

    target_epsilons: list[Annotated[float, Field(ge=1e-6, le=100)]] = parameter(
        [0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5],
        "age-dependent epsilons that must be met at T, one case each",
        stages=f"{TARGETED} schedule/fixed",
        min_length=1,
        max_length=100,
    )
    min_classical_epsilon: float = parameter(
        0.0,
        "least epsilon_C that a client's mechanism may have, so a limit on its noise; times that need less are "
        "not chosen",
        stages=TARGETED,
        ge=0,
        le=1e3,
    )


class Training(Section):
    """The simulation of data and noise."""

    draws: int = parameter(
        100, "draws of all data and noise that a realization averages over", stages="train", ge=1, le=10**6
    )


PAIRS = {
    "random": ("constant", "adaptive"),
    "fixed": ("constant", "adaptive"),
    "sweep": ("constant", "adaptive"),
    "bound_constant": ("constant",),
    "bound_adaptive": ("adaptive",),
    "simulated_constant": ("constant",),
    "simulated_adaptive": ("adaptive",),
}


class Scheme(common.Scheme):
    """A pair of scheduler and noise rule, and the name it has in figures and tables."""

    scheduler: Literal[
        "random", "fixed", "sweep", "bound_constant", "bound_adaptive", "simulated_constant", "simulated_adaptive"
    ] = parameter(
        ...,
        "random or fixed times, Fig. 2's sweep, or the minimum of the bound or of the expected loss difference "
        "under a noise rule",
    )
    noise: Literal["constant", "adaptive"] = parameter(
        ..., "one epsilon_C for all clients, or for each the one that its age asks for (4)"
    )


PAPER_SCHEMES = [
    Scheme(name="random, constant noise", scheduler="random", noise="constant"),
    Scheme(name="random, adaptive noise", scheduler="random", noise="adaptive"),
    Scheme(name="proposed, constant noise", scheduler="bound_constant", noise="constant"),
    Scheme(name="proposed, adaptive noise", scheduler="bound_adaptive", noise="adaptive"),
    Scheme(name="simulated optimum, constant noise", scheduler="simulated_constant", noise="constant"),
    Scheme(name="simulated optimum, adaptive noise", scheduler="simulated_adaptive", noise="adaptive"),
    Scheme(name="sweep", scheduler="sweep", noise="adaptive"),
]


class AgeAware(common.Scenario):
    """A scenario of the system `age_aware`."""

    system: Literal["age_aware"] = parameter("age_aware", "the system simulated")
    seed: int = parameter(1, "seed of every random draw", stages="schedule/random train audit", ge=0, lt=2**63)
    clients: Clients = Clients()
    schedule: Schedule = Schedule()
    privacy: Privacy = Privacy()
    training: Training = Training()
    schemes: list[Scheme] = parameter(
        PAPER_SCHEMES, "the schemes compared; a list replaces the default one", stages="report", min_length=1
    )

    @model_validator(mode="after")
    def _consistent(self):
        """Reject what is no scenario, naming the chain, the times or the scheme."""
        self._check_states()
        for chain in self.clients.chains:
            self._check_chain(chain)
        self._check_targets()
        self._check_schemes()
        return self

    def _check_states(self):
        states, names = self.clients.states_wh, [chain.name for chain in self.clients.chains]
        if len(set(states)) < len(states):
            raise ValueError(f"clients.states_wh: {states} holds a value twice; states must differ")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"clients.chains: the name {twice!r} stands twice; it must be unique")

    def _check_chain(self, chain: Chain):
        def refuse(flaw: str):
            raise ValueError(f"clients.chains: chain {chain.name!r}: {flaw}")

        states = len(self.clients.states_wh)
        if (chain.matrix is None) == (chain.up is None or chain.down is None):
            refuse("needs either both up and down, or matrix")
        if chain.matrix is not None and (chain.up is not None or chain.down is not None):
            refuse("has a matrix, so it takes neither up nor down")
        if chain.matrix is not None and [len(row) for row in chain.matrix] != [states] * states:
            refuse(f"matrix must have {states} rows of {states} entries, one for each of clients.states_wh")
        if chain.matrix is None and states > 2 and chain.up + chain.down > 1:
            refuse(
                f"up + down = {chain.up + chain.down:g} leaves a middle state the probability "
                f"{1 - chain.up - chain.down:g} of staying, below 0; up + down must not exceed 1"
            )
        if flaw := markov.matrix_flaw(markov.transition_of(chain, states)):
            refuse(flaw)
        if chain.start is not None:
            if len(chain.start) != states:
                refuse(f"start has {len(chain.start)} entries, clients.states_wh has {states}; they must be as many")
            if flaw := markov.law_flaw(np.array(chain.start)):
                refuse(f"start is no probability distribution: it {flaw}")

    def _check_targets(self):
        targets, limit = self.privacy.target_epsilons, self.privacy.min_classical_epsilon
        if len(set(targets)) < len(targets):
            raise ValueError(f"privacy.target_epsilons: {targets} holds a value twice; targets must differ")
        for chain in self.clients.chains[: self.clients.number]:
            transition, start = markov.chain_of(chain, len(self.clients.states_wh))
            kernels = markov.reverse_kernels(transition, start, self.schedule.horizon)
            most = age.required_epsilon(min(targets), markov.total_variation(kernels).min())
            if most < limit:
                raise ValueError(
                    f"privacy.target_epsilons: {min(targets):g} is met by no schedule: even for its oldest data, "
                    f"chain {chain.name!r} may use an epsilon_C of at most {most:.4g}, below privacy."
                    f"min_classical_epsilon: {limit:g}; raise the target or schedule.horizon, or lower the limit"
                )

    def _check_schemes(self):
        times, number, horizon = self.schedule.times, self.clients.number, self.schedule.horizon
        for client, time in enumerate(times):
            if not 0 <= time <= horizon:
                raise ValueError(
                    f"schedule.times: client {client} would collect at {time}, outside 0..{horizon} (schedule.horizon)"
                )
        schedulers = {scheme.scheduler for scheme in self.schemes}
        if len(times) != number and (times or "fixed" in schedulers):
            raise ValueError(f"schedule.times: has {len(times)} times for {number} clients; give one for each client")
        for scheme in self.schemes:
            if scheme.noise not in PAIRS[scheme.scheduler]:
                raise ValueError(
                    f"schemes: {scheme.name!r}: the scheduler {scheme.scheduler} finds the best times for "
                    f"{' '.join(PAIRS[scheme.scheduler])} noise, not for {scheme.noise} noise"
                )
        if number * log10(horizon + 1) > log10(MAX_SCHEDULES) and schedulers & {
            "simulated_constant",
            "simulated_adaptive",
        }:
            raise ValueError(
                f"schemes: the schedulers simulated_* enumerate all {horizon + 1}^{number} schedules, at most "
                f"{MAX_SCHEDULES:g}; leave them out, or lower clients.number or schedule.horizon"
            )

    def table_bytes(self) -> tuple[float, float, str]:
        """See `pwfl.scenario.common.Scenario`."""
        times, number = self.schedule.horizon + 1, self.clients.number
        kernels = len(self.clients.chains) * times * len(self.clients.states_wh) ** 2 * FLOAT * COPIES
        cases = max(len(self.privacy.target_epsilons), min(self.schedule.sweep_clients, number) * times)
        return number * (times * AGE_BYTES + cases * LINK_BYTES), kernels, "clients.number or schedule.horizon"

    def training_bytes(self) -> tuple[float, str]:
        """See `pwfl.scenario.common.Scenario`."""
        shape = (self.training.draws, self.clients.number, self.schedule.horizon + 1 + len(self.clients.states_wh))
        return prod(shape) * FLOAT * COPIES, "clients.number, schedule.horizon or training.draws"


MODEL = AgeAware
