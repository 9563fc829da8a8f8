"""The workload of producers of one kind: one topic, a reader, faults, and the final reads."""

import asyncio
from collections.abc import Callable, Sequence

from opentalos.testing.simulation.clients.message_clients import Actor, LiveTopic, Producer, Reader
from opentalos.testing.simulation.clients.topics.admin import Admin
from opentalos.testing.simulation.clients.workload import Auditor
from opentalos.testing.simulation.world.world import World


async def one_topic_workload(
    world: World, producers: Callable[[list[LiveTopic]], Sequence[Producer]]
) -> None:
    """Faults, then healing, probes, a crash, and the final reads."""
    await world.start_server()
    topics: list[LiveTopic] = []
    topics.append(await Admin(world, topics).create("synced", partitions=2, flushed=False))
    clients: list[Actor] = [*producers(topics), Reader(world, "reader", topics)]
    running = [asyncio.create_task(each.run(), name=each.name) for each in clients]
    await world.inject_faults()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await world.heal()
    auditor = Auditor(world, topics)
    await auditor.probe()
    await world.crash()
    await world.start_server()
    await auditor.read_all()
    await auditor.read_usage()
    await world.stop_server()
    await auditor.verify()
