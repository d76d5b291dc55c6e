"""Titles of parameters, for axes, panels and factors."""

import re

from pwfl import registry
from pwfl.report.words import upper
from pwfl.scenario.fields import parameters
from pwfl.scenario.sweep import GREEK, in_words

LONGEST = 70  # most characters of a title
NO_NOUN = re.compile(r"(what|how|of|with|which|whether|who|predict)\b")  # beginnings of meanings that are no titles
CUT = re.compile(r"[^,;:]*, (or\b|[^,;:]*, (that|who|whose|which)\b)")  # meanings that make no sense when cut
LETTERS = re.compile(rf"\b({'|'.join(GREEK)})\b")


def title(system: str, key: str) -> str:
    """Return a parameter's title, without its unit: the first words of its meaning, or else its key in words.

    A user-defined function's parameter, `own.STAGE.NAME`, has no meaning here.

    >>> title("multicell", "training.clip_norm"), title("multicell", "radio.bandwidth_hz")
    ('Clipping norm L of a gradient', 'Bandwidth B of a resource block')
    >>> title("multicell", "privacy.observer"), title("multicell", "own.schedule.beta")
    ('Observer', 'β')
    """
    known = {".".join(path): field for path, field in parameters(registry.system(system).model)}
    if key not in known:
        return in_words(key)
    meaning = re.sub(r" \([^)]*\)", "", known[key].description or "")
    first = re.split("[,;:]", meaning, maxsplit=1)[0]
    if NO_NOUN.match(first) or CUT.match(meaning) or re.search("[`(]", first) or len(first) > LONGEST:
        first = in_words(key)
    return upper(LETTERS.sub(lambda name: GREEK[name[0]], first).replace("^2", "²"))
