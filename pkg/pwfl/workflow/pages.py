"""Find the study reports in a folder, and show one in a browser."""

import webbrowser
from pathlib import Path

from pwfl.scenario.messages import nearest

RESULTS, PAGE = Path("results"), "index.html"


class PageError(LookupError):
    """A missing study report, or no browser to show it; the message lists the finished studies, or a remedy."""


def finished() -> list[str]:
    """List the studies in the folder `results` that have a report, the study of the newest report first."""
    pages = [path for path in RESULTS.glob(f"*/{PAGE}") if path.is_file()]
    return [path.parent.name for path in sorted(pages, key=lambda path: path.stat().st_mtime_ns, reverse=True)]


def find(study: str | None) -> Path:
    """Find a study's report, by the study's name in `results` or its folder; None: the newest. Raises PageError."""
    names = finished()
    if not (study or names):
        raise PageError(f"{RESULTS}: has no finished study; `pwfl run FILE` runs one in this folder")
    for folder in (RESULTS / (study or names[0]), Path(study or names[0])):
        if (folder / PAGE).is_file():
            return folder / PAGE
    listed = f"Finished studies: {', '.join(names)}" if names else f"{RESULTS} has no finished study"
    raise PageError(f"{study}: there is no such finished study{nearest(study, names) or '.'} {listed}")


def show(page: Path) -> None:
    """Show a report in the browser named by BROWSER, or in the system's. Raises PageError if none starts."""
    if not webbrowser.open(page.resolve().as_uri()):
        raise PageError(f"no browser could be started; open this file in one: {page.resolve()}")
