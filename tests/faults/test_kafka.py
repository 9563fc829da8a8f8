"""Unmodified clients of Kafka while servers of a real cluster are killed and drained."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cluster_processes import ClusterProcesses
from tests.e2e.kafka.test_history import PARTITIONS, TOPIC, Clients, check_group, read_whole
from tests.e2e.rest.client import rest
from tests.raw_client import RawClient, RawTopic
from tests.server_process import ROOT_KEY
from tests.waiting import eventually

from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.history import History, Recorder

pytestmark = pytest.mark.backend

KINDS = {"again": "put", "idempotent": "put-idempotent", "reader": "poll", "member": "group"}


def settings_of(cluster: ClusterProcesses) -> dict[str, Any]:
    """Servers that are started again have another port: clients learn of it from the others."""
    records = [
        json.loads((item.data / "server.json").read_text()) for item in cluster.servers.values()
    ]
    return {
        "bootstrap.servers": ",".join(record["kafka"] for record in records),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": ROOT_KEY.key_id,
        "sasl.password": ROOT_KEY.secret,
    }


def created(cluster: ClusterProcesses) -> str:
    client = RawClient(cluster.servers["s1"].port)
    try:
        topic = RawTopic.create(client, TOPIC, partitions=PARTITIONS)
        return str(topic.resource.topicTalosResourceName)
    finally:
        client.close()


def wait_progress(folder: Path) -> None:
    """Until every client has done something more."""
    before = {path: path.stat().st_size for path in folder.glob("*.jsonl")}

    def waiting() -> list[str]:
        return [path.stem for path, size in before.items() if path.stat().st_size <= size]

    eventually("every client of Kafka continues", lambda: not waiting(), state=waiting)


def drained(cluster: ClusterProcesses, resource: str) -> None:
    """Drain the server of partition 0, and let it take part again."""
    leaving = cluster.owners(resource)[0]
    path = f"cluster/servers/{leaving}/drain"
    server = cluster.servers[cluster.running[0]]
    assert rest(server, "POST", path).status in (200, 204)
    eventually(f"{leaving} is empty", lambda: leaving not in cluster.owners(resource).values())
    assert rest(server, "DELETE", path).status in (200, 204)
    cluster.wait_settled()


def test_kills_and_moves_lose_nothing_and_idempotent_producers_store_once(
    cluster: ClusterProcesses, tmp_path: Path, full: bool
) -> None:
    resource, settings = created(cluster), settings_of(cluster)
    eventually("the topic is assigned", lambda: len(cluster.owners(resource)) == PARTITIONS)
    clients = Clients(tmp_path, settings)
    try:
        for partition in range(PARTITIONS):
            for name, kind in KINDS.items():
                clients.start(name, kind, partition)
        eventually(
            "the clients run",
            lambda: len(list(tmp_path.glob("*.jsonl"))) == PARTITIONS * len(KINDS),
        )
        for _ in range(5 if full else 1):
            wait_progress(tmp_path)
            drained(cluster, resource)
            wait_progress(tmp_path)
            victim = cluster.owners(resource)[0]
            cluster.kill(victim)
            wait_progress(tmp_path)  # before it is back
            cluster.start(victim)
            cluster.wait_settled()
        wait_progress(tmp_path)
        settings = settings_of(cluster)
        clients.leave()
        with (tmp_path / "final.jsonl").open("w") as sink:
            recorder = Recorder(time.monotonic, sink)
            for partition in range(PARTITIONS):
                read_whole(recorder, settings, partition)
    finally:
        clients.kill()
    history = History.load(sorted(tmp_path.glob("*.jsonl")))
    anomalies = check(history)
    assert not anomalies, "\n".join(map(str, anomalies))
    check_group(history, settings)
    puts = [put for put in history.of("put") if put.args["idempotent"]]
    assert puts
    assert all(put.ok for put in puts), clients.errors()
