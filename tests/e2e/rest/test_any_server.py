"""REST at the wrong server of a cluster: answered as by the right one."""

import asyncio
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

from tests.e2e.memory_cluster import MemoryServer, memory_cluster, settled
from tests.e2e.rest.client import EventStream, Replied, rest
from tests.waiting import eventually_async

PARTITIONS = 24  # so many that every server has some


async def call(server: MemoryServer, method: str, path: str, document: Any = None,
               **headers: str) -> Replied:  # fmt: skip
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await asyncio.to_thread(rest, server, method, path, document, sent)


async def make_topic(servers: Sequence[MemoryServer]) -> None:
    new = {"name": "t", "partitions": PARTITIONS}
    made = await call(servers[0], "POST", "topics", new)
    assert made.status == 201, made
    uuid = made.document["resource"].rsplit("#", 1)[1]
    await settled(list(servers), uuid, PARTITIONS)


class Reading:
    """A worker that reads and commits at one server after the other."""

    def __init__(self, worker: str, servers: Sequence[MemoryServer]) -> None:
        self.seen: set[str] = set()
        self._worker, self._turns = worker, cycle(servers)

    async def is_complete(self) -> bool:
        """Whether every partition was seen after one more fetch."""
        server = next(self._turns)
        got = await call(server, "GET", f"{self._worker}/messages?encoding=text&wait_s=2")
        offsets: dict[str, int] = {}
        for message in got.document["messages"]:
            self.seen.add(message["text"])
            offsets[str(message["partition"])] = message["offset"]
        if offsets:
            done = await call(server, "POST", f"{self._worker}/commits", {"offsets": offsets})
            assert done.document["refused"] == []
        return len(self.seen) == PARTITIONS


async def test_any_server_puts_and_reads_any_partition() -> None:
    async with memory_cluster() as servers:
        await make_topic(servers)
        for partition in range(PARTITIONS):
            path = f"topics/t/partitions/{partition}/messages"
            for number, server in enumerate(servers):
                sent = {"messages": [{"text": f"{partition}-{number}"}]}
                assert (await call(server, "POST", path, sent)).status == 200
            for server in servers:
                got = await call(server, "GET", f"{path}?encoding=text")
                texts = [message["text"] for message in got.document["messages"]]
                assert texts == [f"{partition}-{number}" for number in range(len(servers))]
                assert got.headers["X-Request-Id"]
        for server in servers:
            anywhere = await call(server, "POST", "topics/t/messages", {"messages": [{"value": 1}]})
            assert anywhere.status == 200
            missing = await call(server, "GET", "topics/t/partitions/5/messages?offset=99")
            assert missing.document["title"] == "OffsetOutOfRange"
            shown = (await call(server, "GET", "topics/t/offsets")).document["partitions"]
            assert sum(item["next"] for item in shown) >= PARTITIONS * len(servers)


async def test_a_key_is_known_at_every_server() -> None:
    async with memory_cluster() as servers:
        await make_topic(servers)
        sent = {"messages": [{"text": "once"}]}
        for path in ("topics/t/messages", "topics/t/partitions/3/messages"):
            answers = [
                await call(server, "POST", path, sent, Idempotency_Key=f"k-{len(path)}")
                for server in (*servers, *servers)
            ]
            assert len({str(answer.document) for answer in answers}) == 1, answers
            other = {"messages": [{"text": "another"}]}
            for server in servers:
                refused = await call(server, "POST", path, other, Idempotency_Key=f"k-{len(path)}")
                assert (refused.status, refused.document["title"]) == (422, "KeyReused")
        shown = (await call(servers[0], "GET", "topics/t/offsets")).document["partitions"]
        assert sum(item["next"] for item in shown) == 2


async def test_a_worker_and_a_stream_read_the_partitions_of_all_servers() -> None:
    async with memory_cluster() as servers:
        await make_topic(servers)
        everything = sorted(str(partition) for partition in range(PARTITIONS))
        for text in everything:
            path = f"topics/t/partitions/{text}/messages"
            await call(servers[0], "POST", path, {"messages": [{"text": text}]})
        for number, server in enumerate(servers):
            group = f"topics/t/groups/g{number}"
            joined = (await call(server, "POST", f"{group}/workers")).document
            assert len(joined["partitions"]) == PARTITIONS
            worker = f"{group}/workers/{joined['worker']}"
            reading = Reading(worker, servers)
            await eventually_async("a message of every partition is read", reading.is_complete)
            assert sorted(reading.seen) == everything
            lag = (await call(servers[0], "GET", group)).document["lag"]
            assert lag == 0
            reset = await call(servers[1], "POST", f"{group}/reset", {"to": "start"})
            assert [partition["before"] for partition in reset.document["partitions"]] == [
                0
            ] * PARTITIONS

        def follow(server: MemoryServer) -> list[str]:
            path = "topics/t/events?from=start&encoding=text"
            with EventStream(server, path) as stream:
                return sorted(event.data["text"] for event in islice(stream, PARTITIONS))

        for server in servers:
            assert await asyncio.to_thread(follow, server) == everything
