"""Stage report: tables and figures of a scenario."""

import altair as alt
import polars as pl

from local_dp_mac.parameters import LocalDpMac
from pwfl.report import results, theme

COMPARABILITY = "the receiver's noise counts as protection in epsilon; powers have no unit, and there is no bandwidth"


def summarize(scenario: LocalDpMac, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables of a scenario's report."""
    return results.summarized(scenario, tables, ["accuracy", "loss", "rho", "epsilon", "channel_uses"])


def leakage(scenario: LocalDpMac, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Draw the distribution of record-level epsilon over devices and realizations."""
    axis = "Epsilon of a record after all rounds"
    return theme.cdf(tables["leakage"], "epsilon", scenario, "What the server learns of a record", axis, "devices")


FIGURES = {"accuracy": results.accuracy, "loss": results.loss, "leakage": leakage}
published = results.gaussian_losses
