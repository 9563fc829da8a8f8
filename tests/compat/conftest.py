"""A real server per module, and a runner for programs of the official SDK."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.server_process import ROOT_KEY, Key, ServerProcess
from tests.shared_servers import SharedServers
from tests.waiting import completed, scale

ROOT = Path(__file__).resolve().parent.parent.parent
SDK_PYTHON = ROOT / ".sdk-venv" / "bin" / "python"
SDS_PYTHON = ROOT / ".sds-venv" / "bin" / "python"
PROGRAMS = Path(__file__).parent / "sdk_programs"
SDS_PROGRAMS = Path(__file__).parent / "sds_programs"
# Short, so that a killed worker's partitions pass on while a test waits; but its renewals, which
# follow each other after 0.4 s, must come in time on a slow machine, too.
LEASE_S = 4.0 * scale()
NO_NETWORK = Path(__file__).parent / "no_network"


def sdk_environment() -> dict[str, str]:
    """The environment of SDK processes: no proxies, no network, our shim at start."""
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return {**kept, "PYTHONPATH": str(NO_NETWORK), "PYTHONWARNINGS": "ignore"}


@dataclass(frozen=True)
class Sdk:
    """Runs SDK programs against one server."""

    server: ServerProcess
    environment: dict[str, str] = field(default_factory=dict)  # beside sdk_environment's
    python: Path = SDK_PYTHON
    programs: Path = PROGRAMS

    def command(self, program: str, *, key: Key = ROOT_KEY, **arguments: Any) -> list[str]:
        """The command line of a program."""
        whole = {"url": self.server.url, "key_id": key.key_id, "secret": key.secret, **arguments}
        return [str(self.python), str(self.programs / f"{program}.py"), json.dumps(whole)]

    def run(self, program: str, *, key: Key = ROOT_KEY, **arguments: Any) -> list[dict[str, Any]]:
        """Run a program to its end and return the lines of its result."""
        done = completed(
            self.command(program, key=key, **arguments),
            env={**sdk_environment(), **self.environment},
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{done.stderr}\nserver:\n{self.server.stderr()}"
        return [json.loads(line) for line in done.stdout.splitlines()]

    def topic(self, name: str, *, partitions: int = 1, **attributes: str) -> str:
        """Create a topic and return its resource name."""
        made = self.run(
            "create_topic", topic=name, partitions=partitions, attributes=attributes or None
        )
        return str(made[0]["resource"])


@pytest.fixture(scope="session")
def server(servers: SharedServers) -> ServerProcess:
    return servers.get(f"[group]\nlease_s = {LEASE_S}\n")


@pytest.fixture(scope="module")
def sdk(server: ServerProcess) -> Sdk:
    assert SDK_PYTHON.exists(), "no .sdk-venv: make setup"
    return Sdk(server)


@pytest.fixture(scope="module")
def sds(server: ServerProcess) -> Sdk:
    assert SDS_PYTHON.exists(), "no .sds-venv: make setup"
    return Sdk(server, python=SDS_PYTHON, programs=SDS_PROGRAMS)
