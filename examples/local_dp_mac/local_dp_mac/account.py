"""Stage account: what the server learns of a record of each device, and what it took to send."""

import polars as pl

from local_dp_mac.parameters import LocalDpMac
from local_dp_mac.tables import SERVER
from pwfl.airs import linear
from pwfl.privacy.accountant import ALL, RECORD, USER, USERS, Claim, Gaussian
from pwfl.tables.arrays import to_array

TERMS = {
    "energy_scope": "none: powers are factors of gradients, without a unit",
    "evaluated_model": "the server's model",
    "unit": "one training record of one device",
}
ROUNDS = Gaussian("none: every record in every round")


def run(scenario: LocalDpMac, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """`leakage` of each device, a Gaussian mechanism a round, `outcome` of each realization, and `guarantees`.

    epsilon counts the receiver's noise, epsilon_server the devices' alone.
    """
    record = Claim(SERVER, RECORD, 2 * scenario.training.clip_norm)
    user = record._replace(unit=USER, records=to_array(tables["users"], "samples", "realization", "user"))
    asked = [claim._replace(noise=noise) for claim in (record, user) for noise in (ALL, USERS)]
    return linear.account(tables, asked, ROUNDS, scenario.privacy.delta, SERVER, TERMS, noise=ALL, server_noise=USERS)
