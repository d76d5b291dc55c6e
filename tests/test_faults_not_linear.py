"""What is put wrong in the systems whose air is not linear, and which test of their audits sees it."""

from functools import wraps

import numpy as np
import polars as pl
import pytest
import tensorflow as tf
from scipy import stats

import stage_of
import test_audits as audits
from conftest import in_turn
from pwfl import streams
from pwfl.execution.audit import AuditError
from pwfl.privacy import accountant, audit
from pwfl.scenario.values import replaced
from pwfl.systems.age_aware import account as age_account
from pwfl.systems.age_aware import age, markov
from pwfl.systems.age_aware import rounds as age_rounds
from pwfl.systems.age_aware import train as age_train
from pwfl.systems.utility_fair import account as fair_account
from pwfl.systems.utility_fair import copies, local_steps, uploads
from pwfl.systems.utility_fair import rounds as fair_rounds
from pwfl.systems.utility_fair import train as fair_train
from pwfl.training import trainings
from pwfl.training.batching import Draws, times

FEWER_STEPS = {"device": {"sample_bits": 100_000.0}}
NOISY = FEWER_STEPS | {"privacy": {"uploads": "noisy"}}
CLIPPED = FEWER_STEPS | audits.CLIPPED
AGED = {"privacy": {"target_epsilons": [0.5, 1.0]}, "schedule": {"times": [7, 8, 9]}}  # of 0 to 10
WAYS = {  # a system's name, changes of its scenario, and a scheme
    "copies": ("utility_fair", FEWER_STEPS, None),
    "shared copies": ("utility_fair", FEWER_STEPS, ("benchmark", "shared")),
    "uploads": ("utility_fair", NOISY, ("benchmark", "independent")),
    "clipped uploads": ("utility_fair", CLIPPED, None),
    "aged": ("age_aware", AGED, ("fixed", "adaptive")),
    "fresh": ("age_aware", {}, ("fresh", "constant")),
}
SEEDS = 5


@pytest.fixture(scope="module")
def made():
    """A function that gives what an audit of a way reads, made once."""
    kept = {}

    def of(way):
        if way not in kept:
            kept[way] = audits.stages(*WAYS[way])
        return kept[way]

    return of


def changed(module, name, change):
    """Another function in the place of one that its module's others look up: change(right, *arguments)."""

    def fault(monkeypatch):
        right = getattr(module, name)
        wrong = wraps(right)(lambda *given, **more: change(right, *given, **more))  # with its kind, if it has one
        audits.replace(monkeypatch, right, wrong)

    return fault


def epsilon_of(change):
    """The account of uploads and copies is of another rho."""
    right = accountant.exact_epsilon
    wrong = wraps(right)(lambda rho, delta: right(change(rho), delta))
    return lambda monkeypatch: monkeypatch.setattr(accountant, "exact_epsilon", wrong)


def rows(change):
    """Other normal numbers of messages, shape (..., message, coordinate): change(numbers, draws)."""

    def fault(monkeypatch):
        right = Draws.rows
        monkeypatch.setattr(Draws, "rows", lambda self, *given: change(right(self, *given), self))

    return fault


def of_copies(change):
    """Copies whose noise has other deviations, by a function of these."""

    def wrong(right, weights, noise, *rest):
        return right(weights, noise._replace(copy_std=change(noise.copy_std)), *rest)

    return changed(fair_rounds, "noisy_copies", wrong)


def of_uploads(change):
    """Uploads whose noise has other deviations, by a function of these."""
    return changed(fair_rounds, "noisy_uploads", lambda right, parts, std, *rest: right(parts, change(std), *rest))


def every_other(change):
    """Another `noisy_uploads` of updates alone, which come after gradients: change(right, *arguments)."""

    def fault(monkeypatch):
        calls = []

        def wrong(right, *given):
            calls.append(None)
            return right(*given) if len(calls) % 2 else change(right, *given)

        changed(fair_rounds, "noisy_uploads", wrong)(monkeypatch)

    return fault


def uniform(normal, _):
    return np.float32(np.sqrt(3)) * tf.math.erf(normal / np.float32(np.sqrt(2)))


def first_tensor_alone(right, weights, noise, draws, vectors):
    bare = right(weights, noise._replace(copy_std=tf.zeros_like(noise.copy_std)), draws, vectors)
    return [right(weights, noise, draws, vectors)[0], *bare[1:]]


def of_no_shared_noise(right, weights, noise, draws, vectors):
    devices = noise.vectors.shape[-1]
    return right(weights, noise._replace(vectors=tf.range(devices)), draws, devices)


def clipped_but_the_first(right, parts, clip_norm):
    norms = tf.norm(tf.concat([tf.reshape(p, [tf.shape(p)[0], -1]) for p in parts[1:]], axis=1), axis=1)
    return [times(tf.minimum(1.0, clip_norm / norms), p) for p in parts]


def clipped_means(right, weights, x, y, radius=None):
    mean, clip_norm = right(weights, x, y), radius * x.shape[1]
    return fair_rounds.clipped(mean, clip_norm)


def follows_data(right, parts, std, *rest):
    norms = tf.sqrt(tf.add_n([tf.reduce_sum(p**2, axis=list(range(1, p.shape.rank))) for p in parts]))
    return right(parts, std * (1 - 0.1 * tf.tanh(1e3 * norms)), *rest)


def tells_of_others(right, parts, *rest):
    return right([p + 0.01 * tf.reduce_mean(p, axis=0, keepdims=True) for p in parts], *rest)


def one_twice(right, *given):
    found = right(*given)
    found[:, 1] = found[:, 0]
    return found


def another_training(monkeypatch):
    right = fair_train.Training.train

    def wrong(self, realizations):
        def begin(realization):
            begun = self.begin(realization)
            return begun._replace(keys=[key + 1 for key in begun.keys])

        return right(self._replace(begin=begin), realizations)

    monkeypatch.setattr(fair_train.Training, "train", wrong)


def one_for_all_realizations(monkeypatch):
    right = streams.generator
    monkeypatch.setattr(streams, "generator", lambda seed, purpose, _: right(seed, purpose, 0))


def one_message_accounted(monkeypatch):
    monkeypatch.setattr(uploads, "SENT", 1)


def of_epsilon(module, change):
    """What is accounted for is another epsilon."""

    def wrong(right, *given):
        found = right(*given)
        return found | {"outcome": found["outcome"].with_columns(change(pl.col("epsilon")))}

    return changed(module, "run", wrong)


def of_laplace(change):
    """Other noise of unit scale in uploads, shape (draw, case, client)."""
    return changed(age_rounds, "uploads", lambda right, means, scale, noise: right(means, scale, change(noise)))


def of_chains(change):
    """Data of other clients."""
    return changed(
        age_rounds,
        "sample_means",
        lambda right, generator, clients, *rest: right(generator, change(clients), *rest),
    )


def of_means(change):
    """Other means than those of the data, shape (draw, client, time)."""
    return changed(age_rounds, "sample_means", lambda right, *given: change(right(*given)))


def frozen(clients):
    return clients._replace(transition=np.broadcast_to(np.eye(len(clients.states)), clients.transition.shape))


def fewer(share):
    return lambda clients: clients._replace(samples=np.maximum((share * clients.samples).astype(int), 1))


def from_the_stationary_law(clients):
    return clients._replace(start=np.array([markov.stationary(each) for each in clients.transition]))


def a_step_short(right, generator, clients, horizon, draws):
    means = right(generator, clients, max(horizon - 1, 0), draws)
    return means if not horizon else np.concatenate([means, means[..., -1:]], axis=-1)


def a_step_more(right, generator, clients, horizon, draws):
    means = right(generator, clients, horizon + 1 if horizon else 0, draws)
    return np.delete(means, -2, axis=-1) if horizon else means


def at_time(change):
    """Data that are collected at other times."""
    return changed(
        age_train,
        "released",
        lambda right, start, T, draws: right(start._replace(times=change(start.times, T)), T, draws),
    )


def noise_of_clients_that_follows_data(right, means, scale, noise):
    return right(means, scale * (1 + 1e-3 * means), noise)


DEVIATION, DISTRIBUTION, SCALE = "deviation of the noise", "distribution of the noise", "scale of the noise"
MESSAGES, ROUNDS, RUNS = (f"noise of different {them}" for them in ("messages of a round", "rounds", "runs"))
GRADIENT, UPDATE, STATES = "sensitivity of the gradient", "sensitivity of the update", "states of a record"
FOLLOWS, OTHERS = "noise that follows data", "signal of a record in other messages"
EACH, SEVERAL = "distribution for each client and case", "noise of different clients and cases"
TWO_POINTS = rows(lambda normal, _: tf.sign(normal))
FAULTS = {  # way, fault -> how it is made, and what sees it
    ("copies", "noise of two points"): (TWO_POINTS, DISTRIBUTION),
    ("copies", "uniform noise"): (rows(uniform), DISTRIBUTION),
    ("copies", "noise on the first tensor alone"): (
        changed(fair_rounds, "noisy_copies", first_tensor_alone),
        "deviation of each tensor's noise",
    ),
    ("copies", "noise 3 % low"): (of_copies(lambda std: 0.97 * std), DEVIATION),
    ("copies", "variance for deviation"): (of_copies(lambda std: std**2), DEVIATION),
    ("copies", "no noise for the last device"): (
        of_copies(lambda std: std * tf.constant([1.0, 1.0, 1.0, 0.0])),
        DEVIATION,
    ),
    ("copies", "less noise for who deviates"): (
        changed(copies, "scaled", lambda right, base, theta, deviation: base * (1 - theta * deviation)),
        DEVIATION,
    ),
    ("copies", "noise of the first rounds alone"): (
        rows(lambda normal, draws: normal * tf.cast(draws.t < 5, tf.float32)),
        DEVIATION,
    ),
    ("copies", "the same noise each round"): (
        lambda monkeypatch: monkeypatch.setattr(
            Draws, "rows", lambda self, *given, right=Draws.rows: right(self._replace(t=0 * self.t), *given)
        ),
        ROUNDS,
    ),
    ("copies", "noise that repeats"): (
        rows(lambda normal, _: tf.concat([normal[..., :600], normal[..., : normal.shape[-1] - 600]], axis=-1)),
        "noise of different coordinates",
    ),
    ("copies", "noise with a mean"): (rows(lambda normal, _: normal + 0.05), "mean of the noise"),
    ("copies", "a key for all realizations"): (audits.one_key, RUNS),
    ("copies", "a key for all schemes"): (audits.one_stream_for_all_schemes, RUNS),
    ("copies", "epsilon 5 % low"): (of_epsilon(fair_account, lambda epsilon: epsilon * 0.95), audit.LEAST),
    ("copies", "a round not accounted for"): (
        epsilon_of(lambda rho: 0.8 * rho),
        audit.LEAST,
    ),
    ("copies", "another training than is tapped"): (another_training, "loss of that model"),
    ("copies", "the mean x 1.02"): (
        changed(fair_rounds, "mean", lambda right, *given: 1.02 * right(*given)),
        "model of what was released",
    ),
    ("shared copies", "noise of their own"): (
        changed(fair_rounds, "noisy_copies", of_no_shared_noise),
        "noise that devices share",
    ),
    ("shared copies", "half the noise"): (of_copies(lambda std: std / 2), DEVIATION),
    ("uploads", "noise of two points"): (TWO_POINTS, DISTRIBUTION),
    ("uploads", "noise 3 % low"): (of_uploads(lambda std: 0.97 * std), DEVIATION),
    ("uploads", "half the noise of updates"): (
        every_other(lambda right, parts, std, *rest: right(parts, std / 2, *rest)),
        DEVIATION,
    ),
    ("uploads", "clean updates"): (every_other(lambda right, parts, *rest: parts), DEVIATION),
    ("uploads", "gradient and update with the same noise"): (audits.one_stream_for_both_messages, MESSAGES),
    ("uploads", "a vector for all devices"): (
        rows(lambda normal, _: tf.repeat(normal[..., :1, :], normal.shape[-2], axis=-2)),
        MESSAGES,
    ),
    ("uploads", "noise that cancels in the mean"): (
        rows(lambda normal, _: (normal - tf.reduce_mean(normal, axis=-2, keepdims=True)) * np.sqrt(4 / 3)),
        MESSAGES,
    ),
    ("uploads", "noise that follows data"): (changed(fair_rounds, "noisy_uploads", follows_data), FOLLOWS),
    ("uploads", "uploads that tell of others' records"): (
        changed(fair_rounds, "noisy_uploads", tells_of_others),
        OTHERS,
    ),
    ("uploads", "one message accounted for"): (one_message_accounted, audit.LEAST),
    ("clipped uploads", "gradients clipped to 1.05"): (
        changed(local_steps, "gradients", lambda right, w, x, y, radius: right(w, x, y, 1.05 * radius)),
        GRADIENT,
    ),
    ("clipped uploads", "updates clipped to 1.05"): (
        changed(fair_rounds, "clipped", lambda right, parts, norm: right(parts, 1.05 * norm)),
        UPDATE,
    ),
    ("clipped uploads", "gradients clipped without a layer"): (
        changed(local_steps, "_squares", lambda right, a: right(a) * float(a.shape[-1] != 16)),
        GRADIENT,
    ),
    ("clipped uploads", "updates clipped without a tensor"): (
        changed(fair_rounds, "clipped", clipped_but_the_first),
        UPDATE,
    ),
    ("clipped uploads", "means are clipped"): (changed(local_steps, "gradients", clipped_means), GRADIENT),
    ("clipped uploads", "gradients x 1.1"): (
        changed(local_steps, "gradients", lambda right, *given: [1.1 * g for g in right(*given)]),
        GRADIENT,
    ),
    ("clipped uploads", "updates x 1.1"): (
        changed(fair_rounds, "near", lambda right, *given: [1.1 * u for u in right(*given)]),
        UPDATE,
    ),
    ("clipped uploads", "a record twice in a batch"): (changed(fair_train, "batches", one_twice), GRADIENT),
    ("clipped uploads", "noise that follows data"): (changed(fair_rounds, "noisy_uploads", follows_data), FOLLOWS),
    ("clipped uploads", "half the sensitivity"): (
        changed(uploads, "sensitivity", lambda right, *given: right(*given) / 2),
        GRADIENT,
    ),
    ("clipped uploads", "one message accounted for"): (one_message_accounted, audit.RECORD),
    ("aged", "noise of two points"): (of_laplace(np.sign), DISTRIBUTION),
    ("aged", "uniform noise"): (
        of_laplace(lambda noise: 2 * np.sign(noise) * (1 - np.exp(-np.abs(noise)))),
        DISTRIBUTION,
    ),
    ("aged", "normal noise"): (
        of_laplace(lambda noise: np.sqrt(2) * stats.norm.ppf(stats.laplace.cdf(noise))),
        DISTRIBUTION,
    ),
    ("aged", "half the scale"): (of_laplace(lambda noise: noise / 2), SCALE),
    ("aged", "noise 3 % low"): (of_laplace(lambda noise: 0.97 * noise), SCALE),
    ("aged", "the squared scale"): (
        changed(age_rounds, "uploads", lambda right, means, scale, noise: right(means, scale**2, noise)),
        SCALE,
    ),
    ("aged", "half the scale of one client"): (
        of_laplace(lambda noise: noise * np.where(np.arange(noise.shape[-1]) == 1, 0.5, 1.0)),
        EACH,
    ),
    ("aged", "half the scale in tables"): (
        changed(age, "laplace_scale", lambda right, *given: right(*given) / 2),
        SCALE,
    ),
    ("aged", "noise with a mean"): (of_laplace(lambda noise: noise + 0.05), "mean of the noise"),
    ("aged", "one noise for all clients"): (of_laplace(lambda noise: noise[..., :1]), SEVERAL),
    ("aged", "one noise for all cases"): (of_laplace(lambda noise: noise[:, :1]), SEVERAL),
    ("aged", "noise that repeats"): (
        of_laplace(lambda noise: noise[np.arange(len(noise)) % (len(noise) // 50)]),
        "noise that occurs again",
    ),
    ("aged", "one noise for all realizations"): (one_for_all_realizations, RUNS),
    ("aged", "one noise for all schemes"): (audits.one_stream_for_all_schemes, "noise of different schemes"),
    ("aged", "noise that follows data"): (
        changed(age_rounds, "uploads", noise_of_clients_that_follows_data),
        "sensitivity",
    ),
    ("aged", "sums of records"): (of_means(lambda means: 2 * means), "sensitivity"),
    ("aged", "means of half the records"): (of_chains(fewer(0.5)), "sensitivity"),
    ("aged", "means of 95 % of the records"): (of_chains(fewer(0.95)), "sensitivity"),
    ("aged", "means x 1.05"): (of_means(lambda means: 1.05 * means), "sensitivity"),
    ("aged", "a chain backwards"): (
        of_chains(lambda clients: clients._replace(transition=_backwards(clients.transition))),
        STATES,
    ),
    ("aged", "data that never change"): (of_chains(frozen), STATES),
    ("aged", "a start that is ignored"): (of_chains(from_the_stationary_law), STATES),
    ("aged", "a step short"): (changed(age_rounds, "sample_means", a_step_short), STATES),
    ("aged", "a step more"): (changed(age_rounds, "sample_means", a_step_more), STATES),
    ("aged", "collected a step late"): (at_time(lambda times, T: np.minimum(times + 1, T)), STATES),
    ("aged", "collected a step early"): (at_time(lambda times, T: np.maximum(times - 1, 0)), STATES),
    ("aged", "all collected fresh"): (at_time(np.full_like), STATES),
    ("aged", "all collected at first"): (at_time(lambda times, T: np.zeros_like(times)), STATES),
    ("aged", "chains of each other"): (
        of_chains(lambda clients: clients._replace(transition=clients.transition[::-1])),
        STATES,
    ),
    ("aged", "kernels of chains of double steps"): (
        changed(markov, "reverse_kernels", lambda right, p, *rest: right(p @ p, *rest)),
        "largest privacy loss",
    ),
    ("aged", "an age more accounted for"): (
        changed(markov, "reverse_kernels", lambda right, *given: right(*given)[[0, *range(len(right(*given)) - 1)]]),
        "largest privacy loss",
    ),
    ("aged", "epsilon 5 % low"): (
        changed(age, "exact_epsilon", lambda right, *given: 0.95 * right(*given)),
        "largest privacy loss",
    ),
    ("fresh", "noise 3 % low"): (of_laplace(lambda noise: 0.97 * noise), SCALE),
    ("fresh", "epsilon 5 % low"): (
        of_epsilon(age_account, lambda epsilon: epsilon * 0.95),
        "largest privacy loss",
    ),
}


def _backwards(transition):
    """The transposed matrix, its rows made laws."""
    swapped = np.swapaxes(transition, -1, -2)
    return swapped / swapped.sum(axis=-1, keepdims=True)


ANEW = {  # of stages before the training
    ("copies", "epsilon 5 % low"),
    ("copies", "a round not accounted for"),
    ("uploads", "one message accounted for"),
    ("clipped uploads", "half the sensitivity"),
    ("clipped uploads", "one message accounted for"),
    ("aged", "half the scale in tables"),
    ("aged", "kernels of chains of double steps"),
    ("aged", "an age more accounted for"),
    ("aged", "epsilon 5 % low"),
    ("fresh", "epsilon 5 % low"),
}
QUICK = (
    ("copies", "noise of two points"),
    ("copies", "less noise for who deviates"),
    ("shared copies", "noise of their own"),
    ("uploads", "noise that follows data"),
    ("clipped uploads", "updates clipped to 1.05"),
    ("aged", "normal noise"),
    ("aged", "one noise for all cases"),
    ("aged", "means of half the records"),
    ("aged", "a start that is ignored"),
    ("aged", "collected a step late"),
    ("aged", "epsilon 5 % low"),
)


def seen(made, monkeypatch, case, seed=None):
    """Whether the test that is for a fault, the audit of another seed or the training's own, sees it."""
    fault, test = FAULTS[case]
    parameters, found = (None, None) if case in ANEW else made(case[0])
    fault(monkeypatch)
    if found is None:
        parameters, found = audits.stages(*WAYS[case[0]])
    if seed is not None:
        parameters = replaced(parameters, "seed", seed)
    return any(name.startswith(test) for name in audits.violated(stage_of.audit(parameters, found)))


@pytest.mark.parametrize(("way", "name"), in_turn(FAULTS, *QUICK))
def test_a_fault_is_seen_by_the_test_that_is_for_it(made, monkeypatch, way, name):
    assert seen(made, monkeypatch, (way, name))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 10 + SEEDS))
@pytest.mark.parametrize(("way", "name"), FAULTS)
def test_a_fault_is_seen_with_every_seed(made, monkeypatch, way, name, seed):
    assert seen(made, monkeypatch, (way, name), seed)


@pytest.mark.parametrize("way", in_turn(WAYS, "shared copies", "aged"))
def test_the_code_as_it_is_passes(made, way):
    parameters, found = made(way)
    frame = stage_of.audit(parameters, found)
    assert set(frame["status"]) == {"passed"}
    assert found["outcome"]["epsilon"].max() in frame["epsilon"].to_list()
    if way == "aged":  # whatever is worst off, data that have aged are audited
        assert not all(", of age 0," in observer for observer in frame["observer"])


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_code_as_it_is_passes_with_every_seed(made, way):
    parameters, found = made(way)
    for seed in range(50):
        assert not audits.violated(stage_of.audit(replaced(parameters, "seed", seed), found)), seed


BETWEEN = {  # what stands between records and what is released of them
    "clipped uploads": (
        (fair_train, "training", "batches", "choose", "copy_noise"),
        (fair_rounds, "round_function", "noisy_copies", "noisy_uploads", "near", "clipped", "mean", "cosines"),
        (local_steps, "losses", "gradients", "updates", "straight"),
        (copies, "scaled", "deviations"),
        (trainings, "beginnings", "key_of"),
    ),
    "aged": (
        (age_train, "beginnings", "released"),
        (age_rounds, "sample_means", "uploads"),
    ),
}
QUICK_ONES = (("clipped uploads", fair_rounds, "noisy_uploads"), ("aged", age_rounds, "sample_means"))
EVERY = [(way, module, name) for way, each in BETWEEN.items() for module, *names in each for name in names]


@pytest.mark.parametrize(("way", "module", "name"), in_turn(EVERY, *QUICK_ONES))
def test_an_audit_needs_all_that_trains(made, monkeypatch, way, module, name):
    parameters, found = made(way)

    def broken(*given, **more):
        raise ZeroDivisionError("not today")

    audits.replace(monkeypatch, getattr(module, name), broken)
    with pytest.raises(AuditError, match="not today"):
        stage_of.audit(parameters, found)
