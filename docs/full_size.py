"""What the papers' statements came to at full size: kept in `full_size.csv`, shown in the tables of the pages.

    python docs/full_size.py results/STUDY [NOTE]   # keep the statements of a study that has run, and show them
    python docs/full_size.py                        # show what is kept

Keep a study at the commit that it ran with. NOTE says how its command differs from `snakemake --configfile
config/STUDY.yaml`, such as by fewer realizations.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import polars as pl

from pwfl.report.claims import SCHEMA, Claim
from pwfl.report.statements import PAPER

DOCS = Path(__file__).parent
KEPT = DOCS / "full_size.csv"
STUDIES = {  # the full-size studies of each paper; a later one is of statements that those before it do not measure
    "multicell": ("paper", "resource_blocks"),
    "anonymous_oac": ("anonymous_oac",),
    "random_orthogonalization": ("random_orthogonalization",),
    "utility_fair": ("utility_fair",),
    "age_aware": ("age_aware",),
}
ADDED = {"study": pl.String, "commit": pl.String, "note": pl.String}
BEGIN, END = "<!-- full size, by docs/full_size.py: begin -->\n", "<!-- full size: end -->\n"
HEAD = ["statement", "scenario", "printed", "measured, 95 % interval", "holds", "realizations"]
NOT_RUN = "not yet run"
FIELD = re.compile(r"\{\w+\}")  # of a statement that is declared once, and measured for each value


def declared(system: str) -> list[str]:
    """The statements of a system's paper, in the order of their numbers; see FIELD."""

    def found(value) -> Iterator[Claim]:
        if isinstance(value, Claim):
            yield value
        elif isinstance(value, dict | tuple):
            for part in value.values() if isinstance(value, dict) else value:
                yield from found(part)

    every = found(vars(import_module(f"pwfl.systems.{system}.claims")))
    texts = dict.fromkeys(claim.text for claim in every if claim.setting is not None)
    return sorted(texts, key=lambda text: int(text.partition(".")[0]))


def kept() -> pl.DataFrame:
    """The rows of all studies that are kept."""
    return pl.read_csv(KEPT, schema=ADDED | SCHEMA) if KEPT.exists() else pl.DataFrame(schema=ADDED | SCHEMA)


def keep(folder: Path, note: str) -> None:
    """Put the paper's statements of a study's results in place of those that are kept of it.

    Raises SystemExit for a study that is no paper's, and where the checkout is not what was committed.
    """
    studies = [study for several in STUDIES.values() for study in several]
    if folder.name not in studies:
        sys.exit(f"{folder}: no full-size study of a paper; these are {', '.join(studies)}")
    if _git("status", "--porcelain", "--untracked-files=no"):
        sys.exit("the checkout has changes that are not committed: commit them, and run the study again")
    rows = pl.read_parquet(folder / "claims.parquet").filter(whose=PAPER).select(*SCHEMA)
    (several,) = (each for each in STUDIES.values() if folder.name in each)
    before = kept().filter(pl.col("study").is_in(several[: several.index(folder.name)]))
    rows = rows.join(before.unique("claim"), on="claim", how="anti", maintain_order="left")
    added = {"study": folder.name, "commit": _git("rev-parse", "--short=10", "HEAD"), "note": note}
    rows = rows.select(*(pl.lit(value).alias(name) for name, value in added.items()), pl.all())
    pl.concat([kept().filter(pl.col("study") != folder.name), rows]).sort("study", maintain_order=True).write_csv(KEPT)


def rows(system: str, of: pl.DataFrame) -> list[list[str]]:
    """A system's rows: statement, scenario, printed, measured, verdict, realizations; a row for what has not run."""
    found = []
    for text in declared(system):
        measured = (of.filter(pl.col("claim").str.contains(matched(text)), study=study) for study in STUDIES[system])
        own = next((own for own in measured if len(own)), of.clear())
        cells = [[row["claim"], *_cells(row)] for row in own.iter_rows(named=True)]
        found += cells or [[FIELD.sub("…", text), "", "", NOT_RUN, "", ""]]
    return found


def matched(text: str) -> str:
    """The regular expression of what a declared statement may read."""
    return f"^{'.+'.join(map(re.escape, FIELD.split(text)))}$"


def _cells(row: dict) -> list[str]:
    ends = ["unbounded" if row[end] is None else f"{row[end]:.3g}" for end in ("low", "high")]
    interval = "" if row["low"] is None and row["high"] is None else f" [{', '.join(ends)}]"
    measured = "undefined" if row["measured"] is None else f"{row['measured']:.3g}{interval}"
    return [row["scenario"], row["printed"] or "", measured, row["holds"], str(row["realizations"] or "")]


def table(head: list[str], body: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [[cell.replace("|", r"\|") for cell in line] for line in (head, ["---"] * len(head), *body)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page(system: str, of: pl.DataFrame) -> str:
    """What a system's page begins with."""
    commands = []
    for study in STUDIES[system]:
        said = f"`snakemake --configfile config/{study}.yaml`"
        if len(own := of.filter(study=study)):
            note = own["note"][0]
            said += f"{f' ({note})' if note else ''} at commit {own['commit'][0]}"
        commands.append(said)
    said = f"What the paper says, and what came out at full size, by {' and '.join(commands)}"
    return f"{said}:\n\n{table(HEAD, rows(system, of))}"


def shown(path: Path, text: str) -> str:
    """A page with a text between its marks. Raises SystemExit where it does not have these once."""
    before, *after = path.read_text(encoding="utf-8").split(BEGIN)
    if len(after) != 1 or after[0].count(END) != 1:
        sys.exit(f"{path}: does not have the lines {BEGIN.strip()!r} and {END.strip()!r} once")
    return f"{before}{BEGIN}\n{text}\n{END}{after[0].partition(END)[2]}"


def pages() -> dict[Path, str]:
    """The pages, with their tables anew."""
    of = kept()
    found = {DOCS / f"{system}.md": page(system, of) for system in STUDIES}
    every = [[f"`{system}`", *row] for system in STUDIES for row in rows(system, of)]
    found[DOCS / "studies.md"] = table(["system", *HEAD], every)
    return {path: shown(path, text) for path, text in found.items()}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=DOCS, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        keep(Path(sys.argv[1]), " ".join(sys.argv[2:]))
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
