"""What work outside the gateways knows of the request under way."""

from types import SimpleNamespace
from typing import cast

from opentalos.gateway.http.connection import HttpConnection
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.request_scope import current_peer, request_scope


def exchange() -> Exchange:
    connection = SimpleNamespace(peer="10.0.0.7")
    return Exchange(cast(HttpConnection, connection), b"GET", b"/x", {})


def test_the_address_is_the_clients_also_of_a_forwarded_request() -> None:
    assert current_peer() == ""
    direct, forwarded = exchange(), exchange()
    forwarded.client = "192.0.2.1"
    with request_scope(direct):
        assert current_peer() == "10.0.0.7"
    with request_scope(forwarded):
        assert current_peer() == "192.0.2.1"
    assert current_peer() == ""
