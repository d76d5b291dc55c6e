"""Joint checks of the parameters of the system `anonymous_oac`, and estimates of its jobs' memory and time."""

from pwfl.privacy import rounding
from pwfl.process import user_code
from pwfl.scenario.checks import check_holdings
from pwfl.scenario.size import COPIES, FLOAT, FLOAT32, LINK_BYTES, layer_bytes, network_bytes
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.schemes import NOISES, SCHEDULERS
from pwfl.training import models

LEAST_NOISE = 1e-30  # smallest variance of the channel's noise, except 0
UPLOAD_BYTES = 1300  # memory of an upload's rows, from schedule to account, as measured


def consistent(scenario: AnonymousOac) -> None:
    """Reject parameters that no realization can satisfy, and pairs of scheduler and noise that do not fit."""
    models.check(scenario)
    data, devices = scenario.data, scenario.network.devices
    check_holdings(data, "data.samples", data.samples, "network.devices", devices)
    target, delta = scenario.privacy.target_epsilon, scenario.privacy.delta
    rate = scenario.network.participation * scenario.data.sampling
    if target is not None and scenario.training.rounds * rate <= delta:
        raise ValueError(
            f"privacy.target_epsilon: {target:g} needs no noise: the probability that a record is in any round's "
            f"batch is at most {scenario.training.rounds * rate:.3g}, not above privacy.delta: {delta:g}; lower delta"
        )
    if min(rate, *scenario.privacy.curve_rates) < 1:
        rounding.check(
            delta,
            scenario.training.rounds,
            "sampled devices and records",
            "set network.participation, data.sampling and privacy.curve_rates to 1, without sampling",
        )
    if 0 < scenario.radio.noise_variance < LEAST_NOISE:
        raise ValueError(
            f"radio.noise_variance: {scenario.radio.noise_variance:g} is too small to compute transmit energies; use "
            f"0, or at least {LEAST_NOISE:g}"
        )
    schedulable = [name for name, kind in NOISES.items() if kind.goes_with_functions]
    for scheme in scenario.schemes:
        own_noise = user_code.is_reference(scheme.noise)
        if user_code.is_reference(scheme.scheduler) and not own_noise and scheme.noise not in schedulable:
            raise ValueError(
                f"schemes: {scheme.scheduler} + {scheme.noise} cannot be combined: the accounting of this noise "
                "requires the participation probability network.participation, which a user-defined scheduler does "
                f"not have; use noise {', '.join(schedulable)} or a user-defined function, which are accounted for "
                "by who took part"
            )
        if own_noise or user_code.is_reference(scheme.scheduler):
            continue
        if NOISES[scheme.noise].local != SCHEDULERS[scheme.scheduler].in_turn:
            raise ValueError(
                f"schemes: {scheme.scheduler} + {scheme.noise} cannot be combined: noise `local` and `local_fixed` "
                "require scheduler `orthogonal`, all others require `over_the_air`"
            )


def problems(scenario: AnonymousOac) -> list[str]:
    """See `pwfl.scenario.checks`."""
    return models.problems(scenario)


def realization_bytes(scenario: AnonymousOac) -> float:
    """See `pwfl.scenario.checks`."""
    return scenario.training.rounds * scenario.network.devices * LINK_BYTES


def table_bytes(scenario: AnonymousOac) -> tuple[float, float, str]:
    """See `pwfl.scenario.checks`."""
    drawn = scenario.training.rounds * scenario.network.devices  # drawn at once, for one realization
    by_function = any(user_code.is_reference(scheme.scheduler) for scheme in scenario.schemes)
    uploads = drawn * (1 if by_function else scenario.network.participation)
    rows = realization_bytes(scenario) + uploads * UPLOAD_BYTES
    return rows, drawn * FLOAT * COPIES, "network.devices or training.rounds"


def training_bytes(scenario: AnonymousOac) -> tuple[float, str]:
    """See `pwfl.scenario.checks`."""
    held = scenario.network.devices * scenario.data.samples
    drawn = scenario.training.rounds * held * scenario.network.participation * scenario.data.sampling
    needed = network_bytes(scenario, scenario.training.hidden_layers, 1) + layer_bytes(scenario, held)
    return needed + drawn * FLOAT32 * COPIES, "training.hidden_layers or training.rounds"


def audit_seconds(scenario: AnonymousOac) -> float:
    """See `pwfl.scenario.checks`: one realization is drawn per `devices` canaries, at the speed that was measured."""
    devices, rounds = scenario.network.devices, scenario.training.rounds
    return -(-scenario.audit.canaries // devices) * (1.2e-3 + 0.8e-6 * devices * rounds)
