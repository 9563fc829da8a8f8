"""Messages, offsets and groups by Kafka's tools, beside our own clients."""

import json
import random
import re
from pathlib import Path
from typing import Any

import confluent_kafka
from tests.e2e.kafka.test_history import settings_of
from tests.e2e.kafka.tools.kafka_tools import KafkaTools, Login
from tests.e2e.rest.client import rest
from tests.e2e.sdk.conftest import config_of
from tests.server_process import TALOS, Key, ServerProcess
from tests.waiting import completed, limit_s

from opentalos.sdk import ClientConfig, Message, TalosConsumer, TalosProducer

COUNT = 1_000  # of the verifiable clients
KEYED = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=|")
KEYED_PARTITIONS, REST_KEYS = 12, 100
WAIT = ("--timeout-ms", str(int(limit_s() * 1_000)))
WORDS = [f"word {number}" for number in range(40)]


def new_topic(tools: KafkaTools, who: Login, name: str, partitions: int = 1) -> None:
    tools.done(who, "topics", "--create", "--topic", name, "--partitions", str(partitions))


def write(tools: KafkaTools, who: Login, topic: str, lines: list[str]) -> None:
    tools.done(who, "console-producer", "--topic", topic, stdin="".join(f"{x}\n" for x in lines))


def offsets(tools: KafkaTools, who: Login, topic: str, time: str) -> list[int]:
    """By partition; ``time``: -1 for the latest, -2 for the earliest."""
    shown = tools.done(who, "get-offsets", "--topic", topic, "--time", time)
    return [int(line.rpartition(":")[2]) for line in sorted(shown.split())]


def stored(server: ServerProcess, topic: str, partition: int) -> list[dict[str, Any]]:
    """The messages of a topic of alice, as REST shows them."""
    path = f"topics/alice%2F{topic}/partitions/{partition}/messages?offset=0&encoding=text"
    messages: list[dict[str, Any]] = rest(server, "GET", path).document["messages"]
    return messages


def test_what_the_console_producer_writes_everybody_reads(
    tools: KafkaTools, alice: Login, kafka_server: ServerProcess
) -> None:
    new_topic(tools, alice, "words")
    write(tools, alice, "words", WORDS)
    assert offsets(tools, alice, "words", "-1") == [len(WORDS)]
    place = ("--topic", "words", "--partition", "0", "--offset", "earliest")
    read = tools.done(alice, "console-consumer", *place, "--max-messages", str(len(WORDS)), *WAIT)
    assert read.splitlines() == WORDS
    assert [message["text"] for message in stored(kafka_server, "words", 0)] == WORDS


def keys_of_many_forms() -> list[str]:
    """Thousands: short and long, with bytes above 127, and of every length modulo four."""
    source = random.Random(7)
    letters = "abcxyz0189-_.äß€漢😀"
    texts = {"".join(source.choices(letters, k=source.randint(1, 40))) for _ in range(3_000)}
    return sorted(texts | {str(number) for number in range(2_000)})


def test_keys_go_where_our_clients_put_them(
    tools: KafkaTools, alice: Login, kafka_server: ServerProcess
) -> None:
    """Java's default partitioner, librdkafka's murmur2_random, our SDK and REST."""
    new_topic(tools, alice, "keyed", KEYED_PARTITIONS)
    keys = keys_of_many_forms()
    lines = "".join(f"{key}|java\n" for key in keys)
    tools.done(alice, "console-producer", "--topic", "keyed", *KEYED, stdin=lines)
    settings = settings_of(kafka_server)
    by_librdkafka = confluent_kafka.Producer({**settings, "partitioner": "murmur2_random"})
    for key in keys:
        by_librdkafka.produce("alice/keyed", b"librdkafka", key.encode())
        by_librdkafka.poll(0)
    assert by_librdkafka.flush(limit_s()) == 0
    with TalosProducer(config_of(kafka_server.url), "alice/keyed") as by_sdk:
        for key in keys:
            by_sdk.put(Message(b"sdk", partition_key=key))
    for key in keys[:REST_KEYS]:
        ours = {"messages": [{"key": key, "text": "rest"}]}
        assert rest(kafka_server, "POST", "topics/alice%2Fkeyed/messages", ours).status == 200
    place = ("--topic", "keyed", "--from-beginning", "--group", "keys")
    shown = (
        "--formatter-property",
        "print.key=true",
        "--formatter-property",
        "print.partition=true",
    )
    count = ("--max-messages", str(3 * len(keys) + REST_KEYS))
    read = tools.done(alice, "console-consumer", *place, *shown, *count, *WAIT)
    places: dict[str, dict[str, str]] = {}
    for line in read.splitlines():
        partition, key, writer = line.split("\t")
        places.setdefault(writer, {})[key] = partition
    assert sorted(places["java"]) == keys
    assert places["java"] == places["librdkafka"] == places["sdk"]
    assert places["rest"].items() <= places["java"].items()
    assert len(set(places["java"].values())) == KEYED_PARTITIONS


def test_records_are_deleted_up_to_an_offset(
    tools: KafkaTools, alice: Login, tmp_path: Path
) -> None:
    new_topic(tools, alice, "short")
    write(tools, alice, "short", WORDS)
    plan = {"partitions": [{"topic": "short", "partition": 0, "offset": 15}], "version": 1}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    said = tools.done(alice, "delete-records", "--offset-json-file", str(tmp_path / "plan.json"))
    assert re.search(r"partition: short-0\s+low_watermark: 15", said)
    assert offsets(tools, alice, "short", "-2") == [15]
    assert offsets(tools, alice, "short", "-1") == [len(WORDS)]


def test_the_verifiable_clients_find_all_that_was_acknowledged(
    tools: KafkaTools, alice: Login
) -> None:
    new_topic(tools, alice, "verified", 2)
    said = tools.alone(
        alice, "verifiable-producer", "--topic", "verified", "--max-messages", str(COUNT)
    )
    sent = [json.loads(line) for line in said.splitlines()]
    acknowledged = [event["value"] for event in sent if event["name"] == "producer_send_success"]
    assert sorted(map(int, acknowledged)) == list(range(COUNT))
    said = tools.done(
        alice, "verifiable-consumer", "--topic", "verified", "--group-id", "verifiers",
        "--max-messages", str(COUNT), "--reset-policy", "earliest", "--verbose",
    )  # fmt: skip
    read = [json.loads(line) for line in said.splitlines()]
    values = [event["value"] for event in read if event["name"] == "record_data"]
    assert sorted(map(int, values)) == list(range(COUNT))


def test_groups_are_listed_described_and_reset(tools: KafkaTools, alice: Login, bob: Login) -> None:
    new_topic(tools, alice, "grouped")
    write(tools, alice, "grouped", WORDS)
    group = ("--group", "readers")
    first = ("--max-messages", "10", "--from-beginning", *WAIT)
    read = tools.done(alice, "console-consumer", "--topic", "grouped", *group, *first)
    assert read.splitlines() == WORDS[:10]
    assert "readers" in tools.done(alice, "consumer-groups", "--list").split()
    assert "readers" not in tools.done(bob, "consumer-groups", "--list").split()

    def committed() -> list[str]:
        shown = tools.done(alice, "consumer-groups", "--describe", *group)
        found = re.search(r"readers\s+grouped\s+0\s+(\d+)\s+(\d+)\s+(\d+)", shown)
        assert found, shown
        return list(found.groups())

    assert committed() == ["10", "40", "30"]
    reset = ("consumer-groups", "--reset-offsets", *group, "--topic", "grouped", "--execute")
    tools.done(alice, *reset, "--to-offset", "25")
    assert committed() == ["25", "40", "15"]
    tools.done(alice, *reset, "--to-earliest")
    assert committed() == ["0", "40", "40"]
    rest_of_it = ("--max-messages", "40", *WAIT)
    read = tools.done(alice, "console-consumer", "--topic", "grouped", *group, *rest_of_it)
    assert read.splitlines() == WORDS
    tools.done(alice, "consumer-groups", "--delete", *group)
    assert "readers" not in tools.done(alice, "consumer-groups", "--list").split()


def lag_by_kafka(tools: KafkaTools, who: Login, group: str) -> dict[int, tuple[int, int]]:
    """Next offset and lag of each partition, as kafka-consumer-groups prints them."""
    shown = tools.done(who, "consumer-groups", "--describe", "--group", group)
    lines = re.findall(rf"{group}\s+measured\s+(\d+)\s+(\d+)\s+\d+\s+(\d+)", shown)
    return {int(number): (int(at), int(lag)) for number, at, lag in lines}


def lag_by_rest(server: ServerProcess, group: str) -> dict[int, tuple[int, int]]:
    """The same by REST, which names the last processed message instead of the next one."""
    shown = rest(server, "GET", f"topics/alice%2Fmeasured/groups/{group}").document["partitions"]
    return {row["partition"]: (row["checkpoint"] + 1, row["lag"]) for row in shown}


def lag_by_command(server: ServerProcess, key: Key, group: str) -> dict[int, int]:
    who = f"{key.key_id}:{key.secret}"
    command = [str(TALOS), "group", "describe", "measured", group, "--format", "json"]
    done = completed([*command, "--url", server.url, "--as", who], check=True)
    rows = map(json.loads, done.stdout.splitlines())
    return {row["partition"]: row["lag"] for row in rows}


def test_groups_of_workers_and_of_kafka_are_seen_by_both_with_equal_lag(
    tools: KafkaTools, alice: Login, kafka_server: ServerProcess
) -> None:
    new_topic(tools, alice, "measured", 2)
    lines = "".join(f"{key}|text\n" for key in range(80))
    tools.done(alice, "console-producer", "--topic", "measured", *KEYED, stdin=lines)
    made = rest(kafka_server, "POST", "principals/alice/keys").document
    key = Key(made["key_id"], made["secret"])
    config = ClientConfig(endpoints=(kafka_server.url,), key_id=key.key_id, secret=key.secret)
    with TalosConsumer(config, "measured", "workers") as worker:
        for count, _ in enumerate(worker, 1):
            if count == 50:
                break
        shown = tools.done(
            alice, "consumer-groups", "--describe", "--group", "workers", "--members"
        )
        assert "workers" in shown
    some = ("--group", "kafkaers", "--max-messages", "30", "--from-beginning", *WAIT)
    tools.done(alice, "console-consumer", "--topic", "measured", *some)
    listed = tools.done(alice, "consumer-groups", "--list").split()
    assert {"workers", "kafkaers"} <= set(listed)
    for group in ("workers", "kafkaers"):
        by_kafka = lag_by_kafka(tools, alice, group)
        assert by_kafka == lag_by_rest(kafka_server, group)
        lags = {number: lag for number, (_, lag) in by_kafka.items()}
        assert lags == lag_by_command(kafka_server, key, group)
        assert 0 < sum(lags.values()) < 80


def test_entries_let_another_tenant_read_and_write(
    tools: KafkaTools, alice: Login, bob: Login
) -> None:
    new_topic(tools, alice, "lent")
    write(tools, alice, "lent", WORDS[:3])
    entry = ("--allow-principal", "User:bob", "--topic", "lent")
    read = (
        "console-consumer", "--topic", "alice/lent", "--partition", "0", "--offset", "earliest",
        "--max-messages", "3", *WAIT,
    )  # fmt: skip
    tools.done(alice, "acls", "--add", *entry, "--operation", "Read")
    assert tools.done(bob, *read).splitlines() == WORDS[:3]
    # The tool logs failures and ends with 0.
    assert tools.run(bob, "console-producer", "--topic", "alice/lent", stdin="no\n").out == ""
    assert offsets(tools, alice, "lent", "-1") == [3]
    tools.done(alice, "acls", "--add", *entry, "--operation", "Write")
    write(tools, bob, "alice/lent", ["yes"])
    assert offsets(tools, alice, "lent", "-1") == [4]
    both = ("--operation", "Read", "--operation", "Write")
    tools.done(alice, "acls", "--remove", "--force", *entry, *both)
    refused = tools.run(bob, *read[:-1], "3000")
    assert (refused.out, "total of 0 messages" in refused.err) == ("", True)
