"""Make the table of a study's points: a row for each scheme of each scenario, with its outcome and its name."""

import re
from itertools import combinations

import polars as pl

from pwfl.report import theme, unscheduled
from pwfl.report.catalog import Outcome
from pwfl.report.sweeps import (
    AXIS,
    INDEX,
    find_point,
    index_columns,
    list_outcomes,
    main_outcomes,
    not_above_chance,
    swept_keys,
)
from pwfl.report.sweeps import KEYS as PLACES
from pwfl.report.words import lower
from pwfl.scenario.sweep import in_words, name_and_unit, text

SYMBOLS = {AXIS: "ε"}
SAME = ["system", "scheme", "target_epsilon", "mean", "epsilon", "air_seconds_mean", "transmit_energy_j_mean"]
OF_SYSTEMS = ["air_seconds_mean", "transmit_energy_j_mean", "diverged"]  # columns of the table `systems`
COUNTS = ("realizations", unscheduled.COLUMN, "chance")
SEEN = re.compile(
    r"\b(active|noisy) |( of| in|,) (every|all) rounds?\b.*?(?=;|$)|,? of all rounds but.*|; (knows|asks).*"
    r"|, channels known"
)
MOST_PARTS = 3  # most parts of a title that distinguish it from others


def points(study: dict[str, dict], tables: dict[str, pl.DataFrame], titles: dict[str, str]) -> pl.DataFrame:
    """Make the points of a study from `study`, as in `report.build.compare`, its tables, and scenarios' titles by name.

    Scenarios that are swept have titles, too. Columns: system, scenario, sweep_of, `title` (that of sweep_of), `place`
    (the text that distinguishes the point from others of its scheme), `value` (only its swept values), scheme,
    target_epsilon, colour; outcome, mean, ci_low, ci_high, COUNTS, `useless` (not above chance); epsilon, its interval,
    attack_rate, epsilon_user, epsilon_user_max, guarantee, TERMS, `seen` (the observer's view, in short), `rank` (of
    the observer, largest for the one who sees least), `bare` (adds no noise), `open` (`bare`, and has no finite
    epsilon), `best` (undominated and not `bare`), and OF_SYSTEMS. Equal results are listed once.
    """
    frames = []
    for system in dict.fromkeys(content["scenario"].system for content in study.values()):
        outcomes = tables["outcomes"].filter(system=system)  # none of schemes that the study only draws
        x, y = main_outcomes(outcomes, system)
        index, front = index_columns(outcomes), tables["front"]
        frame = outcomes.filter(outcome=y).select(
            *index, "attack_rate", "outcome", "mean", "ci_low", "ci_high", *COUNTS
        )
        frame = frame.with_columns(useless=not_above_chance())
        epsilons = outcomes.filter(outcome="epsilon").select(
            *INDEX, epsilon="mean", epsilon_ci_low="ci_low", epsilon_ci_high="ci_high"
        )
        user_epsilons = outcomes.filter(outcome="epsilon_user").select(
            *INDEX, epsilon_user="mean", epsilon_user_max="max"
        )
        both = (pl.col(axis).is_in([x, y]) for axis in "xy")
        best = front.filter(*both).select(*INDEX, best=True)
        for other in (epsilons, user_epsilons, best, tables["systems"].select(*INDEX, *OF_SYSTEMS)):
            frame = frame.join(other, on=INDEX, how="left", nulls_equal=True, maintain_order="left")
        frames.append(frame.with_columns(_named(frame, system, study, titles)))
    rows = pl.concat(frames, how="diagonal_relaxed")
    rows = rows.with_columns(pl.col("best").fill_null(value=False) & ~pl.col("bare"))
    known = pl.col("epsilon").is_finite().fill_null(value=False)  # also by a receiver's noise
    rows = rows.with_columns(open=pl.col("bare") & ~known)
    rows = rows.select(*PLACES, *swept_keys(tables["outcomes"]), pl.exclude(*PLACES, *swept_keys(tables["outcomes"])))
    swept = pl.col("sweep_of") != pl.col("scenario")
    once = rows.with_row_index().sort(swept, descending=True, maintain_order=True)
    return once.unique(SAME, keep="first", maintain_order=True).sort("index").drop("index")


def _named(rows: pl.DataFrame, system: str, study: dict[str, dict], titles: dict[str, str]) -> list[pl.Series]:
    """Return the columns LOOKS, with names and looks of a system's rows."""
    names = {name: readable_title(titles.get(name, name), name) for name in dict.fromkeys(rows["sweep_of"])}
    short, swept = shorten_titles(names), varied(rows)
    scenarios = {name: content["scenario"] for name, content in study.items()}
    schemes = {(name, scheme.name): scheme for name, scenario in scenarios.items() for scheme in scenario.schemes}
    colours = theme.study_colours(system, (scenario for scenario in scenarios.values() if scenario.system == system))
    ranks = _ranks(rows)
    looks = []
    for row in rows.iter_rows(named=True):
        scheme, values = schemes[row["scenario"], row["scheme"]], find_point(study, row["scenario"]).values
        value_texts = [with_value(key, values[key]) for key in swept if values.get(key) is not None]
        if row["target_epsilon"] is not None and scheme.noise != "none":  # without noise, targets change nothing
            value_texts.append(f"target ε {text(row['target_epsilon'])}")
        place = [lower(short[row["sweep_of"]])] * (len(names) > 1) + value_texts
        looks.append(
            {
                "title": names[row["sweep_of"]],
                "place": ", ".join(place),
                "value": ", ".join(value_texts),
                "bare": scheme.noise == "none",
                "colour": colours[row["scheme"]],
                "seen": seen_by(row["observer"] or ""),
                "rank": ranks.get(row["observer"], 0),
            }
        )
    return pl.DataFrame(looks, schema=LOOKS).get_columns()


LOOKS = {
    "title": pl.String,
    "place": pl.String,
    "value": pl.String,
    "bare": pl.Boolean,
    "colour": pl.String,
    "seen": pl.String,
    "rank": pl.Int64,
}


def readable_title(title: str, name: str) -> str:
    """Return a scenario's title, or its name in words if it has none."""
    return title if title != name else name.replace("_", " ")


def _ranks(rows: pl.DataFrame) -> dict[str, int]:
    """Rank observers from the one who sees most: first those that require no trust, then in the study's order."""
    every = rows.drop_nulls("observer").unique("observer", keep="first", maintain_order=True)
    ordered = every.sort(pl.col("epsilon_trusts").fill_null("") != "", maintain_order=True)
    return {observer: rank for rank, observer in enumerate(ordered["observer"])}


def varied(rows: pl.DataFrame) -> list[str]:
    """List the keys of swept parameters that have several values in rows of points."""
    return [key for key in swept_keys(rows) if rows[key].drop_nulls().n_unique() > 1]


def ranked(rows: pl.DataFrame) -> list[str]:
    """Sort the keys of `varied`: numbers first, most values first. Points are drawn over the first key."""
    return sorted(varied(rows), key=lambda key: (not rows[key].dtype.is_numeric(), -rows[key].n_unique()))


def symbol(key: str) -> str:
    """Return the short name of a swept parameter, for use with its values.

    >>> symbol("privacy.target_epsilon"), symbol("schedule.gamma"), symbol("radio.resource_blocks")
    ('ε', 'γ', 'resource blocks')
    """
    return SYMBOLS.get(key) or in_words(key)


def with_value(key: str, value) -> str:
    """Write a swept parameter and its value, in short.

    >>> with_value("privacy.target_epsilon", 2.0), with_value("radio.snr_db", 30.0)
    ('ε 2', 'SNR 30 dB')
    """
    name, unit = name_and_unit(key)
    return " ".join(filter(None, (SYMBOLS.get(key, name), text(value), unit)))


def seen_by(observer: str) -> str:
    """Shorten the description of an observer's view.

    >>> seen_by("the sum of all noisy messages of every round; up to 20% of a sum's senders collude")
    "the sum of all messages; up to 20% of a sum's senders collude"
    >>> seen_by("each active user's noisy message of every round"), seen_by("the server's update of every round")
    ("each user's message", "the server's update")
    """
    return SEEN.sub("", observer)


def shorten_titles(titles: dict[str, str]) -> dict[str, str]:
    """Shorten titles, by name, to the fewest comma-separated parts that no other title has.

    >>> titles = {"a": "Better learning, equal ε, only the sum", "b": "Better learning, own noise", "c": "Learning"}
    >>> shorten_titles(titles)
    {'a': 'equal ε', 'b': 'own noise', 'c': 'Learning'}
    """
    parts = {name: title.split(", ") for name, title in titles.items()}
    parts_of = {}
    for name, title_parts in parts.items():
        others = [set(other) for key, other in parts.items() if key != name]
        sets = (some for k in range(1, min(len(title_parts), MOST_PARTS) + 1) for some in combinations(title_parts, k))
        distinct = (some for some in sets if not any(set(some) <= other for other in others))
        parts_of[name] = ", ".join(next(distinct, title_parts))
    return parts_of


def find_outcome(row: dict) -> Outcome:
    """Return the outcome of a point's row."""
    return list_outcomes(row["system"])[row["outcome"]]


def called(row: dict) -> str:
    """Name a point: its scheme, and the text that distinguishes it from others of the scheme."""
    return ", ".join(part for part in (row["scheme"], row["place"]) if part)


def place_of_sweep(row: dict) -> str:
    """Return the text that distinguishes a point's sweep from others, without the point's values.

    >>> place_of_sweep({"place": "equal ε, γ 3", "value": "γ 3"}), place_of_sweep({"place": "γ 3", "value": "γ 3"})
    ('equal ε', '')
    >>> place_of_sweep({"place": "equal ε", "value": ""})
    'equal ε'
    """
    return row["place"].removesuffix(row["value"]).removesuffix(", ") if row["value"] else row["place"]


def baseline(rows: pl.DataFrame) -> float | None:
    """Return the best mean outcome of non-private baselines, from points of one system; None if there are none."""
    if rows.is_empty():
        return None
    best = pl.Expr.max if find_outcome(rows.row(0, named=True)).better == "more" else pl.Expr.min
    return rows.filter("bare", pl.col("mean").is_finite()).select(best(pl.col("mean"))).item()


def find_chance(rows: pl.DataFrame) -> float | None:
    """Return the accuracy that needs no learning, from points of one system; None for other outcomes."""
    return rows.select(pl.col("chance").max()).item()


def finite(rows: pl.DataFrame) -> pl.DataFrame:
    """Select the points with a positive, finite epsilon and a finite mean."""
    return rows.filter(pl.col("epsilon").is_finite(), pl.col("epsilon") > 0, pl.col("mean").is_finite())


def lines(rows: pl.DataFrame) -> list[tuple[pl.DataFrame, str]]:
    """List the curves of points, each sorted by the key it is over, with its other swept values in words.

    Curves are over `target_epsilon` if it varies, else over the first key of `ranked`. A curve has two or more points
    of a scheme in a sweep, with equal values of the other swept parameters.
    """
    swept = ranked(rows)
    if rows["target_epsilon"].drop_nulls().n_unique() > 1:
        swept.insert(0, "target_epsilon")
    if not swept:
        return []
    key, *others = swept
    curves = []
    for _, curve in rows.drop_nulls(key).group_by("sweep_of", "scheme", *others, maintain_order=True):
        if len(curve) > 1:
            more = ", ".join(with_value(other, curve[other][0]) for other in others if curve[other][0] is not None)
            curves.append((curve.sort(key), more))
    return curves
