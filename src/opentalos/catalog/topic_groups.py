"""Topic groups: named sets or patterns of topics for multi-topic consumers."""

from dataclasses import dataclass
from enum import IntEnum


class TopicGroupType(IntEnum):
    """Source: topic.thrift TopicGroupType."""

    TOPIC_PATTERN = 0
    TOPIC_SET = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGroup:
    """A named set or pattern of topics. Source: topic.thrift TopicGroup."""

    name: str
    owner: str
    type: TopicGroupType
    pattern: str = ""
    topics: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
