"""Privacy audit of the system `age_aware`: tests of uploads that its training code makes of test data.

- Noise: uploads of data that are zero.
- Sensitivity: the distance between uploads with the same noise, of data that differ in one record. The data are
  constant over time.
- Chains: each client has a single record. An upload minus its noise is the record's state when collected. This state
  and the state at T must have the chain's joint distribution. So must the losses of an observer who infers the state at
  T.

The most exposed client at T may upload fresh data, which reveal nothing about a chain. Then a client with aged data is
audited, too.
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

CHAINS = 6  # chains simulated per configured canary: they are cheap, and only those that end in one of two states count
CELL, TAIL = 1e-3, 20.0  # width of an upload's cells, and how far they extend beyond the values, in noise scales
FEW = 50  # draws in the test of sensitivity, and least number of draws of each client's noise
CHAINED = 2  # largest number of clients with tested chains in addition to the audited client
EXACT = 1e-6  # share of the states' range by which an upload minus its noise may miss a state
AGAIN, BY_CHANCE = 1e-15, 3  # largest difference of equal noise values; number of equal pairs that may occur by chance
LAPLACE = stats.laplace.cdf, 0.0  # the stated distribution of scaled noise, and its error (`audit.distribution`)
FOUND = "states of a record when it is collected and at T"


def verdicts(scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Test the noisy upload of the most exposed client in the most exposed case against the exact epsilon at T.

    If its data are fresh, also test the chain of the most exposed client with aged data, in any realization and case.
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
    """Return the subject of tests of a client's upload, `row` of `leakage`, with its stated guarantee."""
    observer = f"client {row['user']}'s upload, of age {row['age']}, target {row['target_epsilon']:g}"
    return audit.Subject(row["realization"], f"{observer}; a record as it is at T", delta, epsilon)


def begin_training(scenario: AgeAware, tables: dict[str, pl.DataFrame], users: pl.DataFrame) -> Start:
    """Return the start of a realization's training for its clients `users` only, with data that may be changed."""
    keys = ["realization", "user"]
    selected = {name: tables[name].join(users, on=keys, how="semi") for name in ("schedule", "noise")}
    return beginnings(scenario, selected | {"users": users})(users["realization"][0])


def users_of(tables: dict[str, pl.DataFrame], realization: int) -> pl.DataFrame:
    """Select the clients of a realization, in order."""
    return tables["users"].filter(realization=realization).sort("user")


def unchanging(users: pl.DataFrame, start: np.ndarray) -> pl.DataFrame:
    """Return clients with data that keep their first state, of distribution `start`, shape (user, state)."""
    same = [np.eye(start.shape[1]).tolist()] * len(users)
    return users.with_columns(start=pl.Series(start.tolist()), transition=pl.Series(same))


def uploaded_at_once(start: Start, draws: int) -> np.ndarray:
    """Compute clients' uploads of data collected at T = 0, shape (draw, case, user)."""
    return released(start._replace(times=np.zeros_like(start.times)), 0, draws)[0]


def silent(users: pl.DataFrame) -> pl.DataFrame:
    """Return clients with data that are zero."""
    states = len(users["states_wh"][0])
    zeros = users.with_columns(states_wh=pl.Series([[0.0] * states] * len(users)))
    return unchanging(zeros, np.tile(np.eye(states)[0], (len(users), 1)))


def noise(subject: audit.Subject, scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Test the noise of all clients in all cases of a realization, divided by the stated scales."""
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
    """Return an expression of the largest distance by which a record moves its client's mean, for the table `users`."""
    states = pl.col("states_wh").list
    return (states.max() - states.min()) / pl.col("samples")


def sensitivity(subject: audit.Subject, scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> audit.Verdict:
    """Test how far records move an upload: all of them n_k times as far as one, and some by integer multiples."""
    users = users_of(tables, subject.realization)
    samples, one = users["samples"].to_numpy(), users.select(moved_by_one()).to_series().to_numpy()
    states = np.array(users["states_wh"].to_list())
    least, most = np.eye(states.shape[1])[[states[0].argmin(), states[0].argmax()]]
    few = np.minimum(1 / samples, 0.5)[:, None]  # about one of all records has the largest state
    laws = (np.tile(least, (len(users), 1)), np.tile(most, (len(users), 1)), (1 - few) * least + few * most)
    none, every, some = (
        uploaded_at_once(begin_training(scenario, tables, unchanging(users, law)), FEW) for law in laws
    )
    counted = (some - none) / one  # number of records
    whole = np.rint(counted)
    steps = [np.diff(np.unique(whole[..., user])).min(initial=np.inf) for user in range(len(users))]
    share = [max(steps) + np.abs(counted - whole).max(), np.abs((every - none) / one / samples).max()]
    return audit.sensitivity(subject, np.array(share), 1.0)


def chain(
    subject: audit.Subject, scenario: AgeAware, tables: dict[str, pl.DataFrame], row: dict
) -> Iterator[audit.Verdict]:
    """Test records' states, and the losses about a record's state at T from a client's upload, `row` of `leakage`."""
    horizon, every = scenario.schedule.horizon, users_of(tables, subject.realization)
    users = every.join(chained(tables["leakage"], every, row), on="user", how="semi", maintain_order="left")
    samples, states = users["samples"].to_numpy(), np.array(users["states_wh"][0])
    single = users.with_columns(samples=pl.lit(1, pl.Int64))

    start, bare = (begin_training(scenario, tables, data) for data in (single, silent(single)))
    scale, draws = start.scale * samples, CHAINS * scenario.audit.canaries
    seen, last = released(start._replace(scale=scale), horizon, draws)  # uploads times the clients' numbers of records
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
    assert subject.epsilon is not None  # without a stated epsilon there are no tests
    yield audit.bounded(subject, np.abs(ratio(np.concatenate([cells(values, scale), values]))), subject.epsilon)


def chained(leakage: pl.DataFrame, users: pl.DataFrame, row: dict) -> pl.DataFrame:
    """Select the audited client and, if its data have aged, up to CHAINED others of distinct chains with aged data."""
    audited = pl.DataFrame({"user": [row["user"]]})
    if row["age"] == 0:
        return audited
    aged = leakage.filter(pl.col("age") > 0, realization=row["realization"]).join(users, on="user")
    youngest = aged.sort("age", "user").unique("chain", keep="first", maintain_order=True)
    return pl.concat([audited, youngest.select("user").head(CHAINED)]).unique()


def joint_laws(user: dict, horizon: int) -> np.ndarray:
    """Compute the joint distribution of a record's states at t and T, by collection time t: (T + 1, state, state)."""
    start, transition, power = np.array(user["start"]), np.array(user["transition"]), np.linalg.matrix_power
    return np.stack(
        [(start @ power(transition, t))[:, None] * power(transition, horizon - t) for t in range(horizon + 1)]
    )


def nearest(states: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the indices of the states that `values` are nearest to."""
    order = np.argsort(states)
    ordered = states[order]
    return order[np.searchsorted((ordered[1:] + ordered[:-1]) / 2, values)]


def states_of_records(
    subject: audit.Subject, when: np.ndarray, last: np.ndarray, states: np.ndarray, laws: np.ndarray
) -> audit.Verdict:
    """Test whether pairs of states are as frequent as stated, by the least likely of all counts.

    Parameters
    ----------
    when
        Values when collected, shape (draw, case, client).
    last
        Values at T, shape (draw, client).
    laws
        Stated probabilities of both states, shape (case, client, state, state).
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
    """Return the rows of the two states at T that an upload distinguishes best.

    Losses are largest at an upload that equals one of `values`.

    Parameters
    ----------
    kernel
        Pr(X_t = column | X_T = row).
    values
        Contribution of each state to an upload.
    scale
        Scale of the noise.
    """
    with np.errstate(divide="ignore"):
        log_kernel = np.log(kernel)
    density = logsumexp(log_kernel[:, None] - np.abs(values[:, None] - values) / scale, axis=2)  # (state at T, upload)
    distance = np.abs(density[:, None] - density).max(axis=-1)
    return list(np.unravel_index(distance.argmax(), distance.shape))


def log_ratio(kernel: np.ndarray, values: np.ndarray, scale: float, upload: np.ndarray) -> np.ndarray:
    """Compute the log-likelihood ratio of two states at T, the rows of `kernel`, for each upload."""
    with np.errstate(divide="ignore"):
        log_kernel = np.log(kernel)
    first, other = (logsumexp(row - np.abs(upload[:, None] - values) / scale, axis=1) for row in log_kernel)
    return first - other


def cells(values: np.ndarray, scale: float) -> np.ndarray:
    """Return uploads CELL scales apart, from TAIL scales below the smallest value to TAIL scales above the largest."""
    return np.arange(values.min() - TAIL * scale, values.max() + TAIL * scale, CELL * scale)


def loss_law(kernel: np.ndarray, values: np.ndarray, scale: float, share: float, losses: np.ndarray) -> np.ndarray:
    """Compute the probability that the log-likelihood ratio in favour of the true state is at most each loss.

    The true state is the first of the two with probability `share`. Computed from probabilities of cells of uploads.
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
