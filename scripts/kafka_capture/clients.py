"""What each real client does once: topics, records, a group, rights.

A step that a client cannot do with the versions it was shown fails; the others are still taken.
"""

import asyncio
import contextlib
import importlib
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import kafka
import kafka.admin

from opentalos.backends.kafka import KafkaBackend
from opentalos.backends.places import BackendError

rd: Any = importlib.import_module("confluent_kafka.admin")  # it exports nothing to type checkers
WAIT_S = 8
POLLS_MAX = 40
ALL = "all"  # a run that is shown all versions
RUN_S = 120.0


@contextlib.contextmanager
def attempt(name: str) -> Iterator[None]:
    """Report what fails and continue."""
    try:
        yield
    except Exception as error:
        print(f"  {name}: {type(error).__name__}: {str(error)[:90]}", flush=True)


def confluent(address: str, name: str) -> None:
    """librdkafka: producer with and without ids, group, administration."""
    settings = {"bootstrap.servers": address, "socket.timeout.ms": WAIT_S * 1_000}
    admin = rd.AdminClient(settings)
    topic, group = f"rd-{name}", f"rd-group-{name}"
    place = confluent_kafka.TopicPartition(topic, 0)
    with attempt("create"):
        each(admin.create_topics([rd.NewTopic(topic, 1, 1)], request_timeout=WAIT_S))
        each(admin.create_partitions([rd.NewPartitions(topic, 2)], request_timeout=WAIT_S))
    with attempt("produce"):
        for more in ({}, {"enable.idempotence": True}):
            producer = confluent_kafka.Producer(settings | more)
            producer.produce(topic, b"hi", key=b"k", partition=0)
            producer.flush(WAIT_S)
    with attempt("consume"):
        consumer = confluent_kafka.Consumer(
            settings | {"group.id": group, "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        for _ in range(POLLS_MAX):
            if consumer.poll(0.2):
                break
        consumer.commit(asynchronous=False)
        consumer.committed([place], timeout=WAIT_S)
        consumer.get_watermark_offsets(place, timeout=WAIT_S)
        with attempt("describe groups"):
            each(admin.describe_consumer_groups([group], request_timeout=WAIT_S))
            admin.list_consumer_groups(request_timeout=WAIT_S).result()
        consumer.close()
    if name == ALL:  # shown fewer versions, it aborts
        _next_group(settings, topic, group)
    _confluent_admin(admin, topic, group)


def _next_group(settings: dict[str, Any], topic: str, group: str) -> None:
    with attempt("next group"):
        consumer = confluent_kafka.Consumer(
            settings | {"group.id": f"next-{group}", "group.protocol": "consumer"}
        )
        consumer.subscribe([topic])
        consumer.poll(2)
        consumer.close()


def _confluent_admin(admin: Any, topic: str, group: str) -> None:
    place = confluent_kafka.TopicPartition(topic, 0, 1)
    resource = rd.ConfigResource(
        rd.ConfigResource.Type.TOPIC,
        topic,
        incremental_configs=[
            rd.ConfigEntry(
                "retention.ms", "86400000", incremental_operation=rd.AlterConfigOpType.SET
            )
        ],
    )
    whole = rd.ConfigResource(rd.ConfigResource.Type.TOPIC, topic, {"retention.ms": "86400000"})
    right = ("alice", rd.ResourcePatternType.LITERAL, "User:alice", "*")
    binding = (rd.ResourceType.TOPIC, topic, *right[1:], rd.AclOperation.READ)
    steps: dict[str, Callable[[], Any]] = {
        "configs": lambda: each(admin.incremental_alter_configs([resource])),
        "replace configs": lambda: each(admin.alter_configs([whole])),
        "cluster": lambda: admin.describe_cluster(request_timeout=WAIT_S).result(),
        "offsets": lambda: each(
            admin.list_offsets({place: rd.OffsetSpec.latest()}, request_timeout=WAIT_S)
        ),
        "acls": lambda: each(
            admin.create_acls([rd.AclBinding(*binding, rd.AclPermissionType.ALLOW)])
        ),
        "list acls": lambda: admin.describe_acls(
            rd.AclBindingFilter(*binding, rd.AclPermissionType.ALLOW)
        ).result(),
        "delete acls": lambda: each(
            admin.delete_acls([rd.AclBindingFilter(*binding, rd.AclPermissionType.ALLOW)])
        ),
        "records": lambda: each(admin.delete_records([place])),
        "group": lambda: each(admin.delete_consumer_groups([group], request_timeout=WAIT_S)),
        "delete": lambda: each(admin.delete_topics([topic], request_timeout=WAIT_S)),
    }
    for name, step in steps.items():
        with attempt(name):
            step()


def each(futures: dict[Any, Any]) -> None:
    """Wait for all."""
    for future in futures.values():
        future.result(WAIT_S)


def kafka_python(address: str, name: str) -> None:
    """kafka-python: producer, group, administration."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    common: dict[str, Any] = {"bootstrap_servers": address, "request_timeout_ms": WAIT_S * 1_000}
    topic, group = f"kp-{name}", f"kp-group-{name}"
    place = kafka.TopicPartition(topic, 0)
    with attempt("admin"):
        admin = kafka.admin.KafkaAdminClient(**common)
        _kafka_python_first(admin, topic)
    with attempt("produce"):
        producer = kafka.KafkaProducer(**common, max_block_ms=WAIT_S * 1_000)
        producer.send(topic, b"hi", key=b"k", partition=0).get(WAIT_S)
        producer.close(WAIT_S)
    with attempt("consume"):
        consumer = kafka.KafkaConsumer(
            topic,
            **(common | {"request_timeout_ms": 15_000}),
            group_id=group,
            auto_offset_reset="earliest",
            consumer_timeout_ms=WAIT_S * 1_000,
        )
        next(consumer)
        consumer.commit()
        consumer.committed(place)
        consumer.end_offsets([place])
        consumer.offsets_for_times({place: 0})
        with attempt("describe groups"):
            admin.describe_groups([group])
            admin.list_groups()
        consumer.close()
    steps: dict[str, Callable[[], Any]] = {
        "group offsets": lambda: admin.list_group_offsets([group]),
        "delete group": lambda: admin.delete_groups([group]),
        "records": lambda: admin.delete_records({place: 1}),
        "delete": lambda: admin.delete_topics([topic]),
    }
    for step, call in steps.items():
        with attempt(step):
            call()


def _kafka_python_first(admin: Any, topic: str) -> None:
    resource = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, topic)
    change = kafka.admin.ConfigResource(
        kafka.admin.ConfigResourceType.TOPIC, topic, configs={"retention.ms": "86400000"}
    )
    right = kafka.admin.ACL(
        principal="User:alice",
        host="*",
        operation=kafka.admin.ACLOperation.READ,
        permission_type=kafka.admin.ACLPermissionType.ALLOW,
        resource_pattern=kafka.admin.ResourcePattern(kafka.admin.ResourceType.TOPIC, topic),
    )
    new = kafka.admin.NewTopic(topic, 1, 1)
    steps: dict[str, Callable[[], Any]] = {
        "create": lambda: admin.create_topics([new]),
        "partitions": lambda: admin.create_partitions({topic: 2}),
        "describe": lambda: admin.describe_topics([topic]),
        "cluster": lambda: admin.describe_cluster(),
        "alter": lambda: admin.alter_configs([change]),
        "configs": lambda: admin.describe_configs([resource]),
        "acls": lambda: admin.create_acls([right]),
        "list acls": lambda: admin.describe_acls(right),
        "delete acls": lambda: admin.delete_acls([right]),
    }
    for step, call in steps.items():
        with attempt(step):
            call()


async def _aio(address: str, name: str) -> None:
    topic, group = f"aio-{name}", f"aio-group-{name}"
    common: dict[str, Any] = {"bootstrap_servers": address, "request_timeout_ms": WAIT_S * 1_000}
    admin = aiokafka.admin.AIOKafkaAdminClient(**common)
    with attempt("admin"):
        await admin.start()
        new = aiokafka.admin.NewTopic(topic, 1, 1)
        await admin.create_topics([new])
        await admin.describe_topics([topic])
    with attempt("produce"):
        producer = aiokafka.AIOKafkaProducer(**common, enable_idempotence=True)
        await producer.start()
        await producer.send_and_wait(topic, b"hi", key=b"k", partition=0)
        await producer.stop()
    with attempt("consume"):
        consumer = aiokafka.AIOKafkaConsumer(
            topic, **common, group_id=group, auto_offset_reset="earliest"
        )
        await consumer.start()
        await within(consumer.getone())
        await consumer.commit()
        await consumer.end_offsets([aiokafka.TopicPartition(topic, 0)])
        with attempt("groups"):
            await admin.list_consumer_groups()
            await admin.describe_consumer_groups([group])
            await admin.list_consumer_group_offsets(group)
        await consumer.stop()
    with attempt("delete"):
        await admin.delete_topics([topic])
    await admin.close()


async def within(work: Awaitable[Any]) -> Any:
    """Its result, in time."""
    return await asyncio.wait_for(work, WAIT_S)


def aio(address: str, name: str) -> None:
    """aiokafka: producer, group, administration."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    with attempt("aiokafka"):
        asyncio.run(asyncio.wait_for(_aio(address, name), 8 * WAIT_S))


def java(backend: KafkaBackend, address: str, folder: Path) -> None:
    """Kafka's own tools, which use its Java client."""
    tools, topic, group = "org.apache.kafka.tools", "java-golden", "java-group"
    at = ("--bootstrap-server", address)
    lines = folder / "offsets.json"
    lines.write_text(
        '{"partitions":[{"topic":"java-golden","partition":0,"offset":1}],"version":1}'
    )
    acl = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", topic)
    produce = ("--topic", topic, "--num-records", "3", "--record-size", "20", "--throughput", "-1")
    read = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "2")
    reset = ("--reset-offsets", "--to-earliest", "--execute")
    entity = ("--entity-type", "topics", "--entity-name", topic)
    ttl = "retention.ms=86400000"
    groups = f"{tools}.consumer.group.ConsumerGroupCommand"
    calls: tuple[tuple[str, ...], ...] = (
        (f"{tools}.TopicCommand", *at, "--create", "--topic", topic, "--partitions", "1"),
        (f"{tools}.TopicCommand", *at, "--alter", "--topic", topic, "--partitions", "2"),
        (f"{tools}.TopicCommand", *at, "--describe", "--topic", topic),
        (f"{tools}.ProducerPerformance", *produce, "--bootstrap-server", address),
        (f"{tools}.consumer.ConsoleConsumer", *at, *read),
        (f"{tools}.GetOffsetShell", *at, "--topic", topic),
        (groups, *at, "--list", "--state"),
        (groups, *at, "--describe", "--group", group),
        (groups, *at, "--describe", "--group", group, "--members"),
        (groups, *at, "--group", group, "--topic", topic, *reset),
        (groups, *at, "--delete-offsets", "--group", group, "--topic", topic),
        (groups, *at, "--delete", "--group", group),
        (f"{tools}.DeleteRecordsCommand", *at, "--offset-json-file", str(lines)),
        ("kafka.admin.ConfigCommand", *at, "--alter", *entity, "--add-config", ttl),
        (f"{tools}.AclCommand", *at, "--add", *acl),
        (f"{tools}.AclCommand", *at, "--list"),
        (f"{tools}.AclCommand", *at, "--remove", "--force", *acl),
        (f"{tools}.ClusterTool", "cluster-id", *at),
        (f"{tools}.TopicCommand", *at, "--delete", "--topic", topic),
    )  # fmt: skip
    for main, *arguments in calls:
        try:
            backend.tool(main, *arguments)
        except BackendError as error:
            print(f"  {main}: {str(error)[:300]}", flush=True)


PYTHON: dict[str, Callable[[str, str], None]] = {
    f"confluent-kafka {version('confluent-kafka')}": confluent,
    f"kafka-python {version('kafka-python')}": kafka_python,
    f"aiokafka {version('aiokafka')}": aio,
}


def run(client: str, address: str, name: str) -> None:
    """Run one in a process of its own: one of them aborts its process where it is at a loss."""
    command = [sys.executable, "-m", __spec__.name, client, address, name]
    try:
        status = subprocess.run(command, timeout=RUN_S).returncode
    except subprocess.TimeoutExpired:
        print(f"  {client} was ended after {RUN_S:.0f} s", flush=True)
        return
    if status:
        print(f"  {client} ended with {status}", flush=True)


if __name__ == "__main__":
    PYTHON[sys.argv[1]](*sys.argv[2:])
