"""A study's folder, packed as docs/how-to/running.md says and unpacked elsewhere, has all that its page shows and links to."""

import re
import shlex
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import pwfl
from conftest import ROOT, SMALL
from pwfl import tables

RUNNING = (ROOT / "docs/how-to/running.md").read_text(encoding="utf-8")
PACKING = re.findall(r"^tar -c.*$", RUNNING, flags=re.MULTILINE)
STUDY = SMALL["study"]


class Page(HTMLParser):
    """What a page shows and links to, except links into the web and into itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        found = [given[name] for name in ("href", "src", "data", "srcset") if given.get(name)]
        self.addresses += [address for address in found if not (tag == "a" and address.startswith(("https:", "#")))]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(params=PACKING, ids=["whole", "without records"])
def shared(request, own, tmp_path):
    """What was packed by a command of the page, the unpacked folder, and the original one, which is gone."""
    assert "tar -xzf STUDY.tgz" in RUNNING
    packing, unpacking = (command.replace("STUDY", STUDY) for command in (request.param, "tar -xzf STUDY.tgz"))
    before = files(own / "results" / STUDY)
    subprocess.run(shlex.split(packing), cwd=own, check=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (own / f"{STUDY}.tgz").rename(elsewhere / f"{STUDY}.tgz")
    own.rename(tmp_path / "gone")
    (tmp_path / "gone").rename(tmp_path / "gone elsewhere")
    subprocess.run(shlex.split(unpacking), cwd=elsewhere, check=True)
    kept = {name: held for name, held in before.items() if "--exclude" not in packing or ".published" not in name}
    return kept, elsewhere / STUDY, own


def test_the_copy_has_every_file_and_names_no_folder_of_the_original(shared):
    before, copy, original = shared
    assert files(copy) == before
    assert [name for name, held in before.items() if str(original).encode() in held] == []


def test_what_the_page_links_to_is_in_the_folder(shared):
    _, copy, _ = shared
    page = Page((copy / "index.html").read_text(encoding="utf-8"))
    assert len(page.addresses) > 20
    for address in page.addresses:
        assert not re.match(r"[a-z]+:|/", address), address
        assert (to := (copy / unquote(address)).resolve()).is_file(), address
        assert to.is_relative_to(copy.resolve())
    linked = {str(Path(unquote(address))) for address in page.addresses}
    drawn = {str(path.relative_to(copy)) for path in copy.rglob("*.svg")}
    assert drawn
    assert drawn <= linked


def test_the_figures_of_all_points_are_in_the_page_itself(shared):
    _, copy, _ = shared
    text = (copy / "index.html").read_text(encoding="utf-8")
    assert text.count('<svg role="img"') >= 2
    assert "<script src" not in text


def test_the_tables_of_the_copy_are_read(shared):
    before, copy, _ = shared
    if not any(".published" in name for name in before):
        with pytest.raises(FileNotFoundError, match="no finished study here"):
            pwfl.results(copy)
        return
    left = pwfl.results(copy)
    assert list(left.scenarios) == list(SMALL["scenarios"])
    assert all(len(frame) for frame in left.comparison.values())
    for one in left.scenarios.values():
        assert len(one.report["summary"])
        assert [name for name, frame in one.report.items() if not frame.columns] == []
        with pytest.raises(tables.TableError, match="this copy of the study has no stage tables"):
            _ = one.stages["users"]
