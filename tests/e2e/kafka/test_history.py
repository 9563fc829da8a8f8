"""confluent-kafka in processes while its server is killed with SIGKILL, judged by the checker."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import confluent_kafka
from tests.e2e.sdk.conftest import config_of
from tests.kafka_client import GROUP, blocks_of
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import elapse, ended, eventually, limit_s

from opentalos.backends.ports import free_ports
from opentalos.sdk import Client, TalosAdmin
from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.history import History, Recorder

KILLS = int(os.environ.get("OPENTALOS_KILLS", "4"))

ROOT = Path(__file__).parents[3]
TOPIC = "history"
PARTITIONS = 2
KINDS = {"once": "put", "again": "put", "idempotent": "put-idempotent", "reader": "poll"}
LOAD_S = (0.5, 1.5)  # between a restart and the next kill


class Clients:
    """Processes of clients."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self._settings = folder, settings
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, kind: str, partition: int) -> None:
        given = {
            "name": f"{name}-{partition}",
            "kind": kind,
            "topic": TOPIC,
            "partition": partition,
            "settings": self._settings,
            "file": str(self.folder / f"{name}-{partition}.jsonl"),
        }
        command = [sys.executable, "-m", "tests.kafka_client", json.dumps(given)]
        with (self.folder / f"{name}-{partition}.stderr").open("wb") as stderr:
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=stderr)
        self._processes.append(process)

    def leave(self) -> None:
        """End all, each after its last outcome."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            assert ended(process, "a client leaves") == 0, self.errors()

    def errors(self) -> str:
        return "\n".join(path.read_text()[-2_000:] for path in self.folder.glob("*.stderr"))

    def kill(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def settings_of(server: ServerProcess) -> dict[str, Any]:
    record = json.loads((server.data / "server.json").read_text())
    return {
        "bootstrap.servers": record["kafka"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": ROOT_KEY.key_id,
        "sasl.password": ROOT_KEY.secret,
    }


def read_whole(recorder: Recorder, settings: dict[str, Any], partition: int) -> None:
    """The last word on what a partition holds."""
    consumer = confluent_kafka.Consumer(settings | {"group.id": "final"})
    place = confluent_kafka.TopicPartition(TOPIC, partition, 0)
    args = {"topic": TOPIC, "partition": partition, "final": True, "healed": True}
    read = recorder.invoke("final", "read", offset=0, **args)
    start, following = consumer.get_watermark_offsets(place, timeout=limit_s())
    consumer.assign([place])
    blocks: list[object] = []
    offset = start

    def at_the_end() -> bool:
        nonlocal offset
        some = consumer.consume(500, 1.0)
        blocks.extend(blocks_of(some))
        offset = max([offset, *((message.offset() or 0) + 1 for message in some)])
        return offset >= following

    if offset < following:
        eventually(
            "the consumer reads to the end",
            at_the_end,
            state=lambda: f"it is at {offset} of {following}",
        )
    consumer.close()
    assert offset == following
    recorder.ok(read, blocks=blocks, start=start, next=following)


def check_group(history: History, settings: dict[str, Any]) -> None:
    """Whatever is below a committed offset was given to a member of the group."""
    consumer = confluent_kafka.Consumer(settings | {"group.id": GROUP})
    places = [confluent_kafka.TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    committed = consumer.committed(places, timeout=limit_s())
    consumer.close()
    for place in committed:
        given = {
            block[0]
            for poll in history.of("poll")
            if poll.process.startswith("member-") and poll.args["partition"] == place.partition
            for block in poll.result["blocks"]
        }
        assert place.offset > 0, f"partition {place.partition} was not read"
        assert given >= set(range(place.offset))


def all_began(folder: Path) -> bool:
    """Every client has put or read a message."""
    done = History.load(folder.glob("*.jsonl")).operations
    names = {item.process for item in done if item.ok and item.result.get("blocks") != []}
    return names >= {f"{name}-{partition}" for name in KINDS for partition in range(PARTITIONS)}


def test_kills_lose_nothing_and_idempotent_producers_store_once(tmp_path: Path) -> None:
    config = f'[kafka]\nlisten = "127.0.0.1:{free_ports(1)[0]}"\n'
    server, source = ServerProcess(tmp_path / "server", config).start(), random.Random(0)
    settings = settings_of(server)
    clients = Clients(tmp_path, settings)
    try:
        with Client(config_of(server.url)) as client:
            TalosAdmin(client).topics.create(TOPIC, partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            for name, kind in KINDS.items():
                clients.start(name, kind, partition)
        eventually("every client does something", lambda: all_began(tmp_path))
        for _ in range(KILLS):
            elapse("a kill may come at any moment of the load", source.uniform(*LOAD_S))
            server.kill()
            server.start()
        elapse("clients continue after the last kill", LOAD_S[1])
        clients.leave()
        with (tmp_path / "final.jsonl").open("w") as sink:
            recorder = Recorder(time.monotonic, sink)
            for partition in range(PARTITIONS):
                read_whole(recorder, settings, partition)
    finally:
        clients.kill()
        server.kill()
    history = History.load(sorted(tmp_path.glob("*.jsonl")))
    anomalies = check(history)
    assert not anomalies, "\n".join(map(str, anomalies))
    for name in KINDS:
        some = [item for item in history.operations if item.process.startswith(f"{name}-")]
        assert any(item.ok and item.result for item in some), f"{name} did nothing"
