"""A server waits for the backends of its cluster, logs now and then, and gives up in time."""

import asyncio
import logging
from pathlib import Path

import pytest

from opentalos.model.errors import ConfigError, StoreUnavailable
from opentalos.server import stores
from opentalos.server.config import Config, parse_config

PATIENT = {
    "files": "hdfs://n:1/t", "meta": "zookeeper://z:1/t", "rows": "hbase://z:1/t",
    "open_timeout_s": 0.3,
}  # fmt: skip


class Opened:
    """A store that closes."""

    closed = False

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr(stores, "_RETRY_S", 0.01)
    monkeypatch.setattr(stores, "REPORT_INTERVAL_S", 0.05)
    return parse_config({"storage": PATIENT}, "x")


async def test_a_server_waits_for_a_backend_that_starts_later(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []
    made = Opened()

    async def open_late(*_: object) -> Opened:
        attempts.append(1)
        if len(attempts) < 4:
            raise StoreUnavailable("connection refused")
        return made

    for name in ("open_files", "open_meta", "open_rows"):
        monkeypatch.setattr(stores, name, open_late)
    opened = await stores.open_stores(config, Path("unused"))
    await opened.close()
    assert made.closed


@pytest.mark.parametrize("hangs", [False, True])
async def test_an_unreachable_backend_is_named_again_and_again_then_refused(
    config: Config, hangs: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = Opened()

    async def open_files(*_: object) -> Opened:
        return files

    async def never(*_: object) -> Opened:
        if hangs:
            await asyncio.sleep(3600)
        raise StoreUnavailable("connection refused")

    monkeypatch.setattr(stores, "open_files", open_files)
    monkeypatch.setattr(stores, "open_meta", never)
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(ConfigError, match=r"cannot reach zookeeper://z:1/t: .*gave up after 0.3 s"),
    ):
        await stores.open_stores(config, Path("unused"))
    reason = "no answer yet" if hangs else "connection refused"
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) >= 3
    assert all(f"waiting for zookeeper://z:1/t: {reason}; giving up in " in line for line in lines)
    assert files.closed
