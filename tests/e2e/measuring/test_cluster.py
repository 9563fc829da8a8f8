"""In a cluster: every server puts into the service's topics, wherever their partitions are."""

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.e2e.measured_cluster import measuring
from tests.e2e.memory_cluster import MemoryServer, memory_cluster, settled
from tests.service_topics import messages_of
from tests.waiting import eventually_async

from opentalos.model.errors import TopicNotExist, Unavailable
from opentalos.model.names import METRICS_TOPIC, SYSTEM_TENANT, USAGE_TOPIC
from opentalos.wire.metrics.measurement import Measurement, decode_measurement


async def test_puts_of_all_servers_arrive_once() -> None:
    async with memory_cluster() as servers:
        topics = await asyncio.gather(
            *(server.broker.system_topics.ensure(USAGE_TOPIC) for server in servers)
        )
        assert len({topic.uuid for topic in topics}) == 1  # made at the same time, and once
        # Wherever its partitions lie, two of the three servers put into them from elsewhere.
        await settled(servers, topics[0].uuid, topics[0].partitions)
        for number in range(12):
            await asyncio.gather(
                *(
                    server.broker.system_topics.put(
                        USAGE_TOPIC, [f"{server.name}-{number}".encode()], key=f"key-{number}"
                    )
                    for server in servers
                )
            )
        found = Counter(await messages_of(servers[0].broker, USAGE_TOPIC))
    assert set(found.values()) == {1}
    assert len(found) == 36


async def test_every_server_measures_and_continues_without_another(tmp_path: Path) -> None:
    async with memory_cluster() as servers, measuring(servers, tmp_path):
        rows = await _rows(servers[0], {"s1", "s2", "s3"}, 0)
        assert {row.cluster for row in rows} == {"c1"}
        assert {row.tenant for row in rows} == {""}  # no traffic but the service's own
        assert SYSTEM_TENANT not in {row.tenant for row in rows}
        newest_ms = max(row.at_ms for row in rows)
        await servers[2].broker.close()
        left = await _rows(servers[0], {"s1", "s2"}, newest_ms + 1_000)
        assert {"s1", "s2"} <= {row.machine for row in left if row.at_ms > newest_ms + 1_000}


async def _rows(server: MemoryServer, machines: set[str], after_ms: int) -> list[Measurement]:
    """All rows, once each of the machines has one after that time."""
    rows: list[Measurement] = []

    async def measured() -> bool:
        with suppress(TopicNotExist, Unavailable):  # not made yet; partitions on their way
            events = await messages_of(server.broker, METRICS_TOPIC)
            rows[:] = [decode_measurement(event) for event in events]
        return machines <= {row.machine for row in rows if row.at_ms > after_ms}

    await eventually_async(f"{machines} measure", measured, state=lambda: rows[-3:])
    return rows
