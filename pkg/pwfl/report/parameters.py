"""Titles of parameters, for axes, panels and legends."""

import re

from pwfl import registry
from pwfl.scenario.fields import extra_of, parameters
from pwfl.scenario.sweep import GREEK, in_words

LONGEST = 70  # most characters of a title
NO_NOUN = re.compile(r"(what|how|of|with|which|whether|who|predict)\b")  # beginnings of meanings that are no titles
CUT = re.compile(r"[^,;:]*, (or\b|[^,;:]*, (that|who|whose|which)\b)")  # meanings that make no sense when cut

LETTERS = re.compile(rf"\b({'|'.join(GREEK)})\b")


def title(system: str, key: str) -> str:
    """Return a parameter's title: the first words of its meaning, or else its key in words; its unit and dotted key.

    The title of a user-defined function's parameter, `own.STAGE.NAME`, is its key, as it has no meaning here.

    >>> title("multicell", "training.clip_norm")
    'Clipping norm L of a gradient (training.clip_norm)'
    >>> title("multicell", "radio.bandwidth_hz"), title("multicell", "privacy.observer")
    ('Bandwidth B of a resource block (Hz; radio.bandwidth_hz)', 'Observer (privacy.observer)')
    """
    known = {".".join(path): field for path, field in parameters(registry.system(system).model)}
    if key not in known:
        return key
    meaning, unit = re.sub(r" \([^)]*\)", "", known[key].description or ""), extra_of(known[key])["unit"]
    first = re.split("[,;:]", meaning, maxsplit=1)[0]
    if NO_NOUN.match(first) or CUT.match(meaning) or re.search("[`(]", first) or len(first) > LONGEST:
        first = in_words(key)
    words = LETTERS.sub(lambda name: GREEK[name[0]], first).replace("^2", "²")
    words = words[0].upper() + words[1:] if words[0].isascii() else words
    return f"{words} ({unit}; {key})" if unit else f"{words} ({key})"


def short(system: str, key: str) -> str:
    """Return a parameter's title, without its unit and key.

    >>> short("multicell", "training.clip_norm"), short("multicell", "own.schedule.beta")
    ('Clipping norm L of a gradient', 'β')
    """
    name = title(system, key)
    return in_words(key) if name == key else name.rpartition(" (")[0]
