"""Whether the port of a server is free, asked before anything is written for the server."""

import errno
import json
import socket
from pathlib import Path
from typing import Final

import psutil

from opentalos.model.errors import ConfigError

_BACKLOG: Final = 1


def check_port(host: str, port: int, data: Path) -> None:
    """Check that a server can listen there; on port 0 it always can. ``data``: its data directory.

    Another program may still take the port before the server does; that fails later.

    Raises: ConfigError: the port is in use, with who uses it as far as this user may know, or the
    address is not one of this machine.
    """
    if not port:
        return
    listen = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                # As the server itself: connections of a former one that linger do not count.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
                probe.listen(_BACKLOG)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise ConfigError(f"cannot listen on {listen}: {error.strerror or error}") from error
        raise ConfigError(
            f"cannot listen on {listen}: {_user_of(port, data)}; stop it, or choose another port "
            "with --listen"
        ) from error


def _user_of(port: int, data: Path) -> str:
    """Who listens on the port; no command line, which may contain secrets."""
    pid = _listener(port)
    if pid is None:
        return "another program uses the port (another user's, or in another container)"
    try:
        named = f"process {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        named = f"process {pid}"
    if pid == _pid_of_server(data):
        return f"{named}, the server of data directory {data}, uses the port"
    return f"{named} uses the port"


def _listener(port: int) -> int | None:
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return None  # macOS shows them to root only
    for connection in connections:
        listening = connection.status == psutil.CONN_LISTEN and connection.laddr
        if listening and listening.port == port:
            return connection.pid
    return None


def _pid_of_server(data: Path) -> int | None:
    try:
        return int(json.loads((data / "server.json").read_bytes())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
