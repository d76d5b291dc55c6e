"""BibTeX entries of the papers that a study's systems reproduce, and of pwfl, from CITATION.cff."""

from collections.abc import Iterable
from pathlib import Path

import yaml

KINDS = {"article": "article", "conference-paper": "inproceedings", "generic": "misc", "software": "misc"}
FIELDS = {  # of BibTeX, by those of the Citation File Format
    "journal": "journal",
    "collection-title": "booktitle",
    "year": "year",
    "volume": "volume",
    "issue": "number",
    "doi": "doi",
    "url": "url",
    "version": "version",
}


def bibtex(citation: Path, systems: Iterable[str]) -> str:
    """The entries of pwfl and of some systems' papers, each by its system's name; a comment where there is none."""
    software = yaml.safe_load(citation.read_text(encoding="utf-8"))
    papers = {paper["notes"].removeprefix("The system ").rstrip("."): paper for paper in software["references"]}
    parts = [_entry("pwfl", software | {"year": software["date-released"].year})]
    for name in systems:
        parts.append(_entry(name, papers[name]) if name in papers else f"% {name}: no paper in {citation.name}\n")
    return "\n".join(parts)


def _entry(key: str, work: dict) -> str:
    values = {FIELDS[name]: value for name, value in work.items() if name in FIELDS}
    kind = KINDS[work["type"]]
    if "start" in work:
        values["pages"] = f"{work['start']}--{work['end']}"
    if "publisher" in work:
        values["howpublished" if kind == "misc" else "publisher"] = work["publisher"]["name"]
    for identifier in work.get("identifiers", []):
        values["archiveprefix"], _, values["eprint"] = identifier["value"].partition(":")
        if kind == "misc":
            values["howpublished"] = identifier["value"]
    fields = {"author": " and ".join(map(_name, work["authors"])), "title": f"{{{work['title']}}}"} | values
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}\n"])


def _name(author: dict) -> str:
    """An author as BibTeX takes it: `da Silva, Jr., José`; a group in braces."""
    if "name" in author:
        return f"{{{author['name']}}}"
    family = " ".join(filter(None, [author.get("name-particle"), author["family-names"]]))
    return ", ".join(filter(None, [family, author.get("name-suffix"), author["given-names"]]))
