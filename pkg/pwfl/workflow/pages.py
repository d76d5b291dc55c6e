"""The pages of a folder's finished studies, and a browser for one of them."""

import webbrowser
from pathlib import Path

from pwfl.scenario.messages import nearest

RESULTS, PAGE = Path("results"), "index.html"


class NoPageError(LookupError):
    """There is no such page; the message names the studies that have one."""


class NoBrowserError(OSError):
    """No browser shows a page; the message says where the page is."""


def finished(results: Path = RESULTS) -> list[str]:
    """Names of the studies in the folder `results` that have a page, the newest page's first."""
    pages = [path for path in results.glob(f"*/{PAGE}") if path.is_file()]
    return [path.parent.name for path in sorted(pages, key=lambda path: path.stat().st_mtime_ns, reverse=True)]


def find(study: str | None, results: Path = RESULTS) -> Path:
    """The page of a study: by its name in `results`, or by its folder, wherever that is; None: the newest one.

    Raises NoPageError where there is none.
    """
    names = finished(results)
    if study is None:
        if not names:
            raise NoPageError(f"{results}: has no finished study; `pwfl run FILE` runs one in this folder")
        return results / names[0] / PAGE
    named = {name: results / name / PAGE for name in names}
    if study in named:
        return named[study]
    if (page := Path(study) / PAGE).is_file():
        return page
    if any(folder.is_dir() for folder in (Path(study), results / study)):
        raise NoPageError(f"{study}: has no {PAGE}: run the study to its end. {_listed(names, results)}")
    raise NoPageError(f"{study}: there is no such study{nearest(study, names) or '.'} {_listed(names, results)}")


def show(page: Path) -> None:
    """Show a page in the browser that the environment variable BROWSER, or else the system, names.

    Raises NoBrowserError where there is none, or it fails.
    """
    if not webbrowser.open(page.resolve().as_uri()):
        raise NoBrowserError(f"no browser could be started; open this file in one: {page.resolve()}")


def _listed(names: list[str], results: Path) -> str:
    return f"Finished studies: {', '.join(names)}" if names else f"{results} has no finished study"
