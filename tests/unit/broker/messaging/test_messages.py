"""Puts and gets with a stand-in log: checks, quota, deadlines, several blocks."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.broker.cluster.ownership import SingleServerOwnership
from opentalos.broker.long_work import LongWork
from opentalos.broker.messaging.messages import GetQuery, MessageService, PutTarget
from opentalos.catalog.topics.topic import Topic
from opentalos.log.counters import Traffic
from opentalos.log.results import ReadResult
from opentalos.model.errors import (
    BadRequest,
    DeadlinePassed,
    ExcessivePending,
    OutcomeUnknown,
    PartitionNotExist,
    PartitionNotServing,
    PermissionDenied,
    PreviewFailed,
    RequestTooLarge,
    TalosError,
    ThrottleRejected,
    TopicNotExist,
    UnexpectedOffset,
)
from opentalos.model.identity import Permission, Principal
from opentalos.model.limits import MessageLimits, QuotaLimits
from opentalos.model.message import MessageBlock, OffsetRange, StoredBlock

ALICE = Principal(id="alice", number=7)
LIMITS = MessageLimits(block_bytes_max=100, block_messages_max=10, preview_messages_max=3)
NOW_MS = 1_000_000


def topic(partitions: int = 4, consumer_partitions: int = 6) -> Topic:
    return Topic(
        uuid="1", owner="alice", name="t", partitions=partitions, partitions_ever=6,
        consumer_partitions=consumer_partitions, retention_s=3600,
    )  # fmt: skip


class Log:
    """Appends are answered when a test says so; reads return what it sets."""

    def __init__(self) -> None:
        self.appended: list[MessageBlock] = []
        self.waiters: list[Callable[[int, TalosError | None], None]] = []
        self.errors: list[TalosError | None] = []  # of the next appends
        self.blocks: list[StoredBlock] = []
        self.range = OffsetRange(0, 0)
        self.cached = True
        self.reads: list[tuple[int, int, int, float]] = []

    def accepts(self) -> TalosError | None:
        return None

    def append(self, block: MessageBlock, waiter: Any) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        self.appended.append(block)
        self.waiters.append(waiter)

    def read_cached(self, offset: int, *, messages_max: int, bytes_max: int) -> ReadResult | None:
        self.reads.append((offset, messages_max, bytes_max, 0.0))
        return ReadResult(self.blocks, self.range) if self.cached else None

    async def read(
        self, offset: int, *, messages_max: int, bytes_max: int, hold_s: float = 0.0
    ) -> ReadResult:
        self.reads.append((offset, messages_max, bytes_max, hold_s))
        return ReadResult(self.blocks, self.range)

    damage: TalosError | None = None

    async def offsets(self) -> OffsetRange:
        if self.range.next < 0:
            raise PartitionNotServing("moving")
        return self.range

    proven = offsets


class Handle:
    """A quota with the hold that a test sets."""

    def __init__(self) -> None:
        self.hold_s = 0.0
        self.put_bytes = self.get_bytes = 0

    def admit_put(self, now_s: float, bytes_count: int) -> float:
        self.put_bytes += bytes_count
        return self.hold_s

    def admit_get(self, now_s: float) -> float:
        return self.hold_s

    def charge_get(self, now_s: float, bytes_count: int) -> None:
        self.get_bytes += bytes_count


class Bench:
    """The service on stand-ins."""

    def __init__(self) -> None:
        self.log, self.handle, self.topic = Log(), Handle(), topic()
        self.denied: TalosError | None = None
        self.decisions = self.handles = 0
        self.answers: list[TalosError | None] = []
        self.throttle = SimpleNamespace(handle=self.handle_of, version=0)
        context: Any = SimpleNamespace(
            work=LongWork(None, waiting_max=8),
            config=SimpleNamespace(message=LIMITS, quota=QuotaLimits(throttled_bytes_max=15)),
            clock=SimpleNamespace(wall_ms=lambda: NOW_MS),
            topics=SimpleNamespace(by_resource=lambda resource: self.topic),
            throttle=self.throttle,
            topic=self.decide,
            partition_log=lambda *_: self.log,
            ownership=SingleServerOwnership("host:1"),
            egress=None,
            log=SimpleNamespace(traffic_of=lambda *_: Traffic()),
        )
        self.service = MessageService(context)

    def decide(self, caller: Principal, action: Permission, resource: str) -> Topic:
        self.decisions += 1
        if self.denied is not None:
            raise self.denied
        return self.topic

    def handle_of(self, *_: object) -> Handle:
        self.handles += 1
        return self.handle

    def put(self, *blocks: MessageBlock, partition: int = 0, deadline_ms: int = 0) -> None:
        to = PutTarget("alice#t#1", partition, deadline_ms)
        self.service.put(ALICE, to, blocks, lambda _, error: self.answers.append(error))


def block(payload: bytes = b"payload", messages: int = 1, create_ms: int = 0) -> MessageBlock:
    return MessageBlock(payload, messages, create_ms=create_ms)


def query(offset: int, messages: int = 2000, size: int = 1 << 20, partition: int = 0) -> GetQuery:
    return GetQuery("alice#t#1", partition, offset, messages, size)


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_a_put_is_done_when_the_log_says_durable(bench: Bench) -> None:
    bench.put(block())
    assert bench.answers == []
    bench.log.waiters[0](5, None)
    assert bench.answers == [None]
    assert bench.handle.put_bytes == len(b"payload")


@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        ([block(messages=0)], BadRequest),
        ([block(messages=-1)], BadRequest),
        ([block(messages=11)], BadRequest),
        ([block(b"")], BadRequest),
        ([block(create_ms=-1)], BadRequest),
        ([block(b"x" * 101)], RequestTooLarge),
        ([], BadRequest),
        ([block()] * 1001, BadRequest),
        ([block(), block(b"")], BadRequest),
    ],
)
async def test_a_wrong_block_is_refused_before_anything_is_charged(
    bench: Bench, blocks: Sequence[MessageBlock], error: type[TalosError]
) -> None:
    with pytest.raises(error):
        bench.put(*blocks)
    assert bench.log.appended == []
    assert bench.handle.put_bytes == 0
    assert bench.answers == []


@pytest.mark.parametrize("partition", [-1, 4, 5])
async def test_a_put_to_a_removed_partition_is_refused(bench: Bench, partition: int) -> None:
    with pytest.raises(PartitionNotExist):
        bench.put(block(), partition=partition)


async def test_consumers_reach_the_partitions_that_still_drain(bench: Bench) -> None:
    await bench.service.get(ALICE, query(0, partition=5))
    with pytest.raises(PartitionNotExist):
        await bench.service.get(ALICE, query(0, partition=6))


async def test_a_decision_is_made_again_when_the_topic_changed(bench: Bench) -> None:
    bench.put(block())
    bench.put(block())
    assert bench.decisions == 1
    bench.topic = topic()
    bench.denied = PermissionDenied("no more")
    with pytest.raises(PermissionDenied):
        bench.put(block())
    with pytest.raises(PermissionDenied):
        bench.put(block())
    assert bench.decisions == 3


async def test_another_principal_object_of_the_same_id_is_decided_again(bench: Bench) -> None:
    bench.put(block())
    bench.denied = TopicNotExist("x")
    with pytest.raises(TopicNotExist):
        bench.service.put(Principal(id="alice", number=7), PutTarget("alice#t#1", 0), [block()],
                          lambda _, error: bench.answers.append(error))  # fmt: skip


async def test_a_passed_deadline_is_not_done(bench: Bench) -> None:
    bench.put(block(), deadline_ms=NOW_MS)
    with pytest.raises(DeadlinePassed):
        bench.put(block(), deadline_ms=NOW_MS - 1)
    assert len(bench.log.appended) == 1


async def test_a_known_route_has_its_rate_handle_until_quotas_change(bench: Bench) -> None:
    bench.put(block())
    bench.put(block())
    assert (bench.decisions, bench.handles) == (1, 1)
    bench.handle, former = Handle(), bench.handle
    bench.throttle.version += 1
    bench.put(block())
    assert (bench.decisions, bench.handles) == (1, 2), "a quota decides nothing about access"
    assert bench.handle.put_bytes == len(b"payload"), "the former limits are still charged"
    assert former.put_bytes == 2 * len(b"payload")


async def test_a_put_over_its_rate_is_throttled_within_a_bound_then_rejected(bench: Bench) -> None:
    bench.handle.hold_s = 1e-6
    bench.put(block())
    bench.put(block())
    with pytest.raises(ThrottleRejected, match="bytes of throttled puts: limit 15, measured 21"):
        bench.put(block())
    assert bench.log.appended == []
    await asyncio.wait_for(_until(lambda: len(bench.log.appended) == 2), 5)
    bench.put(block())


async def test_a_throttled_put_that_fails_is_answered(bench: Bench) -> None:
    bench.handle.hold_s = 1e-6
    bench.put(block())
    bench.log.errors = [ExcessivePending("full")]
    await asyncio.wait_for(_until(lambda: bool(bench.answers)), 5)
    assert isinstance(bench.answers[0], ExcessivePending)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 # a timer of the code under test, not an event
        await asyncio.sleep(0.001)


async def test_several_blocks_are_done_when_all_are_durable(bench: Bench) -> None:
    bench.put(block(), block())
    bench.log.waiters[1](6, None)
    assert bench.answers == []
    bench.log.waiters[0](5, None)
    assert bench.answers == [None]


async def test_the_first_append_that_is_refused_makes_the_put_not_done(bench: Bench) -> None:
    bench.log.errors = [ExcessivePending("full")]
    with pytest.raises(ExcessivePending):
        bench.put(block(), block())
    assert bench.answers == []


async def test_a_part_that_is_stored_makes_the_put_unknown(bench: Bench) -> None:
    bench.log.errors = [None, ExcessivePending("full")]
    bench.put(block(), block(), block())
    bench.log.waiters[0](5, None)
    (error,) = bench.answers
    assert isinstance(error, OutcomeUnknown)


async def test_blocks_that_all_failed_keep_their_first_error(bench: Bench) -> None:
    bench.put(block(), block())
    bench.log.waiters[0](-1, PartitionNotServing("one"))
    bench.log.waiters[1](-1, ExcessivePending("two"))
    (error,) = bench.answers
    assert isinstance(error, PartitionNotServing)


async def test_a_get_counts_what_is_behind_it(bench: Bench) -> None:
    bench.log.blocks = [StoredBlock(4, 2, 0, 0, 0, 1, b"ab"), StoredBlock(6, 1, 0, 0, 0, 1, b"c")]
    bench.log.range = OffsetRange(0, 10)
    result = bench.service.get_cached(ALICE, query(5))
    assert result is not None
    assert (result.messages, result.unhandled, result.hold_s) == (3, 3, 0.0)
    assert bench.handle.get_bytes == 3
    assert await bench.service.get(ALICE, query(5)) == result


@pytest.mark.parametrize("offset", [-1, -2])
async def test_special_offsets_and_empty_caches_take_the_slow_way(
    bench: Bench, offset: int
) -> None:
    assert bench.service.get_cached(ALICE, query(offset)) is None
    assert bench.service.get_cached(ALICE, query(3)) is None
    bench.log.cached = False
    assert bench.service.get_cached(ALICE, query(3)) is None
    result = await bench.service.get(ALICE, query(offset))
    assert (list(result.blocks), result.messages, result.unhandled) == ([], 0, 0)
    assert bench.log.reads[-1] == (offset, 2000, 1 << 20, LIMITS.get_wait_s)


async def test_a_throttled_get_is_decided_again(bench: Bench) -> None:
    bench.handle.hold_s = 0.001
    held = asyncio.ensure_future(bench.service.get(ALICE, query(0)))
    await asyncio.sleep(0)
    bench.denied = TopicNotExist("revoked meanwhile")
    with pytest.raises(TopicNotExist):
        await held
    assert not bench.log.reads


async def test_a_get_asks_for_no_more_than_the_limits(bench: Bench) -> None:
    await bench.service.get(ALICE, query(0, 1 << 30, 1 << 30))
    assert bench.log.reads == [(0, LIMITS.get_messages_max, LIMITS.get_bytes_max, 0.5)]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [(query(-3), UnexpectedOffset), (query(0, 0), BadRequest), (query(0, 1, -1), BadRequest),
     (query(0)._replace(deadline_ms=1), DeadlinePassed)],
)  # fmt: skip
async def test_a_wrong_query_is_refused(
    bench: Bench, wrong: GetQuery, error: type[TalosError]
) -> None:
    with pytest.raises(error):
        bench.service.get_cached(ALICE, wrong)
    with pytest.raises(error):
        await bench.service.get(ALICE, wrong)


async def test_offsets_of_a_topic_name_the_partition_that_fails(bench: Bench) -> None:
    bench.log.range = OffsetRange(0, -1)
    answers = await bench.service.offsets_of(ALICE, "alice#t#1", range(6))
    assert len(answers) == 6
    assert all(isinstance(answer, PartitionNotServing) for answer in answers)


async def test_schedule_info_names_every_partition(bench: Bench) -> None:
    found, addresses = bench.service.schedule_info(ALICE, "alice#t#1")
    assert found is bench.topic
    assert list(addresses) == ["host:1"] * 6


def _v1(*contents: bytes) -> bytes:
    return b"".join(b"\0\0\0\0" + len(content).to_bytes(4, "big") + content for content in contents)


async def test_a_preview_shows_the_newest_messages(bench: Bench) -> None:
    bench.log.range = OffsetRange(0, 7)
    bench.log.blocks = [
        StoredBlock(0, 4, 1, 0, 0, 1, _v1(b"a", b"b", b"c", b"d")),
        StoredBlock(4, 2, 2, 0, 0, 1, _v1(b"e", b"f")),
    ]
    found = await bench.service.preview(ALICE, "alice#t#1", 0)
    shown = [(item.offset, item.append_ms, item.message.data) for item in found]
    assert shown == [(3, 1, b"d"), (4, 2, b"e"), (5, 2, b"f")]


async def test_a_preview_decompresses_within_a_bound(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.log.range = OffsetRange(0, 3)
    bench.log.blocks = [StoredBlock(at, 1, 0, 0, 0, 1, _v1(b"x" * 100)) for at in range(3)]
    monkeypatch.setattr("opentalos.broker.messaging.preview._DECODED_BYTES_MAX", 250)
    found = await bench.service.preview(ALICE, "alice#t#1", 0)
    assert [item.offset for item in found] == [1, 2]
    monkeypatch.setattr("opentalos.broker.messaging.preview._DECODED_BYTES_MAX", 50)
    with pytest.raises(PreviewFailed, match="at most 50"):
        await bench.service.preview(ALICE, "alice#t#1", 0)


async def test_a_preview_of_what_cannot_be_decoded_fails(bench: Bench) -> None:
    bench.log.range = OffsetRange(0, 1)
    bench.log.blocks = [StoredBlock(0, 1, 0, 0, 0, 2, b"kafka")]
    with pytest.raises(PreviewFailed):
        await bench.service.preview(ALICE, "alice#t#1", 0)
    bench.log.range = OffsetRange(1, 1)
    assert await bench.service.preview(ALICE, "alice#t#1", 0) == []
