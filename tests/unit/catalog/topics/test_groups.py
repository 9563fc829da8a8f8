from collections.abc import AsyncIterator

import pytest

from opentalos.adapters.memory import MemoryMetaStore
from opentalos.catalog.topics.groups import (
    TopicGroup,
    TopicGroupCatalog,
    TopicGroupType,
    decode_topic_group,
    encode_topic_group,
)
from opentalos.model.errors import (
    BadRequest,
    CorruptLog,
    InvalidName,
    NewerFormat,
    TopicGroupExists,
    TopicGroupNotExist,
)

SET = TopicGroup(name="s", owner="alice", type=TopicGroupType.TOPIC_SET, topics=("a", "b"))
PATTERN = TopicGroup(
    name="p", owner="alice", type=TopicGroupType.TOPIC_PATTERN, pattern="a.*", excluded=("ax",)
)


@pytest.fixture
async def groups() -> AsyncIterator[TopicGroupCatalog]:
    groups = TopicGroupCatalog(MemoryMetaStore())
    await groups.start()
    yield groups
    await groups.close()


def test_records_read_back_and_garbage_does_not() -> None:
    for group in (SET, PATTERN):
        assert decode_topic_group(encode_topic_group(group)) == group
    with pytest.raises(NewerFormat):
        decode_topic_group(b'{"version":2}')
    with pytest.raises(CorruptLog):
        decode_topic_group(b'{"version":1}')


def test_a_set_and_a_pattern_leave_out_what_is_excluded() -> None:
    in_set = SET.matcher()
    assert [name for name in ("a", "b", "c") if in_set(name)] == ["a", "b"]
    in_pattern = PATTERN.matcher()
    assert [name for name in ("a", "ax", "ay", "b") if in_pattern(name)] == ["a", "ay"]


async def test_groups_are_made_changed_and_removed(groups: TopicGroupCatalog) -> None:
    await groups.create(SET)
    await groups.create(PATTERN)
    with pytest.raises(TopicGroupExists):
        await groups.create(SET)
    assert groups.owned_by("alice") == [PATTERN, SET]
    assert groups.owned_by("bob") == []
    smaller = TopicGroup(name="s", owner="alice", type=TopicGroupType.TOPIC_SET, topics=("a",))
    await groups.update(smaller)
    assert groups.get("alice", "s") == smaller
    await groups.delete("alice", "s")
    with pytest.raises(TopicGroupNotExist):
        groups.get("alice", "s")
    with pytest.raises(TopicGroupNotExist):
        await groups.update(SET)
    with pytest.raises(TopicGroupNotExist):
        groups.get("bob", "p")


async def test_a_definition_that_cannot_work_is_refused(groups: TopicGroupCatalog) -> None:
    set_type, pattern_type = TopicGroupType.TOPIC_SET, TopicGroupType.TOPIC_PATTERN
    for group in (
        TopicGroup(name="g", owner="a", type=set_type),
        TopicGroup(name="g", owner="a", type=set_type, topics=("t",) * 1_001),
        TopicGroup(name="g", owner="a", type=pattern_type),
        TopicGroup(name="g", owner="a", type=pattern_type, pattern="a{3"),
    ):
        with pytest.raises(BadRequest):
            await groups.create(group)
    with pytest.raises(InvalidName):
        await groups.create(TopicGroup(name="a/b", owner="a", type=set_type, topics=("t",)))
