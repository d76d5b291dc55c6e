"""Stage account: what the server learns of a record of each device, and what it took to send."""

import polars as pl

from local_dp_mac.tables import SERVER
from pwfl.privacy import accountant
from pwfl.tables.arrays import joined, to_array, to_table
from pwfl.tables.contract import EXACT, NO_PRIVACY, PUBLIC

TERMS = {
    "link_budget": "none: powers are factors of gradients, without a unit",
    "accuracy_of": "the server's model",
    "unit": "one training record of one device",
    "neighbouring_relation": "one record replaced",
    "sampling": "none: every record in every round",
    "taken_as_public": PUBLIC,
    "epsilon_is": EXACT,
    "epsilon_user_is": EXACT,
    "observer": "the server, through its receiver: all symbols of all rounds, with the receiver's noise",
}
GUARANTEE = (
    "epsilon_server: the other devices add their noise; epsilon: and the receiver's noise is white, Gaussian and "
    "unknown"
)


def run(scenario, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """`leakage` of each device, a Gaussian mechanism a round, and `outcome` of each realization."""
    clip, delta = scenario.training.clip_norm, scenario.privacy.delta
    seen, users_only = (accountant.losses(tables, SERVER, 2 * clip, only) for only in (False, True))
    keys = {"realization": tables["users"]["realization"].unique().sort(), "user": range(seen.mu.shape[-1])}
    all_records = accountant.of_users(seen, to_array(tables["users"], "samples", "realization", "user"))
    columns = {"rho": seen.rho, "epsilon": accountant.epsilons(seen, delta)}
    columns["epsilon_user"] = accountant.epsilons(all_records, delta)
    of_server = {"rho_server": users_only.rho, "epsilon_server": accountant.epsilons(users_only, delta)}
    leakage = to_table(keys, **columns, **of_server)
    worst = leakage.group_by("realization").agg(pl.col(*columns, *of_server).max())
    outcome = tables["users"].group_by("realization", maintain_order=True).agg(pl.col("samples").sum())
    outcome = joined(joined(outcome, accountant.spent(tables), "realization"), worst, "realization").with_columns(
        rounds=pl.lit(scenario.training.rounds, pl.Int64),
        guaranteed=pl.col("epsilon_server").is_finite(),
        delta=delta,
        local_steps=1.0,
        guarantee=pl.when(pl.col("epsilon").is_infinite()).then(pl.lit(NO_PRIVACY)).otherwise(pl.lit(GUARANTEE)),
        **{name: pl.lit(text) for name, text in TERMS.items()},
    )
    return {"leakage": leakage.drop(*of_server), "outcome": outcome}
