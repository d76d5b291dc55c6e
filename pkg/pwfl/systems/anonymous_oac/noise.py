"""Noise of the system `anonymous_oac`: Lemma 4 and Theorem 1 of Hasircioglu and Gunduz, and what lies beyond."""

import numpy as np
import polars as pl

from pwfl.privacy import accountant, sampled, target
from pwfl.systems.anonymous_oac import receive
from pwfl.systems.anonymous_oac.mechanism import accounting, readings, strengths
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.schemes import NOISES

TOLERANCE = 1e-4  # of a target, relative
SAME = 1e-9  # by which equal epsilons may differ, relative


def run(scenario: AnonymousOac, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Standard deviation of the privacy noise that each round's update carries, and what its sum is divided by.

    `anonymous`: the devices together add the given multiple of the sensitivity 2 L / b_t. `identified`: the same, with
    the multiplier that gives as small an epsilon where participation and b_t are known. `local`: each device protects
    its own update, of sensitivity 2 L / b_i, with the multiplier that gives this epsilon where its participation and
    b_i are known; the average of a_t such updates, weighted by their records, carries sqrt(a_t) times as much. A round
    without records carries none: nothing is sent.

    `_fixed`: sums are divided by the expected batch size instead, of all devices or, `local`, of each participant, so
    that the strength of the noise tells nothing of the realized one. Participants send their noise in rounds without
    records, too. Only a round without participants is silent: where participation is hidden, the multiplier makes up
    for that silence being heard. `none`: devices add none.
    """
    multiplier, epsilon, status = _multiplier(scenario, scheme, tables)
    realizations = tables["users"].select("realization").unique(maintain_order=True)
    return {
        "noise": strengths(scenario, scheme, multiplier, tables),
        "noise_status": realizations.with_columns(
            status=pl.lit(status), noise_multiplier=pl.lit(multiplier), epsilon=pl.lit(epsilon)
        ),
    }


def _multiplier(scenario: AnonymousOac, scheme: str, tables: dict[str, pl.DataFrame]) -> tuple[float, float, str]:
    """The noise multiplier, the epsilon it is to give, and how it was found.

    All schemes get the target, each under its own reading, or without one the epsilon that the paper's reading gives
    the configured multiplier.
    """
    if scheme == "none":
        return 0.0, np.inf, "no_noise"
    rounds, delta, goal = scenario.training.rounds, scenario.privacy.delta, scenario.privacy.target_epsilon
    given, laws = scenario.privacy.noise_multiplier, readings(scenario, scheme, tables)
    if goal is not None:
        return _to_target(scenario, scheme, tables, laws[NOISES[scheme].reading]), goal, "calibrated"
    epsilon = float(sampled.tight_epsilon(laws["anonymous"], given, [rounds], delta)[0])
    if not np.isfinite(epsilon):
        return given, epsilon, "no_guarantee"
    own, accounted = laws[NOISES[scheme].reading], accounting(scheme)
    if scheme == "anonymous":
        return given, epsilon, "given"
    reached = sampled.composed_epsilon(own, [(given, rounds)], delta, **accounted)
    if epsilon * (1 - SAME) <= reached <= epsilon:
        return given, epsilon, "given"
    return sampled.multiplier_for(epsilon, own, rounds, delta, **accounted), epsilon, "calibrated"


def _to_target(scenario: AnonymousOac, scheme: str, tables: dict[str, pl.DataFrame], law: sampled.Rates) -> float:
    """The noise multiplier with which the account's epsilon is the target, or up to TOLERANCE less.

    Evaluations are what takes long: one of a wide interval of losses finds where to begin.
    """
    privacy, rounds = scenario.privacy, scenario.training.rounds
    goal, delta, accounted = privacy.target_epsilon, privacy.delta, accounting(scheme)
    start = sampled.multiplier_for(goal, law, rounds, delta, max(sampled.COARSE, goal / 1000), **accounted)

    def epsilon(scale: np.ndarray) -> np.ndarray:
        found = tables | {"noise": strengths(scenario, scheme, start * scale[0], tables)}
        found["visibility"] = receive.visible(scenario, found)
        observer = found["visibility"]["observer"][0]
        losses = accountant.losses(found, observer, 2 * scenario.training.clip_norm)
        return np.array([accountant.epsilons(losses, delta, law, **accounted).max()])

    (scale,) = target.scales(epsilon, goal, 1, below=TOLERANCE)
    return float(start * scale)
