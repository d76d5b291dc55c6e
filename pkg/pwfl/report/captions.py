"""Captions of figures: reStructuredText that may name its scenario, filled in once for the page and Snakemake's report.

A caption's file has the field `{{ scenario }}`, or `{{ snakemake.wildcards.scenario }}`, with or without double
backquotes around it, for the title of the figure's scenario. All else in it is text, braces included.
"""

import re

FIELD = re.compile(r"(``)?{{ *(?:snakemake\.wildcards\.)?scenario *}}(?(1)``)(\.?)")


def fill(text: str, title: str = "") -> str:
    """The caption of a figure of the scenario of a title, of a caption's `text`; without a title, of several scenarios.

    Raises ValueError where the caption names a scenario and there is no title.
    """
    if not title and FIELD.search(text):
        raise ValueError("names a scenario, but its figure compares several; leave {{ scenario }} out")
    end = "" if title.rstrip().endswith((".", "!", "?", "…")) else "."
    named = f"*{plain(title)}*"
    return FIELD.sub(lambda field: named + (end if field[2] else ""), text).strip()


def plain(text: str) -> str:
    """Text of a user's on one line, as reStructuredText that shows it as it is, within a paragraph.

    >>> print(plain("a_b *c*"))
    a\\_b \\*c\\*
    """
    return re.sub(r"([\\*`_|])", r"\\\1", " ".join(text.split()))


def category(text: str) -> str:
    """A category of Snakemake's report, which takes it for a target of reStructuredText and braces for wildcards.

    >>> category("a_b: *Paper's* {learning}")
    "a b Paper's learning"
    """
    return " ".join(re.sub(r"[^\w ,.=()%'+-]|_", " ", text).split())


def label(text: str) -> str:
    """A label of Snakemake's report, which takes what stands in braces for a wildcard and has no way to write them.

    >>> label("a {x}")
    'a (x)'
    """
    return text.replace("{", "(").replace("}", ")")


def for_snakemake(caption: str) -> str:
    """A caption as Snakemake's report takes it: a template of Jinja, here of a caption that asks for nothing."""
    return caption.replace("{", "{{ '{' }}") + "\n"
