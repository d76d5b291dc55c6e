"""Noise of the system `anonymous_oac`: Lemma 4 and Theorem 1 of Hasircioglu and Gunduz, and extensions."""

from functools import cache

import numpy as np
import polars as pl

from pwfl.privacy import accountant, sampled, target
from pwfl.process import user_code
from pwfl.systems.anonymous_oac import batches, receive, scheduled
from pwfl.systems.anonymous_oac.mechanism import accounting, readings, strengths
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.schemes import NOISES
from pwfl.tables.arrays import to_array

TOLERANCE = 1e-4  # relative tolerance of a target epsilon
KEYS = ("realization", "round")
SAME = 1e-9  # relative difference up to which epsilons are treated as equal


def run(scenario: AnonymousOac, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Compute the standard deviation of privacy noise in each round's update, and the divisor of the round's sum.

    `anonymous`: the devices together add the given multiple of the sensitivity 2 L / b_t. `identified`: the same, with
    the multiplier that gives as small an epsilon if participation and b_t are known. `local`: each device protects its
    own update, of sensitivity 2 L / b_i, with the multiplier that gives this epsilon if its participation and b_i are
    known. The average of a_t such updates, weighted by their records, has sqrt(a_t) times as much noise. A round
    without records has no noise: nothing is sent.

    `_fixed`: sums are divided by the expected batch size of all devices or, for `local`, of each participant. So the
    strength of the noise does not reveal the realized size. Participants also send their noise in rounds without
    records. Only a round without participants is silent. If participation is hidden, the multiplier compensates for
    an observer's noticing that silence. `none`: devices add no noise.

    If a user-defined function decides who takes part, or `scheme` is one, the noise is that of `scheduled`.
    """
    if user_code.is_reference(scheme):
        return call_function(scenario, scheme, tables)
    kind = NOISES[scheme]
    if kind.goes_with_functions and not kind.is_silent and scheduled.by_function(tables):
        return calibrated(scenario, tables)
    multiplier, epsilon, status = _multiplier(scenario, scheme, tables)
    realizations = tables["users"].select("realization").unique(maintain_order=True)
    return {
        "noise": strengths(scenario, scheme, multiplier, tables),
        "noise_status": realizations.with_columns(
            status=pl.lit(status), noise_multiplier=pl.lit(multiplier), epsilon=pl.lit(epsilon)
        ),
    }


def _multiplier(scenario: AnonymousOac, scheme: str, tables: dict[str, pl.DataFrame]) -> tuple[float, float, str]:
    """Return the noise multiplier, the epsilon that it is to give, and the status: how it was found.

    Each scheme is to give the target epsilon under its own interpretation (`reading`). Without a target, it is to give
    the epsilon of the configured multiplier under the paper's interpretation.
    """
    kind = NOISES[scheme]
    if kind.is_silent:
        return 0.0, np.inf, "no_noise"
    rounds, delta, goal = scenario.training.rounds, scenario.privacy.delta, scenario.privacy.target_epsilon
    multiplier, laws = scenario.privacy.noise_multiplier, readings(scenario, scheme, tables)
    if goal is not None:
        return _to_target(scenario, scheme, tables, laws[kind.reading], goal), goal, "calibrated"
    epsilon = float(sampled.PAIRS["tight"].epsilons(laws["anonymous"], multiplier, [rounds], delta)[0])
    if not np.isfinite(epsilon):
        return multiplier, epsilon, "no_guarantee"
    if kind.is_given:
        return multiplier, epsilon, "given"
    accounted = sampled.Batches(laws[kind.reading], **accounting(scheme))
    reached, *_ = accounted.composed_worth([(multiplier, rounds)], delta)
    if epsilon * (1 - SAME) <= reached <= epsilon:
        return multiplier, epsilon, "given"
    return accounted._replace(interval=sampled.COARSE).multiplier_for(epsilon, rounds, delta), epsilon, "calibrated"


def _to_target(
    scenario: AnonymousOac, scheme: str, tables: dict[str, pl.DataFrame], law: sampled.Rates, goal: float
) -> float:
    """Find the noise multiplier at which the account's epsilon is the goal, or up to TOLERANCE less.

    Evaluations are slow, so the search starts from a multiplier that is found on a coarser grid of losses.
    """
    delta, accounted = scenario.privacy.delta, sampled.Batches(law, **accounting(scheme))
    coarser = accounted._replace(interval=max(sampled.COARSE, goal / 1000))
    start = coarser.multiplier_for(goal, scenario.training.rounds, delta)

    def epsilon(scale: np.ndarray) -> np.ndarray:
        scaled = tables | {"noise": strengths(scenario, scheme, start * scale[0], tables)}
        scaled["visibility"] = receive.visible(scenario, scaled)
        observer = scaled["visibility"]["observer"][0]
        losses = accountant.losses(scaled, observer, 2 * scenario.training.clip_norm)
        return np.array([accounted.epsilons(losses, delta).max()])

    (scale,) = target.scales(epsilon, goal, 1, below=TOLERANCE)
    return float(start * scale)


def call_function(scenario: AnonymousOac, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `noise` and `noise_status` by a user-defined function.

    Its arguments are the scenario, samples (realization, user), gains and who takes part (realization, round, user),
    and `now`, generators, if it has a parameter of this name. It returns the standard deviation of noise per
    coordinate, shape (realization, round): over the air, in the sum of all clipped gradients, to which participants
    add equal parts; in turn, in each participant's sum. Raises UserCodeError if the result is no noise.
    """
    realizations = tables["users"]["realization"].unique().sort()
    gain = to_array(tables["links"], "fading_gain", *KEYS, "user")
    place = (tables["schedule"][name].to_numpy() - start for name, start in (("round", 1), ("user", 0)))
    takes_part = np.zeros(gain.shape, bool)
    takes_part[realizations.search_sorted(tables["schedule"]["realization"]).to_numpy(), *place] = True
    samples = to_array(tables["users"], "samples", "realization", "user")
    now = user_code.Drawn(user_code.generators(scenario.seed, "noise", realizations))
    arguments = scenario, samples, gain, takes_part
    noise = user_code.call(scheme, *arguments, reads=scenario.own.reads, now=now)
    what = "the standard deviation of each round's noise, realizations by rounds"
    needed = np.any(takes_part, axis=2)
    std = user_code.noise_of(scheme, noise, needed, what, zero=True)
    multiplier = std / (2 * scenario.training.clip_norm)
    local = tables["schedule_status"]["status"][0] == "orthogonal"
    least = np.where(np.any(needed, axis=1), np.min(multiplier, axis=1, where=needed, initial=np.inf), 0.0)
    status = {"status": pl.lit("own"), "epsilon": pl.lit(None, pl.Float64)}
    return {
        "noise": scheduled.strengths(scenario, multiplier, local, tables),
        "noise_status": pl.DataFrame({"realization": realizations, "noise_multiplier": least}).with_columns(**status),
    }


def calibrated(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `noise` and `noise_status`, with one multiplier in all rounds of a realization.

    It gives the target epsilon, or up to TOLERANCE less (relative). Without a target, it gives the epsilon of the
    configured multiplier under the paper's interpretation.
    """
    privacy, rounds, rate = scenario.privacy, scenario.training.rounds, scenario.data.sampling
    configured, hidden = privacy.noise_multiplier, batches.poisson(scenario.network.participation * rate)
    if privacy.target_epsilon is None:
        goal = float(sampled.PAIRS["tight"].epsilons(hidden, configured, [rounds], privacy.delta)[0])
    else:
        goal = privacy.target_epsilon
    realizations = tables["users"]["realization"].unique().sort()
    shape, status, multiplier = (len(realizations), rounds), "no_guarantee", np.full(len(realizations), configured)
    if np.isfinite(goal):
        status = "calibrated"
        accounted = sampled.Batches(batches.poisson(rate), interval=sampled.COARSE, **scheduled.ACCOUNTED)
        uploads = tables["schedule"].group_by("realization", "user").len()
        most = uploads.group_by("realization").agg(pl.col("len").max())
        counts = realizations.to_frame().join(most, on="realization", how="left", maintain_order="left")["len"]
        start = cache(lambda count: accounted.multiplier_for(goal, count, privacy.delta))
        begin = np.array([start(count) if count else configured for count in counts])

        def epsilon(scale: np.ndarray) -> np.ndarray:
            multiplier = np.broadcast_to((begin * scale)[:, None], shape)
            scaled = tables | {"noise": scheduled.strengths(scenario, multiplier, False, tables)}
            scaled |= {"visibility": receive.visible(scenario, scaled)}
            return scheduled.worst(scheduled.losses(scenario, scaled), rate, privacy.delta)[0]

        # Epsilon 0 at delta does not determine a scale of the noise, so the goal is at least NEGLIGIBLE.
        multiplier = begin * target.scales(epsilon, max(goal, sampled.NEGLIGIBLE), len(begin), below=TOLERANCE)
    return {
        "noise": scheduled.strengths(scenario, np.broadcast_to(multiplier[:, None], shape), False, tables),
        "noise_status": pl.DataFrame({"realization": realizations, "noise_multiplier": multiplier}).with_columns(
            status=pl.lit(status), epsilon=pl.lit(goal)
        ),
    }
