"""autoApplyQuota through the official SDK's own code: granted, rejected, left to a person."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import SDK_PYTHON, Sdk
from tests.server_process import ROOT_KEY, ServerProcess

from opentalos.cli.connection.server_options import ServerOptions
from opentalos.sdk.rest_client import RestClient

CONFIG = """[quota]
organisation_partitions = 2
[quota_approval]
capacity_partitions = 100
capacity_bytes_per_s = 200_000_000
"""
PEAK = 30_000_000  # bytes/s; needs 9 partitions


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path, CONFIG).start()
    yield running
    running.stop()


@pytest.fixture
def rest(server: ServerProcess) -> RestClient:
    key = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"
    return ServerOptions(url=server.url, key=key).rest()


def test_requests_of_an_organisation_are_answered_at_once(
    server: ServerProcess, rest: RestClient
) -> None:
    assert SDK_PYTHON.exists(), "no .sdk-venv: make setup"
    projection = {
        "tenant": "CLshop", "made_ms": int(time.time() * 1000), "days": 60, "level": PEAK,
        "trend_per_day": 0, "season": [1_000] * 7, "spread": 0, "peak": PEAK,
    }  # fmt: skip
    rest("PUT", "quota-projections", {"projections": [projection]})
    rest("POST", "principals", {"id": "olga", "organisation": "CLshop"})
    made = rest("POST", "principals/olga/keys")
    rejected, waiting, granted = Sdk(server).run(
        "quota_request",
        key=type(ROOT_KEY)(made["key_id"], made["secret"]),
        organisation="CLshop",
        totals=[64, 14, 9],
    )
    assert rejected["code"] == waiting["code"] == "QUOTA_AUTO_APPROVE_FAILED"
    assert "peaked at 30.0 MB/s" in rejected["text"]
    assert "requested 64; up to 13 would be granted automatically" in rejected["text"]
    assert (rejected["approved"], rejected["pending"]) == (2, [])
    assert "requires manual approval" in waiting["text"]
    assert (waiting["approved"], waiting["pending"]) == (2, [14])
    assert granted == {"total": 9, "approved": 9, "pending": []}
