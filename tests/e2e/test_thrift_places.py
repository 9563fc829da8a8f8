"""Long polls of one tenant over real sockets: Thrift calls of others and administrators get in."""

import contextlib
import selectors
import socket
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.e2e.rest.client import authorization, rest
from tests.raw_client import COMPACT, RawClient, RawTopic, encode_call, idl, signed_headers
from tests.server_process import Key
from tests.waiting import eventually, limit_s

from opentalos.gateway.thrift_http import call_tasks
from opentalos.model.limits import MessageLimits
from opentalos.server.config import Config
from opentalos.testing import EmbeddedServer

PLACES, KEPT = 20, 4
SHARE = (PLACES - KEPT) // 2
POLLS = 24
WAIT_S = 4.0  # of a poll; nothing here takes so long
PATH = "/v1/api/message"


class World:
    """A server with few places, an attacker with a topic, and a victim."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.port = int(server.url.rpartition(":")[2])
        self.root = Key(server.key_id, server.secret)
        self.attacker, self.victim = self._user("mallory"), self._user("alice")
        client = RawClient(self.port, self.attacker)
        topic = RawTopic.create(client, "t")
        client.close()
        request = idl("message").GetMessageRequest(
            topicAndPartition=topic.partition(), messageOffset=0, sequenceId="s#1"
        )
        self.poll_body = encode_call("message", "getMessage", request)

    def _user(self, name: str) -> Key:
        server: Any = SimpleNamespace(port=self.port)
        headers = authorization(self.root)
        assert rest(server, "POST", "principals", {"id": name}, headers).status == 201
        issued = rest(server, "POST", f"principals/{name}/keys", headers=headers).document
        return Key(issued["key_id"], issued["secret"])

    def poll(self, *, half_closed: bool) -> socket.socket:
        """A getMessage at the end of the attacker's topic."""
        headers = signed_headers(PATH, self.poll_body, COMPACT, self.attacker)
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        length = f"Content-Length: {len(self.poll_body)}\r\n"
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{length}{''.join(lines)}\r\n"
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=limit_s())
        connection.sendall(head.encode() + self.poll_body)
        if half_closed:
            connection.shutdown(socket.SHUT_WR)
        return connection

    def topics(self, key: Key) -> int:
        """How many topics this caller sees."""
        client = RawClient(self.port, key)
        try:
            return len(client.call("topic", "listTopics", None).topicInfos)
        finally:
            client.close()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(call_tasks, "TASKS_MAX", PLACES)
    monkeypatch.setattr(call_tasks, "TASKS_KEPT", KEPT)
    config = Config(message=MessageLimits(get_wait_s=WAIT_S))
    with EmbeddedServer(config=config) as server:
        yield World(server)


def first_bytes(connections: list[socket.socket], count: int) -> list[bytes]:
    """What the first ``count`` connections get that are answered or closed; b"": closed."""
    found: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ)

        def enough() -> bool:
            for key, _ in selector.select(0):
                reply = b""
                with contextlib.suppress(ConnectionResetError):
                    reply = key.fileobj.recv(4096)  # type: ignore[union-attr]
                found.append(reply)
                selector.unregister(key.fileobj)
            return len(found) >= count

        what = f"{count} connections are answered or closed"
        eventually(what, enough, state=lambda: f"{len(found)} are")
    return found


def test_long_polls_of_one_tenant_leave_places_to_others(world: World) -> None:
    with contextlib.ExitStack() as stack:
        polls = [stack.enter_context(world.poll(half_closed=False)) for _ in range(POLLS)]
        assert world.topics(world.victim) == 0
        assert world.topics(world.root) == 0
        replies = first_bytes(polls, POLLS - SHARE)
        assert any(b"places are left for others" in reply for reply in replies)


def test_half_closed_long_polls_free_their_places_at_once(world: World) -> None:
    with contextlib.ExitStack() as stack:
        polls = [stack.enter_context(world.poll(half_closed=True)) for _ in range(POLLS)]
        assert world.topics(world.root) == 0
        assert world.topics(world.victim) == 0
        seen = Counter(reply[:12] for reply in first_bytes(polls, POLLS))
    # A poll that still waited would be answered. Some may be refused, before the others end.
    assert seen[b""] >= SHARE
    assert sum(seen.values()) == POLLS
    assert world.topics(world.attacker) == 1
