"""Keep the papers' claims at full size in full_size.csv, count them in papers/README.md, and render their pages.

    python docs/full_size.py results/STUDY [NOTE]   # keep the claims of a study that has run, and count them
    python docs/full_size.py                        # count the claims that are kept

Keep a study at the commit that it ran with. NOTE states how its command differs from `snakemake --configfile
config/STUDY.yaml`, such as by fewer realizations.
"""

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import polars as pl

from pwfl import registry
from pwfl.report import latex, paper, paper_page, references, theme
from pwfl.report.claims import PAPER, SCHEMA, Claim
from pwfl.report.statements import OUTCOMES
from pwfl.scenario import load, read

DOCS = Path(__file__).parent
KEPT, CURVES = DOCS / "full_size.csv", DOCS / "papers"
STUDIES = {  # the full-size studies of each paper; curves are from the first
    "multicell": ("paper", "resource_blocks", "samples"),
    "anonymous_oac": ("anonymous_oac",),
    "random_orthogonalization": ("random_orthogonalization",),
    "utility_fair": ("utility_fair",),
    "age_aware": ("age_aware",),
}
ADDED = {"study": pl.String, "commit": pl.String, "note": pl.String}
BEGIN, END = "<!-- full size, by docs/full_size.py: begin -->\n", "<!-- full size: end -->\n"


def declared(system: str) -> tuple[Claim, ...]:
    """Return the claims of a system's paper, in the paper's order."""
    return import_module(f"pwfl.systems.{system}.claims").PAPER_CLAIMS


def kept() -> pl.DataFrame:
    """Read the rows of all studies that are kept."""
    return pl.read_csv(KEPT, schema=ADDED | SCHEMA) if KEPT.exists() else pl.DataFrame(schema=ADDED | SCHEMA)


def keep(folder: Path, note: str) -> None:
    """Replace the kept rows of a study by all its rows on the paper's claims, and keep curves of a first study.

    Rows outside of the paper's setting are kept, too: they have a number and no verdict. Raises SystemExit if the study
    is not a full-size study of a paper or if the checkout has uncommitted changes.
    """
    studies = [study for several in STUDIES.values() for study in several]
    if folder.name not in studies:
        sys.exit(f"{folder}: no full-size study of a paper; these are {', '.join(studies)}")
    if _git("status", "--porcelain", "--untracked-files=no"):
        sys.exit("the checkout has changes that are not committed: commit them, and run the study again")
    rows = pl.read_parquet(folder / "claims.parquet").filter(origin=PAPER).select(*SCHEMA)
    added = {"study": folder.name, "commit": _git("rev-parse", "--short=10", "HEAD"), "note": note}
    rows = rows.select(*(pl.lit(value).alias(name) for name, value in added.items()), pl.all())
    pl.concat([kept().filter(pl.col("study") != folder.name), rows]).sort("study", maintain_order=True).write_csv(KEPT)
    CURVES.mkdir(exist_ok=True)
    first = {several[0] for several in STUDIES.values()}
    for path in folder.glob("*_curves.csv") if folder.name in first else ():
        shutil.copyfile(path, CURVES / f"{path.name.removesuffix('_curves.csv')}.csv")


def rows(system: str, claims: pl.DataFrame) -> list[paper.Row]:
    """Return the rows of a system's statements, in its paper's order."""
    return paper.rows(_paper(system), claims.filter(pl.col("study").is_in(STUDIES[system])), {})


def _paper(system: str) -> paper.Paper:
    return import_module(f"pwfl.systems.{system}.paper").PAPER


def table(head: list[str], body: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [[cell.replace("|", r"\|") for cell in line] for line in (head, ["---"] * len(head), *body)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def paper_html(system: str) -> str:
    """Return the page of a system's paper, from the claims and curves that are kept."""
    catalog = registry.system(system).catalog
    (cited,) = references.cited(DOCS.parent / "CITATION.cff", [system])
    source = _paper(system)
    claims = kept().filter(pl.col("study").is_in(STUDIES[system]))
    studies = [load(read([DOCS.parent / f"config/{study}.yaml"]), study) for study in STUDIES[system]]
    known = {study.titles[name]: scenario.part() for study in studies for name, scenario in study.scenarios.items()}
    titles = {name: title for study in studies for name, title in study.titles.items()}
    settings, colours = paper.find_settings(source, known), theme.study_colours(system, known.values())
    path = CURVES / f"{system}.csv"
    frame = (
        pl.read_csv(path, infer_schema_length=None, schema_overrides={"panel": pl.String}) if path.exists() else None
    )
    curves = {} if frame is None else frame.partition_by("panel", as_dict=True, include_key=False)
    by_panel = {panel: curve for (panel,), curve in curves.items()}
    runs = claims.filter(pl.col("quantity").str.contains("accuracy|loss"))["realizations"].drop_nulls()
    over = f"{runs.max()} training runs" if len(runs) else ""
    commits = ", ".join(claims["commit"].unique(maintain_order=True))
    trained = f"; {over} of each scheme" if over else ""
    facts = {"This page": f"results of commits {commits}{trained}"} if commits else {}
    return paper_page.render(
        source, cited._asdict(), latex.titled(claims, titles), settings, by_panel, colours, facts, catalog.studies, over
    )


def shown(path: Path, text: str) -> str:
    """Return a page with a text between its marks. Raises SystemExit unless the page has each mark once."""
    before, *after = path.read_text(encoding="utf-8").split(BEGIN)
    if len(after) != 1 or after[0].count(END) != 1:
        sys.exit(f"{path}: does not have the lines {BEGIN.strip()!r} and {END.strip()!r} once")
    return f"{before}{BEGIN}\n{text}\n{END}{after[0].partition(END)[2]}"


def pages() -> dict[Path, str]:
    """Return the page of all papers, by path, with its table rewritten."""
    claims = kept()
    counts = [
        [f'<a href="{system}.html">{system}</a>', *_counts(system, claims), _commands(system, claims)]
        for system in STUDIES
    ]
    texts = {DOCS / "papers/README.md": table(["paper's system", "statements", *OUTCOMES, "made by"], counts)}
    return {path: shown(path, text) for path, text in texts.items()}


def _commands(system: str, claims: pl.DataFrame) -> str:
    """Return the commands, with commits, that made the kept claims of a system's paper."""
    commands = []
    for study in STUDIES[system]:
        if len(study_claims := claims.filter(study=study)):
            note = f" ({study_claims['note'][0]})" if study_claims["note"][0] else ""
            commands.append(f"`snakemake --configfile config/{study}.yaml`{note} at {study_claims['commit'][0]}")
    return "; ".join(commands)


def _counts(system: str, claims: pl.DataFrame) -> list[str]:
    """Count the statements of a system's paper, and those with each outcome."""
    verdicts = [row.verdict for row in rows(system, claims)]
    return [str(len(verdicts)), *(str(verdicts.count(outcome)) for outcome in OUTCOMES)]


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=DOCS, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        keep(Path(sys.argv[1]), " ".join(sys.argv[2:]))
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
