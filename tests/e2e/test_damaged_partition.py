"""A partition that is damaged, through every door: it is named, and never looks empty or read.

Two bytes of a journal are flipped after kill -9. Partition 0 of the topic has messages that its own
segment proves, of partition 1 nothing is proven, partition 2 is whole. Each door is asked of all
three.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection

import confluent_kafka
import pytest
from tests.e2e.kafka.clients import kafka_address
from tests.e2e.kafka.raw_kafka import RawKafka
from tests.e2e.rest.client import EventStream, authorization, figure, rest
from tests.e2e.sdk.conftest import config_of
from tests.e2e.test_journal_rot import CONFIG, LARGE
from tests.raw_client import RawClient, RawTopic, TalosError, idl
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import completed, eventually, limit_s

from opentalos.sdk import (
    ClientConfig,
    ConsumerSettings,
    CorruptLog,
    SimpleConsumer,
    Start,
    TalosAdmin,
    TalosConsumer,
)
from opentalos.wire.kafka._generated.fetch_request import FetchPartition, FetchTopic
from opentalos.wire.kafka._generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsTopic,
)
from opentalos.wire.kafka.apis import ApiKey
from opentalos.wire.kafka.errors import ErrorCode

PART, NOTHING, WHOLE = range(3)
DAMAGED = (PART, NOTHING)
GROUP = "readers"
MESSAGES = 3  # of the partition that is whole, and proven of partition 0 at most
INCOMPLETE = 11  # MESSAGE_INCOMPLETE of Talos
# Topics of the service would be in the journal as well.
QUIET = "".join(f"[{name}]\nenabled = false\n" for name in ("metering", "audit", "measuring"))
QUIET += "step_s = 1\n"
LATER_MS = 1 << 42


class Damaged:
    """The restarted server, its topic, and what clients need."""

    def __init__(self, server: ServerProcess, topic: RawTopic) -> None:
        self.server, self.topic = server, topic
        self.sdk = sdk_config(server)
        self.kafka = {
            "bootstrap.servers": kafka_address(server),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ROOT_KEY.key_id,
            "sasl.password": ROOT_KEY.secret,
        }

    def proven(self) -> int:
        """The offset after what is proven of partition 0."""
        found = self.topic.get(-1, partition=PART)
        assert 2 <= found.messageNumber <= MESSAGES
        return int(found.messageNumber)


def sdk_config(server: ServerProcess) -> ClientConfig:
    return config_of(server.url)


def metrics(server: ServerProcess) -> str:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=limit_s())
    with closing(connection):
        connection.request("GET", "/metrics", headers=authorization())
        return connection.getresponse().read().decode()


def fill(server: ServerProcess) -> RawTopic:
    """Of partition 1 nothing is written into its segment: all its messages come at the end."""
    client = RawClient(server.port)
    topic = RawTopic.create(client, "shared", partitions=3, durability="synced")
    for text in (b"first", b"second"):
        topic.put(text, partition=PART)
        topic.put(text, partition=WHOLE)
    topic.put(LARGE, partition=PART)
    settings = ConsumerSettings(auto_commit=False)
    with TalosConsumer(sdk_config(server), "shared", GROUP, settings) as consumer:
        left = 5
        while left:
            left -= len(consumer.poll(limit_s()))
        consumer.commit({PART: 0, WHOLE: 0})
    topic.put(b"last of 0", partition=PART)
    for text in (b"first", b"second", b"last of 1"):
        topic.put(text, partition=NOTHING)
    topic.put(b"last of 2", partition=WHOLE)
    return topic


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    server = ServerProcess(tmp_path_factory.mktemp("damaged"), CONFIG + QUIET).start()
    topic = fill(server)
    topic.client.close()
    server.kill()
    (path,) = server.data.glob("log/journal/*/*.jnl")
    content = bytearray(path.read_bytes())
    for partition in DAMAGED:
        content[content.index(b"last of %d" % partition)] ^= 1
    path.write_bytes(content)
    server.start()
    with closing(RawClient(server.port)) as topic.client:
        yield Damaged(server, topic)
    server.stop()


def test_talos_clients_get_the_error_of_a_put(damaged: Damaged) -> None:
    topic, proven = damaged.topic, damaged.proven()
    with pytest.raises(TalosError, match="is damaged") as put:
        topic.put(b"refused", partition=NOTHING)
    ends = [(PART, proven), (PART, -2), (NOTHING, -1), (NOTHING, -2), (NOTHING, 0), (NOTHING, 3)]
    for partition, offset in ends:
        with pytest.raises(TalosError, match="is damaged") as get:
            topic.get(offset, partition=partition)
        assert get.value.code == put.value.code == INCOMPLETE
    assert topic.get(-1, partition=PART).unHandledMessageNumber == -1
    whole = topic.get(-1, partition=WHOLE)
    assert (whole.messageNumber, whole.unHandledMessageNumber) == (MESSAGES, 0)


def test_talos_offsets_ends_and_lags_are_unknown(damaged: Damaged) -> None:
    topic, message, metric = damaged.topic, idl("message"), idl("metric")
    request = message.GetTopicOffsetRequest(topicTalosResourceName=topic.resource)
    found = topic.client.call("message", "getTopicOffset", request).offsetInfoList
    infos = {info.partitionId: info for info in found}
    for partition in DAMAGED:
        info = infos[partition]
        assert (info.errorCode, info.startOffset, info.endOffset) == (INCOMPLETE, 0, None)
        assert "is damaged" in info.errorMsg
    assert (infos[WHOLE].errorCode, infos[WHOLE].endOffset) == (None, MESSAGES - 1)
    for partition in DAMAGED:
        asked = message.GetPartitionCheckpointRequest(
            topicAndPartition=topic.partition(partition), partitionTimeIndex=LATER_MS
        )
        with pytest.raises(TalosError, match="is damaged"):
            topic.client.call("message", "getPartitionCheckpoint", asked)
    described = topic.client.call(
        "topic", "describeTopic", idl("topic").DescribeTopicRequest(topicName=topic.name)
    )
    assert [each.partitionId for each in described.topicState.partitionStates] == [WHOLE]
    unit = metric.ConsumerGroupAndTopic(
        consumerGroupName=GROUP, topicTalosResourceName=topic.resource
    )
    lags = topic.client.call(
        "metric",
        "getTopicConsumeUnit",
        metric.GetTopicConsumeUnitRequest(consumerGroupAndTopic=unit),
    ).partitionConsumeUnitList
    assert {each.partitionId: each.consumerOffsetLag for each in lags} == {0: -1, 1: -1, 2: 2}


def test_rest_names_the_damage_and_shows_null(damaged: Damaged) -> None:
    server = damaged.server
    for query in ("", "?at=end", "?offset=0", f"?time_ms={LATER_MS}"):
        refused = rest(server, "GET", f"topics/shared/partitions/{NOTHING}/messages{query}")
        assert (refused.status, refused.document["title"]) == (500, "CorruptLog")
        assert "is damaged" in refused.document["detail"]
    read = rest(server, "GET", f"topics/shared/partitions/{PART}/messages").document
    assert (len(read["messages"]), read["lag"]) == (damaged.proven(), None)
    path = f"topics/shared/partitions/{PART}/messages?offset={read['next_offset']}"
    assert rest(server, "GET", path).document["title"] == "CorruptLog"
    offsets = rest(server, "GET", "topics/shared/offsets").document["partitions"]
    for partition in DAMAGED:
        assert set(offsets[partition]) == {"partition", "start", "error"}
    assert offsets[WHOLE]["next"] == MESSAGES
    states = rest(server, "GET", "topics/shared").document["states"]
    assert [state["partition"] for state in states] == [WHOLE]
    (status,) = rest(server, "GET", "status?topics=root/shared").document["topics"]
    assert (status["messages"], status["lags"]) == (None, {GROUP: None})


def test_lags_of_groups_are_unknown_and_the_reason_is_said(damaged: Damaged) -> None:
    server = damaged.server
    (listed,) = rest(server, "GET", "topics/shared/groups").document["groups"]
    assert (listed["lag"], listed["lag_max"], listed["lag_s"], listed["damaged"]) == (
        *(None, None, None),
        2,
    )
    group = rest(server, "GET", f"topics/shared/groups/{GROUP}").document
    assert [each["lag"] for each in group["partitions"]] == [None, None, 2]
    why = rest(server, "GET", f"topics/shared/groups/{GROUP}/explain").document
    assert (why["state"], why["lag"]) == ("stuck", None)
    assert why["reasons"][0]["code"] == "damaged"
    assert why["reasons"][0]["partitions"] == list(DAMAGED)
    reset = rest(
        server, "POST", f"topics/shared/groups/{GROUP}/reset", {"to": "end", "dry_run": True}
    )
    assert reset.document["title"] == "CorruptLog"
    to = {"to": {"offsets": {str(WHOLE): 1}}, "dry_run": True}
    assert rest(server, "POST", f"topics/shared/groups/{GROUP}/reset", to).status == 200


def test_an_event_stream_names_it_and_continues(damaged: Damaged) -> None:
    titles, messages, proven = list[str](), 0, damaged.proven()
    with EventStream(damaged.server, "topics/shared/events?from=start") as stream:
        for event in stream:
            if event.kind == "error":
                titles.append(event.data["title"])
            else:
                messages += 1
            if len(titles) == len(DAMAGED) and messages == proven + MESSAGES:
                break
    assert titles == ["CorruptLog"] * len(DAMAGED)


def test_our_sdk_raises_it_and_other_partitions_continue(damaged: Damaged) -> None:
    with SimpleConsumer(damaged.sdk, "shared") as simple:
        assert len(simple.fetch(PART, Start.EARLIEST)) == damaged.proven()
        for partition, position in (
            (PART, damaged.proven()), (NOTHING, Start.EARLIEST), (NOTHING, Start.LATEST),
        ):  # fmt: skip
            with pytest.raises(CorruptLog, match="is damaged"):
                simple.fetch(partition, position)
    with TalosAdmin(damaged.sdk) as admin:
        assert [lag.lag for lag in admin.groups.lag("shared", GROUP)] == [None, None, 2]
    found: list[tuple[int, int]] = []
    raised = 0
    wanted = {(PART, number) for number in range(1, damaged.proven())} | {(WHOLE, 1), (WHOLE, 2)}
    with TalosConsumer(damaged.sdk, "shared", GROUP) as consumer:
        while raised < len(DAMAGED) or set(found) != wanted:
            try:
                found += [(each.partition, each.offset) for each in consumer.poll(limit_s())]
            except CorruptLog:
                raised += 1
        assert consumer.position(NOTHING) == 0
    with TalosAdmin(damaged.sdk) as admin:
        checkpoints = [lag.checkpoint for lag in admin.groups.lag("shared", GROUP)]
    assert checkpoints == [damaged.proven() - 1, -1, 2]


@pytest.mark.parametrize("start", [Start.EARLIEST, Start.LATEST])
def test_a_group_without_positions_starts(damaged: Damaged, start: Start) -> None:
    raised, found = 0, 0
    wanted = damaged.proven() + MESSAGES if start is Start.EARLIEST else 0
    settings = ConsumerSettings(first_start=start)
    with TalosConsumer(damaged.sdk, "shared", f"at-{start.value}", settings) as consumer:
        while raised < len(DAMAGED) or found < wanted:
            try:
                found += len(consumer.poll(limit_s()))
            except CorruptLog:
                raised += 1
        assert consumer.assignment == (PART, NOTHING, WHOLE)


async def test_kafka_clients_get_an_error_that_keeps_their_position(damaged: Damaged) -> None:
    proven = damaged.proven()
    async with RawKafka(kafka_address(damaged.server)) as raw:

        async def listed(partition: int, timestamp: int) -> tuple[ErrorCode, int]:
            part = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            topics = [ListOffsetsTopic(name="shared", partitions=[part])]
            found = await raw.call(ApiKey.LIST_OFFSETS, 7, topics=topics)
            answer = found.topics[0].partitions[0]
            return ErrorCode(answer.error_code), answer.offset

        async def fetched(partition: int, offset: int) -> tuple[ErrorCode, int, bool]:
            part = FetchPartition(
                partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
            )
            topics = [FetchTopic(topic="shared", partitions=[part])]
            found = await raw.call(
                ApiKey.FETCH, 11, max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=topics
            )
            answer = found.responses[0].partitions[0]
            return ErrorCode(answer.error_code), answer.high_watermark, bool(answer.records)

        storage = ErrorCode.KAFKA_STORAGE_ERROR
        for partition in DAMAGED:
            assert await listed(partition, -2) == (ErrorCode.NONE, 0)
            for timestamp in (-1, -3, LATER_MS):
                assert (await listed(partition, timestamp))[0] == storage
        assert await listed(WHOLE, -1) == (ErrorCode.NONE, MESSAGES)
        assert await fetched(PART, 0) == (ErrorCode.NONE, -1, True)
        assert (await fetched(PART, proven))[0] == storage
        assert (await fetched(NOTHING, 0))[0] == storage
        assert (await fetched(NOTHING, 99))[0] == storage
        assert await fetched(WHOLE, 0) == (ErrorCode.NONE, MESSAGES, True)


def test_librdkafka_reads_what_is_whole_and_resets_nothing(damaged: Damaged) -> None:
    settings = damaged.kafka | {
        "group.id": "rdkafka", "auto.offset.reset": "latest", "enable.auto.commit": False,
        "enable.partition.eof": True,
    }  # fmt: skip
    consumer = confluent_kafka.Consumer(settings)
    places = [confluent_kafka.TopicPartition("shared", number, 0) for number in range(3)]
    with pytest.raises(confluent_kafka.KafkaException):
        consumer.get_watermark_offsets(places[NOTHING], timeout=1.0)
    assert consumer.get_watermark_offsets(places[WHOLE], timeout=limit_s()) == (0, MESSAGES)
    consumer.assign(places)
    found: set[tuple[int | None, int | None]] = set()
    ended: set[int | None] = set()
    wanted = {(PART, number) for number in range(damaged.proven())}
    wanted |= {(WHOLE, number) for number in range(MESSAGES)}

    def read() -> bool:
        record = consumer.poll(0.1)
        if record is not None:
            error = record.error()
            if error is None:
                found.add((record.partition(), record.offset()))
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(record.partition())
        return found == wanted and WHOLE in ended

    eventually("librdkafka reads what is whole", read, state=lambda: (found, ended))
    assert ended == {WHOLE}
    assert [place.offset for place in consumer.position(places)] == [
        damaged.proven(), confluent_kafka.OFFSET_INVALID, MESSAGES,
    ]  # fmt: skip
    consumer.close()


_KAFKA_PYTHON = """import json, sys
from kafka import KafkaConsumer, TopicPartition
settings, partitions, wanted = json.loads(sys.argv[1])
consumer = KafkaConsumer(**settings)
places = [TopicPartition("shared", number) for number in partitions]
starts = consumer.beginning_offsets(places)
try:
    consumer.end_offsets(places)
    ends = "known"
except Exception as error:
    ends = type(error).__name__
consumer.assign(places)
for place in places:
    consumer.seek(place, 0)
found = []
while len(found) < wanted:
    for records in consumer.poll(timeout_ms=200).values():
        found += [[record.partition, record.offset] for record in records]
consumer.poll(timeout_ms=1000)
print(json.dumps([sorted(starts.values()), ends, sorted(found),
                  [consumer.position(place) for place in places]]))
"""


def test_kafka_python_reads_what_is_whole_and_resets_nothing(damaged: Damaged) -> None:
    proven = damaged.proven()
    settings = {
        "bootstrap_servers": kafka_address(damaged.server),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": ROOT_KEY.key_id,
        "sasl_plain_password": ROOT_KEY.secret,
        "auto_offset_reset": "latest",
        "request_timeout_ms": 3_000,
    }
    given = json.dumps([settings, list(range(3)), proven + MESSAGES])
    done = completed([sys.executable, "-c", _KAFKA_PYTHON, given], check=True)
    starts, ends, found, positions = json.loads(done.stdout)
    assert (starts, ends != "known") == ([0, 0, 0], True)
    assert [place for place in found if place[0] == WHOLE] == [[WHOLE, n] for n in range(MESSAGES)]
    assert [place for place in found if place[0] == PART] == [[PART, n] for n in range(proven)]
    assert positions == [proven, 0, MESSAGES]


def test_health_alarms_and_metrics_say_it(damaged: Damaged) -> None:
    server = damaged.server
    connection = HTTPConnection("127.0.0.1", server.port, timeout=limit_s())
    with closing(connection):
        connection.request("GET", "/readyz")
        reply = connection.getresponse()
        ready = json.loads(reply.read())
    (warning,) = ready["warnings"]
    assert (reply.status, ready["status"]) == (200, "ok")
    assert warning.startswith("partitions that refuse puts, since their logs are damaged: 2")
    assert "shared" not in warning, "topics are not named to everybody"
    (alarm,) = rest(server, "GET", "health").document["alarms"]
    assert (alarm["name"], alarm["severity"]) == ("CorruptLog", "critical")
    for partition in DAMAGED:
        assert f"root/shared/{partition} (" in alarm["text"]
    assert "is damaged" in alarm["text"]
    assert figure(server, "log_damaged_partitions") == 2


def test_metrics_show_no_lag_that_nobody_knows(damaged: Damaged) -> None:
    server = damaged.server
    assert rest(server, "GET", f"topics/shared/groups/{GROUP}/explain").status == 200
    lagging = RawTopic.create(damaged.topic.client, "lagging")
    lagging.put(b"one", b"two")
    assert rest(server, "POST", f"topics/lagging/groups/{GROUP}/workers").status == 201

    def lags() -> list[str]:
        page = metrics(server).splitlines()
        return [line for line in page if line.startswith("opentalos_group_lag_messages{")]

    def measured() -> bool:
        return any('topic="root/lagging"' in line for line in lags())

    eventually("lags are measured", measured, state=lags)
    assert not any('topic="root/shared"' in line for line in lags())


def test_a_topic_beside_it_and_the_whole_partition_work(damaged: Damaged) -> None:
    topic = damaged.topic
    before = topic.get(-1, partition=WHOLE).messageNumber
    topic.put(b"more", partition=WHOLE)
    assert topic.get(-1, partition=WHOLE).messageNumber == before + 1
    beside = RawTopic.create(topic.client, "beside")
    beside.put(b"fine")
    assert beside.get(-1).messageNumber == 1
