"""Clean exits and new workers, with intervals as they are by default and longer leases."""

import pytest
from tests.e2e.memory_cluster import memory_cluster, settled
from tests.e2e.sdk.conftest import config_of
from tests.server_process import ServerProcess
from tests.shared_servers import SharedServers
from tests.waiting import eventually, eventually_async

from opentalos.model.limits import GroupLimits
from opentalos.sdk import ClientConfig, SimpleProducer, TalosAdmin, TalosConsumer, aio

LEASE_S = 86_400.0  # beyond the limit of any wait, so what is waited for needs no lease to end
CONFIG = f"[group]\nlease_s = {LEASE_S}\n"


@pytest.fixture
def config(servers: SharedServers) -> ClientConfig:
    return config_of(servers.get(CONFIG).url)


def filled(config: ClientConfig, topic: str, partitions: int) -> None:
    with TalosAdmin(config) as admin:
        admin.topics.create(topic, partitions=partitions)
    with SimpleProducer(config, topic) as producer:
        for partition in range(partitions):
            producer.put([b"1", b"2"], partition=partition)


def until_held(consumer: TalosConsumer, partitions: int) -> None:
    """Poll until it holds so many."""

    def holds_them() -> bool:
        consumer.poll(0.05)
        return len(consumer.assignment) == partitions

    what = f"the worker holds {partitions} partitions"
    eventually(what, holds_them, state=lambda: consumer.assignment)


def test_workers_come_and_go_without_waiting_for_a_lease(config: ClientConfig) -> None:
    filled(config, "come-and-go", 4)
    with TalosConsumer(config, "come-and-go", "g") as survivor:
        until_held(survivor, 4)
        with TalosConsumer(config, "come-and-go", "g") as other:
            until_held(survivor, 2)
            until_held(other, 2)
        until_held(survivor, 4)


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
        assert server.stop() == 0
    finally:
        server.kill()
        consumer.close()
    assert "drain time exceeded" not in server.stderr()


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
    async def held_by_all() -> bool:
        for worker in workers:
            await worker.poll(0.05)
        return [len(worker.assignment) for worker in workers] == held

    def assignments() -> list[tuple[int, ...]]:
        return [worker.assignment for worker in workers]

    await eventually_async(f"the workers hold {held} partitions", held_by_all, state=assignments)
