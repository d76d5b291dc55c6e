"""What journals and archives read: paper.md, its references, and the metadata of Zenodo's archive."""

import json
import re
import sys

import polars as pl
import pytest
import yaml

from conftest import ROOT
from pwfl import registry
from pwfl.report import references

sys.path.append(str(ROOT / "docs"))

import full_size
import zenodo

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
_, FRONT, BODY = re.split(r"^---$", (ROOT / "paper.md").read_text(encoding="utf-8"), maxsplit=2, flags=re.MULTILINE)
BIB = (ROOT / "paper.bib").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^@\w+\{(\w+),\n(.*?)^\}$", BIB, flags=re.MULTILINE | re.DOTALL))
SECTIONS = ["Summary", "Statement of need", "State of the field", "Functionality"]


def test_the_paper_has_the_form_and_length_that_the_journal_asks_for():
    front = yaml.safe_load(FRONT)
    assert set(front) == {"title", "tags", "authors", "date", "bibliography"}
    assert len(front["tags"]) > 2
    assert front["title"] == CITATION["title"]
    assert [author["name"] for author in front["authors"]] == [author["name"] for author in CITATION["authors"]]
    assert front["date"] == f"{CITATION['date-released']:%-d %B %Y}"
    assert (ROOT / front["bibliography"]).is_file()
    assert 250 < len(BODY.split()) < 1000
    found = re.findall(r"^# (.*)$", BODY, flags=re.MULTILINE)
    assert found[: len(SECTIONS)] == SECTIONS
    assert found[-2:] == ["Limitations", "References"]


def test_the_paper_cites_every_entry_and_every_citation_has_an_entry():
    assert BIB.count("\n@") + BIB.startswith("@") == len(ENTRIES)
    assert sorted(set(re.findall(r"@(\w+)", BODY))) == sorted(ENTRIES)
    for key, fields in ENTRIES.items():
        has = set(re.findall(r"^  (\w+) = \{", fields, flags=re.MULTILINE))
        assert {"author", "title", "year"} <= has, key
        assert has & {"doi", "eprint", "url", "howpublished"}, key


def test_the_systems_papers_are_cited_as_in_the_citation_file():
    expected = references.bibtex(ROOT / "CITATION.cff", sorted(registry.BUILT_IN))
    assert BIB.startswith(expected.partition("\n\n")[2])  # without the entry of pwfl itself


PER_USER = "I4: training.clipping per_user"
NUMBERS = [  # number in the article, claim, scenario and interpretation of docs/full_size.csv, value and interval there
    ("15.4 points", "paper", "F5-1", "r5_gamma1e6", None, "0.154 [0.141, 0.167]"),
    ("19.3 points", "paper", "F5-3", "r5_gamma1e6", None, "-0.193 [-0.206, -0.181]"),
    ("2.98 points", "samples", "F5-1", "chosen_r5_per_user", PER_USER, "0.0298 [0.0213, 0.0383]"),
    ("or 1.07", "samples", "F5-3", "chosen_r5_per_user", PER_USER, "-0.0107 [-0.0179, -0.00346]"),
    ("0.186", "anonymous_oac", "A-1", "p2_q50", None, "0.186"),
    ("0.8 of", "anonymous_oac", "A-1", "p50_q2", None, "0.8"),
    ("2.45", "anonymous_oac", "L4-1", "p10_q10", "I3: half of the participants fail", "2.45"),
    ("12.1%", "utility_fair", "S4-2", "fitted", None, "0.121 [0.116, 0.126]"),
    ("about half", "random_orthogonalization", "T1-1", "m128", None, "0.503"),
]


@pytest.mark.parametrize(
    ("said", "study", "claim", "scenario", "interpretation", "measured"), NUMBERS, ids=[number[0] for number in NUMBERS]
)
def test_numbers_of_the_article_are_those_of_the_full_size_results(
    said, study, claim, scenario, interpretation, measured
):
    assert said in " ".join(BODY.split())
    own = full_size.kept().filter(study=study, claim=claim, scenario=scenario)
    row = own.filter(pl.col("interpretation").eq_missing(pl.lit(interpretation))).row(0, named=True)
    ends = [row["measured_ci_low"], row["measured_ci_high"]]
    shown = f"{row['measured']:.3g}" + ("" if ends == [None, None] else f" [{', '.join(f'{end:.3g}' for end in ends)}]")
    assert shown == measured


def test_zenodo_gets_what_the_citation_file_says():
    kept = json.loads(zenodo.FILE.read_text(encoding="utf-8"))
    assert kept == zenodo.metadata(CITATION), "`make docs` writes it anew"
    people = [{"given-names": "José", "family-names": "Silva", "name-particle": "da", "name-suffix": "Jr."}]
    assert zenodo.metadata(CITATION | {"authors": people})["creators"] == [{"name": "da Silva Jr., José"}]
