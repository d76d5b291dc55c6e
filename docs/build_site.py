"""Build the documentation's site FOLDER/html, strictly and without a network: `python docs/build_site.py FOLDER`.

Sphinx reads a copy of the pages, laid out as in the repository, so that links work as on a code host.
"""

import shutil
import sys
from pathlib import Path

import full_size

ROOT = Path(__file__).parent.parent
FILES = ("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "CHANGELOG.md", "LICENSE", "CITATION.cff")
FOLDERS = ("config", "docs", "examples")


def build(folder: Path) -> int:
    """Build the site and return Sphinx's exit status, 1 after any warning."""
    from sphinx.cmd.build import build_main

    pages = {system: full_size.paper_html(system) for system in full_size.STUDIES}  # Sphinx imports models differently
    source, html = folder / "source", folder / "html"
    for old in (source, html):
        shutil.rmtree(old, ignore_errors=True)
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, source)
    strict = ["--quiet", "--fail-on-warning", "--fresh-env", "--conf-dir", str(ROOT / "docs")]
    status = build_main([*strict, "--doctree-dir", str(folder / "doctrees"), str(source), str(html)])
    if not status:
        shutil.copy(html / "README.html", html / "index.html")
        for system, page in pages.items():
            (html / "docs" / "papers" / f"{system}.html").write_text(page, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1])))
