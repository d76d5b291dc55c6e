"""Privacy audit of the system `utility_fair`: tests of the copies and uploads that its training code releases.

- Noise: messages from data and model parameters without a gradient. Fixed messages are received in their place:
  parameters without a gradient as copies, zeros as gradients, and updates by which devices deviate in turn.
- Signal: the distance by which a replaced record moves its device's gradient and update, with the same keys. It moves
  no other message. Only clipping bounds the distance. Otherwise S_f is assumed, and the test is that epsilon follows
  from S_f over the noise.
- Model: it must follow from the released updates.

Iterations change neither noise nor sensitivity: except where the model is tested, devices compute few.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, count, islice
from math import ceil
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.learning import features
from pwfl.privacy import audit
from pwfl.process.tensorflow import tf
from pwfl.systems.utility_fair import link, uploads
from pwfl.systems.utility_fair.parameters import UtilityFair
from pwfl.systems.utility_fair.rounds import COPIES, GRADIENTS, STREAMS, UPDATES
from pwfl.systems.utility_fair.train import Began, Training, training
from pwfl.training import trainings
from pwfl.training.audits import audited as audits
from pwfl.training.audits import model as audited_model
from pwfl.training.audits import noise as audited_noise
from pwfl.training.audits import received as audited_received

SENT = {GRADIENTS: "gradient", UPDATES: "update"}  # messages of a device in a round
TAKEN = 2**19  # largest number of noise values in a test, about: of more, some consecutive ones of each tensor
NARROW = 64  # least number of coordinates that a tensor contributes
FEW = 2  # rounds in tests of other runs' noise and of a signal; copies have noise from the second on
STEPS = 2  # local iterations, enough for a record to reverse an update
TRAINED = 3  # rounds after which the model is tested
OUTWEIGHED = 100.0  # factor by which an adversarial record's gradient exceeds the clipping norms of a batch


def verdicts(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Test the messages of the outcome's observer against the exact epsilon.

    If uploads are clean: all devices' copies of all noisy rounds, at deviation 0. If they are noisy: one device's
    uploads.
    """
    outcome, clip_norm = audit.worst(tables["outcome"]), scenario.training.clip_norm
    realization = outcome["realization"]
    picked = {name: tables[name].filter(realization=realization) for name in ("users", "schedule", "noise")}
    noisy = not picked["noise"]["upload_std"].null_count()
    subject = audit.Subject(
        realization, observed(picked["noise"], noisy, clip_norm), outcome["delta"], outcome["epsilon"]
    )
    if np.isinf(outcome["epsilon"]):
        yield audit.untested(subject)
        return

    generator = streams.generator(scenario.seed, "audit", realization)
    size, records = features.size(scenario), int(picked["users"]["samples"].sum())
    data = audits.random_data(size, records, generator)
    z = link.least_z(link.limits(scenario.radio, scenario.device)._replace(min_iterations=STEPS))
    power = link.power_w(z, picked["schedule"]["unit_power_w"].to_numpy())
    least = picked["schedule"].with_columns(power_w=pl.when("takes_part").then(power).otherwise(0.0))
    used = training(scenario, data, picked | {"schedule": least}, deal=audits.in_turn)
    if why := used.model.untested():
        yield audit.untested(subject, why)
        return
    silent = used._replace(data=audits.blank(size, records))
    whole, released = silence(subject, silent, generator)
    yield from whole
    rows = released.rows
    yield from audit_one_record(subject, used, rows, generator)

    std, rounds = picked["noise"].sort("device")["upload_std" if noisy else "copy_std"].to_numpy(), len(rows)
    if noisy:
        stated = uploads.sensitivity(clip_norm, scenario.device.batch_size, scenario.privacy.sensitivity)
        mu = np.full((rounds, len(SENT)), stated / std.min())
    else:
        stated = scenario.privacy.sensitivity
        mu = np.tile(stated / std[released.first], (rounds - 1, 1))  # the first round's copies are clean
    yield audit.at_least(subject, audit.gaussian_epsilon(float(np.linalg.norm(mu)), subject.delta))
    most, reached = np.ones(mu.shape[1]), True
    if clip_norm is not None:
        reached = used.model.known
        moved = moves(silent, subject.realization, rows, generator) / stated
        takes_part = picked["schedule"]["takes_part"].any()  # otherwise no record moves an update
        for purpose, share in zip(SENT, moved, strict=True):
            sent = takes_part or purpose == GRADIENTS
            yield audit.sensitivity(subject, share, 1.0, SENT[purpose], reached and sent)
        reached = reached and takes_part
        most = moved.max(axis=(1, 2, 3))
    mu_total = float(np.sqrt(((mu * most) ** 2).sum()))
    reached = reached and outcome["epsilon"] > 0  # epsilon 0 is also that of smaller mu
    low, high = audit.REACHED * subject.mu * reached, (1 + audit.ROUNDING) * subject.mu
    seen = audit.ROUNDING if reached else max(audit.ROUNDING, high / max(mu_total, audit.NO_MOVE * high) - 1)
    test = audit.RECORD + ", its sensitivity assumed" * (clip_norm is None)
    yield audit.within(subject, test, mu.size, subject.mu, mu_total, low, high, seen, "mu {percent} too low")
    first = picked["schedule"].filter(pl.col("round") <= TRAINED)
    yield from model(subject, training(scenario, data, picked | {"schedule": first}, deal=audits.in_turn))


def observed(noise: pl.DataFrame, noisy: bool, clip_norm: float | None) -> str:
    """Describe the observer's messages, and the assumption on their sensitivity."""
    if noisy:
        assumption = "S_f apart, as is assumed" if clip_norm is None else "clipped"
        return f"a device's gradients and updates of every round; each {assumption}"
    shared = ", which devices share" * (noise["noise_vector"].n_unique() < len(noise))
    return f"all devices' copies of every noisy round{shared}; models S_f apart, as is assumed"


class Released(NamedTuple):
    """Messages released without a signal, and their batches.

    Attributes
    ----------
    parts
        Coordinates of each tensor, shape (round, message, coordinate).
    std
        Stated standard deviations, shape (round, message); 0: the message is clean.
    difference
        Largest difference between copies with the same noise vector, in standard deviations.
    first
        The first device of each noise vector.
    rows
        Indices in the training data, shape (round, device, sample).
    """

    parts: list[np.ndarray]
    std: np.ndarray
    difference: float
    first: np.ndarray
    rows: np.ndarray


def silence(
    subject: audit.Subject, used: Training, generator: np.random.Generator
) -> tuple[list[audit.Verdict], Released]:
    """Test the noise of all messages, from enough runs; return the verdicts and the first run's messages."""
    start, scenario, sizes = used.begin(subject.realization), used.scenario, [np.prod(s) for s in used.model.shapes]
    (rounds, devices), noisy = start.plan.theta.shape, not np.isnan(start.plan.upload_std).any()
    messages = len(np.unique(start.plan.noise_vector[0])) + len(SENT) * devices * noisy
    share = min(1.0, TAKEN / (rounds * messages * sum(sizes)))
    widths = [max(ceil(share * size), min(size, NARROW)) for size in sizes]
    starts = [int(generator.integers(size - width + 1)) for size, width in zip(sizes, widths, strict=True)]
    some = [slice(place, place + width) for place, width in zip(starts, widths, strict=True)]

    def run(keys: list[np.int64], rounds: int = rounds) -> Released:
        return in_silence(used, start._replace(keys=keys), some, rounds)

    first, realizations = run(start.keys), count(start.realization + 1)
    further = ([trainings.key_of(scenario, k, purpose) for purpose in STREAMS] for k in realizations)
    lacking = ceil(audit.DRAWS / ((first.std > 0).sum() * sum(widths))) - 1
    runs = [first, *map(run, islice(further, min(max(lacking, 0), audited_noise.MOST)))]
    parts = [np.concatenate(release, axis=1) for release in zip(*(release.parts for release in runs), strict=True)]
    std = np.concatenate([release.std for release in runs], axis=1)
    verdicts = list(audited_noise.noise(subject, parts, std, "messages of a round", others=0))
    streams_of = [streams.name_noise(scenario, start.realization, purpose, "another release") for purpose in STREAMS]
    other = [np.int64(streams.key(*stream)) for stream in streams_of]
    groups = np.concatenate([scaled(first), *(scaled(run(keys, FEW)) for keys in (next(further), other))])
    verdicts.append(audit.correlation(subject, "noise of different runs", groups))
    if len(first.first) < devices:
        most, same = max(release.difference for release in runs), audited_received.SAME
        fault = "copies {number} deviations apart"
        verdicts.append(audit.within(subject, "noise that devices share", std.size, 0.0, most, 0.0, same, same, fault))
    return verdicts, first


def in_silence(used: Training, start: Began, some: Sequence[slice], rounds: int) -> Released:
    """Release some coordinates of messages without a signal in the first rounds; devices deviate by 0 and 1 in turn."""
    plan, zeros = start.plan, [np.zeros(shape, np.float32) for shape in used.model.shapes]
    devices, noisy = plan.theta.shape[1], not np.isnan(plan.upload_std).any()
    first, vector = np.unique(plan.noise_vector[0], return_index=True, return_inverse=True)[1:]
    quiet = in_place(used.model.silent(), devices)

    def along(t: int) -> np.ndarray:
        """Return which devices' updates do not deviate in round t (if they take part), boolean, shape (device,)."""
        return (np.arange(devices) + t) % 2 == 0

    def still(t: int) -> dict:
        updates = [np.zeros((devices, *w.shape), np.float32) for w in zeros]
        updates[-1][along(t), 0] = plan.copy_std.max()
        return quiet | {UPDATES: [tf.constant(update) for update in updates]}

    parts, stds, rows, difference = [], [], [], 0.0
    model, std = zeros, np.zeros(devices)  # the first round's copies are clean
    for t, played in enumerate(islice(used.rounds([start._replace(weights=zeros)], still), rounds), 1):
        copied = zip(flat(played.released[COPIES], some), flat([w[None] for w in model], some), strict=True)
        noise = [copies - weights for copies, weights in copied]
        differ = max(np.abs(part - part[first[vector]]).max() for part in noise)
        difference = max(difference, differ / std.min() if std.any() else differ)
        messages = [[part[first] for part in noise]] + [flat(played.released[sent], some) for sent in SENT if noisy]
        parts.append([np.concatenate(message) for message in zip(*messages, strict=True)])
        stds.append(np.concatenate([std[first], *[plan.upload_std[t - 1]] * (len(SENT) * noisy)]))
        rows.append(played.rows[0])
        model = [np.asarray(w) for w in played.weights]
        deviation = np.where(along(t) & (played.played.choice.iterations[0] > 0), 0.0, 1.0)
        std = plan.copy_std[t - 1] / (1 - plan.theta[t - 1] * deviation)  # (14)
    parts = [np.stack(message) for message in zip(*parts, strict=True)]
    return Released(parts, np.stack(stds), float(difference), first, np.stack(rows))


def scaled(released: Released) -> np.ndarray:
    """Divide all noisy messages by their standard deviations, shape (message, coordinate)."""
    noisy = released.std > 0
    return np.concatenate(released.parts, axis=2)[noisy] / released.std[noisy][:, None]


def audit_one_record(
    subject: audit.Subject, used: Training, rows: np.ndarray, generator: np.random.Generator
) -> Iterator[audit.Verdict]:
    """Test whether noise is independent of the data, and whether a record moves only its device's uploads.

    If so, no difference of messages depends on the noise. Compared are random data, the same with another record of the
    first device, and data without a gradient.
    """
    x, place, start = used.data.x_train.copy(), rows[0, 0, 0], used.begin(subject.realization)
    x[place] = generator.random(x.shape[1])
    none = with_data(used, x_train=np.zeros_like(x), y_train=np.zeros_like(used.data.y_train))
    still, quiet = (in_place(weights, rows.shape[1]) for weights in (start.weights, used.model.silent()))
    cases = (used, still), (with_data(used, x_train=x), still), (none, quiet)
    others = start._replace(keys=[key + 1 for key in start.keys])
    seen = np.array([[released_of(data, run, instead) for data, instead in cases] for run in (start, others)])
    moved, noises = seen[:, :1] - seen[:, 1:], seen[0, 0] - seen[1, 0]  # (noise, data, purpose, round, device, ...)
    most, same = float(np.abs(moved[0] - moved[1]).max() / max(np.abs(noises).max(), 1e-30)), audit.ROUNDING
    fault = "noise that changes by {percent}"
    yield audit.within(subject, "noise that follows data", moved[0].size, 0.0, most, 0.0, same, same, fault)
    moved = moved[0, 0]
    drawn = (rows[:FEW, 0] == place).any(axis=1)
    sent = np.array([STREAMS.index(purpose) for purpose in SENT])
    moved[np.ix_(sent, np.flatnonzero(drawn), np.array([0]))] = 0.0
    most, fault = float(np.abs(moved).max()), "a move of {number}"
    yield audit.within(subject, "signal of a record in other messages", moved.size, 0.0, most, 0.0, 0.0, 0.0, fault)


def moves(used: Training, realization: int, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Compute how far a replaced record of each device moves its uploads, shape (message, case, round, device).

    All other records are blank. The average gradient, from which an update starts, reverses the last layer: records
    that the copy assigns to each other's class are assigned to their true classes after a step.
    """
    training, start, moved = used.scenario.training, used.begin(realization), []
    outweighed = OUTWEIGHED * used.scenario.device.batch_size * max(training.clip_norm or 0.0, 1.0)
    first = int(start.plan.takes_part.any(axis=1).argmax())  # the first round in which any device takes part
    places = rows[first, :, 0]
    for case in used.model.opposed(outweighed, generator):
        around = 2 / training.learning_rate * (case.weights[-1] >= 0)  # of the two classes
        direction = [np.zeros_like(w) for w in case.weights[:-2]] + [around * w for w in case.weights[-2:]]
        instead = in_place(case.weights, rows.shape[1], direction)
        seen = [released_of(used, start, instead, first)]  # without either record
        for record, label in zip(case.x, case.y, strict=True):
            x, y = used.data.x_train.copy(), used.data.y_train.copy()
            x[places], y[places] = record, label
            seen.append(released_of(with_data(used, x_train=x, y_train=y), start, instead, first))
        distances = [np.linalg.norm(one - other, axis=3) for one, other in combinations(seen, 2)]
        moved.append(np.max(distances, axis=0))
    return np.stack(moved, axis=1)[[STREAMS.index(purpose) for purpose in SENT]]


def with_data(used: Training, **changed: np.ndarray) -> Training:
    """Return a `Training` with some arrays of data replaced."""
    return used._replace(data=used.data._replace(**changed))


def released_of(used: Training, start: Began, instead: dict, first: int = 0) -> np.ndarray:
    """Compute all messages of FEW rounds from index `first` on, float64, shape (purpose, round, device, coordinate)."""
    every = [slice(None)] * len(start.weights)
    parts = [
        [np.concatenate(flat(played.released[purpose], every), axis=1) for purpose in STREAMS]
        for played in islice(used.rounds([start], lambda t: instead), first, first + FEW)
    ]
    return np.stack(parts, axis=1)


def model(subject: audit.Subject, used: Training) -> Iterator[audit.Verdict]:
    """Test whether the model moves by the mean of released updates in each round, and is the one that is evaluated."""
    start, close = used.begin(subject.realization), audited_model.CLOSE
    path = [w.astype(float) for w in start.weights]
    end = start.weights
    for played in used.rounds([start]):
        active = played.played.choice.iterations[0] > 0
        if active.any():
            path = [w + u.numpy()[active].mean(axis=0) for w, u in zip(path, played.released[UPDATES], strict=True)]
        end = played.weights
    scale = max(np.abs(w).max() for w in path)
    off = max(np.abs(w - e).max() for w, e in zip(path, end, strict=True)) / scale
    draws, fault = sum(w.size for w in path), "a model {percent} off"
    yield audit.within(subject, "model of what was released", draws, 0.0, float(off), 0.0, close, close, fault)
    _, loss = used.model.evaluate([tf.constant(w, tf.float32) for w in path], used.data.x_test, used.data.y_test)
    last = used.train([subject.realization])[subject.realization]["loss"].drop_nulls()[-1]
    error = abs(last - float(loss)) / max(abs(last), 1e-6)
    yield audit.within(subject, "loss of that model", 1, 0.0, error, 0.0, close, close, "a loss {percent} off")


def flat(parts: Sequence, some: Sequence[slice]) -> list[np.ndarray]:
    """Select coordinates of tensors of shape (device, ...), as float64 arrays of shape (device, coordinate)."""
    return [np.reshape(part, (len(part), -1))[:, span].astype(float) for part, span in zip(parts, some, strict=True)]


def in_place(copies: Sequence[np.ndarray], devices: int, gradients: Sequence[np.ndarray] | None = None) -> dict:
    """Return fixed messages to receive in place of the released ones: equal for all devices, with updates of zeros."""
    zeros = [np.zeros_like(w) for w in copies]
    parts = {COPIES: copies, GRADIENTS: gradients or zeros, UPDATES: zeros}
    return {
        purpose: [tf.constant(np.repeat(w[None], devices, axis=0), tf.float32) for w in weights]
        for purpose, weights in parts.items()
    }
