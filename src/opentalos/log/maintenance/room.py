"""Which open segments are sealed when there are too many. Pure."""

from collections.abc import Mapping
from heapq import nsmallest
from typing import TypeVar

from opentalos.model.limits import SEGMENTS_HARD_FACTOR

SHARE = 8  # so many times more room than asked for is made at once: one in eight of the bound
# A partition with a put within this time would be opened again at once, and each opening costs an
# epoch, a file and a segment; so the bound may be exceeded, up to the hard one.
IDLE_S = 10.0

T = TypeVar("T")


def room(open_max: int) -> int:
    """How many more segments than one are sealed at once, >= 1."""
    return max(1, open_max // SHARE)


def surplus(
    last_put_s: Mapping[T, float], open_max: int, now_s: float, *, busy: int = 0
) -> list[T]:
    """Of the open ones, by the time of their last put, those to be sealed; idlest first.

    ``busy``: so many others are open and cannot be sealed now.
    """
    count = len(last_put_s) + busy
    if count <= open_max:
        return []
    wanted = count - open_max + room(open_max)
    idlest = nsmallest(min(wanted, len(last_put_s)), last_put_s, key=lambda each: last_put_s[each])
    over = count - open_max * SEGMENTS_HARD_FACTOR
    must = over + room(open_max) if over > 0 else 0
    return idlest[:must] + [each for each in idlest[must:] if now_s - last_put_s[each] >= IDLE_S]
