"""Compare all systems of a study in common terms: accuracy, record-level guarantee, spectrum, energy."""

import polars as pl

from pwfl import registry
from pwfl.privacy.accountant import guarantee
from pwfl.report import columns, theme, unscheduled
from pwfl.report.sweeps import DERIVED

MEANS = ["local_steps", "channel_uses", "air_seconds", "transmit_energy_j"]
TERMS = [*("evaluated_model", "delta", "samples", "rounds", "energy_scope"), *columns.TERMS[1:]]


def table(scenarios: dict[str, dict]) -> pl.DataFrame:
    """Make a row for each scheme of each scenario, and for each of its privacy targets if it has several.

    `scenarios` is as in `report.build.compare`. Columns: mean final accuracy with its 95% interval over realizations;
    number of its training runs, of those with no user scheduled, and of others that diverged; the largest and smallest
    epsilon of a realization, against the system's server and the scheme's observer; the largest user-level epsilon and
    attack rate; means of local steps, channel uses, airtime and radiated energy; their terms. Values that do not apply
    to a system, or have no unit in it, are null; the column `comparability` contains the reason.
    """
    frames, keys = [], ["scheme", "target_epsilon"]
    for name, content in scenarios.items():
        system, realizations = content["scenario"].system, content["realizations"]
        realizations = columns.completed(unscheduled.known(realizations), DERIVED | {"accuracy": pl.Float64})
        realizations = realizations.with_columns(guarantee_server=guarantee("epsilon_server"))
        schemes = realizations.group_by(keys, maintain_order=True)
        counts = schemes.agg(
            trainings=pl.col("accuracy").count(),
            **{unscheduled.COLUMN: unscheduled.count("accuracy")},
            diverged=(pl.col("training") == "diverged").sum(),
            epsilon_server=pl.col("epsilon_server").max(),
            epsilon_server_min=pl.col("epsilon_server").min(),
            epsilon=pl.col("epsilon").max(),
            epsilon_min=pl.col("epsilon").min(),
            epsilon_user=pl.col("epsilon_user").max(),
            attack_rate=pl.col("attack_rate").max(),
            guarantee=columns.weakest(),
            guarantee_server=columns.weakest("guarantee_server"),
        )
        comparability = pl.lit(registry.system(system).load_report().comparability).alias("comparability")
        frame = theme.means(realizations, keys, ["accuracy"], system)
        terms = schemes.agg(columns.describe_terms(TERMS)).with_columns(comparability)
        for part in (counts, theme.means(realizations, keys, MEANS, system), terms):
            frame = frame.join(part, on=keys, maintain_order="left", nulls_equal=True)
        frames.append(frame.select(pl.lit(name).alias("scenario"), pl.lit(system).alias("system"), pl.all()))
    return pl.concat(frames)
