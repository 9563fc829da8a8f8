"""A server with a journal on a real HDFS: few open files, and nothing lost when it is killed."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.hdfs.conftest import Place
from tests.e2e.hdfs.journal_writer import payload_of, topic_of
from tests.open_files import open_files
from tests.waiting import eventually_async

from opentalos.adapters.sqlite import open_sqlite_meta_store
from opentalos.adapters.system_clock import SystemClock
from opentalos.log.log_store import LogStore
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import TalosError
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability
from opentalos.server.measuring.capacity import HDFS_FILES_MAX

pytestmark = pytest.mark.backend

WRITER = Path(__file__).parent / "journal_writer.py"
PUTS = 12  # of each partition
PUTS_MIN = 3_000  # of all
# A journal so small that segments are written out, closed and rolled all the time.
SETTINGS = {"journal": "on", "journal_files_open_max": 3, "journal_bytes_max": 2 << 20}


@pytest.mark.parametrize(
    ("durability", "partitions"),
    [(Durability.SYNCED, 300), (Durability.FLUSHED, 60), (Durability.FLUSHED, 6)],
)
async def test_a_killed_server_had_few_files_open_and_loses_nothing(
    place: Place, tmp_path: Path, durability: Durability, partitions: int
) -> None:
    topic = topic_of(durability)
    meta = tmp_path / "meta.db"
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(WRITER), place.url, str(meta), str(place.backends.jars),
        json.dumps(place._settings({})), json.dumps(SETTINGS), str(partitions),
        durability.value,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    client = await place.store()
    acked = [-1] * partitions
    most = 0
    try:
        assert child.stdout is not None
        count, began_s = 0, time.monotonic()
        while count < max(PUTS * partitions, PUTS_MIN):
            line = await child.stdout.readline()
            assert line, "the server ended"
            partition, number = map(int, line.split())
            acked[partition], count = max(acked[partition], number), count + 1
            if count % 50 == 0:
                listed = await asyncio.to_thread(open_files, client._client)
                most = max(most, sum(map(len, listed.values())))
        rate = count / (time.monotonic() - began_s)
    finally:
        child.kill()
        rest, _ = await child.communicate()
    for line in rest.splitlines(keepends=True):
        if line.endswith(b"\n"):
            partition, number = map(int, line.split())
            acked[partition] = max(acked[partition], number)
    sys.stderr.write(f"{rate:.0f} puts/s over {partitions} partitions, {most} files open\n")
    assert 0 < most <= HDFS_FILES_MAX
    successor = await opened(place, meta)
    began_s = time.monotonic()
    found = await asyncio.gather(
        *(messages(successor.partition(topic, at)) for at in range(partitions))
    )
    sys.stderr.write(f"recovered in {time.monotonic() - began_s:.1f} s\n")
    for partition, payloads in enumerate(found):
        assert len(payloads) > acked[partition], partition
        assert payloads == [payload_of(partition, number) for number in range(len(payloads))]
    await successor.close()


async def opened(place: Place, meta: Path) -> LogStore:
    store = LogStore(
        files=await place.store(),
        meta=await open_sqlite_meta_store(meta),
        clock=SystemClock(),
        server="s2",
        limits=LogLimits(**SETTINGS, close_s=30.0),  # type: ignore[arg-type]
    )
    await store.start()
    return store


async def messages(log: PartitionLog) -> list[bytes]:
    async def recovered() -> tuple[list[bytes]] | None:
        try:
            return (await _messages(log, lambda offset: log.range().next > offset),)
        except TalosError:  # its recovery is tried again
            return None

    found = await eventually_async("a partition is recovered", recovered)
    assert found is not None
    return found[0]


async def _messages(log: PartitionLog, more: Callable[[int], bool]) -> list[bytes]:
    await log.offsets()
    found: list[bytes] = []
    offset = 0
    while more(offset):
        result = await log.read(offset, messages_max=1_000, bytes_max=1 << 20)
        found += [bytes(item.payload) for item in result.blocks]
        offset = result.blocks[-1].next_offset
    return found
