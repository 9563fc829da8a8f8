"""What a task reads, from servers that answer well and badly."""

import asyncio
import gc
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from opentalos.model.errors import CorruptLog, OffsetOutOfRange, TalosError, TopicNotExist
from opentalos.model.message import Compression, OffsetRange, StoredBlock
from opentalos.pipelines.datasource.source import range_reader as slice_reader
from opentalos.pipelines.datasource.source.batch_range import ReadRange
from opentalos.pipelines.datasource.source.range_reader import FETCHES_AHEAD_MAX, RangeReader
from opentalos.sdk import ClientConfig, DamagedRange, Message, PositionExpired
from opentalos.sdk.core.blocks import encode_records
from opentalos.sdk.core.values import FetchReply, TopicRef
from opentalos.sdk.sync.loop_thread import LoopThread
from opentalos.wire.message import MessageFormatError

CONFIG = ClientConfig(endpoints=("http://h:1",), key_id="k", secret="s")
RESOURCE = "o#clicks#u"


def block(base: int, count: int) -> StoredBlock:
    """Messages that say their offsets."""
    sent = encode_records([Message(b"%d" % n) for n in range(base, base + count)], Compression.LZ4)
    return StoredBlock(base, count, 1_000, 0, sent.compression, sent.format, sent.payload)


@dataclass
class FakeServer:
    """Blocks of one partition, some at a time; an error instead, once or for good."""

    blocks: Sequence[StoredBlock]
    at_once: int = 2
    errors: dict[int, TalosError] = field(default_factory=dict)  # by the offset asked for
    fetches: int = 0

    def on(self, _: LoopThread) -> "FakeServer":
        return self

    async def fetch(
        self, topic: TopicRef, partition: int, offset: int, *, messages_max: int, bytes_max: int
    ) -> FetchReply:
        assert (topic.resource, topic.name) == (RESOURCE, "clicks")
        assert messages_max > 0
        assert bytes_max > 0
        self.fetches += 1
        if offset in self.errors:
            raise self.errors[offset]
        there = [item for item in self.blocks if item.next_offset > offset]
        return FetchReply(there[: self.at_once], 0)


def read(
    monkeypatch: pytest.MonkeyPatch,
    server: FakeServer,
    *ranges: tuple[int, int],
    skip: bool = False,
    drop: bool = False,
) -> list[tuple[int, bytes]]:
    """Offsets and values of all rows."""
    monkeypatch.setattr(slice_reader, "client_of", lambda _: server)
    wanted = [ReadRange(RESOURCE, 0, begin, end) for begin, end in ranges]
    return [
        (row["offset"], row["data"])
        for batch in RangeReader(CONFIG, skip, drop).read(wanted)
        for row in batch.to_pylist()
    ]


def rows(begin: int, end: int) -> list[tuple[int, bytes]]:
    return [(offset, b"%d" % offset) for offset in range(begin, end)]


TENS = [block(base, 10) for base in range(0, 100, 10)]


@pytest.mark.parametrize("ends", [(0, 100), (10, 20), (3, 97), (15, 16), (19, 21)])
def test_exactly_the_offsets_of_a_slice_come(
    monkeypatch: pytest.MonkeyPatch, ends: tuple[int, int]
) -> None:
    assert read(monkeypatch, FakeServer(TENS), ends) == rows(*ends)


def test_slices_come_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, FakeServer(TENS), (5, 12), (90, 100), (0, 1))
    assert found == rows(5, 12) + rows(90, 100) + rows(0, 1)


def test_a_task_without_slices_has_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, FakeServer(TENS)) == []


def test_no_more_than_the_bound_is_fetched_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeServer([block(base, 10_000) for base in range(0, 200_000, 10_000)], at_once=1)
    monkeypatch.setattr(slice_reader, "client_of", lambda _: server)
    batches = RangeReader(CONFIG, False).read([ReadRange(RESOURCE, 0, 0, 200_000)])
    next(batches)
    thread = LoopThread.shared()
    for _ in range(100):
        thread.run(asyncio.sleep(0))
    assert server.fetches <= 1 + FETCHES_AHEAD_MAX + 1  # in hand, waiting, and one that waits to
    del batches
    gc.collect()  # stopping early, as LIMIT does, ends the fetches
    for _ in range(100):
        thread.run(asyncio.sleep(0))
    assert server.fetches <= 1 + FETCHES_AHEAD_MAX + 1


def test_a_log_that_ends_early_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OffsetOutOfRange, match=r"clicks\[0\] ends at 100, before 101"):
        read(monkeypatch, FakeServer(TENS), (0, 101))


@pytest.mark.parametrize("gone", [0, 1, 5])
def test_a_missing_block_fails(monkeypatch: pytest.MonkeyPatch, gone: int) -> None:
    kept = [ten for ten in TENS if ten.base_offset != gone * 10]
    with pytest.raises(CorruptLog, match=rf"clicks\[0\]: no block with offset {gone * 10}"):
        read(monkeypatch, FakeServer(kept, at_once=3), (0, 100))


def test_a_damaged_block_fails_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = TENS[4]._replace(compression=0, payload=b"V\0\3\0 no message")
    server = FakeServer([*TENS[:4], damaged, *TENS[5:]])
    with pytest.raises(MessageFormatError, match=r"clicks\[0\], offsets 0 to 100: a damaged block"):
        read(monkeypatch, server, (0, 100))


def test_a_deleted_topic_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeServer(TENS, errors={20: TopicNotExist("gone")})
    with pytest.raises(TopicNotExist, match="topic clicks was deleted while it was read"):
        read(monkeypatch, server, (0, 100))


def expired(
    server: FakeServer, offset: int, retained: OffsetRange | DamagedRange | None
) -> FakeServer:
    server.errors[offset] = PositionExpired("clicks", 0, offset, retained)
    return server


def test_offsets_that_expire_under_a_task_fail_it(monkeypatch: pytest.MonkeyPatch) -> None:
    server = expired(FakeServer(TENS), 20, OffsetRange(47, 100))
    with pytest.raises(OffsetOutOfRange, match="position 20 has expired"):
        read(monkeypatch, server, (0, 100))


def test_offsets_that_expire_under_a_task_are_skipped_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = expired(FakeServer(TENS), 20, OffsetRange(50, 100))
    with caplog.at_level(logging.WARNING, "opentalos.datasource"):
        found = read(monkeypatch, server, (0, 60), (90, 95), skip=True)
    assert found == rows(0, 20) + rows(50, 60) + rows(90, 95)
    assert "skipped=30" in caplog.text


def test_offsets_that_expire_before_damage_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    there = DamagedRange(CorruptLog("clicks/0 is damaged"), 50)
    server = expired(FakeServer(TENS), 20, there)
    assert read(monkeypatch, server, (0, 60), skip=True) == rows(0, 20) + rows(50, 60)
    server.errors[70] = there.damage
    with pytest.raises(CorruptLog, match="clicks/0 is damaged"):
        read(monkeypatch, server, (0, 71), skip=True)


def test_a_slice_that_expired_as_a_whole_has_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    server = expired(FakeServer(TENS), 0, OffsetRange(47, 100))
    assert read(monkeypatch, server, (0, 30), (90, 95), skip=True) == rows(90, 95)


def test_an_expired_position_without_a_range_fails_also_a_skip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(PositionExpired):
        read(monkeypatch, expired(FakeServer(TENS), 0, None), (0, 30), skip=True)


def test_what_a_dropped_topic_had_is_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = FakeServer(TENS, at_once=1, errors={30: TopicNotExist("gone")})
    assert read(monkeypatch, server, (10, 100), (40, 45), drop=True) == rows(10, 30) + rows(40, 45)
    assert "topic clicks was deleted while it was read; lost=70" in caplog.text
