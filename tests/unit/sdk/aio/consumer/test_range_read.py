"""Ranges as tables, from blocks that are stored whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from opentalos.model.errors import BadRequest
from opentalos.model.message import Compression, PayloadFormat
from opentalos.sdk.aio import Client
from opentalos.sdk.aio.consumer.range_read import RANGE_ROWS_MAX, RangeRead
from opentalos.sdk.arrow import SCHEMA
from opentalos.sdk.core.values import FetchReply, Message, OffsetRange, Start, StoredBlock, TopicRef
from opentalos.sdk.errors import PositionExpired
from opentalos.wire.message import encode_messages

TOPIC = TopicRef("t", "o#t#1", 2)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def block(base: int, count: int) -> StoredBlock:
    payload = encode_messages([Message(b"%d" % (base + number)) for number in range(count)])
    return StoredBlock(base, count, 1_000, 0, Compression.NONE, PayloadFormat.TALOS, payload)


@dataclass
class FakeClient:
    """Two partitions of blocks of three messages; ``starts`` move when a fetch meets them."""

    starts: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    nexts: dict[int, int] = field(default_factory=lambda: {0: 9, 1: 6})
    expired: dict[int, int] = field(default_factory=dict)  # by the offset that is fetched
    fetches: list[tuple[int, int, int]] = field(default_factory=list)

    async def offsets(self, ref: TopicRef, partitions: Sequence[int]) -> dict[int, OffsetRange]:
        return {
            number: OffsetRange(self.starts[number], self.nexts[number]) for number in partitions
        }

    async def known_offsets(self, ref: TopicRef, partitions: Sequence[int]) -> dict[int, Any]:
        return dict(await self.offsets(ref, partitions))

    async def first_offsets(self, ref: TopicRef, partitions: Sequence[int]) -> dict[int, int]:
        return {number: self.starts[number] for number in partitions}

    async def offsets_at(self, ref: TopicRef, times_ms: Mapping[int, int]) -> dict[int, int]:
        return dict.fromkeys(times_ms, 4)

    async def fetch(
        self, ref: TopicRef, partition: int, offset: int, *, messages_max: int, bytes_max: int
    ) -> FetchReply:
        self.fetches.append((partition, offset, messages_max))
        if offset in self.expired:
            there = OffsetRange(self.expired[offset], self.nexts[partition])
            raise PositionExpired(ref.name, partition, offset, there)
        base = offset - offset % 3
        whole = [block(base, 3)] if base < self.nexts[partition] else []
        return FetchReply(whole, 0)


async def read(client: FakeClient, **given: Any) -> Any:
    wanted: dict[str, Any] = {
        "start": Start.EARLIEST,
        "end": Start.LATEST,
        "partitions": None,
        "columns": None,
        "rows_max": RANGE_ROWS_MAX,
    }
    return await RangeRead(**(wanted | given)).table(cast(Client, client), TOPIC)


def places(table: Any) -> list[tuple[int, int]]:
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


async def test_a_topic_is_read_by_partition_and_offset() -> None:
    table = await read(FakeClient())
    assert places(table) == [(0, n) for n in range(9)] + [(1, n) for n in range(6)]
    assert table.schema == SCHEMA
    assert table["data"].to_pylist()[:2] == [b"0", b"1"]


async def test_blocks_are_cut_at_both_positions() -> None:
    assert places(await read(FakeClient(), start=2, end=4)) == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert places(await read(FakeClient(), start=NOON, end=5)) == [(0, 4), (1, 4)]
    assert places(await read(FakeClient(), end=NOON, partitions=[1])) == [(1, n) for n in range(4)]


async def test_nothing_is_read_beyond_the_end_at_the_time_of_the_call() -> None:
    client = FakeClient(nexts={0: 5, 1: 0})
    assert places(await read(client, end=1_000)) == [(0, n) for n in range(5)]
    assert client.fetches == [(0, 0, 5), (0, 3, 2)]


async def test_an_empty_range_has_the_columns() -> None:
    client = FakeClient()
    table = await read(client, start=4, end=4, columns=["offset", "data"])
    assert (table.num_rows, table.column_names, client.fetches) == (0, ["offset", "data"], [])


async def test_a_range_that_is_too_large_is_refused_before_it_is_read() -> None:
    client = FakeClient()
    with pytest.raises(BadRequest, match="has 15 messages, more than rows_max = 14"):
        await read(client, rows_max=14)
    assert client.fetches == []


@pytest.mark.parametrize(("columns", "says"), [(["price"], "price; known: topic"), ([], "none;")])
async def test_a_column_that_is_not_there_is_named(columns: list[str], says: str) -> None:
    with pytest.raises(BadRequest, match=f"no such column: {says}"):
        await read(FakeClient(), columns=columns)


@pytest.mark.parametrize("start", [0, 10])
async def test_an_offset_that_is_not_retained_is_an_error(start: int) -> None:
    with pytest.raises(PositionExpired, match=f"offset {start} of t.0. is not retained"):
        await read(FakeClient(starts={0: 3, 1: 0}), start=start, partitions=[0])


async def test_the_earliest_message_may_expire_before_it_is_read() -> None:
    found = places(await read(FakeClient(expired={0: 6}), partitions=[0]))
    assert found == [(0, n) for n in range(6, 9)]
    with pytest.raises(PositionExpired):
        await read(FakeClient(expired={0: 6}), start=0, partitions=[0])


async def test_messages_that_expire_in_the_middle_are_an_error() -> None:
    with pytest.raises(PositionExpired, match="offset 3 of t"):
        await read(FakeClient(expired={3: 6}), partitions=[0])


async def test_a_log_that_is_truncated_while_it_is_read_is_an_error() -> None:
    class Truncated(FakeClient):
        async def fetch(self, *where: Any, **limits: Any) -> FetchReply:
            return FetchReply([], 0)

    with pytest.raises(PositionExpired, match="retained offsets are unknown"):
        await read(Truncated(), partitions=[0])
