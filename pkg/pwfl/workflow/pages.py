"""The pages of a folder's finished studies, and a browser for one of them."""

import webbrowser
from pathlib import Path

from pwfl.scenario.messages import nearest

RESULTS, PAGE = Path("results"), "index.html"


class PageError(LookupError):
    """There is no such page, or no browser for it; the message says what there is."""


def finished() -> list[str]:
    """Names of the studies in the folder `results` that have a page, the newest page's first."""
    pages = [path for path in RESULTS.glob(f"*/{PAGE}") if path.is_file()]
    return [path.parent.name for path in sorted(pages, key=lambda path: path.stat().st_mtime_ns, reverse=True)]


def find(study: str | None) -> Path:
    """The page of a study, by its name in `results` or its folder; None: the newest. Raises PageError if none is."""
    names = finished()
    if not (study or names):
        raise PageError(f"{RESULTS}: has no finished study; `pwfl run FILE` runs one in this folder")
    for folder in (RESULTS / (study or names[0]), Path(study or names[0])):
        if (folder / PAGE).is_file():
            return folder / PAGE
    listed = f"Finished studies: {', '.join(names)}" if names else f"{RESULTS} has no finished study"
    raise PageError(f"{study}: there is no such finished study{nearest(study, names) or '.'} {listed}")


def show(page: Path) -> None:
    """Show a page in the browser that BROWSER, or else the system, names. Raises PageError where none starts."""
    if not webbrowser.open(page.resolve().as_uri()):
        raise PageError(f"no browser could be started; open this file in one: {page.resolve()}")
