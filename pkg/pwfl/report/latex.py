"""Tables as LaTeX for a paper: booktabs, means with their uncertainty, and under each table what its epsilons mean.

A mean stands as $94.7 \\pm 0.3$, where 0.3 is half of its 95% interval, with one digit, or two of which the first is 1.
Where the interval ends at a bound of its quantity, both of its ends stand for it: $1.2$ [$0$, $3$].
"""

import math
import re
import textwrap
import unicodedata
from itertools import product
from string import ascii_lowercase

import polars as pl

from pwfl.report import unscheduled
from pwfl.report.columns import TERMS
from pwfl.report.differences import COSTS, PAIR
from pwfl.report.finding import SMALL_P
from pwfl.report.sweeps import outcomes_of, swept_keys
from pwfl.report.theme import counted, ranged

SPECIAL = (
    {c: f"\\{c}" for c in "%&#${}"}
    | {"_": "\\_\\allowbreak "}
    | {"~": "\\textasciitilde{}", "^": "\\textasciicircum{}"}
)
SPECIAL |= {"\\": "\\textbackslash{}", "<": "\\textless{}", ">": "\\textgreater{}", "²": "$^2$"}
# At the start of a row, the first two would belong to the line break before it.
SPECIAL |= {"[": "{[}", "*": "{*}", "|": "\\textbar{}", "`": "\\textasciigrave{}"}
GREEK = {
    c: unicodedata.name(c).rpartition(" ")[2].replace("LAMDA", "LAMBDA") for c in "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ"
}
GREEK = {c: name.lower() if c.islower() else name.capitalize() for c, name in GREEK.items()}
GREEK |= {"ε": "varepsilon", "φ": "varphi"}
MATHS = {"≤": "leq", "≥": "geq", "≠": "neq", "≈": "approx", "∞": "infty", "→": "to", "∈": "in"} | GREEK
MATHS = {letter: f"$\\{name}$" for letter, name in MATHS.items()} | {"−": "$-$"}
# Letters that pdfLaTeX does not know.
OTHERS = re.compile(r"[^\u0000-\u017F\u2013\u2014\u2018-\u201E\u2020-\u2022\u2026\u20AC\u2122]")
SYMBOL = re.compile(r"\b(epsilon|delta|rho|gamma|sigma|alpha|lambda)\b(?!\\_)", re.IGNORECASE)
PLACES = ("scenario", "sweep_of", "than_scenario")
HEAD = 17  # letters of a line of a column's head
PAGEFUL = 40  # rows of a table on one page
DIGITS = 4  # of a number without an interval
NEAR = (-3, 5)  # powers of ten of numbers that are written without one
SPREAD = 1000  # ratio of numbers that one power of ten does not serve
NEGLIGIBLE = 1e-9  # part of a mean that is rounding
INTERVAL = "mean $\\pm$ half of its 95\\% interval (Student's $t$)"
CUT = ", or [its ends] where a bound of the quantity cuts it,"
ALIKE = 1e-9  # part of an interval that is rounding


def titled(table: pl.DataFrame, titles: dict[str, str]) -> pl.DataFrame:
    """A table of the report with titles in place of its scenarios' names."""
    return table.with_columns(pl.col(name).replace(titles) for name in PLACES if name in table.columns)


def outcomes(table: pl.DataFrame) -> str:
    """What each scheme came to, from the report's table `outcomes`: a table for each system, a column an outcome."""
    parts = ["% Needs \\usepackage{array,booktabs}."]
    for (system,), own in table.group_by("system", maintain_order=True):
        parts.append(_of_system(str(system), own))
    return _compiled("\n\n".join(parts) + "\n")


def differences(table: pl.DataFrame) -> str:
    """Paired differences, from the report's table of this name: a table for each system, on as many pages as needed."""
    if table.is_empty():
        return "% No two schemes have results in common.\n"
    parts = ["% Needs \\usepackage{array,booktabs,longtable}, and one column (\\onecolumn)."]
    for (system,), own in table.group_by("system", maintain_order=True):
        parts.append(_differences_of(str(system), own))
    return _compiled("\n\n".join(parts) + "\n")


def _differences_of(system: str, table: pl.DataFrame) -> str:
    known = outcomes_of(system) | COSTS
    names = table["outcome"].unique(maintain_order=True).to_list()
    rows = []
    for _, pair in table.group_by(PAIR, maintain_order=True):
        cells = {row["outcome"]: row for row in pair.iter_rows(named=True)}
        first = next(iter(cells.values()))
        which = [_point(first[place], first[f"than_{place}"]) for place in ("scheme", "scenario")]
        for name in names:
            percent = "%" in known[name].format
            which += [_difference(cells.get(name), 100 if percent else 1), _p(cells.get(name))]
        rows.append([*which, str(first["realizations"]), number(first["realizations_needed"])])
    heads = [_head("Schemes"), _head("Scenario")]
    for name in names:
        heads += [_head(known[name].title + " (points)" * ("%" in known[name].format)), "$p$"]
    pairs = table["pairs"].max()
    return _long(
        "ll" + "rr" * (len(names) + 1),
        f"Paired differences of the system {text(system)}, first scheme less second: mean $\\pm$ half of its 95\\% "
        f"interval, and $p$ of a paired $t$-test, corrected by Holm for {counted(pairs, 'pair')}. Last: common "
        "realizations, and how many detect the first difference with probability 0.8.",
        [*heads, "$n$", "$n$ needed"],
        rows,
    )


def _point(first: str, second: str) -> str:
    return text(first) if first == second else f"{text(first)} $-$ {text(second)}"


def _difference(row: dict | None, factor: float) -> str:
    if row is None:
        return "--"
    half = None if row["low"] is None else (row["high"] - row["low"]) / 2 * factor
    return number(row["difference"] * factor, half)


def _p(row: dict | None) -> str:
    if row is None or row["p_corrected"] is None:
        return "--"
    return f"$< {SMALL_P:g}$" if row["p_corrected"] < SMALL_P else number(row["p_corrected"], digits=2)


def claims(table: pl.DataFrame) -> str:
    """The statements of papers and of this project, from the report's table `claims`, on as many pages as needed."""
    if table.is_empty():
        return "% No claim applies to this study.\n"
    rows = []
    for row in table.iter_rows(named=True):
        value, ends = number(row["measured"]), []
        for end, unbounded in (("low", "$-\\infty$"), ("high", "$\\infty$")):
            ends.append(unbounded if row[end] is None else number(row[end], digits=3))
        if row["low"] is not None or row["high"] is not None:
            value = f"{number(row['measured'], digits=3)} [{', '.join(ends)}]"
        if row[unscheduled.COLUMN]:
            value += f"; {unscheduled.share(row)}"
        texts = (text(row[name] or "--") for name in ("claim", "scenario", "printed"))
        rows.append([*texts, value, text(row["required"]), row["holds"]])
    widths = ("0.3", "0.12", "0.13", "0.2")
    columns = "".join(f">{{\\raggedright}}p{{{width}\\linewidth}}" for width in widths) + "ll"
    heads = ["Statement", "Scenario", "Paper", "Measured", "Required", "Holds"]
    head = "% Needs \\usepackage{array,booktabs,longtable}, and one column (\\onecolumn).\n"
    said = "Statements: what was measured [its 95\\% interval], and whether it is as required."
    return _compiled(head + _long(columns, said, heads, rows) + "\n")


def _compiled(tables: str) -> str:
    """Tables, and first of all which compilers know their letters, where it is not every one."""
    others = "".join(dict.fromkeys(OTHERS.findall(tables)))
    return f"% Compile with LuaLaTeX or XeLaTeX, and a font that has {others}\n{tables}" if others else tables


def _long(columns: str, caption: str, heads: list[str], rows: list[list[str]]) -> str:
    """A table that goes on over pages."""
    return "\n".join(
        [
            f"\\begingroup\\footnotesize\\setlength{{\\tabcolsep}}{{4pt}}\\begin{{longtable}}{{{columns}}}",
            f"\\caption{{{caption}}}\\\\",
            "\\toprule",
            _line(heads),
            "\\midrule\\endhead\\bottomrule\\endlastfoot",
            *map(_line, rows),
            "\\end{longtable}\\endgroup",
        ]
    )


def _of_system(system: str, table: pl.DataFrame) -> str:
    known = outcomes_of(system)
    swept = [key for key in (*swept_keys(table), "target_epsilon") if table[key].n_unique() > 1]
    which = {"sweep_of": "Scenario", **{key: key.rpartition(".")[2] for key in swept}, "scheme": "Scheme"}
    terms = table.select(TERMS).unique(maintain_order=True).rows()
    marks = dict(zip(terms, _marks(len(terms)), strict=True))
    points = [
        {row["outcome"]: row for row in point.iter_rows(named=True)}
        for _, point in table.group_by("scenario", "scheme", "target_epsilon", maintain_order=True)
    ]
    columns, notes = {}, [f"{mark} {_meaning(dict(zip(TERMS, said, strict=True)))}" for said, mark in marks.items()]
    for name in table["outcome"].unique(maintain_order=True):
        percent, power = "%" in known[name].format, _power(table.filter(outcome=name)["mean"])
        title = known[name].title + " (%)" * percent
        cells = [_mean(point.get(name), 100 if percent else 1) for point in points]
        if len(set(cells)) == 1 and len(cells) > 1:
            notes.append(f"{text(title)}: {cells[0]}.")
            continue
        if power:
            cells = [_mean(point.get(name), 10.0**-power) for point in points]
        columns[_head(title, power)] = cells
    if table[unscheduled.COLUMN].sum():
        columns[_head("Realizations with no user scheduled")] = [_unscheduled(point) for point in points]
    if table[unscheduled.DIVERGED].sum():
        columns[_head("Realizations that diverged")] = [str(_most(point, unscheduled.DIVERGED)) for point in points]
    cut = CUT if any(_is_cut(row) for point in points for row in point.values()) else ""
    rows = []
    for place, point in enumerate(points):
        first = next(iter(point.values()))
        cells = [text(value) if isinstance(value := first[key], str) else number(value) for key in which]
        cells[-1] += marks[tuple(first[term] for term in TERMS)]
        rows.append([*cells, *(column[place] for column in columns.values())])
    widths = "l" * len(which) + "r" * len(columns)
    heads = [*map(_head, which.values()), *columns]
    caption = f"The system {text(system)}: {INTERVAL}{cut} over {ranged(table['realizations'])}."
    said = "\\\\\n".join(notes)
    if len(rows) > PAGEFUL:  # of which a float would lose those below the page's end
        needs = "% Needs \\usepackage{longtable}, and one column (\\onecolumn)."
        long = _long(widths, f"{caption}\\label{{tab:{system}}}", heads, rows)
        return f"{needs}\n{long}\n{{\\footnotesize\\raggedright\\noindent {said}\\par}}"
    return "\n".join(
        [
            "\\begin{table*}",
            "\\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}",
            f"\\caption{{{caption}}}",
            f"\\label{{tab:{system}}}",
            f"\\begin{{tabular}}{{{widths}}}",
            "\\toprule",
            _line(heads),
            "\\midrule",
            *map(_line, rows),
            "\\bottomrule",
            "\\end{tabular}",
            "\\par\\smallskip\\parbox{\\linewidth}{\\raggedright",
            said + "}",
            "\\end{table*}",
        ]
    )


def _meaning(said: dict) -> str:
    """What an epsilon means: for which delta, unit and neighbours, against whom, and what guarantees it."""
    words = [f"protected: {said['unit']}", f"neighbours: {said['neighbouring_relation']}"]
    words += [f"sampling: {said['sampling']}", f"observer: {said['observer']}"]
    words += [f"a record's: {said['epsilon_is']}", f"a user's: {said['epsilon_user_is']}", said["guarantee"]]
    return f"$\\varepsilon$ at $\\delta$ = {number(said['delta'])}; {text('; '.join(words))}."


def _marks(count: int) -> list[str]:
    """So many marks of notes: a to z, aa, ab ...; none where there is but one."""
    letters = ["".join(pair) for pair in product(["", *ascii_lowercase], ascii_lowercase)][:count]
    return [f"$^{{{letter}}}$" for letter in letters] if count > 1 else [""]


def _power(means: pl.Series) -> int:
    """The power of ten that a column of means is given in: 0 but where all are far from 1 and near each other."""
    sizes = means.filter(means.is_finite() & (means != 0)).abs()
    if sizes.is_empty() or sizes.max() >= SPREAD * sizes.min():
        return 0
    power = math.floor(math.log10(sizes.max()))
    return 0 if NEAR[0] <= power < NEAR[1] else power


def _mean(row: dict | None, factor: float) -> str:
    if row is None:
        return "--"
    if _is_cut(row):
        value, *ends = (number(row[part] * factor, digits=3) for part in ("mean", "low", "high"))
        return f"{value} [{', '.join(ends)}]"
    half = None if row["low"] is None else (row["high"] - row["low"]) / 2 * factor
    return number(row["mean"] * factor, half)


def _most(point: dict[str, dict], column: str) -> int:
    return max(row[column] for row in point.values())


def _unscheduled(point: dict[str, dict]) -> str:
    """In how many of a point's realizations no user is scheduled, of the outcome that has most of them."""
    row = max(point.values(), key=lambda row: row[unscheduled.COLUMN])
    return f"{row[unscheduled.COLUMN]} of {row['realizations']}" if row[unscheduled.COLUMN] else "0"


def _is_cut(row: dict) -> bool:
    """Whether an interval ends at a bound of its quantity, so that the mean is not in its middle."""
    if row["low"] is None:
        return False
    below, above = row["mean"] - row["low"], row["high"] - row["mean"]
    return math.isfinite(above) and abs(above - below) > ALIKE * (abs(row["mean"]) + above + below)


def number(value: float | None, half: float | None = None, digits: int = DIGITS) -> str:
    """A number in LaTeX's mathematics, with half of its interval where it has one; `--` for none.

    >>> number(94.7312, 0.3141), number(14851200.0, 70712.0), number(20.0), number(math.inf)
    ('$94.7 \\\\pm 0.3$', '$(1.485 \\\\pm 0.007) \\\\times 10^{7}$', '$20$', '$\\\\infty$')
    >>> number(30404.0), number(30404.0, digits=3)
    ('$30404$', '$30400$')
    """
    if value is None or math.isnan(value):
        return "--"
    if math.isinf(value):
        return "$\\infty$" if value > 0 else "$-\\infty$"
    power = math.floor(math.log10(abs(value))) if value else 0
    power = 0 if NEAR[0] <= power < NEAR[1] else power
    value, times = value / 10**power, f" \\times 10^{{{power}}}" if power else ""
    if half is None or not math.isfinite(half) or half / 10**power <= NEGLIGIBLE * abs(value):
        if times or abs(value) < 10**digits:
            return f"${value:.{digits}g}{times}$"
        return f"${value if digits >= DIGITS else float(f'{value:.{digits}g}'):.0f}$"
    half /= 10**power
    first, _, exponent = f"{half:.0e}".partition("e")
    places = ("1" in (first, f"{half:.1e}"[0])) - int(exponent)
    low, high = (f"{round(each, places) + 0.0:.{max(places, 0)}f}" for each in (value, half))
    return f"$({low} \\pm {high}){times}$" if times else f"${low} \\pm {high}$"


def text(words: str) -> str:
    """Words as LaTeX prints them, on one line, with Greek letters for their names."""
    escaped = "".join(SPECIAL.get(letter, letter) for letter in " ".join(words.split()).replace("^2", "²"))
    named = SYMBOL.sub(lambda name: "$\\" + name[0].lower().replace("epsilon", "varepsilon") + "$", escaped)
    return "".join(MATHS.get(letter, letter) for letter in named)


def _head(title: str, power: int = 0) -> str:
    """The head of a column, in several lines, with the power of ten that its numbers are divided by."""
    lines = [*map(text, textwrap.wrap(title.replace("_", " "), HEAD)), *([f"/ $10^{{{power}}}$"] if power else [])]
    return "\\begin{tabular}[b]{@{}c@{}}" + " \\\\ ".join(lines) + "\\end{tabular}"


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + " \\\\"
