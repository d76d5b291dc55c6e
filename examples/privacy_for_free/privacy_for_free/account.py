"""Stage account: privacy loss of a record of each device to the server, and symbols on air."""

import polars as pl

from privacy_for_free import power
from privacy_for_free.parameters import PrivacyForFree
from privacy_for_free.tables import SERVER
from pwfl.privacy import accountant
from pwfl.privacy.accountant import ALL, RECORD, USER, USERS, Claim, Gaussian
from pwfl.tables.arrays import joined, to_array, to_table
from pwfl.tables.contract import ALWAYS_PUBLIC

TERMS = {
    "energy_scope": "none: powers are multiples of the receiver's noise, without a unit",
    "evaluated_model": "none: the server's model is a regression",
    "unit": "one training record of one device",
    "neighbouring_relation": "one record replaced",
    "taken_as_public": ALWAYS_PUBLIC,
}
ROUNDS = Gaussian("none: every record in every round")


def run(scenario: PrivacyForFree, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """`leakage` of each device, one Gaussian mechanism per round, `outcome` of each realization, and `guarantees`.

    Devices add no noise: the epsilons rest on the receiver's. If all of a device's records are replaced, its message
    moves by at most 2 D G.
    """
    training, delta = scenario.training, scenario.privacy.delta
    samples = to_array(tables["users"], "samples", "realization", "user")
    all_records = samples * min(1.0, training.mean_norm / training.clip_norm)
    record = Claim(SERVER, RECORD, 2 * training.clip_norm, noise=ALL)
    asked = (record, record._replace(noise=USERS), record._replace(unit=USER, records=all_records))
    found = accountant.accounts(tables, asked, ROUNDS, delta)
    guarantees = accountant.guarantees(found, ROUNDS)
    of_record = found[record.key]
    keys = {"realization": tables["users"]["realization"].unique().sort(), "user": range(samples.shape[1])}
    columns = {
        "rho": of_record.rho,
        "epsilon": of_record.epsilon,
        "epsilon_paper": power.converted(of_record.rho, delta),
        "epsilon_user": found[SERVER, USER, ALL].epsilon,
        "epsilon_without_receiver": found[SERVER, RECORD, USERS].epsilon,
    }
    leakage = to_table(keys, **columns)
    worst = leakage.group_by("realization").agg(pl.col("rho", "epsilon_paper", "epsilon_without_receiver").max())
    outcome = tables["users"].group_by("realization", maintain_order=True).agg(pl.col("samples").sum())
    rounds = tables["reception_noise"].group_by("realization").agg(pl.col("rounds").sum())
    stated = accountant.stated(guarantees, tables["observers"], SERVER, ALL)
    for other in (rounds, accountant.spent(tables), worst, stated):
        outcome = joined(outcome, other, "realization")
    terms = {name: pl.lit(text) for name, text in TERMS.items()}
    outcome = outcome.with_columns(delta=delta, local_steps=1.0, **terms)
    return {"leakage": leakage.drop("epsilon_without_receiver"), "outcome": outcome, "guarantees": guarantees}
