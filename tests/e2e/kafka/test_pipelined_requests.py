"""Many requests in one packet: each is answered, in order, however many there are."""

import json
import socket
from collections.abc import Iterator

import pytest
from tests.server_process import ServerProcess
from tests.shared_servers import SharedServers
from tests.waiting import limit_s

from opentalos.wire.kafka.apis import SIZE, ApiKey, api_of, read_response, write_request
from opentalos.wire.kafka.codec import Cursor

REQUESTS = 500  # more than a connection has in work


@pytest.fixture
def server(servers: SharedServers) -> ServerProcess:
    return servers.get()


def address(server: ServerProcess) -> tuple[str, int]:
    """Of the port for Kafka's clients."""
    record = json.loads((server.data / "server.json").read_text())
    host, _, port = record["kafka"].rpartition(":")
    return host, int(port)


def answers(source: socket.socket, count: int) -> Iterator[bytes]:
    """So many frames, without their sizes."""
    with source.makefile("rb") as stream:
        for _ in range(count):
            (size,) = SIZE.unpack(stream.read(SIZE.size))
            yield stream.read(size)


@pytest.mark.parametrize("at_once", [1, 16, 17, REQUESTS])
def test_requests_that_arrive_together_are_all_answered(
    server: ServerProcess, at_once: int
) -> None:
    api = api_of(ApiKey.API_VERSIONS)
    raw = [write_request(api, 0, api.request(), number) for number in range(REQUESTS)]
    with socket.create_connection(address(server), timeout=limit_s()) as client:
        for begin in range(0, REQUESTS, at_once):
            some = raw[begin : begin + at_once]
            client.sendall(b"".join(some))
            for number, frame in enumerate(answers(client, len(some)), begin):
                assert read_response(api, 0, Cursor(frame))[0] == number
