"""Stage account: privacy loss of a record of each device to the server, and channel uses."""

import polars as pl

from privacy_for_free import power
from privacy_for_free.parameters import PrivacyForFree
from privacy_for_free.tables import SERVER
from pwfl.airs import linear
from pwfl.privacy.accountant import ALL, RECORD, USER, USERS, Claim, Gaussian
from pwfl.tables.arrays import to_array

TERMS = {
    "energy_scope": "none: powers are multiples of the receiver's noise, without a unit",
    "evaluated_model": "none: the server's model is a regression",
    "unit": "one training record of one device",
}
ROUNDS = Gaussian("none: every record in every round")


def run(scenario: PrivacyForFree, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `leakage` of each device, `outcome` of each realization, and `guarantees`.

    Each round is a Gaussian mechanism. Devices add no noise: every finite epsilon counts the receiver's. If all records
    of a device are replaced, its message moves by at most 2 D G.
    """
    training, delta = scenario.training, scenario.privacy.delta
    samples = to_array(tables["users"], "samples", "realization", "user")
    all_records = samples * min(1.0, training.mean_norm / training.clip_norm)
    record = Claim(SERVER, RECORD, 2 * training.clip_norm, noise=ALL)
    asked = (record, record._replace(noise=USERS), record._replace(unit=USER, records=all_records))
    made = linear.account(tables, asked, ROUNDS, delta, SERVER, TERMS, noise=ALL)
    paper = pl.Series(power.converted(made["leakage"]["rho"].to_numpy(), delta))
    leakage = made["leakage"].with_columns(epsilon_paper=paper)
    parts = made["outcome"], leakage.group_by("realization").agg(pl.col("epsilon_paper").max())
    return made | {"leakage": leakage, "outcome": linear.outcome(parts, {})}
