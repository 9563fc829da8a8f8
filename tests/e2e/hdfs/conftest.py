"""Stores on the real HDFS of the session, and what is done to its daemons."""

import asyncio
import contextlib
import json
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import RunningBackends
from tests.waiting import eventually_async, limit_s, scale

from opentalos.adapters.hdfs import (
    HdfsAppendFile,
    HdfsFileStore,
    open_hdfs_file_store,
    silent_nodes,
)
from opentalos.backends.hadoop.hdfs import HdfsBackend
from opentalos.model.errors import OutcomeUnknown, RecoveryStuck
from opentalos.model.limits import HdfsLimits, JvmLimits
from opentalos.model.message import Durability

BLOCK_BYTES = 16 << 20
STUCK_S = 45.0  # a take-over takes a heartbeat of 1 s, or 30 if one failed on a DataNode
RECORD_BYTES = 8
CHUNK_BYTES = 512  # dfs.bytes-per-checksum
CHUNK_RECORDS = CHUNK_BYTES // RECORD_BYTES
RECORDS_MAX = 1_000_000
WRITER = Path(__file__).parent / "writer.py"


class Place:
    """A folder of a test in the real HDFS, and its stores."""

    def __init__(self, backends: RunningBackends) -> None:
        self.backends = backends
        self.hdfs: HdfsBackend = backends.fleet.hdfs
        self.url = f"{backends.hdfs_url}/e2e/{uuid.uuid4().hex}"
        self._stores: list[HdfsFileStore] = []
        self.restarted: set[str] = set()  # files that needed all DataNodes to start again

    def limits(self, **changes: float) -> HdfsLimits:
        """What the tests use, with changes."""
        return HdfsLimits(**self._settings(changes))

    def _settings(self, changes: dict[str, float]) -> dict[str, Any]:
        conf_dir = str(self.backends.hdfs_conf_dir)
        return {"replication": 3, "block_bytes": BLOCK_BYTES, "conf_dir": conf_dir, **changes}

    async def store(self, **changes: float) -> HdfsFileStore:
        """Another client of the folder."""
        jvm = JvmLimits(jars=str(self.backends.jars))
        store = await open_hdfs_file_store(self.url, jvm, self.limits(**changes))
        self._stores.append(store)
        return store

    async def close(self) -> None:
        """Close the stores."""
        for store in self._stores:
            await store.close()

    @contextlib.asynccontextmanager
    async def killed(self, name: str) -> AsyncIterator[None]:
        """A daemon is dead within this block; after it HDFS is whole again."""
        await asyncio.to_thread(self.hdfs.daemon(name).kill)
        try:
            yield
        finally:
            self.hdfs.start_daemon(name)
            await self.whole()

    @contextlib.asynccontextmanager
    async def paused(self, name: str) -> AsyncIterator[None]:
        """A daemon hangs, its connections open, within this block; after it HDFS is whole."""
        daemon = self.hdfs.daemon(name)
        daemon.pause()
        try:
            yield
        finally:
            daemon.resume()
            await self.whole()

    async def whole(self) -> None:
        """Return when new files get all DataNodes again; one that was away is left out at first."""
        await asyncio.to_thread(self.hdfs.wait_ready, print)
        store = await self.store()

        async def has_all() -> bool:
            file = await store.create(f"probe/{uuid.uuid4().hex}", durability=Durability.FLUSHED)
            try:
                await file.commit([b"probe"])
                nodes = len(self.pipeline(file))
                await file.close()
            except OutcomeUnknown:
                return False
            return nodes == self.hdfs.datanodes

        await eventually_async("a new file gets all DataNodes", has_all)

    async def writer(self, store: HdfsFileStore, path: str) -> "BusyWriter":
        """A writer with 20 records on all DataNodes; one that was silent is left out at first.

        A file that got fewer is deleted and created again.
        """

        async def on_all() -> BusyWriter | None:
            writer = BusyWriter(await store.create(path, durability=Durability.SYNCED))
            await writer.reach(20)
            if len(self.pipeline(writer.file)) == self.hdfs.datanodes:
                return writer
            await writer.stop()
            await writer.file.close()
            await store.delete(path)
            return None

        made = await eventually_async("a writer gets all DataNodes", on_all)
        assert made is not None
        return made

    async def recovered(self, store: HdfsFileStore, path: str) -> int:
        """The length of a file that is taken from a writer that continues.

        Several replicas, each caught in the middle of a write, may all refuse to be recovered
        ("Block length mismatch"), and refuse for good. Then it continues as an operator would: the
        DataNodes are started again. One then drops the last chunk of a replica whose checksum does
        not match, and with it up to 511 bytes that were on disk (docs/operating/hdfs.md).
        """
        with contextlib.suppress(RecoveryStuck):
            return await store.recover(path, deadline_s=STUCK_S * scale())
        for number in range(1, self.hdfs.datanodes + 1):
            async with self.killed(f"dn{number}"):
                pass
        self.restarted.add(path)
        return await store.recover(path, deadline_s=limit_s())

    def pipeline(self, file: HdfsAppendFile) -> list[str]:
        """The DataNodes that a file is being written to, by the names of their daemons."""
        names = {str(port): name for name, port in self.hdfs.ports.items()}
        nodes = file._stream.getWrappedStream().getPipeline()
        return [names[str(node.getXferAddr()).rpartition(":")[2]] for node in nodes]

    @contextlib.asynccontextmanager
    async def process(self, path: str, **changes: float) -> AsyncIterator["WriterProcess"]:
        """A process that creates ``path`` and commits records for as long as HDFS lets it."""
        child = await asyncio.create_subprocess_exec(
            sys.executable, str(WRITER), self.url, path, str(self.backends.jars),
            json.dumps(self._settings(changes)), stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            yield WriterProcess(child)
        finally:
            if child.returncode is None:
                child.kill()
            await child.communicate()


class WriterProcess:
    """A writer outside; it reports every record before and after its commit."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self.child = child
        self.acked = 0
        self.started = 0
        self.end = ""

    async def read(self, until: Callable[["WriterProcess"], bool]) -> None:
        """Take in lines until the condition holds or the process ends."""
        assert self.child.stdout is not None
        while not until(self):
            line = await self.child.stdout.readline()
            if not line:
                return
            word, _, rest = line.decode().strip().partition(" ")
            if word == "start":
                self.started = int(rest)
            elif word == "acked":
                self.acked = int(rest)
            else:
                self.end = rest


class BusyWriter:
    """Commits numbered records one after the other for as long as the store lets it."""

    def __init__(self, file: HdfsAppendFile) -> None:
        self.file, self.acked = file, 0
        self._stopping = False
        self.task = asyncio.ensure_future(self._run())

    async def reach(self, acked: int) -> None:
        """Return once so many records are acknowledged; an error of the writer is raised."""

        def is_reached() -> bool:
            if self.acked < acked and self.task.done():
                self.task.result()
            return self.acked >= acked

        await eventually_async(f"{acked} records are acknowledged", is_reached)

    async def fails(self) -> OutcomeUnknown:
        """The error that ends the writer."""
        with pytest.raises(OutcomeUnknown) as caught:
            await self.task
        return caught.value

    async def stop(self) -> None:
        """End the writer between two commits."""
        self._stopping = True
        await self.task

    async def _run(self) -> None:
        while self.acked < RECORDS_MAX and not self._stopping:
            await self.file.commit([record(self.acked)])
            self.acked += 1


def record(number: int) -> bytes:
    """A record of ``RECORD_BYTES``."""
    return b"%07d\n" % number


def assert_records(content: bytes, acked: int, *, chunk_lost: bool = False) -> None:
    """Every acknowledged record is there, in order, and at most one more: its outcome was open.

    Args: chunk_lost: whether HDFS may have dropped the last chunk, as ``Place.recovered`` says.
    """
    whole = len(content) // RECORD_BYTES
    allowed = {acked, acked + 1}
    if chunk_lost:
        allowed |= {(each * RECORD_BYTES - 1) // CHUNK_BYTES * CHUNK_RECORDS for each in allowed}
    assert whole in allowed, f"{acked} acknowledged, {whole} found"
    expected = b"".join(map(record, range(whole + 1)))
    assert expected.startswith(content)


@pytest.fixture
async def place(backends: RunningBackends, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    # On a slow machine a DataNode that lives answers later.
    monkeypatch.setattr(silent_nodes, "PROBE_S", silent_nodes.PROBE_S * scale())
    made = Place(backends)
    try:
        yield made
    finally:
        await made.close()
