"""Texts that Kafka clients store with offsets: encrypted like messages, never dearer than the
position."""

from collections.abc import Mapping

import pytest
from tests.unit.broker.groups.kafka.test_kafka_groups import LIMITS, NOBODY, READ, commit
from tests.unit.broker.support import World, world
from tests.unit.broker.test_encryption import OLD, encrypted, everything, plan, restart
from tests.unit.catalog.support import ALICE, BOB

from opentalos.broker.groups.kafka.offsets import CommittedOffset
from opentalos.broker.values import Topic
from opentalos.group.row_format import GroupKey, partition_row_key
from opentalos.model.errors import StoreUnavailable

TEXT = "好 state of a stream"  # its first byte is the mark of what is encrypted


async def positions(w: World, topic: Topic, group: str = "g") -> Mapping[int, CommittedOffset]:
    return await w.broker.kafka_groups.offsets.fetch(ALICE, group, topic)


def stored_text(w: World, topic: Topic, partition: int = 0) -> bytes:
    key = partition_row_key(GroupKey(topic.uuid, "g"), partition)
    return w.storage.tables["groups"][key].data[b"metadata"]


def store_text(w: World, topic: Topic, text: bytes, partition: int = 0) -> None:
    key = partition_row_key(GroupKey(topic.uuid, "g"), partition)
    row = w.storage.tables["groups"][key]
    data = {**row.data, b"metadata": text}
    w.storage.tables["groups"][key] = row._replace(data=data, version=row.version + 1)


async def test_a_text_is_encrypted_where_messages_are_and_survives_a_restart() -> None:
    async with encrypted(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE, partitions=2)
        await w.put(ALICE, topic, 0, 10)
        assert await commit(w, ALICE, topic, NOBODY, 4, metadata=TEXT, generation=-1) is None
        assert TEXT.encode() not in everything(w.storage)
        assert await positions(w, topic) == {0: CommittedOffset(4, TEXT)}
        await w.restart()
        assert await positions(w, topic) == {0: CommittedOffset(4, TEXT)}
        ((_, listed),) = await w.broker.kafka_groups.offsets.fetch_all(
            w.broker.kafka_groups.scope(ALICE, ["g"]), "g"
        )
        assert listed == {0: CommittedOffset(4, TEXT)}


async def test_texts_in_the_clear_are_read_and_none_is_encrypted_without_encryption() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE, partitions=2)
        for partition in range(2):
            await w.put(ALICE, topic, partition, 10)
        alone = {"generation": -1}
        assert await commit(w, ALICE, topic, NOBODY, 4, metadata=TEXT, **alone) is None
        assert stored_text(w, topic) == TEXT.encode()
        await restart(w, plan(OLD))
        more = {"metadata": "later", "partition": 1}
        assert await commit(w, ALICE, topic, NOBODY, 5, **more, **alone) is None
        assert b"later" not in stored_text(w, topic, 1)
        found = {0: CommittedOffset(4, TEXT), 1: CommittedOffset(5, "later")}
        assert await positions(w, topic) == found
        await restart(w, plan(OLD, enabled=False))
        assert await positions(w, topic) == found


async def test_no_text_is_not_encrypted_so_equal_commits_stay_equal() -> None:
    async with encrypted(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE)
        await w.put(ALICE, topic, 0, 10)
        assert await commit(w, ALICE, topic, NOBODY, 4, generation=-1) is None
        assert stored_text(w, topic) == b""


@pytest.mark.parametrize("damage", ["moved", "cut", "newer", "unknown key", "not UTF-8"])
async def test_a_text_that_cannot_be_read_never_costs_the_position(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with encrypted(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE, partitions=2)
        for partition in range(2):
            await w.put(ALICE, topic, partition, 10)
            more = {"metadata": TEXT, "partition": partition, "generation": -1}
            assert await commit(w, ALICE, topic, NOBODY, 4, **more) is None
        text = stored_text(w, topic)
        store_text(
            w,
            topic,
            {
                "moved": stored_text(w, topic, 1),
                "cut": text[:20],
                "newer": text[:1] + b"\x02" + text[2:],
                "unknown key": text[:2] + b"unknown!" + text[10:],
                "not UTF-8": b"\xff",
            }[damage],
        )
        assert await positions(w, topic) == {0: CommittedOffset(4, ""), 1: CommittedOffset(4, TEXT)}
        (line,) = [each.getMessage() for each in caplog.records if "texts stored" in each.msg]
        assert "1 texts stored with offsets of group alice/g" in line
        assert "partition 0" in line


async def test_what_a_row_has_stays_until_another_commit_even_if_its_key_is_unknown() -> None:
    async with encrypted(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE)
        await w.put(ALICE, topic, 0, 10)
        assert await commit(w, ALICE, topic, NOBODY, 4, metadata=TEXT, generation=-1) is None
        text = stored_text(w, topic)
        unknown = text[:2] + b"unknown!" + text[10:]
        store_text(w, topic, unknown)
        await w.restart()
        assert await positions(w, topic) == {0: CommittedOffset(4, "")}
        assert stored_text(w, topic) == unknown


async def test_a_key_that_cannot_be_looked_up_now_is_an_error_to_repeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with encrypted(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE)
        await w.put(ALICE, topic, 0, 10)
        assert await commit(w, ALICE, topic, NOBODY, 4, metadata=TEXT, generation=-1) is None
        text = stored_text(w, topic)
        store_text(w, topic, text[:2] + b"unknown!" + text[10:])

        async def away(tenant: str) -> None:
            raise StoreUnavailable(f"keys of {tenant}")

        monkeypatch.setattr(w.broker.context.keys, "refresh", away)
        with pytest.raises(StoreUnavailable, match="keys of alice"):
            await positions(w, topic)


async def test_the_key_is_that_of_the_topics_owner_whoever_commits() -> None:
    async with encrypted(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE, acl=READ)
        await w.put(ALICE, topic, 0, 10)
        assert await commit(w, BOB, topic, NOBODY, 4, metadata=TEXT, generation=-1) is None
        assert TEXT.encode() not in everything(w.storage)
        assert not w.broker.context.keys.has("bob")
        assert await positions(w, topic, "bob/g") == {0: CommittedOffset(4, TEXT)}
