"""Stage report: tables and figures of a scenario, and the optimality gap over epsilon."""

import altair as alt
import polars as pl

from privacy_for_free.parameters import PrivacyForFree
from pwfl.privacy.composition import Loss
from pwfl.report import results, theme
from pwfl.report.claims import comparable
from pwfl.tables.arrays import ends_of

COMPARABILITY = (
    "a regression, without accuracy; the receiver's noise is the only protection, so nothing is guaranteed; powers "
    "have no unit and there is no bandwidth: no energy, no seconds"
)
MEASURED = ["optimality_gap", "optimality_gap_bound", "ridge_objective"]
AVERAGED = [*MEASURED[:2], "epsilon", "epsilon_paper", "channel_uses"]
GAP = "Normalized optimality gap"
LOGARITHMIC = alt.Scale(type="log")


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Join the outcome of each realization and scheme with the final gap, bound and objective of its training run."""
    keys = ["scheme", "realization"]
    last = tables["history"].group_by(keys, maintain_order=True).agg(pl.col(MEASURED).sort_by("round").last())
    return results.realizations(tables).join(last, on=keys, how="left", maintain_order="left")


def summarize(scenario: PrivacyForFree, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables of a scenario's report."""
    return results.summarized(scenario, tables, AVERAGED, realizations(tables))


def published(scenario: PrivacyForFree, realizations: pl.DataFrame) -> list[Loss]:
    """Return each training run's loss of its most exposed record; records are simulated for each realization."""
    return [Loss(rho=rho, own_records=True) for rho in realizations["rho_server"]]


def _axis(title: str) -> alt.Y:
    return alt.Y(title=title, scale=LOGARITHMIC, axis=alt.Axis(format=".6~g"))


def gap(scenario: PrivacyForFree, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw the mean optimality gap over the rounds, with its confidence band."""
    history = tables["history"]
    title = alt.TitleParams(GAP, subtitle=theme.band_over(history["realization"].n_unique()))
    frame = theme.means(history, ["scheme", "round"], ["optimality_gap"], scenario.system)
    frame = theme.within(frame, "optimality_gap", ends_of(frame["optimality_gap_mean"])[0])  # for the logarithmic axis
    return theme.band(frame, "optimality_gap", scenario, title, _axis(GAP))


def power(scenario: PrivacyForFree, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw the share of the power limit over the rounds, mean over devices, with the band over realizations."""
    by = ["scheme", "realization", "round"]
    shares = tables["schedule"].group_by(by, maintain_order=True).agg(pl.col("power_share").mean())
    shares = shares.with_columns(round=pl.col("round") + 1)
    title = alt.TitleParams("Power over the power limit", subtitle=theme.band_over(shares["realization"].n_unique()))
    frame = theme.means(shares, ["scheme", "round"], ["power_share"], scenario.system)
    frame = theme.within(frame, "power_share", ends_of(frame["power_share_mean"])[0])
    return theme.band(frame, "power_share", scenario, title, _axis("Share of the power limit, mean over devices"))


def leakage(scenario: PrivacyForFree, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Draw the distribution of record-level epsilon over devices and realizations."""
    axis = "Record-level epsilon after all rounds"
    return theme.cdf(tables["leakage"], "epsilon", scenario, "Privacy loss to the server", axis, "devices")


def gap_over_epsilon(study: dict[str, dict]) -> alt.LayerChart:
    """Draw the mean final gap over the budget, for the largest group of scenarios that differ only in the budget."""
    title = f"{GAP} over the privacy budget"
    names = max(comparable(study, "privacy.epsilon"), key=len)
    if len(names) < 2:
        return theme.empty("one privacy budget only; sweep privacy.epsilon", title)
    scenario = study[names[0]]["scenario"]
    budgets = [pl.lit(study[name]["scenario"].privacy.epsilon).alias("budget") for name in names]
    rows = pl.concat(
        study[name]["realizations"].with_columns(budget) for name, budget in zip(names, budgets, strict=True)
    )
    frame = theme.means(rows, ["scheme", "budget"], ["optimality_gap"], scenario.system).sort("budget")
    frame = theme.within(frame, "optimality_gap", ends_of(frame["optimality_gap_mean"])[0])
    x = alt.X("budget:Q", title="Privacy budget: record-level epsilon, paper's conversion", scale=LOGARITHMIC)
    subtitle = [
        theme.band_over(rows["realization"].n_unique()),
        f"delta = {scenario.privacy.delta:g}; observer: server",
    ]
    return theme.band(frame, "optimality_gap", scenario, alt.TitleParams(title, subtitle=subtitle), _axis(GAP), x)


FIGURES = {"gap": gap, "power": power, "leakage": leakage}
COMPARISON_FIGURES = {"gap_over_epsilon": gap_over_epsilon}
