"""CPU of a put on the loop's thread, without sockets, threads and disk; see README.md.

usage: python -m bench.put_path [--rounds N] [--encrypted] [--json]

Signed requests go into real connections, through gateway, broker and log, to files that only count
bytes; the transport takes the reply. What is left out are system calls and hand-overs of the
interpreter lock. The quickest rounds count, since nothing but other processes makes a round slower.
"""

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import uvloop

from bench.client import BenchTopic
from bench.garbage import Collections
from bench.server import KEY_ID, SECRET
from opentalos.adapters.data_key import AesGcmDataKey
from opentalos.adapters.memory import MemoryFileStore, MemoryMetaStore, MemoryRowStore
from opentalos.adapters.secret_box import AesGcmSecretBox
from opentalos.adapters.system_clock import SystemClock
from opentalos.broker.broker import BrokerConfig, EncryptionPlan, open_broker
from opentalos.broker.values import NewTopic
from opentalos.gateway.http.connection import HttpConnection
from opentalos.gateway.http.server import HttpServer
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.gateway.thrift_http.gateway import ThriftGateway
from opentalos.gateway.thrift_http.handlers import HANDLERS
from opentalos.model.limits import HttpLimits, MeteringSettings, QuotaLimits
from opentalos.model.message import Durability
from opentalos.server.measuring.collector import THRESHOLDS
from opentalos.wire._generated.topic import TopicTalosResourceName

PARTITIONS = 8
BLOCK_BYTES = 1024
NO_LIMIT = 1 << 40
GROUPS = (1, 8)  # blocks of a commit
PUTS_OF_A_ROUND = 2_000
_NEXT_TURN = partial(asyncio.sleep, 0)
QUICKEST_SHARE = 5  # the median of the quickest fifth counts


class CountingFile:
    """An AppendFile that keeps nothing; a commit gives way to the loop once."""

    thin = False

    def __init__(self) -> None:
        self._length = 0

    async def commit(
        self, chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int:
        """Count the bytes."""
        await asyncio.sleep(0)
        self._length += sum(map(len, chunks))
        return self._length

    async def close(self) -> int:
        """Nothing to do."""
        return self._length


class CountingFiles(MemoryFileStore):
    """A FileStore of such files."""

    async def create(self, path: str, *, durability: Durability) -> Any:
        """A file that nothing can be read from."""
        return CountingFile()


class Sink(asyncio.Transport):
    """Takes replies and counts them."""

    replies = 0

    def write(self, data: Any) -> None:
        """One reply, in one piece."""
        assert data.startswith(b"HTTP/1.1 200"), data
        Sink.replies += 1

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The client's address."""
        return ("127.0.0.1", 1) if name == "peername" else default

    def is_closing(self) -> bool:
        """Never."""
        return False


async def open_path(encrypted: bool) -> tuple[HttpServer, BenchTopic]:
    """A server without a port, and a topic."""
    clock = SystemClock()
    encryption = EncryptionPlan(
        boxes=[AesGcmSecretBox(clock.token(32))], sources=["bench"], make_key=AesGcmDataKey
    )
    quota = QuotaLimits(
        user_put_requests_per_s=NO_LIMIT,
        topic_put_requests_per_s=NO_LIMIT,
        user_put_bytes_per_s=NO_LIMIT,
        topic_put_bytes_per_s=NO_LIMIT,
        partition_put_bytes_per_s=NO_LIMIT,
    )
    config = BrokerConfig(
        server="s1",
        advertise="127.0.0.1:1",
        secret_box=AesGcmSecretBox(clock.token(32)),
        quota=quota,
        metering=MeteringSettings(),
        encryption=encryption if encrypted else None,
    )
    broker = open_broker(
        files=CountingFiles(),
        meta=MemoryMetaStore(),
        rows=MemoryRowStore(),
        clock=clock,
        config=config,
    )
    await broker.start()
    await broker.principals.ensure_root(KEY_ID, SECRET)
    root = broker.principals.key(KEY_ID)
    assert root is not None
    made = await broker.topics.create_topic(
        root.principal, NewTopic(name="puts", partitions=PARTITIONS)
    )
    gateway = ThriftGateway(broker, Authenticator(broker.principals, config.auth), HANDLERS)
    server = HttpServer(HttpLimits(), gateway.routes())
    server.tick()
    resource = TopicTalosResourceName(topicTalosResourceName=made.resource)
    return server, BenchTopic(made.name, resource, PARTITIONS)


class Load:
    """``group`` connections for each partition; a turn sends one put on each of them."""

    def __init__(self, server: HttpServer, topic: BenchTopic, group: int) -> None:
        self.puts = PARTITIONS * group
        self._connections = [HttpConnection(server) for _ in range(self.puts)]
        for connection in self._connections:
            connection.connection_made(Sink())
        requests = topic.put_requests(block_bytes=BLOCK_BYTES)
        self._turn = [
            (connection.data_received, requests[number % PARTITIONS])
            for number, connection in enumerate(self._connections)
        ]

    async def turn(self) -> None:
        """Send, and wait for all replies."""
        due = Sink.replies + self.puts
        for receive, request in self._turn:
            receive(bytes(memoryview(request)))  # a new object, as the socket's reader makes it
        while Sink.replies < due:
            await _NEXT_TURN()

    async def us_per_put(self) -> float:
        """CPU of this thread for one put, over one round."""
        turns = PUTS_OF_A_ROUND // self.puts
        began_ns = time.thread_time_ns()
        for _ in range(turns):
            await self.turn()
        return (time.thread_time_ns() - began_ns) / turns / self.puts / 1e3


async def measure(rounds: int, encrypted: bool) -> dict[str, Any]:
    """Microseconds per put by group size, per block and per group; collections."""
    server, topic = await open_path(encrypted)
    loads = {group: Load(server, topic, group) for group in GROUPS}
    for load in loads.values():  # opens the partitions, fills caches
        await load.us_per_put()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    collections = Collections()
    times: dict[int, list[float]] = {group: [] for group in GROUPS}
    for _ in range(rounds):
        for group, load in loads.items():
            times[group].append(await load.us_per_put())
    figures: dict[str, Any] = {}
    for group, values in times.items():
        values.sort()
        quickest = values[: max(1, len(values) // QUICKEST_SHARE)]
        figures[f"us_per_put_of_{group}"] = round(quickest[len(quickest) // 2], 2)
    alone, among = figures["us_per_put_of_1"], figures["us_per_put_of_8"]
    figures["us_per_group"] = round((alone - among) * 8 / 7, 2)
    figures["us_per_block"] = round(alone - figures["us_per_group"], 2)
    puts = 2 * rounds * PUTS_OF_A_ROUND
    figures["collections_per_million_puts"] = [round(n * 1e6 / puts, 1) for n in collections.counts]
    figures["collecting_us_per_put"] = round(collections.total_ms * 1e3 / puts, 3)
    figures["longest_collection_ms"] = round(collections.longest_ms, 3)
    return figures


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--encrypted", action="store_true", help="encryption at rest")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = uvloop.run(measure(given.rounds, given.encrypted))
    if given.json:
        json.dump(figures, sys.stdout)
        return
    for name, value in figures.items():
        print(f"{name:32} {value}")


if __name__ == "__main__":
    main()
