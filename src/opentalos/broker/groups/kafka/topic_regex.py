"""Regular expressions of subscriptions: a part of RE2's, refused where matching could be slow.

Python's engine goes back and tries again, so what it may try is bounded before: no quantifier
of a group, no references, few quantifiers without an end.
"""

import re
from typing import Final

CHARS_MAX: Final = 256
UNBOUNDED_MAX: Final = 3  # quantifiers; with names of 200 characters a match stays below 0.1 s
REPEATS_MAX: Final = 100  # in braces
_ATOM: Final = re.compile(
    r"\\[dDwWsS.\-_/\\^$|?*+()\[\]{}]"  # an escaped character or a class
    r"|\[\^?(?:[\w.\- /]|\\[dwsDWS.\-_/\\\]\[^])+\]"  # a set
    r"|[\w\-/ .]"  # a character, or any
)
_QUANTIFIER: Final = re.compile(r"[*+?]\??|\{(\d{1,3})(,(\d{0,3}))?\}\??")


def compile_regex(text: str) -> re.Pattern[str]:
    """The expression; it has to match whole names. Raises: ValueError: says what is refused."""
    if not 0 < len(text) <= CHARS_MAX:
        raise ValueError(f"a regular expression of topics has 1 to {CHARS_MAX} characters")
    position = unbounded = 0
    while position < len(text):
        if text.startswith("(?:", position):
            position += 3
            continue
        if text[position] in "()|^$":
            position += 1
            if position < len(text) and _QUANTIFIER.match(text, position):
                raise ValueError("a quantifier of a group or an anchor is not supported")
            continue
        atom = _ATOM.match(text, position)
        if atom is None:
            raise ValueError(f"not supported at character {position + 1}: {text[position]!r}")
        position = atom.end()
        quantifier = _QUANTIFIER.match(text, position)
        if quantifier is not None:
            unbounded += _is_unbounded(quantifier)
            position = quantifier.end()
    if unbounded > UNBOUNDED_MAX:
        raise ValueError(f"more than {UNBOUNDED_MAX} quantifiers without an end")
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(str(error)) from error


def _is_unbounded(quantifier: re.Match[str]) -> bool:
    least, rest, most = quantifier.groups()
    if least is None:
        return quantifier[0][0] in "*+"
    if max(int(least), int(most or 0)) > REPEATS_MAX:
        raise ValueError(f"more than {REPEATS_MAX} repetitions")
    return rest is not None and not most
