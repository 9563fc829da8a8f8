"""A server without descriptors, or without threads: it answers, recovers and loses nothing."""

import http.client
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from tests.raw_client import RawClient, RawTopic, TalosError
from tests.server_process import TALOS, ServerProcess
from tests.waiting import answering, eventually, limit_s, stays

NOT_SERVING = 21
PARTITIONS = 200
CLIENTS = 20
# At the place where Python starts a thread, as if the system had refused it.
NO_THREADS = """
import os, threading
real = threading._start_new_thread
def start(*args):
    if os.path.exists(os.environ["NO_THREADS"]):
        raise RuntimeError("can't start new thread")
    return real(*args)
threading._start_new_thread = start
"""


@contextmanager
def descriptors(server: ServerProcess, count: int) -> Iterator[None]:
    """The process may not have more."""
    before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)


def used(server: ServerProcess) -> int:
    """The descriptors of the process."""
    return max(int(name) for name in os.listdir(f"/proc/{server.pid}/fd")) + 1


def asking(server: ServerProcess) -> socket.socket:
    """A new connection with a request."""
    client = socket.create_connection(("127.0.0.1", server.port), timeout=limit_s())
    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    return client


def answered(client: socket.socket) -> bool:
    """Whether it has an answer; with a client that does not block, by now."""
    try:
        return client.recv(12) == b"HTTP/1.1 200"
    except OSError:
        return False


def put(topic: RawTopic, acked: list[bytes], payload: bytes, partition: int = 0) -> int:
    """0: acknowledged; else the code of its error."""
    try:
        topic.put(payload, partition=partition)
    except TalosError as error:
        return error.code
    acked.append(payload)
    return 0


def put_at_last(topic: RawTopic, acked: list[bytes], payload: bytes, partition: int = 0) -> None:
    """Put, once the server has recovered."""
    codes = [0]

    def done() -> bool:
        codes[0] = put(topic, acked, payload, partition)
        return codes[0] == 0

    eventually("a put is no longer refused", done, state=lambda: f"code {codes[0]}")


def assert_at_last(topic: RawTopic, offset: int, payload: bytes, partition: int) -> None:
    """The message has this offset, once the partition is recovered."""
    get = answering(lambda: topic.get(offset, partition=partition), TalosError)
    block = eventually(f"partition {partition} is read", get).messageBlocks[0]
    assert (block.startMessageOffset, payload in block.messageBlock) == (offset, True)


def assert_holds(topic: RawTopic, acked: list[bytes]) -> None:
    """Every acknowledged message is there, and in order."""
    stored = b"|".join(block.messageBlock for block in topic.get(0).messageBlocks)
    places = [stored.find(payload) for payload in acked]
    assert -1 not in places, f"lost: {acked[places.index(-1)]!r}"
    assert places == sorted(places)


def wait_for_line(server: ServerProcess, text: str) -> None:
    """The server logged it."""
    path = server.folder / "server.stderr"
    eventually(f"the log has {text}", lambda: text in path.read_text(), state=server.stderr)


def limited(count: int) -> tuple[str, ...]:
    """How to start a server that may have so many descriptors from the beginning."""
    return ("sh", "-c", f'ulimit -n {count}; exec "$@"', "sh", str(TALOS), "serve")


def page(server: ServerProcess, path: str) -> str:
    """What it answers there."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=limit_s())
    with closing(connection):
        connection.request("GET", path)
        return connection.getresponse().read().decode()


# With none, files that are idle give theirs back; with fewer than used, that helps nobody.
@pytest.mark.parametrize(
    ("spare", "put_to_fresh"), [(0, 0), (None, NOT_SERVING)], ids=["none", "fewer than used"]
)
def test_a_server_without_descriptors_serves_what_it_can_and_recovers(
    tmp_path: Path, spare: int | None, put_to_fresh: int
) -> None:
    server = ServerProcess(tmp_path / "server").start()
    client, acked, late = RawClient(server.port), list[bytes](), list[bytes]()
    try:
        topic, fresh = RawTopic.create(client, "open"), RawTopic.create(client, "fresh")
        assert put(topic, acked, b"first-message") == 0
        count = 3 if spare is None else used(server) + spare
        with descriptors(server, count):
            taken = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
            with asking(server) as client_without:
                client_without.setblocking(False)
                stays("no new connection is served", lambda: not answered(client_without))
            for number in range(5):
                assert put(topic, acked, b"message-%d" % number) == 0
            assert put(fresh, late, b"early-message") == put_to_fresh
            wait_for_line(server, "no free descriptor")
            for number in range(5):
                assert put(topic, acked, b"further-message-%d" % number) == 0
        for connection in taken:
            connection.close()
        put_at_last(fresh, late, b"late-message")
        assert put(topic, acked, b"last-message") == 0
        with asking(server) as client_again:
            assert answered(client_again)
        wait_for_line(server, "descriptors are available again")
        assert_holds(topic, acked)
        assert_holds(fresh, late)
    finally:
        client.close()
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("count", "journal", "durability"),
    [(150, "on", "synced"), (150, "off", "flushed"), (100, "off", "synced")],
)
def test_more_partitions_than_descriptors_serve_after_a_kill(
    tmp_path: Path, count: int, journal: str, durability: str
) -> None:
    """Each opening needs a fence and a new file; none fails for want of a descriptor."""
    config = f'[log]\njournal = "{journal}"\n[metrics]\naccess = "open"\n'
    server = ServerProcess(tmp_path / "server", config, launcher=limited(count)).start()
    client = RawClient(server.port)
    try:
        topic = RawTopic.create(client, "t", partitions=PARTITIONS, durability=durability)
        for number in range(PARTITIONS):
            topic.put(b"before-%d" % number, partition=number)
        server.kill()
        client.close()
        server.start()
        with ExitStack() as others:
            for _ in range(CLIENTS - 1):  # connections that stay open
                assert answered(others.enter_context(asking(server)))
            for number in range(PARTITIONS):
                assert_at_last(topic, 0, b"before-%d" % number, partition=number)
                put_at_last(topic, [], b"after-%d" % number, partition=number)
                assert_at_last(topic, 1, b"after-%d" % number, partition=number)
            metrics, ready = page(server, "/metrics"), page(server, "/readyz")
        assert "opentalos_descriptors_exhausted_total 0.0" in metrics
        assert "descriptor" not in ready
        log = (server.folder / "server.stderr").read_text()
        assert log.count(f"the limit of {count} open files leaves") == 2  # a line for each start
        for trouble in ("Too many open files", "no free descriptor", "opening failed"):
            assert trouble not in log
    finally:
        client.close()
        assert server.stop() == 0


def test_a_limit_with_which_nothing_works_is_refused(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "server", launcher=limited(60))
    client = RawClient(0)
    try:
        with pytest.raises(AssertionError, match=r"may have 60 open files, .* at least 64"):
            server.start()
        server.launcher = limited(64)
        client.port = server.start().port
        topic, acked = RawTopic.create(client, "t"), list[bytes]()
        assert put(topic, acked, b"message") == 0
        assert_holds(topic, acked)
    finally:
        client.close()
        assert server.stop() == 0


def test_a_server_without_threads_refuses_as_not_stored_and_recovers(tmp_path: Path) -> None:
    refused = tmp_path / "refused"
    refused.touch()
    (tmp_path / "sitecustomize.py").write_text(NO_THREADS)
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = {"PYTHONPATH": path, "NO_THREADS": str(refused)}
    server = ServerProcess(tmp_path / "server", environment=environment)
    with pytest.raises(AssertionError, match="cannot start thread"):
        server.start()  # without a single thread it cannot, and says why
    refused.unlink()
    server.start()
    client, acked = RawClient(server.port), list[bytes]()
    try:
        topic = RawTopic.create(client, "t")
        refused.touch()
        assert put(topic, acked, b"first-message") in (0, NOT_SERVING)
        refused.unlink()
        put_at_last(topic, acked, b"last-message")
        assert_holds(topic, acked)
    finally:
        client.close()
        assert server.stop() == 0
