"""A broker with encryption: what storage has, what readers get, rotation, and a missing key."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.broker.support import World, started, world
from tests.unit.broker.tables.support import ALICE, BOB, PLAIN, key, make, put, streamed, string
from tests.unit.catalog.support import PlainBox

from opentalos.adapters.data_key import AesGcmDataKey
from opentalos.adapters.memory import MemoryStorage
from opentalos.broker.broker import EncryptionPlan
from opentalos.broker.messaging.messages import GetQuery, PutTarget
from opentalos.broker.tables.row_tables import rows_of
from opentalos.broker.values import Topic
from opentalos.model.errors import (
    ConfigError,
    CorruptLog,
    NewerFormat,
    PartitionNotServing,
    StoreUnavailable,
    TalosError,
)
from opentalos.model.limits import LogLimits, MeteringSettings
from opentalos.model.message import MessageBlock, StoredBlock
from opentalos.ports.row_store import RowMutation

OLD, NEW = PlainBox(b"old"), PlainBox(b"new")
SECRET = b"a secret that no disk may have"
PLAIN_LIMITS = LogLimits(clock_disagree_max_s=1e9)


def plan(*boxes: PlainBox, enabled: bool = True) -> EncryptionPlan:
    sources = ["key_file", "other_key_file"][: len(boxes)]
    return EncryptionPlan(boxes=boxes, sources=sources, make_key=AesGcmDataKey, enabled=enabled)


@asynccontextmanager
async def encrypted(**config: Any) -> AsyncIterator[World]:
    async with world(encryption=plan(OLD), **config) as made:
        yield made


async def send(there: World, topic: Topic, payload: bytes = SECRET, partition: int = 0) -> None:
    done: asyncio.Future[TalosError | None] = asyncio.get_running_loop().create_future()
    block = MessageBlock(payload, 2, create_ms=7, extras=b"a secret tag")
    target = PutTarget(topic.resource, partition)
    there.broker.messages.put(ALICE, target, [block], lambda _, error: done.set_result(error))
    error = await done
    if error is not None:
        raise error


async def read(
    there: World, topic: Topic, offset: int = 0, partition: int = 0
) -> Sequence[StoredBlock]:
    query = GetQuery(topic.resource, partition, offset, 1_000, 1 << 20)
    return (await there.broker.messages.get(ALICE, query)).blocks


def everything(storage: MemoryStorage) -> bytes:
    """All bytes that storage has: files, records, rows."""
    rows = [
        b"".join((key, *row.data.values(), *row.pending.values()))
        for table in storage.tables.values()
        for key, row in table.items()
    ]
    records = [stored.record.value for stored in storage.records.values()]
    return b"".join([bytes(file.content) for file in storage.files.values()] + records + rows)


async def restart(there: World, encryption: EncryptionPlan | None) -> None:
    await there.broker.close()
    there.config = replace(there.config, encryption=encryption)
    there.broker = await started(there.storage, there.clock, there.config)


@pytest.mark.parametrize("journal", ["on", "off"])
async def test_storage_has_no_plaintext_and_readers_get_what_was_sent(journal: str) -> None:
    async with encrypted(log=replace(PLAIN_LIMITS, journal=journal)) as there:
        topic = await there.topic(ALICE)
        await send(there, topic)
        cached = there.broker.messages.get_cached(
            ALICE, GetQuery(topic.resource, 0, 0, 1_000, 1 << 20)
        )
        assert cached is not None
        (block,) = cached.blocks
        assert (block.payload, block.extras, block.format) == (SECRET, b"a secret tag", 1)
        assert SECRET not in everything(there.storage)
        await there.restart()
        assert SECRET not in everything(there.storage)
        assert b"a secret tag" not in everything(there.storage)
        assert list(await read(there, topic)) == [block]


async def test_without_encryption_storage_has_the_plaintext() -> None:
    async with world() as there:
        topic = await there.topic(ALICE)
        await send(there, topic)
        await there.restart()
        assert SECRET in everything(there.storage)


async def test_it_may_be_switched_on_and_off_over_the_same_data() -> None:
    async with world() as there:
        topic = await there.topic(ALICE)
        await send(there, topic, b"first, plain")
        await restart(there, plan(OLD))
        await send(there, topic, SECRET)
        await restart(there, plan(OLD, enabled=False))
        await send(there, topic, b"third, plain")
        assert SECRET not in everything(there.storage)
        assert b"third, plain" in everything(there.storage)
        # Each start made a segment, and a get reads one.
        blocks = [block for offset in (0, 2, 4) for block in await read(there, topic, offset)]
        assert [block.payload for block in blocks] == [b"first, plain", SECRET, b"third, plain"]
        assert [block.base_offset for block in blocks] == [0, 2, 4]


async def test_a_rotation_in_the_middle_leaves_every_message_readable() -> None:
    async with encrypted() as there:
        topic = await there.topic(ALICE)
        await send(there, topic, b"before")
        assert await there.broker.context.keys.rotate() == 1
        await send(there, topic, b"after")
        keys = there.broker.context.keys.figures
        assert (keys.tenants, keys.versions) == (1, 2)
        for encryption in (plan(OLD), plan(NEW, OLD), plan(NEW)):
            await restart(there, encryption)
            assert [block.payload for block in await read(there, topic)] == [b"before", b"after"]


async def test_a_server_without_the_key_refuses_to_start_and_loses_nothing() -> None:
    async with encrypted() as there:
        topic = await there.topic(ALICE)
        await send(there, topic)
        await there.broker.close()
        for encryption, text in ((None, "key_file or key_command"), (plan(NEW), "server key")):
            config = replace(there.config, encryption=encryption)
            with pytest.raises(ConfigError, match=text):
                await started(there.storage, there.clock, config)
        there.broker = await started(there.storage, there.clock, there.config)
        assert [block.payload for block in await read(there, topic)] == [SECRET]


async def test_tenants_have_different_keys_and_organisations_share_one() -> None:
    async with encrypted() as there:
        for caller in (ALICE, BOB):
            await there.topic(caller)
        await there.topic(BOB, "second")
        assert there.broker.context.keys.figures.tenants == 2


async def test_a_server_that_cannot_decrypt_answers_with_an_error_never_with_ciphertext() -> None:
    async with encrypted() as there:
        topic = await there.topic(ALICE)
        await send(there, topic)
        log = there.broker.context.partition_log(topic, 0)
        log._context.keys = None  # a running server of a cluster whose others enabled encryption
        assert log.read_cached(0, messages_max=10, bytes_max=1_000) is None
        with pytest.raises(PartitionNotServing, match="has no encryption key"):
            await read(there, topic)


async def test_a_block_in_another_partition_is_corrupt() -> None:
    async with encrypted() as there:
        topic = await there.topic(ALICE, partitions=2)
        await send(there, topic, b"zero")
        await send(there, topic, b"one", partition=1)
        logs = [there.broker.context.partition_log(topic, number) for number in range(2)]
        logs[1].writer.tail, logs[0].writer.tail = logs[0].writer.tail, logs[1].writer.tail
        for number in range(2):
            with pytest.raises(CorruptLog, match="do not belong here"):
                await read(there, topic, partition=number)


async def test_metered_bytes_are_those_of_the_producers_also_after_a_recount() -> None:
    metering = MeteringSettings()
    found = []
    for encryption in (None, plan(OLD)):
        async with world(encryption=encryption, metering=metering) as there:
            topic = await there.topic(ALICE)
            await send(there, topic)
            log = there.broker.context.partition_log(topic, 0)
            assert log.meter is not None
            counted = [minute.bytes for minute in log.meter.found]
            usage = await there.broker.usage.partition_usage(
                ALICE, topic.resource, 0, offset=0, minutes_max=10
            )
            found.append((counted, [minute.bytes for minute in usage.minutes]))
    assert found == [([len(SECRET)], [len(SECRET)])] * 2


async def test_new_segments_are_closed_to_servers_that_know_no_encryption() -> None:
    for encryption, version in ((None, 1), (plan(OLD), 2)):
        async with world(encryption=encryption) as there:
            topic = await there.topic(ALICE)
            await send(there, topic)
            await there.restart()
            heads = [
                bytes(file.content[8:10])
                for path, file in there.storage.files.items()
                if path.startswith(topic.uuid) and path.endswith(".log")
            ]
            assert heads == [version.to_bytes(2, "big")]


async def test_rows_and_pending_messages_of_a_table_are_encrypted() -> None:
    async with encrypted() as there:
        await there.topic(ALICE, "changes")
        table = await make(there.broker, streamed(PLAIN, "changes"))
        city = "a secret city"
        written = await there.broker.tables.write(ALICE, "people", put("u", 1, city=string(city)))
        assert written.success
        stored = there.storage.tables[rows_of(table)]
        assert city.encode() not in everything(there.storage)
        assert any(b"\xe5" == cell[:1] for row in stored.values() for cell in row.data.values())
        await there.restart()
        found = await there.broker.tables.get(ALICE, "people", key("u", 1))
        assert found
        assert city in repr(found)
        assert city.encode() not in everything(there.storage)


async def test_a_cell_in_another_place_is_corrupt() -> None:
    async with encrypted() as there:
        table = await make(there.broker)
        rows = there.broker.table_upkeep.access.rows
        await rows.mutate(
            rows_of(table), RowMutation(b"key", 0, b"1", data={b"=a": b"value", b"=b": b"other"})
        )
        (row,) = await rows.get(rows_of(table), [b"key"])
        assert row is not None
        assert row.cells == {b"=a": b"value", b"=b": b"other"}
        stored = there.storage.tables[rows_of(table)]
        state = stored[b"key"]
        cells = {b"=a": state.data[b"=b"], b"=b": state.data[b"=a"]}
        stored[b"key"] = state._replace(data=cells)
        with pytest.raises(CorruptLog, match="do not belong here"):
            await rows.get(rows_of(table), [b"key"])
        short = state.data[b"=a"][:10]
        stored[b"key"] = state._replace(data={b"=a": short})
        with pytest.raises(CorruptLog, match="10 bytes"):
            await rows.get(rows_of(table), [b"key"])
        newer = b"\xe5\x02" + state.data[b"=a"][2:]
        stored[b"key"] = state._replace(data={b"=a": newer})
        with pytest.raises(NewerFormat):
            await rows.get(rows_of(table), [b"key"])
        unknown = b"\xe5\x01unknown!" + state.data[b"=a"][10:]
        stored[b"key"] = state._replace(data={b"=a": unknown})
        with pytest.raises(StoreUnavailable, match="cannot unwrap"):
            await rows.get(rows_of(table), [b"key"])
