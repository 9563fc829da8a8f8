"""Produce asks who may put where before it reads a batch, and gives others a turn while it does."""

import asyncio
import gzip
import struct
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, BOB

from opentalos.broker.long_work import LongWork
from opentalos.gateway.kafka.call import ClientSession, KafkaCall, Received
from opentalos.gateway.kafka.connection import KafkaConnection
from opentalos.gateway.kafka.gateway import KafkaGateway, Services
from opentalos.gateway.kafka.handlers import TABLE, produce
from opentalos.gateway.kafka.handlers.produce import PIECE_COST, put_code
from opentalos.model.errors import NotOwner, ThrottleRejected
from opentalos.model.identity import Principal
from opentalos.model.limits import QuotaLimits
from opentalos.wire.kafka import records
from opentalos.wire.kafka._generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from opentalos.wire.kafka._generated.produce_response import PartitionProduceResponse
from opentalos.wire.kafka.apis import (
    SIZE,
    ApiKey,
    RequestHeader,
    api_of,
    read_response,
    write_request,
)
from opentalos.wire.kafka.codec import Cursor, KafkaFormatError
from opentalos.wire.kafka.errors import ErrorCode
from opentalos.wire.kafka.records import EASY_BYTES, read_batch
from opentalos.wire.message.kafka_batch import HEAD, set_crc
from opentalos.wire.message.kafka_format import encode_kafka_batch
from opentalos.wire.message.message import Message

ATTRIBUTES_AT, GZIP = 21, 1
VERSION = 12
PACKED_BYTES = 100 << 10  # of a small batch, decompressed


def gzipped(value_bytes: int) -> bytes:
    """A batch of one record."""
    batch = encode_kafka_batch([Message(bytes(value_bytes), create_ms=5_000)])
    batch[HEAD.size :] = gzip.compress(bytes(batch[HEAD.size :]))
    struct.pack_into(">h", batch, ATTRIBUTES_AT, GZIP)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    set_crc(batch)
    return bytes(batch)


SMALL, LARGE = gzipped(PACKED_BYTES), gzipped(2 * EASY_BYTES)
DAMAGED = bytearray(SMALL)
DAMAGED[-6] ^= 1  # of the checksum within, which is found once all is decompressed
set_crc(DAMAGED)


@dataclass
class Work:
    """What was read and decompressed, and how much of it in which pass of the loop."""

    passes: int = 0
    read: int = 0
    unpacked: int = 0
    by_pass: Counter[int] = field(default_factory=Counter)

    async def count_passes(self) -> None:
        while True:
            self.passes += 1
            await asyncio.sleep(0)

    @property
    def largest(self) -> int:
        """Bytes decompressed in one pass."""
        return max(self.by_pass.values())


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    counted, unpack = Work(), vars(records)["records_of"]

    def reading(data: Any) -> Any:
        counted.read += 1
        return read_batch(data)

    def unpacking(*args: Any) -> Any:
        counted.unpacked += 1
        counted.by_pass[counted.passes] += PACKED_BYTES
        return unpack(*args)

    monkeypatch.setattr(produce, "read_batch", reading)
    monkeypatch.setattr(records, "records_of", unpacking)
    return counted


class Connection:
    """One client; ``put`` returns the partitions of the answer."""

    def __init__(self, w: World, caller: Principal) -> None:
        self._session = ClientSession(peer="127.0.0.1", network="", private=True, caller=caller)
        self._services = cast(Services, SimpleNamespace(broker=w.broker))

    async def put(self, topics: dict[str, list[tuple[int, Any]]]) -> list[PartitionProduceResponse]:
        return await self.begin(topics)

    def begin(
        self, topics: dict[str, list[tuple[int, Any]]]
    ) -> asyncio.Future[list[PartitionProduceResponse]]:
        api, answer = api_of(ApiKey.PRODUCE), asyncio.get_running_loop().create_future()

        def done(call: KafkaCall, pieces: list[Any]) -> None:
            response = read_response(api, VERSION, Cursor(b"".join(pieces), SIZE.size))[1]
            answer.set_result(
                [part for topic in response.responses for part in topic.partition_responses]
            )

        data = [
            TopicProduceData(
                name=name,
                partition_data=[
                    PartitionProduceData(index=index, records=memoryview(batch))
                    for index, batch in parts
                ],
            )
            for name, parts in topics.items()
        ]
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data)
        header = RequestHeader(int(ApiKey.PRODUCE), VERSION, 1, "c")
        received = Received(api, header, request)
        call = KafkaCall(received, self._session, self._services.broker.work, done)
        produce.handle(self._services, call)
        return answer


async def test_what_is_refused_is_neither_read_nor_decompressed(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world() as w:
        topic = await w.topic(ALICE, "orders", partitions=2)
        check = w.broker.context.ownership.check

        def elsewhere(uuid: str, partition: int) -> None:
            if partition == 1:
                raise NotOwner("another server", "127.0.0.1:1")
            check(uuid, partition)

        monkeypatch.setattr(w.broker.context.ownership, "check", elsewhere)
        many = [(0, SMALL)] * 300
        missing = await Connection(w, ALICE).put({"missing": many})
        refused = await Connection(w, BOB).put({f"{topic.owner}/orders": many})
        wrong = await Connection(w, ALICE).put({"orders": [(1, SMALL), (2, SMALL), (-1, SMALL)]})
    assert {part.error_code for part in missing} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert {part.error_code for part in refused} <= {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert [part.error_code for part in wrong] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert (work.read, work.unpacked) == (0, 0)


async def test_what_is_far_over_its_rate_is_neither_read_nor_decompressed(work: Work) -> None:
    limits = QuotaLimits(partition_put_bytes_per_s=1)  # so that the first batch overdraws it
    async with world(quota=limits) as w:
        await w.topic(ALICE, "orders", partitions=2)
        sent = [(0, SMALL)] * 300 + [(1, SMALL)]
        first, *refused, other = await Connection(w, ALICE).put({"orders": sent})
    assert (first.error_code, other.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    code = put_code(ThrottleRejected(""), idempotent=False)
    assert {part.error_code for part in refused} == {code}
    assert (work.read, work.unpacked) == (2, 2)


@pytest.mark.parametrize("batch", [SMALL, DAMAGED], ids=["sound", "damaged"])
async def test_many_batches_are_decompressed_in_pieces(work: Work, batch: bytes) -> None:
    async with world() as w:
        await w.topic(ALICE, "orders")
        ticker = asyncio.create_task(work.count_passes())
        answers = await Connection(w, ALICE).put({"orders": [(0, batch)] * 100})
        ticker.cancel()
    assert work.unpacked == 100
    assert work.largest <= PIECE_COST + EASY_BYTES
    if batch is SMALL:
        assert [part.base_offset for part in answers] == list(range(100))
    else:
        assert {part.error_code for part in answers} == {ErrorCode.CORRUPT_MESSAGE}


async def test_requests_that_come_together_share_a_piece_and_keep_their_order(work: Work) -> None:
    async with world() as w:
        await w.topic(ALICE, "orders")
        client = Connection(w, ALICE)
        ticker = asyncio.create_task(work.count_passes())
        begun = [
            client.begin({"orders": [(0, LARGE if number == 5 else SMALL)]}) for number in range(32)
        ]
        answers = [part.base_offset for (part,) in await asyncio.gather(*begun)]
        ticker.cancel()
    assert answers == list(range(32))
    assert work.largest <= PIECE_COST + 2 * EASY_BYTES


async def test_another_client_is_served_while_a_large_request_is_checked(work: Work) -> None:
    async with world() as w:
        await w.topic(ALICE, "orders")
        await w.topic(BOB, "small")
        large = Connection(w, ALICE).begin({"orders": [(0, SMALL)] * 200})
        answers = await Connection(w, BOB).put({"small": [(0, SMALL)]})
        assert answers[0].error_code == ErrorCode.NONE
        assert not large.done()
        assert work.unpacked < 100
        assert {part.error_code for part in await large} == {int(ErrorCode.NONE)}


@pytest.mark.parametrize(("count", "served"), [(19_000, True), (20_000, False)])
async def test_a_request_has_a_bounded_number_of_partitions(count: int, served: bool) -> None:
    parts = [PartitionProduceData(index=0, records=b"")] * count
    data = [TopicProduceData(name="orders", partition_data=parts)]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data)
    frame = memoryview(write_request(api_of(ApiKey.PRODUCE), VERSION, request, 1, "c"))[SIZE.size :]
    session = ClientSession(peer="", network="", private=True, authenticated=True)
    broker = SimpleNamespace(work=LongWork(None, 1))
    gateway = KafkaGateway(cast(Services, SimpleNamespace(broker=broker)), TABLE)
    connection = cast(KafkaConnection, SimpleNamespace(answered=None))
    if served:
        assert gateway.decode(frame, session, connection) is None
        found = (await gateway.decode_long(frame, session, connection)).request
        assert len(found.topic_data[0].partition_data) == count
    else:
        with pytest.raises(KafkaFormatError, match="items are allowed"):
            gateway.decode(frame, session, connection)


async def test_a_small_request_is_put_in_the_pass_of_the_loop_that_brings_it(work: Work) -> None:
    async with world() as w:
        await w.topic(ALICE, "orders")
        answer = Connection(w, ALICE).begin({"orders": [(0, SMALL)]})
        assert (work.read, work.unpacked) == (1, 1)
        assert (w.broker.context.work.counters.turns, w.broker.messages.counters.puts) == (0, 1)
        assert [part.base_offset for part in await answer] == [0]
