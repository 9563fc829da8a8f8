"""Server-sent events of a real server: follow, resume, slow clients, the server's end."""

import http.client
import socket
import ssl
import threading
from itertools import islice
from pathlib import Path

from tests.e2e.rest.client import EventStream, authorization, figure, rest
from tests.server_process import ServerProcess
from tests.tls_files import TlsFolder
from tests.waiting import eventually, limit_s

BUFFER_BYTES = 4 << 10
MESSAGES = 40
MESSAGE_BYTES = 100_000


def put(server: ServerProcess, partition: int, *texts: str) -> None:
    sent = {"messages": [{"text": text} for text in texts]}
    path = f"topics/t/partitions/{partition}/messages"
    assert rest(server, "POST", path, sent).status == 200


def texts(stream: EventStream, count: int) -> list[str]:
    return sorted(event.data["text"] for event in islice(stream, count))


def test_a_stream_follows_and_resumes_where_it_was(server: ServerProcess) -> None:
    rest(server, "POST", "topics", {"name": "t", "partitions": 2})
    put(server, 0, "before")
    with EventStream(server, "topics/t/events?encoding=text") as stream:
        assert stream.reply.status == 200
        assert stream.reply.headers["Content-Type"] == "text/event-stream"
        put(server, 0, "a", "b")
        put(server, 1, "c")
        events = list(islice(stream, 3))
    assert sorted(event.data["text"] for event in events) == ["a", "b", "c"]
    put(server, 1, "d")
    put(server, 0, "e")
    resume = {"Last-Event-ID": events[-1].id}
    with EventStream(server, "topics/t/events?encoding=text", resume) as again:
        assert texts(again, 2) == ["d", "e"]
    path = "topics/t/events?encoding=text&limit_s=1"
    with EventStream(server, f"{path}&from=start") as everything:
        assert texts(everything, MESSAGES) == ["a", "b", "before", *"cde"]
    with EventStream(server, f"{path}&from=0&partition=1") as one:
        assert texts(one, MESSAGES) == ["c", "d"]


def test_what_cannot_be_followed_is_refused_before_the_stream(server: ServerProcess) -> None:
    rest(server, "POST", "topics", {"name": "t", "partitions": 2})
    for path, status in (
        ("topics/x/events", 404),
        ("topics/t/events?partition=2", 404),
        ("topics/t/events?from=never", 400),
    ):
        assert rest(server, "GET", path).status == status
    bad = rest(server, "GET", "topics/t/events", headers={"Last-Event-ID": "x"})
    assert bad.status == 422


def test_a_stream_ends_with_an_error_when_its_topic_is_deleted(server: ServerProcess) -> None:
    rest(server, "POST", "topics", {"name": "t", "partitions": 1})
    with EventStream(server, "topics/t/events") as stream:
        assert rest(server, "DELETE", "topics/t").status == 204
        (event,) = stream
    assert (event.kind, event.data["title"]) == ("error", "TopicNotExist")


def test_streams_and_long_polls_do_not_hold_up_the_servers_end(server: ServerProcess) -> None:
    rest(server, "POST", "topics", {"name": "t", "partitions": 1})
    polled: list[int] = []
    path = "topics/t/partitions/0/messages?at=end&wait_s=30"
    poll = threading.Thread(target=lambda: polled.append(rest(server, "GET", path).status))
    with EventStream(server, "topics/t/events") as stream:
        poll.start()
        eventually("the stream and the poll wait", lambda: figure(server, "gets_waiting") == 2)
        assert server.stop() == 0
        assert list(stream) == []  # ended as it should, not cut
    poll.join(limit_s())
    assert polled == [503]  # after its 30 s it would have had an empty answer
    assert "Traceback" not in server.stderr()


def read_late(server: ServerProcess, trust: ssl.SSLContext | None = None) -> int:
    """Bytes of everything that the server sends to a client that does not read until it is cut."""
    cut = figure(server, "connections_cut_total", trust)
    slow = socket.socket()
    slow.settimeout(limit_s())
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    slow.connect(("127.0.0.1", server.port))
    if trust is not None:
        slow = trust.wrap_socket(slow, server_hostname="127.0.0.1")
    with slow:
        headers = "".join(f"{name}: {value}\r\n" for name, value in authorization().items())
        line = "GET /rest/v1/topics/t/events?from=start HTTP/1.1\r\nHost: t\r\n"
        slow.sendall(f"{line}{headers}\r\n".encode())
        eventually(
            "the server cuts the client",
            lambda: figure(server, "connections_cut_total", trust) > cut,
        )
        received = 0
        try:
            while chunk := slow.recv(1 << 16):
                received += len(chunk)
        except (ConnectionResetError, ssl.SSLError):
            pass
        return received


def test_a_client_that_does_not_read_is_cut(server: ServerProcess) -> None:
    rest(server, "POST", "topics", {"name": "t", "partitions": 1})
    for _ in range(MESSAGES):
        put(server, 0, "x" * MESSAGE_BYTES)
    assert read_late(server) < MESSAGES * MESSAGE_BYTES
    put(server, 0, "still serving")


def test_a_connection_serves_on_after_a_stream(server: ServerProcess) -> None:
    rest(server, "POST", "topics", {"name": "t", "partitions": 1})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=limit_s())
    for path, begin in (("topics/t/events?limit_s=0", b"retry: "), ("status", b'{"server": ')) * 2:
        connection.request("GET", f"/rest/v1/{path}", headers=authorization())
        assert connection.getresponse().read().startswith(begin)
    connection.close()


def test_a_client_that_knows_no_chunks_reads_up_to_the_end(server: ServerProcess) -> None:
    rest(server, "POST", "topics", {"name": "t", "partitions": 1})
    put(server, 0, "only")
    lines = "".join(f"{name}: {value}\r\n" for name, value in authorization().items())
    for version, more in (("1.0", ""), ("1.0", "Connection: keep-alive\r\n"),
                          ("1.1", "Connection: close\r\n")):  # fmt: skip
        with socket.create_connection(("127.0.0.1", server.port), timeout=limit_s()) as old:
            path = "/rest/v1/topics/t/events?from=start&limit_s=1&encoding=text"
            old.sendall(f"GET {path} HTTP/{version}\r\nHost: t\r\n{lines}{more}\r\n".encode())
            received = b""
            while chunk := old.recv(1 << 16):
                received += chunk
        head, body = received.split(b"\r\n\r\n", 1)
        assert b"Transfer-Encoding" not in head
        assert body.endswith(b'"text": "only"}\n\n')


def test_streams_over_tls_follow_end_and_cut_slow_clients(tmp_path: Path) -> None:
    folder = TlsFolder(tmp_path)
    trust = folder.trust()
    server = ServerProcess(tmp_path, f"[http]\nwrite_stall_s = 1.0\n{folder.section()}").start()
    try:
        rest(server, "POST", "topics", {"name": "t", "partitions": 1}, trust=trust)
        path = "topics/t/partitions/0/messages"
        with EventStream(server, "topics/t/events?encoding=text", trust=trust) as stream:
            rest(server, "POST", path, {"messages": [{"text": "a"}]}, trust=trust)
            assert texts(stream, 1) == ["a"]
        for _ in range(MESSAGES):
            sent = {"messages": [{"text": "x" * MESSAGE_BYTES}]}
            rest(server, "POST", path, sent, trust=trust)
        assert read_late(server, trust) < MESSAGES * MESSAGE_BYTES
        with EventStream(server, "topics/t/events", trust=trust) as stream:
            assert server.stop() == 0
            assert list(stream) == []
    finally:
        server.kill()
