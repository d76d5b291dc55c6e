"""Stage account: what the server learns of a record of each device, and what it took to send."""

import polars as pl

from local_dp_mac.parameters import LocalDpMac
from local_dp_mac.tables import SERVER
from pwfl.privacy import accountant
from pwfl.privacy.accountant import ALL, RECORD, USER, USERS, Claim, Gaussian
from pwfl.tables.arrays import joined, to_array, to_table
from pwfl.tables.contract import ALWAYS_PUBLIC

TERMS = {
    "energy_scope": "none: powers are factors of gradients, without a unit",
    "evaluated_model": "the server's model",
    "unit": "one training record of one device",
    "neighbouring_relation": "one record replaced",
    "taken_as_public": ALWAYS_PUBLIC,
}
ROUNDS = Gaussian("none: every record in every round")


def run(scenario: LocalDpMac, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """`leakage` of each device, a Gaussian mechanism a round, `outcome` of each realization, and `guarantees`.

    epsilon counts the receiver's noise, epsilon_server the devices' alone.
    """
    delta, samples = scenario.privacy.delta, to_array(tables["users"], "samples", "realization", "user")
    record = Claim(SERVER, RECORD, 2 * scenario.training.clip_norm)
    asked = [
        claim._replace(noise=noise)
        for claim in (record, record._replace(unit=USER, records=samples))
        for noise in (ALL, USERS)
    ]
    found = accountant.accounts(tables, asked, ROUNDS, delta)
    guarantees = accountant.guarantees(found, ROUNDS)
    stated = accountant.stated(guarantees, tables["observers"], SERVER, ALL, of_server=USERS)
    of_record, of_user = (found[SERVER, unit, ALL] for unit in (RECORD, USER))
    keys = {"realization": tables["users"]["realization"].unique().sort(), "user": range(samples.shape[1])}
    leakage = to_table(keys, rho=of_record.rho, epsilon=of_record.epsilon, epsilon_user=of_user.epsilon)
    outcome = tables["users"].group_by("realization", maintain_order=True).agg(pl.col("samples").sum())
    rho = leakage.group_by("realization").agg(pl.col("rho").max())
    for part in (accountant.spent(tables), rho, stated):
        outcome = joined(outcome, part, "realization")
    outcome = outcome.with_columns(
        rounds=pl.lit(scenario.training.rounds, pl.Int64),
        delta=delta,
        local_steps=1.0,
        **{name: pl.lit(text) for name, text in TERMS.items()},
    )
    return {"leakage": leakage, "outcome": outcome, "guarantees": guarantees}
