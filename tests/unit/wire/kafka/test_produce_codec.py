"""The hand-written codec of Produce agrees with the generic one, or steps aside."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from opentalos.wire.kafka._generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from opentalos.wire.kafka._generated.produce_response import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from opentalos.wire.kafka.apis import (
    ApiKey,
    api_of,
    read_header,
    read_request,
    write_request,
    write_response,
)
from opentalos.wire.kafka.codec import Cursor, KafkaFormatError
from opentalos.wire.kafka.produce_codec import IDS_FROM, read_produce, write_produced

PRODUCE = api_of(ApiKey.PRODUCE)
VERSIONS = st.integers(*PRODUCE.versions)
SIZE_BYTES = 4
INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
NAMES = st.text(st.characters(codec="utf-8"), max_size=60)
IDS = st.binary(min_size=16, max_size=16)
PARTS = st.builds(PartitionProduceData, index=INT32, records=st.none() | st.binary(max_size=300))
TOPICS = st.builds(
    TopicProduceData, name=NAMES, topic_id=IDS, partition_data=st.lists(PARTS, max_size=4)
)
REQUESTS = st.builds(
    ProduceRequest,
    transactional_id=st.none() | NAMES,
    acks=INT16,
    timeout_ms=INT32,
    topic_data=st.lists(TOPICS, min_size=1, max_size=2),
)
ANSWERS = st.builds(
    PartitionProduceResponse,
    index=INT32,
    error_code=st.just(0) | INT16,
    base_offset=INT64,
    log_append_time_ms=INT64,
    log_start_offset=INT64,
    error_message=st.none() | NAMES,
    current_leader=st.builds(LeaderIdAndEpoch, leader_id=st.just(-1) | INT32),
)
ANSWERED_TOPICS = st.lists(
    st.builds(
        TopicProduceResponse,
        name=NAMES,
        topic_id=IDS,
        partition_responses=st.lists(ANSWERS, max_size=4),
    ),
    max_size=2,
)


def behind_the_head(raw: bytes) -> Cursor:
    cursor = Cursor(raw, SIZE_BYTES)
    read_header(cursor)
    return cursor


def check(raw: bytes, version: int) -> None:
    quick, generic = behind_the_head(raw), behind_the_head(raw)
    begin = quick.position
    found = read_produce(version, quick)
    if found is None:
        assert quick.position == begin
        return
    assert found == read_request(PRODUCE, version, generic)
    assert quick.position == generic.position


@given(VERSIONS, REQUESTS)
def test_any_request(version: int, request: ProduceRequest) -> None:
    check(bytes(write_request(PRODUCE, version, request, 7, "client")), version)


@given(VERSIONS, REQUESTS, st.data())
def test_damaged_requests(version: int, request: ProduceRequest, data: st.DataObject) -> None:
    raw = write_request(PRODUCE, version, request, 7, "")
    begin = behind_the_head(bytes(raw)).position
    at = data.draw(st.integers(begin, len(raw) - 1))
    if data.draw(st.booleans()):
        raw[at] = data.draw(st.integers(0, 255))
    else:
        del raw[at:]
    quick = behind_the_head(bytes(raw))
    try:
        generic = read_request(PRODUCE, version, behind_the_head(bytes(raw)))
    except KafkaFormatError:
        assert read_produce(version, quick) is None
        return
    found = read_produce(version, quick)
    assert found is None or found == generic


@given(st.integers(9, PRODUCE.versions[1]), NAMES.filter(bool), st.lists(PARTS, max_size=4))
def test_the_usual_shape_is_known(
    version: int, name: str, parts: list[PartitionProduceData]
) -> None:
    usual = [part for part in parts if part.records is not None]
    topic = TopicProduceData(name=name, partition_data=usual)
    raw = bytes(write_request(PRODUCE, version, ProduceRequest(acks=-1, topic_data=[topic])))
    short = version >= IDS_FROM or len(name.encode()) < 127
    assert (read_produce(version, behind_the_head(raw)) is not None) == short


@given(VERSIONS, ANSWERED_TOPICS, INT32)
def test_any_response(
    version: int, topics: Sequence[TopicProduceResponse], throttle_ms: int
) -> None:
    quick = write_produced(version, 7, topics, throttle_ms)
    if quick is None:
        return
    response = ProduceResponse(responses=list(topics), throttle_time_ms=throttle_ms)
    assert quick == write_response(PRODUCE, version, 7, response)


def test_success_is_known() -> None:
    parts = [PartitionProduceResponse(index=index, base_offset=9) for index in range(3)]
    topics = [TopicProduceResponse(name="orders", partition_responses=parts)]
    assert write_produced(9, 1, topics, 0) is not None
