"""Figures and tables of the system `random_orthogonalization`."""

import altair as alt
import polars as pl

from pwfl.privacy.composition import Loss
from pwfl.report import chance, results, theme
from pwfl.report.axes import fitted
from pwfl.report.words import plural
from pwfl.systems.random_orthogonalization import comparison, marks, observers
from pwfl.systems.random_orthogonalization.tables import WORST

COMPARABILITY = (
    "Many antennas, all users at once, many local steps a round; each user's whole update is protected, "
    "so all its records together. Signals have no unit of energy."
)


def accuracy(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Mean test accuracy over rounds."""
    kept = marks.trained(tables["history"])
    title = alt.TitleParams(f"Test accuracy, M = {scenario.network.antennas}", subtitle=marks.interval_of(kept))
    frame = marks.accuracies(kept, ["scheme"])
    levels = chance.scenario_levels(scenario, tables["history"])
    return theme.band(frame, "accuracy", scenario, title, theme.accuracy_axis(), form=".2%", levels=levels)


def leakage(scenario, tables: dict[str, pl.DataFrame]) -> alt.FacetChart:
    """Fig. 2 for one number of antennas, in all readings that can be told apart, beside the closed form of (6)."""
    table = leakages(tables)
    shown = {name: label for name, label in marks.READINGS.items() if name != "epsilon_modulus"}
    frame = marks.reading_means(table, ["scheme"]).filter(pl.col("reading").is_in(list(shown.values())))
    formula = table.group_by("scheme", "users", maintain_order=True).agg(pl.col("epsilon_closed_form").first())
    formula = formula.filter(pl.col("epsilon_closed_form").is_finite()).with_columns(part=pl.lit("formula"))
    frame = pl.concat([frame.with_columns(part=pl.lit("reading")), formula], how="diagonal")
    colours = dict(zip(shown.values(), theme.PALETTE, strict=False))
    colour, chosen, _ = theme.named_colours(colours, field="reading", title="Mean over users")
    means, *intervals = theme.ends(frame, "mean")
    y = fitted(marks.epsilon_axis(scenario, type="log"), means.append(frame["epsilon_closed_form"]), *intervals)
    tips = {"reading:N": "Reading"}
    frame = theme.within(frame, "mean", *y["scale"]["domain"])
    curves = marks.curves("users:Q", "Users K", "mean", y, colour, chosen, tips)
    dashes = alt.Chart().transform_filter("datum.part == 'formula'")
    dashes = dashes.mark_line(strokeDash=[5, 4], color="black", strokeWidth=1.5)
    dashes = dashes.encode(x="users:Q", y="epsilon_closed_form:Q")
    subtitle = [f"{marks.interval_of(table)}; {marks.rounds_of(scenario)}", "dashed: closed form of (6)"]
    title = alt.TitleParams(f"Leakage of a user, M = {scenario.network.antennas}", subtitle=subtitle)
    return (
        alt.layer(curves.transform_filter("datum.part == 'reading'"), dashes, data=frame)
        .properties(width=330, height=theme.HEIGHT)
        .facet(column=marks.scheme_panels(scenario.schemes))
        .properties(title=title)
    )


def tradeoff(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Final accuracy against epsilon after all rounds, of the scenario's observer, realization by realization."""
    frame = realizations(tables).drop_nulls("accuracy").filter(pl.col("epsilon").is_finite())
    title = alt.TitleParams(
        f"Accuracy against privacy, M = {scenario.network.antennas}",
        subtitle=[f"after {marks.rounds_of(scenario)}, worst user", marks.dots_of(frame)],
    )
    colour, chosen, _ = theme.scheme_colour(scenario, symbol=None)
    x, levels = marks.epsilon_axis(scenario, alt.X), chance.scenario_levels(scenario, tables["history"])
    chart = marks.scatter(frame, "epsilon", ["scheme"], x, colour, chosen, levels)
    return theme.sized(chart.encode(shape=theme.scheme_shape(scenario)), title)


def energy(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """(e) Energy of a user's signal in a round over the paper's limit P = alpha^2."""
    limit = tables["outcome"]["transmit_energy_limit"][0]
    kept = marks.trained(tables["history"]).drop_nulls("transmit_energy")
    kept = kept.with_columns(share=pl.col("transmit_energy") / limit)
    title = alt.TitleParams("Transmit energy", subtitle=marks.interval_of(kept))
    y = alt.Y(title="Energy of a round's signal / P", scale=alt.Scale(type="log"), axis=alt.Axis(format=".6~g"))
    frame = theme.means(kept, ["scheme", "round"], ["share"], scenario.system)
    chart = theme.band(frame, "share", scenario, title, y, also=[1.0])
    return theme.referenced(chart, 1.0, "the paper's limit P", "y", y["title"])


def couplings(scenario, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Distribution of the weights that users' updates get, and of what Theorem 1 takes for them."""
    labels = {"coupling_real": "Re(h_s^H h_k): true weight", "energy": "||h_k||^2: in Theorem 1"}
    if scenario.radio.normalization == "I":
        labels = {name: f"{label}, over M" for name, label in labels.items()}
    long = tables["links"].unpivot(list(labels), variable_name="what", value_name="weight")
    frame = theme.distribution(long.with_columns(pl.col("what").replace(labels)), "weight", by="what")
    colours = dict(zip(labels.values(), theme.PALETTE, strict=False))
    colour, chosen, opacity = theme.named_colours(colours, field="what", title=None)
    count = tables["links"]["realization"].n_unique()
    title = alt.TitleParams(
        f"Weights of the users' updates, times K; M = {scenario.network.antennas}",
        subtitle=f"all users of {plural(count)}; {marks.rounds_of(scenario)}",
    )
    x = fitted(alt.X("weight:Q", title="K times the weight of a user's update"), frame["weight"])
    y = alt.Y("share:Q", title="Empirical CDF", scale=alt.Scale(domain=[0, 1]))
    tips = theme.tips({"what:N": "Weight", "weight:Q": ("Times K", ".3f"), "share:Q": ("Share up to it", ".1%")})
    chart = alt.Chart(frame, title=title, width=theme.WIDTH, height=theme.HEIGHT).mark_line(interpolate="step-after")
    return chart.encode(x=x, y=y, color=colour, opacity=opacity, tooltip=tips).add_params(chosen)


COMPARISON_FIGURES = comparison.FIGURES
FIGURES = {
    "accuracy": accuracy,
    "accuracy_seconds": results.accuracy_seconds,
    "leakage": leakage,
    "tradeoff": tradeoff,
    "energy": energy,
    "couplings": couplings,
}


def summarize(scenario, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables summary, realizations, history, leakage, signs and statuses of a scenario."""
    each = realizations(tables)
    summary = results.summary(
        scenario,
        each,
        [*results.FINAL, *WORST, "understated", "negative_weights", "negative_users", "transmit_energy"],
        pl.col("users").first(),
        pl.lit(scenario.network.antennas).alias("antennas"),
        pl.col("epsilon").max().alias("epsilon_max"),
        pl.col("epsilon_user").max().alias("epsilon_user_max"),
        pl.col("epsilon_antennas_rounds").max().alias("epsilon_antennas_max"),
        pl.col("epsilon_without_receiver").max().alias("epsilon_without_receiver_max"),
        *results.trainings("trained", "diverged"),
        pl.col("channel_uses", "air_seconds", "transmit_energy_limit", "transmit_energy_bound").first(),
    )
    return {
        "summary": summary,
        "realizations": each,
        "history": tables["history"],
        "leakage": leakages(tables),
        "signs": signs(tables["leakage"].filter(users=each["users"][0]), scenario.training.rounds),
        "statuses": results.statuses(tables),
    }


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """`results.realizations`, and the mean over users and rounds of the energy of a user's signal in a round."""
    keys = ["scheme", "realization"]
    sound = tables["history"].filter(pl.col("status").cast(pl.String).is_in(results.KEPT))
    energy = sound.group_by(keys, maintain_order=True).agg(pl.col("transmit_energy").mean())
    return results.realizations(tables).join(energy, on=keys, how="left", maintain_order="left")


def published(scenario, each: pl.DataFrame) -> list[Loss]:
    """What each training costs its worst record, but where more users drop out of a round than are taken for gone."""
    lost = observers.tolerance(scenario.privacy)
    return [Loss(rho=rho, lost=lost) for rho in each["rho_server"]]


def leakages(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Means over users of the table `leakage`, and the largest epsilons of all rounds."""
    groups = tables["leakage"].group_by("scheme", "realization", "users", maintain_order=True)
    return groups.agg(pl.exclude("user").mean(), pl.col(list(marks.OBSERVERS)).max().name.suffix("_max"))


def signs(leakage: pl.DataFrame, rounds: int) -> pl.DataFrame:
    """Mean number of users, over realizations, whose weight in the server's update is negative in 0, 1, ... rounds.

    `leakage` has the rows of the stage's table of one network's size.
    """
    keys = ["scheme", "realization", "negative_rounds"]
    numbers = pl.DataFrame({keys[-1]: pl.int_range(rounds + 1, dtype=pl.Int64, eager=True)})
    every = leakage.select(keys[:2]).unique(maintain_order=True).join(numbers, how="cross")
    counts = leakage.group_by(keys).agg(user_count=pl.len())
    counts = every.join(counts, on=keys, how="left", maintain_order="left").with_columns(
        pl.col("user_count").fill_null(0)
    )
    return theme.means(counts, ["scheme", "negative_rounds"], ["user_count"], marks.SYSTEM)
