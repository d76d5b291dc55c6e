"""Figures and tables of the system `random_orthogonalization`."""

import altair as alt
import polars as pl

from pwfl.privacy.composition import Loss
from pwfl.report import chance, results, theme
from pwfl.report.axes import fitted, pixels
from pwfl.report.drawing import INK, SOFT
from pwfl.report.words import plural
from pwfl.systems.random_orthogonalization import observers
from pwfl.systems.random_orthogonalization.tables import WORST
from pwfl.tables.contract import limits

SYSTEM = "random_orthogonalization"
READINGS = {  # interpretations of epsilon, for one round unless the name differs
    "epsilon_printed": "(6) as printed",
    "epsilon_sensitivity": "(a) true sensitivity",
    "epsilon_gaussian": "(b) exact",
    "epsilon": "(c) exact, all rounds",
    "epsilon_antennas": "(d) all antennas",
}
WEIGHTS = {"coupling_real": "Re(h_s^H h_k), the weight", "energy": "||h_k||^2, in Theorem 1"}
COMPARABILITY = (
    "Many antennas, all users at once, many local steps a round; each user's whole update is protected, "
    "so all its records together. Signals have no unit of energy."
)


def accuracy(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw mean test accuracy over rounds, from round 1 on: the start would stretch the axis."""
    kept = _trained(tables["history"])
    title = alt.TitleParams(f"Test accuracy, M = {scenario.network.antennas}", subtitle=_over(kept))
    frame = theme.means(kept.filter(pl.col("round") > 0), ["scheme", "round"], ["accuracy"], SYSTEM)
    levels = chance.scenario_levels(scenario, tables["history"])
    return theme.band(frame, "accuracy", scenario, title, theme.accuracy_axis(), levels=levels)


def leakage(scenario, tables: dict[str, pl.DataFrame]) -> alt.VConcatChart | alt.Chart:
    """Fig. 2: leakage for one number of antennas, a panel for each scheme with noise, and the closed form of (6)."""
    table = leakages(tables)
    heading = f"Leakage of a user, M = {scenario.network.antennas}"
    long = table.unpivot(
        list(READINGS), index=["scheme", "realization", "users"], variable_name="reading", value_name="value"
    )
    frame = theme.means(long, ["scheme", "reading", "users"], ["value"], SYSTEM).filter(
        pl.col("value_mean").is_finite()
    )
    if frame.is_empty():
        return theme.empty("no scheme has noise", heading)
    frame = theme.within(frame, "value", *limits(SYSTEM, "epsilon"))
    formula = table.group_by("scheme", "users", maintain_order=True).agg(value=pl.col("epsilon_closed_form").first())
    formula = formula.filter(pl.col("value").is_finite())
    means, *intervals = theme.ends(frame, "value")
    title = f"Epsilon of a record or a user at delta = {scenario.privacy.delta:g}"
    ticks = alt.Axis(format=".6~g", values=[digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 5)])
    y = fitted(alt.Y(title=title, axis=ticks, scale=alt.Scale(type="log")), means.append(formula["value"]), *intervals)
    frame = theme.within(frame, "value", *y["scale"]["domain"])
    x = fitted(alt.X("users:Q", title="Users K"), frame["users"], room=0)
    colours = theme.scenario_colours(scenario)
    panels = [
        _panel(rows, formula.filter(scheme=name), x, y, colours[str(name)]).properties(title=f"{name}")
        for (name,), rows in frame.group_by("scheme", maintain_order=True)
    ]
    subtitle = [f"{_over(table)}; {_describe_rounds(scenario)}", "of one round where names do not say otherwise"]
    return alt.vconcat(*panels).properties(title=alt.TitleParams(heading, subtitle=subtitle))


def _panel(frame: pl.DataFrame, formula: pl.DataFrame, x: alt.X, y: alt.Y, colour: str) -> alt.LayerChart:
    """Draw a scheme's epsilons under each interpretation, named at their right ends."""
    low, mean = y.copy(), y.copy()
    low.shorthand, mean.shorthand = "value_ci_low:Q", "value_mean:Q"
    base = alt.Chart(frame).encode(x=x, detail="reading:N")
    area = base.mark_area(opacity=0.18, color=colour).encode(y=low, y2="value_ci_high:Q")
    line = base.mark_line(color=colour, point=alt.OverlayMarkDef(size=30, color=colour)).encode(y=mean)
    along = y.copy()
    along.shorthand = "value:Q"
    dashed = alt.Chart(formula).mark_line(strokeDash=[5, 4], color=INK, strokeWidth=1.5).encode(x=x, y=along)
    last = frame.sort("users", maintain_order=True).group_by("reading", maintain_order=True).last()
    ends = [(READINGS[name], value, colour) for name, value in last.select("reading", "value_mean").rows()]
    ends += [("closed form of (6)", value, SOFT) for value in formula.sort("users")["value"].tail(1)]
    places = pixels(y, [value for _, value, _ in ends], theme.HEIGHT)
    names = theme.name_ends((name, float(at), label) for (name, _, label), at in zip(ends, places, strict=True))
    return alt.layer(area, line, dashed, *names).properties(width=theme.WIDTH, height=theme.HEIGHT)


def tradeoff(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw final accuracy against epsilon after all rounds, for the scenario's observer, realization by realization."""
    heading = f"Accuracy against privacy, M = {scenario.network.antennas}"
    axis = f"Epsilon of a record or a user at delta = {scenario.privacy.delta:g}"
    note = f"after {_describe_rounds(scenario)}, worst user"
    return results.tradeoff(scenario, tables["history"], realizations(tables), axis, heading, note)


def energy(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw (e): energy of a user's signal in a round over the paper's limit P = alpha^2."""
    limit = tables["outcome"]["transmit_energy_limit"][0]
    kept = _trained(tables["history"]).drop_nulls("transmit_energy")
    kept = kept.with_columns(share=pl.col("transmit_energy") / limit)
    title = alt.TitleParams("Transmit energy", subtitle=_over(kept))
    y = alt.Y(title="Energy of a round's signal / P", scale=alt.Scale(type="log"), axis=alt.Axis(format=".6~g"))
    frame = theme.means(kept, ["scheme", "round"], ["share"], scenario.system)
    chart = theme.band(frame, "share", scenario, title, y, also=[1.0])
    return theme.referenced(chart, 1.0, "the paper's limit P", "y", y["title"])


def couplings(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw the distribution of the weights of users' updates, and of the weights that Theorem 1 assumes."""
    over = ", over M" if scenario.radio.normalization == "I" else ""
    weights = {name: f"{label}{over}" for name, label in WEIGHTS.items()}
    long = tables["links"].unpivot(list(weights), variable_name="what", value_name="weight")
    shares = theme.distribution(long.with_columns(pl.col("what").replace(weights)), "weight", by="what")
    count = tables["links"]["realization"].n_unique()
    title = alt.TitleParams(
        f"Weights of the users' updates, times K; M = {scenario.network.antennas}",
        subtitle=f"all users of {plural(count)}; {_describe_rounds(scenario)}",
    )
    x = fitted(alt.X("weight:Q", title="K times the weight of a user's update"), shares["weight"])
    return theme.sized(
        alt.layer(*theme.steps(shares, "weight", x, dict.fromkeys(weights.values(), INK), "what")), title
    )


def _trained(history: pl.DataFrame) -> pl.DataFrame:
    """Select the history of training runs that did not diverge."""
    return history.filter(pl.col("status").cast(pl.String) == "trained")


def _over(frame: pl.DataFrame) -> str:
    """Describe curves and bands for a subtitle."""
    return theme.band_over(frame["realization"].n_unique())


def _describe_rounds(scenario) -> str:
    """Describe the number of rounds and the coherence interval of channels for a subtitle."""
    coherence = scenario.radio.coherence_rounds
    every = {None: "one channel", 1: "channels redrawn each round"}
    return f"{scenario.training.rounds} rounds, {every.get(coherence, f'channels redrawn every {coherence} rounds')}"


FIGURES = {
    "accuracy": accuracy,
    "accuracy_seconds": results.accuracy_seconds,
    "leakage": leakage,
    "tradeoff": tradeoff,
    "energy": energy,
    "couplings": couplings,
}


def summarize(scenario, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables summary, realizations, history, leakage, signs and statuses of a scenario."""
    rows = realizations(tables)
    summary = results.summary(
        scenario,
        rows,
        [*results.FINAL, *WORST, "understated", "negative_weights", "negative_users", "transmit_energy"],
        pl.col("users").first(),
        pl.lit(scenario.network.antennas).alias("antennas"),
        pl.col("epsilon").max().alias("epsilon_max"),
        pl.col("epsilon_user").max().alias("epsilon_user_max"),
        *results.trainings("trained", "diverged"),
        pl.col("channel_uses", "air_seconds", "transmit_energy_limit", "transmit_energy_bound").first(),
    )
    return {
        "summary": summary,
        "realizations": rows,
        "history": tables["history"],
        "leakage": leakages(tables),
        "signs": signs(tables["leakage"].filter(users=rows["users"][0]), scenario.training.rounds),
        "statuses": results.statuses(tables),
    }


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Return `results.realizations` with the mean energy of a user's signal in a round, over users and rounds."""
    keys = ["scheme", "realization"]
    sound = tables["history"].filter(pl.col("status").cast(pl.String).is_in(results.KEPT))
    energy = sound.group_by(keys, maintain_order=True).agg(pl.col("transmit_energy").mean())
    return results.realizations(tables).join(energy, on=keys, how="left", maintain_order="left")


def published(scenario, rows: pl.DataFrame) -> list[Loss]:
    """Return each training run's loss of the most exposed record, except if more users drop out than planned."""
    lost = observers.tolerance(scenario.privacy)
    return [Loss(rho=rho, lost=lost) for rho in rows["rho_server"]]


def leakages(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Compute means over users of the table `leakage`, and the users' largest epsilon after all rounds."""
    groups = tables["leakage"].group_by("scheme", "realization", "users", maintain_order=True)
    return groups.agg(pl.exclude("user").mean(), epsilon_max=pl.col("epsilon").max())


def signs(leakage: pl.DataFrame, rounds: int) -> pl.DataFrame:
    """Compute the mean number, over realizations, of users with a negative weight in the update in 0, 1, ... rounds.

    `leakage` has the rows of the stage's table of one network's size.
    """
    keys = ["scheme", "realization", "negative_rounds"]
    numbers = pl.DataFrame({keys[-1]: pl.int_range(rounds + 1, dtype=pl.Int64, eager=True)})
    every = leakage.select(keys[:2]).unique(maintain_order=True).join(numbers, how="cross")
    counts = leakage.group_by(keys).agg(user_count=pl.len())
    counts = every.join(counts, on=keys, how="left", maintain_order="left").with_columns(
        pl.col("user_count").fill_null(0)
    )
    return theme.means(counts, ["scheme", "negative_rounds"], ["user_count"], SYSTEM)
