"""What a study found, in sentences and in a table: every scheme's result, epsilon and cost, and what nothing dominates.

Made of the tables `outcomes`, `systems`, `front` and `differences` alone. The leader is the best result at which
attacks rarely succeed, or else the best one.
"""

from itertools import product
from string import ascii_uppercase

import numpy as np
import polars as pl

from pwfl.privacy.labels import CONDITIONAL, PROVED
from pwfl.privacy.labels import NONE as UNGUARANTEED
from pwfl.report import unscheduled
from pwfl.report.catalog import COMMON_OUTCOMES, Outcome
from pwfl.report.columns import in_words, lower
from pwfl.report.differences import LEVEL, seen_from
from pwfl.report.sweeps import KIND, main_outcomes, not_above_chance, outcomes_of, with_bare

KEYS = ["scenario", "scheme", "target_epsilon"]
PROVES = (pl.col("guarantee") == PROVED).fill_null(value=False)  # whether a point's epsilon rests on nothing
# Of the table `systems`.
SHOWN = [
    "diverged",
    "attack_rate",
    "guarantee",
    "epsilon_kind",
    "epsilon_assumes",
    "epsilon_trusts",
    "observer",
    "delta",
    "air_seconds_mean",
    "transmit_energy_j_mean",
]
SAME = ["system", "scheme", "target_epsilon", "mean", "epsilon", "air_seconds_mean", "transmit_energy_j_mean"]
ACCURACY = COMMON_OUTCOMES["accuracy"].title
STANDS = {  # what is said of a point's epsilon, by its guarantee, with what it assumes
    PROVED: "with a proved guarantee",
    CONDITIONAL: "with a guarantee that assumes {}",
    UNGUARANTEED: "(ε not guaranteed)",
    None: "(ε not known)",
}
NONE = "-"
NOBODY = unscheduled.COLUMN
RARE = 0.05  # attack rate, at 1% false positives, up to which attacks rarely succeed
NEVER = pl.col(NOBODY) == pl.col("realizations")  # of points that schedule nobody
RARELY = (pl.col("attack_rate") <= RARE).fill_null(value=False)  # whether attacks on a point rarely succeed
SMALL_P = 1e-4  # below which p is not told apart from 0
NAMED = 4  # schemes that a sentence names
NO_USERS = 100.0  # epsilon of a user above which users are not protected
NEGLIGIBLE = 1e-12  # numbers that rounding leaves
THOUSANDS, MILLIONS = 1e3, 1e6  # between which numbers are written out


def points(tables: dict[str, pl.DataFrame], bare: dict[str, list[str]], titles: dict[str, str]) -> pl.DataFrame:
    """A row for each scheme of each scenario: what it came to, at which epsilon, `best` where nothing dominates it.

    `bare` names the schemes without noise by scenario: they are never best. `titles` are the scenarios'. Columns:
    system, scenario, its title `place`, sweep_of, scheme, target_epsilon; the outcome, its mean, low and high, of how
    many realizations, and of how many with no user scheduled; epsilon of a record and of a user (`user_epsilon`, and
    `user_epsilon_most`, the largest), which may be null; those SHOWN. Scenarios with equal results are there once.
    """
    frames = []
    for (system,), each in tables["outcomes"].group_by("system", maintain_order=True):
        x, y = main_outcomes(each, system)
        of_x, of_y = each.filter(outcome=x).select(*KEYS, epsilon="mean"), each.filter(outcome=y)
        either = pl.concat([tables["front"].filter(x=x, y=y), tables["front"].filter(x=y, y=x)])
        of_user = each.filter(outcome="epsilon_user")
        of_user = of_user.select(*KEYS, user_epsilon="mean", user_epsilon_most="most")
        front = either.select(*KEYS, best=True)
        of_y = of_y.with_columns(useless=not_above_chance())
        told = ("outcome", "mean", "low", "high", "realizations", NOBODY, "chance", "useless")
        rows = of_y.select("system", "sweep_of", *KEYS, *told)
        for other in (of_x, of_user, front, tables["systems"].select(*KEYS, *SHOWN)):
            rows = rows.join(other, on=KEYS, how="left", nulls_equal=True, maintain_order="left")
        frames.append(rows)
    rows = with_bare(pl.concat(frames), bare).with_columns(pl.col("best").fill_null(value=False))
    rows = rows.with_columns(place=pl.col("scenario").replace(titles))
    rows = rows.with_columns(pl.col("best") & ~pl.col("bare"))
    swept = pl.col("sweep_of") != pl.col("scenario")
    rows = rows.sort(swept, descending=True, maintain_order=True).unique(SAME, keep="first", maintain_order=True)
    return rows.sort("system", ~pl.col("best"), "bare", "epsilon", maintain_order=True, nulls_last=True)


def sentences(rows: pl.DataFrame, differences: pl.DataFrame) -> list[str]:
    """What each system of `points` comes to: the best result, the least epsilon, and how clear the first is.

    The leader and the ends of a front, the one with a guarantee and the best result; the best non-private baseline; the
    paired difference (`differences`, the report's table) between the leader and the scheme that comes next; and what
    the leader's epsilon means for a user. Of several systems, each has its first sentence.
    """
    said = []
    several = rows["system"].n_unique() > 1
    for (system,), each in rows.group_by("system", maintain_order=True):
        named = each["scenario"].n_unique() > 1
        outcome, of_front = outcomes_of(str(system))[each["outcome"][0]], _front(each)
        best, *more = _ends(of_front, outcome, named) if len(of_front) else [""]
        more += _baseline(each, outcome, named)
        parts = [f"{part}." for part in (best, "; ".join(more)) if part]
        parts = [part[0].upper() + part[1:] for part in parts] + _unscheduled(each) + _useless(each, named)
        if len(of_front):
            leader = _leader(of_front)
            parts += _rival(leader, each, differences, outcome) + _of_users(leader)
        said += [f"{system}: {part}" for part in parts[:1]] if several else parts
    return said


def _front(each: pl.DataFrame) -> pl.DataFrame:
    """A system's points that nothing dominates, by epsilon: of the kind, with a guarantee if any, of the best leader.

    Where no two points trade anything, the best one with an epsilon.
    """
    more = outcomes_of(each["system"][0])[each["outcome"][0]].better == "more"
    good = pl.col("mean") if more else -pl.col("mean")
    kinds = each.filter("best").group_by(KIND, maintain_order=True)
    fronts = [front for _, front in kinds]
    if fronts:
        fronts = [front.sort("epsilon") for front in fronts]
        leaders = pl.concat([pl.DataFrame([_leader(front)], schema=front.schema) for front in fronts])
        rank = leaders.select(PROVES.alias("proves"), RARELY.alias("rarely"), good=good).rows()
        return fronts[max(range(len(fronts)), key=rank.__getitem__)]
    private = each.filter(~pl.col("bare"), ~pl.col("useless"), ~NEVER, pl.col("epsilon").is_finite())
    return private.sort(PROVES, good, descending=True).head(1)


def _leader(front: pl.DataFrame) -> dict:
    """The point of a front, sorted by epsilon, with the best result among those at which attacks rarely succeed.

    Among all, if there is none of these.
    """
    rare = front.filter(RARELY)
    return (front if rare.is_empty() else rare).row(-1, named=True)


def _key(row: dict) -> list:
    return [row[key] for key in KEYS]


def _ends(front: pl.DataFrame, outcome: Outcome, named: bool) -> list[str]:
    """On the leader of a front, on its best result and on its least epsilon."""
    leader, least, best = _leader(front), front.row(0, named=True), front.row(-1, named=True)
    extreme = "Highest" if outcome.better == "more" else "Lowest"
    kind = STANDS[leader["guarantee"]].format(leader["epsilon_assumes"])
    kind += f" and an attack rate of at most {RARE:.0%}" if _key(leader) != _key(best) else ""
    kind += f", trusting {leader['epsilon_trusts']}" if leader["epsilon_trusts"] else ""
    terms = f"δ = {number(leader['delta'])}"
    if leader["attack_rate"] is not None:
        terms += f"; an attack with 1% false positives succeeds in at most {leader['attack_rate']:.1%} of cases"
    found = [
        f"{extreme} {lower(outcome.title)} {kind}: {_result(leader, outcome)} at record-level "
        f"ε = {number(leader['epsilon'])} ({terms}), by {_whose(leader, named)}"
    ]
    if _key(leader) != _key(best):
        found.append(
            f"{extreme.lower()} on the Pareto front: {_result(best, outcome)}, at ε = {number(best['epsilon'])}, by "
            f"{_whose(best, named)}"
        )
    if _key(leader) != _key(least):
        found.append(
            f"smallest ε on the Pareto front: {number(least['epsilon'])}, at {_result(least, outcome)}, by "
            f"{_whose(least, named)}"
        )
    return found


def _of_users(leader: dict) -> list[str]:
    """A sentence on a user's epsilon, where that is the record's, or protects no user."""
    most, epsilon = leader["user_epsilon_most"], leader["epsilon"]
    if most is None or not np.isfinite(most):
        return []
    if most <= epsilon:
        return ["This ε protects all records of a user together."]
    if most < NO_USERS:
        return []
    return [
        f"This ε protects one record. For all records of a user together it is up to {number(most)}, because they move "
        "a message further than one record does; a small user-level ε requires messages that are clipped as a whole, "
        "and many users (docs/privacy.md)."
    ]


def _baseline(each: pl.DataFrame, outcome: Outcome, named: bool) -> list[str]:
    """On the best baseline without noise, if there is one that schedules anybody."""
    without = each.filter("bare", ~NEVER, ~pl.col("useless"), ~pl.col("epsilon").is_finite().fill_null(value=False))
    if without.is_empty():
        return []
    most = without.sort("mean", descending=outcome.better == "more", maintain_order=True).row(0, named=True)
    return [f"best non-private baseline: {_result(most, outcome)}, by {_whose(most, named)}"]


def _unscheduled(each: pl.DataFrame) -> list[str]:
    """A sentence on schemes that schedule nobody."""
    names = each.filter(NEVER)["scheme"].unique(maintain_order=True).to_list()
    return [f"No user scheduled in any realization: {', '.join(names)}."] if names else []


def _useless(each: pl.DataFrame, named: bool) -> list[str]:
    """A sentence on schemes that are not above chance, but those that schedule nobody."""
    found = each.filter("useless", ~NEVER)
    if found.is_empty():
        return []
    names = list(dict.fromkeys(_whose(row, named) for row in found.iter_rows(named=True)))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return [f"Not above chance ({found['chance'].max():.3g}): {', '.join(names[:NAMED])}{more}."]


def _rival(best: dict, each: pl.DataFrame, differences: pl.DataFrame, outcome: Outcome) -> list[str]:
    """Sentences on the difference between the best point and the next best one: of its scenario, and at its epsilon."""
    own = seen_from(differences.filter(system=best["system"]), best)
    of_points = each.filter(~pl.col("bare")).select(*KEYS, rival_mean="mean", rival="place")
    than = [f"than_{key}" for key in KEYS]
    rivals = own.filter(outcome=best["outcome"]).join(of_points, left_on=than, right_on=KEYS, nulls_equal=True)
    is_inside, several = pl.col("than_scenario") == best["scenario"], each["scenario"].n_unique() > 1
    found = []
    for kind in (rivals.filter(is_inside), rivals.filter(~is_inside)):
        nearest = kind.sort("rival_mean", descending=outcome.better == "more").head(1)
        epsilons = own.filter(outcome="epsilon").join(nearest, on=than, how="semi", nulls_equal=True)
        for row in nearest.iter_rows(named=True):
            rival = f"{row['than_scheme']} ({row['rival']})" if several else row["than_scheme"]
            name = best["scheme"] if row["than_scenario"] == best["scenario"] else _whose(best, several)
            found.append(difference(row, name, rival, outcome, next(iter(epsilons["difference"]), None)))
    return found


def difference(row: dict, scheme: str, than: str, outcome: Outcome, epsilon: float | None = None) -> str:
    """A sentence on a row of the report's table `differences`; `epsilon` is that of the two schemes' epsilons."""
    factor, unit = (100, " points") if outcome.format.endswith("%") else (1, "")

    def told(value: float) -> str:
        return f"{value * factor:.3g}"

    size = told(abs(row["difference"]))
    if row["p"] is None:
        return f"{scheme} and {than} have one realization in common, which tells nothing of their difference."
    stated = f"95% interval {told(row['low'])} to {told(row['high'])}; {_p(row['p_corrected'])}"
    stated += ", " if row["pairs"] > 1 else "; "
    stated += f"corrected for {row['pairs']} pairs; " if row["pairs"] > 1 else ""
    stated += f"{row['realizations']} realizations"
    at = f" at ε = {number(row['epsilon'])}" if row["epsilon"] is not None else ""
    if row["epsilon"] is None and epsilon is not None and np.isfinite(epsilon):
        at = f"; its record-level ε is {number(abs(epsilon))} {'higher' if epsilon > 0 else 'lower'}"
    if row["p_corrected"] < LEVEL:
        way = "above" if row["difference"] > 0 else "below"
        return f"{scheme} is {size}{unit} {way} {than} in {lower(outcome.title)} ({stated}){at}."
    more = (
        f", about {row['realizations_needed']:,} would detect the measured difference"
        if row["realizations_needed"]
        else ""
    )
    said = f"{scheme} and {than} do not differ significantly in {lower(outcome.title)}"
    few = f"{row['realizations']} realizations detect {told(row['detectable'])}{unit}"
    return f"{said}: {told(row['difference'])}{unit} ({stated}){at}. {few}{more}."


def _p(value: float) -> str:
    return f"p < {SMALL_P:g}" if value < SMALL_P else f"p = {value:.2g}"


def _result(row: dict, outcome: Outcome) -> str:
    """A mean with its interval, and its realizations with no user scheduled or that diverged."""
    interval = "" if row["low"] is None else " to ".join(number(row[end], outcome) for end in ("low", "high"))
    notes = [note for note in (f"95% interval {interval}" if interval else "", _left(row)) if note]
    return number(row["mean"], outcome) + (f" ({'; '.join(notes)})" if notes else "")


def _left(row: dict) -> str:
    """How many realizations of a row schedule no user, and how many diverged."""
    diverged = f"{row['diverged']} more diverged" if row["diverged"] else ""
    return "; ".join(part for part in (unscheduled.share(row), diverged) if part)


def _whose(row: dict, named: bool) -> str:
    return f"{row['scheme']} ({row['place']})" if named else row["scheme"]


def number(value: float | None, outcome: Outcome | None = None) -> str:
    """A number as a reader takes it in: a share in percent, others to three digits; a hyphen for none.

    >>> number(0.94712, Outcome("accuracy", "more", "~%")), number(18.04), number(float("inf")), number(None)
    ('94.7%', '18', '∞', '-')
    >>> number(2484.2), number(3.2e7)
    ('2,480', '3.2e+07')
    """
    if value is None:
        return NONE
    value = 0.0 if abs(value) < NEGLIGIBLE else value
    if outcome and outcome.format.endswith("%"):
        return f"{value:.1%}"
    short = f"{value:.3g}"
    return f"{float(short):,.0f}" if THOUSANDS <= abs(value) < MILLIONS else short.replace("inf", "∞")


def table(rows: pl.DataFrame) -> tuple[list[dict], dict[str, str]]:
    """The rows of `points` in words, as the page shows them, and what observers see, by the letters that rows have."""
    seen = rows["observer"].drop_nulls().unique(maintain_order=True)
    marks = ("".join(pair) for pair in product(["", *ascii_uppercase], ascii_uppercase))  # A to Z, AA, AB ...
    letters = dict(zip(seen, marks, strict=False))
    shown = []
    for row in rows.iter_rows(named=True):
        outcome = outcomes_of(row["system"])[row["outcome"]]
        ends = [number(row[end], outcome) for end in ("low", "high")]
        terms = "without noise" if row["bare"] and row["epsilon"] is not None else in_words(row)
        hidden = row["epsilon"] is not None and np.isfinite(row["epsilon"])
        terms_of = f"δ = {number(row['delta'])}" if hidden else ""
        rate = f"attack rate ≤ {row['attack_rate']:.1%}" if hidden and row["attack_rate"] is not None else ""
        shown.append(
            row
            | {"result": number(row["mean"], outcome), "title": outcome.title, "terms": terms}
            | {"interval": " to ".join(ends) if row["low"] is not None else "", "unscheduled": _left(row)}
            | {"epsilon": number(row["epsilon"]), "user_epsilon": number(row["user_epsilon"])}
            | {"delta": terms_of, "attack": rate, "letter": letters.get(row["observer"], "")}
            | {"seconds": number(row["air_seconds_mean"]), "joules": number(row["transmit_energy_j_mean"])}
        )
    return shown, {letter: text for text, letter in letters.items()}
