"""Stage account: what the server learns of a record of each device, and what it took to send."""

import polars as pl

from pwfl.learning import features, mlp
from pwfl.privacy.gaussian import exact_epsilon, zcdp
from pwfl.tables.arrays import joined
from pwfl.tables.contract import NO_PRIVACY

KEYS = ("realization", "user")
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
    sent = tables["schedule"].filter("sends").group_by(KEYS).len("uploads").sort(KEYS)
    each = joined(joined(sent, tables["users"], *KEYS), tables["noise"], *KEYS)
    samples, noise_std, uploads = (each[name].to_numpy() for name in ("samples", "noise_std", "uploads"))
    rho = zcdp(2 * scenario.training.clip_norm / samples, noise_std, uploads)
    leakage = each.select(*KEYS, rho=pl.Series(rho), epsilon=pl.Series(exact_epsilon(rho, scenario.privacy.delta)))

    size = features.size(scenario)
    coordinates = mlp.parameter_count([size.features, *scenario.training.hidden_layers, size.classes])
    worst = leakage.group_by("realization").agg(pl.col("rho", "epsilon").max())
    outcome = tables["users"].group_by("realization").agg(pl.col("samples").sum())
    outcome = outcome.join(worst, on="realization", how="left").with_columns(
        rounds=pl.lit(scenario.training.rounds, pl.Int64),
        epsilon_exact=pl.col("epsilon"),
        epsilon_server=pl.col("epsilon"),
        guaranteed=pl.col("epsilon").is_finite(),
        delta=scenario.privacy.delta,
        local_steps=1.0,
        air_seconds=pl.lit(None, float),  # no bandwidth
        transmit_energy_j=pl.lit(None, float),  # no power
        guarantee=pl.when(pl.col("epsilon").is_infinite()).then(pl.lit(NO_PRIVACY)).otherwise(pl.lit(GUARANTEE)),
        **{name: pl.lit(text) for name, text in TERMS.items()},
    )
    uses = sent.group_by("realization").agg(channel_uses=pl.col("uploads").sum().cast(float) * coordinates)
    return {"leakage": leakage, "outcome": outcome.join(uses, on="realization", how="left")}
