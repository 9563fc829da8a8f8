"""How servers of a cluster start and stop, over shared stores in memory and real ports."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.test_serve import talos
from tests.raw_client import RawClient, RawTopic, TalosError
from tests.server_process import Key
from tests.waiting import eventually_async, limit_s, within_limit

from opentalos.adapters.memory import (
    MemoryFileStore,
    MemoryMetaStore,
    MemoryRowStore,
    MemoryStorage,
)
from opentalos.adapters.system_clock import SystemClock
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.model.errors import ConfigError, RequestError, StoreUnavailable
from opentalos.server import stores
from opentalos.server.config import Config, parse_config
from opentalos.server.data_directory import DataDirectory
from opentalos.server.lifecycle import Server, open_server

TOPIC_NOT_EXIST = 5
Make = Callable[..., Any]


class Bed:
    """One storage that every server reaches once it is ``up``; data directories below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.storage, self.up = folder, MemoryStorage(), True

    def config(self, name: str, port: int = 0) -> Config:
        return parse_config(
            {
                "server": {"listen": f"127.0.0.1:{port}", "data": str(self.folder / name)},
                "storage": {
                    "files": "hdfs://n:1/t", "meta": "zookeeper://z:1/t", "rows": "hbase://z:1/t",
                    "open_timeout_s": limit_s(),
                },
                "cluster": {
                    "name": name, "key_file": str(self.folder / "cluster.key"), "stop_s": 5,
                    "stable_after_s": 0, "probe_interval_s": 0.05, "probe_confirm_s": 0.05,
                    "restart_s": 6,
                },
                # Partitions of their topics are counted as well.
                "measuring": {"enabled": False},
                "audit": {"enabled": False},
            },
            name,
        )  # fmt: skip

    def opener(self, kind: Make) -> Make:
        async def open_it(*_: object) -> Any:
            if not self.up:
                raise StoreUnavailable("connection refused")
            return kind(self.storage)

        return open_it

    @asynccontextmanager
    async def server(self, name: str, *, root_key: Any = None) -> AsyncIterator[Server]:
        config = self.config(name)
        directory = DataDirectory(Path(config.server.data), SystemClock())
        try:
            server = await open_server(config, directory, root_key)
            try:
                yield server
            finally:
                await server.stop()
        finally:
            directory.close()


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    made = Bed(tmp_path)
    (tmp_path / "cluster.key").write_text("a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=\n")
    monkeypatch.setattr(stores, "open_files", made.opener(MemoryFileStore))
    monkeypatch.setattr(stores, "open_meta", made.opener(MemoryMetaStore))
    monkeypatch.setattr(stores, "open_rows", made.opener(MemoryRowStore))
    return made


def root_client(bed: Bed, server: Server) -> RawClient:
    key_id, secret = (bed.folder / "s1" / "root.key").read_text().strip().split(":")
    return RawClient(server.place.port, Key(key_id, secret))


async def test_the_first_server_alone_makes_the_administrator(
    bed: Bed, capsys: pytest.CaptureFixture[str]
) -> None:
    async with bed.server("s1") as first, bed.server("s2") as second:
        assert stat.S_IMODE((bed.folder / "s1" / "root.key").stat().st_mode) == 0o600
        assert not (bed.folder / "s2" / "root.key").exists()
        document = json.loads((bed.folder / "s2" / "server.json").read_text())
        assert document["server"] == "s2"
        assert document["advertise"] == second.place.advertise
        assert second.member is not None
        assert document["cluster"]["id"] == second.member.cluster
        client = root_client(bed, first)
        topic = await asyncio.to_thread(RawTopic.create, client, "t", partitions=4)
        other = RawTopic(root_client(bed, second), "t", topic.resource)
        for partition in range(4):
            await asyncio.to_thread(other.put, b"x", partition=partition)
        client.close()
        other.client.close()
    assert capsys.readouterr().err.count("root key: ") == 1


async def test_while_the_backends_are_awaited_the_port_answers_not_done(bed: Bed) -> None:
    bed.up = False
    config = bed.config("s1", port=_free_port())
    directory = DataDirectory(Path(config.server.data), SystemClock())
    opening = asyncio.create_task(open_server(config, directory, ("AKROOT", "s" * 24)))
    try:
        port = int(config.server.listen.rsplit(":", 1)[1])
        assert await _status(port, b"GET /healthz") == 200
        assert await _status(port, b"GET /readyz") == 503
        assert await _status(port, b"GET /rest/v1/cluster") == 503
        assert await _status(port, b"POST /v1/api/table", b"Authorization: {}\r\n") == 500
        bed.up = True
        server = await opening
        assert await _status(port, b"GET /readyz") == 200
        await server.stop()
    finally:
        directory.close()


async def test_a_server_with_another_key_is_refused_and_closes_everything(bed: Bed) -> None:
    async with bed.server("s1"):
        (bed.folder / "cluster.key").write_text("eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg=\n")
        with pytest.raises(ConfigError, match="key differs from the cluster's"):
            async with bed.server("s2"):
                pass


async def test_two_servers_of_one_name_are_refused(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.broker.cluster.membership.NAME_WAIT_S", 0.3)
    async with AsyncExitStack() as undo:
        first = await undo.enter_async_context(bed.server("s1"))
        config = bed.config("s1")
        directory = DataDirectory(bed.folder / "other", SystemClock())
        undo.callback(directory.close)
        with pytest.raises(ConfigError, match=f"named s1 is alive at {first.place.advertise}"):
            await open_server(config, directory, None)


async def test_operators_see_and_drain_servers(bed: Bed) -> None:
    async with bed.server("s1") as first, bed.server("s2"):
        client = root_client(bed, first)
        call = ServerOptions(data=bed.folder / "s1").rest()
        topic = await asyncio.to_thread(RawTopic.create, client, "t", partitions=8)
        await asyncio.to_thread(topic.put, b"x")
        client.close()
        shown = await asyncio.to_thread(call, "GET", "cluster")
        assert [server["name"] for server in shown["servers"]] == ["s1", "s2"]
        arguments = ("cluster", "drain", "s2", "--data", str(bed.folder / "s1"))
        done = await asyncio.to_thread(talos, *arguments)
        assert done.returncode == 0, done.stderr
        assert "s2 is drained" in done.stdout
        shown = await asyncio.to_thread(call, "GET", "cluster")
        states = {
            server["name"]: (server["state"], server["partitions"]) for server in shown["servers"]
        }
        assert states == {"s1": ("serving", 8), "s2": ("draining", 0)}
        listed = await asyncio.to_thread(
            talos, "cluster", "status", "--topic", "t", "--data", str(bed.folder / "s1")
        )
        assert listed.returncode == 0, listed.stderr
        assert "draining" in listed.stdout
        assert "OPENED BY" in listed.stdout
        await asyncio.to_thread(call, "DELETE", "cluster/servers/s2/drain")
        with pytest.raises(RequestError):
            await asyncio.to_thread(call, "POST", "cluster/servers/nobody/drain")


async def test_topics_made_and_deleted_are_seen_by_every_server_at_once(bed: Bed) -> None:
    async with bed.server("s1") as first, bed.server("s2") as second:
        here, there = root_client(bed, first), root_client(bed, second)
        topic = await asyncio.to_thread(RawTopic.create, here, "t", partitions=2)
        other = RawTopic(there, "t", topic.resource)
        await asyncio.to_thread(other.put, b"x", partition=1)  # no pause between
        request = _delete_request(topic)
        await asyncio.to_thread(here.call, "topic", "deleteTopic", request)

        async def deleted() -> bool:
            try:
                await asyncio.to_thread(other.get, 0, partition=1)
            except TalosError as error:
                return error.code == TOPIC_NOT_EXIST
            return False

        await eventually_async("the other server knows that the topic was deleted", deleted)
        with pytest.raises(TalosError):
            await asyncio.to_thread(other.get, 0, partition=1)
        here.close()
        there.close()


def _delete_request(topic: RawTopic) -> Any:
    from tests.raw_client import idl

    return idl("topic").DeleteTopicRequest(topicTalosResourceName=topic.resource)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _status(port: int, request: bytes, headers: bytes = b"") -> int:
    """Status of one request; waits until the port listens."""

    async def connected() -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return None

    found: Any = await eventually_async("the port listens", connected)
    reader, writer = found
    async with within_limit("the request is answered"):
        writer.write(request + b" HTTP/1.1\r\n" + headers + b"Connection: close\r\n\r\n")
        line = await reader.readline()
    writer.close()
    return int(line.split()[1])
