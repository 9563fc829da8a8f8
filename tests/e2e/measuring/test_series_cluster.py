"""Series of a cluster: the servers' own measurements, put together by any of them."""

import asyncio
from pathlib import Path
from typing import Any

from tests.e2e.measured_cluster import measuring
from tests.e2e.memory_cluster import MemoryServer, memory_cluster, settled
from tests.e2e.rest.client import rest
from tests.waiting import eventually_async

from opentalos.broker.values import NewTopic

PARTITIONS = 12


async def asked(server: MemoryServer, path: str) -> dict[str, Any]:
    replied = await asyncio.to_thread(rest, server, "GET", path)
    assert replied.status == 200, replied
    found: dict[str, Any] = replied.document
    return found


def totals(found: dict[str, Any]) -> dict[str, float]:
    return {"/".join(line["labels"].values()): line["total"] for line in found["series"]}


async def wait_for(server: MemoryServer, path: str, wanted: dict[str, float]) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def complete() -> bool:
        found.update(await asked(server, path))
        return totals(found) == wanted

    await eventually_async(f"{server.name} knows all", complete, state=lambda: totals(found))
    return found


async def test_any_server_answers_for_all_and_names_those_that_do_not(tmp_path: Path) -> None:
    async with memory_cluster() as servers, measuring(servers, tmp_path):
        root = servers[0].broker.catalogs.principals.get("root")
        assert root is not None
        new = NewTopic(name="t", partitions=PARTITIONS)
        topic = await servers[0].broker.topics.create_topic(root, new)
        owners = await settled(servers, topic.uuid, PARTITIONS)
        for partition in range(PARTITIONS):
            sent = {"messages": [{"text": "x"}] * (partition + 1)}
            path = f"topics/t/partitions/{partition}/messages"
            done = await asyncio.to_thread(rest, servers[0], "POST", path, sent)
            assert done.status == 200, done
        everything = sum(range(1, PARTITIONS + 1))
        for server in servers:
            found = await wait_for(server, "series?metric=messages_in", {"": everything})
            assert {part["server"] for part in found["partial"]} <= {"s1", "s2", "s3"}
        by_partition = {str(number): number + 1.0 for number in range(PARTITIONS)}
        path = "series?metric=messages_in&topic=t&by=partition&limit=100&step_s=10"
        assert totals(await asked(servers[1], path)) == by_partition
        largest = await asked(servers[2], path.replace("100", "2"))
        rest_of_them = everything - 2 * PARTITIONS + 1
        assert totals(largest) == {"11": 12, "10": 11, str(PARTITIONS - 2): rest_of_them}
        by_server = {
            f"s{index + 1}": sum(n + 1.0 for n, owner in enumerate(owners) if owner == index)
            for index in sorted(set(owners))
        }
        found = totals(await asked(servers[0], "series?metric=messages_in&by=server"))
        assert {name: total for name, total in found.items() if total} == by_server
        await _check_ring(servers)
        await _check_silence(servers)


async def _check_ring(servers: list[MemoryServer]) -> None:
    ring = await asked(servers[0], "cluster/ring")
    assert set(ring["shares"]) == {"s1", "s2", "s3"}
    heavier = {"servers": {"s1": 1_024}}
    preview = await asyncio.to_thread(rest, servers[0], "POST", "cluster/ring/previews", heavier)
    assert preview.document["shares"]["s1"] > ring["shares"]["s1"] + 0.2
    unknown = {"servers": {"s9": 1}}
    replied = await asyncio.to_thread(rest, servers[0], "POST", "cluster/ring/previews", unknown)
    assert replied.status == 400


async def _check_silence(servers: list[MemoryServer]) -> None:
    """A server whose port is closed is named, in series and as an alarm."""

    async def well() -> bool:
        return bool((await asked(servers[0], "health"))["status"] == "ok")

    await eventually_async("no server raises an alarm", well)
    await servers[2].http.drain(0.0)
    found = await asked(servers[0], "series?metric=messages_in")
    assert "s3" in {part["server"] for part in found["partial"]}
    health = await asked(servers[0], "health")
    assert ("s3", "ServerDown") in {(each["server"], each["name"]) for each in health["alarms"]}
