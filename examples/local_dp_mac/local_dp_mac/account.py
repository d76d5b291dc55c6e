"""Stage account: privacy loss of a record of each device to the server, and channel uses."""

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
    """Make the tables `leakage` of each device, `outcome` of each realization, and `guarantees`.

    Each round is a Gaussian mechanism. `epsilon` counts all noise, `epsilon_server` only the devices' noise.
    """
    record = Claim(SERVER, RECORD, 2 * scenario.training.clip_norm)
    user = record._replace(unit=USER, records=to_array(tables["users"], "samples", "realization", "user"))
    asked = [claim._replace(noise=noise) for claim in (record, user) for noise in (ALL, USERS)]
    return linear.account(tables, asked, ROUNDS, scenario.privacy.delta, SERVER, TERMS, noise=ALL, server_noise=USERS)
