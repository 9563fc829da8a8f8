"""The proxy of tests leaves nothing open: what it forgets would fail another test."""

import gc
import socket

from tests.tcp_proxy import HOST, TcpProxy

CONNECTIONS = 20


def test_a_proxy_that_ends_closes_what_it_has_just_taken() -> None:
    with socket.create_server((HOST, 0), backlog=CONNECTIONS) as target:
        for _ in range(5):
            proxy = TcpProxy(target.getsockname()[1])
            clients = [socket.create_connection((HOST, proxy.port)) for _ in range(CONNECTIONS)]
            proxy.close()
            for client in clients:
                client.close()
            gc.collect()  # an open transport warns, which fails the test
