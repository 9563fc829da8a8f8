"""Partitions that move while clients of Kafka write and read them, judged by the checker."""

import asyncio
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.e2e.kafka.test_history import PARTITIONS, TOPIC, Clients, check_group, read_whole
from tests.e2e.memory_cluster import MemoryServer, memory_cluster, settled
from tests.raw_client import RawTopic
from tests.server_process import ROOT_KEY
from tests.waiting import eventually_async

from opentalos.broker.cluster.kafka_nodes import node_number
from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.history import History, Recorder

MOVES = 4
KINDS = {"again": "put", "idempotent": "put-idempotent", "reader": "poll", "member": "group"}


def create(server: MemoryServer) -> str:
    client = server.client()
    try:
        topic = RawTopic.create(client, TOPIC, partitions=PARTITIONS)
        return str(topic.resource.topicTalosResourceName).rpartition("#")[2]
    finally:
        client.close()


def settings_of(servers: list[MemoryServer]) -> dict[str, Any]:
    return {
        "bootstrap.servers": ",".join(server.kafka_address for server in servers),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": ROOT_KEY.key_id,
        "sasl.password": ROOT_KEY.secret,
    }


async def moved(servers: list[MemoryServer], uuid: str) -> None:
    """Drain the server that leads partition 0, until others lead all of its partitions."""
    nodes = servers[0].broker.kafka_nodes
    leader = nodes.leaders(uuid, PARTITIONS).numbers[0]
    (leaving,) = (server for server in servers if node_number(server.name) == leader)
    root = leaving.broker.principals.key(ROOT_KEY.key_id)
    assert root is not None
    assert leaving.broker.cluster is not None
    await leaving.broker.cluster.drain(root.principal, leaving.name)
    await eventually_async(
        "others lead all partitions of the server that is drained",
        lambda: leader not in nodes.leaders(uuid, PARTITIONS).numbers,
    )
    await leaving.broker.cluster.undrain(root.principal, leaving.name)


def sizes(folder: Path) -> dict[Path, int]:
    """Bytes of each client's history so far."""
    return {path: path.stat().st_size for path in folder.glob("*.jsonl")}


async def progress(folder: Path) -> None:
    """Wait until every client has done something more."""
    before = sizes(folder)
    await eventually_async(
        "every client does something more",
        lambda: all(size > before[path] for path, size in sizes(folder).items()),
        state=lambda: f"{before} and now {sizes(folder)}",
    )


def judge(folder: Path) -> History:
    history = History.load(sorted(folder.glob("*.jsonl")))
    anomalies = check(history)
    assert not anomalies, "\n".join(map(str, anomalies))
    return history


async def test_moves_lose_nothing_and_idempotent_producers_store_once(tmp_path: Path) -> None:
    async with memory_cluster() as servers:
        uuid = await asyncio.to_thread(create, servers[0])
        await settled(servers, uuid, PARTITIONS)
        settings = settings_of(servers)
        clients = Clients(tmp_path, settings)
        epochs = []
        try:
            for partition in range(PARTITIONS):
                for name, kind in KINDS.items():
                    clients.start(name, kind, partition)
            await eventually_async(
                "every client begins", lambda: len(sizes(tmp_path)) == PARTITIONS * len(KINDS)
            )
            for _ in range(MOVES):
                await progress(tmp_path)
                await moved(servers, uuid)
                epochs.append(servers[0].broker.kafka_nodes.leaders(uuid, PARTITIONS).epoch)
                await settled(servers, uuid, PARTITIONS)
            await progress(tmp_path)
            await asyncio.to_thread(clients.leave)
            with (tmp_path / "final.jsonl").open("w") as sink:
                recorder = Recorder(time.monotonic, sink)
                for partition in range(PARTITIONS):
                    await asyncio.to_thread(read_whole, recorder, settings, partition)
            history = await asyncio.to_thread(judge, tmp_path)
            await asyncio.to_thread(check_group, history, settings)
        finally:
            clients.kill()
    assert all(before < after for before, after in pairwise(epochs))
    puts = [put for put in history.of("put") if put.args["idempotent"]]
    assert puts
    assert all(put.ok for put in puts)
