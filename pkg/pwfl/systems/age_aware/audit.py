"""Audit of the system `age_aware`: its own training, tapped where clients upload, of other data.

- Noise is what is uploaded of data that are zero.
- Sensitivity is how far uploads of the same noise lie apart whose data differ in one record, of data that never change.
- Chains are those of single records, all others being taken away: uploads less their noise tell the state when it is
  collected. This and the state at T have the law by which chains are defined, and so have the losses of an observer
  who asks about the state at T.

The client that is worst off at T may upload fresh data, which show nothing of a chain. Then another one is audited,
too, whose data have aged.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl
from scipy import stats
from scipy.special import logsumexp

from pwfl import streams
from pwfl.privacy import audit
from pwfl.systems.age_aware.parameters import AgeAware
from pwfl.systems.age_aware.train import Start, beginnings, released
from pwfl.tables.arrays import joined, to_array

CHAINS = 6  # simulated for each canary asked for: they are cheap, and count where they end in one of two states
CELL, TAIL = 1e-3, 20.0  # of an upload, and how far out it is looked at, in scales of its noise
FEW = 50  # draws at least of what differs in few records, and of each client's noise
CHAINED = 2  # clients whose chains are looked at beside the audited one's, at most
EXACT = 1e-6  # of the states' range: to which uploads less their noise are a state
AGAIN, BY_CHANCE = 1e-15, 3  # the same number of noise, but for rounding; how many pairs may be alike by chance
LAPLACE = stats.laplace.cdf, 0.0  # what a distribution of noise is held to
FOUND = "states of a record when it is collected and at T"


def verdicts(scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """On the noisy upload of the worst-off client of the worst-off case, held to the exact epsilon at T.

    If its data are fresh, on that of the worst-off client whose data have aged, too, in whichever case that is.
    """
    outcome, by_epsilon = audit.worst(tables["outcome"]), pl.col("epsilon")
    leakage = tables["leakage"].filter(by_epsilon.is_finite()).sort(by_epsilon, descending=True, maintain_order=True)
    if np.isinf(outcome["epsilon"]):
        yield audit.untested(audit.Subject(outcome["realization"], "every upload", outcome["delta"], np.inf))
        return
    worst = leakage.filter(realization=outcome["realization"], case=outcome["case"]).row(0, named=True)
    subject = subject_of(worst, outcome["epsilon"], outcome["delta"])
    yield from noise(subject, scenario, tables)
    yield sensitivity(subject, scenario, tables)
    yield from chain(subject, scenario, tables, worst)
    aged = leakage.filter(pl.col("age") > 0)
    if worst["age"] == 0 and len(aged):
        other = aged.row(0, named=True)
        yield from chain(subject_of(other, other["epsilon"], outcome["delta"]), scenario, tables, other)


def subject_of(row: dict, epsilon: float, delta: float) -> audit.Subject:
    """What is stated of a client's upload in a case, a row of `leakage`."""
    observer = f"client {row['user']}'s upload, of age {row['age']}, target {row['target_epsilon']:g}"
    return audit.Subject(row["realization"], f"{observer}; a record as it is at T", delta, epsilon)


def begin_training(scenario: AgeAware, tables: dict[str, pl.DataFrame], users: pl.DataFrame) -> Start:
    """What a realization's training begins with, of some of its `users` only, whose data may be others."""
    keys = ["realization", "user"]
    selected = {name: tables[name].join(users, on=keys, how="semi") for name in ("schedule", "noise")}
    return beginnings(scenario, selected | {"users": users})(users["realization"][0])


def users_of(tables: dict[str, pl.DataFrame], realization: int) -> pl.DataFrame:
    """The clients of a realization, in order."""
    return tables["users"].filter(realization=realization).sort("user")


def unchanging(users: pl.DataFrame, start: np.ndarray) -> pl.DataFrame:
    """Clients whose data stay as they are at first, by laws of shape (user, state)."""
    same = [np.eye(start.shape[1]).tolist()] * len(users)
    return users.with_columns(start=pl.Series(start.tolist()), transition=pl.Series(same))


def uploaded_at_once(start: Start, draws: int) -> np.ndarray:
    """What clients upload, shape (draw, case, user), of data collected at T = 0."""
    return released(start._replace(times=np.zeros_like(start.times)), 0, draws)[0]


def silent(users: pl.DataFrame) -> pl.DataFrame:
    """Clients whose data are zero."""
    states = len(users["states_wh"][0])
    zeros = users.with_columns(states_wh=pl.Series([[0.0] * states] * len(users)))
    return unchanging(zeros, np.tile(np.eye(states)[0], (len(users), 1)))


def noise(subject: audit.Subject, scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Tests of the noise of all clients in all cases of a realization, over the scales that are stated."""
    users = users_of(tables, subject.realization)
    stated = joined(tables["leakage"].filter(realization=subject.realization), users.drop("realization"), "user")
    scale = to_array(stated.with_columns(scale=moved_by_one() / pl.col("epsilon_classical")), "scale", "case", "user")
    draws, realization = max(-(-audit.DRAWS // (audit.STREAMS * scale.size)), FEW), subject.realization
    other = streams.name_noise(scenario, realization, "noise", "another release")
    first, further, other_drawn = (begin_training(scenario, tables, silent(users)) for _ in range(audit.STREAMS))
    runs = (
        first,
        further._replace(noise=streams.generator(*streams.name_noise(scenario, realization + 1))),
        other_drawn._replace(noise=streams.generator(*other)),
    )
    drawn = np.array([uploaded_at_once(run, draws) for run in runs]) / scale  # (run, draw, case, user)
    yield from audit.laplace(subject, drawn.reshape(len(runs), 1, -1), 1.0)
    yield audit.distribution(subject, "distribution of the noise", drawn, *LAPLACE)
    gaps = np.diff(np.sort(drawn, axis=None))
    again, fault = int((gaps <= AGAIN).sum()), "{number} numbers that occur twice"
    yield audit.within(subject, "noise that occurs again", drawn.size, 0.0, again, 0.0, BY_CHANCE, BY_CHANCE + 1, fault)
    columns = drawn.reshape(-1, scale.size).T
    if len(columns) > 1:
        yield audit.worst_of(audit.distribution, subject, "distribution for each client and case", columns, *LAPLACE)
        normal = np.sign(columns) * stats.norm.isf(stats.laplace.sf(np.abs(columns)))
        yield audit.correlation(subject, "noise of different clients and cases", normal)


def moved_by_one() -> pl.Expr:
    """By how much a record moves the mean of a client's records at most, of the table `users`."""
    states = pl.col("states_wh").list
    return (states.max() - states.min()) / pl.col("samples")


def sensitivity(subject: audit.Subject, scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> audit.Verdict:
    """How far a record moves its client's upload: all of them together by as many times, and some by whole times."""
    users = users_of(tables, subject.realization)
    samples, one = users["samples"].to_numpy(), users.select(moved_by_one()).to_series().to_numpy()
    states = np.array(users["states_wh"].to_list())
    least, most = np.eye(states.shape[1])[[states[0].argmin(), states[0].argmax()]]
    few = np.minimum(1 / samples, 0.5)[:, None]  # of all records, about one is the largest state
    laws = (np.tile(least, (len(users), 1)), np.tile(most, (len(users), 1)), (1 - few) * least + few * most)
    none, every, some = (
        uploaded_at_once(begin_training(scenario, tables, unchanging(users, law)), FEW) for law in laws
    )
    counted = (some - none) / one  # records
    whole = np.rint(counted)
    steps = [np.diff(np.unique(whole[..., user])).min(initial=np.inf) for user in range(len(users))]
    share = [max(steps) + np.abs(counted - whole).max(), np.abs((every - none) / one / samples).max()]
    return audit.sensitivity(subject, np.array(share), 1.0)


def chain(
    subject: audit.Subject, scenario: AgeAware, tables: dict[str, pl.DataFrame], row: dict
) -> Iterator[audit.Verdict]:
    """Tests of records' states, and of what the upload of a client, a row of `leakage`, tells of one at T."""
    horizon, every = scenario.schedule.horizon, users_of(tables, subject.realization)
    users = every.join(chained(tables["leakage"], every, row), on="user", how="semi", maintain_order="left")
    samples, states = users["samples"].to_numpy(), np.array(users["states_wh"][0])
    single = users.with_columns(samples=pl.lit(1, pl.Int64))

    start, bare = (begin_training(scenario, tables, data) for data in (single, silent(single)))
    scale, draws = start.scale * samples, CHAINS * scenario.audit.canaries
    seen, last = released(start._replace(scale=scale), horizon, draws)  # uploads, times the numbers of records in them
    when = seen - uploaded_at_once(bare._replace(scale=scale), draws)
    laws = [joint_laws(user, horizon) for user in users.iter_rows(named=True)]  # (time, state, state at T)
    densities = np.stack([law[start.times[:, k]] for k, law in enumerate(laws)], axis=1)
    yield states_of_records(subject, when, last, states, densities)

    column, case = users["user"].to_list().index(row["user"]), row["case"]
    law, values = laws[column][row["collection_time"]], states / samples[column]
    possible = np.flatnonzero(law.sum(axis=0))
    kernel, scale = (law[:, possible] / law[:, possible].sum(axis=0)).T, np.ptp(values) / row["epsilon_classical"]
    ends = worst_ends(kernel, values, scale)
    first, other = (nearest(states, last[:, column]) == possible[end] for end in ends)
    distinct, ratio = first | other, partial(log_ratio, kernel[ends], values, scale)
    first, ratios = first[distinct], ratio(seen[distinct, case, column] / samples[column])
    cumulative = partial(loss_law, kernel[ends], values, scale, first.mean())
    yield audit.distribution(subject, audit.LOSS, np.where(first, ratios, -ratios), cumulative, 2 * CELL)
    assert subject.epsilon is not None  # of those alone that state one there are tests
    yield audit.bounded(subject, np.abs(ratio(np.concatenate([cells(values, scale), values]))), subject.epsilon)


def chained(leakage: pl.DataFrame, users: pl.DataFrame, row: dict) -> pl.DataFrame:
    """The audited client; if its data have aged, so have those of others, each of a chain of its own."""
    audited = pl.DataFrame({"user": [row["user"]]})
    if row["age"] == 0:
        return audited
    aged = leakage.filter(pl.col("age") > 0, realization=row["realization"]).join(users, on="user")
    youngest = aged.sort("age", "user").unique("chain", keep="first", maintain_order=True)
    return pl.concat([audited, youngest.select("user").head(CHAINED)]).unique()


def joint_laws(user: dict, horizon: int) -> np.ndarray:
    """The law of a record's state when it is collected and at T, by time of collection, shape (T + 1, state, state)."""
    start, transition, power = np.array(user["start"]), np.array(user["transition"]), np.linalg.matrix_power
    return np.stack(
        [(start @ power(transition, t))[:, None] * power(transition, horizon - t) for t in range(horizon + 1)]
    )


def nearest(states: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The places of the states that values are nearest to."""
    order = np.argsort(states)
    ordered = states[order]
    return order[np.searchsorted((ordered[1:] + ordered[:-1]) / 2, values)]


def states_of_records(
    subject: audit.Subject, when: np.ndarray, last: np.ndarray, states: np.ndarray, laws: np.ndarray
) -> audit.Verdict:
    """Whether records are in pairs of states as often as they should, by the least likely number of all.

    Parameters
    ----------
    when
        What is collected, shape (draw, case, client).
    last
        What it has become at T, shape (draw, client).
    laws
        Of both, shape (case, client, state, state).
    """
    places, at_last = nearest(states, when), nearest(states, last)
    off = max(np.abs(part - states[place]).max() for part, place in ((when, places), (last, at_last)))
    cells = np.arange(laws[..., 0, 0].size).reshape(laws.shape[:2]) * len(states) ** 2
    pairs = cells + len(states) * places + at_last[:, None]
    counts = np.bincount(pairs.ravel(), minlength=laws.size).reshape(laws.shape)
    draws = len(when)
    tails = np.minimum(stats.binom.cdf(counts, draws, laws), stats.binom.sf(counts - 1, draws, laws))
    limit, likely = audit.LEVEL / (2 * tails.size), laws.max()
    errors = stats.norm.isf(limit) + stats.norm.isf(1 - audit.POWER)
    seen, least = (
        errors * np.sqrt((1 - likely) / (likely * draws)),
        0.0 if off > EXACT * np.ptp(states) else float(tails.min()),
    )
    fault = "a probability {percent} off"
    return audit.within(subject, FOUND, counts.size * draws, 1.0, least, limit, 1.0, seen, fault)


def worst_ends(kernel: np.ndarray, values: np.ndarray, scale: float) -> list[int]:
    """The rows of the two states at T that some upload tells apart best: one of the values, where losses are largest.

    Parameters
    ----------
    kernel
        Pr(X_t = column | X_T = row).
    values
        What each state adds to an upload.
    scale
        Of the noise.
    """
    with np.errstate(divide="ignore"):
        log_kernel = np.log(kernel)
    density = logsumexp(log_kernel[:, None] - np.abs(values[:, None] - values) / scale, axis=2)  # (state at T, upload)
    distance = np.abs(density[:, None] - density).max(axis=-1)
    return list(np.unravel_index(distance.argmax(), distance.shape))


def log_ratio(kernel: np.ndarray, values: np.ndarray, scale: float, upload: np.ndarray) -> np.ndarray:
    """The log-likelihood ratio of two states at T, given an upload; `kernel` has a row for each of them."""
    with np.errstate(divide="ignore"):
        log_kernel = np.log(kernel)
    first, other = (logsumexp(row - np.abs(upload[:, None] - values) / scale, axis=1) for row in log_kernel)
    return first - other


def cells(values: np.ndarray, scale: float) -> np.ndarray:
    """Uploads CELL scales apart, from TAIL below the least value to TAIL above the largest."""
    return np.arange(values.min() - TAIL * scale, values.max() + TAIL * scale, CELL * scale)


def loss_law(kernel: np.ndarray, values: np.ndarray, scale: float, share: float, losses: np.ndarray) -> np.ndarray:
    """The probability that the log-likelihood ratio, in favour of what is so, is at most each loss.

    Of the two states, the first in a share of all; by the probabilities of the cells that an upload may be in.
    """
    upload = cells(values, scale)
    below = stats.laplace.cdf(upload[:, None], values, scale) @ kernel.T  # (upload, state)
    mass = np.diff(below, axis=0, prepend=0.0)
    ratio = log_ratio(kernel, values, scale, upload)
    distribution = np.zeros(len(losses))
    for outcomes, weight in ((ratio, share * mass[:, 0]), (-ratio, (1 - share) * mass[:, 1])):
        order = outcomes.argsort(kind="stable")
        total = np.concatenate([[0.0], weight[order].cumsum()])
        distribution += total[np.searchsorted(outcomes[order], losses, side="right")]
    return distribution
