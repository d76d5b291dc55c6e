"""One audit of all linear airs: the system's own training, tapped, against `reception` and what is claimed of it.

What trains are a system's `parts`; the audit has no learner, server, start or loop but theirs, and gives them other
data, start weights and keys. Its tests:

- Noise is what is received in silence: of data and weights of which no gradient is left, from a model that stays, as
  the training goes on by zeros in place of what it received (`stays`).
- Signal is what two neighbouring data sets' trainings receive with the same keys, from a model that stays. Loss is the
  one over the other, against the claimed mu; these leave what is stated as epsilon, or less. What an observer of some
  users sees is a view of the reception, whose whole has all users' noise in it.
- Learner and steps are alike, whatever the data.
- The model is what follows from what was received, step by step; and what the trainer evaluates is that model.
- Where the scenario is trained on a GPU, realizations side by side: they receive what each alone does, which is tested.
- Where users are heard in some bands of coordinates more than in others, each band has its own noise and signal; all
  else is tested as if all bands were the one in which the target shows most (`bands`).
- What is decided by a vote is decided by noisy messages; all else is tested of their sum (`votes`).
- Sums of integers are rounded at random, each user's by numbers of its own (`rounding`).
- Records are in messages by chance as claimed.
- All users' records move the server's update as far as all may, and one no other user's message; of no user the tables
  claim less than its reception shows.
- What the system's trainer comes to is what is tapped, of records of which each is one user's.

It costs the tracing of four graphs, a second of CPU time, and some 15 trainings of a realization whose users hold FEW
records; of networks of more than KEPT weights, noise is looked at in as many of them, and in FEW rounds all but the
first layer's signal, and how far records move the whole update.
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
    """Tests of what an observer receives and of what the system's `trainer` comes to; or why nothing is tested.

    That is where nothing is sent, nothing hidden, or no record is received in the subject's realization.
    """
    if subject.epsilon is None or np.isinf(subject.epsilon):
        yield audit.untested(subject)
        return
    if select_deliveries(audited.tables, subject.realization).is_empty():
        yield audit.untested(subject._replace(epsilon=None))
        return
    generator = streams.generator(audited.scenario.seed, "audit", subject.realization)
    yield from verdicts(audited, subject, claim, generator)
    yield from trained(audited, trainer, subject, generator)


def audit_worst(
    audited: Audited, trainer: Callable, observer: str, receives: str, view: Callable[..., Reception]
) -> Iterator[audit.Verdict]:
    """The tests of `audit_system`, of the realization with the most exposed record, whose user is the target.

    What the `observer` sees of a user is `view(tables, user, reception)`, of the tables of that realization, and
    `receives` says so in words, with the user in the place of `{}`.
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
    """Tests of what an observer receives of the target's record in the subject's realization."""
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
        views = [partial(noise_of, user, view) for user in loud]  # which is drawn user by user, and takes long
    yield from noise(subject, *silence(scenario, used, begin, views, generator))
    yield from signal(audited, subject, claim, used, views[0], generator)
    yield from check_any_user(subject, whole, claim, used.parts.learner.sensitivity)
    if not integers:
        yield from whole_update(audited, subject, used, claim.target, generator)
    lively = random_data(audited.size, audited.records, generator)
    yield whatever_the_data(audited, used, subject, lively)
    yield from model(real.over(lively), subject, real.begin(subject.realization, views[0] if integers else None))
    if real.loop.decided:
        moved = real.begin(subject.realization, partial(upload, claim.target))
        yield votes.decided(real.over(lively), subject, moved)
    if real.loop.bands:
        yield from bands.verdicts(audited, subject, claim, real, generator)
    if devices.has_gpu(value_of(scenario, "training.device")):
        yield from side_by_side(audited, subject, view, lively, generator)
    if integers:
        yield all_noise(subject, used, starts)
        bits = scenario.training.bits  # of all whose sums are of integers
        yield from rounding.verdicts(subject, used, starts, bits, generator)
