"""Joint conditions on parameters of the system `age_aware`, and the memory that its jobs use."""

from math import log10, prod

import numpy as np

from pwfl.scenario.size import COPIES, FLOAT, LINK_BYTES
from pwfl.systems.age_aware import markov
from pwfl.systems.age_aware.parameters import AgeAware, Chain
from pwfl.systems.age_aware.schemes import SCHEDULERS, SWEPT_CLIENTS

AGE_BYTES = 540  # bytes per client and collection time, in all tables of a realization; see `LINK_BYTES`
MAX_SCHEDULES = 10**7  # largest number that the schedulers simulated_* enumerate
# Noise rules of the schedulers that search; noise that is fixed before times are chosen is constant.
NEEDED = {name: kind.rule or "constant" for name, kind in SCHEDULERS.items() if kind.minimizes}


def consistent(scenario: AgeAware) -> None:
    """Raise ValueError for repeated values, invalid Markov chains, and times and schemes that do not fit."""
    clients, targets = scenario.clients, scenario.privacy.target_epsilons
    for key, values in (("clients.states_wh", clients.states_wh), ("privacy.target_epsilons", targets)):
        if len(set(values)) < len(values):
            raise ValueError(f"{key}: {values} contains a value twice; values must be unique")
    names = [chain.name for chain in clients.chains]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"clients.chains: the name {twice!r} appears twice; it must be unique")
    for chain in clients.chains:
        if flaw := _chain_flaw(chain, len(clients.states_wh)):
            raise ValueError(f"clients.chains: chain {chain.name!r}: {flaw}")
    _check_schemes(scenario)


def _chain_flaw(chain: Chain, states: int) -> str | None:
    up, down = chain.up, chain.down
    if (chain.matrix is None) == (up is None or down is None):
        return "needs either matrix, or both up and down"
    if chain.matrix is None and up is not None and down is not None:
        if states > 2 and up + down > 1:
            return (
                f"up + down = {up + down:g} would let a middle state stay with probability "
                f"{1 - up - down:g}, below 0; must be at most 1"
            )
    elif chain.up is not None or chain.down is not None:
        return "has a matrix, so up and down must be left out"
    elif [len(row) for row in chain.matrix or ()] != [states] * states:
        return f"matrix must have {states} rows of {states} entries, one per entry of clients.states_wh"
    if flaw := markov.matrix_flaw(markov.chain_of(chain, states)[0]):
        return flaw
    if chain.start is not None and len(chain.start) != states:
        return (
            f"start has {len(chain.start)} entries, but clients.states_wh has {states}; they must have the same number"
        )
    flaw = None if chain.start is None else markov.law_flaw(np.array(chain.start))
    return flaw and f"start is not a probability distribution: it {flaw}"


def _check_schemes(scenario: AgeAware) -> None:
    times, number, horizon = scenario.schedule.times, scenario.clients.number, scenario.schedule.horizon
    for client, time in enumerate(times):
        if time > horizon:
            raise ValueError(
                f"schedule.times: client {client} would collect at {time}, outside 0 to {horizon} (schedule.horizon)"
            )
    schedulers = {scheme.scheduler for scheme in scenario.schemes}
    if len(times) != number and (times or "fixed" in schedulers):
        raise ValueError(f"schedule.times: has {len(times)} times for {number} clients; give one time per client")
    for scheme in scenario.schemes:
        needed = NEEDED.get(scheme.scheduler, scheme.noise)  # others accept any noise, also user-defined
        if scheme.noise != needed:
            raise ValueError(
                f"schemes: {scheme.name!r}: the scheduler {scheme.scheduler} optimizes collection times for "
                f"{needed} noise; it cannot be combined with {scheme.noise} noise"
            )
    enumerated = schedulers & {"simulated_constant", "simulated_adaptive"}
    if enumerated and number * log10(horizon + 1) > log10(MAX_SCHEDULES):
        raise ValueError(
            f"schemes: the schedulers simulated_* would enumerate all {horizon + 1}^{number} schedules; at most "
            f"{MAX_SCHEDULES:g} are allowed; leave them out, or lower clients.number or schedule.horizon"
        )


def realization_bytes(scenario: AgeAware) -> float:
    """See `pwfl.scenario.checks`."""
    return scenario.clients.number * (scenario.schedule.horizon + 1) * AGE_BYTES


def table_bytes(scenario: AgeAware) -> tuple[float, float, str]:
    """See `pwfl.scenario.checks`."""
    times, number = scenario.schedule.horizon + 1, scenario.clients.number
    kernels = len(scenario.clients.chains) * times * len(scenario.clients.states_wh) ** 2 * FLOAT * COPIES
    cases = max(len(scenario.privacy.target_epsilons), min(SWEPT_CLIENTS, number) * times)
    rows = realization_bytes(scenario) + number * cases * LINK_BYTES
    return rows, kernels, "clients.number or schedule.horizon"


def training_bytes(scenario: AgeAware) -> tuple[float, str]:
    """See `pwfl.scenario.checks`."""
    states, times = len(scenario.clients.states_wh), scenario.schedule.horizon + 1
    shape = (scenario.training.draws, scenario.clients.number, times + states)
    return prod(shape) * FLOAT * COPIES, "clients.number, schedule.horizon or training.draws"


def audit_seconds(scenario: AgeAware) -> float:
    """See `pwfl.scenario.checks`: chains of a canary are drawn step by step, at the measured speed."""
    return scenario.audit.canaries * (26e-6 + 2.9e-6 * scenario.schedule.horizon)
