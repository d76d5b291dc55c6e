"""Audit of the model: it follows from the server's updates, and is the one trained and evaluated.

Batched realizations, as on a GPU, are compared with each one alone.
"""

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from pwfl.learning import datasets
from pwfl.privacy import audit
from pwfl.process.tensorflow import tf
from pwfl.scenario.values import plain, with_others
from pwfl.tables.reception import receptions
from pwfl.training import trainings
from pwfl.training.audits.audited import Audited, blank, random_data
from pwfl.training.audits.claims import View
from pwfl.training.audits.received import received, together

CLOSE = 1e-4  # relative error of a model, and of its loss, in float32
COMPILED = 1e-3  # relative difference of updates that XLA compiles and those it does not
ALIKE = "learner and steps, whatever the data"
LOUD = 1.0  # standard deviation of all rounds' noise in each parameter, so that missing noise makes another model


def model(used: trainings.Training, subject: audit.Subject, start: trainings.Start) -> Iterator[audit.Verdict]:
    """Test whether the model is w - sum_t steps[t] update[t], and whether the trainer evaluates this model."""
    update, weights = used.tap([start])
    steps, (course,) = start.steps.astype(float), used.train([start])
    off = []
    for first, parts, end in zip(start.weights, update, weights, strict=True):
        path = first - np.cumsum(steps.reshape(-1, *[1] * first.ndim) * parts, axis=0)
        scale = np.abs(path).max() + np.abs(first).max()
        off.append(np.abs(path[-1] - end).max() / scale if scale > 0 else np.abs(end).max())
    draws = int(sum(w.size for w in weights))
    most, fault = float(max(off)), "a model {percent} off"
    yield audit.within(subject, "model of what was received", draws, 0.0, most, 0.0, CLOSE, CLOSE, fault)
    _, loss = used.parts.learner.evaluate([tf.constant(w) for w in weights], used.data)
    last = float(course.losses[-1])
    error = abs(last - float(loss)) / max(abs(last), 1e-6)
    yield audit.within(subject, "loss of that model", 1, 0.0, error, 0.0, CLOSE, CLOSE, "a loss {percent} off")


def whatever_the_data(
    audited: Audited, used: trainings.Training, subject: audit.Subject, data: datasets.Dataset
) -> audit.Verdict:
    """Test whether learner and step sizes are the same for other data, as they would otherwise reveal the data.

    Models, of which data determine the shapes only, are not compared.
    """
    reception, parts = used.begin(subject.realization).reception, (used.parts, audited.training(data).parts)
    bare = [getattr(part.learner, "learner", part.learner) for part in parts]  # the learner within a `bands.ByBand`
    learners = [{key: value for key, value in vars(part).items() if key != "model"} for part in bare]
    steps = [part.server.steps(reception) for part in parts]
    off = float(np.abs(steps[0] - steps[1]).max()) if learners[0] == learners[1] else np.inf
    return audit.within(subject, ALIKE, steps[0].size, 0.0, off, 0.0, 0.0, CLOSE, "any change by data")


def trained(
    audited: Audited, trainer: Callable[..., Callable], subject: audit.Subject, generator: np.random.Generator
) -> Iterator[audit.Verdict]:
    """Test whether a system's `trainer` arrives at the model that was tested, and no two users hold the same record.

    Models are compared by their loss after the last round. Records are assigned at random, whatever `data.partition`
    is. The noise is increased so that half of it would make another model.
    """
    dealt = plain(audited.scenario.data) | {"partition": "iid"}
    scenario, tables = with_others(audited.scenario, data=dealt), audited.audited_tables
    data = random_data(audited.size, audited.records, generator)
    parts = audited.parts(scenario, data, tables, False)
    reception = receptions(tables)(subject.realization)
    if parts.server.summed is None:
        steps = parts.server.steps(reception)
        walk = np.sqrt(np.square(steps * np.repeat(reception.noise_std, reception.rounds)).sum())
        louder = pl.col("update_noise_std") * float(LOUD / walk if walk > 0 else 1.0)
        tables = tables | {"reception_noise": tables["reception_noise"].with_columns(louder)}
    used = trainings.training(parts, scenario, data, tables)
    start = used.begin(subject.realization)
    _, weights = used.tap([start])
    _, loss = used.parts.learner.evaluate([tf.constant(w) for w in weights], used.data)
    last = float(trainer(scenario, data, tables)(subject.realization)["loss"][-1])
    if not np.isfinite(last):  # then the tested training must have diverged, too
        loss = used.train([start])[0].losses[-1]
    off = abs(last - float(loss)) / max(abs(last), 1e-6) if np.isfinite([last, loss]).any() else 0.0
    yield audit.within(subject, audit.TRAINED, 1, 0.0, off, 0.0, CLOSE, CLOSE, "a loss {percent} off")
    held = np.concatenate(start.user_records)
    most = float(np.bincount(held).max())
    yield audit.within(subject, "users of a record", len(held), 1.0, most, 1.0, 1.0, 1.0, "{number} more user")


def side_by_side(
    audited: Audited,
    subject: audit.Subject,
    view: View | None,
    lively: datasets.Dataset,
    generator: np.random.Generator,
) -> Iterator[audit.Verdict]:
    """Test whether realizations trained as one compiled batch, as on a GPU, receive what each receives alone.

    Both of `blank` data and of the data `lively`. Yields nothing if the learner cannot be batched. It compiles a graph.
    """
    keys, off, size = [trainings.key_of(audited.scenario, run) for run in range(2)], [], 0
    blanks = blank(audited.size, audited.records)
    lively = lively._replace(x_test=blanks.x_test, y_test=blanks.y_test)
    for data in (blanks, lively):
        one = audited.training(data)
        try:
            both = audited.training(data, compiled=True)
        except NotImplementedError:
            return
        learner = one.parts.learner
        weights = learner.silent() if data is blanks else learner.start(lambda: generator)
        single, batched = (
            receive(used, [used.begin(subject.realization, view)._replace(weights=weights, key=key) for key in keys])
            for used, receive in ((one, received), (both, together))
        )
        scale, size = max(np.abs(part).max() for part in single), size + sum(part.size for part in single)
        off += [float(np.abs(a - b).max() / scale) for a, b in zip(batched, single, strict=True)]
    yield audit.within(
        subject, "side by side as alone", size, 0.0, max(off), 0.0, COMPILED, COMPILED, "{percent} of difference"
    )
