"""Captions of figures: reStructuredText, filled in once for the study report and Snakemake's report.

A caption's file may contain the field `{{ scenario }}`, or `{{ snakemake.wildcards.scenario }}`, with or without double
backquotes around it. It is replaced by the title of the figure's scenario. All other text, with braces, is literal.
"""

import re

FIELD = re.compile(r"(``)?{{ *(?:snakemake\.wildcards\.)?scenario *}}(?(1)``)(\.?)")


def fill(text: str, title: str = "") -> str:
    """Fill in a caption's `text` with the title of the figure's scenario; "": the figure compares several.

    Raises ValueError if the caption has the field of a scenario and there is no title.
    """
    if not title and FIELD.search(text):
        raise ValueError("names a scenario, but its figure compares several; leave {{ scenario }} out")
    end = "" if title.rstrip().endswith((".", "!", "?", "…")) else "."
    named = f"*{plain(title)}*"
    return FIELD.sub(lambda field: named + (end if field[2] else ""), text).strip()


def plain(text: str) -> str:
    """Escape text as one line of reStructuredText that shows it literally within a paragraph.

    >>> print(plain("a_b *c*"))
    a\\_b \\*c\\*
    """
    return re.sub(r"([\\*`_|])", r"\\\1", " ".join(text.split()))


def category(text: str) -> str:
    """Remove from a category the characters that Snakemake's report would treat as reStructuredText or wildcards.

    >>> category("a_b: *Paper's* {learning}")
    "a b Paper's learning"
    """
    return " ".join(re.sub(r"[^\w ,.=()%'+-]|_", " ", text).split())


def label(text: str) -> str:
    """Replace the braces in a label of Snakemake's report, which treats them as wildcards and has no escape.

    >>> label("a {x}")
    'a (x)'
    """
    return text.replace("{", "(").replace("}", ")")


def for_snakemake(caption: str) -> str:
    """Escape the braces of a caption, since Snakemake's report renders captions as Jinja templates."""
    return caption.replace("{", "{{ '{' }}") + "\n"
