"""Places in topics, from what servers say of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from opentalos.model.errors import ConfigError, CorruptLog, TopicNotExist
from opentalos.model.message import OffsetRange
from opentalos.pipelines.datasource.source.options import ReadOptions, read_options
from opentalos.pipelines.datasource.source.start_at import Edge, StartAt
from opentalos.pipelines.datasource.source.topic_snapshot import (
    deleted_among,
    find_topics,
    positions_at,
    retained_by,
)
from opentalos.sdk import ClientConfig
from opentalos.sdk.aio import Client
from opentalos.sdk.core.values import DamagedRange, TopicRef

A, B = TopicRef("a", "o#a#1", 2, 3), TopicRef("b", "o#b#2", 1)
HELD = {A.resource: {0: (5, 9), 1: (0, 0), 2: (3, 4)}, B.resource: {0: (0, 7)}}
ME = ClientConfig(endpoints=("http://h:1",), key_id="me", secret="s")
DAMAGE = CorruptLog("a/0 is damaged")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass
class FakeClient:
    """Two topics; ``gone`` ones were deleted, a partition is ``damaged``."""

    config: ClientConfig = ME
    gone: tuple[str, ...] = ()
    damaged: tuple[str, int] | None = None

    async def topic(self, name: str, *, refresh: bool) -> TopicRef:
        assert refresh
        found = {"a": A, "other/a": TopicRef("a", "x#a#3", 1), "b": B}.get(name)
        if found is None:
            raise TopicNotExist(name)
        return found

    async def known_offsets(
        self, topic: TopicRef, partitions: Sequence[int]
    ) -> dict[int, OffsetRange | DamagedRange]:
        if topic.name in self.gone:
            raise TopicNotExist(topic.name)
        found: dict[int, OffsetRange | DamagedRange] = {}
        for partition in partitions:
            start, end = HELD[topic.resource][partition]
            whole = (topic.resource, partition) != self.damaged
            found[partition] = OffsetRange(start, end) if whole else DamagedRange(DAMAGE, start)
        return found

    async def offsets_at(self, topic: TopicRef, times_ms: Mapping[int, int]) -> dict[int, int]:
        assert set(times_ms.values()) == {int(NOON.timestamp() * 1000)}
        return {item: HELD[topic.resource][item][0] + item for item in times_ms}


def client(**state: Any) -> Client:
    return cast(Client, FakeClient(**state))


def options(**given: str) -> ReadOptions:
    return read_options({"url": "http://h:1", "key": "me:s", **given}, streaming=True)


async def places(at: StartAt) -> Mapping[str, Mapping[int, int]]:
    return await positions_at(client(), options(topics="a,b"), at, (A, B))


async def test_topics_come_by_name() -> None:
    assert await find_topics(client(), options(topics="b, a")) == (A, B)


async def test_a_topic_that_is_not_there_is_named_with_who_asked() -> None:
    with pytest.raises(
        TopicNotExist, match="topic nowhere does not exist, or me has no permission on it"
    ):
        await find_topics(client(), options(topics="a,nowhere"))


async def test_two_topics_of_one_name_are_not_read_together() -> None:
    with pytest.raises(ConfigError, match="the same name"):
        await find_topics(client(), options(topics="a,other/a"))


async def test_also_partitions_that_only_consumers_still_see_are_read() -> None:
    assert await retained_by(client(), [A]) == {
        A.resource: {item: OffsetRange(*held) for item, held in HELD[A.resource].items()}
    }


async def test_a_topic_that_goes_after_it_was_found_is_named() -> None:
    with pytest.raises(TopicNotExist, match="topic b was deleted while it was read"):
        await retained_by(client(gone=("b",)), [A, B])


async def test_places_have_an_offset_in_each_partition() -> None:
    assert await places(Edge.EARLIEST) == {A.resource: {0: 5, 1: 0, 2: 3}, B.resource: {0: 0}}
    assert await places(Edge.LATEST) == {A.resource: {0: 9, 1: 0, 2: 4}, B.resource: {0: 7}}
    assert await places(NOON) == {A.resource: {0: 5, 1: 1, 2: 5}, B.resource: {0: 0}}
    named = await places({"o/a": {1: 4}, "b": {0: 6}})
    assert named == {A.resource: {0: 5, 1: 4, 2: 3}, B.resource: {0: 6}}


async def test_offsets_of_what_is_not_read_are_refused() -> None:
    with pytest.raises(ConfigError, match="topic 'c', which is not read"):
        await places({"c": {0: 1}})
    with pytest.raises(ConfigError, match="topic b has no partition 4"):
        await places({"b": {4: 1}})


@pytest.mark.parametrize("at", [Edge.EARLIEST, {"a": {0: 7}}, NOON])
async def test_a_damaged_partition_has_the_places_that_are_known(at: StartAt) -> None:
    damaged = client(damaged=(A.resource, 0))
    found = await positions_at(damaged, options(topics="a"), at, (A,))
    assert found[A.resource][0] == (7 if isinstance(at, dict) else 5)


async def test_the_end_of_a_damaged_partition_is_an_error_unless_it_is_not_read() -> None:
    damaged = client(damaged=(A.resource, 0))
    with pytest.raises(CorruptLog, match="a/0 is damaged"):
        await positions_at(damaged, options(topics="a"), Edge.LATEST, (A,))
    others = read_options(
        {"url": "http://h:1", "key": "me:s", "topics": "a", "partitions": "1,2"}, streaming=False
    )
    found = await positions_at(damaged, others, Edge.LATEST, (A,))
    assert found == {A.resource: {1: 0, 2: 4}}


async def test_topics_that_are_deleted_meanwhile_may_be_left_out() -> None:
    found = await retained_by(client(gone=("a",)), (A, B), drop_deleted=True)
    assert found.keys() == {B.resource}


async def test_only_topics_that_the_server_does_not_have_count_as_deleted() -> None:
    listed = {A.resource: {0: 5, 2: 4}, B.resource: {0: 7}}
    assert await deleted_among(client(gone=("b",)), listed) == {B.resource}
