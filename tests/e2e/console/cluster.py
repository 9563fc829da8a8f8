"""Three servers of one cluster with consoles and skewed traffic, in a loop of their own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.e2e.measured_cluster import measuring
from tests.e2e.memory_cluster import MemoryServer, memory_cluster, settled
from tests.e2e.rest.client import rest
from tests.waiting import eventually, limit_s

from opentalos.broker.values import NewTopic
from opentalos.model.settings.console import ConsoleSettings

PARTITIONS: Final = 24


async def serve(
    folder: Path, began: Callable[[list[MemoryServer]], None], ended: asyncio.Event
) -> None:
    """Until the end: servers that measure themselves, and a topic with more bytes in some
    partitions."""
    console = ConsoleSettings(enabled=True)
    async with memory_cluster(console=console) as servers, measuring(servers, folder):
        root = servers[0].broker.catalogs.principals.get("root")
        assert root is not None
        new = NewTopic(name="orders", partitions=PARTITIONS)
        topic = await servers[0].broker.topics.create_topic(root, new)
        await settled(servers, topic.uuid, PARTITIONS)
        for partition in range(PARTITIONS):
            sent = {"messages": [{"text": "x" * 500}] * (40 if partition % 5 == 0 else 4)}
            path = f"topics/orders/partitions/{partition}/messages"
            done = await asyncio.to_thread(rest, servers[0], "POST", path, sent)
            assert done.status == 200, done
        began(servers)
        await ended.wait()


@contextmanager
def running_cluster(folder: Path) -> Iterator[list[MemoryServer]]:
    """The servers, which listen on loopback while tests use a browser in another thread."""
    servers: list[MemoryServer] = []
    ready, loop = threading.Event(), asyncio.new_event_loop()
    ended = asyncio.Event()

    def began(started: list[MemoryServer]) -> None:
        servers.extend(started)
        ready.set()

    def run() -> None:
        try:
            loop.run_until_complete(serve(folder, began, ended))
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        eventually("the cluster starts", ready.is_set)
        assert servers, "the cluster ended at its start"
        yield servers
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(ended.set)
        thread.join(limit_s())
