"""kcat, unmodified: it writes, reads, lists and queries; it has a librdkafka of years ago."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from scripts.install_programs import KCAT
from tests.e2e.rest.client import rest
from tests.server_process import ServerProcess
from tests.waiting import completed, limit_s

CALLS = 40  # of one process each, as of a shell's loop

Kcat = Callable[..., str]


@pytest.fixture
def kcat(librdkafka: dict[str, Any], tmp_path: Path) -> Kcat:
    """Runs it with arguments and an input; its output."""
    program = KCAT.path
    assert program is not None, KCAT.remedy
    config = tmp_path / "kcat.conf"
    config.write_text("".join(f"{name}={value}\n" for name, value in librdkafka.items()))

    def run(*arguments: str, given: str = "") -> str:
        done = completed([program, "-F", str(config), "-q", *arguments], input=given)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def topic(server: ServerProcess, name: str, partitions: int = 1) -> None:
    made = rest(server, "POST", "topics", {"name": name, "partitions": partitions})
    assert made.status == 201


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_with_key_and_headers(
    kcat: Kcat, kafka_server: ServerProcess, codec: str
) -> None:
    name = f"kcat-{codec}"
    topic(kafka_server, name)
    lines = [f"k{number}:value {number} {'x' * 50}" for number in range(500)]
    kcat(
        "-P", "-t", name, "-K:", "-z", codec, "-H", "a=1", "-H", "b=two",
        given="\n".join(lines) + "\n",
    )  # fmt: skip
    found = [json.loads(line) for line in kcat("-C", "-J", "-e", "-t", name).splitlines()]
    assert [f"{each['key']}:{each['payload']}" for each in found] == lines
    assert [each["offset"] for each in found] == list(range(500))
    assert all(each["headers"] == ["a", "1", "b", "two"] for each in found)
    assert all(each["ts"] > 0 and each["tstype"] == "create" for each in found)


def test_it_reads_from_anywhere(kcat: Kcat, kafka_server: ServerProcess) -> None:
    topic(kafka_server, "kcat-anywhere")
    kcat("-P", "-t", "kcat-anywhere", given="\n".join("abcdef"))
    read = ("-C", "-e", "-t", "kcat-anywhere", "-p", "0")
    assert kcat(*read, "-o", "beginning").split() == list("abcdef")
    assert kcat(*read, "-o", "4").split() == ["e", "f"]
    assert kcat(*read, "-o", "-2").split() == ["e", "f"]
    assert kcat(*read, "-o", "end") == ""
    assert kcat(*read, "-c", "2").split() == ["a", "b"]


def test_null_values_and_keys_stay(kcat: Kcat, kafka_server: ServerProcess) -> None:
    topic(kafka_server, "kcat-nulls")
    kcat("-P", "-Z", "-t", "kcat-nulls", "-K:", given="gone:\n:kept\n")
    found = [json.loads(line) for line in kcat("-C", "-J", "-e", "-t", "kcat-nulls").splitlines()]
    assert [(each["key"], each["payload"]) for each in found] == [("gone", None), (None, "kept")]


def test_it_lists_servers_topics_and_leaders(kcat: Kcat, kafka_server: ServerProcess) -> None:
    topic(kafka_server, "kcat-listed", 3)
    shown = json.loads(kcat("-L", "-J", "-t", "kcat-listed"))
    (server,) = shown["brokers"]
    (listed,) = shown["topics"]
    assert listed["topic"] == "kcat-listed"
    assert [(each["partition"], each["leader"]) for each in listed["partitions"]] == [
        (number, server["id"]) for number in range(3)
    ]
    assert "kcat-listed" in {each["topic"] for each in json.loads(kcat("-L", "-J"))["topics"]}


def test_it_queries_offsets_by_time(
    kcat: Kcat, kafka_server: ServerProcess, librdkafka: dict[str, Any]
) -> None:
    topic(kafka_server, "kcat-queried")
    producer, now_ms = Producer(librdkafka), int(time.time() * 1_000)
    for age_s in (20, 10):
        producer.produce("kcat-queried", b"v", timestamp=now_ms - age_s * 1_000)
        assert producer.flush(limit_s()) == 0
    for when, offset in ((now_ms - 30_000, 0), (now_ms - 15_000, 1), (-2, 0), (-1, 2)):
        said = kcat("-Q", "-t", f"kcat-queried:0:{when}")
        assert said.strip() == f"kcat-queried [0] offset {offset}"


def test_a_group_of_it_commits_and_continues(kcat: Kcat, kafka_server: ServerProcess) -> None:
    topic(kafka_server, "kcat-group", 2)
    kcat("-P", "-t", "kcat-group", "-p", "1", given="\n".join("abcdef"))
    read = ("-G", "kcat", "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000")
    assert kcat(*read, "-c", "4", "kcat-group").split() == list("abcd")
    assert kcat(*read, "-c", "2", "kcat-group").split() == ["e", "f"]


def test_each_of_many_processes_succeeds(kcat: Kcat, kafka_server: ServerProcess) -> None:
    topic(kafka_server, "kcat-many")
    for number in range(CALLS):
        kcat("-P", "-t", "kcat-many", given=f"{number}\n")
    read = kcat("-C", "-e", "-t", "kcat-many", "-o", "beginning")
    assert read.split() == [str(number) for number in range(CALLS)]
