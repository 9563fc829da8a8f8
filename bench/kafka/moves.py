"""Benchmark of planned moves as clients of Kafka notice them, with their default settings.

usage: python -m bench.kafka.moves KIND JSON     a client, until its standard input ends

A client writes a line for each acknowledged or received message: wall-clock seconds, partition.
"""

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Final

import confluent_kafka

from bench.client import BenchTopic
from bench.cluster_plan import ClusterPlan
from bench.cluster_servers import Cluster, wait_until
from bench.failover_figures import ACK_TIMEOUT_S, p99, percentile
from bench.report import Figure
from bench.server import KEY_ID, SECRET
from opentalos.backends.jars import java, need_jars

GOAL_MS: Final = 200.0
PARTITIONS: Final = 12
PER_S: Final = 100  # messages of each partition and producer
LOOK_S: Final = 1.0  # after a move: until every client has followed
KEYS: Final = 48  # of the Java producer, so that every partition gets some
PRODUCER, CONSUMER, JAVA = "librdkafka producer", "librdkafka consumer", "Java producer"
_TURN_S: Final = 0.002


def planned_moves(plan: ClusterPlan) -> Iterator[Figure]:
    """Drain and undrain servers: the longest pause that each client sees of a moved partition.

    Those of partitions that stay, at the same time, are what the machine alone costs.
    """
    pauses: dict[str, list[float]] = {PRODUCER: [], CONSUMER: [], JAVA: []}
    stayed: dict[str, list[float]] = {client: [] for client in pauses}
    with Cluster(plan.work, plan.backends) as cluster:
        topic = cluster.create_topic("followed", PARTITIONS, durability="synced")
        with clients(cluster, plan.work) as files:
            for number in range(plan.drains):
                name = cluster.names[number % len(cluster.names)]
                for method in ("POST", "DELETE"):
                    moved, began_s, ended_s = _move(cluster, topic, method, name)
                    for client, file in files.items():
                        seen = ticks(file)
                        for partition, times in seen.items():
                            into = pauses if partition in moved else stayed
                            into[client].append(longest_pause_s(times, began_s, ended_s) * 1e3)
    for client, values in pauses.items():
        yield p99(f"planned move: longest pause of a {client}, P99", "ms", GOAL_MS, values)
        over = sum(value > GOAL_MS for value in values)
        notes: dict[str, float | str] = {"p90": percentile(values, 0.9), "over the goal": over}
        yield Figure(name=f"  {client}", unit="ms", values=values, notes=notes)
        others = stayed[client]
        notes = {"p90": percentile(others, 0.9), "p99": percentile(others, 0.99)}
        yield Figure(
            name=f"  {client}, partitions that stay", unit="ms", values=others, notes=notes
        )


def _move(
    cluster: Cluster, topic: BenchTopic, method: str, name: str
) -> tuple[list[int], float, float]:
    """A call that moves partitions away from a server or to it: which, and from when to when."""
    before = cluster.owners(topic)
    began_s = time.time()
    cluster.call(method, f"/rest/v1/cluster/servers/{name}/drain")

    def over() -> bool:
        status = cluster.status()
        empty = name not in cluster.owners(topic).values()
        return empty == (method == "POST") and not (status["moving"] or status["unassigned"])

    wait_until(over, f"{method} drain of {name} is done", ACK_TIMEOUT_S)
    time.sleep(LOOK_S)
    after = cluster.owners(topic)
    moved = [number for number in before if after[number] != before[number]]
    return moved, began_s, time.time()


def longest_pause_s(times: list[float], began_s: float, ended_s: float) -> float:
    """The longest time between two messages, of those that end in the span."""
    ends = [*times, ended_s]
    return max(later - max(earlier, began_s - LOOK_S) for earlier, later in pairwise(ends)
               if began_s <= later <= ended_s)  # fmt: skip


def ticks(file: Path) -> dict[int, list[float]]:
    """Times by partition that a client has written so far, in order."""
    found: dict[int, list[float]] = {number: [] for number in range(PARTITIONS)}
    for line in file.read_text().splitlines(keepends=True):
        if not line.endswith("\n"):
            continue
        if line.startswith("{"):
            event = json.loads(line)
            if event["name"] == "producer_send_success":
                found[event["partition"]].append(event["timestamp"] / 1e3)
        else:
            at_s, partition = line.split()
            found[int(partition)].append(float(at_s))
    return {number: sorted(times) for number, times in found.items()}


@contextmanager
def clients(cluster: Cluster, work: Path) -> Iterator[Mapping[str, Path]]:
    """Unmodified clients, once each has done something in every partition: what they write."""
    addresses = ",".join(
        json.loads((server.data / "server.json").read_text())["kafka"]
        for server in cluster.servers.values()
    )
    settings = {
        "bootstrap.servers": addresses,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": KEY_ID,
        "sasl.password": SECRET,
    }
    commands = {
        PRODUCER: [sys.executable, "-m", "bench.kafka.moves", "produce", json.dumps(settings)],
        CONSUMER: [sys.executable, "-m", "bench.kafka.moves", "consume", json.dumps(settings)],
        JAVA: _java(addresses, work),
    }
    files = {name: work / f"{name.replace(' ', '-')}.txt" for name in commands}
    with ExitStack() as undo:
        for name, command in commands.items():
            out: IO[bytes] = undo.enter_context(files[name].open("wb"))
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out)
            undo.callback(process.wait)
            undo.callback(process.kill)
        wait_until(
            lambda: all(all(ticks(file).values()) for file in files.values()),
            "every client reaches every partition",
            ACK_TIMEOUT_S,
        )
        yield files


def _java(addresses: str, work: Path) -> list[str]:
    """Kafka's own verifiable producer, idempotent as is its default."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config = work / "java.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="{KEY_ID}" password="{SECRET}";\n'
    )
    return [
        java(), "-Xmx256m", "-Dlog4j2.level=OFF", "-cp", f"{need_jars('kafka')}/*",
        "org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", addresses,
        "--topic", "followed", "--throughput", str(PER_S * PARTITIONS),
        "--repeating-keys", str(KEYS), "--command-config", str(config),
    ]  # fmt: skip


def _ended() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _produce(settings: dict[str, Any]) -> None:
    producer = confluent_kafka.Producer({**settings, "enable.idempotence": True})

    def done(error: Any, message: Any) -> None:
        if error is None:
            print(time.time(), message.partition(), flush=True)

    began_s, sent = time.monotonic(), 0
    while not _ended():
        due = int((time.monotonic() - began_s) * PER_S)
        for _ in range(sent, due):
            for partition in range(PARTITIONS):
                producer.produce("followed", b"m", partition=partition, on_delivery=done)
        sent = max(sent, due)
        producer.poll(_TURN_S)


def _consume(settings: dict[str, Any]) -> None:
    consumer = confluent_kafka.Consumer({**settings, "group.id": "unused"})
    latest = confluent_kafka.OFFSET_END
    consumer.assign(
        [confluent_kafka.TopicPartition("followed", number, latest) for number in range(PARTITIONS)]
    )
    while not _ended():
        message = consumer.poll(_TURN_S)
        if message is not None and message.error() is None:
            print(time.time(), message.partition(), flush=True)


if __name__ == "__main__":
    {"produce": _produce, "consume": _consume}[sys.argv[1]](json.loads(sys.argv[2]))
