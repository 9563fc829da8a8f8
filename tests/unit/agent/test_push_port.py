"""Only programs that may push do so: no page in a browser, and nobody without the key."""

from pathlib import Path

import pytest

from opentalos.agent.push_port import PushPort, read_push_key
from opentalos.agent.pushed_points import PushedPoints
from opentalos.gateway.http.exchange import Exchange
from opentalos.model.errors import ConfigError

KEY = b"a key of the operator"
BODY = b'[{"endpoint":"e","metric":"m","timestamp":1,"step":60,"value":1,"counterType":"GAUGE"}]'


class Replies:
    """A connection that keeps the status of each reply."""

    alive, secure, peer, network, certificate = True, False, "10.0.0.9", "10.0.0.9", None

    def __init__(self) -> None:
        self.statuses: list[int] = []

    def answer(self, exchange: Exchange, prefix: bytes, body: bytes, extra: bytes) -> None:
        self.statuses.append(int(prefix.split(b" ")[1]))


def _push(port: PushPort, url: bytes = b"/v1/push", **headers: bytes) -> int:
    replies = Replies()
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    exchange = Exchange(replies, b"POST", url, named)  # type: ignore[arg-type]
    exchange.body = BODY
    port.serve(exchange)
    (status,) = replies.statuses
    return status


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": b"http://evil.example"},
        {"origin": b"null"},
        {"origin": b"http://127.0.0.1:1988"},
        {"sec_fetch_site": b"cross-site"},
        {"sec_fetch_mode": b"no-cors"},
    ],
)
def test_a_page_in_a_browser_cannot_push(headers: dict[str, bytes]) -> None:
    points = PushedPoints()
    port = PushPort(points)
    assert _push(port, **headers) == 403
    assert (points.points, port.refused) == (0, 1)


def test_a_program_on_this_machine_pushes_without_a_key() -> None:
    points = PushedPoints()
    assert _push(PushPort(points)) == 200
    assert points.points == 1


def test_a_key_is_taken_from_the_header_or_the_url() -> None:
    port = PushPort(PushedPoints(), KEY)
    assert _push(port, authorization=b"Bearer " + KEY) == 200
    assert _push(port, b"/v1/push?key=a+key+of+the%20operator") == 200


@pytest.mark.parametrize(
    ("url", "header"),
    [
        (b"/v1/push", b""),
        (b"/v1/push", b"Bearer "),
        (b"/v1/push", b"Bearer another"),
        (b"/v1/push", b"Basic " + KEY),
        (b"/v1/push?key=", b""),
        (b"/v1/push?key=another", b""),
        (b"/v1/push?" + b"key=a&" * 20, b""),
    ],
)
def test_without_the_key_nothing_is_pushed(url: bytes, header: bytes) -> None:
    points = PushedPoints()
    assert _push(PushPort(points, KEY), url, authorization=header) == 401
    assert points.points == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.7", "::", "agent.example"])
def test_an_agent_beyond_loopback_needs_a_key(host: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without a key"):
        read_push_key(None, host)
    path = tmp_path / "key"
    path.write_bytes(KEY + b"\n")
    path.chmod(0o600)
    assert read_push_key(path, host) == KEY


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_an_agent_on_loopback_needs_none(host: str) -> None:
    assert read_push_key(None, host) == b""


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [(KEY, 0o640, "other users can read"), (b"short", 0o600, "may be guessed")],
)
def test_a_key_that_others_know_is_refused(
    content: bytes, mode: int, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=reason):
        read_push_key(path, "127.0.0.1")
    with pytest.raises(ConfigError, match="cannot read"):
        read_push_key(tmp_path / "absent", "127.0.0.1")
