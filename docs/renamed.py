"""Find old names of the table in upgrading.md in the project: `python docs/renamed.py`, which `make lint` runs.

Only names with an underscore are searched. The table's other old names are also ordinary words.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/upgrading.md"
# Files that contain old names on purpose: lists of changes, and messages to users of old names.
HISTORY = {
    "CHANGELOG.md",
    "docs/upgrading.md",
    "pkg/pwfl/registry.py",
    "tests/test_renamed.py",
}
ROW = re.compile(r"^\| `[^|]+` \| ([^|]+) \|", re.MULTILINE)
NAME = re.compile(r"`(\w+_\w+)`")


def old_names(page: str) -> list[str]:
    """List the old names with an underscore in the table of a page.

    >>> old_names("| `history` | `air_so_far`, `low` | `air_cumulative` |")
    ['air_so_far']
    """
    return [name for before in ROW.findall(page) for name in NAME.findall(before)]


def uses(names: list[str], files: list[Path]) -> list[str]:
    """List the places where files contain names: file, line and name."""
    known = re.compile(rf"\b({'|'.join(names)})\b")
    lines = []
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            lines += [f"{path.relative_to(ROOT)}:{number}: {name}" for name in known.findall(line)]
    return lines


if __name__ == "__main__":
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    kinds = (".py", ".md", ".yaml", ".rst", ".html", ".smk")
    checked = [ROOT / name for name in listed if name.endswith(kinds) and name not in HISTORY]
    if left := uses(old_names(PAGE.read_text(encoding="utf-8")), [path for path in checked if path.exists()]):
        sys.exit("names of before (docs/upgrading.md has the new ones):\n" + "\n".join(left))
