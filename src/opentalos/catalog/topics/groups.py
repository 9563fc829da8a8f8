"""Topic groups: named sets or patterns of topics for multi-topic consumers."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from opentalos.catalog.records.record_index import Codec, RecordIndex, record_path
from opentalos.catalog.topics.pattern import topic_pattern
from opentalos.model.errors import (
    AlreadyExists,
    BadRequest,
    CorruptLog,
    NewerFormat,
    NotFound,
    QuotaExceeded,
    TopicGroupExists,
    TopicGroupNotExist,
)
from opentalos.model.names import check_name, check_topic_name
from opentalos.ports.meta_store import MetaStore
from opentalos.wire.record_crc import checked, with_crc

PREFIX = "topic-groups"
FORMAT_VERSION = 1
TOPICS_MAX = 1_000  # of one set
GROUPS_MAX = 1_000  # of one owner
_SHOWN_CHARS_MAX = 80


class TopicGroupType(IntEnum):
    """Source: idl/topic.thrift TopicGroupType."""

    TOPIC_PATTERN = 0
    TOPIC_SET = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGroup:
    """A named set or pattern of topics. Source: idl/topic.thrift TopicGroup."""

    name: str
    owner: str
    type: TopicGroupType
    pattern: str = ""
    topics: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def matcher(self) -> Callable[[str], bool]:
        """Test of a topic's plain name, exclusions included."""
        excluded = frozenset(self.excluded)
        if self.type == TopicGroupType.TOPIC_SET:
            wanted = frozenset(self.topics) - excluded
            return wanted.__contains__
        pattern = topic_pattern(self.pattern)
        return lambda name: name not in excluded and pattern.matches(name)


def check_topic_group(group: TopicGroup) -> None:
    """Raises: InvalidName, BadRequest."""
    check_name(group.name, "topic group name")
    for names in (group.topics, group.excluded):
        if len(names) > TOPICS_MAX:
            raise BadRequest(f"a topic group of {len(names)} topics; the limit is {TOPICS_MAX}")
        for name in names:
            check_topic_name(name)
    if group.type == TopicGroupType.TOPIC_PATTERN:
        topic_pattern(group.pattern)
    elif not group.topics:
        raise BadRequest("a topic group of type TOPIC_SET must name its topics")


class TopicGroupCatalog:
    """All topic groups in memory, each one record in the MetaStore."""

    def __init__(self, meta: MetaStore) -> None:
        self._records = RecordIndex(meta, PREFIX, Codec(encode_topic_group, decode_topic_group))

    async def start(self) -> None:
        """Load all groups."""
        await self._records.start()

    async def close(self) -> None:
        """Stop following changes of other servers."""
        await self._records.close()

    def get(self, owner: str, name: str) -> TopicGroup:
        """An owner's group. Raises: TopicGroupNotExist."""
        group = self._records.get(_path(owner, check_name(name, "topic group name")))
        if group is None:
            raise _not_exist(name)
        return group

    def owned_by(self, owner: str) -> Sequence[TopicGroup]:
        """An owner's groups by name."""
        groups = [group for _, group in self._records.items() if group.owner == owner]
        return sorted(groups, key=lambda group: group.name)

    async def create(self, group: TopicGroup) -> None:
        """Store a group. Raises: TopicGroupExists, QuotaExceeded, InvalidName, BadRequest."""
        check_topic_group(group)
        owned = len(self.owned_by(group.owner))
        if owned >= GROUPS_MAX:
            raise QuotaExceeded(
                f"topic groups of {group.owner}: limit {GROUPS_MAX}, measured {owned}"
            )
        try:
            await self._records.create(_path(group.owner, group.name), group)
        except AlreadyExists:
            raise TopicGroupExists(f"topic group {group.name} already exists") from None

    async def update(self, group: TopicGroup) -> None:
        """Replace a group's definition. Raises: TopicGroupNotExist, InvalidName, BadRequest."""
        check_topic_group(group)
        try:
            await self._records.change(
                _path(group.owner, group.name),
                lambda stored: replace(group, owner=stored.owner),
            )
        except NotFound:
            raise _not_exist(group.name) from None

    async def delete(self, owner: str, name: str) -> None:
        """Remove a group. Raises: TopicGroupNotExist."""
        group = self.get(owner, name)
        await self._records.remove(_path(owner, name), group)


def encode_topic_group(group: TopicGroup) -> bytes:
    """The record's value."""
    record = {
        "version": FORMAT_VERSION,
        "name": group.name,
        "owner": group.owner,
        "type": group.type.name,
        "pattern": group.pattern,
        "topics": group.topics,
        "excluded": group.excluded,
    }
    return with_crc(json.dumps(record, separators=(",", ":")).encode())


def decode_topic_group(value: bytes) -> TopicGroup:
    """Read a record. Raises: NewerFormat; CorruptLog for anything that is no such record."""
    try:
        record = json.loads(checked(value))
        if record["version"] != FORMAT_VERSION:
            raise NewerFormat(f"topic group record has format {record['version']}, supported is 1")
        return TopicGroup(
            name=record["name"],
            owner=record["owner"],
            type=TopicGroupType[record["type"]],
            pattern=record["pattern"],
            topics=tuple(record["topics"]),
            excluded=tuple(record["excluded"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptLog(f"invalid topic group record: {error}") from error


def _not_exist(name: str) -> TopicGroupNotExist:
    return TopicGroupNotExist(f"topic group {name[:_SHOWN_CHARS_MAX]} does not exist")


def _path(owner: str, name: str) -> str:
    return record_path(PREFIX, owner, name)
