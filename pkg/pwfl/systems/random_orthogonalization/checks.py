"""Joint checks of the parameters of the system `random_orthogonalization`, and estimates of its jobs' memory."""

from pwfl.scenario.checks import check_holdings
from pwfl.scenario.size import COMPLEX, COPIES, FLOAT32, LINK_BYTES, network_bytes
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.training import models


def consistent(scenario: RandomOrthogonalization) -> None:
    """Reject parameters that no realization can satisfy."""
    models.check(scenario)
    samples = scenario.data.samples_per_user
    check_holdings(scenario.data, "data.samples_per_user", samples, "network.users", scenario.network.users)
    if scenario.training.batch_size > samples:
        raise ValueError(
            f"training.batch_size: {scenario.training.batch_size} exceeds data.samples_per_user: {samples}; a "
            "mini-batch contains a sample at most once"
        )
    numbers = scenario.privacy.user_numbers
    if twice := next((number for number in numbers if numbers.count(number) > 1), None):
        raise ValueError(f"privacy.user_numbers: {twice} appears twice; list each number of users once")
    coherence, rounds = scenario.radio.coherence_rounds, scenario.training.rounds
    if coherence is not None and rounds % coherence:
        raise ValueError(
            f"radio.coherence_rounds: {coherence} does not divide training.rounds: {rounds}; use a divisor, or null "
            "for channels that stay the same in all rounds"
        )
    privacy = scenario.privacy
    if privacy.dropouts and (privacy.dropout_tolerance or 0.0) >= privacy.delta:
        raise ValueError(
            f"privacy.dropout_tolerance: {privacy.dropout_tolerance:g} is part of privacy.delta: {privacy.delta:g} "
            "and must be below it; null means a tenth of delta"
        )


def problems(scenario: RandomOrthogonalization) -> list[str]:
    """See `pwfl.scenario.checks`."""
    return models.problems(scenario, hidden_layers=())


def idle(scenario: RandomOrthogonalization) -> dict[str, str]:
    """See `pwfl.scenario.checks`."""
    return {} if scenario.privacy.dropouts else {"privacy.dropout_tolerance": "privacy.dropouts: 0.0"}


def realization_bytes(scenario: RandomOrthogonalization) -> float:
    """See `pwfl.scenario.checks`."""
    return scenario.training.rounds * (scenario.network.users + sum(scenario.privacy.user_numbers)) * LINK_BYTES


def table_bytes(scenario: RandomOrthogonalization) -> tuple[float, float, str]:
    """See `pwfl.scenario.checks`."""
    largest = max([scenario.network.users, *scenario.privacy.user_numbers])
    antennas = scenario.network.antennas
    channels = largest * max(min(largest, 2 * antennas), antennas) * COMPLEX * COPIES  # of one realization: `mimo`
    keys = "network.users, network.antennas, privacy.user_numbers or training.rounds"
    return realization_bytes(scenario), channels, keys


def training_bytes(scenario: RandomOrthogonalization) -> tuple[float, str]:
    """See `pwfl.scenario.checks`."""
    users, training = scenario.network.users, scenario.training
    steps = users * training.local_steps * training.batch_size * FLOAT32 * COPIES
    return network_bytes(scenario, [], users) + steps, "network.users, training.local_steps or training.batch_size"
