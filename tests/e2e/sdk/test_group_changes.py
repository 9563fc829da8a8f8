"""Clean exits and new workers, with intervals as they are by default and longer leases."""

import subprocess
import time
from collections.abc import Iterator

import pytest
from tests.e2e.memory_cluster import memory_cluster, settled
from tests.e2e.sdk.conftest import config_of
from tests.server_process import ServerProcess

from opentalos.model.limits import GroupLimits
from opentalos.sdk import ClientConfig, SimpleProducer, TalosAdmin, TalosConsumer, aio

LEASE_S = 180.0
FAR_BELOW_A_LEASE_S = 60.0  # about 1 s on an idle machine, 20 s have been seen on a busy one
CONFIG = f"[group]\nlease_s = {LEASE_S}\n"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientConfig]:
    server = ServerProcess(tmp_path_factory.mktemp("group-server"), CONFIG).start()
    yield config_of(server.url)
    server.stop()


def filled(config: ClientConfig, topic: str, partitions: int) -> None:
    with TalosAdmin(config) as admin:
        admin.topics.create(topic, partitions=partitions)
    with SimpleProducer(config, topic) as producer:
        for partition in range(partitions):
            producer.put([b"1", b"2"], partition=partition)


def until_held(consumer: TalosConsumer, partitions: int) -> float:
    """Seconds until it holds so many."""
    began_s = time.monotonic()
    while len(consumer.assignment) != partitions:
        assert time.monotonic() - began_s < FAR_BELOW_A_LEASE_S, consumer.assignment
        consumer.poll(0.05)
    return time.monotonic() - began_s


def test_workers_come_and_go_without_waiting_for_a_lease(config: ClientConfig) -> None:
    filled(config, "come-and-go", 4)
    with TalosConsumer(config, "come-and-go", "g") as survivor:
        assert until_held(survivor, 4) < FAR_BELOW_A_LEASE_S
        with TalosConsumer(config, "come-and-go", "g") as other:
            assert until_held(survivor, 2) < FAR_BELOW_A_LEASE_S
            assert until_held(other, 2) < FAR_BELOW_A_LEASE_S
        assert until_held(survivor, 4) < FAR_BELOW_A_LEASE_S


def test_the_next_run_of_a_program_has_all_partitions_at_once(config: ClientConfig) -> None:
    filled(config, "run-again", 4)
    for _ in range(3):
        with TalosConsumer(config, "run-again", "again") as consumer:
            consumer.start()
            assert consumer.assignment == (0, 1, 2, 3)


def test_a_stopping_server_does_not_wait_for_idle_workers(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    server = ServerProcess(tmp_path_factory.mktemp("stopping")).start()
    config = config_of(server.url)
    filled(config, "idle", 1)
    consumer = TalosConsumer(config, "idle", "g")
    try:
        consumer.start()
        consumer.poll(1.0)
        server.stop()  # fails if requests under way outlast the drain time
    except subprocess.TimeoutExpired:
        server.kill()
        raise
    finally:
        consumer.close()


async def test_survivors_on_any_server_of_a_cluster_see_it() -> None:
    async with memory_cluster(group=GroupLimits(lease_s=LEASE_S)) as servers:
        configs = [config_of(f"http://127.0.0.1:{server.port}") for server in servers]
        async with aio.TalosAdmin(configs[0]) as admin:
            topic = await admin.topics.create("spread", partitions=6)
        await settled(servers, topic.resource.rsplit("#", 1)[1], 6)
        workers = [aio.TalosConsumer(each, "spread", "g") for each in configs]
        for worker in workers:
            await worker.start()
        await poll_until(workers, [2, 2, 2])
        await workers[0].close()
        await poll_until(workers[1:], [3, 3])
        await workers[1].close()
        await poll_until(workers[2:], [6])
        await workers[2].close()


async def poll_until(workers: list[aio.TalosConsumer], held: list[int]) -> None:
    until_s = time.monotonic() + FAR_BELOW_A_LEASE_S
    while [len(worker.assignment) for worker in workers] != held:
        assert time.monotonic() < until_s, [worker.assignment for worker in workers]
        for worker in workers:
            await worker.poll(0.05)
