"""Stage account: what the server learns of a record of each device, and what it took to send."""

import polars as pl

from pwfl.privacy import accountant
from pwfl.tables.arrays import joined, to_table
from pwfl.tables.contract import NO_PRIVACY
from pwfl.template.tables import SERVER

TERMS = {
    "link_budget": "none: nothing is said of powers",
    "accuracy_of": "the server's model",
    "unit": "one training record of one device",
    "neighbouring_relation": "one record replaced",
    "sampling": "none: every record of a device whenever it sends",
    "observer": "the server: every device's upload of every round",
}
GUARANTEE = "devices clip and add their noise: no assumption"


def run(scenario, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """`leakage` of each device that sends, a Gaussian mechanism a round, and `outcome` of each realization."""
    found = accountant.losses(tables, SERVER, 2 * scenario.training.clip_norm)
    epsilon = accountant.epsilons(found, scenario.privacy.delta)
    keys = {"realization": tables["users"]["realization"].unique().sort(), "user": range(epsilon.shape[1])}
    leakage = to_table(keys, rho=found.rho, epsilon=epsilon).filter(pl.col("rho") > 0)

    worst = leakage.group_by("realization").agg(pl.col("rho", "epsilon").max())
    outcome = tables["users"].group_by("realization", maintain_order=True).agg(pl.col("samples").sum())
    outcome = joined(outcome, accountant.spent(tables), "realization")
    outcome = outcome.join(worst, on="realization", how="left").with_columns(
        rounds=pl.lit(scenario.training.rounds, pl.Int64),
        epsilon_exact=pl.col("epsilon"),
        epsilon_server=pl.col("epsilon"),
        guaranteed=pl.col("epsilon").is_finite(),
        delta=scenario.privacy.delta,
        local_steps=1.0,
        guarantee=pl.when(pl.col("epsilon").is_infinite()).then(pl.lit(NO_PRIVACY)).otherwise(pl.lit(GUARANTEE)),
        **{name: pl.lit(text) for name, text in TERMS.items()},
    )
    return {"leakage": leakage, "outcome": outcome}
