"""The privacy audit of systems with a linear air interface: test a system's training against what it claims.

The audit runs the learner, server and graph of the system's own `parts`, with other data, start parameters and keys,
and records the server's update of each round (`Training.tap`). Its tests:

- Noise (`noise`): with data and parameters that make all messages zero ("silence") and a model that keeps its
  parameters, updates are the noise alone. It must be independent, Gaussian, and of the standard deviation that
  `reception_noise` states.
- Signal (`signal`): two data sets that differ in one record are trained with the same keys; the difference of their
  updates, over the noise's standard deviation, is mu of the round. It must equal the claimed mu, and the epsilon of all
  rounds must not exceed the stated one. An observer of some users is a view: a function that selects its part of the
  reception.
- Learner and step sizes must not depend on the data (`model.whatever_the_data`).
- The model must follow from start parameters and updates, and the trainer must evaluate that model (`model.model`).
- On a GPU, realizations trained as a batch must receive what each receives alone (`model.side_by_side`).
- If users are received differently in bands of coordinates, each band has its own noise and signal (`bands`); the other
  tests treat all bands as the one in which the target's message is most visible.
- Majority votes must be votes on noisy messages (`votes`); the other tests are of the messages' weighted sum.
- Messages sent as integers must be rounded at random, independently for each user (`rounding`).
- Records must be sampled with the claimed probability (`chance`).
- The whole update must have the stated noise. Replacing all records must move it by the sum of all users' sensitivities
  at most, and replacing one record must move only its user's message (`whole`). No user's claimed mu may be smaller
  than its reception implies (`check_any_user`).
- The system's `trainer` must arrive at the model that was tested, and each record must be held by one user
  (`model.trained`).

It costs the tracing of four graphs, a second of CPU time, and about 15 training runs of a realization whose users hold
FEW records each. Of networks with more than KEPT parameters, it tests the noise in KEPT of them, and the signal of
layers after the first, and of the whole update, in FEW rounds.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from pwfl import streams
from pwfl.privacy import audit
from pwfl.process import devices
from pwfl.scenario.values import value_of
from pwfl.tables.reception import Reception
from pwfl.training.audits import bands, rounding, votes
from pwfl.training.audits.audited import Audited, blank, random_data
from pwfl.training.audits.chance import participation, senders
from pwfl.training.audits.claims import Claim, claim_of, noise_of, select_deliveries, upload
from pwfl.training.audits.model import model, side_by_side, trained, whatever_the_data
from pwfl.training.audits.noise import all_noise, all_users, noise, silence
from pwfl.training.audits.signal import check_any_user, signal
from pwfl.training.audits.whole import whole_update

__all__ = [
    "Audited",
    "Claim",
    "audit_system",
    "audit_worst",
    "claim_of",
    "participation",
    "select_deliveries",
    "senders",
    "trained",
    "upload",
    "verdicts",
]


def audit_system(audited: Audited, trainer: Callable, subject: audit.Subject, claim: Claim) -> Iterator[audit.Verdict]:
    """Yield the verdicts of all tests of a system; one verdict `not_tested` if there is nothing to test.

    That is so if nothing is sent, no noise is added, or no record is received in the subject's realization.

    Parameters
    ----------
    audited
        The system's training, and the tables it is trained by.
    trainer
        The system's `trainer(scenario, data, tables)`.
    subject
        Realization, observer, and the stated epsilon and delta.
    claim
        The target user, and its claimed mu in each round.
    """
    if subject.epsilon is None or np.isinf(subject.epsilon):
        yield audit.untested(subject)
        return
    if select_deliveries(audited.tables, subject.realization).is_empty():
        yield audit.untested(subject._replace(epsilon=None))
        return
    generator = streams.generator(audited.scenario.seed, "audit", subject.realization)
    yield from verdicts(audited, subject, claim, generator)
    yield from trained(audited.of_few_steps, trainer, subject, generator)


def audit_worst(
    audited: Audited, trainer: Callable, observer: str, receives: str, view: Callable[..., Reception]
) -> Iterator[audit.Verdict]:
    """Yield the verdicts of `audit_system` for the realization with the most exposed record, whose user is the target.

    For learners whose sensitivity is 2 `training.clip_norm`.

    Parameters
    ----------
    audited, trainer
        As in `audit_system`.
    observer
        The observer's rows of the table `visibility`.
    receives
        What the observer receives, in words, with `{}` in place of the target user.
    view
        `view(tables, user, reception)` returns what the observer receives of a user's record, from the tables of the
        realization and the server's reception.
    """
    outcome, sensitivity = audit.worst(audited.tables["outcome"]), 2 * audited.scenario.training.clip_norm
    realization = outcome["realization"]
    tables = {name: table.filter(realization=realization) for name, table in audited.tables.items()}
    claim = claim_of(audited.tables, realization, observer, sensitivity, view=partial(view, tables))
    subject = audit.Subject(realization, receives.format(claim.target), outcome["delta"], outcome["epsilon"])
    yield from audit_system(audited, trainer, subject, claim)


def verdicts(
    audited: Audited, subject: audit.Subject, claim: Claim, generator: np.random.Generator
) -> Iterator[audit.Verdict]:
    """Yield the verdicts of all tests except of the system's trainer; arguments as in `audit_system`.

    `generator` draws the audit's data and parameters.
    """
    real = audited.training(blank(audited.size, audited.records))
    if why := audited.untested(real):
        yield audit.untested(subject, why)
        return
    used = votes.not_decided(bands.as_in_worst(real, claim.target))
    scenario, begin, view = audited.scenario, partial(used.begin, subject.realization), claim.view
    starts, views, whole = begin(view), [view], real.begin(subject.realization).reception
    yield from all_users(subject, whole.as_most_shown(claim.target), audited.receiver)
    integers = used.loop.summed is not None
    if integers:
        loud = np.flatnonzero(starts.reception.user_noise_std.any(axis=0))
        views = [partial(noise_of, user, view) for user in loud]  # one user's noise each, as drawing it takes long
    yield from noise(subject, *silence(scenario, used, begin, views, generator))
    yield from signal(audited, subject, claim, used, views[0], generator)
    yield from check_any_user(subject, whole, claim, used.parts.learner.sensitivity)
    if not integers:
        yield from whole_update(audited, subject, used, claim.target, generator)
    lively = random_data(audited.size, audited.records, generator)
    yield whatever_the_data(audited, used, subject, lively)
    compared = audited.of_few_steps.training(lively)
    yield from model(compared, subject, compared.begin(subject.realization, views[0] if integers else None))
    if real.loop.decided:
        moved = real.begin(subject.realization, partial(upload, claim.target))
        yield votes.decided(real.over(lively), subject, moved)
    if real.loop.bands:
        yield from bands.verdicts(audited, subject, claim, real, generator)
    if devices.has_gpu(value_of(scenario, "training.device")):
        yield from side_by_side(audited, subject, view, lively, generator)
    if integers:
        yield all_noise(subject, used, starts)
        bits = scenario.training.bits  # every system that sends integers has this parameter
        yield from rounding.verdicts(subject, used, starts, bits, generator)
