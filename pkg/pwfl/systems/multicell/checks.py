"""Checks of a scenario of `multicell`: parameters that must fit each other, files and software, and memory."""

from functools import lru_cache
from importlib.util import find_spec
from math import exp
from typing import TYPE_CHECKING

from pwfl.learning import datasets
from pwfl.privacy import rounding
from pwfl.scenario.checks import available, offer
from pwfl.scenario.size import COPIES, FLOAT, LINK_BYTES, layer_bytes, network_bytes
from pwfl.stages import IMPORTS
from pwfl.store import files
from pwfl.systems.multicell import feasible, hexagons
from pwfl.systems.multicell.beyond import pairs, urban
from pwfl.systems.multicell.beyond.intervals import intervals
from pwfl.systems.multicell.parameters import Multicell
from pwfl.systems.multicell.schemes import BY_LEAST_NOISE, CALIBRATED, SCHEDULERS
from pwfl.training import models

if TYPE_CHECKING:
    import polars as pl

POWER_LAW = ("path_loss_exponent", "fading_scale")  # parameters that only the path loss `power_law` reads
MAX_PRIVACY_WEIGHT = 1e12  # largest weight of a user's leakage in the objective, in samples
MAX_EFFICIENCY = 20  # largest minimum rate per bandwidth, bit/s per Hz
NO_GLPK = (
    "schedule.solver: GLPK_MI is not installed; install pwfl with its extra `glpk`, or use `assignment` or `HIGHS`"
)


def consistent(scenario: Multicell) -> None:
    """Raise ValueError for parameters that no realization can satisfy."""
    if scenario.channel.users is None:  # otherwise checked with the users' samples
        _check_samples(scenario)
    if scenario.channel.links is None:
        _check_path_loss(scenario)
    _check_limits(scenario)
    _check_learning(scenario)
    _check_coherence(scenario)
    _check_schemes(scenario)
    pairs.check_schemes(scenario)
    pairs.check_pairs(scenario)
    _check_beyond(scenario)


def _check_limits(scenario: Multicell) -> None:
    schedule, radio, least = scenario.schedule, scenario.radio, scenario.privacy.min_noise
    if (scenario.meets("bounded") or scenario.meets("least_noise")) and schedule.gamma > (
        most := MAX_PRIVACY_WEIGHT * least**2
    ):
        raise ValueError(
            f"schedule.gamma: {schedule.gamma:g} weights one user's leakage, up to gamma / Nmin^2, so heavily that "
            "samples no longer count in the objective, (20) of the paper (docs/explanation/multicell.md); at most "
            f"{most:g} is allowed at privacy.min_noise: {least:g}"
        )
    if radio.min_rate_bps > (limit := MAX_EFFICIENCY * radio.bandwidth_hz):
        raise ValueError(
            f"radio.min_rate_bps: {radio.min_rate_bps:g} exceeds {limit:g}, {MAX_EFFICIENCY} bit/s per Hz of "
            "radio.bandwidth_hz, which no link achieves; lower it, or raise radio.bandwidth_hz"
        )


def _check_learning(scenario: Multicell) -> None:
    data, training = scenario.data, scenario.training
    if data.partition == "iid" and data.samples_log_sd > 0:
        raise ValueError(
            "data.partition: iid requires the same number of samples for all users, but data.samples_log_sd: "
            f"{data.samples_log_sd:g} makes them differ; set it to 0, or use `quantity`"
        )
    models.check(scenario)
    if training.recipe == "zero_start" and not models.is_softmax(training):
        raise ValueError(
            "training.recipe: zero_start requires softmax regression, `hidden_layers: []`; equal hidden units would "
            "stay equal"
        )


def _check_coherence(scenario: Multicell) -> None:
    coherence, rounds = scenario.radio.coherence_rounds, scenario.training.rounds
    if coherence is None:
        return
    if rounds % coherence:
        raise ValueError(
            f"radio.coherence_rounds: {coherence} does not divide training.rounds: {rounds}; privacy budgets are "
            "planned for whole coherence intervals"
        )


def _check_schemes(scenario: Multicell) -> None:
    for scheme in scenario.schemes:
        if scheme.noise in CALIBRATED and scenario.privacy.target_epsilon is None:
            raise ValueError(
                f"privacy.target_epsilon: is missing, but the scheme {scheme.name!r} has `noise: {scheme.noise}`; set "
                "the epsilon to which its noise is calibrated"
            )
        if scheme.noise in CALIBRATED and scenario.training.clipping == "per_user":
            raise ValueError(
                "training.clipping: per_user does not bound the leakage, (11) of the paper "
                f"(docs/explanation/multicell.md), so the noise of scheme {scheme.name!r} cannot "
                "be calibrated to a target epsilon; use `per_sample`"
            )
        if scheme.scheduler in BY_LEAST_NOISE and scheme.noise == "random":
            raise ValueError(
                f"schemes: {scheme.name!r} has `scheduler: {scheme.scheduler}`, which satisfies the constraint (21) "
                "only with the noise (36) of the paper (docs/explanation/multicell.md), not with start values; use "
                f"`noise: {SCHEDULERS[scheme.scheduler].made_for}` or `scheduler: joint`"
            )


def _check_beyond(scenario: Multicell) -> None:
    """Raise ValueError if delta is too small for the rounding errors of sampled records' accounts."""
    rate = scenario.data.sampling
    if rate is not None:
        words = f"records sampled by data.sampling: {rate:g}"
        remedy = "set data.sampling to null, without sampling"
        rounding.check(scenario.privacy.delta, scenario.training.rounds, words, remedy)


def _check_path_loss(scenario: Multicell) -> None:
    if scenario.radio.path_loss == "power_law":
        return
    standard, network = f"radio.path_loss: {scenario.radio.path_loss}, of 3GPP TR 38.901,", scenario.network
    low, high = urban.FREQUENCY_HZ
    if not low <= scenario.radio.frequency_hz <= high:
        raise ValueError(
            f"radio.frequency_hz: {scenario.radio.frequency_hz:g} is not between {low:g} and {high:g}, the range of "
            f"{standard.removesuffix(',')}"
        )
    farthest = hexagons.farthest(network.rings, network.cell_radius_m)
    if farthest > urban.DISTANCE_M[1]:
        raise ValueError(
            f"network.cell_radius_m: {network.cell_radius_m:g} with network.rings: {network.rings} allows a distance "
            f"of {farthest:.0f} m between user and base station, but {standard} is valid up to "
            f"{urban.DISTANCE_M[1]:g} m; lower one of the two"
        )


def _check_samples(scenario: Multicell) -> None:
    mean, privacy = _mean_samples(scenario), scenario.privacy
    if scenario.meets("bounded") and (least_variance := (privacy.min_noise / mean) ** 2) > privacy.max_noise_error:
        raise ValueError(
            f"privacy.min_noise: {privacy.min_noise:g} gives start values that cannot satisfy the constraint "
            "(21) of the paper (docs/explanation/multicell.md) on the noise error: even the "
            f"smallest noise has variance {least_variance:.3g} at the mean of {mean:.3g} samples per user, above "
            f"privacy.max_noise_error: {privacy.max_noise_error:g}; lower min_noise, raise max_noise_error or give "
            f"users more samples{feasible.required_by(scenario, 'bounded')}"
        )


def _mean_samples(scenario: Multicell) -> float:
    """Compute the mean number of samples of a user. Raises ValueError if users would hold more than there are."""
    data, users = scenario.data, scenario.network.users
    if data.partition == "given" and data.content:
        held = data.content.users
        if len(held) < users:
            raise ValueError(
                f"network.users: {users} exceeds the {len(held)} users who hold training samples of {data.file}"
            )
        return sum(held) / len(held)
    most = available(data)
    if data.samples_total is not None and data.samples_total < users:
        raise ValueError(
            f"data.samples_total: {data.samples_total} is less than network.users: {users}; every user needs at "
            "least one sample"
        )
    least = data.samples_total or users * max(data.samples_offset, 1)
    if least > most:
        key = "data.samples_total" if data.samples_total else "data.samples_offset"
        raise ValueError(
            f"{key}: {users} users would hold at least {least} samples, but {offer(data)}; lower {key}"
            + ("" if data.samples_total else " or network.users")
            + (
                f" (the users of {scenario.channel.links} are as many as network.users)"
                if scenario.channel.links
                else ""
            )
        )
    mean = data.samples_offset + exp(data.samples_log_mean + data.samples_log_sd**2 / 2)
    if data.samples_total:
        mean = data.samples_total / users
    if users * mean > most:
        raise ValueError(
            f"data.samples_log_mean: {users} users would hold {users * mean:.4g} samples on average, but "
            f"{offer(data)}; lower data.samples_log_mean, data.samples_log_sd, data.samples_offset or network.users, "
            "or set data.samples_total"
        )
    return mean


def imports(scenario: Multicell) -> dict[str, str]:
    """See `pwfl.scenario.checks`."""
    links, users = scenario.channel.links, scenario.channel.users
    paths = zip(IMPORTS, (links, users if links else None), strict=True)
    return {table: path for table, path in paths if path is not None}


def problems(scenario: Multicell) -> list[str]:
    """See `pwfl.scenario.checks`."""
    missing = scenario.schedule.solver == "GLPK_MI" and not find_spec("cvxopt")
    return [NO_GLPK] * missing + models.problems(scenario) + _channel_problems(scenario)


def imported_realizations(scenario: Multicell) -> int | None:
    """See `pwfl.scenario.checks`."""
    return _held(_contents(scenario))[0]["realization"].n_unique() if scenario.channel.links is not None else None


def _contents(scenario: Multicell) -> tuple[tuple[str, str, str], ...]:
    """List the files that the scenario imports: table, path and content hash of each."""
    return tuple((table, path, files.content(path)) for table, path in imports(scenario).items())


@lru_cache
def _held(contents: tuple[tuple[str, str, str], ...]) -> tuple["pl.DataFrame", int, int]:
    """Return the users in imported files, and the numbers of base stations and intervals.

    Files are given as table, path and content hash, so that a study's scenarios with the same files share the result.
    """
    from pwfl.systems.multicell import imported

    tables = imported.run({table: path for table, path, _ in contents})
    stations, count = (tables[imported.LINKS][key].n_unique() for key in ("station", imported.INTERVAL))
    return tables[imported.USERS], stations, count


def _channel_problems(scenario: Multicell) -> list[str]:
    """List what is wrong with channels: imported files that are invalid or do not fit, and `feasible.problems`."""
    from pwfl.tables import TableError

    links, users = scenario.channel.links, scenario.channel.users
    if links is None and users is not None:
        return [f"channel.users: {users}: requires the gains of its users; set channel.links, too"]
    if links is None:
        return feasible.problems(scenario)
    try:
        held, stations, several = _held(_contents(scenario))
    except (OSError, TableError) as error:
        return [f"channel.{'users' if str(error).startswith(f'{users}:') else 'links'}: {error}"]
    if several != intervals(scenario):
        rounds = scenario.training.rounds
        needed = (
            f"{rounds // several}, as it has {several} coherence intervals"
            if several > 1
            else "null, as it has no coherence intervals"
        )
        if several > 1 and rounds % several:
            return [f"training.rounds: {rounds} must be a multiple of the {several} coherence intervals of {links}"]
        return [f"radio.coherence_rounds: {scenario.radio.coherence_rounds} does not fit {links}: must be {needed}"]
    samples = held.group_by("realization", maintain_order=True).sum()["samples"].to_list()
    realizations, count = len(samples), held["user"].n_unique()
    if scenario.network.users != count:
        return [f"network.users: {scenario.network.users} does not fit {links}: must be {count}"]
    if scenario.realizations > realizations:
        return [f"realizations: {scenario.realizations} exceeds the {realizations} of {links}"]
    if held["samples"].null_count():
        try:
            _check_samples(scenario)
        except ValueError as error:
            return [str(error)]
    elif scenario.data.partition == "given":
        return [
            f"data.partition: given uses the records of {scenario.data.file}, but {users} has a column samples; "
            "leave one out"
        ]
    elif (largest := max(samples)) > available(scenario.data):
        fullest = f"realization {samples.index(largest)} has {largest} samples"
        return [f"channel.users: {users}: {fullest}, but {offer(scenario.data)}"]
    return feasible.problems(scenario, held, stations)


def idle(scenario: Multicell) -> dict[str, str]:
    """See `pwfl.scenario.checks`."""
    standard = scenario.radio.path_loss != "power_law"
    reason = f"radio.path_loss: {scenario.radio.path_loss}"
    reasons = {f"radio.{key}": reason for key in POWER_LAW} if standard else {}
    if scenario.channel.links is not None:
        drawn = ("network.rings", "network.cell_radius_m", "radio.path_loss", "radio.frequency_hz")
        reasons = dict.fromkeys((*drawn, *(f"radio.{key}" for key in POWER_LAW)), "channel.links")
    reasons |= pairs.idle(scenario)
    if scenario.training.learner == "gradients":
        reasons |= {f"training.{key}": "training.learner: gradients" for key in ("local_steps", "batch_size")}
    if scenario.radio.coherence_rounds is None:
        reasons["privacy.planned_share"] = "radio.coherence_rounds: null"
    if not (scenario.meets("start_noise") or scenario.meets("least_noise")):
        reasons["privacy.min_noise"] = "schemes that do not use it"
    if not scenario.privacy.dropouts:
        reasons["privacy.dropout_tolerance"] = "privacy.dropouts: 0"
    if scenario.data.partition == "given":
        drawn = ("samples_offset", "samples_log_mean", "samples_log_sd", "samples_total")
        reasons |= {f"data.{key}": "data.partition: given" for key in drawn}
    training = scenario.training
    noisy = all(scheme.noise != "none" for scheme in scenario.schemes)  # `step: snr` requires noise
    if training.step == "constant":
        reasons["training.step_scale"] = "training.step: constant"
    elif noisy and training.learner == "gradients":  # local steps use the learning rate
        reasons["training.learning_rate"] = "training.step: snr"
    if training.model != "dense":
        reasons["training.hidden_layers"] = f"training.model: {training.model}"
    return reasons


def realization_bytes(scenario: Multicell) -> float:
    """See `pwfl.scenario.checks`."""
    return intervals(scenario) * hexagons.cells(scenario.network.rings) * scenario.network.users * LINK_BYTES


def table_bytes(scenario: Multicell) -> tuple[float, float, str]:
    """See `pwfl.scenario.checks`."""
    couplings = scenario.radio.resource_blocks * hexagons.cells(scenario.network.rings) ** 2 * FLOAT * COPIES
    keys = "network.rings, network.users or radio.resource_blocks"
    if intervals(scenario) > 1:
        keys = f"{keys}, or raise radio.coherence_rounds"
    return realization_bytes(scenario) + intervals(scenario) * couplings, 0, keys


def training_bytes(scenario: Multicell) -> tuple[float, str]:
    """See `pwfl.scenario.checks`."""
    if scenario.training.model != "dense":  # a user-defined model may have any size; samples come in blocks
        return network_bytes(scenario, [], 1), "data.dataset"
    layers = layer_bytes(scenario, datasets.size(scenario.data).train)
    return network_bytes(scenario, scenario.training.hidden_layers, 1) + layers, "training.hidden_layers"
