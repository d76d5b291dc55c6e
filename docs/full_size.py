"""What the papers' claims came to at full size: kept in `full_size.csv`, shown in the tables of the pages.

    python docs/full_size.py results/STUDY [NOTE]   # keep the claims of a study that has run, and show them
    python docs/full_size.py                        # show what is kept

Keep a study at the commit that it ran with. NOTE says how its command differs from `snakemake --configfile
config/STUDY.yaml`, such as by fewer realizations.
"""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import polars as pl

from pwfl.report.claims import PAPER, SCHEMA, Claim
from pwfl.report.statements import OUTCOMES, judge

DOCS = Path(__file__).parent
KEPT = DOCS / "full_size.csv"
STUDIES = {  # the full-size studies of each paper; a later one is of claims that those before it do not measure
    "multicell": ("paper", "resource_blocks"),
    "anonymous_oac": ("anonymous_oac",),
    "random_orthogonalization": ("random_orthogonalization",),
    "utility_fair": ("utility_fair",),
    "age_aware": ("age_aware",),
}
ADDED = {"study": pl.String, "commit": pl.String, "note": pl.String}
BEGIN, END = "<!-- full size, by docs/full_size.py: begin -->\n", "<!-- full size: end -->\n"
HEAD = ["claim", "statement", "scenario", "reported", "measured, 95 % interval", "required", "verdict", "realizations"]
NOT_RUN, NOT_DEFINED = "not run yet", "undefined"


def declared(system: str) -> tuple[Claim, ...]:
    """The claims of a system's paper, in the paper's order."""
    return import_module(f"pwfl.systems.{system}.claims").PAPER_CLAIMS


def kept() -> pl.DataFrame:
    """The rows of all studies that are kept."""
    return pl.read_csv(KEPT, schema=ADDED | SCHEMA) if KEPT.exists() else pl.DataFrame(schema=ADDED | SCHEMA)


def keep(folder: Path, note: str) -> None:
    """Put the paper's claims of a study's results in place of those that are kept of it.

    Raises SystemExit for a study that is no paper's, and where the checkout is not what was committed.
    """
    studies = [study for several in STUDIES.values() for study in several]
    if folder.name not in studies:
        sys.exit(f"{folder}: no full-size study of a paper; these are {', '.join(studies)}")
    if _git("status", "--porcelain", "--untracked-files=no"):
        sys.exit("the checkout has changes that are not committed: commit them, and run the study again")
    rows = (
        pl.read_parquet(folder / "claims.parquet").filter(pl.col("verdict").is_not_null(), origin=PAPER).select(*SCHEMA)
    )
    (several,) = (each for each in STUDIES.values() if folder.name in each)
    before = kept().filter(pl.col("study").is_in(several[: several.index(folder.name)]))
    rows = rows.join(before.unique("claim"), on="claim", how="anti", maintain_order="left")
    added = {"study": folder.name, "commit": _git("rev-parse", "--short=10", "HEAD"), "note": note}
    rows = rows.select(*(pl.lit(value).alias(name) for name, value in added.items()), pl.all())
    pl.concat([kept().filter(pl.col("study") != folder.name), rows]).sort("study", maintain_order=True).write_csv(KEPT)


def rows(system: str, of: pl.DataFrame) -> list[list[str]]:
    """A system's rows, columns HEAD; a row for what has not run."""
    found = []
    for claim in declared(system):
        measured = (of.filter(claim=claim.id, study=study) for study in STUDIES[system])
        own = next((own for own in measured if len(own)), of.clear())
        cells = [[claim.id, claim.statement, *_cells(row)] for row in own.iter_rows(named=True)]
        found += cells or [[claim.id, claim.statement, "", "", NOT_RUN, "", "", ""]]
    return found


def _cells(row: dict) -> list[str]:
    where = f"{row['scenario']} against {row['against']}" if row["against"] else row["scenario"]
    where += f" ({row['interpretation']})" if row["interpretation"] else ""
    ends = [row["measured_ci_low"], row["measured_ci_high"]]
    shown = ", ".join("unbounded" if end is None else f"{end:.3g}" for end in ends)
    interval = "" if ends == [None, None] else f" [{shown}]"
    measured = NOT_DEFINED if row["measured"] is None else f"{row['measured']:.3g}{interval}"
    decided = [row["required_range"], row["verdict"], str(row["realizations"] or "")]
    return [where, row["reported"] or "", measured, *decided]


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
    counts = [[f"[`{system}`]({system}.md#at-full-size)", *_counts(system, of)] for system in STUDIES]
    found[DOCS / "studies.md"] = table(["paper's system", "claims", *OUTCOMES, NOT_RUN], counts)
    return {path: shown(path, text) for path, text in found.items()}


def _counts(system: str, of: pl.DataFrame) -> list[str]:
    """How many claims a system's paper makes, how many came out in each way, and how many were not run."""
    claims = [claim.id for claim in declared(system)]
    own = of.filter(pl.col("study").is_in(STUDIES[system]))
    each = [own.filter(claim=claim) for claim in claims]
    verdicts = [judge(rows["verdict"].to_list(), rows["interpretation"].to_list()) for rows in each]
    return [str(len(claims)), *(str(verdicts.count(outcome)) for outcome in (*OUTCOMES, None))]


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=DOCS, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        keep(Path(sys.argv[1]), " ".join(sys.argv[2:]))
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
