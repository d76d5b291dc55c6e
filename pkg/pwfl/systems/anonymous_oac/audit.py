"""Audit of the system `anonymous_oac`: what the server receives, and the probability that a record is in it."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from pwfl.learning import features
from pwfl.privacy import accountant, audit, sampled
from pwfl.systems.anonymous_oac import fading, participation, scheduled
from pwfl.systems.anonymous_oac.costs import in_turn
from pwfl.systems.anonymous_oac.mechanism import accounting, readings
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.schemes import MECHANISMS, SUM, UPLOAD
from pwfl.systems.anonymous_oac.train import parts, trainer
from pwfl.tables.reception import Reception
from pwfl.training.audit import Audited, Claim, audit_system, senders
from pwfl.training.audit import participation as rounds_of_records

SEEN = {"sum": "sum of all uploads of every round", "upload": "one device's upload of every round"}


def verdicts(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Yield verdicts on the sum of all uploads, or on one device's uploads, without the channel's noise.

    The target is the device with records in the most rounds. Its losses are those of rounds that its record is in.
    """
    outcome, observer = audit.worst(tables["outcome"]), UPLOAD if in_turn(tables) else SUM
    realization, sent = outcome["realization"], tables["reception"].filter(realization=outcome["realization"])
    sent = sent.filter(pl.col("weight") > 0, pl.col("records") > 0)
    epsilon = outcome["epsilon"] if len(sent) else None
    subject = audit.Subject(realization, SEEN[observer], outcome["delta"], epsilon)
    if epsilon is None or np.isinf(epsilon):
        yield audit.untested(subject)
        return
    target = int(sent["user"].mode().to_numpy().min())
    losses = accountant.losses(tables, observer, 2 * scenario.training.clip_norm)
    row = tables["users"]["realization"].unique().sort().to_list().index(realization)

    def view(device: int, reception: Reception) -> Reception:
        seen = np.arange(scenario.network.devices) == device if observer == UPLOAD else np.ones(len(mu.T), bool)
        return reception.select_users(seen)

    audited = Audited(parts, scenario, tables, features.size(scenario), few=True)
    scheme = tables["noise"]["noise"][0]
    if MECHANISMS[scheme].occurred:
        single, terms = losses._replace(mu=losses.mu[row : row + 1]), (scenario.data.sampling, outcome["delta"])
        accounted = float(scheduled.worst(single, *terms)[0][0])
        opposite = scheduled.at_least(losses.mu[row, :, target], *terms)
    else:
        law = readings(scenario, scheme, tables)[outcome["reading"]]
        ways: list[dict[str, Any]] = [accounting(scheme), {"method": "opposite"}]
        accounted, opposite = (
            float(sampled.Batches(law, interval=sampled.COARSE, **how).epsilons(losses, outcome["delta"])[row, target])
            for how in ways
        )
    # Records that lose this much need not exist, so no signal shows this epsilon: it is computed again.
    low, high, fault = 0.99 * epsilon, 1.01 * epsilon, "epsilon {percent} too low"
    yield audit.within(subject, "epsilon of all rounds", 1, epsilon, accounted, low, high, 0.01, fault)
    mu = np.repeat(losses.mu[row], losses.rounds, axis=0)
    claim = Claim(target, mu[:, target], partial(view, target), epsilon=opposite, everyone=mu, view_of=view)
    yield from audit_system(audited, trainer, subject, claim)
    # Participation by a function is not random. All take part in further realizations, which test records' sampling.
    by_function = scheduled.by_function(tables)
    first = 0 if by_function else tables["users"]["realization"].n_unique()
    more = drawn(scenario, range(first, -(-scenario.audit.canaries // scenario.network.devices)), by_function)
    rate, chance = scenario.data.sampling, 1.0 if by_function else scenario.network.participation
    yield rounds_of_records(audited, subject, chance * rate, more, with_study=not by_function)
    if len(more):
        with_records = 1 - (1 - rate) ** tables["users"]["samples"][0]
        yield senders(subject, more, chance * with_records)


def drawn(scenario: AnonymousOac, runs: range, everyone: bool) -> np.ndarray:
    """Draw each device's number of records in further realizations `runs`, shape (realization, round, device).

    The study's code draws them. In each round, devices with a good channel take part, or `everyone`.
    """
    numbers = np.zeros((len(runs), scenario.training.rounds, scenario.network.devices), int)
    if len(runs):
        tables = fading.draw(scenario, runs)
        if everyone:
            sent = participation.drawn(scenario, tables["links"], tables["users"])
        else:
            sent = participation.batches(scenario, "over_the_air", tables)
        place = (sent[name].to_numpy() - start for name, start in (("realization", runs[0]), ("round", 1), ("user", 0)))
        numbers[tuple(place)] = sent["batch"].to_numpy()
    return numbers
