"""Loopback ports for backends, which keep them over restarts."""

import random
import socket
from pathlib import Path

from opentalos.backends.places import BackendError

HOST = "127.0.0.1"

_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 15_000
_TRIES_MAX = 1_000


def free_ports(count: int) -> list[int]:
    """Free ports below the ephemeral range.

    An ephemeral port could be taken by any client while a killed daemon is down.
    """
    highest = int(_RANGE_FILE.read_text().split()[0]) if _RANGE_FILE.exists() else 32_000
    found: list[int] = []
    for _ in range(_TRIES_MAX):
        if len(found) == count:
            return found
        port = random.randrange(_LOWEST, max(highest, _LOWEST + 1_000))
        if port not in found and _is_free(port):
            found.append(port)
    raise BackendError(f"could not find {count} free ports from {_LOWEST} to {highest}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections of an earlier listener in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
