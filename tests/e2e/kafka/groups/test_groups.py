"""Groups of unmodified Kafka clients: share, commit, crash, resume; seen by both protocols."""

import asyncio
import json
import sys
from typing import Any

import aiokafka
import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from tests.e2e.kafka.groups.kafka_clients import (
    Reach,
    available,
    consumer_process,
    held,
    read,
    until,
)
from tests.server_process import ServerProcess
from tests.waiting import completed, eventually, limit_s, within_limit

PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {"partition.assignment.strategy": "range", "session.timeout.ms": 6000},
    "cooperative": {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 6000,
    },
    "server": {"group.protocol": "consumer"},
}


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    return PROTOCOLS[request.param]


def wait_empty(reach: Reach) -> None:
    """No member is left. A client does not wait for the answer to its leaving."""

    def empty() -> bool:
        workers = {part["worker"] for part in reach.shown("t", "g")["partitions"]}
        return workers == {""} and typed_groups(reach)["g"][0] == "EMPTY"

    eventually("no member is left", empty)


def test_members_share_a_topic_and_take_over_from_who_leaves(
    reach: Reach, protocol: dict[str, Any]
) -> None:
    reach.topic("t")
    first = reach.consumer("g", **protocol)
    first.subscribe(["t"])
    assert len({(m.partition(), m.offset()) for m in read([first], 200)}) == 200
    second = reach.consumer("g", **protocol)
    second.subscribe(["t"])
    shared = "both members share the partitions"
    until(shared, [first, second], lambda: len(held(first)) == len(held(second)) == 2)
    assert held(first) | held(second) == {0, 1, 2, 3}
    workers = [part["worker"] for part in reach.shown("t", "g")["partitions"]]
    assert len(set(workers)) == 2
    assert all(worker.startswith("kafka:") for worker in workers)
    reach.produce("t", 200)
    again = read([first, second], 200)
    assert len({(m.partition(), m.offset()) for m in again}) == 200
    assert reach.shown("t", "g")["lag"] == 0
    second.close()
    until("the remaining member has all partitions", [first], lambda: len(held(first)) == 4)
    first.close()
    wait_empty(reach)


def test_a_group_continues_where_it_committed(reach: Reach, protocol: dict[str, Any]) -> None:
    reach.topic("t", partitions=1)
    first = reach.consumer("g", **protocol)
    first.subscribe(["t"])
    read([first], 80)
    assert reach.shown("t", "g")["partitions"][0]["checkpoint"] == 79
    assert reach.shown("t", "g")["lag"] == 120
    first.close()
    second = reach.consumer("g", **protocol)
    second.subscribe(["t"])
    assert [message.offset() for message in read([second], 120)] == list(range(80, 200))
    second.close()


def test_offset_zero_is_no_reason_to_skip(reach: Reach) -> None:
    reach.topic("t", partitions=1, messages=5)
    first = reach.consumer("g")
    first.assign([TopicPartition("t", 0, 0)])
    first.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
    first.close()
    second = reach.consumer("g", **{"auto.offset.reset": "latest"})
    second.subscribe(["t"])
    assert [message.offset() for message in read([second], 5)] == [0, 1, 2, 3, 4]
    second.close()


def test_a_member_that_crashes_is_replaced(reach: Reach) -> None:
    reach.topic("t")
    with consumer_process(reach, "g", "t", **PROTOCOLS["range"]) as crashing:
        try:
            assert crashing.stdout is not None
            while json.loads(crashing.stdout.readline()) != [0, 1, 2, 3]:
                pass
            survivor = reach.consumer("g", **PROTOCOLS["range"])
            survivor.subscribe(["t"])
            until("the survivor has two partitions", [survivor], lambda: len(held(survivor)) == 2)
        finally:
            crashing.kill()
        until("the survivor has all partitions", [survivor], lambda: len(held(survivor)) == 4)
        read([survivor], 1)
        survivor.close()


def test_a_static_member_keeps_its_partitions_and_the_former_is_fenced(reach: Reach) -> None:
    reach.topic("t")
    static = {"group.instance.id": "i1", "session.timeout.ms": 30_000}
    former = reach.consumer("g", **static)
    former.subscribe(["t"])
    until("the former member has all partitions", [former], lambda: len(held(former)) == 4)
    present = reach.consumer("g", **static)
    present.subscribe(["t"])
    until("the present member has all partitions", [present], lambda: len(held(present)) == 4)

    def code() -> int | None:
        message = former.poll(0.2)
        error = message.error() if message is not None else None
        return None if error is None else error.code()

    assert eventually("the former member is fenced", code) == KafkaError._FATAL
    assert len(read([present], 20)) == 20
    present.close()


def test_a_restart_of_the_server_loses_no_position(
    server: ServerProcess, own_reach: Reach, protocol: dict[str, Any]
) -> None:
    listen = f'[kafka]\nlisten = "{own_reach.address}"\n'
    server.config = listen + server.config
    own_reach.topic("t", partitions=2)
    consumer = own_reach.consumer("g", **protocol)
    consumer.subscribe(["t"])
    committed = {(m.partition(), m.offset()) for m in read([consumer], 50)}
    server.kill()
    server.start()
    # Members join again and continue at their commits; what they read since may be read twice.
    later: set[tuple[int | None, int | None]] = set()

    def all_read() -> bool:
        for message in available(consumer):
            if message.error() is None:
                later.add((message.partition(), message.offset()))
        return len(committed | later) == 200

    eventually("the member reads the rest", all_read, state=lambda: len(committed | later))
    assert not committed & later
    consumer.close()


def test_no_commit_passes_the_end_or_disturbs_a_group(reach: Reach) -> None:
    reach.topic("t", partitions=1)
    alone = reach.consumer("g")
    with pytest.raises(KafkaException) as beyond:
        alone.commit(offsets=[TopicPartition("t", 0, 201)], asynchronous=False)
    assert beyond.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE
    member = reach.consumer("g")
    member.subscribe(["t"])
    read([member], 10)
    with pytest.raises(KafkaException):
        alone.commit(offsets=[TopicPartition("t", 0, 150)], asynchronous=False)
    assert reach.shown("t", "g")["partitions"][0]["checkpoint"] == 9
    member.close()
    alone.close()


def test_tools_of_kafka_list_describe_and_delete(reach: Reach) -> None:
    reach.topic("t", partitions=2)
    member = reach.consumer("g", **PROTOCOLS["range"])
    member.subscribe(["t"])
    read([member], 200)
    admin = reach.admin()
    listed = {g.group_id: g.state.name for g in admin.list_consumer_groups().result().valid}
    assert listed == {"g": "STABLE"}
    described = admin.describe_consumer_groups(["g"])["g"].result()
    assert described.partition_assignor == "range"
    parts = [p.partition for p in described.members[0].assignment.topic_partitions]
    assert parts == [0, 1]
    asked = [ConsumerGroupTopicPartitions("g")]
    offsets = admin.list_consumer_group_offsets(asked)["g"].result().topic_partitions
    assert sum(part.offset for part in offsets) == 200
    with pytest.raises(KafkaException):
        admin.delete_consumer_groups(["g"])["g"].result()
    member.close()
    wait_empty(reach)
    change = ConsumerGroupTopicPartitions("g", [TopicPartition("t", 0, 7)])
    admin.alter_consumer_group_offsets([change])["g"].result()
    assert reach.shown("t", "g")["partitions"][0]["checkpoint"] == 6
    admin.delete_consumer_groups(["g"])["g"].result()
    assert admin.list_consumer_groups().result().valid == []


def test_a_group_without_members_keeps_its_type(
    server: ServerProcess, own_reach: Reach, protocol: dict[str, Any]
) -> None:
    server.config = f'[kafka]\nlisten = "{own_reach.address}"\n' + server.config
    own_reach.topic("t", partitions=2, messages=10)
    member = own_reach.consumer("g", **protocol)
    member.subscribe(["t"])
    read([member], 10)
    kind = ConsumerGroupType.CONSUMER if "group.protocol" in protocol else ConsumerGroupType.CLASSIC
    assert typed_groups(own_reach) == {"g": ("STABLE", kind)}
    member.close()
    wait_empty(own_reach)
    assert typed_groups(own_reach) == {"g": ("EMPTY", kind)}
    change = ConsumerGroupTopicPartitions("g", [TopicPartition("t", 0, 1)])
    admin = own_reach.admin()
    admin.alter_consumer_group_offsets([change])["g"].result()
    assert typed_groups(own_reach) == {"g": ("EMPTY", kind)}, "a reset changes no type"
    server.kill()
    server.start()
    assert typed_groups(own_reach) == {"g": ("EMPTY", kind)}
    admin = own_reach.admin()  # it has to live as long as its call
    described = admin.describe_consumer_groups(["g"])["g"].result()
    assert (described.state.name, described.members) == ("EMPTY", [])


def typed_groups(reach: Reach) -> dict[str, tuple[str, ConsumerGroupType]]:
    admin = reach.admin()  # kept, as its answers end with it
    found = admin.list_consumer_groups().result(limit_s())
    assert found.errors == []
    return {group.group_id: (group.state.name, group.type) for group in found.valid}


def test_the_last_members_decide_the_type(reach: Reach) -> None:
    reach.topic("t", partitions=2, messages=10)
    kinds = {
        "server": ConsumerGroupType.CONSUMER,
        "range": ConsumerGroupType.CLASSIC,
        "cooperative": ConsumerGroupType.CLASSIC,
    }
    for name in ("server", "range", "server", "cooperative"):
        member = reach.consumer("g", **PROTOCOLS[name])
        member.subscribe(["t"])
        read([member], 10, commits=False)
        member.close()
        wait_empty(reach)
        assert typed_groups(reach) == {"g": ("EMPTY", kinds[name])}


def test_aiokafka_commits_and_resumes(reach: Reach) -> None:
    reach.topic("t", partitions=1, messages=30)

    async def some(count: int) -> list[int]:
        consumer = aiokafka.AIOKafkaConsumer(
            "t",
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **reach.in_python(),
        )
        await consumer.start()
        try:
            async with within_limit(f"aiokafka reads {count} messages"):
                found = [(await consumer.getone()).offset for _ in range(count)]
            part = aiokafka.TopicPartition("t", 0)
            await consumer.commit({part: found[-1] + 1})
        finally:
            await consumer.stop()
        return found

    assert asyncio.run(some(10)) == list(range(10))
    assert asyncio.run(some(20)) == list(range(10, 30))
    assert reach.shown("t", "g")["lag"] == 0


_KAFKA_PYTHON = """import json, sys
from kafka import KafkaConsumer
settings, count = json.loads(sys.argv[1]), int(sys.argv[2])
consumer = KafkaConsumer("t", group_id="g", auto_offset_reset="earliest",
                         enable_auto_commit=False, max_poll_records=1, **settings)
found = []
for record in consumer:
    found.append(record.offset)
    if len(found) == count:
        break
consumer.commit()
consumer.close()
print(json.dumps(found))
"""


def test_kafka_python_commits_and_resumes(reach: Reach) -> None:
    """In its own process, as its import warns."""
    reach.topic("t", partitions=1, messages=30)

    def some(count: int) -> list[int]:
        command = [sys.executable, "-c", _KAFKA_PYTHON, json.dumps(reach.in_python()), str(count)]
        return list(json.loads(completed(command, check=True).stdout))

    assert some(10) == list(range(10))
    assert some(20) == list(range(10, 30))


def test_thousands_of_commits_leave_the_last_one(reach: Reach) -> None:
    reach.topic("t", partitions=1, messages=2_000)
    member = reach.consumer("g")
    member.subscribe(["t"])
    read([member], 2_000)
    assert reach.shown("t", "g")["partitions"][0]["checkpoint"] == 1_999
    member.close()
