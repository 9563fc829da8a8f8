"""Parts of a list of topics, which is too long for one reply.

A part continues after the name of the last topic of the part before, so topics that are created or
deleted meanwhile neither repeat others nor hide them.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from opentalos.broker.values import Topic
from opentalos.gateway.rest.routing.schema import text

_AFTER_CHARS_MAX: Final = 400  # as many as a topic in a path may have
AFTER: Final = text(
    chars_max=_AFTER_CHARS_MAX, about="Only topics after this one: `next` of the previous reply."
)
NEXT: Final = text(about="Send it as `after`; empty: the end.")


class TopicPage(NamedTuple):
    """A part of a list. ``next``: OWNER/NAME of its last topic; empty: nothing follows."""

    topics: Sequence[Topic]
    next: str


def page_of(topics: Sequence[Topic], after: str, limit: int | None) -> TopicPage:
    """Topics that follow one, at most ``limit`` of them.

    Args: topics: in the order of lists: by name, then owner; after: OWNER/NAME, empty: the start.
    """
    start = bisect_right(topics, _place(after), key=_key) if after else 0
    part = topics[start:] if limit is None else topics[start : start + limit]
    more = start + len(part) < len(topics)
    return TopicPage(part, f"{part[-1].owner}/{part[-1].name}" if more and part else "")


def _key(topic: Topic) -> tuple[str, str]:
    return topic.name, topic.owner


def _place(after: str) -> tuple[str, str]:
    owner, _, name = after.rpartition("/")
    return name, owner
