"""References of a study: its systems' papers, for its page and as BibTeX, and pwfl's entry, from CITATION.cff."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import yaml

from pwfl import registry

KINDS = {"article": "article", "conference-paper": "inproceedings", "generic": "misc", "software": "misc"}
FIELDS = {  # fields of BibTeX, by those of the Citation File Format
    "journal": "journal",
    "collection-title": "booktitle",
    "year": "year",
    "volume": "volume",
    "issue": "number",
    "doi": "doi",
    "url": "url",
    "version": "version",
}
VERBATIM = ("doi", "url")
DOI, ARXIV = "https://doi.org/", "https://arxiv.org/abs/"
ARXIVS_DOI = "10.48550/arXiv."  # prefix of a preprint's DOI


class Reference(NamedTuple):
    """A system's paper in words, and its links."""

    system: str
    authors: str
    title: str
    where: str  #: The journal, conference or publisher, and the year.
    links: list[tuple[str, str]]  #: Name and address of each identifier, such as a DOI; may be empty.
    page: str = ""  #: The documentation page of a built-in system, by its path in the project; "" for others.


def bibtex(citation: Path, systems: Iterable[str]) -> str:
    """Write the entries of pwfl and of systems' papers, each keyed by its system; a comment for systems without one."""
    systems = list(systems)
    known = papers(citation, systems)
    software = yaml.safe_load(citation.read_text(encoding="utf-8"))
    parts = [entry("pwfl", software | {"year": software["date-released"].year})]
    for name in systems:
        parts.append(entry(name, known[name]) if name in known else f"% {name}: no paper is declared\n")
    return "\n".join(parts)


def papers(citation: Path, systems: Iterable[str]) -> dict[str, dict]:
    """Return those systems' papers that exist, in the Citation File Format, from CITATION.cff or the catalogs."""
    listed = yaml.safe_load(citation.read_text(encoding="utf-8"))["references"]
    built_in = {paper["notes"].removeprefix("The system ").rstrip("."): paper for paper in listed}
    listed = {name: built_in.get(name) or registry.system(name).catalog.paper for name in systems}
    return {name: paper for name, paper in listed.items() if paper}


def cited(citation: Path, systems: Iterable[str]) -> list[Reference]:
    """List the references of those systems that have a paper."""
    pages = {name: f"docs/explanation/{name}.md" for name in registry.BUILT_IN}
    known = papers(citation, systems).items()
    return [reference(name, paper)._replace(page=pages.get(name, "")) for name, paper in known]


def reference(system: str, work: dict) -> Reference:
    """Describe a paper in words. Raises KeyError if title, authors or year is missing."""
    authors = [_in_words(author) for author in work["authors"]]
    names = " and ".join([", ".join(authors[:-1]), authors[-1]] if len(authors) > 1 else authors)
    where = work.get("journal") or work.get("collection-title") or work.get("publisher", {}).get("name", "")
    if "volume" in work:
        where += f" {work['volume']}" + (f"({work['issue']})" if "issue" in work else "")
    if "start" in work:
        where += f", {work['start']}-{work['end']}"
    where = ", ".join(filter(None, [where, str(work["year"])]))
    return Reference(system, names, work["title"], where, _links(work))


def _links(work: dict) -> list[tuple[str, str]]:
    values = [identifier["value"] for identifier in work.get("identifiers", [])]
    arxiv = [value.partition(":")[2] for value in values if value.lower().startswith("arxiv:")]
    doi = work.get("doi", "")
    links = [(f"doi:{doi}", DOI + doi)] if doi and not (arxiv and doi.startswith(ARXIVS_DOI)) else []
    links += [(f"arXiv:{number}", ARXIV + number) for number in arxiv]
    return links or ([(work["url"], work["url"])] if "url" in work else [])


def entry(key: str, work: dict) -> str:
    """Convert a work in the Citation File Format to BibTeX."""
    values = {
        FIELDS[name]: value if name in VERBATIM else _tex(value) for name, value in work.items() if name in FIELDS
    }
    kind = KINDS[work["type"]]
    if "start" in work:
        values["pages"] = f"{work['start']}--{work['end']}"
    if "publisher" in work:
        values["howpublished" if kind == "misc" else "publisher"] = _tex(work["publisher"]["name"])
    for identifier in work.get("identifiers", []):
        values["archiveprefix"], _, values["eprint"] = identifier["value"].partition(":")
        if kind == "misc":
            values["howpublished"] = identifier["value"]
    fields = {"author": " and ".join(map(_name, work["authors"])), "title": f"{{{_tex(work['title'])}}}"} | values
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}\n"])


def _in_words(author: dict) -> str:
    """Write an author's name for readers: `José da Silva Jr.`, or the name of a group."""
    if "name" in author:
        return author["name"]
    parts = (author.get(part) for part in ("given-names", "name-particle", "family-names", "name-suffix"))
    return " ".join(filter(None, parts))


def _name(author: dict) -> str:
    """Write an author's name as BibTeX requires: `da Silva, Jr., José`; a group in braces."""
    if "name" in author:
        return f"{{{_tex(author['name'])}}}"
    family = " ".join(filter(None, [author.get("name-particle"), author["family-names"]]))
    return _tex(", ".join(filter(None, [family, author.get("name-suffix"), author["given-names"]])))


def _tex(value: object) -> str:
    """Write a value for BibTeX and LaTeX: special characters escaped, braces and backslashes removed."""
    return re.sub(r"([&%#$_])", r"\\\1", re.sub(r"[{}\\]", "", str(value)))
