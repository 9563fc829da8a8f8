"""Produce, Fetch and offsets by raw requests: every version, idempotence, sessions, long polls."""

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.kafka.clients import kafka_address
from tests.e2e.kafka.raw_kafka import RawKafka
from tests.e2e.rest.client import rest
from tests.server_process import ROOT_KEY, Key, ServerProcess
from tests.waiting import stays_async

from opentalos.sdk import ClientConfig, Message, aio
from opentalos.sdk.errors import OffsetOutOfRange
from opentalos.wire.kafka._generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsTopic,
)
from opentalos.wire.kafka._generated.fetch_request import FetchPartition, FetchTopic, ForgottenTopic
from opentalos.wire.kafka._generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsTopic,
)
from opentalos.wire.kafka._generated.metadata_request import MetadataRequestTopic
from opentalos.wire.kafka._generated.offset_for_leader_epoch_request import (
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from opentalos.wire.kafka._generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from opentalos.wire.kafka.apis import ApiKey, api_of
from opentalos.wire.kafka.errors import ErrorCode
from opentalos.wire.message.kafka_batch import HEAD, set_crc
from opentalos.wire.message.kafka_format import encode_kafka_batch

PRODUCER_AT = 43
LONG_MS = 60_000  # as long as a server lets a fetch wait


@pytest.fixture
async def raw(kafka_server: ServerProcess) -> AsyncIterator[RawKafka]:
    async with RawKafka(kafka_address(kafka_server)) as connection:
        yield connection


async def topic_id(config: ClientConfig, name: str, partitions: int = 1) -> bytes:
    """Create a topic; its id."""
    async with aio.Client(config) as client:
        topics = aio.TalosAdmin(client).topics
        await topics.create(name, partitions=partitions)
        resource = (await topics.describe(name)).info.resource
    return bytes.fromhex(resource.rpartition("#")[2])


def batch(*values: bytes, producer: tuple[int, int, int] | None = None) -> bytes:
    """A batch of these values. ``producer``: its id, epoch and first sequence."""
    made = encode_kafka_batch(
        [Message(value, create_ms=1_000 + n) for n, value in enumerate(values)]
    )
    if producer is not None:
        struct.pack_into(">qhi", made, PRODUCER_AT, *producer)
        set_crc(made)
    return bytes(made)


def produce_fields(topic: str | bytes, *records: bytes, acks: int = -1) -> dict[str, Any]:
    parts = [PartitionProduceData(index=index, records=each) for index, each in enumerate(records)]
    return {"acks": acks, "timeout_ms": 10_000, "topic_data": [topic_of(topic, parts)]}


def topic_of(topic: str | bytes, parts: list[PartitionProduceData]) -> TopicProduceData:
    if isinstance(topic, bytes):
        return TopicProduceData(topic_id=topic, partition_data=parts)
    return TopicProduceData(name=topic, partition_data=parts)


async def put(raw: RawKafka, topic: str | bytes, records: bytes, version: int = 9) -> Any:
    """The answer for partition 0."""
    fields = produce_fields(topic, records)
    response = await raw.call(ApiKey.PRODUCE, version, **fields)
    return response.responses[0].partition_responses[0]


def fetch_fields(topic: str | bytes, offsets: dict[int, int], **fields: Any) -> dict[str, Any]:
    parts = [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)
        for number, offset in offsets.items()
    ]
    named = {"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}
    topics = [FetchTopic(partitions=parts, **named)] if parts else []
    return {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": topics, **fields}


async def test_every_version_stores_and_reads_by_name_or_id(
    raw: RawKafka, sdk_config: ClientConfig
) -> None:
    uuid = await topic_id(sdk_config, "every-version")
    count = 0
    first, last = raw.versions[ApiKey.PRODUCE]
    for version in range(first, last + 1):
        key = uuid if version >= 13 else "every-version"
        answer = await put(raw, key, batch(b"a%d" % version, b"b"), version)
        assert (answer.error_code, answer.base_offset) == (0, count)
        count += 2
    first, last = raw.versions[ApiKey.FETCH]
    for version in range(first, last + 1):
        key = uuid if version >= 13 else "every-version"
        response = await raw.call(ApiKey.FETCH, version, **fetch_fields(key, {0: 0, 7: 0}))
        assert response.responses[0].topic_id == (uuid if version >= 13 else bytes(16))
        found, missing = response.responses[0].partitions
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (found.error_code, found.high_watermark, found.log_start_offset) in (
            (0, count, 0),
            (0, count, -1),  # version 4 does not say where the log begins
        )
        assert bytes(found.records).count(b"a3") == 1
        assert len(found.records) > count // 2 * HEAD.size


async def test_a_repeated_batch_is_stored_once_and_gaps_are_refused(
    raw: RawKafka, sdk_config: ClientConfig
) -> None:
    await topic_id(sdk_config, "idempotent")
    init = {"transactional_id": None, "transaction_timeout_ms": 1}
    given = await raw.call(ApiKey.INIT_PRODUCER_ID, 4, **init)
    assert (given.error_code, given.producer_epoch) == (0, 0)
    number = given.producer_id

    async def stored(sequence: int, *values: bytes, epoch: int = 0) -> tuple[int, int]:
        records = batch(*values, producer=(number, epoch, sequence))
        answer = await put(raw, "idempotent", records)
        return ErrorCode(answer.error_code), answer.base_offset

    unknown = await put(raw, "idempotent", batch(b"x", producer=(number, 0, 9)))
    assert unknown.error_code == ErrorCode.UNKNOWN_PRODUCER_ID
    assert unknown.log_start_offset == 0
    for sequence in range(7):
        assert await stored(sequence, b"v") == (ErrorCode.NONE, sequence)
    for sequence in range(2, 7):  # the last five are remembered
        assert await stored(sequence, b"v") == (ErrorCode.NONE, sequence)
    assert (await stored(0, b"v"))[0] is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert (await stored(9, b"v"))[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    newer = await raw.call(ApiKey.INIT_PRODUCER_ID, 4, **init, producer_id=number, producer_epoch=0)
    assert (newer.producer_id, newer.producer_epoch) == (number, 1)
    assert await stored(0, b"v", epoch=1) == (ErrorCode.NONE, 7)
    assert (await stored(7, b"v"))[0] is ErrorCode.INVALID_PRODUCER_EPOCH
    first, last = raw.versions[ApiKey.INIT_PRODUCER_ID]
    for version in range(first, last + 1):
        refused = await raw.call(ApiKey.INIT_PRODUCER_ID, version, transactional_id="t")
        assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (await raw.call(ApiKey.INIT_PRODUCER_ID, version, **init)).producer_id > 0


async def test_five_requests_in_flight_keep_their_order(
    raw: RawKafka, sdk_config: ClientConfig
) -> None:
    await topic_id(sdk_config, "in-flight")
    large = [b"%06d" % number * 50 for number in range(30_000)]  # checked on a thread
    values = [large, [b"1"], [b"2"], [b"3"], [b"4"]]
    sequence = 0
    for each in values:
        records = batch(*each, producer=(77, 0, sequence))
        await raw.begin(ApiKey.PRODUCE, 9, ProduceRequest(**produce_fields("in-flight", records)))
        sequence += len(each)
    expected = 0
    for each in values:
        response = await raw.receive(ApiKey.PRODUCE, 9)
        (answer,) = response.responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (0, expected), answer.error_message
        expected += len(each)


async def test_nothing_answers_acks_0_and_the_records_are_stored(
    raw: RawKafka, sdk_config: ClientConfig
) -> None:
    await topic_id(sdk_config, "no-acks")
    fields = produce_fields("no-acks", batch(b"x"), acks=0)
    await raw.begin(ApiKey.PRODUCE, 9, ProduceRequest(**fields))
    fetched = await raw.call(
        ApiKey.FETCH, 11, **fetch_fields("no-acks", {0: 0}, max_wait_ms=LONG_MS)
    )
    assert fetched.responses[0].partitions[0].high_watermark == 1


@pytest.mark.parametrize("wrong", ["topic", "batch", "partition"])
async def test_with_acks_0_the_connection_ends_when_records_are_lost(
    raw: RawKafka, kafka_server: ServerProcess, sdk_config: ClientConfig, wrong: str
) -> None:
    await topic_id(sdk_config, f"lost-{wrong}")
    good = produce_fields(f"lost-{wrong}", batch(b"x"), acks=0)
    bad = {
        "topic": produce_fields("nowhere", batch(b"x"), acks=0),
        "batch": produce_fields(f"lost-{wrong}", batch(b"x")[:-1] + b"\7", acks=0),
        "partition": produce_fields(f"lost-{wrong}", batch(b"y"), batch(b"z"), acks=0),
    }[wrong]
    for fields in (good, bad, good):
        await raw.begin(ApiKey.PRODUCE, 9, ProduceRequest(**fields))
    assert await raw.ended()
    async with RawKafka(kafka_address(kafka_server)) as again:
        fetched = await again.call(ApiKey.FETCH, 11, **fetch_fields(f"lost-{wrong}", {0: 0}))
        # What came before is stored; what came after may be, as it was under way.
        assert fetched.responses[0].partitions[0].high_watermark >= 1


async def test_a_repeated_batch_without_acks_is_not_lost(
    raw: RawKafka, sdk_config: ClientConfig
) -> None:
    await topic_id(sdk_config, "repeated")
    for sequence in (*range(7), 0):
        records = batch(b"v", producer=(78, 0, sequence))
        fields = produce_fields("repeated", records, acks=0)
        await raw.begin(ApiKey.PRODUCE, 9, ProduceRequest(**fields))
    assert (await put(raw, "repeated", batch(b"w"))).base_offset == 7


async def test_what_produce_refuses(raw: RawKafka, sdk_config: ClientConfig) -> None:
    uuid = await topic_id(sdk_config, "refused")
    cases: list[tuple[str | bytes, bytes, int, ErrorCode]] = [
        ("nowhere", batch(b"x"), 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (b"\1" * 16, batch(b"x"), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (uuid, batch(b"x") + batch(b"y"), 13, ErrorCode.INVALID_RECORD),
        ("refused", batch(b"x")[:-1] + b"\7", 9, ErrorCode.CORRUPT_MESSAGE),
        ("refused", b"", 9, ErrorCode.CORRUPT_MESSAGE),
        (
            "refused",
            batch(b"x", producer=((1 << 62) + 1, 0, 0)),
            9,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ),
    ]
    for topic, records, version, code in cases:
        answer = await put(raw, topic, records, version)
        assert (answer.error_code, answer.base_offset) == (code, -1)
    response = await raw.call(ApiKey.PRODUCE, 9, **produce_fields("refused", batch(b"x"), acks=2))
    (answer,) = response.responses[0].partition_responses
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    answers = await raw.call(
        ApiKey.PRODUCE, 9, **produce_fields("refused", batch(b"x"), batch(b"no such partition"))
    )
    codes = [answer.error_code for answer in answers.responses[0].partition_responses]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_long_poll_ends_with_a_message_of_any_partition(
    raw: RawKafka, kafka_server: ServerProcess, sdk_config: ClientConfig
) -> None:
    await topic_id(sdk_config, "long-poll", 8)
    offsets = dict.fromkeys(range(8), 0)
    poll = asyncio.create_task(
        raw.call(ApiKey.FETCH, 11, **fetch_fields("long-poll", offsets, max_wait_ms=LONG_MS))
    )
    await stays_async("the poll waits for a message", lambda: not poll.done())
    async with aio.Client(sdk_config) as client:
        await aio.SimpleProducer(client, "long-poll").put([b"hello"])
    response = await poll
    parts = response.responses[0].partitions
    assert len(parts) == 8
    assert sum(bool(part.records) for part in parts) == 1
    empty = await raw.call(
        ApiKey.FETCH, 11, **fetch_fields("long-poll", {0: 1 if parts[0].records else 0})
    )
    assert not empty.responses[0].partitions[0].records


async def test_out_of_range_is_an_error_and_the_end_is_none(
    raw: RawKafka, sdk_config: ClientConfig
) -> None:
    await topic_id(sdk_config, "range")
    await put(raw, "range", batch(b"x", b"y"))
    for offset, code in ((0, 0), (1, 0), (2, 0), (3, 1), (-1, 1)):
        response = await raw.call(ApiKey.FETCH, 11, **fetch_fields("range", {0: offset}))
        assert response.responses[0].partitions[0].error_code == code, offset


async def test_a_session_names_changes_only(raw: RawKafka, sdk_config: ClientConfig) -> None:
    await topic_id(sdk_config, "session", 3)
    await put(raw, "session", batch(b"x"))
    opened = await raw.call(
        ApiKey.FETCH, 11, **fetch_fields("session", {0: 1, 1: 0, 2: 0}, session_epoch=0)
    )
    number = opened.session_id
    assert number > 0
    assert len(opened.responses[0].partitions) == 3
    quiet = await raw.call(
        ApiKey.FETCH, 11, **fetch_fields("session", {}, session_id=number, session_epoch=1)
    )
    assert (quiet.error_code, quiet.session_id, quiet.responses) == (0, number, [])
    await put(raw, "session", batch(b"y"))
    forgotten = [ForgottenTopic(topic="session", partitions=[2])]
    changed = await raw.call(
        ApiKey.FETCH,
        11,
        **fetch_fields(
            "session", {}, session_id=number, session_epoch=2, forgotten_topics_data=forgotten
        ),
    )
    (part,) = changed.responses[0].partitions
    assert (part.partition_index, part.high_watermark) == (0, 2)
    assert b"y" in bytes(part.records)
    wrong = await raw.call(
        ApiKey.FETCH, 11, **fetch_fields("session", {}, session_id=number, session_epoch=9)
    )
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    none = await raw.call(
        ApiKey.FETCH, 11, **fetch_fields("session", {}, session_id=number + 1, session_epoch=3)
    )
    assert none.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_bytes_are_bounded_but_for_the_first_batch(
    raw: RawKafka, sdk_config: ClientConfig
) -> None:
    await topic_id(sdk_config, "bounded", 2)
    large = batch(b"z" * 200_000)
    for _ in range(3):
        fields = produce_fields("bounded", large, large)
        await raw.call(ApiKey.PRODUCE, 9, **fields)
    response = await raw.call(
        ApiKey.FETCH, 11, **fetch_fields("bounded", {0: 0, 1: 0}, max_bytes=1_000)
    )
    first, second = response.responses[0].partitions
    assert len(first.records) == len(large)
    assert not second.records
    response = await raw.call(
        ApiKey.FETCH, 11, **fetch_fields("bounded", {0: 0, 1: 0}, max_bytes=500_000)
    )
    sizes = [len(part.records) // len(large) for part in response.responses[0].partitions]
    assert sizes == [2, 0]


async def test_offsets_by_time_and_by_epoch(raw: RawKafka, sdk_config: ClientConfig) -> None:
    await topic_id(sdk_config, "times")
    await put(raw, "times", batch(b"a", b"b"))
    await put(raw, "times", batch(b"c"))
    first, last = raw.versions[ApiKey.LIST_OFFSETS]

    async def listed(version: int, timestamp: int, partition: int = 0) -> Any:
        asked = [ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
        topics = [ListOffsetsTopic(name="times", partitions=asked)]
        response = await raw.call(ApiKey.LIST_OFFSETS, version, topics=topics)
        return response.topics[0].partitions[0]

    for version in range(first, last + 1):
        assert (await listed(version, -2)).offset == 0
        assert (await listed(version, -1)).offset == 3
        assert (await listed(version, 1)).offset == 0
        assert (await listed(version, 1)).timestamp == 1_000
        assert (await listed(version, 1 << 50)).offset == -1
        assert (await listed(version, -3)).offset == 2
        assert (await listed(version, -9)).error_code == ErrorCode.UNSUPPORTED_VERSION
        missing = await listed(version, -1, partition=1)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for version in range(9, last + 1):
        assert (await listed(version, -4)).offset == 0
        for tiered in (-5, -6):
            assert (await listed(version, tiered)).offset == -1
    first, last = raw.versions[ApiKey.OFFSET_FOR_LEADER_EPOCH]
    metadata = await raw.call(ApiKey.METADATA, 12, topics=[MetadataRequestTopic(name="times")])
    now = metadata.topics[0].partitions[0].leader_epoch
    assert now > 0
    for version in range(first, last + 1):
        for epoch, expected in ((now, (now, 3)), (0, (0, 3)), (now + 1, (-1, -1)), (-1, (-1, -1))):
            asked = [OffsetForLeaderPartition(partition=0, leader_epoch=epoch)]
            topics = [OffsetForLeaderTopic(topic="times", partitions=asked)]
            response = await raw.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, topics=topics)
            (found,) = response.topics[0].partitions
            assert (found.leader_epoch, found.end_offset) == expected


async def test_deleted_records_are_gone_for_every_reader(
    raw: RawKafka, sdk_config: ClientConfig
) -> None:
    await topic_id(sdk_config, "deleted", 2)
    for _ in range(3):
        await put(raw, "deleted", batch(b"a", b"b"))
    first, last = raw.versions[ApiKey.DELETE_RECORDS]

    async def deleted(offset: int, version: int = last, partition: int = 0) -> tuple[int, int]:
        asked = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
        topics = [DeleteRecordsTopic(name="deleted", partitions=asked)]
        response = await raw.call(ApiKey.DELETE_RECORDS, version, topics=topics, timeout_ms=5_000)
        (found,) = response.topics[0].partitions
        return found.error_code, found.low_watermark

    for version in range(first, last + 1):
        assert await deleted(3, version) == (0, 3)
    assert await deleted(1) == (0, 3)  # it never goes back
    assert await deleted(7) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert await deleted(0, partition=1) == (0, 0)  # nothing was ever written
    assert (await deleted(0, partition=2))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for offset, code in ((2, ErrorCode.OFFSET_OUT_OF_RANGE), (3, ErrorCode.NONE)):
        fetched = await raw.call(ApiKey.FETCH, 11, **fetch_fields("deleted", {0: offset}))
        (part,) = fetched.responses[0].partitions
        assert part.error_code == code
    assert part.log_start_offset == 3
    async with aio.Client(sdk_config) as client:
        consumer = aio.SimpleConsumer(client, "deleted")
        assert (await consumer.offsets())[0].start == 3
        with pytest.raises(OffsetOutOfRange):
            await consumer.fetch(0, 0)
        assert [record.offset for record in await consumer.fetch(0, 3)] == [3, 4, 5]
    assert await deleted(-1) == (0, 6)
    assert (await put(raw, "deleted", batch(b"c"))).base_offset == 6
    fetched = await raw.call(ApiKey.FETCH, 11, **fetch_fields("deleted", {0: 6}))
    assert b"c" in bytes(fetched.responses[0].partitions[0].records)


async def test_a_stop_does_not_wait_for_a_long_poll(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "stopped").start()
    config = ClientConfig(endpoints=(server.url,), key_id=ROOT_KEY.key_id, secret=ROOT_KEY.secret)
    await topic_id(config, "waiting")
    async with RawKafka(kafka_address(server)) as raw:
        fields = fetch_fields("waiting", {0: 0}, max_wait_ms=LONG_MS)
        await raw.begin(ApiKey.FETCH, 11, api_of(ApiKey.FETCH).request(**fields))
        async with RawKafka(kafka_address(server)) as other:  # it began before this is answered
            await other.call(ApiKey.METADATA, 12, topics=[])
        await asyncio.to_thread(server.stop)
        assert await raw.ended()
    assert "drain time exceeded" not in server.stderr()


async def test_who_may_not_put_learns_nothing_of_the_log(
    raw: RawKafka, kafka_server: ServerProcess, sdk_config: ClientConfig
) -> None:
    topic = await topic_id(sdk_config, "granted")
    assert (await put(raw, "granted", batch(b"a"))).log_start_offset == 0
    assert rest(kafka_server, "POST", "principals", {"id": "carla"}).status == 201
    made = rest(kafka_server, "POST", "principals/carla/keys").document
    grant = "topics/granted/permissions/carla"
    async with RawKafka(kafka_address(kafka_server), Key(made["key_id"], made["secret"])) as carla:
        assert rest(kafka_server, "PUT", grant, {"permissions": ["PUT_MESSAGE"]}).status < 300
        answer = await put(carla, topic, batch(b"b"), 13)
        assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, 1, 0)
        assert rest(kafka_server, "DELETE", grant).status < 300
        answer = await put(carla, topic, batch(b"c"), 13)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert (answer.base_offset, answer.log_start_offset) == (-1, -1)
