"""What clients are told to dial."""

import socket

import pytest

from opentalos.server.lifecycle import _address, _reachable


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1:5"), ("::1", "[::1]:5"), ("h.example", "h.example:5")],
)
def test_the_address_listened_on_is_told(host: str, address: str) -> None:
    assert _address(host, 5) == address
    assert _reachable(host, 5) == address


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_wildcard_is_never_told(host: str, caplog: pytest.LogCaptureFixture) -> None:
    assert _reachable(host, 5) == f"{socket.gethostname()}:5"
    assert "--advertise" in caplog.text
