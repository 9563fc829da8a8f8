"""Loaded by Python at start in the SDK's test processes, through PYTHONPATH.

The SDK learns its own address by connecting a UDP socket to a public one (nothing is sent), which
raises without a default route. Here such a connect goes to loopback instead, so the tests need no
network at all and the SDK stays unmodified.
"""

import socket
from typing import Any

_connect = socket.socket.connect


def _connect_on_this_machine(self: socket.socket, address: Any) -> None:
    if self.type == socket.SOCK_DGRAM and self.family == socket.AF_INET:
        address = ("127.0.0.1", address[1])
    _connect(self, address)


setattr(socket.socket, "connect", _connect_on_this_machine)  # noqa: B010  # read-only to mypy
