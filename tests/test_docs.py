"""The hand-written documentation: how long it is, and that each page says for whom it is."""

import re

import pytest

from conftest import ROOT

GENERATED = {ROOT / "docs/reference/columns.md"}
HISTORY = {ROOT / "docs/upgrading.md"}
PAGES = sorted({*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")} - GENERATED - HISTORY)
ALL = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
MOST_WORDS = 35_000


def hand_written(page) -> str:
    """A page without what is generated in it: between two marks, and graphs."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"<!-- [^>]*: begin -->.*?<!-- [^>]*: end -->|```mermaid.*?```", "", text, flags=re.DOTALL)


def test_the_hand_written_documentation_is_short():
    words = {page: len(hand_written(page).split()) for page in ALL}
    assert sum(words.values()) <= MOST_WORDS, sorted(words.items(), key=lambda item: -item[1])[:5]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_first_for_whom_it_is(page):
    assert re.match(r"# .+\n\nFor \w", page.read_text(encoding="utf-8"))


def test_messages_of_the_troubleshooting_page_are_those_of_the_code():
    code = " ".join(
        path.read_text(encoding="utf-8") for path in [*ROOT.glob("pkg/pwfl/**/*.py"), *ROOT.glob("rules/*.smk")]
    )
    code = re.sub(r'"\s*\n\s*f?"', "", code)  # texts over several lines
    page = (ROOT / "docs/reference/messages.md").read_text(encoding="utf-8")
    messages = [row.split("|")[1] for row in page.splitlines() if re.match(r"\| .*`", row)]
    pieces = [
        piece.strip(" ;") for text in messages for said in re.findall("`([^`]+)`", text) for piece in said.split("…")
    ]
    assert len(pieces) > 20
    assert [piece for piece in pieces if piece not in code] == []
