"""Messages, offsets and groups by Kafka's tools, beside our own clients."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.kafka.tools.kafka_tools import KafkaTools, Login
from tests.e2e.rest.client import rest
from tests.server_process import ServerProcess

pytestmark = pytest.mark.timeout(180)  # the first test starts Java

COUNT = 1_000  # of the verifiable clients
WAIT = ("--timeout-ms", "30000")
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


def test_keys_go_where_our_clients_put_them(
    tools: KafkaTools, alice: Login, kafka_server: ServerProcess
) -> None:
    new_topic(tools, alice, "keyed", 3)
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    keys = [f"key-{number}" for number in range(20)]
    tools.done(
        alice, "console-producer", "--topic", "keyed", *keyed,
        stdin="".join(f"{key}:kafka\n" for key in keys),
    )  # fmt: skip
    for key in keys:
        ours = {"messages": [{"key": key, "text": "rest"}]}
        assert rest(kafka_server, "POST", "topics/alice%2Fkeyed/messages", ours).status == 200
    for partition in range(3):
        messages = stored(kafka_server, "keyed", partition)
        by_writer = {
            text: sorted(message["key"] for message in messages if message["text"] == text)
            for text in ("kafka", "rest")
        }
        assert by_writer["kafka"] == by_writer["rest"]
        assert by_writer["kafka"]


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
