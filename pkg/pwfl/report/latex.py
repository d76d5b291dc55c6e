"""LaTeX tables for a paper: booktabs, means with their 95% intervals, and notes on the meaning of each epsilon."""

import math
import re
import textwrap
import unicodedata
from collections.abc import Callable

import polars as pl

from pwfl.report import factors, unscheduled
from pwfl.report.columns import TERMS
from pwfl.report.effects import COSTS, ENDS, INDEX
from pwfl.report.sweeps import list_outcomes, swept_keys
from pwfl.report.words import SMALL_P, plural, ranged
from pwfl.scenario import sweep
from pwfl.scenario.sweep import GREEK

LETTERS = {letter: unicodedata.name(letter).rpartition(" ")[2].lower() for letter in "αβγδζηθικμνξπρστυχψω"}
LETTERS |= {letter: unicodedata.name(letter).rpartition(" ")[2].capitalize() for letter in "ΓΔΘΞΠΣΦΨΩ"}
LETTERS |= {"ε": "varepsilon", "λ": "lambda", "φ": "varphi", "Λ": "Lambda"}
LETTERS |= {"≤": "leq", "≥": "geq", "≠": "neq", "≈": "approx", "∞": "infty", "→": "to", "∈": "in"}
# LaTeX would read [ or * at the start of a row as an argument of the line break before it.
TEX = (
    {letter: f"\\{letter}" for letter in "%&#${}"}
    | {letter: f"$\\{name}$" for letter, name in LETTERS.items()}
    | {"_": "\\_\\allowbreak ", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "\\": "\\textbackslash{}"}
    | {"<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}", "`": "\\textasciigrave{}"}
    | {"[": "{[}", "*": "{*}", "²": "$^2$", "−": "$-$"}
)
# Letters that pdfLaTeX does not support.
OTHERS = re.compile(r"[^\u0000-\u017F\u2013\u2014\u2018-\u201E\u2020-\u2022\u2026\u20AC\u2122]")
NAMES = re.compile(rf"\b({'|'.join(GREEK)})\b", re.IGNORECASE)
PLACES = ("scenario", "against", "sweep_of", *(f"{end}_scenario" for end in ENDS))
HEAD = 17  # letters per line in the head of a column
DIGITS = 4


def titled(table: pl.DataFrame, titles: dict[str, str]) -> pl.DataFrame:
    """Replace the scenarios' names in a table of the report by titles."""
    return table.with_columns(pl.col(name).replace(titles) for name in PLACES if name in table.columns)


def outcomes(table: pl.DataFrame) -> str:
    """Write the report's table `outcomes`: one table per system, one row per point, one column per outcome."""
    return _by_system(table, _write_outcomes)


def _write_outcomes(system: str, table: pl.DataFrame) -> str:
    known = list_outcomes(system)
    swept = [key for key in (*swept_keys(table), "target_epsilon") if table[key].n_unique() > 1]
    keys = {"sweep_of": "Scenario", **{key: key.rpartition(".")[2] for key in swept}, "scheme": "Scheme"}
    terms = table.select(TERMS).unique(maintain_order=True).rows()
    marks = {row_terms: f"$^{{{number}}}$" for number, row_terms in enumerate(terms, 1)}
    names = table["outcome"].unique(maintain_order=True).to_list()
    lost = {unscheduled.COLUMN: "with no user scheduled", unscheduled.DIVERGED: "more that diverged"}
    lost = {column: title for column, title in lost.items() if table[column].sum()}
    rows = []
    for _, point in table.group_by("scenario", "scheme", "target_epsilon", maintain_order=True):
        first = point.row(0, named=True)
        cells = [text(value) if isinstance(value := first[key], str) else _key(value) for key in keys]
        cells[-1] += marks[tuple(first[term] for term in TERMS)]
        means = {row["outcome"]: row for row in point.iter_rows(named=True)}
        cells += [_mean(means.get(name), "mean", known[name].format) for name in names]
        rows.append([*cells, *(str(point[column].max()) for column in lost)])
    heads = [*keys.values(), *(known[name].title + " (%)" * ("%" in known[name].format) for name in names)]
    heads += [f"Realizations {title}" for title in lost.values()]
    caption = f"The system {text(system)}: mean [95\\% interval, Student's $t$] over {ranged(table['realizations'])}."
    caption += f"\\label{{tab:{system}}}"
    notes = [f"{marks[row_terms]} {_meaning(dict(zip(TERMS, row_terms, strict=True)))}" for row_terms in terms]
    return _table("l" * len(keys) + "r" * (len(heads) - len(keys)), caption, heads, rows) + (
        "\n{\\footnotesize\\raggedright\\noindent " + "\\\\\n".join(notes) + "\\par}"
    )


def _meaning(terms: dict) -> str:
    """Describe the terms of an epsilon: delta, unit, neighbours, sampling, observer, kind, assumptions and trust."""
    kinds = {"a record's": "epsilon_kind", "assumes": "epsilon_assumes", "trusts": "epsilon_trusts"}
    kinds |= {"a user's": "epsilon_user_kind"}
    words = [f"protected: {terms['unit']}", f"neighbours: {terms['neighbouring_relation']}"]
    words += [f"sampling: {terms['sampling']}", f"observer: {terms['observer']}"]
    words += [f"{what}: {terms[column]}" for what, column in kinds.items() if terms[column]]  # empty: none
    return f"{text('ε at δ')} = {number(terms['delta'])}; {text('; '.join(words))}."


def effects(table: pl.DataFrame) -> str:
    """Write the report's table `effects` of paired differences: one table per system."""
    if table.is_empty():
        return "% No two points differ in one factor alone.\n"
    return _by_system(table, _write_effects)


def _write_effects(system: str, table: pl.DataFrame) -> str:
    known = list_outcomes(system) | COSTS
    names = table["outcome"].unique(maintain_order=True).to_list()
    rows = []
    pair = ["factor", *(f"{end}_{key}" for end in ENDS for key in INDEX)]
    for _, group in table.group_by(pair, maintain_order=True):
        first = group.row(0, named=True)
        cells = [text(factors.name(system, first["factor"]))]
        for place in ("scheme", "scenario"):
            ends = dict.fromkeys(first[f"{end}_{place}"] for end in reversed(ENDS))
            cells.append(" $-$ ".join(map(text, ends)))
        by_outcome = {row["outcome"]: row for row in group.iter_rows(named=True)}
        for name in names:
            row, form = by_outcome.get(name), known[name].format
            cells += [_mean(row, "difference", form, "difference_"), _p(row["p_corrected"] if row else None)]
        rows.append([*cells, str(first["realizations"]), number(first["realizations_needed"])])
    heads = ["Factor", "Schemes", "Scenarios"]
    for name in names:
        heads += [known[name].title + " (points)" * ("%" in known[name].format), "p"]
    size = table.select(pl.max("comparisons")).item()
    return _table(
        "lll" + "rr" * (len(names) + 1),
        f"Effects of single choices in the system {text(system)}, second point less first: mean [95\\% interval], and "
        f"p of a paired t-test, corrected by Holm for {plural(size, 'comparison')}. Last: "
        "common realizations n, and how many detect the first difference with probability 0.8.",
        [*heads, "n", "n needed"],
        rows,
    )


def _p(value: float | None) -> str:
    return f"$< {SMALL_P:g}$" if value is not None and value < SMALL_P else number(value)


def claims(table: pl.DataFrame) -> str:
    """Write the report's table `claims`, of papers and of this project."""
    if table.is_empty():
        return "% No claim applies to this study.\n"
    rows = []
    for row in table.iter_rows(named=True):
        where = f"{row['scenario']} against {row['against']}" if row["against"] else row["scenario"]
        under = f" ({row['interpretation']})" if row["interpretation"] else ""
        texts = [text(f"{row['claim']}: {row['statement']}"), text(where + under), text(row["reported"] or "--")]
        value = _mean(row, "measured", ends="measured_") + (
            f"; {unscheduled.share(row)}" if row[unscheduled.COLUMN] else ""
        )
        rows.append([*texts, value, text(row["required_range"]), row["verdict"] or "--"])
    columns = "".join(f">{{\\raggedright}}p{{{width}\\linewidth}}" for width in (0.3, 0.12, 0.13, 0.2)) + "ll"
    caption = "Claims: what was measured [its 95\\% interval], and whether it lies in the required range."
    return _file([_table(columns, caption, ["Claim", "Scenario", "Reported", "Measured", "Required", "Verdict"], rows)])


def _by_system(table: pl.DataFrame, write: Callable[[str, pl.DataFrame], str]) -> str:
    return _file([write(str(system), rows) for (system,), rows in table.group_by("system", maintain_order=True)])


def _file(tables: list[str]) -> str:
    """Join tables into a file that starts with comments on the required packages and engine."""
    body = (
        "% Needs \\usepackage{array,booktabs,longtable}, and one column (\\onecolumn).\n" + "\n\n".join(tables) + "\n"
    )
    others = "".join(dict.fromkeys(OTHERS.findall(body)))
    return f"% Compile with LuaLaTeX or XeLaTeX, and a font that has {others}\n{body}" if others else body


def _table(columns: str, caption: str, heads: list[str], rows: list[list[str]]) -> str:
    """Write a table that may continue over several pages."""
    lines = [" & ".join(cells) + " \\\\" for cells in (map(_head, heads), *rows)]
    return "\n".join(
        [
            f"\\begingroup\\footnotesize\\setlength{{\\tabcolsep}}{{3pt}}\\begin{{longtable}}{{{columns}}}",
            f"\\caption{{{caption}}}\\\\",
            f"\\toprule\n{lines[0]}\n\\midrule\\endhead\\bottomrule\\endlastfoot",
            *lines[1:],
            "\\end{longtable}\\endgroup",
        ]
    )


def _head(title: str) -> str:
    """Write the head of a column in several lines."""
    lines = map(text, textwrap.wrap(title.replace("_", " "), HEAD))
    return "\\begin{tabular}[b]{@{}c@{}}" + " \\\\ ".join(lines) + "\\end{tabular}"


def _mean(row: dict | None, name: str, form: str = "", ends: str = "") -> str:
    """Format a row's mean with the ends of its interval; if only one end is null, it is unbounded.

    >>> _mean({"mean": 0.947, "ci_low": 0.9431, "ci_high": 0.951}, "mean", ".1%")
    '$94.7$ [$94.31$, $95.1$]'
    """
    if row is None:
        return "--"
    factor = 100 if "%" in form else 1
    value, low, high = (number(row[part] and row[part] * factor) for part in (name, f"{ends}ci_low", f"{ends}ci_high"))
    if low == high and low in ("--", value):  # no interval, or none at these digits
        return value
    low, high = (end.replace("--", unbounded) for end, unbounded in ((low, "$-\\infty$"), (high, "$\\infty$")))
    return f"{value} [{low}, {high}]"


def _key(value: float | None) -> str:
    """Format a swept value with all its digits.

    >>> _key(3000.0), _key(12345), _key(9007199254740993)
    ('$3000$', '$12345$', '$9007199254740993$')
    """
    return number(value) if value is None or float(f"{value:.{DIGITS}g}") == value else f"${sweep.text(value)}$"


def number(value: float | None) -> str:
    """Format a number in LaTeX's mathematics; `--` if it is None or NaN.

    >>> number(94.7312), number(14851200.0), number(20.0), number(math.inf), number(None)
    ('$94.73$', '$1.485 \\\\times 10^{7}$', '$20$', '$\\\\infty$', '--')
    """
    if value is None or math.isnan(value):
        return "--"
    if math.isinf(value):
        return "$\\infty$" if value > 0 else "$-\\infty$"
    digits, _, power = f"{value:.{DIGITS}g}".partition("e")
    return f"${digits} \\times 10^{{{int(power)}}}$" if power else f"${digits}$"


def text(words: str) -> str:
    """Write words in LaTeX, escaped and on one line, with Greek letters in place of their names.

    >>> print(text("Epsilon of epsilon_server < 5%"))
    $\\varepsilon$ of epsilon\\_\\allowbreak server \\textless{} 5\\%
    """
    greek = NAMES.sub(lambda name: GREEK[name[0].lower()], " ".join(words.split()).replace("^2", "²"))
    return "".join(TEX.get(letter, letter) for letter in greek)
