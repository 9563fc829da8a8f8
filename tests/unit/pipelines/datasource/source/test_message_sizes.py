"""What is learned of sizes from samples."""

from dataclasses import dataclass, field
from typing import cast

from opentalos.model.errors import TalosError, Unavailable
from opentalos.model.message import Compression, OffsetRange, PayloadFormat, StoredBlock
from opentalos.pipelines.datasource.source.message_sizes import (
    SAMPLE_BYTES,
    SAMPLES_MAX,
    MessageSizes,
    mean_size,
)
from opentalos.sdk import Message, PositionExpired
from opentalos.sdk.aio import Client
from opentalos.sdk.core.blocks import encode_records
from opentalos.sdk.core.values import FetchReply, TopicRef
from opentalos.wire.message import encode_kafka_block

A, B = "o#a#1", "o#b#2"
FRAMING = 40  # bytes of a message beside its value, at most


def block(base: int, count: int, size: int, compression: Compression) -> StoredBlock:
    sent = encode_records([Message(b"x" * size)] * count, compression)
    return StoredBlock(base, count, 0, 0, sent.compression, sent.format, sent.payload)


@dataclass
class FakeClient:
    """Messages of one size in each partition of a topic, or an error."""

    sizes: dict[tuple[str, int], int | TalosError]
    asked: list[tuple[str, int, int]] = field(default_factory=list)

    async def fetch(
        self,
        topic: TopicRef,
        partition: int,
        offset: int,
        *,
        messages_max: int,
        bytes_max: int,
        deadline_s: float,
    ) -> FetchReply:
        assert messages_max > 0
        assert bytes_max == SAMPLE_BYTES
        assert deadline_s > 0
        self.asked.append((topic.name, partition, offset))
        found = self.sizes[topic.resource, partition]
        if isinstance(found, TalosError):
            raise found
        return FetchReply([block(offset, 20, found, Compression.GZIP)] if found else [], 0)


async def learned(
    sizes: MessageSizes, client: FakeClient, *waiting: tuple[str, int]
) -> dict[tuple[str, int], int]:
    places = {place: OffsetRange(5, 90) for place in waiting}
    await sizes.learn(cast(Client, client), places)
    return sizes.sizes(places, 1 << 30)


def near(size: int, wanted: int) -> bool:
    return wanted < size <= wanted + FRAMING


def test_the_size_of_messages_is_what_they_take_decompressed() -> None:
    for compression in (Compression.NONE, Compression.GZIP):
        blocks = [block(0, 3, 1_000, compression), block(3, 1, 9_000, compression)]
        assert near(mean_size(blocks), 3_000)
    assert near(mean_size([block(0, 1, 0, Compression.NONE)]), 0)
    assert mean_size([]) == 0


def test_messages_of_kafka_are_measured_too() -> None:
    payload = encode_kafka_block([Message(b"x" * 500, "key")] * 7)
    sent = StoredBlock(0, 7, 0, 0, Compression.NONE, PayloadFormat.KAFKA, payload)
    assert mean_size([sent]) == 503


async def test_each_partition_has_its_own_size_which_follows_its_messages() -> None:
    client, sizes = FakeClient({(A, 0): 100, (A, 1): 5_000, (B, 0): 10}), MessageSizes()
    found = await learned(sizes, client, (A, 0), (A, 1), (B, 0))
    assert near(found[A, 0], 100)
    assert near(found[A, 1], 5_000)
    assert near(found[B, 0], 10)
    assert sorted(client.asked) == [("a", 0, 5), ("a", 1, 5), ("b", 0, 5)]
    client.sizes[A, 0] = 800
    assert near((await learned(sizes, client, (A, 0)))[A, 0], 800)


async def test_a_sample_that_fails_leaves_what_is_known_or_the_largest_size() -> None:
    client, sizes = FakeClient({(A, 0): Unavailable("down"), (A, 1): 300}), MessageSizes()
    assert await learned(sizes, client, (A, 0)) == {(A, 0): 1 << 30}
    found = await learned(sizes, client, (A, 0), (A, 1))
    assert near(found[A, 1], 300)
    assert found[A, 0] == found[A, 1]
    client.sizes = {(A, 0): 0, (A, 1): PositionExpired("a", 1, 5, None)}  # 0: no messages
    assert await learned(sizes, client, (A, 0), (A, 1)) == found


async def test_a_damaged_block_is_left_to_those_who_read_it() -> None:
    class Damaged(FakeClient):
        async def fetch(self, *_: object, **__: object) -> FetchReply:
            return FetchReply([StoredBlock(5, 1, 0, 0, Compression.GZIP, 1, b"no gzip")], 0)

    assert await learned(MessageSizes(), Damaged({}), (A, 0)) == {(A, 0): 1 << 30}


async def test_samples_of_a_trigger_are_bounded_and_each_partition_has_its_turn() -> None:
    places = [(A, number) for number in range(2 * SAMPLES_MAX + 10)]
    client, sizes = FakeClient(dict.fromkeys(places, 50)), MessageSizes()
    for call in range(1, 4):
        found = await learned(sizes, client, *places)
        assert found.keys() == set(places)
        assert len(client.asked) == call * SAMPLES_MAX
    assert {partition for _, partition, _ in client.asked} == set(range(len(places)))


async def test_what_has_no_messages_is_forgotten() -> None:
    client, sizes = FakeClient({(A, 0): 70, (A, 1): 9_000}), MessageSizes()
    await learned(sizes, client, (A, 0), (A, 1))
    client.sizes[A, 1] = Unavailable("down")
    await learned(sizes, client, (A, 0))
    found = await learned(sizes, client, (A, 0), (A, 1))
    assert near(found[A, 1], 70)
