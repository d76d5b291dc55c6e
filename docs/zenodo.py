"""Write the metadata of Zenodo's archive, `.zenodo.json`, from CITATION.cff: `python docs/zenodo.py`.

Zenodo can read CITATION.cff, but ignores its references. If `.zenodo.json` exists, Zenodo reads only that file.
"""

import json
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
FILE = ROOT / ".zenodo.json"


def metadata(citation: dict) -> dict:
    """Return Zenodo's fields of a citation; of the references, those that have a DOI or an arXiv number."""
    return {
        "title": citation["title"],
        "upload_type": citation["type"],
        "description": citation["abstract"],
        "creators": [_creator(author) for author in citation["authors"]],
        "version": citation["version"],
        "license": citation["license"],
        "keywords": citation["keywords"],
        "related_identifiers": [
            {"identifier": identifier, "relation": "references"}
            for identifier in map(_identifier, citation["references"])
            if identifier
        ],
    }


def _creator(author: dict) -> dict:
    if "name" in author:
        return {"name": author["name"]}
    family = " ".join(filter(None, [author.get("name-particle"), author["family-names"], author.get("name-suffix")]))
    more = {name: author[name] for name in ("affiliation", "orcid") if name in author}
    return {"name": f"{family}, {author['given-names']}"} | more


def _identifier(work: dict) -> str | None:
    return work.get("doi") or next((identifier["value"] for identifier in work.get("identifiers", ())), None)


if __name__ == "__main__":
    read = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    FILE.write_text(json.dumps(metadata(read), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
