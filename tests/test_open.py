"""`pwfl open`: which page it opens in which browser, and what it says where there is none."""

import os
import stat

import pytest

from conftest import PWFL, environment, python

BROWSER = '#!/bin/sh\nprintf %s "$1" > opened\n'


@pytest.fixture
def folder(tmp_path):
    """A folder with two finished studies, the newer one first by name, an unfinished one, and a browser."""
    for age, name in enumerate(("blocks", "mine", "half")):
        page = tmp_path / "results" / name / "index.html"
        page.parent.mkdir(parents=True)
        page.touch()
        os.utime(page, (1000 - age, 1000 - age))
    (tmp_path / "results/half/index.html").unlink()
    browser = tmp_path / "browser"
    browser.write_text(BROWSER)
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def opened(folder, *arguments, **variables):
    """What a command opened, and its result."""
    env = environment() | {"BROWSER": str(folder / "browser")} | variables
    result = python(*PWFL[1:], "open", *arguments, cwd=folder, env=env)
    at = folder / "opened"
    return (at.read_text() if at.exists() else None), result


@pytest.mark.parametrize(
    ("arguments", "study", "said"),
    [
        (["mine"], "mine", "Opening results/mine/index.html"),
        (["results/mine"], "mine", "Opening results/mine/index.html"),
        ([], "blocks", "Opening results/blocks/index.html, the newest of 2 studies"),
    ],
)
def test_a_browser_shows_the_study(folder, arguments, study, said):
    page, result = opened(folder, *arguments)
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, said, "")
    assert page == (folder / f"results/{study}/index.html").as_uri()


def test_without_a_name_the_only_study_or_the_newest_page_is_opened(folder):
    os.utime(folder / "results/mine/index.html", (2000, 2000))
    assert opened(folder)[0].endswith("/results/mine/index.html")
    (folder / "results/mine/index.html").unlink()
    page, result = opened(folder)
    assert page.endswith("/results/blocks/index.html")
    assert result.stdout.strip() == "Opening results/blocks/index.html"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("blokcs", "blokcs: there is no such finished study; did you mean 'blocks'? Finished studies: blocks, mine"),
        ("other", "other: there is no such finished study. Finished studies: blocks, mine"),
        ("half", "half: there is no such finished study. Finished studies: blocks, mine"),
    ],
)
def test_a_study_that_is_not_there_is_named_with_those_that_are(folder, name, said):
    page, result = opened(folder, name)
    assert (page, result.returncode, result.stderr.strip()) == (None, 1, said)


def test_a_folder_without_studies_says_how_to_run_one(folder):
    (folder / "results").rename(folder / "elsewhere")
    _, result = opened(folder)
    assert result.returncode == 1
    assert result.stderr.strip() == "results: has no finished study; `pwfl run FILE` runs one in this folder"


@pytest.mark.parametrize("browser", ["nowhere", "/bin/false"])
def test_without_a_browser_it_says_where_the_page_is(folder, browser):
    none = {"BROWSER": browser, "PATH": "", "DISPLAY": "", "WAYLAND_DISPLAY": "", "TERM": ""}
    _, result = opened(folder, "mine", **none)
    assert result.returncode == 1
    page = folder / "results/mine/index.html"
    assert result.stderr.strip() == f"no browser could be started; open this file in one: {page}"
