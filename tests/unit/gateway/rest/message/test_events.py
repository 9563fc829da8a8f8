"""Streams of events without sockets: bounds, and when they end."""

import asyncio
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.gateway.rest.support import Rest
from tests.unit.gateway.rest.topic.test_topics import alice
from tests.waiting import within_limit

from opentalos.broker.messaging.plain_messages import Bounds
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.slots import Slots
from opentalos.model.errors import ExcessivePending

PATH = b"/rest/v1/topics/t/events?encoding=text&from=start"


class Stream:
    """Keeps what is written; ``room`` is taken away to be a client that does not read."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.room, self.closed = asyncio.Event(), asyncio.Event()
        self.room.set()
        self._news = asyncio.Event()

    async def write(self, data: bytes) -> None:
        await self.room.wait()
        self.written.append(data)
        self._news.set()

    async def news(self) -> None:
        """Until something more is written."""
        self._news.clear()
        await self._news.wait()

    def close(self) -> None:
        self.closed.set()

    async def ended(self) -> bytes:
        """Everything, once the stream was closed."""
        async with within_limit("the stream is closed"):
            await self.closed.wait()
        return b"".join(self.written)


def follow(call: Rest, path: bytes = PATH, resume: bytes = b"") -> tuple[Exchange, Stream]:
    stream = Stream()
    connection: Any = SimpleNamespace(
        answer_stream=lambda exchange, kind, extra: stream,
        extend=lambda seconds, waits=False: None,
        alive=True,
        peer="",
        network="",
        private=True,
    )
    headers = {b"authorization": b"Basic " + call.tokens["alice"]}
    if resume:
        headers[b"last-event-id"] = resume
    exchange = Exchange(connection, b"GET", path, headers)
    dict(call.gateway.prefix_routes())[b"/rest/v1/"](exchange)
    return exchange, stream


async def until(stream: Stream, text: bytes) -> None:
    async with within_limit("the stream has the text"):
        while text not in b"".join(stream.written):
            await stream.news()


async def put(call: Rest, *texts: str) -> None:
    sent = {"messages": [{"text": text} for text in texts]}
    await call("POST", "topics/t/messages", sent, by="alice")


@pytest.fixture(autouse=True)
async def topic(call: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentalos.gateway.rest.message.events.BEAT_S", 0.05)
    await call.world.topic(alice(call))


async def test_a_stream_ends_when_its_key_is_disabled(call: Rest) -> None:
    await put(call, "a")
    _, stream = follow(call)
    await until(stream, b'"text": "a"')
    await until(stream, b"\n\n:\n\n")  # it lives on without messages
    await call("PATCH", "principals/alice", {"disabled": True})
    assert b'"title": "InvalidCredential"' in await stream.ended()


@pytest.mark.parametrize("event", ["late", "drained"])
async def test_a_stream_ends_when_its_reader_leaves_or_the_server_stops(
    call: Rest, event: str
) -> None:
    exchange, stream = follow(call)
    await until(stream, b"retry: ")
    end = getattr(exchange, event)
    end() if event == "drained" else end(None)
    await stream.ended()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not call.world.broker.plain_messages._followed
    assert call.gateway._streams.used == 0


async def test_a_client_that_does_not_read_holds_up_the_readers(
    call: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "opentalos.gateway.rest.message.events.BATCH", Bounds(messages_max=1, bytes_max=100)
    )
    monkeypatch.setattr("opentalos.gateway.rest.message.events.BATCHES_MAX", 2)
    reads: list[int] = []
    get = call.world.broker.plain_messages.get_anywhere

    async def counted(caller: Any, resource: str, spot: Any, *how: Any) -> Any:
        reads.append(spot.offset)
        return await get(caller, resource, spot, how[0], how[1])

    monkeypatch.setattr(call.world.broker.plain_messages, "get_anywhere", counted)
    monkeypatch.setattr("opentalos.gateway.rest.message.events.BEAT_S", 5.0)
    await put(call, *map(str, range(10)))
    _, stream = follow(call, PATH + b"&limit_s=2")
    stream.room.clear()
    await asyncio.sleep(0.3)
    assert len(reads) <= 4  # one that is written, two in the queue, one that waits for room
    stream.room.set()
    await until(stream, b'"text": "9"')
    assert b"id: 0:10\n" in await stream.ended()


async def test_so_many_partitions_are_followed_at_once(
    call: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.broker.messaging.plain_messages.FOLLOWED_MAX", 1)
    _, stream = follow(call)
    await until(stream, b"retry: ")
    refused = await call("GET", "topics/t/events", by="alice")
    assert (refused.status, refused.document["title"]) == (503, "ExcessivePending")
    monkeypatch.setattr(call.gateway, "_streams", Slots("streams", 0, 0))
    refused = await call("GET", "topics/t/events", by="alice")
    assert (refused.status, refused.document["retry_safe"]) == (503, True)
    await call("DELETE", "topics/t", by="alice")
    assert b'"title": "TopicNotExist"' in await stream.ended()


async def test_a_tenant_follows_as_many_partitions_as_stay_free_for_others(
    call: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.broker.messaging.plain_messages.FOLLOWED_MAX", 9)
    following = call.world.broker.plain_messages.following
    with ExitStack() as streams:
        for tenant, partitions in (("alice", 3), ("bob", 3), ("carol", 3)):
            streams.enter_context(following(tenant, partitions))
            with pytest.raises(ExcessivePending, match=f"of {tenant} 3"):
                streams.enter_context(following(tenant, 3))
        with pytest.raises(ExcessivePending, match="of dora 0"):
            streams.enter_context(following("dora", 1))
    with following("alice", 9):
        pass


async def test_a_reader_that_fails_ends_the_stream(
    call: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr(call.world.broker.plain_messages, "get_anywhere", broken)
    _, stream = follow(call)
    assert b"event: error" in await stream.ended()


async def test_a_stream_ends_when_partitions_are_added_and_resumes_with_them(call: Rest) -> None:
    await put(call, "a")
    _, stream = follow(call)
    await until(stream, b"id: 0:1\n")
    await call("PATCH", "topics/t", {"partitions": 2}, by="alice")
    await stream.ended()
    path = "topics/t/partitions/1/messages"
    await call("POST", path, {"messages": [{"text": "new"}]}, by="alice")
    _, again = follow(call, resume=b"0:1")
    await until(again, b"id: 0:1,1:1\n")
    assert b'"text": "a"' not in b"".join(again.written)


async def test_a_busy_stream_checks_its_key_as_well(call: Rest) -> None:
    _, stream = follow(call)
    await until(stream, b"retry: ")
    await call("PATCH", "principals/alice", {"disabled": True})
    for number in range(200):
        if stream.closed.is_set():
            break
        sent = {"messages": [{"text": str(number)}]}
        await call("POST", "topics/alice%2Ft/messages", sent)
        await asyncio.sleep(0.005)
    await stream.ended()
