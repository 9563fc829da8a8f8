"""Servers that the tests of a job share, one per configuration.

A test takes topics of its own names, or a tenant, and starts a server of its own only to hurt it.
After each test all of them must be well; a test that leaves one in trouble fails, and the next one
gets another server: a fixture that looks one up has the scope of a test, unless it prepares it.
Over TLS they are not shared: those servers are about their certificates.
"""

import http.client
import uuid
from pathlib import Path

from tests.e2e.rest.client import rest
from tests.server_process import Key, ServerProcess
from tests.waiting import limit_s


class SharedServers:
    """The servers of this process by configuration."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[str, ServerProcess] = {}
        self._started = 0

    def get(self, config: str = "") -> ServerProcess:
        """The server with a configuration, the text of a TOML file."""
        if config not in self._servers:
            self._started += 1
            server = ServerProcess(self._folder / f"server-{self._started}", config)
            self._servers[config] = server.start()
        return self._servers[config]

    def take_unwell(self) -> list[str]:
        """What is wrong, with each that is not well; they are ended and given to no test more."""
        found = {config: _illness(server) for config, server in self._servers.items()}
        problems = {config: problem for config, problem in found.items() if problem}
        for config in problems:
            self._servers.pop(config).kill()
        return [f"shared server {config!r}: {problem}" for config, problem in problems.items()]

    def stop(self) -> None:
        """End all."""
        while self._servers:
            self._servers.popitem()[1].stop()


def _illness(server: ServerProcess) -> str:
    trouble = server.trouble()
    if trouble or server.process is None:
        return trouble or "was stopped"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=limit_s())
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"its health cannot be asked for: {error!r}"
    finally:
        connection.close()
    return "" if status == http.client.OK else f"it is unhealthy: status {status}"


def tenant(server: ServerProcess) -> Key:
    """The key of a new user, whose names of topics and groups are nobody else's."""
    name = f"tenant-{uuid.uuid4().hex[:12]}"
    made = rest(server, "POST", "principals", {"id": name})
    assert made.status == http.client.CREATED, made
    made = rest(server, "POST", f"principals/{name}/keys")
    return Key(made.document["key_id"], made.document["secret"])
