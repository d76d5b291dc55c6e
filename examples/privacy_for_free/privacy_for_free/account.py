"""Stage account: privacy loss of a record of each device to the server, and symbols on air."""

import polars as pl

from privacy_for_free import power
from privacy_for_free.tables import SERVER
from pwfl.privacy import accountant
from pwfl.tables.arrays import joined, to_array, to_table
from pwfl.tables.contract import EXACT, NO_PRIVACY, PUBLIC

TERMS = {
    "link_budget": "none: powers are multiples of the receiver's noise, without a unit",
    "accuracy_of": "none: the server's model is a regression",
    "unit": "one training record of one device",
    "neighbouring_relation": "one record replaced",
    "sampling": "none: every record in every round",
    "taken_as_public": PUBLIC,
    "epsilon_is": EXACT,
    "epsilon_user_is": EXACT,
    "observer": "the server, honest but curious: all outputs of its receiver in all rounds, with the receiver's noise",
}
GUARANTEE = (
    "not guaranteed: devices add no noise. The epsilons hold if the receiver's noise is white, Gaussian and unknown to "
    "the server; a receiver without noise, or with less of it, sees gradients as they are"
)


def run(scenario, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """`leakage` of each device, one Gaussian mechanism per round, and `outcome` of each realization.

    If all of a device's records are replaced, its message moves by at most 2 D G.
    """
    training, delta = scenario.training, scenario.privacy.delta
    seen, without = (accountant.losses(tables, SERVER, 2 * training.clip_norm, only) for only in (False, True))
    keys = {"realization": tables["users"]["realization"].unique().sort(), "user": range(seen.mu.shape[-1])}
    samples = to_array(tables["users"], "samples", "realization", "user")
    all_records = accountant.of_users(seen, samples * min(1.0, training.mean_norm / training.clip_norm))
    columns = {
        "rho": seen.rho,
        "epsilon": accountant.epsilons(seen, delta),
        "epsilon_paper": power.converted(seen.rho, delta),
        "epsilon_user": accountant.epsilons(all_records, delta),
        "epsilon_without_receiver": accountant.epsilons(without, delta),
    }
    leakage = to_table(keys, **columns)
    worst = leakage.group_by("realization").agg(pl.col(*columns).max())
    outcome = tables["users"].group_by("realization", maintain_order=True).agg(pl.col("samples").sum())
    rounds = tables["reception_noise"].group_by("realization").agg(pl.col("rounds").sum())
    for other in (rounds, accountant.spent(tables), worst):
        outcome = joined(outcome, other, "realization")
    outcome = outcome.with_columns(
        epsilon_server=pl.col("epsilon"),
        rho_server=pl.col("rho"),
        guaranteed=pl.lit(value=False),
        delta=delta,
        local_steps=1.0,
        guarantee=pl.when(pl.col("epsilon").is_infinite()).then(pl.lit(NO_PRIVACY)).otherwise(pl.lit(GUARANTEE)),
        **{name: pl.lit(text) for name, text in TERMS.items()},
    )
    return {"leakage": leakage.drop("epsilon_without_receiver"), "outcome": outcome}
