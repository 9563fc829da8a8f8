"""The advertised address; a start that is retried."""

import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.adapters.system_clock import SystemClock
from opentalos.model.errors import StoreUnavailable
from opentalos.server import lifecycle
from opentalos.server.config import Config, parse_config
from opentalos.server.data_directory import DataDirectory
from opentalos.server.lifecycle import (
    _address,
    _broker_config,
    _member_log,
    _reachable,
    open_with_retries,
)

CLUSTER = {
    "files": "file:///shared",
    "files_shared": True,
    "meta": "zookeeper://127.0.0.1:1/t",
    "rows": "hbase://127.0.0.1:1/t",
}
ON_HDFS = CLUSTER | {"files": "hdfs://127.0.0.1:1/t", "files_shared": False}


class FailingStart:
    """Stands for ``open_server``: fails so often, then gives a server."""

    def __init__(self, failures: int) -> None:
        self.failures, self.calls = failures, 0

    async def __call__(self, *_: object) -> Any:
        self.calls += 1
        if self.calls <= self.failures:
            raise StoreUnavailable("no connection")
        return "server"


async def start(patch: pytest.MonkeyPatch, opener: FailingStart, config: Config, data: Path) -> Any:
    patch.setattr(lifecycle, "open_server", opener)
    patch.setattr(lifecycle, "_START_RETRY_S", 0.001)
    directory = DataDirectory(data, SystemClock())
    try:
        return await open_with_retries(config, directory, None)
    finally:
        directory.close()


async def test_a_member_starts_again_when_a_backend_fails_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opener = FailingStart(2)
    config = parse_config({"storage": CLUSTER}, "test")
    assert await start(monkeypatch, opener, config, tmp_path) == "server"
    assert opener.calls == 3


async def test_the_patience_of_a_start_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = parse_config({"storage": {**CLUSTER, "open_timeout_s": 0.05}}, "test")
    with pytest.raises(StoreUnavailable):
        await start(monkeypatch, FailingStart(10_000), config, tmp_path)


async def test_one_server_alone_fails_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opener = FailingStart(1)
    with pytest.raises(StoreUnavailable):
        await start(monkeypatch, opener, Config(), tmp_path)
    assert opener.calls == 1


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1:5"), ("::1", "[::1]:5"), ("h.example", "h.example:5")],
)
def test_the_address_listened_on_is_advertised(host: str, address: str) -> None:
    assert _address(host, 5) == address
    assert _reachable(host, 5) == address


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_wildcard_is_never_advertised(host: str, caplog: pytest.LogCaptureFixture) -> None:
    assert _reachable(host, 5) == f"{socket.gethostname()}:5"
    assert "--advertise" in caplog.text


def test_lending_knows_the_time_of_requests_under_way() -> None:
    config = parse_config({"storage": CLUSTER, "http": {"drain_s": 2.5}}, "test")
    stores: Any = SimpleNamespace(native_commits=False, offload=None)
    assert _broker_config(config, stores, "a", bytes(32)).drain_s == 2.5


@pytest.mark.parametrize(
    ("log", "hard_max_bytes"),
    [
        ({}, (256 - 20 - 1) << 20),  # the default is more than a block of HDFS can hold
        ({"segment_bytes_hard_max": 200 << 20}, 200 << 20),
    ],
)
def test_a_segment_stays_within_a_block_of_hdfs(log: dict[str, int], hard_max_bytes: int) -> None:
    config = parse_config({"storage": ON_HDFS, "log": log}, "x")
    assert _member_log(config.log, config).segment_bytes_hard_max == hard_max_bytes


@pytest.mark.parametrize("module", ["cramjam", "cryptography.x509"])
def test_a_server_that_needs_no_such_module_does_not_spend_memory_on_it(module: str) -> None:
    parts = "opentalos.server.lifecycle, opentalos.server.ports.gateways, opentalos.server.stores"
    check = f"import sys, {parts}; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0
