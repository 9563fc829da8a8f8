"""Blocks of Talos clients that look like batches of Kafka: proven once, and not on the loop."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import cramjam
import pytest
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE

from opentalos.broker.long_work import LongWork
from opentalos.broker.messaging.block_reader import Reader
from opentalos.broker.messaging.messages import PutTarget
from opentalos.broker.messaging.reading import stored_batches
from opentalos.broker.messaging.reading.fetches import FetchBounds, FetchedPlace, FetchPlace
from opentalos.broker.messaging.reading.stored_batches import StoredBatches
from opentalos.broker.values import Topic
from opentalos.model.errors import TalosError
from opentalos.model.message import MessageBlock, StoredBlock
from opentalos.wire.kafka.records import EASY_BYTES, is_stored_batch_now, stored_batch_bytes
from opentalos.wire.message.kafka_batch import CRC_END, HEAD, LENGTH_END, set_crc
from opentalos.wire.message.kafka_format import encode_kafka_batch
from opentalos.wire.message.message import Message

ZSTD = 4
MIB = 1 << 20


def payload(value_bytes: int, packed: bool = True) -> bytes:
    """A block with a batch of one record of zeros."""
    batch = encode_kafka_batch([Message(bytes(value_bytes), create_ms=5_000)])
    if packed:
        batch[HEAD.size :] = bytes(cramjam.zstd.compress(bytes(batch[HEAD.size :])))
        struct.pack_into(">h", batch, CRC_END, ZSTD)
        struct.pack_into(">i", batch, 8, len(batch) - LENGTH_END)
        set_crc(batch)
    return b"K\0\0\0" + struct.pack(">I", len(batch)) + batch


SMALL, LARGE = payload(100), payload(2 * MIB)
DAMAGED = LARGE[:-1] + bytes([LARGE[-1] ^ 1])  # the checksum says so
PLAIN = payload(3 * MIB, packed=False)


class Threads:
    """In their place; remembers what they do."""

    def __init__(self) -> None:
        self.works: list[str] = []

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        self.works.append(work.__name__)
        return work(*args)

    def yield_lock(self) -> None: ...


class Bench:
    def __init__(self) -> None:
        self.threads, self.charged = Threads(), 0
        self.work = LongWork(self.threads, waiting_max=8)
        self.batches = StoredBatches(self.work)
        self.reader = Reader("alice", "uuid", 0, self.charge)

    def charge(self, bytes_count: int) -> None:
        self.charged += bytes_count

    async def holds(self, data: bytes, offset: int = 0, messages: int = 1) -> bool:
        block = StoredBlock(offset, messages, 1, 0, 0, 1, memoryview(data))
        return self.batches.may_be(block) and await self.batches.holds(self.reader, block)


@pytest.mark.parametrize("data", [LARGE, PLAIN], ids=["packed", "plain"])
async def test_what_takes_long_is_proven_on_a_thread_once(data: bytes) -> None:
    bench = Bench()
    assert [await bench.holds(data) for _ in range(3)] == [True] * 3
    assert bench.threads.works == [stored_batch_bytes.__name__]
    assert (bench.charged > MIB) == (data is LARGE)
    assert not await bench.holds(data, messages=2)


async def test_what_is_short_is_proven_at_once_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, proven = Bench(), 0

    def proving(*args: Any) -> Any:
        nonlocal proven
        proven += 1
        return is_stored_batch_now(*args)

    monkeypatch.setattr(stored_batches, "is_stored_batch_now", proving)
    assert [await bench.holds(SMALL) for _ in range(3)] == [True] * 3
    assert [await bench.holds(DAMAGED, offset=1) for _ in range(3)] == [False] * 3
    assert (proven, bench.threads.works, bench.charged) == (2, [], 0)


async def test_others_are_served_while_many_are_proven() -> None:
    bench, data = Bench(), payload(EASY_BYTES // 2)
    for offset in range(20):
        assert await bench.holds(data, offset)
    assert bench.work.counters.pauses >= 20 // 3
    assert not bench.threads.works


async def test_another_block_at_the_same_offset_is_another_one() -> None:
    bench = Bench()
    assert await bench.holds(LARGE)
    assert not await bench.holds(LARGE[:-9])
    assert not await bench.holds(b"x" * len(LARGE))
    assert await bench.holds(SMALL)


async def test_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_batches, "KNOWN_MAX", 3)
    bench = Bench()
    for offset in (0, 1, 2, 0, 3, 0):
        assert await bench.holds(LARGE, offset)
    assert len(bench.threads.works) == 4
    assert await bench.holds(LARGE, 1)  # was forgotten
    assert len(bench.threads.works) == 5


async def put(w: World, topic: Topic, data: bytes) -> None:
    done: asyncio.Future[TalosError | None] = asyncio.get_running_loop().create_future()
    target, block = PutTarget(topic.resource, 0), MessageBlock(data, 1)
    w.broker.messages.put(ALICE, target, [block], lambda _, error: done.set_result(error))
    assert await done is None


async def test_a_fetch_proves_blocks_beside_the_loop_and_the_next_one_does_not() -> None:
    threads = Threads()
    async with world(offload=threads) as w:
        topic = await w.topic(ALICE)
        for data in (SMALL, LARGE, LARGE, PLAIN):
            await put(w, topic, data)

        async def fetched() -> FetchedPlace:
            places, bounds = [FetchPlace(topic, 0, 0, 8 * MIB)], FetchBounds(0, 8 * MIB, 0.0)
            (found,) = (await w.broker.reads.fetches.fetch(ALICE, places, bounds)).places
            assert found.error is None
            return found

        first, second = await fetched(), await fetched()
    assert [part.base_offset for part in first.parts] == [0, 1, 2, 3]
    assert all(isinstance(part, StoredBlock) for part in first.parts)
    assert second.parts == first.parts
    assert threads.works.count(stored_batch_bytes.__name__) == 3
