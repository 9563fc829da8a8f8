"""The names that a mistyped one may mean."""

import difflib
from collections.abc import Iterable
from typing import Final

_NAMES_MAX: Final = 3
# difflib: 0 is nothing in common, 1 is equal. Few mistype the first letter.
_SIMILARITY_MIN: Final = 0.8
_SIMILARITY_MIN_FROM_FIRST: Final = 0.6


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """The most similar of ``names``, best first, upper and lower case alike; often none."""
    wanted, found = name.lower(), []
    for known in names:
        same_begin = wanted[:1] == known[:1].lower()
        ratio = difflib.SequenceMatcher(None, wanted, known.lower()).ratio()
        if ratio >= (_SIMILARITY_MIN_FROM_FIRST if same_begin else _SIMILARITY_MIN):
            found.append((-ratio, known))
    return [known for _, known in sorted(found)[:_NAMES_MAX]]
