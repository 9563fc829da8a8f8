"""REST of tables in a cluster: any server answers, whoever owns the shard of a row."""

import asyncio
from functools import partial
from typing import Any

from tests.e2e.memory_cluster import MemoryServer, memory_cluster, settled
from tests.e2e.rest.client import Replied, rest
from tests.waiting import eventually_async

ROWS = 24  # so many that every server has some

TABLE = {
    "name": "t",
    "group": ["u"],
    "key": ["k"],
    "columns": {"u": "int64", "k": "string", "n": "int32"},
    "hashed": True,
    "shards": 8,
}


async def call(server: MemoryServer, method: str, path: str, document: Any = None) -> Replied:
    return await asyncio.to_thread(rest, server, method, path, document)


async def test_any_server_writes_reads_and_streams_any_row() -> None:
    async with memory_cluster() as servers:
        topic = await call(servers[0], "POST", "topics", {"name": "c", "partitions": 2})
        assert topic.status == 201, topic
        await settled(list(servers), topic.document["resource"].rsplit("#", 1)[1], 2)
        made = await call(servers[0], "POST", "tables", {**TABLE, "streams": {"c": {}}})
        assert made.status == 201, made
        for number in range(ROWS):
            row = {"u": number, "k": "a", "n": number}
            writer = servers[number % len(servers)]
            put = await call(writer, "POST", "tables/t/rows/put", {"row": row})
            assert (put.status, put.document) == (200, {"applied": True}), put
            for server in servers:
                key = {"key": {"u": number, "k": "a"}}
                got = await call(server, "POST", "tables/t/rows/get", key)
                assert got.document == {"row": row}, got
        for server in servers:
            page = (await call(server, "POST", "tables/t/rows/scan", {})).document
            assert sorted(item["n"] for item in page["rows"]) == list(range(ROWS))
            await eventually_async("the stream publishes every row", partial(published, server))
        await added_everywhere(servers[0], servers)


async def published(server: MemoryServer) -> bool:
    """Whether the stream's mark, at this server, covers every row."""
    mark = (await call(server, "GET", "tables/t/streams/c")).document["mark"]
    return mark is not None and sum(mark["offsets"].values()) >= ROWS


async def added_everywhere(server: MemoryServer, servers: Any) -> None:
    """What one server changes, all know when it answers."""
    changed = await call(server, "PATCH", "tables/t", {"columns": {"more": "bool"}})
    assert changed.status == 200, changed
    for number, other in enumerate(servers):
        row = {"u": number, "k": "b", "more": True}
        assert (await call(other, "POST", "tables/t/rows/put", {"row": row})).status == 200
