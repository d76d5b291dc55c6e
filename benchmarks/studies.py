"""Write the costs of finished studies into docs/reference/studies.md: `python benchmarks/studies.py FOLDER...`.

In each folder, studies of `config/` have run, on a machine as slow as the page states. Their costs are recorded in the
store and in the logs of jobs. Rows of other studies are kept.
"""

import csv
import json
import re
import sys
from pathlib import Path

import yaml

from pwfl.store.items import COST
from pwfl.workflow import publish

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/reference/studies.md"


def items(folder: Path, study: str) -> set[Path]:
    """List the folders of the store that a finished study uses: addresses of its stages and of its report."""
    record = publish.latest(folder / "results" / study)
    stages = {
        folder / row["folder"]
        for path in folder.glob(f"results/{study}/*/addresses.csv")
        for row in csv.DictReader(path.open(encoding="utf-8"))
    }
    return stages | {folder / "store" / Path(place).parent for place, *_ in record.files.values()}


def cells(folder: Path, study: str) -> list[str]:
    """Return table cells: a study's time on one core, memory of the largest job that ran in the folder, and disk."""
    found = items(folder, study)
    costs = [json.loads(path.read_bytes()) for place in found for path in place.rglob(COST)]
    minutes = sum(cost["seconds"] for cost in costs) / 60
    logs = [row for path in folder.glob("logs/**/*.tsv") for row in csv.DictReader(path.open(), delimiter="\t")]
    largest = max(float(row["max_rss"]) for row in logs) / 1000
    files = {path for place in (folder / "results" / study, *found) for path in place.rglob("*") if path.is_file()}
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    time = f"{minutes / 60:.2g} h" if minutes >= 120 else f"{minutes:.2g} min"
    return [time, f"{largest:.1f} GB", f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes:.2g} MB"]


def main(folders: list[str]) -> None:
    """Rewrite the rows of all studies of `config/` that are finished in one of the folders."""
    text = PAGE.read_text(encoding="utf-8")
    for config in sorted((ROOT / "config").glob("*.yaml")):
        study = yaml.safe_load(config.read_text(encoding="utf-8"))["study"]
        for folder in map(Path, folders):
            if not (folder / "results" / study / "index.html").is_file():
                continue
            found = " | ".join(cells(folder, study))
            row = rf"^(\| `{re.escape(config.name)}`[^|]*\|[^|]*\|)[^\n]*$"
            text, count = re.subn(row, rf"\1 {found} |", text, flags=re.MULTILINE)
            if count != 1:
                sys.exit(f"{PAGE.name} has {count} rows of {config.name}, must have one")
            print(config.name, found)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
