"""The paper behind the system `age_aware`, for its page: figures, errata, and functions by equation."""

from collections.abc import Callable, Collection, Hashable, Mapping

import polars as pl

from pwfl.report.curves import empty, exact, means
from pwfl.report.paper import Panel, Paper
from pwfl.scenario.values import value_of
from pwfl.systems.age_aware.claims import (
    CLASSIC,
    EXPECTED,
    INTERPRETATIONS,
    MINIMIZED,
    NOISE,
    OPTIMUM_ADAPTIVE,
    OPTIMUM_CONSTANT,
    PAPER_CLAIMS,
    PROPOSED_ADAPTIVE,
    PROPOSED_CONSTANT,
    RANDOM_ADAPTIVE,
    RANDOM_CONSTANT,
    SIMULATION,
)

PROPOSED = (PROPOSED_CONSTANT, PROPOSED_ADAPTIVE)
# Schemes of Fig. 3, and the one that the abstract compares with, in drawing order.
SHOWN = (CLASSIC, RANDOM_CONSTANT, RANDOM_ADAPTIVE, OPTIMUM_CONSTANT, OPTIMUM_ADAPTIVE, *PROPOSED)
# The paper's number of clients, and this project's choices of parameters that the paper leaves open.
CHOSEN = {key: values for interpretation in INTERPRETATIONS for key, values in interpretation.chosen_values.items()} | {
    "clients.number": (3,)
}
TIME, TARGET = "collection time of the client, T = 20", "privacy target ε at T"


def _chosen(contents: dict[str, dict], allowed: Mapping[str, Collection], table: str) -> dict | None:
    """Return the contents of the first scenario with parameters in `allowed` and rows in `table`; None: no such one."""
    for content in contents.values():
        if len(content[table]) and all(value_of(content["scenario"], key) in values for key, values in allowed.items()):
            return content
    return None


def _swept(client: int) -> Callable[[dict[str, dict]], pl.DataFrame]:
    """Return a panel's `curves`: loss difference over a client's collection time, simulated and in closed form.

    The other clients' data are fresh.
    """

    def curves(contents: dict[str, dict]) -> pl.DataFrame:
        content = _chosen(contents, CHOSEN, "sweep")
        if content is None:
            return empty()
        swept = content["sweep"].filter(pl.col("scheme") == pl.col("scheme").first(), swept_user=client)
        points, mean = swept.sort("swept_time"), f"{SIMULATION}_mean"
        simulated = points.drop_nulls(mean).select(
            pl.lit("simulated").alias("series"),
            pl.col("swept_time").cast(pl.Float64).alias("x"),
            pl.col(mean).alias("y"),
            *(pl.coalesce(f"{SIMULATION}_ci_{end}", mean).alias(f"y_ci_{end}") for end in ("low", "high")),
        )
        closed = exact("closed form", points["swept_time"].to_numpy(), points[f"{EXPECTED}_mean"].to_numpy())
        return pl.concat([simulated, closed])

    return curves


def _over_targets(column: str) -> Callable[[dict[str, dict]], pl.DataFrame]:
    """Return a panel's `curves`: each scheme's mean of a column over realizations, by target."""

    def curves(contents: dict[str, dict]) -> pl.DataFrame:
        content = _chosen(contents, CHOSEN | MINIMIZED, "realizations")
        if content is None:
            return empty()
        rows = means(content["realizations"], "target_epsilon", column)
        names: dict[Hashable, str] = {
            (scheme.scheduler, scheme.noise): scheme.name for scheme in content["scenario"].schemes
        }
        shown = [names[series.name] for term in SHOWN for series in term.series if series.name in names]
        return pl.concat([rows.clear(), *(rows.filter(series=name) for name in shown)])

    return curves


def _time(name: str, client: int, title: str, note: dict[str, str]) -> Panel:
    """Return a panel of Fig. 2."""
    return Panel(name=name, title=title, x=TIME, curves=_swept(client), log_y=True, trained=True, captions=note)


def _target(name: str, column: str, title: str, note: dict[str, str]) -> Panel:
    """Return a panel of Fig. 3."""
    return Panel(name=name, title=title, x=TARGET, curves=_over_targets(column), log_x=True, log_y=True, captions=note)


BETWEEN = {"F2-2": "best time neither 0 nor T"}
PAPER = Paper(
    idea="Clients' data change by Markov chains, and old data tell less about the present: they need less noise to "
    "protect it, and are less accurate. The paper chooses when each client collects by a bound on the loss, and adapts "
    "the noise to the data's age.",
    size="Three clients with 100 records each, as in the paper, whose chains, start laws, targets and T the text lost; "
    "400 realizations of 200 draws; 10, 30 and 100 clients are this project's",
    claims=PAPER_CLAIMS,
    interpretations=INTERPRETATIONS,
    panels=(
        (
            _time("2 (a)", 0, "Loss difference (2a), Wh²: slow client", {"F2-1": "fresh data best"}),
            _time("2 (b)", 1, "Loss difference (2a), Wh²: medium client", BETWEEN),
            _time("2 (c)", 2, "Loss difference (2a), Wh²: fast client", BETWEEN),
        ),
        (
            _target(
                "3 (a)",
                EXPECTED,
                "Expected loss difference (2a), Wh²",
                {
                    "A-1": "proposed below classic DP",
                    "F3-1": "proposed, adaptive noise lowest",
                    "F3-2": "proposed nearly as low as the optimum",
                    "S4B-1": "least bound near the best time",
                },
            ),
            _target(
                "3 (b)",
                NOISE,
                "Noise power in the aggregated model, Wh²",
                {
                    "F3-3": "constant above adaptive noise for random and optimal times",
                    "F3-4": "constant above adaptive noise for proposed times",
                },
            ),
        ),
    ),
    not_drawn={
        "Fig. 1": "A drawing of the system, without data.",
        "Fig. 3 (a), simulated": "Drawn in closed form. Simulated means agree with it (X-3); the figure loss.svg of "
        "each scenario shows them.",
        "Fig. 3, scheme 3 to the letter": "With the noise fixed first (I4), all clients collect at T, as with classic "
        "DP, which is drawn as the abstract compares with it.",
        "The paper's curves": "Their data are not published, and the text reports no value of any figure.",
    },
    errata=(
        (
            "Sec. II-B",
            "data are a stationary process",
            "a homogeneous one, from start laws of Sec. IV-A: the age of stationary data would cost no accuracy",
        ),
        ("Sec. II-B", "“aggression time”", "aggregation time T"),
    ),
    equations=(
        ("chain of Sec. IV-A", "systems.age_aware.markov.birth_death", "aging"),
        ("reverse process of Sec. II-B", "systems.age_aware.markov.reverse_kernels", ""),
        ("Δ(T - t), exact", "systems.age_aware.markov.total_variation", "aging"),
        ("bound on Δ by the spectral gap", "systems.age_aware.markov.total_variation_bound", "aging"),
        ("age-dependent ε (1)", "systems.age_aware.age.age_epsilon", ""),
        ("required ε_C (4)", "systems.age_aware.age.required_epsilon", ""),
        (
            "Laplace noise",
            "systems.age_aware.age.laplace_scale, systems.age_aware.noise.run",
            "noise (Fig. 3 b)",
        ),
        ("loss difference (2a), simulated", "systems.age_aware.train.trainer", "sweep (Fig. 2), loss (Fig. 3 a)"),
        ("loss difference (2a), in closed form", "systems.age_aware.loss_difference.expected", "sweep (Fig. 2)"),
        ("bound of Theorem 1 (3)", "systems.age_aware.loss_difference.separate_penalty", ""),
        ("scheduling, Sec. III-B", "systems.age_aware.age_search", "times, search"),
        ("schemes of Sec. IV-B", "systems.age_aware.schedule.run", "loss, noise (Fig. 3)"),
    ),
)
