"""Audit of the signal: how far replacing a record moves the updates, and that over the noise's standard deviation."""

from collections.abc import Iterator

import numpy as np

from pwfl.privacy import audit
from pwfl.tables.reception import Reception
from pwfl.training import trainings
from pwfl.training.audits.audited import Audited
from pwfl.training.audits.claims import Claim, View
from pwfl.training.audits.received import RUNS, SAME, lengths, looked_at, receive_neighbours

WRAPPED = 5.0  # times the median norm of differences: one of the two sums of integers was beyond its range
ANY_USER = "signal of any user's record"  # the test of the claims on all users


def signal(
    audited: Audited,
    subject: audit.Subject,
    claim: Claim,
    used: trainings.Training,
    view: View | None,
    generator: np.random.Generator,
) -> Iterator[audit.Verdict]:
    """Yield the tests of how far replacing a record of the target moves the updates, and of mu and epsilon.

    With each case of `Learner.opposed`, the movement in each round must be at most weight times sensitivity; it must
    reach that if the learner's `reached` is true. mu is the largest movement over the noise's standard deviation.

    Parameters
    ----------
    audited, subject, claim, generator
        As in `audit.verdicts`.
    used
        The training.
    view
        View of the updates that are measured; noise, weights and mu are those of `claim.view`.
    """
    scenario, target, learner = audited.scenario, claim.target, used.parts.learner
    start, rounded = used.begin(subject.realization, claim.view), used.loop.summed is not None
    seen, reception = used.begin(subject.realization, view), start.reception
    std, rounds = np.repeat(reception.noise_std, reception.rounds), int(reception.rounds.sum())
    weight = np.repeat(np.abs(reception.weight[:, target]) * reception.sends[:, target], reception.rounds)
    stated, place = learner.sensitivity * weight, learner.place(start, target, int(np.argmax(weight > 0)))
    keys = [trainings.key_of(scenario, run) for run in range(RUNS if rounded else 1)]
    share, most, error = [], np.zeros(rounds), 0.0
    for k, case in enumerate(learner.opposed(generator, audited.records)):
        starts = [seen._replace(key=key) for key in keys]
        pair = receive_neighbours(audited, used, case, place, starts, looked_at(seen) if k > 0 else None)
        moved = lengths([first - second for first, second in zip(*pair, strict=True)])
        if rounded:  # rounding errors differ between rounds; the movement is what all have in common
            rows = [np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2, dtype=float) for parts in pair]
            rows = (rows[0] - rows[1])[weight > 0] / weight[weight > 0, None, None]
            length, uncertain = common(unwrapped(rows))
            moved, error = length * weight, max(error, uncertain / learner.sensitivity)
        moved = np.pad(moved, (0, rounds - len(moved)), mode="edge")
        share.append(np.divide(moved, stated, out=np.where(moved > 0, np.inf, 0.0), where=stated > 0))
        most = np.maximum(most, moved)
    tolerance = audit.ROUNDING + audit.LIMIT * error
    reached = (audit.REACHED - audit.LIMIT * error) * learner.reached
    yield audit.sensitivity(subject, np.array(share), 1.0, reached=learner.reached, tolerance=tolerance)
    least = claim.epsilon
    if least is None:
        least = audit.gaussian_epsilon(float(np.linalg.norm(claim.mu)), subject.delta)
    yield audit.at_least(subject, least)
    claimed, moves = np.pad(claim.mu, (0, rounds - len(claim.mu))), most > 0  # after the last row nobody sends
    if not moves.any():  # as of a network whose outputs no record reaches
        yield audit.Verdict(subject, audit.RECORD, "not_tested", "no tested record moves an update")
        return
    measured = float(np.sqrt((np.divide(most, std, out=np.zeros(rounds), where=moves) ** 2).sum()))
    wanted = float(np.sqrt((claimed[moves] ** 2).sum()))
    low, high = reached * wanted * claim.exact, (1 + tolerance) * wanted
    seen = tolerance if reached else max(tolerance, high / max(measured, audit.NO_MOVE * high) - 1)
    yield audit.within(
        subject, audit.RECORD, int(moves.sum()), wanted, measured, low, high, seen, "mu {percent} too low"
    )


def check_any_user(
    subject: audit.Subject, reception: Reception, claim: Claim, sensitivity: float
) -> Iterator[audit.Verdict]:
    """Test whether each user's mu by the reception, sensitivity times visibility, is at most the claimed one.

    `reception` is the server's.
    """
    if claim.everyone is None:
        return
    share = []
    for user, claimed in enumerate(claim.everyone.T):  # after the last row nobody sends
        seen = claim.view_of(user, reception)
        sends = seen.sends[:, user] if seen.records is None else seen.sends[:, user] & (seen.records[:, user] > 0)
        shown = seen.shown(user).max(axis=1)  # infinite where nobody adds noise, as where the user does not send
        mu = np.repeat(np.where(sends, sensitivity * shown, 0.0), seen.rounds)
        with np.errstate(divide="ignore", invalid="ignore"):
            share.append(np.where(mu > 0, mu / np.pad(claimed, (0, len(mu) - len(claimed))), 0.0).max())
    fault = "mu of a user {percent} too low"
    yield audit.within(subject, ANY_USER, len(share), 1.0, float(max(share)), 0.0, 1 + SAME, SAME, fault)


def unwrapped(difference: np.ndarray) -> np.ndarray:
    """Reshape differences of sums, (round, run, coordinate), to (draw, coordinate), without sums beyond their range."""
    rows = difference.reshape(-1, difference.shape[-1])
    norms = np.linalg.norm(rows, axis=1)
    return rows[norms <= WRAPPED * np.median(norms)]


def common(parts: np.ndarray) -> tuple[float, float]:
    """Estimate the L2 norm of the mean of noisy vectors, shape (draw, coordinate), and its standard error.

    It is the root of the inner product of the means of two halves, to whose expectation errors do not contribute.
    """
    halves = parts[::2], parts[1::2]
    first, second = (half.mean(axis=0) for half in halves)
    length = float(np.sqrt(max(first @ second, 0.0)))
    errors = [half.var(axis=0, ddof=1).mean() / len(half) for half in halves]
    spread = np.sqrt(length**2 * sum(errors) + parts.shape[1] * errors[0] * errors[1])
    return length, float(spread / (2 * max(length, 1e-12)))
