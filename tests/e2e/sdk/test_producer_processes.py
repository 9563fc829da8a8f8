"""TalosProducer in forked processes, and with the official SDK on the other side."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compat.conftest import Sdk
from tests.e2e.sdk.conftest import config_of
from tests.e2e.sdk.test_client_processes import KEY, PROGRAMS, run
from tests.server_process import ServerProcess
from tests.waiting import ended, limit_s

from opentalos.sdk import (
    ClientConfig,
    Compression,
    Message,
    ProducerSettings,
    SimpleConsumer,
    TalosAdmin,
    TalosProducer,
)

# The official Python SDK has no LZ4.
OFFICIAL = [Compression.NONE, Compression.SNAPPY, Compression.GZIP, Compression.ZSTD]


def test_a_forked_child_sends_only_what_it_has_put_itself(sdk_config: ClientConfig) -> None:
    with TalosAdmin(sdk_config) as admin:
        admin.topics.create("forked-producer", partitions=1)
    assert run("forking_producer", sdk_config.endpoints[0], KEY) == "statuses [0, 0]\n"
    with SimpleConsumer(sdk_config, "forked-producer") as consumer:
        found = [record.data for record in consumer.fetch(0, 0)]
    children = [b"child %d %b" % (number, text) for number in range(2) for text in (b"a", b"b")]
    assert sorted(found) == [*children, b"parent 0", b"parent 1"]


def leaving(url: str, topic: str, exit_s: str) -> subprocess.Popen[str]:
    """The script, once it has put everything and waits for a line."""
    program = subprocess.Popen(
        [sys.executable, str(PROGRAMS / "leaving_producer.py"), url, KEY, topic, exit_s],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    return program


def ends(program: "subprocess.Popen[str]") -> tuple[str, str]:
    """What the script prints, on both outputs, after the line that it waits for."""
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()
    ended(program, "the script ends")
    return program.communicate()


def test_a_producer_that_is_not_closed_sends_at_the_exit_and_warns(
    sdk_config: ClientConfig,
) -> None:
    with TalosAdmin(sdk_config) as admin:
        admin.topics.create("unclosed", partitions=1)
    out, err = ends(leaving(sdk_config.endpoints[0], "unclosed", f"{limit_s()}"))
    assert out == ""
    warning = "producer was not closed, sending its messages: topic=unclosed messages="
    assert sorted(line.split(" timeout_s")[0] for line in err.splitlines()) == [
        f"{warning}1",  # dropped
        f"{warning}2",  # kept; of what is flushed, there is nothing to say
    ]
    with SimpleConsumer(sdk_config, "unclosed") as consumer:
        found = sorted(record.data for record in consumer.fetch(0, 0))
    assert found == [b"dropped", b"flushed", b"kept 0", b"kept 1"]


def test_the_exit_waits_for_a_dead_server_within_its_bound_only(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path).start()
    with TalosAdmin(config_of(server.url)) as admin:
        admin.topics.create("unclosed", partitions=1)
    program = leaving(server.url, "unclosed", "0.5")
    server.kill()
    _, err = ends(program)
    assert "sending its messages: topic=unclosed messages=2 timeout_s=0.5" in err
    assert "messages lost: the producer was not closed: topic=unclosed" in err


@pytest.mark.parametrize("compression", OFFICIAL, ids=lambda case: case.name)
def test_the_official_consumer_reads_what_ours_puts(
    sdk_server: ServerProcess, tmp_path: Path, compression: Compression
) -> None:
    topic, config = f"to-official-{compression.name}", config_of(sdk_server.url)
    with TalosAdmin(config) as admin:
        admin.topics.create(topic, partitions=2)
    texts = [f"{compression.name} {number} " + "ü" * number for number in range(300)]
    settings = ProducerSettings(compression=compression, batch_messages_max=70)
    with TalosProducer(config, topic, settings) as producer:
        for number, text in enumerate(texts):
            producer.put(Message(text.encode(), f"key {number % 7}"))
    path = tmp_path / "final.jsonl"
    Sdk(sdk_server).run("load_final", topic=topic, partitions=2, history=str(path))
    read = [json.loads(line) for line in path.read_text().splitlines()]
    found = [
        text
        for line in read
        if line["event"] == "ok"
        for _, ids in line["result"]["blocks"]
        for text in ids
    ]
    assert sorted(found) == sorted(texts)


@pytest.mark.parametrize("compression", OFFICIAL, ids=lambda case: case.name)
def test_ours_reads_what_the_official_producer_puts(
    sdk_server: ServerProcess, compression: Compression
) -> None:
    topic, config = f"from-official-{compression.name}", config_of(sdk_server.url)
    with TalosAdmin(config) as admin:
        admin.topics.create(topic, partitions=2)
    texts = [f"{compression.name} {number} " + "ü" * number for number in range(100)]
    Sdk(sdk_server).run(
        "talos_producer",
        topic=topic,
        payloads=texts,
        config={"galaxy.talos.producer.compression.type": compression.name},
    )
    found: list[str] = []
    with SimpleConsumer(config, topic) as consumer:
        for partition, held in consumer.offsets().items():
            offset = 0
            while offset < held.next:
                records = consumer.fetch(partition, offset)
                found += [record.data.decode() for record in records]
                offset = records[-1].offset + 1
    assert sorted(found) == sorted(texts)
